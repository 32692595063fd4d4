/** n nodes, one after the other, each adding one. */
import * as Mastra from "./mastra.js"
import { rawSession } from "./raw.js"
import { expectEqual, type Kind, MASTRA, type Open, OURS, RAW, THEIRS, type Workload, XSTATE } from "./workload.js"

const ours =
  (kind: Kind): Open =>
  async (n, place) => {
    const { chainOf, Effect, Saver } = await import("./ours.js")
    const saver = await Saver.open(kind, place)
    const graph = chainOf(n)
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
  (kind: Kind): Open =>
  async (n, place) => {
    const { chainOf, Saver } = await import("./langgraph.js")
    const saver = await Saver.open(kind, place)
    const builder = chainOf(n)
    let graph = builder.compile()
    return {
      before: async () => {
        await saver.before()
        graph = builder.compile(saver.options)
      },
      run: async () => {
        const state = await graph.invoke({ count: 0 }, { recursionLimit: n + 10, configurable: { thread_id: "t" } })
        expectEqual(state.count, n, "count")
      },
      after: saver.after
    }
  }

const raw =
  (kind: Kind): Open =>
  async (n, place) => {
    const nodes = Array.from({ length: n }, () => async (state: { count: number }) => ({ count: state.count + 1 }))
    return rawSession(kind, place, async (save) => {
      let state = { count: 0 }
      for (const node of nodes) {
        state = await node(state)
        save(state)
      }
      expectEqual(state.count, n, "count")
    })
  }

const xstate: Open = async (n, place) => (await import("./xstate.js")).chain(n, place)

const workload = (kind: Kind, title: string, quick: ReadonlyArray<number>): Workload => ({
  name: kind === "none" ? "chain" : `chain+${kind}`,
  title,
  unit: "node",
  units: (n) => n,
  sizes: [100, 300, 1000],
  quick,
  engines: {
    [OURS]: ours(kind),
    [THEIRS]: theirs(kind),
    [RAW]: raw(kind),
    ...(kind === "none" ? { [XSTATE]: xstate, [MASTRA]: Mastra.chain } : {})
  }
})

export const chains: ReadonlyArray<Workload> = [
  workload("none", "n nodes in a row", []),
  workload("memory", "n nodes in a row, saved in memory", []),
  workload("sqlite", "n nodes in a row, saved in SQLite", [100])
]
