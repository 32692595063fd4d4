/** Our side of the workloads: loaded only in processes that run it. */

import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Schema from "effect/Schema"
import type { Checkpointer } from "effect-pregel/Checkpointer"
import { newFile, removeFile, type Synchronous } from "./sqlite.js"
import type { Kind, Place } from "./workload.js"

export { Channel, Command, Graph, Interrupt, Send } from "effect-pregel"
export { Effect, Schema }

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
