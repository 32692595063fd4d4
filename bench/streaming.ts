/** The counter, read as a stream of values and updates. The limit to compare with is the same run without a reader. */
import { expectEqual, type Open, OURS, RAW, THEIRS, type Workload } from "./workload.js"

const graphOf = async (n: number) => {
  const { Channel, Effect, Graph, Schema } = await import("./ours.js")
  return Graph.make("counter", {
    count: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
  })
    .addNode("add", () => Effect.succeed({ count: 1 }))
    .addEdge(Graph.START, "add")
    .addConditionalEdges("add", (state) => (state.count < n ? "add" : Graph.END), ["add", Graph.END])
    .compile({ recursionLimit: n + 10 })
}

const ours: Open = async (n) => {
  const { Effect, Stream } = await import("./ours.js")
  const graph = await graphOf(n)
  return {
    run: async () => {
      const events = graph.stream({ count: 0 }, { modes: ["values", "updates"] })
      const count = Stream.runFold(events, 0, (total, event) => total + (event._tag === "Updates" ? 1 : 0))
      expectEqual(await Effect.runPromise(count), n, "number of updates")
    }
  }
}

const invoked: Open = async (n) => {
  const { Effect } = await import("./ours.js")
  const graph = await graphOf(n)
  return {
    run: async () => expectEqual((await Effect.runPromise(graph.invoke({ count: 0 }))).count, n, "count")
  }
}

const theirs: Open = async (n) => {
  const { Annotation, END, START, StateGraph } = await import("./langgraph.js")
  const State = Annotation.Root({
    count: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 })
  })
  const graph = new StateGraph(State)
    .addNode("add", () => ({ count: 1 }))
    .addEdge(START, "add")
    .addConditionalEdges("add", (state) => (state.count < n ? "add" : END), ["add", END])
    .compile()
  return {
    run: async () => {
      let count = 0
      const events = await graph.stream({ count: 0 }, { streamMode: ["values", "updates"], recursionLimit: n + 10 })
      for await (const [mode] of events) if (mode === "updates") count++
      expectEqual(count, n, "number of updates")
    }
  }
}

export const streaming: ReadonlyArray<Workload> = [
  {
    name: "stream",
    title: "values and updates of one node (raw: our own invoke)",
    unit: "superstep",
    units: (n) => n,
    sizes: [100, 1000, 4000],
    quick: [300],
    engines: { [OURS]: ours, [THEIRS]: theirs, [RAW]: invoked }
  }
]
