import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Either, Exit, Fiber, Schema, Stream } from "effect"
import { Channel, Checkpointer, Graph } from "effect-pregel"

/** Each run logs its input and waits in its second node until its gate opens; the gate tells when it is reached. */
const setup = Effect.gen(function* () {
  const reached = yield* Deferred.make<void>()
  const gate = yield* Deferred.make<void>()
  let waits = true
  const graph = Graph.make("log", { log: Channel.append(Schema.String) })
    .addNode("first", () => Effect.succeed({ log: "first" }))
    .addNode("second", () => {
      if (!waits) return Effect.succeed({ log: "second" })
      waits = false
      return Effect.zipRight(Deferred.succeed(reached, undefined), Deferred.await(gate)).pipe(
        Effect.as({ log: "second" })
      )
    })
    .addEdge(Graph.START, "first")
    .addEdge("first", "second")
    .compile()
  const thread = graph.thread("t")
  const running = yield* Effect.fork(Effect.either(thread.invoke({ log: "a" })))
  yield* Deferred.await(reached)
  return { gate, running, thread }
})

/** What the storage says the thread is doing. */
const statusOf = (id: string) =>
  Effect.flatMap(Checkpointer.Checkpointer, ({ threads }) =>
    Effect.map(Stream.runCollect(threads()), (all) => Array.from(all).find(({ thread }) => thread === id)?.status)
  )

describe("several callers of one thread", () => {
  it.effect("a second run is refused while one is in progress", () =>
    Effect.gen(function* () {
      const { gate, running, thread } = yield* setup
      assert.strictEqual(yield* statusOf("t"), "running")
      const refused = yield* Effect.flip(thread.invoke({ log: "b" }))
      assert.strictEqual(refused._tag, "ThreadBusy")
      yield* Deferred.succeed(gate, undefined)
      assert.deepStrictEqual(yield* Fiber.join(running), Either.right({ log: ["a", "first", "second"] }))
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("an enqueued run waits and sees what the first one did", () =>
    Effect.gen(function* () {
      const { gate, running, thread } = yield* setup
      const waiting = yield* Effect.fork(thread.invoke({ log: "b" }, { multitask: "enqueue" }))
      yield* Effect.yieldNow()
      assert.isNull(yield* Fiber.poll(waiting).pipe(Effect.map((exit) => (exit._tag === "None" ? null : exit.value))))
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(running)
      assert.deepStrictEqual(yield* Fiber.join(waiting), { log: ["a", "first", "second", "b", "first", "second"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("an interrupting run stops the other at its last checkpoint and goes on from there", () =>
    Effect.gen(function* () {
      const { running, thread } = yield* setup
      const state = yield* thread.invoke({ log: "b" }, { multitask: "interrupt" })
      assert.deepStrictEqual(state, { log: ["a", "first", "b", "first", "second"] })
      const replaced = yield* Fiber.join(running)
      assert.isTrue(Either.isLeft(replaced) && replaced.left._tag === "RunCancelled")
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("a rolling back run goes on from where the other had started", () =>
    Effect.gen(function* () {
      const { running, thread } = yield* setup
      assert.deepStrictEqual(yield* thread.invoke({ log: "b" }, { multitask: "rollback" }), {
        log: ["b", "first", "second"]
      })
      assert.isTrue(Either.isLeft(yield* Fiber.join(running)))
      assert.deepStrictEqual((yield* thread.state).values, { log: ["b", "first", "second"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("a cancelled run fails as such and can be continued", () =>
    Effect.gen(function* () {
      const { running, thread } = yield* setup
      assert.strictEqual(yield* thread.cancel, 1)
      const cancelled = yield* Fiber.join(running)
      assert.isTrue(Either.isLeft(cancelled) && cancelled.left._tag === "RunCancelled")
      assert.strictEqual(yield* statusOf("t"), "idle")
      assert.strictEqual(yield* thread.cancel, 0)
      assert.deepStrictEqual(yield* thread.resume(), { log: ["a", "first", "second"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("a run that is interrupted from outside frees its thread", () =>
    Effect.gen(function* () {
      const { running, thread } = yield* setup
      assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(running)))
      assert.strictEqual(yield* statusOf("t"), "idle")
      assert.deepStrictEqual(yield* thread.resume(), { log: ["a", "first", "second"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})
