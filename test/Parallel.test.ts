import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as Channel from "../src/Channel.js"
import { layerMemory } from "../src/Checkpointer.js"
import * as Graph from "../src/Graph.js"
import * as Send from "../src/Send.js"
import * as Task from "../src/Task.js"

// ---------------------------------------------------------------------------------------------------------------------
// isolation
// ---------------------------------------------------------------------------------------------------------------------

class User extends Context.Tag("test/User")<User, { readonly name: string }>() {}

/** Each node waits a little, then writes whom it works for. */
const sign = (node: string, wait: number) => () =>
  Effect.gen(function* () {
    const before = yield* User
    yield* Effect.sleep(wait)
    const after = yield* User
    const task = yield* Task.current
    yield* Task.emit(after.name)
    return { signed: [`${node}:${before.name}:${after.name}:${task.thread}`] }
  })

const signed = {
  signed: Channel.append(Schema.String),
  round: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a: number, b: number) => a + b })
}

const inner = Graph.make("inner", signed).addNode("deep", sign("deep", 3)).addEdge(Graph.START, "deep").compile()

const signing = Graph.make("signing", signed)
  .addNode("left", sign("left", 7))
  .addNode("right", sign("right", 5))
  .addNode("again", () => Effect.succeed({ round: 1 }))
  .addGraph("inner", inner, { input: () => ({}), output: ({ signed }) => ({ signed }) })
  .addEdge(Graph.START, "left")
  .addEdge(Graph.START, "right")
  .addEdge(["left", "right"], "inner")
  .addEdge("inner", "again")
  .addConditionalEdges("again", ({ round }) => (round < 2 ? ["left", "right"] : [Graph.END]), [
    "left",
    "right",
    Graph.END
  ])
  .compile()

const expected = (name: string, thread: string) => {
  const entry = (node: string) => `${node}:${name}:${name}:${thread}`
  const round = [entry("left"), entry("right"), entry("deep")]
  return [...round, ...round]
}

it.effect("200 runs of one graph at once keep their services, metadata and events apart", () =>
  Effect.gen(function* () {
    const runs = yield* Effect.fork(
      Effect.forEach(
        Array.from({ length: 200 }, (_, i) => i),
        (i) => {
          const thread = signing.thread(`t${i}`)
          const events = thread.stream({}, { modes: ["custom"], subgraphs: true, metadata: { user: i } })
          return Effect.map(Stream.runCollect(events), (all) => Array.from(all, (event: any) => event.value)).pipe(
            Effect.provideService(User, { name: `user${i}` }),
            Effect.delay(i % 11)
          )
        },
        { concurrency: "unbounded" }
      )
    )
    yield* Effect.repeatN(TestClock.adjust(1), 80)
    const events = yield* Fiber.join(runs)
    for (let i = 0; i < 200; i++) {
      const thread = signing.thread(`t${i}`)
      const state = yield* thread.state
      assert.deepStrictEqual(state.values.signed, expected(`user${i}`, `t${i}`))
      assert.deepStrictEqual(
        events[i],
        Array.from({ length: 6 }, () => `user${i}`)
      )
      const history = yield* Stream.runCollect(thread.history())
      for (const { metadata } of history) assert.strictEqual(metadata.user, i)
    }
  }).pipe(Effect.provide(layerMemory))
)

// ---------------------------------------------------------------------------------------------------------------------
// limits
// ---------------------------------------------------------------------------------------------------------------------

/** Counts how many of its users work at once. */
class Gauge {
  now = 0
  most = 0
  readonly working = Effect.acquireUseRelease(
    Effect.sync(() => {
      this.now++
      this.most = Math.max(this.most, this.now)
    }),
    () => Effect.sleep(10),
    () => Effect.sync(() => this.now--)
  )
}

const counted = { done: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a: number, b: number) => a + b }) }

const fanOut = (gauge: Gauge, packets: number) =>
  Graph.make("fan", counted)
    .addWorker("worker", Schema.Number, () => Effect.as(gauge.working, { done: 1 }))
    .addConditionalEdges(Graph.START, () => Array.from({ length: packets }, (_, i) => Send.make("worker", i)), [
      "worker"
    ])
    .compile()

const nested = (outer: Gauge, inner: Gauge) => {
  const child = fanOut(inner, 25)
  return Graph.make("nested", counted)
    .addWorker("worker", Schema.Number, () =>
      Effect.gen(function* () {
        yield* outer.working
        const { done } = yield* child.invoke({})
        return { done }
      })
    )
    .addConditionalEdges(Graph.START, () => Array.from({ length: 25 }, (_, i) => Send.make("worker", i)), ["worker"])
    .compile()
}

const advancing = <A, E, R>(effect: Effect.Effect<A, E, R>, turns: number) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(effect)
    yield* Effect.repeatN(TestClock.adjust(10), turns)
    return yield* Fiber.join(fiber)
  })

describe("a concurrency limit", () => {
  for (const limit of [1, 2, 25] as const) {
    it.effect(`of ${limit} holds for 25 sends`, () =>
      Effect.gen(function* () {
        const gauge = new Gauge()
        const graph = fanOut(gauge, 25)
        const { done } = yield* advancing(graph.invoke({}, { concurrency: limit }), 30)
        assert.deepStrictEqual({ done, most: gauge.most, now: gauge.now }, { done: 25, most: limit, now: 0 })
      })
    )

    it.effect(`of ${limit} holds in nested graphs, which never wait for their own parents`, () =>
      Effect.gen(function* () {
        const [outer, inner] = [new Gauge(), new Gauge()]
        const graph = nested(outer, inner)
        const { done } = yield* advancing(graph.invoke({}, { concurrency: limit }), 700)
        assert.strictEqual(done, 625)
        assert.isAtMost(outer.most, limit)
        assert.isAtMost(inner.most, limit * limit)
        assert.strictEqual(outer.now + inner.now, 0)
      })
    )
  }
})
