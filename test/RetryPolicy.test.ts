import { assert, describe, it } from "@effect/vitest"
import { Clock, Data, Effect, Fiber, Random, Schema, TestClock } from "effect"
import { Channel, Graph, GraphError, Retry } from "effect-pregel"

class Flaky extends Data.TaggedError("Flaky")<{ readonly status?: number }> {}

/** A node that always fails; notes when it was tried. */
const failing = (error: Flaky) => {
  const tries: Array<number> = []
  const graph = Graph.make("failing", { done: Channel.lastValue(Schema.Boolean) })
    .addNode(
      "n",
      () =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => {
          tries.push(now)
          return Effect.fail(error)
        }),
      { retry: Retry.standard }
    )
    .addEdge(Graph.START, "n")
    .compile()
  return { graph, tries }
}

describe("the standard retry policy", () => {
  it.effect("makes three attempts, with a second's jitter on top of half a second and one", () =>
    Effect.gen(function* () {
      const { graph, tries } = failing(new Flaky({}))
      const running = yield* Effect.fork(Effect.flip(graph.invoke({})).pipe(Effect.withRandom(Random.fixed([0.25]))))
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual((yield* Fiber.join(running))._tag, "Flaky")
      assert.deepStrictEqual(tries, [0, 750, 2000])
    })
  )

  it.effect("does not repeat what another attempt can't mend", () =>
    Effect.gen(function* () {
      for (const [status, attempts] of [
        [400, 1],
        [404, 1],
        [408, 3],
        [429, 3],
        [503, 3]
      ] as const) {
        const { graph, tries } = failing(new Flaky({ status }))
        const running = yield* Effect.fork(Effect.flip(graph.invoke({})))
        yield* TestClock.adjust("10 seconds")
        yield* Fiber.join(running)
        assert.strictEqual(tries.length, attempts, `status ${status}`)
      }
      assert.isFalse(Retry.mayHelp(new TypeError("bug")))
      assert.isFalse(Retry.mayHelp(new GraphError.InvalidUpdate({ reason: "InvalidValue", detail: "" })))
      const timeout = { node: "n", kind: "run", limitMillis: 1, elapsedMillis: 1 } as const
      assert.isTrue(Retry.mayHelp(new GraphError.TaskTimeout(timeout)))
    })
  )

  it.effect("waits no longer than the longest wait", () =>
    Effect.gen(function* () {
      const tries: Array<number> = []
      const running = yield* Effect.fork(
        Effect.retry(
          Effect.flatMap(Clock.currentTimeMillis, (now) => {
            tries.push(now)
            return Effect.fail("no")
          }),
          Retry.backoff({ initial: 10, factor: 10, max: 50, attempts: 5, jitter: false })
        ).pipe(Effect.ignore)
      )
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(running)
      assert.deepStrictEqual(tries, [0, 10, 60, 110, 160])
    })
  )
})
