import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Schema, TestClock } from "effect"
import { Channel, Checkpointer, Graph, Timer } from "effect-pregel"

const sleeper = () => {
  let asked = 0
  const graph = Graph.make("sleeper", { log: Channel.append(Schema.String) })
    .addNode("nap", () => {
      asked++
      return Effect.as(Timer.sleep("2 days"), { log: "awake" })
    })
    .addEdge(Graph.START, "nap")
    .compile()
  return { graph, asked: () => asked }
}

describe("durable waiting", () => {
  it.effect("on a thread a sleep is a pause that says until when, and is answered when it is over", () =>
    Effect.gen(function* () {
      const { asked, graph } = sleeper()
      const thread = graph.thread("t")
      const outcome = yield* thread.run({ log: "start" })
      if (outcome._tag !== "Paused") return assert.fail("the run did not pause")
      const [pending] = outcome.interrupts
      assert.strictEqual(Timer.dueAt(pending!), 2 * 24 * 3600 * 1000)
      assert.deepStrictEqual(Timer.answersDue(outcome.interrupts, yield* Clock.currentTimeMillis), {})
      yield* TestClock.adjust("2 days")
      const due = Timer.answersDue(outcome.interrupts, yield* Clock.currentTimeMillis)
      assert.deepStrictEqual(Object.keys(due), [pending!.id])
      assert.deepStrictEqual(yield* thread.resume(due), { log: ["start", "awake"] })
      assert.strictEqual(asked(), 2)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("a sleep is counted from the first time it is asked for", () =>
    Effect.gen(function* () {
      const { graph } = sleeper()
      const thread = graph.thread("t")
      yield* thread.run({ log: "start" })
      yield* TestClock.adjust("1 day")
      yield* Effect.flip(thread.resume())
      const { interrupts } = yield* thread.state
      assert.strictEqual(Timer.dueAt(interrupts[0]!), 2 * 24 * 3600 * 1000)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("without a thread the node's fiber sleeps", () =>
    Effect.gen(function* () {
      const { graph } = sleeper()
      const running = yield* Effect.fork(graph.invoke({ log: "start" }))
      yield* TestClock.adjust("1 day")
      assert.strictEqual((yield* Fiber.poll(running))._tag, "None")
      yield* TestClock.adjust("1 day")
      assert.deepStrictEqual(yield* Fiber.join(running), { log: ["start", "awake"] })
    })
  )
})
