import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { afterAll } from "vitest"
import * as Activity from "../src/Activity.js"
import * as Channel from "../src/Channel.js"
import { Checkpointer, layerMemory, makeEncoded } from "../src/Checkpointer.js"
import * as Graph from "../src/Graph.js"
import * as Interrupt from "../src/Interrupt.js"
import type { Durability } from "../src/Run.js"
import * as Send from "../src/Send.js"
import * as SqliteCheckpointer from "../src/SqliteCheckpointer.js"
import { type Durable, type Fault, faulty } from "./support/crash.js"
import { log, sum } from "./support/thread.js"

const START = Graph.START

/** Activities that note when they run although their result is saved already. */
const world = () => {
  const durable: Durable = { activities: new Set() }
  const repeated: Array<string> = []
  const runs = new Map<string, number>()
  const activity = (name: string) =>
    Activity.make(name, {
      input: Schema.Number,
      success: Schema.Number,
      execute: (n) =>
        Effect.sync(() => {
          if (durable.activities.has(name)) repeated.push(name)
          runs.set(name, (runs.get(name) ?? 0) + 1)
          return n * 10
        })
    })
  return { durable, repeated, runs, activity }
}

type World = ReturnType<typeof world>

/** Parallel nodes, activities, a pause with an activity before and after it, a fan-out, a join. */
const job = ({ activity }: World) => {
  const fetch = activity("fetch")
  const reserve = activity("reserve")
  const charge = activity("charge")
  const ship = activity("ship")
  return Graph.make("job", { log, total: sum, answer: Channel.lastValue(Schema.String) })
    .addNode("fetches", () => Effect.map(fetch(1), (n) => ({ log: ["fetched"], total: n })))
    .addNode("plain", () => Effect.succeed({ log: ["plain"], total: 1 }))
    .addNode("waits", () => Effect.as(Effect.yieldNow(), { log: ["waited"], total: 2 }))
    .addNode("asks", () =>
      Effect.gen(function* () {
        const reserved = yield* reserve(2)
        const answer = yield* Interrupt.interrupt<string>("charge?")
        const charged = yield* charge(3)
        return { log: ["asked"], total: reserved + charged, answer }
      })
    )
    .addNode("beside", () => Effect.as(Effect.yieldNow(), { log: ["beside"], total: 3 }))
    .addWorker("ships", Schema.Number, (n) =>
      n === 2
        ? Effect.map(ship(n), (total) => ({ log: [`shipped ${n}`], total }))
        : Effect.succeed({ log: [`shipped ${n}`] })
    )
    .addNode("ends", (state) => Effect.succeed({ log: [`ends at ${state.total}`] }))
    .addEdge(START, "fetches")
    .addEdge(START, "plain")
    .addEdge(START, "waits")
    .addEdge(["fetches", "plain", "waits"], "asks")
    .addEdge("waits", "beside")
    .addConditionalEdges("asks", () => [1, 2, 3].map((n) => Send.make("ships", n)), ["ships"])
    .addEdge("ships", "ends")
    .compile()
}

/** The same inside a subgraph. */
const nested = (world: World) =>
  Graph.make("outer", { log, total: sum, answer: Channel.lastValue(Schema.String) })
    .addNode("before", () => Effect.succeed({ log: ["before"] }))
    .addGraph("job", job(world), {
      input: () => ({ total: 100 }),
      output: ({ answer, log, total }) => ({ answer, log, total })
    })
    .addNode("parallel", () => Effect.as(Effect.yieldNow(), { log: ["parallel"] }))
    .addNode("after", () => Effect.succeed({ log: ["after"] }))
    .addEdge(START, "before")
    .addEdge("before", "job")
    .addEdge("before", "parallel")
    .addEdge("job", "after")
    .compile()

const graphs = { job, nested: nested as unknown as typeof job }

/** Does the next thing that a thread needs, as a process would that knows nothing but the thread. */
const goOn = (graph: ReturnType<typeof job>, id: string, durability: Durability) =>
  Effect.gen(function* () {
    const thread = graph.thread(id)
    const state = yield* thread.state
    const [question] = state.interrupts
    if (state.checkpoint === undefined) return yield* thread.run({ total: 5 }, { durability })
    if (question !== undefined) return yield* Effect.either(thread.resume({ [question.id]: "yes" }, { durability }))
    if (state.next.length > 0) return yield* Effect.either(thread.resume({ durability }))
    return state.values
  })

const isDone = (graph: ReturnType<typeof job>, id: string) =>
  Effect.map(graph.thread(id).state, ({ checkpoint, next }) => checkpoint !== undefined && next.length === 0)

/** Goes on until the thread is done; yields its state. */
const finish = (graph: ReturnType<typeof job>, id: string, durability: Durability) =>
  Effect.gen(function* () {
    for (let i = 0; i < 20; i++) {
      if (yield* isDone(graph, id)) return (yield* graph.thread(id).state).values
      yield* goOn(graph, id, durability)
    }
    return yield* Effect.die(new Error("the thread does not finish"))
  })

type Service = typeof Checkpointer.Service

/** Runs until the fault, then again from what was saved, in another process. */
const crash = Effect.fnUntraced(function* (
  make: (world: World) => ReturnType<typeof job>,
  id: string,
  durability: Durability,
  fault: Fault,
  first: Service,
  second: Service
) {
  const here = world()
  const graph = make(here)
  const { counted, service } = faulty(first, fault, here.durable)
  for (let i = 0; i < 4 && !counted.failed; i++) {
    yield* Effect.exit(Effect.provideService(goOn(graph, id, durability), Checkpointer, service))
  }
  const healthy = faulty(second, undefined, here.durable).service
  const values = yield* Effect.provideService(finish(graph, id, durability), Checkpointer, healthy)
  return { survived: !counted.failed, values, world: here }
})

const directory = mkdtempSync(join(tmpdir(), "effect-pregel-crash-"))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

/** Two processes on one storage: services that share nothing but the rows. */
const processes = (storage: "memory" | "sqlite", file: string) => {
  const sqlite = Effect.map(
    Layer.build(Layer.fresh(SqliteCheckpointer.layer({ filename: join(directory, file) }))),
    Context.get(Checkpointer)
  )
  return storage === "sqlite"
    ? Effect.all([sqlite, sqlite])
    : Effect.map(Effect.provide(Checkpointer, layerMemory), ({ encoded }) => [
        makeEncoded(encoded),
        makeEncoded(encoded)
      ])
}

/** Lets the test runner breathe. */
const pause = Effect.async<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

const names = ["fetch", "reserve", "charge", "ship"]

for (const [name, make] of Object.entries(graphs)) {
  for (const durability of ["sync", "async", "exit"] as const) {
    for (const storage of ["memory", "sqlite"] as const) {
      it.scoped(
        `a crash at any call of the ${storage} storage loses nothing (${name}, ${durability})`,
        () =>
          Effect.gen(function* () {
            const [first, second] = (yield* processes(storage, `${name}-${durability}.db`)) as [Service, Service]
            const straight = world()
            const expected = yield* Effect.provideService(
              finish(make(straight), "straight", durability),
              Checkpointer,
              first
            )
            assert.deepStrictEqual(
              names.map((activity) => straight.runs.get(activity)),
              [1, 1, 1, 1]
            )
            for (const takesEffect of [false, true]) {
              for (const forGood of [true, false]) {
                let survived = false
                let call = 0
                while (!survived) {
                  call++
                  const fault = { call, takesEffect, forGood }
                  const id = JSON.stringify(fault)
                  const result = yield* crash(make, id, durability, fault, first, second)
                  survived = result.survived
                  assert.deepStrictEqual(result.values, expected, id)
                  assert.deepStrictEqual(result.world.repeated, [], id)
                  for (const activity of names) assert.isAtLeast(result.world.runs.get(activity)!, 1, id)
                  yield* pause
                }
                assert.isAtLeast(call, durability === "exit" ? 8 : 18)
              }
            }
          }),
        120_000
      )
    }
  }
}
