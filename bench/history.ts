/** A log that grows by 1 KiB a step to n items; every node sees all of it. */
import { rawSession } from "./raw.js"
import { DELTA, expectEqual, type Kind, type Open, OURS, RAW, THEIRS, type Workload } from "./workload.js"

interface Message {
  readonly id: string
  readonly content: string
}

const CONTENT = "0123456789abcdef".repeat(64)
const messageOf = (i: number): Message => ({ id: String(i), content: CONTENT })

const verify = (messages: ReadonlyArray<Message>, n: number) => {
  expectEqual(messages.length, n, "number of messages")
  expectEqual(messages[n - 1]!.id, String(n - 1), "last message")
}

const ours =
  (kind: Kind): Open =>
  async (n, place) => {
    const { Channel, Effect, Graph, Saver, Schema } = await import("./ours.js")
    const saver = await Saver.open(kind, place)
    const Item = Schema.Struct({ id: Schema.String, content: Schema.String })
    const graph = Graph.make("history", { messages: Channel.append(Item) })
      .addNode("say", (state) => Effect.succeed({ messages: [messageOf(state.messages.length)] }))
      .addEdge(Graph.START, "say")
      .addConditionalEdges("say", (state) => (state.messages.length < n ? "say" : Graph.END), ["say", Graph.END])
      .compile({ recursionLimit: n + 10 })
    return {
      before: saver.before,
      run: async () => {
        const run = kind === "none" ? graph.invoke({}) : graph.thread("t").invoke({})
        verify((await saver.runtime.runPromise(run)).messages, n)
      },
      after: saver.after
    }
  }

const theirs =
  (kind: Kind, delta: boolean): Open =>
  async (n, place) => {
    const { Annotation, DeltaChannel, END, Saver, START, StateGraph } = await import("./langgraph.js")
    const saver = await Saver.open(kind, place)
    const State = Annotation.Root({
      messages: delta
        ? ((() =>
            new DeltaChannel<Array<Message>, Array<Message>>((state, writes) => state.concat(...writes), {
              initialValueFactory: () => []
            })) as never as ReturnType<typeof Annotation<Array<Message>>>)
        : Annotation<Array<Message>>({ reducer: (a, b) => a.concat(b), default: () => [] })
    })
    const builder = new StateGraph(State)
      .addNode("say", (state) => ({ messages: [messageOf(state.messages.length)] }))
      .addEdge(START, "say")
      .addConditionalEdges("say", (state) => (state.messages.length < n ? "say" : END), ["say", END])
    let graph = builder.compile()
    return {
      before: async () => {
        await saver.before()
        graph = builder.compile(saver.options)
      },
      run: async () => {
        const state = await graph.invoke({ messages: [] }, { recursionLimit: n + 10, configurable: { thread_id: "t" } })
        verify(state.messages, n)
      },
      after: saver.after
    }
  }

const raw =
  (kind: Kind): Open =>
  async (n, place) =>
    rawSession(kind, place, (save) => {
      const messages: Array<Message> = []
      while (messages.length < n) {
        const message = messageOf(messages.length)
        messages.push(message)
        save(message)
      }
      verify(messages, n)
    })

const workload = (kind: Kind, title: string, limit: number): Workload => ({
  name: kind === "none" ? "history" : `history+${kind}`,
  title,
  unit: "superstep",
  units: (n) => n,
  sizes: [250, 500, 1000, 2000],
  quick: kind === "sqlite" ? [120] : [],
  limits: { [THEIRS]: limit },
  engines: {
    [OURS]: ours(kind),
    [THEIRS]: theirs(kind, false),
    ...(kind === "none" ? {} : { [DELTA]: theirs(kind, true) }),
    [RAW]: raw(kind)
  }
})

export const histories: ReadonlyArray<Workload> = [
  workload("none", "a log of n items of 1 KiB", 2000),
  // Their whole log is in memory n times over: gigabytes at 2,000.
  workload("memory", "a log of n items of 1 KiB, saved in memory", 1000),
  workload("sqlite", "a log of n items of 1 KiB, saved in SQLite", 2000)
]
