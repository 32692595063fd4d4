import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema, Stream } from "effect"
import { Channel, Graph, Task } from "effect-pregel"

const Progress = Schema.Struct({ done: Schema.Int, of: Schema.Int })
const report = Task.emitter(Progress)

describe("custom events", () => {
  it.effect("have the type that the graph declares", () =>
    Effect.gen(function* () {
      const graph = Graph.make("copy", { files: Channel.append(Schema.String) }, { events: Progress })
        .addNode("copy", () => Effect.as(report({ done: 1, of: 2 }), { files: "a" }))
        .addEdge(Graph.START, "copy")
        .compile()
      const events = yield* Stream.runCollect(graph.stream({}, { modes: ["custom"] }))
      const sums: ReadonlyArray<number> = Array.from(events, ({ value }) => value.done + value.of)
      assert.deepStrictEqual(sums, [3])
    })
  )

  it.effect("of another type fail the node, whether or not somebody listens", () =>
    Effect.gen(function* () {
      const graph = Graph.make("copy", { files: Channel.append(Schema.String) }, { events: Progress })
        .addNode("copy", () => Effect.as(Task.emit({ done: "one" }), { files: "a" }))
        .addEdge(Graph.START, "copy")
        .compile()
      const error = yield* Effect.flip(graph.invoke({}))
      assert.isTrue(error._tag === "InvalidUpdate" && error.node === "copy" && error.path === "done")
    })
  )
})
