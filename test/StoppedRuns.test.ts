import { assert, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Supervisor from "effect/Supervisor"
import * as Activity from "../src/Activity.js"
import * as Channel from "../src/Channel.js"
import { layerMemory } from "../src/Checkpointer.js"
import * as Graph from "../src/Graph.js"
import * as Interrupt from "../src/Interrupt.js"
import * as Send from "../src/Send.js"
import * as SqliteCheckpointer from "../src/SqliteCheckpointer.js"

const sum = () => Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a: number, b: number) => a + b })

const ROUNDS = 5
const PACKETS = 3

/** Whatever a node holds while it works. */
let held = 0

const busy = (turns: number) =>
  Effect.acquireUseRelease(
    Effect.sync(() => held++),
    () => Effect.repeatN(Effect.yieldNow(), turns),
    () => Effect.sync(() => held--)
  )

/** A graph with everything that may be going on when a run is stopped: packets, activities, a subgraph, a loop. */
const makeGraph = (charged: Map<string, number>) => {
  const charge = Activity.make("charge", {
    input: Schema.Number,
    success: Schema.Number,
    execute: (round) =>
      Effect.gen(function* () {
        const key = yield* Activity.key
        yield* busy(2)
        charged.set(key, (charged.get(key) ?? 0) + 1)
        return round
      })
  })
  const child = Graph.make("child", { done: sum() })
    .addNode("first", () => Effect.as(busy(2), { done: 1 }))
    .addNode("second", () => Effect.as(busy(2), { done: 1 }))
    .addEdge(Graph.START, "first")
    .addEdge("first", "second")
    .compile()
  return Graph.make("stopped", { round: sum(), log: Channel.append(Schema.String), done: sum() })
    .addNode("pay", (state) => Effect.zipRight(Effect.asVoid(charge(state.round)), Effect.as(busy(2), { log: "pay" })))
    .addNode("fast", () => Effect.succeed({ log: "fast" }))
    .addWorker("worker", Schema.Number, (n) => Effect.as(busy(n + 1), { log: `worker${n}` }))
    .addGraph("child", child, { input: () => ({}), output: ({ done }) => ({ done }) })
    .addNode("next", () => Effect.as(busy(1), { round: 1 }))
    .addEdge(Graph.START, "pay")
    .addEdge(Graph.START, "fast")
    .addConditionalEdges("fast", () => Array.from({ length: PACKETS }, (_, n) => Send.make("worker", n)), ["worker"])
    .addEdge("pay", "child")
    .addEdge("child", "next")
    .addConditionalEdges("next", ({ round }) => (round < ROUNDS ? ["pay", "fast"] : [Graph.END]), [
      "pay",
      "fast",
      Graph.END
    ])
    .compile({ recursionLimit: 100 })
}

const ROUND = ["fast", "pay", ...Array.from({ length: PACKETS }, (_, n) => `worker${n}`)]
const WHOLE = Array.from({ length: ROUNDS }, () => ROUND).flat()

const isPrefix = (part: ReadonlyArray<string>) => part.every((entry, i) => entry === WHOLE[i])

/** A generator of its own, so that a failure can be repeated. */
const randomInts = (seed: number) => {
  let state = seed
  return (below: number) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    return Math.floor((state / 4294967296) * below)
  }
}

const listeners = () => process.eventNames().reduce((all, name) => all + process.listenerCount(name), 0)

/** Lets the process answer its test runner. */
const breathe = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))

const RUNS = 1000

const stopped = Effect.gen(function* () {
  const charged = new Map<string, number>()
  const graph = makeGraph(charged)
  const int = randomInts(7)
  const before = listeners()
  let interrupted = 0
  for (let i = 0; i < RUNS; i++) {
    const thread = graph.thread(`t${i}`)
    const durability = (["sync", "async", "exit"] as const)[i % 3]!
    const supervisor = yield* Supervisor.track
    // The run is stopped at a random turn, twice: once as an effect, once as a stream whose reader leaves.
    const first = yield* Effect.fork(Effect.supervised(thread.invoke({}, { durability }), supervisor))
    yield* Effect.repeatN(Effect.yieldNow(), int(140))
    const exit = yield* Fiber.interrupt(first)
    if (exit._tag === "Failure") interrupted++
    assert.strictEqual(held, 0, `run ${i}: a node's finalizer did not run`)
    assert.deepStrictEqual(
      (yield* supervisor.value).filter((fiber) => fiber.unsafePoll() === null),
      [],
      `run ${i}`
    )
    const state = yield* thread.state
    assert.isTrue(isPrefix(state.values.log), `run ${i}: ${state.values.log}`)
    const history = Chunk.toReadonlyArray(yield* Stream.runCollect(thread.history()))
    for (const { values } of history) {
      assert.isTrue(isPrefix(values.log))
      assert.isTrue(values.done === values.round * 2 || values.done === (values.round + 1) * 2)
    }
    const events = thread.resumeStream(undefined, { modes: ["tasks"], durability })
    if (state.checkpoint !== undefined && state.next.length > 0) {
      yield* Stream.runDrain(Stream.take(events, int(12)))
      assert.strictEqual(held, 0, `run ${i}: a node's finalizer did not run after its stream was left`)
    }
    const end = state.checkpoint === undefined ? yield* thread.invoke({}) : yield* thread.resume()
    assert.deepStrictEqual(end.log, WHOLE, `run ${i}`)
    assert.deepStrictEqual([end.round, end.done], [ROUNDS, ROUNDS * 2])
    yield* thread.delete
    yield* breathe
  }
  assert.isAbove(interrupted, RUNS / 3)
  assert.isAtMost(listeners(), before)
})

it.effect(
  "1,000 runs stopped at random moments leave nothing behind, and every thread goes on to the same end",
  () => Effect.provide(stopped, layerMemory),
  180_000
)

it.effect(
  "runs on SQLite that are stopped at random moments leave no half-written superstep",
  () =>
    Effect.gen(function* () {
      const graph = makeGraph(new Map())
      const int = randomInts(11)
      for (let i = 0; i < 150; i++) {
        const thread = graph.thread(`t${i}`)
        const durability = (["sync", "async", "exit"] as const)[i % 3]!
        const run = yield* Effect.fork(thread.invoke({}, { durability }))
        yield* Effect.repeatN(Effect.yieldNow(), int(300))
        yield* Fiber.interrupt(run)
        const state = yield* thread.state
        assert.isTrue(isPrefix(state.values.log))
        const end = state.checkpoint === undefined ? yield* thread.invoke({}) : yield* thread.resume()
        assert.deepStrictEqual(end.log, WHOLE, `run ${i}, ${durability}`)
        yield* breathe
      }
    }).pipe(Effect.provide(SqliteCheckpointer.layer({ filename: ":memory:" }))),
  180_000
)

it.effect(
  "a run that is stopped while it takes an answer keeps the answer or the question",
  () =>
    Effect.gen(function* () {
      const graph = Graph.make("asking", { got: Channel.append(Schema.Number) })
        .addNode("ask", () =>
          Effect.gen(function* () {
            yield* busy(2)
            const answer = yield* Interrupt.interrupt<number>("how many?")
            yield* busy(3)
            return { got: answer }
          })
        )
        .addEdge(Graph.START, "ask")
        .compile()
      const int = randomInts(3)
      for (let i = 0; i < 200; i++) {
        const thread = graph.thread(`t${i}`)
        yield* thread.run({})
        const run = yield* Effect.fork(thread.answer(i))
        yield* Effect.repeatN(Effect.yieldNow(), int(14))
        yield* Fiber.interrupt(run)
        const { interrupts, next, values } = yield* thread.state
        if (next.length === 0) assert.deepStrictEqual(values.got, [i])
        else {
          const end = interrupts.length > 0 ? yield* thread.answer(i) : yield* thread.resume()
          assert.deepStrictEqual(end.got, [i])
        }
        assert.strictEqual(held, 0)
      }
    }).pipe(Effect.provide(layerMemory)),
  120_000
)
