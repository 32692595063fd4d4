/** Reading a thread that has n checkpoints: its state, and its whole history. */
import { newFile, RawLog } from "./sqlite.js"
import { expectEqual, type Kind, type Open, OURS, RAW, THEIRS, type Workload } from "./workload.js"

const READS = 200

type What = "state" | "history"

/** A finished run of the counter has checkpoints for its input, for taking it in, and for each superstep. */
const stepsOf = (n: number) => n - 2

const ours =
  (kind: Kind, what: What): Open =>
  async (n, place) => {
    const { Channel, Effect, Graph, Saver, Schema, Stream } = await import("./ours.js")
    const saver = await Saver.open(kind, place)
    const graph = Graph.make("counter", {
      count: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
    })
      .addNode("add", () => Effect.succeed({ count: 1 }))
      .addEdge(Graph.START, "add")
      .addConditionalEdges("add", (state) => (state.count < stepsOf(n) ? "add" : Graph.END), ["add", Graph.END])
      .compile({ recursionLimit: n + 10 })
    await saver.before()
    const thread = graph.thread("t")
    await saver.runtime.runPromise(thread.invoke({ count: 0 }))
    return {
      run: async () => {
        if (what === "history") {
          const sum = Stream.runFold(thread.history(), 0, (total) => total + 1)
          return expectEqual(await saver.runtime.runPromise(sum), n, "number of checkpoints")
        }
        for (let i = 0; i < READS; i++) {
          const { values } = await saver.runtime.runPromise(thread.state)
          expectEqual(values.count, stepsOf(n), "count")
        }
      }
    }
  }

const theirs =
  (kind: Kind, what: What): Open =>
  async (n, place) => {
    const { Annotation, END, Saver, START, StateGraph } = await import("./langgraph.js")
    const saver = await Saver.open(kind, place)
    const State = Annotation.Root({
      count: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 })
    })
    await saver.before()
    const graph = new StateGraph(State)
      .addNode("add", () => ({ count: 1 }))
      .addEdge(START, "add")
      .addConditionalEdges("add", (state) => (state.count < stepsOf(n) ? "add" : END), ["add", END])
      .compile(saver.options)
    const config = { recursionLimit: n + 10, configurable: { thread_id: "t" } }
    await graph.invoke({ count: 0 }, config)
    return {
      run: async () => {
        if (what === "history") {
          let count = 0
          for await (const _ of graph.getStateHistory(config)) count++
          return expectEqual(count, n, "number of checkpoints")
        }
        for (let i = 0; i < READS; i++) {
          const { values } = await graph.getState(config)
          expectEqual(values.count, stepsOf(n), "count")
        }
      }
    }
  }

const raw =
  (kind: Kind, what: What): Open =>
  async (n, { directory }) => {
    const texts = Array.from({ length: n }, (_, count) => JSON.stringify({ count }))
    const log = kind === "memory" ? undefined : new RawLog(newFile(directory), "normal")
    if (log !== undefined) for (const text of texts) log.add(text)
    return {
      run: async () => {
        if (what === "history") {
          const all = (log?.all() ?? texts).map((text) => JSON.parse(text))
          return expectEqual(all.length, n, "number of checkpoints")
        }
        for (let i = 0; i < READS; i++) {
          const state = JSON.parse(log?.latest() ?? texts[n - 1]!)
          expectEqual(state.count, n - 1, "count")
        }
      }
    }
  }

const workload = (kind: Kind, what: What, title: string, quick: ReadonlyArray<number>): Workload => ({
  name: `read-${what}+${kind}`,
  title,
  unit: what === "state" ? "read" : "checkpoint",
  units: (n) => (what === "state" ? READS : n),
  sizes: [100, 1000],
  quick,
  engines: { [OURS]: ours(kind, what), [THEIRS]: theirs(kind, what), [RAW]: raw(kind, what) }
})

export const reads: ReadonlyArray<Workload> = [
  workload("memory", "state", "the state of a thread with n checkpoints in memory", []),
  workload("sqlite", "state", "the state of a thread with n checkpoints in SQLite", []),
  workload("memory", "history", "all of n checkpoints in memory", []),
  workload("sqlite", "history", "all of n checkpoints in SQLite", [300])
]
