/** One node sends n packets to a worker; a reducer adds up what they return. */
import * as Mastra from "./mastra.js"
import { rawSession } from "./raw.js"
import { expectEqual, type Kind, MASTRA, type Open, OURS, RAW, THEIRS, type Workload } from "./workload.js"

const sumOf = (n: number) => (n * (n - 1)) / 2

/** `waits`: each worker lets others go first, so that all of them run at once. */
const ours =
  (kind: Kind, waits: boolean): Open =>
  async (n, place) => {
    const { Channel, Effect, Graph, Saver, Schema, Send } = await import("./ours.js")
    const saver = await Saver.open(kind, place)
    const graph = Graph.make("fan-out", {
      sum: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
    })
      .addNode("plan", () => Effect.succeed({}))
      .addWorker("work", Schema.Struct({ value: Schema.Number }), ({ value }) =>
        waits ? Effect.promise(async () => ({ sum: value })) : Effect.succeed({ sum: value })
      )
      .addEdge(Graph.START, "plan")
      .addConditionalEdges("plan", () => Array.from({ length: n }, (_, value) => Send.make("work", { value })), [
        "work"
      ])
      .compile()
    return {
      before: saver.before,
      run: async () => {
        const state =
          kind === "none"
            ? await Effect.runPromise(graph.invoke({}))
            : await saver.runtime.runPromise(graph.thread("t").invoke({}))
        expectEqual(state.sum, sumOf(n), "sum")
      },
      after: saver.after
    }
  }

const theirs =
  (kind: Kind): Open =>
  async (n, place) => {
    const { Annotation, Saver, Send, START, StateGraph } = await import("./langgraph.js")
    const saver = await Saver.open(kind, place)
    const State = Annotation.Root({
      sum: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 })
    })
    const builder = new StateGraph(State)
      .addNode("plan", () => ({}))
      .addNode("work", (packet: unknown) => ({ sum: (packet as { value: number }).value }))
      .addEdge(START, "plan")
      .addConditionalEdges("plan", () => Array.from({ length: n }, (_, value) => new Send("work", { value })), ["work"])
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
      const work = async (value: number) => ({ sum: value })
      const results = await Promise.all(Array.from({ length: n }, (_, value) => work(value)))
      const sum = results.reduce((total, result) => total + result.sum, 0)
      save(results)
      expectEqual(sum, sumOf(n), "sum")
    })

const workload = (
  name: string,
  title: string,
  kind: Kind,
  waits: boolean,
  sizes: ReadonlyArray<number>,
  quick: ReadonlyArray<number>
): Workload => ({
  name,
  title,
  unit: "Send",
  units: (n) => n,
  sizes,
  quick,
  warmUpSize: 1000,
  engines: {
    [OURS]: ours(kind, waits),
    [THEIRS]: theirs(kind),
    [RAW]: raw(kind),
    ...(kind === "none" ? { [MASTRA]: Mastra.fanout } : {})
  }
})

export const fanouts: ReadonlyArray<Workload> = [
  workload("fanout", "n Sends in one superstep", "none", false, [10, 100, 1000, 10_000], [300]),
  workload("fanout/waiting", "n Sends whose workers wait for a promise", "none", true, [100, 1000], []),
  workload("fanout+sqlite", "n Sends, results saved in SQLite", "sqlite", false, [100, 1000], [])
]
