/** Options that make no sense are refused before anything runs, by `compile` and by the run. */
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { Checkpointer, Graph, GraphError } from "effect-pregel"
import { names, says } from "./support/graphs.js"
import { failsWith } from "./support/thread.js"

const builder = Graph.make("g", names).addNode("a", says("a")).addEdge(Graph.START, "a")
const graph = builder.compile()

const dies = <A, E, R>(effect: Effect.Effect<A, E, R>, expected: RegExp) =>
  Effect.map(Effect.exit(effect), (exit) => {
    assert.isTrue(Exit.isFailure(exit) && Cause.isDie(exit.cause))
    assert.match(Cause.pretty((exit as Exit.Failure<A, E>).cause), expected)
  })

const wrong: ReadonlyArray<readonly [options: object, says: RegExp]> = [
  [{ recursionLimit: Number.NaN }, /recursionLimit/],
  [{ recursionLimit: -1 }, /recursionLimit/],
  [{ recursionLimit: "5" }, /recursionLimit/],
  [{ concurrency: 0 }, /concurrency/],
  [{ concurrency: Number.NaN }, /concurrency/],
  [{ concurrency: "all" }, /concurrency/],
  [{ stepTimeout: 0 }, /stepTimeout/],
  [{ stepTimeout: Number.NaN }, /stepTimeout/],
  [{ stepTimeout: "soon" }, /stepTimeout/],
  [{ durability: "often" }, /durability/]
]

describe("an option of a run that makes no sense", () => {
  for (const [options, expected] of wrong) {
    const given = JSON.stringify(options, (_, value) => (Number.isNaN(value) ? "NaN" : value))
    it.effect(`is refused: ${given}`, () =>
      Effect.gen(function* () {
        yield* dies(graph.invoke({}, options), expected)
        yield* dies(graph.thread("t").invoke({}, options), expected)
        yield* dies(Stream.runDrain(graph.stream({}, options as {})), expected)
        assert.isUndefined((yield* graph.thread("t").state).checkpoint)
        assert.throws(() => builder.compile(options), GraphError.InvalidGraph, expected)
      }).pipe(Effect.provide(Checkpointer.layerMemory))
    )
  }

  it("is told together with what is wrong with the graph", () => {
    const unfinished = Graph.make("g", names).addNode("a", says("a"))
    try {
      unfinished.compile({ concurrency: 0, metadata: { at: 1n } })
      assert.fail("it compiles")
    } catch (error) {
      assert.instanceOf(error, GraphError.InvalidGraph)
      assert.strictEqual(error.problems.length, 3)
    }
  })

  it.effect("is refused where it says what to do with a running run, or what to tell", () =>
    Effect.gen(function* () {
      const thread = graph.thread("t")
      yield* dies(thread.invoke({}, { multitask: "wait" as never }), /multitask/)
      for (const modes of [["value"], "updates", null]) {
        yield* dies(Stream.runDrain(graph.stream({}, { modes: modes as never })), /modes/)
        yield* dies(Stream.runDrain(thread.stream({}, { modes: modes as never })), /modes/)
      }
      assert.isUndefined((yield* thread.state).checkpoint)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("limits of no end are limits", () =>
    Effect.gen(function* () {
      const options = { recursionLimit: Number.POSITIVE_INFINITY, concurrency: Number.POSITIVE_INFINITY }
      assert.deepStrictEqual((yield* graph.invoke({}, options)).foo, ["a"])
      assert.deepStrictEqual((yield* graph.invoke({}, { stepTimeout: "1 minute" })).foo, ["a"])
    })
  )
})

describe("metadata that is no JSON", () => {
  const circular: Record<string, unknown> = {}
  circular.self = circular
  const values: Record<string, Record<string, unknown>> = {
    "a number that is none": { score: Number.NaN },
    "a date": { since: new Date(0) },
    "a bigint": { count: 1n },
    "a circular record": circular,
    "a class instance, deep inside": { a: [{ b: new Map() }] }
  }
  for (const [what, metadata] of Object.entries(values)) {
    it.effect(`is refused, not changed: ${what}`, () =>
      Effect.gen(function* () {
        const thread = graph.thread("t")
        const { reason } = yield* failsWith(thread.run({}, { metadata }), "CheckpointerError")
        assert.strictEqual(reason, "InvalidRequest")
        assert.isUndefined((yield* thread.state).checkpoint)
        assert.throws(() => builder.compile({ metadata }), GraphError.InvalidGraph, /metadata/)
      }).pipe(Effect.provide(Checkpointer.layerMemory))
    )
  }
})
