import { SingleRunner } from "@effect/cluster"
import { SqliteClient } from "@effect/sql-sqlite-node"
import { assert, describe, layer } from "@effect/vitest"
import { Data, Effect, Exit, Layer, Schema, Stream } from "effect"
import { Activity, Channel, Checkpointer, Graph, Interrupt } from "effect-pregel"
import * as GraphEntity from "effect-pregel/GraphEntity"

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

const cluster = hosted.layer.pipe(
  Layer.provideMerge(SingleRunner.layer({ runnerStorage: "memory" })),
  Layer.provide(SqliteClient.layer({ filename: ":memory:" })),
  Layer.provide(Checkpointer.layerMemory),
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

    it.effect("what only needs the storage is refused with where to find it", () =>
      Effect.gen(function* () {
        const thread = hosted.thread("t1")
        const errors = [
          yield* Effect.flip(thread.copy),
          yield* Effect.flip(thread.branches),
          yield* Effect.flip(thread.copyTo("u")),
          yield* Effect.flip(thread.updateAll([])),
          yield* Effect.flip(thread.subgraphs)
        ]
        for (const error of errors) assert.deepInclude(error, { _tag: "CheckpointerError", reason: "Unsupported" })
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
