import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Channel from "../src/Channel.js"
import { layerMemory } from "../src/Checkpointer.js"
import * as Graph from "../src/Graph.js"
import * as SqliteCheckpointer from "../src/SqliteCheckpointer.js"

setFlagsFromString("--expose-gc")
const gc: () => void = runInNewContext("gc")

const SUPERSTEPS = 10_000
const PART = 2_000

/** Processor time, so that busy neighbours do not count, and live heap. */
const measure = () => {
  gc()
  const { system, user } = process.cpuUsage()
  return { millis: (user + system) / 1000, heap: process.memoryUsage().heapUsed / 2 ** 20 }
}

/** Two nodes a superstep, a value that is replaced, and a window of the last values. */
const makeGraph = (marks: Array<ReturnType<typeof measure>>) =>
  Graph.make("long", {
    count: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a: number, b: number) => a + b }),
    last: Channel.lastValue(Schema.String),
    window: Channel.topic(Schema.Number)
  })
    .addNode("count", (state) =>
      Effect.sync(() => {
        if (state.count % PART === 0) marks.push(measure())
        return { count: 1, last: `step ${state.count}` }
      })
    )
    .addNode("side", (state) => Effect.succeed({ window: [state.count] }))
    .addEdge(Graph.START, "count")
    .addConditionalEdges("count", ({ count }) => (count < SUPERSTEPS ? ["count", "side"] : [Graph.END]), [
      "count",
      "side",
      Graph.END
    ])
    .compile({ recursionLimit: SUPERSTEPS + 1 })

const flat = (name: string, marks: ReadonlyArray<ReturnType<typeof measure>>, growth: number) => {
  const spent = marks.slice(1).map(({ millis }, i) => millis - marks[i]!.millis)
  const [first, last] = [Math.min(...spent.slice(1, 3)), Math.min(...spent.slice(-2))]
  assert.isBelow(last, first * 2.5, `${name}: time of ${PART} supersteps: ${spent.map(Math.round)} ms`)
  const heaps = marks.map(({ heap }) => heap)
  assert.isBelow(heaps[heaps.length - 1]! - heaps[2]!, growth, `${name}: heap ${heaps.map(Math.round)} MB`)
}

it.effect(
  "10,000 supersteps without a thread: time and heap stay flat",
  () =>
    Effect.gen(function* () {
      const marks: Array<ReturnType<typeof measure>> = []
      const { count } = yield* makeGraph(marks).invoke({})
      assert.strictEqual(count, SUPERSTEPS)
      flat("nothing saved", marks, 4)
    }),
  120_000
)

it.effect(
  "10,000 supersteps on SQLite: time and heap stay flat",
  () =>
    Effect.gen(function* () {
      const marks: Array<ReturnType<typeof measure>> = []
      const { count } = yield* makeGraph(marks).thread("long").invoke({})
      assert.strictEqual(count, SUPERSTEPS)
      // The database is in this process's memory, but not on its heap.
      flat("SQLite", marks, 6)
    }).pipe(Effect.provide(SqliteCheckpointer.layer({ filename: ":memory:" }))),
  180_000
)

it.effect(
  "10,000 supersteps in memory: time stays flat, and a checkpoint costs what has changed",
  () =>
    Effect.gen(function* () {
      const marks: Array<ReturnType<typeof measure>> = []
      const { count } = yield* makeGraph(marks).thread("long").invoke({})
      assert.strictEqual(count, SUPERSTEPS)
      // 6,000 checkpoints are kept meanwhile, of a few hundred bytes each.
      flat("memory", marks, 24)
    }).pipe(Effect.provide(layerMemory)),
  180_000
)
