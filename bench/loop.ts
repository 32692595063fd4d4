/** A counter that counts to n: one node that runs again and again. */
import * as Mastra from "./mastra.js"
import { rawSession } from "./raw.js"
import type { Synchronous } from "./sqlite.js"
import { expectEqual, type Kind, MASTRA, type Open, OURS, RAW, THEIRS, type Workload, XSTATE } from "./workload.js"

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

const raw =
  (kind: Kind, synchronous: Synchronous, durability: Durability): Open =>
  async (n, place) =>
    rawSession(
      kind,
      place,
      (save) => {
        let state = { count: 0 }
        while (state.count < n) {
          state = { count: state.count + 1 }
          if (durability !== "exit" || state.count === n) save(state)
        }
        expectEqual(state.count, n, "count")
      },
      synchronous
    )

const xstate =
  (kind: Kind): Open =>
  async (n, place) =>
    (await import("./xstate.js")).loop(kind)(n, place)

const workload = (
  name: string,
  title: string,
  kind: Kind,
  quick: ReadonlyArray<number>,
  durability: Durability = "sync",
  synchronous: Synchronous = "normal"
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
    [RAW]: raw(kind, synchronous, durability),
    ...(kind === "none" ? { [MASTRA]: Mastra.loop } : {}),
    ...(kind === "sqlite" ? {} : { [XSTATE]: xstate(kind) })
  }
})

export const loops: ReadonlyArray<Workload> = [
  workload("loop", "one node, nothing saved", "none", [300]),
  workload("loop+memory", "each step saved in memory", "memory", [300]),
  workload("loop+sqlite", "each step saved before the next", "sqlite", [200]),
  workload("loop+sqlite/full", "each step flushed to the disk", "sqlite", [], "sync", "full"),
  workload("loop+sqlite/async", "each step saved in the background", "sqlite", [], "async"),
  workload("loop+sqlite/exit", "the end of the run saved", "sqlite", [], "exit")
]
