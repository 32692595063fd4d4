/** A thread that pauses n times and is resumed as often. */
import { newFile, RawLog } from "./sqlite.js"
import { expectEqual, type Kind, type Open, OURS, RAW, THEIRS, type Workload } from "./workload.js"

const ours =
  (kind: Kind): Open =>
  async (n, place) => {
    const { Channel, Effect, Graph, Interrupt, Saver, Schema } = await import("./ours.js")
    const saver = await Saver.open(kind, place)
    const graph = Graph.make("pauses", {
      count: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
    })
      .addNode("ask", (state) =>
        Effect.map(Interrupt.interrupt<number>({ question: state.count }), (answer) => ({ count: answer }))
      )
      .addEdge(Graph.START, "ask")
      .addConditionalEdges("ask", (state) => (state.count < n ? "ask" : Graph.END), ["ask", Graph.END])
      .compile({ recursionLimit: n + 10 })
    return {
      before: saver.before,
      run: async () => {
        const thread = graph.thread("t")
        const { runtime } = saver
        const first = await runtime.runPromise(thread.run({ count: 0 }))
        expectEqual(first._tag, "Paused", "outcome")
        for (let i = 1; i < n; i++) {
          const error = await runtime.runPromise(Effect.flip(thread.answer(1)))
          expectEqual(error._tag, "GraphInterrupt", "outcome")
        }
        const state = await runtime.runPromise(thread.answer(1))
        expectEqual(state.count, n, "count")
      },
      after: saver.after
    }
  }

const theirs =
  (kind: Kind): Open =>
  async (n, place) => {
    const { Annotation, Command, END, interrupt, Saver, START, StateGraph } = await import("./langgraph.js")
    const saver = await Saver.open(kind, place)
    const State = Annotation.Root({
      count: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 })
    })
    const builder = new StateGraph(State)
      .addNode("ask", (state) => ({ count: interrupt<{ question: number }, number>({ question: state.count }) }))
      .addEdge(START, "ask")
      .addConditionalEdges("ask", (state) => (state.count < n ? "ask" : END), ["ask", END])
    let graph = builder.compile()
    return {
      before: async () => {
        await saver.before()
        graph = builder.compile(saver.options)
      },
      run: async () => {
        const config = { recursionLimit: n + 10, configurable: { thread_id: "t" } }
        let state = await graph.invoke({ count: 0 }, config)
        for (let i = 0; i < n; i++) state = await graph.invoke(new Command({ resume: 1 }), config)
        expectEqual(state.count, n, "count")
      },
      after: saver.after
    }
  }

/** Reads the newest state and writes the next one. */
const rawMemory: Open = async (n) => ({
  run: async () => {
    const log = [JSON.stringify({ count: 0 })]
    for (let i = 0; i < n; i++) {
      const state = JSON.parse(log[log.length - 1]!) as { count: number }
      log.push(JSON.stringify({ count: state.count + 1 }))
    }
    expectEqual(log.length, n + 1, "count")
  }
})

const rawSqlite: Open = async (n, { directory }) => {
  let log!: RawLog
  return {
    before: async () => {
      log = new RawLog(newFile(directory), "normal")
    },
    run: async () => {
      log.add(JSON.stringify({ count: 0 }))
      for (let i = 0; i < n; i++) {
        const state = JSON.parse(log.latest()) as { count: number }
        log.add(JSON.stringify({ count: state.count + 1 }))
      }
      expectEqual(JSON.parse(log.latest()).count, n, "count")
    },
    after: async () => log.close()
  }
}

const workload = (kind: Kind, raw: Open, title: string, quick: ReadonlyArray<number>): Workload => ({
  name: `interrupt+${kind}`,
  title,
  unit: "resume",
  units: (n) => n,
  sizes: [50, 200, 600],
  quick,
  engines: { [OURS]: ours(kind), [THEIRS]: theirs(kind), [RAW]: raw }
})

export const interrupts: ReadonlyArray<Workload> = [
  workload("memory", rawMemory, "n pauses and resumes of a thread in memory", [50]),
  workload("sqlite", rawSqlite, "n pauses and resumes of a thread in SQLite", [])
]
