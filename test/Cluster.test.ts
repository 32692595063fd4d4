import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { ClusterCron } from "@effect/cluster"
import { SqliteClient } from "@effect/sql-sqlite-node"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Cron, Deferred, Duration, Effect, Fiber, Layer, Option, Schema, Stream } from "effect"
import { Activity, Channel, Checkpointer, Graph, Timer } from "effect-pregel"
import * as GraphEntity from "effect-pregel/GraphEntity"
import * as SqlCheckpointer from "effect-pregel/SqlCheckpointer"
import { dying, launch, runner } from "./support/cluster.js"

const newFile = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "effect-pregel-cluster-"))),
    (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
  ),
  (directory) => join(directory, "cluster.db")
)

/** Calls from a process that hosts nothing. */
const caller = (file: string) => launch(runner(file, 0, { runnerAddress: Option.none() }))

const storageOf = (file: string) =>
  Layer.orDie(SqlCheckpointer.layer().pipe(Layer.provide(SqliteClient.layer({ filename: file }))))

/** A loop of supersteps, each with a call of an activity; tells what ran. */
const loop = (steps: number, before: Effect.Effect<unknown> = Effect.void) => {
  const ran: Array<number> = []
  const paid: Array<number> = []
  const pay = Activity.make("pay", {
    input: Schema.Number,
    success: Schema.Number,
    execute: (step) =>
      Effect.sync(() => {
        paid.push(step)
        return step
      })
  })
  const graph = Graph.make("loop", { done: Channel.append(Schema.Number) })
    .addNode("work", ({ done }) =>
      Effect.gen(function* () {
        ran.push(done.length)
        yield* before
        return { done: yield* pay(done.length) }
      })
    )
    .addEdge(Graph.START, "work")
    .addConditionalEdges("work", ({ done }) => (done.length < steps ? "work" : Graph.END), ["work", Graph.END])
    .compile()
  return { graph, ran, paid, all: Array.from({ length: steps }, (_, i) => i) }
}

describe("a thread moves", () => {
  it.scopedLive("a runner that shuts down hands its threads over at the end of a superstep, without waiting", () =>
    Effect.gen(function* () {
      const file = yield* newFile
      const { all, graph, paid, ran } = loop(12, Effect.sleep("100 millis"))
      const hosted = GraphEntity.make(graph)
      const host = (port: number) => launch(Layer.provideMerge(hosted.layer, runner(file, port)))
      const calls = yield* caller(file)
      const first = yield* host(1)
      const running = yield* Effect.fork(Effect.provide(hosted.thread("t").invoke({ done: [] }), calls.context))
      // Somebody who watches the thread does not hold it.
      yield* Effect.fork(Effect.provide(Stream.runDrain(hosted.events("t")), first.context))
      while (ran.length < 4) yield* Effect.sleep("20 millis")
      const second = yield* host(2)
      const [stopping] = yield* Effect.timed(first.stop)
      assert.isBelow(Duration.toMillis(stopping), 3000)
      assert.deepStrictEqual((yield* Fiber.join(running)).done, all)
      // No superstep was begun twice: the thread left at a barrier.
      assert.deepStrictEqual(ran, all)
      assert.deepStrictEqual(paid, all)
      yield* second.stop
      yield* calls.stop
    })
  )

  it.scopedLive(
    "a runner that dies at any of its saves: the next one goes on, and nothing is done twice",
    () =>
      Effect.gen(function* () {
        const crash = Effect.fnUntraced(function* (at: number, takesEffect: boolean) {
          const file = yield* newFile
          const { all, graph, paid } = loop(2)
          const hosted = GraphEntity.make(graph)
          const calls = yield* caller(file)
          const { context } = yield* launch(storageOf(file))
          const saver = yield* Effect.provide(Checkpointer.Checkpointer, context)
          const { counted, service } = dying(saver, at, takesEffect)
          const config = { entityTerminationTimeout: 1 }
          const doomed = Layer.succeed(Checkpointer.Checkpointer, service)
          const first = yield* launch(Layer.provideMerge(hosted.layer, runner(file, 1, config, doomed)))
          const running = yield* Effect.fork(Effect.provide(hosted.thread("t").invoke({ done: [] }), calls.context))
          const finished = yield* Effect.raceFirst(
            Effect.as(counted.dead.await, false),
            Effect.as(Fiber.join(running), true)
          )
          yield* first.stop
          const second = yield* launch(Layer.provideMerge(hosted.layer, runner(file, 2)))
          assert.deepStrictEqual((yield* Fiber.join(running)).done, all, `crash at ${at}`)
          const saved = paid.filter((step, i) => paid.indexOf(step) !== i)
          yield* second.stop
          yield* calls.stop
          return { finished, repeated: saved.length, at, takesEffect }
        }, Effect.scoped)
        const runs: Array<Effect.Effect.Success<ReturnType<typeof crash>>> = []
        for (let at = 1; runs.at(-1)?.finished !== true; at++) {
          runs.push(yield* crash(at, false), yield* crash(at, true))
        }
        assert.isAbove(runs.length, 12)
        // What repeats a call of an activity is only a death before its result was saved.
        for (const { repeated, takesEffect } of runs) assert.isAtMost(repeated, takesEffect ? 0 : 1)
      }),
    120_000
  )

  it.scopedLive("a change or a copy whose runner dies in the middle is made once, by the next runner", () =>
    Effect.gen(function* () {
      const { graph } = loop(2)
      const hosted = GraphEntity.make(graph)
      const supersteps = [1, 2, 3].map((done) => [{ update: { done }, as: "work" as const }])
      const thread = hosted.thread("t")
      for (const change of [Effect.asVoid(thread.updateAll(supersteps)), thread.copyTo("copy")]) {
        const file = yield* newFile
        const calls = yield* caller(file)
        const { context } = yield* launch(storageOf(file))
        yield* Effect.provide(graph.thread("t").invoke({ done: [] }), context)
        const saver = yield* Effect.provide(Checkpointer.Checkpointer, context)
        // The second superstep is saved, or the rows of the copy are, but nobody hears of it.
        let saves = 0
        const dead = yield* Deferred.make<void>()
        const dies = <A, E>(save: Effect.Effect<A, E>, at: number) =>
          Effect.flatMap(save, (saved) =>
            ++saves < at
              ? Effect.succeed(saved)
              : Effect.zipRight(Deferred.succeed(dead, undefined), Effect.interruptible(Effect.never))
          )
        const doomed = Layer.succeed(
          Checkpointer.Checkpointer,
          Checkpointer.makeEncoded({
            ...saver.encoded,
            append: (rows) => dies(saver.encoded.append(rows), 2),
            rewrite: (rows) => dies(saver.encoded.rewrite(rows), 1)
          })
        )
        const first = yield* launch(
          Layer.provideMerge(hosted.layer, runner(file, 1, { entityTerminationTimeout: 1 }, doomed))
        )
        const changing = yield* Effect.fork(Effect.provide(change, calls.context))
        yield* Deferred.await(dead)
        yield* first.stop
        const second = yield* launch(Layer.provideMerge(hosted.layer, runner(file, 2)))
        yield* Fiber.join(changing)
        const saved = (id: string) =>
          Effect.map(Stream.runCollect(hosted.thread(id).history()), (found) =>
            Array.from(found, ({ checkpoint, values }) => [checkpoint?.id, checkpoint?.source, values.done])
          ).pipe(Effect.provide(second.context))
        const [own, copied] = [yield* saved("t"), yield* saved("copy")]
        if (copied.length > 0) assert.deepStrictEqual(copied, own)
        else
          assert.deepStrictEqual(
            own.slice(0, 4).map(([, ...row]) => row),
            [
              ["update", [0, 1, 1, 2, 3]],
              ["update", [0, 1, 1, 2]],
              ["update", [0, 1, 1]],
              ["loop", [0, 1]]
            ]
          )
        yield* second.stop
        yield* calls.stop
      }
    })
  )

  it.scopedLive("a runner whose save is refused answers nothing, and goes on if the thread is left to it", () =>
    Effect.gen(function* () {
      const file = yield* newFile
      const gate = yield* Deferred.make<void>()
      const { all, graph, paid, ran } = loop(3, Deferred.await(gate))
      const hosted = GraphEntity.make(graph, { fencedFor: "500 millis" })
      const host = yield* launch(Layer.provideMerge(hosted.layer, runner(file, 1)))
      const running = yield* Effect.fork(Effect.provide(hosted.thread("t").invoke({ done: [] }), host.context))
      while (ran.length < 1) yield* Effect.sleep("20 millis")
      const saver = yield* Effect.provide(Checkpointer.Checkpointer, host.context)
      yield* saver.takeFence("t")
      yield* Deferred.succeed(gate, undefined)
      yield* Effect.sleep("250 millis")
      assert.isTrue(Option.isNone(yield* Fiber.poll(running)))
      assert.deepStrictEqual((yield* Fiber.join(running)).done, all)
      // The call whose result was refused ran again: it was never saved.
      assert.deepStrictEqual(paid, [0, ...all])
      yield* host.stop
    })
  )

  it.scopedLive("a runner that stood still asks whether the thread is still its own before it acts", () =>
    Effect.gen(function* () {
      const file = yield* newFile
      const gate = yield* Deferred.make<void>()
      const { all, graph, paid, ran } = loop(3, Deferred.await(gate))
      const hosted = GraphEntity.make(graph, { fencedFor: "300 millis" })
      const host = yield* launch(Layer.provideMerge(hosted.layer, runner(file, 1)))
      const running = yield* Effect.fork(Effect.provide(hosted.thread("t").invoke({ done: [] }), host.context))
      while (ran.length < 1) yield* Effect.sleep("20 millis")
      const saver = yield* Effect.provide(Checkpointer.Checkpointer, host.context)
      yield* saver.takeFence("t")
      const end = Date.now() + 900
      while (Date.now() < end);
      yield* Deferred.succeed(gate, undefined)
      assert.deepStrictEqual((yield* Fiber.join(running)).done, all)
      assert.deepStrictEqual(ran, [0, ...all])
      assert.deepStrictEqual(paid, all)
      yield* host.stop
    })
  )
})

describe("a thread waits", () => {
  const reminders = () =>
    Graph.make("reminders", { log: Channel.append(Schema.String) })
      .addNode("remind", () => Effect.as(Timer.sleep("1500 millis"), { log: "reminded" }))
      .addNode("after", () => Effect.succeed({ log: "after" }))
      .addEdge(Graph.START, "remind")
      .addEdge("remind", "after")
      .compile()

  it.scopedLive("a sleep is over at its time after any restart, without a call", () =>
    Effect.gen(function* () {
      const file = yield* newFile
      const hosted = GraphEntity.make(reminders())
      const host = Layer.provideMerge(hosted.layer, runner(file, 1))
      const first = yield* launch(host)
      const thread = hosted.thread("t")
      const outcome = yield* Effect.provide(thread.run({ log: "in" }), first.context)
      assert.strictEqual(outcome._tag, "Paused")
      yield* first.stop
      const second = yield* launch(host)
      const state = Effect.provide(thread.state, second.context)
      assert.deepStrictEqual((yield* state).values.log, ["in"])
      const done = yield* Effect.repeat(Effect.delay(state, "100 millis"), { until: ({ next }) => next.length === 0 })
      assert.deepStrictEqual(done.values.log, ["in", "reminded", "after"])
      yield* second.stop
    })
  )

  it.scopedLive("a cron job runs threads", () =>
    Effect.gen(function* () {
      const file = yield* newFile
      const { all, graph } = loop(2)
      const hosted = GraphEntity.make(graph)
      const nightly = ClusterCron.make({
        name: "nightly",
        cron: Cron.unsafeParse("* * * * * *"),
        execute: Effect.asVoid(hosted.thread("nightly").invoke({ done: [] }, { multitask: "enqueue" }))
      })
      const host = yield* launch(Layer.merge(hosted.layer, nightly).pipe(Layer.provideMerge(runner(file, 1))))
      const state = Effect.provide(hosted.thread("nightly").state, host.context)
      const seen = yield* Effect.repeat(Effect.delay(state, "100 millis"), {
        until: ({ next, values }) => values.done.length >= 2 && next.length === 0
      })
      assert.deepStrictEqual(seen.values.done.slice(0, 2), all)
      yield* host.stop
    })
  )
})

describe("who watches a thread", () => {
  it.scopedLive(
    "a reader that comes back misses nothing and sees nothing twice; after a takeover it gets the state",
    () =>
      Effect.gen(function* () {
        const file = yield* newFile
        const { graph } = loop(6, Effect.sleep("50 millis"))
        const hosted = GraphEntity.make(graph)
        const host = Layer.provideMerge(hosted.layer, runner(file, 1))
        const first = yield* launch(host)
        const all = yield* Effect.fork(
          hosted.events("t").pipe(
            Stream.takeUntil(({ _tag }) => _tag === "Ended"),
            Stream.runCollect,
            Effect.provide(first.context)
          )
        )
        yield* Effect.sleep("200 millis")
        const running = yield* Effect.fork(Effect.provide(hosted.thread("t").invoke({ done: [] }), first.context))
        // Reads three events at a time.
        const pieces: Array<GraphEntity.Notice<unknown>> = []
        let last: string | undefined = (yield* hosted
          .events("t")
          .pipe(Stream.take(1), Stream.runCollect, Effect.provide(first.context))).pipe(Chunk.unsafeHead).id
        while (pieces.at(-1)?._tag !== "Ended") {
          const piece: Chunk.Chunk<GraphEntity.Notice<unknown>> = yield* hosted.events("t", last).pipe(
            Stream.takeUntil(({ _tag }) => _tag === "Ended"),
            Stream.take(4),
            Stream.runCollect,
            Effect.provide(first.context)
          )
          const [start, ...rest] = Array.from(piece)
          assert.strictEqual(start?._tag, "Subscribed")
          pieces.push(...rest)
          last = rest.at(-1)?.id ?? last
        }
        yield* Fiber.join(running)
        const whole = Array.from(yield* Fiber.join(all)).slice(1)
        const from = whole.findIndex(({ id }) => id === pieces[0]?.id)
        assert.deepStrictEqual(
          pieces.map(({ id }) => id),
          whole.slice(from).map(({ id }) => id)
        )
        yield* first.stop
        const second = yield* launch(host)
        const [state] = Array.from(
          yield* hosted.events("t", last).pipe(Stream.take(1), Stream.runCollect, Effect.provide(second.context))
        )
        assert.strictEqual(state?._tag, "State")
        assert.deepStrictEqual(state?._tag === "State" && state.snapshot.values.done.length, 6)
        yield* second.stop
      })
  )

  it.scopedLive("a reader that is too slow for the buffer gets the state and goes on from there", () =>
    Effect.gen(function* () {
      const file = yield* newFile
      const { all, graph } = loop(20)
      const hosted = GraphEntity.make(graph, { eventBuffer: 4 })
      const host = yield* launch(Layer.provideMerge(hosted.layer, runner(file, 1)))
      const subscribed = yield* Deferred.make<void>()
      const reader = yield* Effect.fork(
        hosted.events("t").pipe(
          Stream.tap(() => Effect.zipRight(Deferred.succeed(subscribed, undefined), Effect.sleep("100 millis"))),
          Stream.takeUntil(
            (notice) => notice._tag === "Ended" || (notice._tag === "State" && notice.snapshot.next.length === 0)
          ),
          Stream.runCollect,
          Effect.provide(host.context)
        )
      )
      yield* Deferred.await(subscribed)
      yield* Effect.provide(hosted.thread("t").invoke({ done: [] }), host.context)
      const seen = Array.from(yield* Fiber.join(reader))
      const state = seen.findLast(({ _tag }) => _tag === "State")
      assert.isAtMost(state?._tag === "State" ? state.snapshot.values.done.length : Number.NaN, all.length)
      const numbers = seen.map(({ id }) => Number(id.split("/")[1]))
      assert.deepStrictEqual(
        numbers,
        numbers.toSorted((a, b) => a - b)
      )
      yield* host.stop
    })
  )
})
