/** The counter in a graph of n nodes, of which only one runs. */
import { rawSession } from "./raw.js"
import { expectEqual, type Kind, type Open, OURS, RAW, THEIRS, type Workload, XSTATE } from "./workload.js"

const STEPS = 500

const idle = (n: number) => Array.from({ length: n - 1 }, (_, i) => `idle${i}`)

const ours =
  (kind: Kind): Open =>
  async (n, place) => {
    const { Channel, Effect, Graph, Saver, Schema } = await import("./ours.js")
    const saver = await Saver.open(kind, place)
    let builder: any = Graph.make("wide", {
      count: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
    }).addNode("add", () => Effect.succeed({ count: 1 }))
    for (const name of idle(n)) builder = builder.addNode(name, () => Effect.succeed({ count: 1000 }))
    const graph = builder
      .addEdge(Graph.START, "add")
      .addConditionalEdges("add", (state: { count: number }) => (state.count < STEPS ? "add" : Graph.END), [
        "add",
        Graph.END,
        ...idle(n)
      ])
      .compile({ recursionLimit: STEPS + 10 })
    return {
      before: saver.before,
      run: async () => {
        const run = kind === "none" ? graph.invoke({ count: 0 }) : graph.thread("t").invoke({ count: 0 })
        const state = (await saver.runtime.runPromise(run)) as { count: number }
        expectEqual(state.count, STEPS, "count")
      },
      after: saver.after
    }
  }

const theirs =
  (kind: Kind): Open =>
  async (n, place) => {
    const { Annotation, END, Saver, START, StateGraph } = await import("./langgraph.js")
    const saver = await Saver.open(kind, place)
    const State = Annotation.Root({
      count: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 })
    })
    const builder: any = new StateGraph(State).addNode("add", () => ({ count: 1 }))
    for (const name of idle(n)) builder.addNode(name, () => ({ count: 1000 }))
    builder
      .addEdge(START, "add")
      .addConditionalEdges("add", (state: { count: number }) => (state.count < STEPS ? "add" : END), [
        "add",
        END,
        ...idle(n)
      ])
    let graph = builder.compile()
    return {
      before: async () => {
        await saver.before()
        graph = builder.compile(saver.options)
      },
      run: async () => {
        const state = await graph.invoke({ count: 0 }, { recursionLimit: STEPS + 10, configurable: { thread_id: "t" } })
        expectEqual(state.count, STEPS, "count")
      },
      after: saver.after
    }
  }

const raw =
  (kind: Kind): Open =>
  async (_, place) =>
    rawSession(kind, place, (save) => {
      let state = { count: 0 }
      while (state.count < STEPS) save((state = { count: state.count + 1 }))
      expectEqual(state.count, STEPS, "count")
    })

const xstate: Open = async (n, place) => (await import("./xstate.js")).wide(STEPS)(n, place)

const workload = (kind: Kind, title: string): Workload => ({
  name: kind === "none" ? "wide-graph" : `wide-graph+${kind}`,
  title,
  unit: "superstep",
  units: () => STEPS,
  sizes: [1, 1000, 10_000],
  quick: [],
  limits: { [THEIRS]: 1000 },
  engines: {
    [OURS]: ours(kind),
    [THEIRS]: theirs(kind),
    [RAW]: raw(kind),
    ...(kind === "none" ? { [XSTATE]: xstate } : {})
  }
})

export const wideGraphs: ReadonlyArray<Workload> = [
  workload("none", "one of n nodes runs"),
  workload("memory", "one of n nodes runs, saved in memory"),
  workload("sqlite", "one of n nodes runs, saved in SQLite")
]
