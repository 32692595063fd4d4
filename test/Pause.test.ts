/** A pause is the engine's own record: a node can't hide it. More ways than `Interrupt.test.ts` tries. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { Checkpointer, Graph, Interrupt, type Task } from "effect-pregel"
import { names } from "./support/graphs.js"
import { makeTrace, questions } from "./support/thread.js"

const ask = Interrupt.interrupt<string>("q")

/** Runs to the end, however long its nodes sleep. */
const eventually = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(effect)
    yield* TestClock.adjust("1 hour")
    return yield* Fiber.join(fiber)
  })

const ways: Record<string, Effect.Effect<unknown, unknown, Task.Task>> = {
  "in a daemon that is not waited for": Effect.zipRight(Effect.forkDaemon(ask), Effect.sleep("1 second")),
  "in a fiber whose exit is taken": Effect.flatMap(Effect.fork(ask), Fiber.await),
  "in an uninterruptible region": Effect.uninterruptible(Effect.zipRight(Effect.ignore(ask), Effect.sleep("1 second"))),
  "in a mask": Effect.uninterruptibleMask((restore) => Effect.exit(restore(ask))),
  "in a fiber that is disconnected": Effect.ignore(Effect.disconnect(ask)),
  "with a loser of a race": Effect.raceFirst(
    Effect.zipLeft(Effect.ignore(ask), Effect.never),
    Effect.sleep("1 second")
  ),
  "within a retry that never gives up": Effect.retry(ask, Schedule.spaced("1 second")),
  "within a repeated effect": Effect.repeat(Effect.ignore(ask), Schedule.spaced("1 second")),
  "within a stream that goes on": Stream.runDrain(Stream.concat(Stream.fromEffect(Effect.ignore(ask)), Stream.never)),
  "within a timeout": Effect.ignore(Effect.timeout(Effect.zipRight(Effect.ignore(ask), Effect.never), "1 second")),
  "as an option": Effect.option(ask),
  "as a defect": Effect.catchAllDefect(Effect.orDie(ask), () => Effect.void),
  "validated with others": Effect.ignore(Effect.all([ask, Effect.fail("other")], { mode: "validate" })),
  "in parallel with what fails first": Effect.ignore(Effect.all([ask, Effect.fail("other")], { concurrency: 2 })),
  "in a finalizer": Effect.ensuring(Effect.void, Effect.ignore(ask))
}

describe("a question is a pause, however it is asked", () => {
  for (const [way, effect] of Object.entries(ways)) {
    it.effect(way, () =>
      Effect.gen(function* () {
        const trace = makeTrace()
        const graph = Graph.make("g", names)
          .addNode("node", () =>
            Effect.acquireUseRelease(
              trace.note("acquired"),
              () => Effect.as(effect, { foo: "swallowed" }),
              () => trace.note("released")
            )
          )
          .addEdge(Graph.START, "node")
          .compile()
        const thread = graph.thread("t")
        const outcome = yield* eventually(thread.run({ foo: "x" }))
        assert.deepStrictEqual(questions(outcome), ["q"])
        assert.deepStrictEqual(outcome.state, { foo: ["x"] })
        assert.deepStrictEqual(trace.take(), ["acquired", "released"])
        assert.deepStrictEqual((yield* thread.state).next, ["node"])
      }).pipe(Effect.provide(Checkpointer.layerMemory))
    )
  }
})

it.effect("a question that a left-over fiber asks after its node has ended pauses nothing", () =>
  Effect.gen(function* () {
    const gate = yield* Deferred.make<void>()
    const asked = yield* Deferred.make<string>()
    const graph = Graph.make("g", names)
      .addNode("node", () =>
        Effect.as(
          Effect.forkDaemon(
            Deferred.await(gate).pipe(
              Effect.zipRight(ask),
              Effect.onExit((exit) => Deferred.succeed(asked, exit._tag))
            )
          ),
          { foo: "node" }
        )
      )
      .addNode("after", () =>
        Effect.zipRight(Deferred.succeed(gate, undefined), Effect.as(Effect.sleep(1), { foo: "after" }))
      )
      .addEdge(Graph.START, "node")
      .addEdge("node", "after")
      .compile()
    const thread = graph.thread("t")
    const outcome = yield* eventually(thread.run({}))
    assert.deepStrictEqual(outcome, { _tag: "Completed", state: { foo: ["node", "after"] } })
    assert.strictEqual(yield* Deferred.await(asked), "Failure")
    assert.deepStrictEqual((yield* thread.state).interrupts, [])
  }).pipe(Effect.provide(Checkpointer.layerMemory))
)
