import { assert, describe, it } from "@effect/vitest"
import { Data, Effect, Schema } from "effect"
import { Channel, Checkpointer, Graph, Interrupt } from "effect-pregel"

class Outage extends Data.TaggedError("Outage")<{}> {}

const Approve = Interrupt.make("approve", { request: Schema.String, answer: Schema.Boolean })

describe("a call that is delivered twice", () => {
  it.effect("a finished run answers from its checkpoint and runs no node", () =>
    Effect.gen(function* () {
      let runs = 0
      const thread = Graph.make("g", { log: Channel.append(Schema.String) })
        .addNode("a", () => Effect.sync(() => ({ log: `a${++runs}` })))
        .addEdge(Graph.START, "a")
        .compile()
        .thread("t")
      const first = yield* thread.invoke({ log: "in" }, { runId: "r1" })
      assert.deepStrictEqual(yield* thread.invoke({ log: "in" }, { runId: "r1" }), first)
      assert.strictEqual(runs, 1)
      assert.deepStrictEqual(yield* thread.invoke({ log: "in" }, { runId: "r2" }), { log: ["in", "a1", "in", "a2"] })
      assert.strictEqual((yield* thread.state).metadata.run_id, "r2")
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("a failed run goes on with what was left, and its input is not taken again", () =>
    Effect.gen(function* () {
      let fails = true
      const thread = Graph.make("g", { log: Channel.append(Schema.String) })
        .addNode("a", () => Effect.succeed({ log: "a" }))
        .addNode("b", () => (fails ? Effect.fail(new Outage()) : Effect.succeed({ log: "b" })))
        .addEdge(Graph.START, "a")
        .addEdge("a", "b")
        .compile()
        .thread("t")
      assert.strictEqual((yield* Effect.flip(thread.invoke({ log: "in" }, { runId: "r1" })))._tag, "Outage")
      fails = false
      assert.deepStrictEqual(yield* thread.invoke({ log: "in" }, { runId: "r1" }), { log: ["in", "a", "b"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("an answer counts once, whether or not the run got further with it", () =>
    Effect.gen(function* () {
      let fails = true
      const thread = Graph.make("g", { log: Channel.append(Schema.String) })
        .addNode("ask", () => Effect.map(Approve("ok?"), (ok) => ({ log: `answer ${ok}` })))
        .addNode("after", () => (fails ? Effect.fail(new Outage()) : Effect.succeed({ log: "after" })))
        .addEdge(Graph.START, "ask")
        .addEdge("ask", "after")
        .compile()
        .thread("t")
      assert.strictEqual((yield* Effect.flip(thread.invoke({ log: "in" }, { runId: "r1" })))._tag, "GraphInterrupt")
      const failed = yield* Effect.flip(thread.resume(Approve, true, { runId: "r2" }))
      assert.strictEqual(failed._tag, "Outage")
      fails = false
      const done = { log: ["in", "answer true", "after"] }
      assert.deepStrictEqual(yield* thread.resume(Approve, true, { runId: "r2" }), done)
      assert.deepStrictEqual(yield* thread.resume(Approve, true, { runId: "r2" }), done)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("an answer that was saved before the node ran is not refused as unknown", () =>
    Effect.gen(function* () {
      let fails = true
      const thread = Graph.make("g", { log: Channel.append(Schema.String) })
        .addNode("ask", () =>
          Effect.flatMap(Approve("ok?"), (ok) =>
            fails ? Effect.fail(new Outage()) : Effect.succeed({ log: `answer ${ok}` })
          )
        )
        .addEdge(Graph.START, "ask")
        .compile()
        .thread("t")
      yield* Effect.flip(thread.invoke({ log: "in" }))
      yield* Effect.flip(thread.resume(Approve, false, { runId: "r2" }))
      fails = false
      assert.deepStrictEqual(yield* thread.resume(Approve, false, { runId: "r2" }), { log: ["in", "answer false"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})
