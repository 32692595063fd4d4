/** n channels with values; each of many steps writes three of them. */
import { rawSession } from "./raw.js"
import { expectEqual, type Kind, type Open, OURS, RAW, THEIRS, type Workload } from "./workload.js"

const STEPS = 500

type State = Record<string, number>

const names = (n: number) => Array.from({ length: n }, (_, i) => `c${i}`)
const initial = (n: number): State => Object.fromEntries(names(n).map((name) => [name, 0]))
const next = (state: State): State => ({ c0: state.c0! + 1, c1: state.c0! * 2, c2: state.c0! * 3 })
const verify = (state: State, n: number) => {
  expectEqual(state.c0, STEPS, "count")
  expectEqual(Object.keys(state).length, n, "number of channels")
}

const ours =
  (kind: Kind): Open =>
  async (n, place) => {
    const { Channel, Effect, Graph, Saver, Schema } = await import("./ours.js")
    const saver = await Saver.open(kind, place)
    const graph = Graph.make(
      "channels",
      Object.fromEntries(names(n).map((name) => [name, Channel.lastValue(Schema.Number)]))
    )
      .addNode("write", (state) => Effect.succeed(next(state as State)))
      .addEdge(Graph.START, "write")
      .addConditionalEdges("write", (state) => (state.c0! < STEPS ? "write" : Graph.END), ["write", Graph.END])
      .compile({ recursionLimit: STEPS + 10 })
    return {
      before: saver.before,
      run: async () => {
        const run = kind === "none" ? graph.invoke(initial(n)) : graph.thread("t").invoke(initial(n))
        verify((await saver.runtime.runPromise(run)) as State, n)
      },
      after: saver.after
    }
  }

const theirs =
  (kind: Kind): Open =>
  async (n, place) => {
    const { Annotation, END, Saver, START, StateGraph } = await import("./langgraph.js")
    const saver = await Saver.open(kind, place)
    const Root = Annotation.Root(Object.fromEntries(names(n).map((name) => [name, Annotation<number>()])))
    const builder = new StateGraph(Root)
      .addNode("write", (state) => next(state))
      .addEdge(START, "write")
      .addConditionalEdges("write", (state) => (state.c0! < STEPS ? "write" : END), ["write", END])
    let graph = builder.compile()
    return {
      before: async () => {
        await saver.before()
        graph = builder.compile(saver.options)
      },
      run: async () => {
        const state = await graph.invoke(initial(n), {
          recursionLimit: STEPS + 10,
          configurable: { thread_id: "t" }
        })
        verify(state, n)
      },
      after: saver.after
    }
  }

const raw =
  (kind: Kind): Open =>
  async (n, place) =>
    rawSession(kind, place, (save) => {
      const state = initial(n)
      while (state.c0! < STEPS) {
        const update = next(state)
        Object.assign(state, update)
        save(update)
      }
      verify(state, n)
    })

const workload = (kind: Kind, title: string): Workload => ({
  name: kind === "none" ? "wide-state" : `wide-state+${kind}`,
  title,
  unit: "superstep",
  units: () => STEPS,
  sizes: [3, 30, 300],
  quick: kind === "none" ? [300] : [],
  engines: { [OURS]: ours(kind), [THEIRS]: theirs(kind), [RAW]: raw(kind) }
})

export const wideStates: ReadonlyArray<Workload> = [
  workload("none", "3 of n channels written"),
  workload("memory", "3 of n channels written, saved in memory"),
  workload("sqlite", "3 of n channels written, saved in SQLite")
]
