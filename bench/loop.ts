/** A counter that counts to n: one node that runs again and again. */
import { newFile, RawLog, type Synchronous } from "./sqlite.js"
import { expectEqual, type Kind, type Open, OURS, RAW, THEIRS, type Workload } from "./workload.js"

type Durability = "sync" | "async" | "exit"

const ours =
  (kind: Kind, synchronous: Synchronous, durability: Durability): Open =>
  async (n, place) => {
    const { Channel, Effect, Graph, Saver, Schema } = await import("./ours.js")
    const saver = await Saver.open(kind, place, synchronous)
    const graph = Graph.make("counter", {
      count: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
    })
      .addNode("add", () => Effect.succeed({ count: 1 }))
      .addEdge(Graph.START, "add")
      .addConditionalEdges("add", (state) => (state.count < n ? "add" : Graph.END), ["add", Graph.END])
      .compile({ recursionLimit: n + 10, durability })
    return {
      before: saver.before,
      run: async () => {
        const state =
          kind === "none"
            ? await Effect.runPromise(graph.invoke({ count: 0 }))
            : await saver.runtime.runPromise(graph.thread("t").invoke({ count: 0 }))
        expectEqual(state.count, n, "count")
      },
      after: saver.after
    }
  }

const theirs =
  (kind: Kind, synchronous: Synchronous, durability: Durability): Open =>
  async (n, place) => {
    const { Annotation, END, Saver, START, StateGraph } = await import("./langgraph.js")
    const saver = await Saver.open(kind, place, synchronous)
    const State = Annotation.Root({
      count: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 })
    })
    const builder = new StateGraph(State)
      .addNode("add", () => ({ count: 1 }))
      .addEdge(START, "add")
      .addConditionalEdges("add", (state) => (state.count < n ? "add" : END), ["add", END])
    let graph = builder.compile()
    return {
      before: async () => {
        await saver.before()
        graph = builder.compile(saver.options)
      },
      run: async () => {
        const state = await graph.invoke(
          { count: 0 },
          { recursionLimit: n + 10, durability, configurable: { thread_id: "t" } }
        )
        expectEqual(state.count, n, "count")
      },
      after: saver.after
    }
  }

const rawLoop: Open = async (n) => ({
  run: async () => {
    let state = { count: 0 }
    while (state.count < n) state = { count: state.count + 1 }
    expectEqual(state.count, n, "count")
  }
})

const rawMemory: Open = async (n) => ({
  run: async () => {
    const log: Array<string> = []
    let state = { count: 0 }
    while (state.count < n) {
      state = { count: state.count + 1 }
      log.push(JSON.stringify(state))
    }
    expectEqual(log.length, n, "count")
  }
})

const rawSqlite =
  (synchronous: Synchronous, every: boolean): Open =>
  async (n, { directory }) => {
    let log!: RawLog
    return {
      before: async () => {
        log = new RawLog(newFile(directory), synchronous)
      },
      run: async () => {
        let state = { count: 0 }
        while (state.count < n) {
          state = { count: state.count + 1 }
          if (every || state.count === n) log.add(JSON.stringify(state))
        }
        expectEqual(state.count, n, "count")
      },
      after: async () => log.close()
    }
  }

/** `async` is their default; ours is `sync`. Where it matters both use the same. */
const workload = (
  name: string,
  title: string,
  kind: Kind,
  raw: Open,
  synchronous: Synchronous,
  durability: Durability,
  quick: ReadonlyArray<number>
): Workload => ({
  name,
  title,
  unit: "superstep",
  units: (n) => n,
  sizes: synchronous === "full" ? [200, 1000] : [100, 1000, 4000],
  quick,
  engines: {
    [OURS]: ours(kind, synchronous, durability),
    [THEIRS]: theirs(kind, synchronous, durability),
    [RAW]: raw
  }
})

export const loops: ReadonlyArray<Workload> = [
  workload("loop", "one node, nothing saved", "none", rawLoop, "normal", "sync", [1000]),
  workload("loop+memory", "each step saved in memory", "memory", rawMemory, "normal", "sync", [500]),
  workload("loop+sqlite", "saved before the next step", "sqlite", rawSqlite("normal", true), "normal", "sync", [500]),
  workload("loop+sqlite/full", "and flushed to the disk", "sqlite", rawSqlite("full", true), "full", "sync", [100]),
  workload(
    "loop+sqlite/async",
    "saved in the background",
    "sqlite",
    rawSqlite("normal", true),
    "normal",
    "async",
    [500]
  ),
  workload("loop+sqlite/exit", "saved at the end", "sqlite", rawSqlite("normal", false), "normal", "exit", [])
]
