import { SingleRunner } from "@effect/cluster"
import { SqliteClient } from "@effect/sql-sqlite-node"
import { assert, describe, layer } from "@effect/vitest"
import { Data, type Duration, Effect, Exit, Fiber, Layer, Schema, Stream } from "effect"
import { Activity, Channel, Checkpointer, Graph, Interrupt } from "effect-pregel"
import * as GraphEntity from "effect-pregel/GraphEntity"
import { packing } from "./support/graphs.js"

class Refused extends Schema.TaggedError<Refused>()("Refused", { why: Schema.String }) {}
class Undeclared extends Data.TaggedError("Undeclared")<{}> {}

const Approve = Interrupt.make("approve", { request: Schema.String, answer: Schema.Boolean })

let charged = 0
const charge = Activity.make("charge", {
  input: Schema.Number,
  success: Schema.String,
  execute: (cents) => Effect.sync(() => `receipt ${cents} (${++charged})`)
})

const orders = Graph.make("orders", { log: Channel.append(Schema.String), since: Channel.lastValue(Schema.Date) })
  .addNode("ask", ({ log }) =>
    Effect.gen(function* () {
      if (log[0] === "refuse") return yield* new Refused({ why: "no" })
      if (log[0] === "crash") return yield* new Undeclared()
      const receipt = yield* charge(5)
      const ok = yield* Approve("charge?")
      return { log: `${receipt} ${ok}`, since: new Date(0) }
    })
  )
  .addEdge(Graph.START, "ask")
  .compile()

const hosted = GraphEntity.make(orders, { error: Refused })

const trips = GraphEntity.make(
  Graph.make("trips", { log: Channel.append(Schema.String) })
    .addNode("pack", () => Effect.map(packing.invoke({ bag: [] }), ({ bag }) => ({ log: bag.join(" and ") })))
    .addEdge(Graph.START, "pack")
    .compile()
)

/** Graphs of one shape whose routers differ. */
const twin = (to: "one" | "two") =>
  Graph.make("twin", { log: Channel.append(Schema.String) })
    .addNode("start", () => Effect.succeed({ log: "start" }))
    .addNode("one", () => Effect.succeed({ log: "one" }))
    .addNode("two", () => Effect.succeed({ log: "two" }))
    .addEdge(Graph.START, "start")
    .addConditionalEdges("start", () => to, ["one", "two"])
    .compile({ interruptBefore: ["start"] })

const twins = GraphEntity.make(
  Graph.make("twins", { log: Channel.append(Schema.String) })
    .addGraph("first", twin("one"))
    .addGraph("second", twin("two"))
    .addEdge(Graph.START, "first")
    .addEdge("first", "second")
    .compile()
)

/** How long it takes after rows were copied. */
let slow: Duration.DurationInput = "0 seconds"
const storage = Checkpointer.mapEncoded((encoded) =>
  Effect.succeed({
    ...encoded,
    rewrite: (rows) =>
      Effect.zipLeft(
        encoded.rewrite(rows),
        Effect.suspend(() => Effect.sleep(slow))
      )
  })
)(Checkpointer.layerMemory)

const cluster = Layer.mergeAll(hosted.layer, trips.layer, twins.layer).pipe(
  Layer.provideMerge(SingleRunner.layer({ runnerStorage: "memory" })),
  Layer.provide(SqliteClient.layer({ filename: ":memory:" })),
  Layer.provide(storage),
  Layer.orDie
)

describe("threads in a cluster", () => {
  layer(cluster, { excludeTestServices: true })("one runner", (it) => {
    it.effect("a run pauses, is answered, and finishes; its state crosses with the channels' schemas", () =>
      Effect.gen(function* () {
        const thread = hosted.thread("t1")
        const paused = yield* Effect.flip(thread.invoke({ log: "order" }))
        assert.strictEqual(paused._tag, "GraphInterrupt")
        const state = yield* thread.resume(Approve, true)
        assert.deepStrictEqual(state, { log: ["order", "receipt 5 (1) true"], since: new Date(0) })
        assert.deepStrictEqual((yield* thread.state).values, state)
        const steps = yield* Stream.runCollect(thread.history())
        assert.deepStrictEqual(
          Array.from(steps, (snapshot) => snapshot.checkpoint?.step),
          [1, 0, -1]
        )
      })
    )

    it.effect("failures that are declared arrive as they are, others as defects", () =>
      Effect.gen(function* () {
        const refused = yield* Effect.flip(hosted.thread("t2").invoke({ log: "refuse" }))
        assert.instanceOf(refused, Refused)
        const exit = yield* Effect.exit(hosted.thread("t3").invoke({ log: "crash" }))
        assert.isTrue(Exit.isFailure(exit) && exit.cause._tag === "Die")
        assert.strictEqual((yield* Effect.flip(hosted.thread("t4").invoke({ log: "order" })))._tag, "GraphInterrupt")
      })
    )

    it.effect("a subgraph that the host was not told of is refused with how to tell it", () =>
      Effect.gen(function* () {
        const thread = trips.thread("trip")
        assert.strictEqual((yield* thread.run({ log: [] }))._tag, "Paused")
        const [place] = yield* thread.subgraphs
        const inner = thread.subgraph(packing, place!.namespace)
        const errors = [
          yield* Effect.flip(inner.state),
          yield* Effect.flip(inner.update({ bag: "hat" })),
          yield* Effect.flip(inner.resumeThread()),
          yield* Effect.flip(inner.subgraphs),
          yield* Effect.flip(Stream.runCollect(inner.history()))
        ]
        for (const error of errors) assert.deepInclude(error, { _tag: "CheckpointerError", reason: "Unsupported" })
        assert.match(errors[0]!.message, /option "subgraphs"/)
        assert.strictEqual((yield* thread.resume()).log.at(-1), "socks and shoes")
      })
    )

    it.effect("of subgraphs that look the same each is the one at its place", () =>
      Effect.gen(function* () {
        const thread = twins.thread("twins")
        yield* thread.run({ log: [] })
        for (const name of ["one", "two"] as const) {
          const inner = thread.subgraph(twin(name), (yield* thread.subgraphs)[0]!.namespace)
          yield* inner.update({ log: "edited" }, { as: "start" })
          assert.deepStrictEqual((yield* inner.state).next, [name])
          yield* Effect.exit(thread.resume())
        }
      })
    )

    it.effect("a copy that is given up leaves nothing", () =>
      Effect.gen(function* () {
        const [thread, copy] = [hosted.thread("t1"), hosted.thread("t1-copy")]
        yield* Effect.exit(hosted.thread("t1").invoke({ log: "order" }))
        slow = "2 seconds"
        const copying = yield* Effect.fork(thread.copyTo(copy.id))
        yield* Effect.repeat(Effect.delay(copy.branches, "20 millis"), { until: (branches) => branches.length > 0 })
        yield* Fiber.interrupt(copying)
        slow = "0 seconds"
        yield* Effect.repeat(Effect.delay(copy.branches, "20 millis"), { until: (branches) => branches.length === 0 })
        yield* thread.copyTo(copy.id)
        assert.deepStrictEqual(yield* copy.branches, yield* thread.branches)
      })
    )

    it.effect("the same run id is one run", () =>
      Effect.gen(function* () {
        const thread = hosted.thread("t5")
        const [one, two] = yield* Effect.all(
          [thread.run({ log: "order" }, { runId: "r1" }), thread.run({ log: "order" }, { runId: "r1" })],
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(one, two)
        assert.strictEqual((yield* thread.state).values.log.length, 1)
      })
    )

    it.effect("a stream carries the events of its run and ends with it", () =>
      Effect.gen(function* () {
        const events = yield* Stream.runCollect(
          hosted.thread("t6").stream({ log: "order" }, { modes: ["updates", "values"] })
        )
        assert.deepStrictEqual(
          Array.from(events, ({ _tag }) => _tag),
          ["Values", "ActivityEnded", "Interrupted", "Values"]
        )
      })
    )
  })
})
