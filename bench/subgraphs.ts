/** One node sends n packets to a subgraph of three nodes. */
import { rawSession } from "./raw.js"
import { expectEqual, type Kind, type Open, OURS, RAW, THEIRS, type Workload } from "./workload.js"

/** Packet i becomes i + 3 on its way through the three nodes. */
const sumOf = (n: number) => (n * (n - 1)) / 2 + 3 * n

const ours =
  (kind: Kind): Open =>
  async (n, place) => {
    const { Channel, Effect, Graph, Saver, Schema, Send } = await import("./ours.js")
    const saver = await Saver.open(kind, place)
    const add = (state: { readonly value?: number }) => Effect.succeed({ value: state.value! + 1 })
    const child = Graph.make("child", { value: Channel.lastValue(Schema.Number) })
      .addNode("a", add)
      .addNode("b", add)
      .addNode("c", add)
      .addEdge(Graph.START, "a")
      .addEdge("a", "b")
      .addEdge("b", "c")
      .compile()
    const graph = Graph.make("parent", {
      value: Channel.lastValue(Schema.Number),
      sum: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
    })
      .addNode("plan", () => Effect.succeed({}))
      .addGraph("child", child, {
        input: (state) => ({ value: state.value }),
        output: (state) => ({ sum: state.value! })
      })
      .addEdge(Graph.START, "plan")
      .addConditionalEdges(
        "plan",
        () => Array.from({ length: n }, (_, value) => Send.make("child", { value, sum: 0 })),
        ["child"]
      )
      .compile()
    return {
      before: saver.before,
      run: async () => {
        const run = kind === "none" ? graph.invoke({}) : graph.thread("t").invoke({})
        expectEqual((await saver.runtime.runPromise(run)).sum, sumOf(n), "sum")
      },
      after: saver.after
    }
  }

const theirs =
  (kind: Kind): Open =>
  async (n, place) => {
    const { Annotation, Saver, Send, START, StateGraph } = await import("./langgraph.js")
    const saver = await Saver.open(kind, place)
    const Child = Annotation.Root({ value: Annotation<number>() })
    const add = (state: typeof Child.State) => ({ value: state.value + 1 })
    const child = new StateGraph(Child)
      .addNode("a", add)
      .addNode("b", add)
      .addNode("c", add)
      .addEdge(START, "a")
      .addEdge("a", "b")
      .addEdge("b", "c")
      .compile()
    const State = Annotation.Root({
      sum: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 })
    })
    const builder = new StateGraph(State)
      .addNode("plan", () => ({}))
      .addNode("child", async (packet: unknown) => ({ sum: (await child.invoke(packet as { value: number })).value }))
      .addEdge(START, "plan")
      .addConditionalEdges("plan", () => Array.from({ length: n }, (_, value) => new Send("child", { value })), [
        "child"
      ])
    let graph = builder.compile()
    return {
      before: async () => {
        await saver.before()
        graph = builder.compile(saver.options)
      },
      run: async () => {
        const state = await graph.invoke({}, { configurable: { thread_id: "t" } })
        expectEqual(state.sum, sumOf(n), "sum")
      },
      after: saver.after
    }
  }

const raw =
  (kind: Kind): Open =>
  async (n, place) =>
    rawSession(kind, place, async (save) => {
      const add = async (value: number) => value + 1
      const child = async (value: number) => {
        let result = value
        for (let node = 0; node < 3; node++) save((result = await add(result)))
        return result
      }
      const results = await Promise.all(Array.from({ length: n }, (_, value) => child(value)))
      expectEqual(
        results.reduce((total, value) => total + value, 0),
        sumOf(n),
        "sum"
      )
    })

const workload = (kind: Kind, title: string, quick: ReadonlyArray<number>): Workload => ({
  name: kind === "none" ? "subgraphs" : `subgraphs+${kind}`,
  title,
  unit: "subgraph run",
  units: (n) => n,
  sizes: [10, 100],
  quick,
  engines: { [OURS]: ours(kind), [THEIRS]: theirs(kind), [RAW]: raw(kind) }
})

export const subgraphs: ReadonlyArray<Workload> = [
  workload("none", "n Sends to a subgraph of 3 nodes", [30]),
  workload("memory", "n Sends to a subgraph of 3 nodes, saved in memory", []),
  workload("sqlite", "n Sends to a subgraph of 3 nodes, saved in SQLite", [])
]
