import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Channel from "../src/Channel.js"
import { layerMemory } from "../src/Checkpointer.js"
import * as Graph from "../src/Graph.js"
import * as Interrupt from "../src/Interrupt.js"

const channels = {
  log: Channel.append(Schema.String),
  last: Channel.lastValue(Schema.String)
}

/** `ask` pauses while `one` and `two` finish beside it; `after` follows `ask` where the log has two entries. */
const paused = (two: { readonly log: string; readonly last?: string }) =>
  Graph.make("paused", channels)
    .addNode("ask", () => Effect.map(Interrupt.interrupt<string>("?"), (log) => ({ log })))
    .addNode("one", () => Effect.succeed({ log: "one", last: "one" }))
    .addNode("two", () => Effect.succeed(two))
    .addNode("after", (state) => Effect.succeed({ log: `after ${state.log.length}` }))
    .addEdge(Graph.START, "ask")
    .addEdge(Graph.START, "one")
    .addEdge(Graph.START, "two")
    .addConditionalEdges("ask", ({ log }) => (log.length >= 3 ? "after" : Graph.END), ["after", Graph.END])
    .compile()

describe("the state of a paused superstep", () => {
  it.effect("shows what finished tasks wrote", () =>
    Effect.gen(function* () {
      const thread = paused({ log: "two" }).thread("t")
      yield* thread.run({})
      const { next, values } = yield* thread.state
      assert.deepStrictEqual([values, next], [{ log: ["one", "two"], last: "one" }, ["ask"]])
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("shows nothing of tasks whose writes conflict, until the superstep's end tells", () =>
    Effect.gen(function* () {
      const thread = paused({ log: "two", last: "two" }).thread("t")
      const outcome = yield* thread.run({})
      assert.deepStrictEqual(outcome.state, { log: [] })
      assert.deepStrictEqual((yield* thread.state).values, { log: [] })
      const error = yield* Effect.flip(thread.answer("ask"))
      assert.strictEqual(error._tag, "InvalidUpdate")
      const { next, values } = yield* thread.state
      assert.deepStrictEqual([values, next], [{ log: ["ask"] }, ["one", "two"]])
      assert.strictEqual((yield* thread.run({}))._tag, "Paused")
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("is what an update starts from, and what its routers see", () =>
    Effect.gen(function* () {
      const thread = paused({ log: "two" }).thread("t")
      yield* thread.run({})
      yield* thread.update({ log: "asked" }, { as: "ask" })
      const { next, values } = yield* thread.state
      assert.deepStrictEqual([values.log, next], [["one", "two", "asked"], ["after"]])
      assert.deepStrictEqual((yield* thread.resume()).log, ["one", "two", "asked", "after 3"])
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("is what an update as a finished node adds to", () =>
    Effect.gen(function* () {
      const thread = paused({ log: "two" }).thread("t")
      yield* thread.run({})
      yield* thread.update({ log: "again" }, { as: "one" })
      assert.deepStrictEqual((yield* thread.state).values.log, ["one", "two", "again"])
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("is not in an old checkpoint, nor in an update there", () =>
    Effect.gen(function* () {
      const thread = paused({ log: "two" }).thread("t")
      yield* thread.run({})
      const { checkpoint } = yield* thread.state
      const old = thread.at(checkpoint!.id)
      assert.deepStrictEqual((yield* old.state).values.log, [])
      yield* old.update({ log: "asked" }, { as: "ask" })
      assert.deepStrictEqual((yield* thread.state).values.log, ["asked"])
    }).pipe(Effect.provide(layerMemory))
  )
})
