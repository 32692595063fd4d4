import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as Cell from "../src/Cell.js"
import * as Channel from "../src/Channel.js"
import { layerMemory } from "../src/Checkpointer.js"
import * as Codec from "../src/Codec.js"
import * as Graph from "../src/Graph.js"
import * as Send from "../src/Send.js"
import * as SqliteCheckpointer from "../src/SqliteCheckpointer.js"
import { build, runOurs } from "./differential/Ours.js"
import { type GraphSpec, generate, type Spec } from "./differential/Spec.js"
import { Probe } from "./differential/Trace.js"

const seeds = FastCheck.integer({ min: 1, max: 1_000_000 })

// ---------------------------------------------------------------------------------------------------------------------
// order
// ---------------------------------------------------------------------------------------------------------------------

const NODES = ["e", "b", "d", "a", "c"] as const

/** Five nodes and five packets a superstep, each after a delay of its own; reducers that tell the order of updates. */
const raced = (delays: ReadonlyArray<number>) => {
  let turn = 0
  const late = <A>(value: A) => Effect.as(Effect.sleep(delays[turn++ % delays.length]!), value)
  let graph: any = Graph.make("raced", {
    log: Channel.append(Schema.String),
    mix: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => (a * 31 + b) % 9973 }),
    picked: Channel.topic(Schema.String)
  })
  graph = graph.addWorker("worker", Schema.Number, (n: number) => late({ log: `worker${n}`, mix: n, picked: `w${n}` }))
  for (const name of NODES)
    graph = graph.addNode(name, () => late({ log: name, mix: name.charCodeAt(0), picked: name }))
  graph = graph.addNode("join", (state: { picked: ReadonlyArray<string> }) => late({ log: state.picked.join("") }))
  for (const name of NODES) graph = graph.addEdge(Graph.START, name)
  return graph
    .addEdge(NODES, "join")
    .addConditionalEdges("b", () => [4, 2, 3, 1, 0].map((n) => Send.make("worker", n)), ["worker"])
    .addConditionalEdges(
      "join",
      (state: { log: ReadonlyArray<string> }) => (state.log.length < 20 ? NODES : [Graph.END]),
      [...NODES, Graph.END]
    )
    .compile() as { readonly invoke: (input: {}) => Effect.Effect<unknown> }
}

const finished = (graph: ReturnType<typeof raced>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(graph.invoke({}))
    yield* Effect.repeatN(TestClock.adjust(100), 20)
    return yield* Fiber.join(fiber)
  })

it.effect.prop(
  "the order in which tasks end never changes the result",
  [FastCheck.array(FastCheck.integer({ min: 0, max: 90 }), { minLength: 3, maxLength: 25 })],
  ([delays]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* finished(raced(delays)), yield* finished(raced([0])))
    }),
  { fastCheck: { numRuns: 25 }, timeout: 600_000 }
)

// ---------------------------------------------------------------------------------------------------------------------
// replay
// ---------------------------------------------------------------------------------------------------------------------

const calm = (graph: GraphSpec): GraphSpec => ({
  ...graph,
  nodes: graph.nodes.map((node) => ({
    ...node,
    asks: 0,
    failsUntil: 0,
    last: undefined,
    child: node.child && { ...node.child, graph: calm(node.child.graph) }
  }))
})

/** A spec whose run ends by itself. */
const straight = (seed: number): Spec => ({
  ...generate(seed),
  graph: calm(generate(seed).graph),
  limit: 60,
  before: [],
  after: [],
  actions: [{ _tag: "Input", sum: 1, log: "in", abandon: false }]
})

it.effect.prop(
  "a replay from any checkpoint equals the straight run",
  [seeds],
  ([seed]) =>
    Effect.promise(async () => {
      const spec = straight(seed)
      const once = await runOurs(spec)
      if (once.calls[0]!.status !== "completed") return
      for (let back = 1; back < once.history.length; back++) {
        const again = await runOurs({ ...spec, actions: [...spec.actions, { _tag: "Replay", back }] })
        assert.strictEqual(again.calls[1]!.status, "completed")
        assert.deepStrictEqual(again.calls[1]!.values, once.calls[0]!.values, `seed ${seed}, back ${back}`)
        const replayed = again.history.slice(once.history.length + 1).map(({ next, values }) => ({ next, values }))
        const straightOn = once.history.slice(once.history.length - back).map(({ next, values }) => ({ next, values }))
        assert.deepStrictEqual(replayed, straightOn, `seed ${seed}, back ${back}`)
      }
    }),
  { fastCheck: { numRuns: 25 }, timeout: 600_000 }
)

// ---------------------------------------------------------------------------------------------------------------------
// encoding
// ---------------------------------------------------------------------------------------------------------------------

class Point extends Schema.Class<Point>("Point")({ x: Schema.Int, name: Schema.String }) {}

const Stored = Schema.Struct({
  number: Schema.Finite,
  text: Schema.String,
  big: Schema.BigInt,
  when: Schema.Date.pipe(Schema.validDate()),
  maybe: Schema.Option(Schema.NullOr(Schema.String)),
  tags: Schema.ReadonlySet(Schema.String),
  point: Point,
  list: Schema.Array(Schema.NullOr(Schema.Boolean)),
  left: Schema.optionalWith(Schema.String, { exact: true })
})

const numbers = (a: number, b: number) => a + b

const kinds: ReadonlyArray<readonly [string, Channel.Any, Schema.Schema<any, any>]> = [
  ["lastValue", Channel.lastValue(Stored), Stored],
  ["lastValue with an initial value", Channel.lastValue(Schema.Finite, { initial: () => 7 }), Schema.Finite],
  ["lastValue of anything", Channel.lastValue(Schema.Unknown), Schema.Array(Schema.NullOr(Schema.Finite))],
  ["anyValue", Channel.anyValue(Stored), Stored],
  ["ephemeral", Channel.ephemeral(Stored), Stored],
  ["untracked", Channel.untracked(Stored), Stored],
  ["topic", Channel.topic(Stored), Schema.Array(Stored)],
  ["topic that accumulates", Channel.topic(Stored, { accumulate: true }), Schema.Array(Stored)],
  ["topic of unique values", Channel.topic(Schema.String, { unique: true }), Schema.Array(Schema.String)],
  ["reduce", Channel.reduce(Schema.Int, { initial: () => 0, reducer: numbers }), Schema.Int],
  ["reduce without an initial value", Channel.reduce(Schema.Int, { reducer: numbers }), Schema.Int],
  ["append", Channel.append(Stored), Schema.Array(Stored)],
  ["barrier", Channel.barrier(["a", "b"]), Schema.Literal("a", "b")],
  ["barrierAfterFinish", Channel.barrierAfterFinish(["a", "b"]), Schema.Literal("a", "b")],
  ["lastValueAfterFinish", Channel.lastValueAfterFinish(Stored), Stored]
]

const roundTrip = (
  encode: Either.Either<string | undefined, Codec.Refusal>,
  decode: (json: unknown) => Either.Either<unknown, Codec.Refusal>
): unknown => {
  const text = Either.getOrThrow(encode)
  return Either.getOrThrow(decode(text === undefined ? undefined : JSON.parse(text)))
}

describe("decode(encode(x)) = x", () => {
  for (const [name, channel, schema] of kinds) {
    const codec = Codec.make(channel)
    const updates = FastCheck.array(Arbitrary.make(schema), { minLength: 1, maxLength: 6 })
    it.effect.prop(
      `for updates and states of ${name}`,
      [updates, FastCheck.boolean()],
      ([values, finish]) =>
        Effect.sync(() => {
          const cell = Cell.make(name, channel, Channel.MISSING)
          for (const value of values) {
            const back = roundTrip(
              Either.map(codec.encodeUpdate(value), ({ text }) => text),
              codec.decodeUpdate
            )
            assert.deepStrictEqual(back, value)
            Either.getOrThrow(cell.update([value]))
          }
          if (finish) cell.finish()
          const snapshot = cell.snapshot()
          if (snapshot === Channel.MISSING) return
          const restored = Cell.make(name, channel, roundTrip(codec.encodeState(snapshot), codec.decodeState))
          assert.deepStrictEqual(restored.get(), cell.get())
          assert.strictEqual(restored.isAvailable(), cell.isAvailable())
          assert.strictEqual(restored.consume(), cell.consume())
          assert.deepStrictEqual(restored.update([values[0]]), cell.update([values[0]]))
          assert.deepStrictEqual(restored.snapshot(), cell.snapshot())
        }),
      { fastCheck: { numRuns: 60 } }
    )
  }
})

// ---------------------------------------------------------------------------------------------------------------------
// reload
// ---------------------------------------------------------------------------------------------------------------------

const savers = [
  ["memory", layerMemory],
  ["SQLite", SqliteCheckpointer.layer({ filename: ":memory:" })]
] as const

describe("after every superstep the reloaded state equals the live one", () => {
  for (const [name, layer] of savers) {
    it.effect.prop(
      name,
      [seeds],
      ([seed]) =>
        Effect.gen(function* () {
          const graph = build("g", straight(seed).graph, new Probe()).compile()
          const thread = graph.thread("t")
          const input = { log: ["in"], sum: 1 }
          const events: Stream.Stream<any, unknown, any> = thread.stream(input, {
            modes: ["checkpoints"],
            recursionLimit: 60
          })
          const live = Chunk.toReadonlyArray(yield* Stream.runCollect(Stream.orElse(events, () => Stream.empty)))
          for (const { checkpoint, next, state } of live) {
            const reloaded: any = yield* thread.at(checkpoint.id).state
            assert.deepStrictEqual(reloaded.values, state, `seed ${seed}, checkpoint ${checkpoint.id}`)
            assert.deepStrictEqual(reloaded.next, next)
          }
          assert.isAbove(live.length, 1)
        }).pipe(Effect.provide(layer)) as Effect.Effect<void>,
      { fastCheck: { numRuns: 60 }, timeout: 600_000 }
    )
  }
})
