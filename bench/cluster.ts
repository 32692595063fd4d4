/** Calls of threads that a cluster of one process hosts, beside calls of local threads; both on SQLite. */
import { newFile, removeFile } from "./sqlite.js"
import { expectEqual, type Open, OURS, RAW, type Workload } from "./workload.js"

const STEPS = 3
/** Threads at once. */
const THREADS = 50

const makeGraph = async () => {
  const { Channel, Effect, Graph, Schema } = await import("./ours.js")
  return Graph.make("three", {
    count: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
  })
    .addNode("one", () => Effect.succeed({ count: 1 }))
    .addNode("two", () => Effect.succeed({ count: 1 }))
    .addNode("three", () => Effect.succeed({ count: 1 }))
    .addEdge(Graph.START, "one")
    .addEdge("one", "two")
    .addEdge("two", "three")
    .compile()
}

type Caller = (id: string) => Promise<{ readonly count: number }>

/** Threads in this process, or hosted by a cluster that is only this process. */
const callers = async (
  isHosted: boolean,
  file: string
): Promise<{ readonly call: Caller; readonly end: () => Promise<void> }> => {
  const Layer = await import("effect/Layer")
  const ManagedRuntime = await import("effect/ManagedRuntime")
  const graph = await makeGraph()
  if (!isHosted) {
    const SqliteCheckpointer = await import("effect-pregel/SqliteCheckpointer")
    const runtime = ManagedRuntime.make(SqliteCheckpointer.layer({ filename: file }))
    await runtime.runtime()
    return { call: (id) => runtime.runPromise(graph.thread(id).invoke({ count: 0 })), end: () => runtime.dispose() }
  }
  const GraphEntity = await import("effect-pregel/GraphEntity")
  const SqliteClient = await import("@effect/sql-sqlite-node/SqliteClient")
  const hosted = GraphEntity.make(graph)
  const runtime = ManagedRuntime.make(
    hosted.layer.pipe(
      Layer.provideMerge(GraphEntity.layerSingle()),
      Layer.provide(SqliteClient.layer({ filename: file }))
    )
  )
  const call: Caller = (id) => runtime.runPromise(hosted.thread(id).invoke({ count: 0 }))
  // The runner takes its shards.
  await call("first")
  return { call, end: () => runtime.dispose() }
}

const open =
  (isHosted: boolean, job: (call: Caller, n: number) => Promise<void>): Open =>
  async (n, { directory }) => {
    let file = ""
    let made: Awaited<ReturnType<typeof callers>>
    return {
      before: async () => {
        file = newFile(directory)
        made = await callers(isHosted, file)
      },
      run: () => job(made.call, n),
      after: async () => {
        await made.end()
        return removeFile(file)
      }
    }
  }

/** Calls of one thread, one after the other. */
const inARow = async (call: Caller, n: number) => {
  for (let i = 1; i <= n; i++) expectEqual((await call("t")).count, STEPS * i, "count")
}

/** Calls of many threads at once; each thread's come one after the other. */
const atOnce = async (call: Caller, n: number) => {
  const one = async (_: unknown, thread: number) => {
    for (let i = 1; i <= n; i++) expectEqual((await call(`t${thread}`)).count, STEPS * i, "count")
  }
  await Promise.all(Array.from({ length: THREADS }, one))
}

export const clusters: ReadonlyArray<Workload> = [
  {
    name: "cluster",
    title: `n calls of a hosted thread in a row, ${STEPS} supersteps each (raw: of a local thread)`,
    unit: "call",
    units: (n) => n,
    sizes: [50],
    quick: [],
    engines: { [OURS]: open(true, inARow), [RAW]: open(false, inARow) }
  },
  {
    name: "cluster/threads",
    title: `n calls of each of ${THREADS} hosted threads at once, ${STEPS} supersteps each (raw: of local threads)`,
    unit: "call",
    units: (n) => n * THREADS,
    sizes: [2],
    quick: [],
    engines: { [OURS]: open(true, atOnce), [RAW]: open(false, atOnce) }
  }
]
