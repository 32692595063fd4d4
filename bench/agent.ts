/** An agent's loop: n times a model asks for a tool, and the tool answers with 40 kB. */
import { rawSession } from "./raw.js"
import { expectEqual, type Kind, type Open, OURS, RAW, THEIRS, type Workload } from "./workload.js"

const ANSWER = "0123456789abcdef".repeat(2500)
const QUESTION = "Please look this up."

const verify = (messages: ReadonlyArray<unknown>, n: number) =>
  expectEqual(messages.length, 2 * n + 2, "number of messages")

const ours =
  (kind: Kind): Open =>
  async (n, place) => {
    const { Channel, Effect, Graph, Saver, Schema } = await import("./ours.js")
    const saver = await Saver.open(kind, place)
    const Message = Schema.Struct({
      id: Schema.String,
      role: Schema.Literal("user", "assistant", "tool"),
      content: Schema.String,
      calls: Schema.optionalWith(
        Schema.Array(Schema.Struct({ id: Schema.String, name: Schema.String, arguments: Schema.String })),
        { exact: true }
      )
    })
    type Message = typeof Message.Type
    const model = (messages: ReadonlyArray<Message>): Message => {
      const trip = (messages.length - 1) / 2
      const id = `m${messages.length}`
      return trip < n
        ? { id, role: "assistant", content: "", calls: [{ id: `call${trip}`, name: "search", arguments: "{}" }] }
        : { id, role: "assistant", content: "done" }
    }
    const tools = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> =>
      messages[messages.length - 1]!.calls!.map(({ id }) => ({ id: `answer-${id}`, role: "tool", content: ANSWER }))
    const graph = Graph.make("agent", { messages: Channel.append(Message) })
      .addNode("model", (state) => Effect.succeed({ messages: [model(state.messages)] }))
      .addNode("tools", (state) => Effect.succeed({ messages: tools(state.messages) }))
      .addEdge(Graph.START, "model")
      .addConditionalEdges(
        "model",
        ({ messages }) => (messages[messages.length - 1]!.calls === undefined ? Graph.END : "tools"),
        ["tools", Graph.END]
      )
      .addEdge("tools", "model")
      .compile({ recursionLimit: 2 * n + 10 })
    const input = { messages: [{ id: "m0", role: "user" as const, content: QUESTION }] }
    return {
      before: saver.before,
      run: async () => {
        const run = kind === "none" ? graph.invoke(input) : graph.thread("t").invoke(input)
        verify((await saver.runtime.runPromise(run)).messages, n)
      },
      after: saver.after
    }
  }

const theirs =
  (kind: Kind): Open =>
  async (n, place) => {
    const { END, MessagesAnnotation, Saver, START, StateGraph } = await import("./langgraph.js")
    const { AIMessage, HumanMessage, ToolMessage } = await import("@langchain/core/messages")
    const saver = await Saver.open(kind, place)
    const builder = new StateGraph(MessagesAnnotation)
      .addNode("model", ({ messages }) => {
        const trip = (messages.length - 1) / 2
        const id = `m${messages.length}`
        const call = { id: `call${trip}`, name: "search", args: {} }
        return {
          messages: [
            trip < n ? new AIMessage({ id, content: "", tool_calls: [call] }) : new AIMessage({ id, content: "done" })
          ]
        }
      })
      .addNode("tools", ({ messages }) => {
        const calls = (messages[messages.length - 1] as InstanceType<typeof AIMessage>).tool_calls!
        return {
          messages: calls.map(({ id }) => new ToolMessage({ id: `answer-${id}`, tool_call_id: id!, content: ANSWER }))
        }
      })
      .addEdge(START, "model")
      .addConditionalEdges(
        "model",
        ({ messages }) =>
          ((messages[messages.length - 1] as InstanceType<typeof AIMessage>).tool_calls ?? []).length > 0
            ? "tools"
            : END,
        ["tools", END]
      )
      .addEdge("tools", "model")
    let graph = builder.compile()
    return {
      before: async () => {
        await saver.before()
        graph = builder.compile(saver.options)
      },
      run: async () => {
        const state = await graph.invoke(
          { messages: [new HumanMessage({ id: "m0", content: QUESTION })] },
          { recursionLimit: 2 * n + 10, configurable: { thread_id: "t" } }
        )
        verify(state.messages, n)
      },
      after: saver.after
    }
  }

const raw =
  (kind: Kind): Open =>
  async (n, place) =>
    rawSession(kind, place, (save) => {
      const messages: Array<unknown> = []
      const add = (message: unknown) => {
        messages.push(message)
        save(message)
      }
      add({ id: "m0", role: "user", content: QUESTION })
      for (let trip = 0; trip < n; trip++) {
        add({ id: `m${messages.length}`, role: "assistant", content: "", calls: [{ id: `call${trip}` }] })
        add({ id: `answer-call${trip}`, role: "tool", content: ANSWER })
      }
      add({ id: `m${messages.length}`, role: "assistant", content: "done" })
      verify(messages, n)
    })

const workload = (kind: Kind, title: string, quick: ReadonlyArray<number>): Workload => ({
  name: kind === "none" ? "agent" : `agent+${kind}`,
  title,
  unit: "round trip",
  units: (n) => n,
  sizes: [10, 30, 100],
  quick,
  engines: { [OURS]: ours(kind), [THEIRS]: theirs(kind), [RAW]: raw(kind) }
})

export const agents: ReadonlyArray<Workload> = [
  workload("none", "n round trips between a model and a tool", []),
  workload("memory", "n round trips, saved in memory", []),
  workload("sqlite", "n round trips, saved in SQLite", [10])
]
