/** Our side of the workloads: loaded only in processes that run it. */

import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Channel, Graph } from "effect-pregel"
import type { Checkpointer } from "effect-pregel/Checkpointer"
import { newFile, removeFile, type Synchronous } from "./sqlite.js"
import type { Kind, Place } from "./workload.js"

export { Command, Interrupt, Send } from "effect-pregel"
export { Channel, Effect, Graph, Schema, Stream }

/** A graph of n nodes in a row, each adding one. */
export const chainOf = (n: number) => {
  let builder: any = Graph.make("chain", {
    count: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
  })
  for (let i = 0; i < n; i++) builder = builder.addNode(`node${i}`, () => Effect.succeed({ count: 1 }))
  builder = builder.addEdge(Graph.START, "node0")
  for (let i = 1; i < n; i++) builder = builder.addEdge(`node${i - 1}`, `node${i}`)
  return builder.compile({ recursionLimit: n + 10 }) as Graph.CompiledGraph<
    { readonly count: number },
    { readonly count: number },
    any,
    unknown,
    never,
    never
  >
}

/** A runtime with a checkpointer of some kind, new for each run. */
export class Saver {
  private file = ""
  runtime!: ManagedRuntime.ManagedRuntime<Checkpointer, unknown>
  private constructor(
    private readonly make: (file: string) => Layer.Layer<Checkpointer, unknown>,
    private readonly directory: string,
    private readonly onFile: boolean
  ) {}

  static async open(kind: Kind, { directory }: Place, synchronous: Synchronous = "normal"): Promise<Saver> {
    if (kind === "none") return new Saver(() => Layer.empty as never, directory, false)
    if (kind === "memory") {
      const { layerMemory } = await import("effect-pregel/Checkpointer")
      return new Saver(() => layerMemory, directory, false)
    }
    const { layer } = await import("effect-pregel/SqliteCheckpointer")
    return new Saver((filename) => layer({ filename, synchronous }), directory, true)
  }

  readonly before = async (): Promise<void> => {
    this.file = newFile(this.directory)
    this.runtime = ManagedRuntime.make(this.make(this.file))
    await this.runtime.runtime()
  }

  readonly after = async (): Promise<number | undefined> => {
    await this.runtime.dispose()
    return this.onFile ? removeFile(this.file) : undefined
  }
}
