/** n threads at once, ten supersteps each. */
import { rawSession } from "./raw.js"
import type { Synchronous } from "./sqlite.js"
import { expectEqual, type Kind, type Open, OURS, RAW, THEIRS, type Workload } from "./workload.js"

const STEPS = 10

const ours =
  (kind: Kind, synchronous: Synchronous): Open =>
  async (n, place) => {
    const { Channel, Effect, Graph, Saver, Schema } = await import("./ours.js")
    const saver = await Saver.open(kind, place, synchronous)
    const graph = Graph.make("counter", {
      count: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
    })
      // Each node waits, so that all threads really run at once.
      .addNode("add", () => Effect.promise(async () => ({ count: 1 })))
      .addEdge(Graph.START, "add")
      .addConditionalEdges("add", (state) => (state.count < STEPS ? "add" : Graph.END), ["add", Graph.END])
      .compile()
    return {
      before: saver.before,
      run: async () => {
        const one = (i: number) =>
          kind === "none" ? graph.invoke({ count: 0 }) : graph.thread(`t${i}`).invoke({ count: 0 })
        const states = await Promise.all(Array.from({ length: n }, (_, i) => saver.runtime.runPromise(one(i))))
        for (const { count } of states) expectEqual(count, STEPS, "count")
      },
      after: saver.after
    }
  }

const theirs =
  (kind: Kind, synchronous: Synchronous): Open =>
  async (n, place) => {
    const { Annotation, END, Saver, START, StateGraph } = await import("./langgraph.js")
    const saver = await Saver.open(kind, place, synchronous)
    const State = Annotation.Root({
      count: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 })
    })
    const builder = new StateGraph(State)
      .addNode("add", async () => ({ count: 1 }))
      .addEdge(START, "add")
      .addConditionalEdges("add", (state) => (state.count < STEPS ? "add" : END), ["add", END])
    let graph = builder.compile()
    return {
      before: async () => {
        await saver.before()
        graph = builder.compile(saver.options)
      },
      run: async () => {
        const one = (i: number) =>
          graph.invoke({ count: 0 }, { configurable: { thread_id: `t${i}` }, durability: "sync" })
        const states = await Promise.all(Array.from({ length: n }, (_, i) => one(i)))
        for (const { count } of states) expectEqual(count, STEPS, "count")
      },
      after: saver.after
    }
  }

const raw =
  (kind: Kind): Open =>
  async (n, place) =>
    rawSession(kind, place, async (save) => {
      const one = async () => {
        let state = { count: 0 }
        while (state.count < STEPS) {
          state = await Promise.resolve({ count: state.count + 1 })
          save(state)
        }
        return state
      }
      for (const { count } of await Promise.all(Array.from({ length: n }, one))) expectEqual(count, STEPS, "count")
    })

const workload = (
  name: string,
  title: string,
  kind: Kind,
  sizes: ReadonlyArray<number>,
  quick: ReadonlyArray<number>,
  synchronous: Synchronous = "normal"
): Workload => ({
  name,
  title,
  unit: "superstep",
  units: (n) => n * STEPS,
  sizes,
  quick,
  engines: { [OURS]: ours(kind, synchronous), [THEIRS]: theirs(kind, synchronous), [RAW]: raw(kind) }
})

export const threads: ReadonlyArray<Workload> = [
  workload("threads", "n threads at once", "none", [100, 1000], [50]),
  workload("threads+sqlite", "n threads at once, saved in SQLite", "sqlite", [100, 1000], []),
  workload(
    "threads+sqlite/full",
    "n threads at once, flushed to the disk (raw: without the flush)",
    "sqlite",
    [100],
    [],
    "full"
  )
]
