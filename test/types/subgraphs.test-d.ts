/** Graphs as nodes of graphs. */
// @effect-diagnostics floatingEffect:off
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { test } from "vitest"
import * as Channel from "../../src/Channel.js"
import * as Command from "../../src/Command.js"
import * as Graph from "../../src/Graph.js"
import type * as Errors from "../../src/GraphError.js"
import { Approve, type ContextOf, type ErrorOf, empty, exactly, Llm, type LlmError, type RunError } from "./support.js"

const chat = (state: { readonly log: ReadonlyArray<string> }) =>
  Effect.flatMap(Llm, (llm) => Effect.map(llm.chat(state.log), (log) => ({ log })))

const fits = Graph.make("fits", { log: Channel.append(Schema.String), own: Channel.lastValue(Schema.Date) })
  .addNode("chat", chat)
  .compile()

const sums = { initial: () => 0, reducer: (a: number, b: number) => a + b }
const other = Graph.make("other", {
  count: Channel.lastValue(Schema.String),
  size: Channel.reduce(Schema.Number, sums)
})
  .addNode("a", () => Effect.succeed({ count: "1", size: 1 }))
  .compile()

test("a subgraph that fits shares channels by name", () => {
  const app = empty.addGraph("child", fits).addEdge(Graph.START, "child").compile()
  exactly<Graph.NodeNames<typeof app>, "child">(true)
})

test("a subgraph's failures and services are the graph's", () => {
  const app = empty.addGraph("child", fits).compile()
  exactly<Graph.Error<typeof app>, LlmError>(true)
  exactly<Graph.Requirements<typeof app>, Llm>(true)
  const asks = Graph.make("asks", { log: Channel.append(Schema.String) })
    .addNode("ask", () => Effect.asVoid(Approve({ question: "?" })))
    .compile()
  const parent = empty.addGraph("child", fits).addGraph("asks", asks).compile()
  exactly<Graph.Error<typeof parent>, LlmError | Errors.GraphInterrupt>(true)
  exactly<Graph.Requirements<typeof parent>, Llm>(true)
})

test("mappings are typed on both sides", () => {
  empty.addGraph("child", other, {
    input: (state) => {
      exactly<typeof state.log, ReadonlyArray<string>>(true)
      return { count: `${state.count}` }
    },
    output: (state) => {
      exactly<typeof state, { readonly size: number; readonly count?: string }>(true)
      return { count: state.size, note: state.count }
    },
    persistence: "thread"
  })
})

test("one mapping is enough where the other side fits", () => {
  empty.addGraph("child", fits, { input: (state) => ({ log: state.log }) })
  empty.addGraph("child", fits, { output: (state) => ({ log: state.log }) })
})

test("a graph is invoked inside a node with its own failures and services", () => {
  const app = empty.addNode("call", (state) => Effect.map(fits.invoke({ log: state.log }), ({ log }) => ({ log })))
  type Call = Graph.Error<ReturnType<(typeof app)["compile"]>>
  exactly<Call, LlmError | RunError>(true)
  const run = app.compile().invoke({})
  exactly<ErrorOf<typeof run>, LlmError | RunError>(true)
  exactly<ContextOf<typeof run>, Llm>(true)
})

test("a subgraph may go to the enclosing graph's nodes that `goto` declares", () => {
  const leaves = Graph.make("leaves", {})
    .addNode("a", () => Effect.succeed(Command.make({ goto: "next", graph: Graph.PARENT })))
    .compile()
  empty
    .addGraph("child", leaves, { goto: ["next"] })
    .addNode("next", () => Effect.void)
    .compile()
})

test("a narrowed input and output are what is shared", () => {
  const narrow = Graph.make(
    "narrow",
    { count: Channel.lastValue(Schema.String), log: Channel.append(Schema.String) },
    { input: ["log"], output: ["log"] }
  ).compile()
  empty.addGraph("child", narrow)
})

test("refused: a subgraph that reads a shared channel with another type", () => {
  const reads = Graph.make("reads", { count: Channel.lastValue(Schema.String) }, { output: [] }).compile()
  // @ts-expect-error: the subgraph reads these channels with another type
  empty.addGraph("child", reads)
  // @ts-expect-error: the subgraph reads these channels with another type
  empty.addGraph("child", reads, { persistence: "thread" })
})

test("refused: a subgraph that writes a shared channel with another type", () => {
  const writes = Graph.make("writes", { count: Channel.lastValue(Schema.String) }, { input: [] }).compile()
  // @ts-expect-error: the subgraph writes these channels with another type
  empty.addGraph("child", writes)
})

test("refused: a mapping of one side where the other does not fit", () => {
  // @ts-expect-error: the subgraph writes these channels with another type
  empty.addGraph("child", other, { input: () => ({ count: "1" }) })
  // @ts-expect-error: the subgraph reads these channels with another type
  empty.addGraph("child", other, { output: (state) => ({ count: state.size }) })
})

test("refused: a mapping that gives another type", () => {
  // @ts-expect-error: number is no string
  empty.addGraph("child", other, { input: (state) => ({ count: state.count }), output: () => ({}) })
  // @ts-expect-error: string is no number
  empty.addGraph("child", other, { input: () => ({}), output: (state) => ({ count: state.count }) })
})

test("refused: a mapping that reads a channel that is not there", () => {
  // @ts-expect-error: no channel conut
  empty.addGraph("child", other, { input: (state) => ({ count: state.conut }), output: () => ({}) })
})

test("refused: a graph that is not compiled", () => {
  // @ts-expect-error: compile it first
  empty.addGraph("child", empty)
})

test("refused: a subgraph under a taken name", () => {
  // @ts-expect-error: a node of this name is already added
  empty.addGraph("child", fits).addGraph("child", fits)
})

test("refused: a goto of a subgraph that is never added", () => {
  // @ts-expect-error: these goto targets are no nodes of the graph
  empty.addGraph("child", fits, { goto: ["later"] }).compile()
})

test("refused: a persistence that is not there", () => {
  // @ts-expect-error: no persistence "always"
  empty.addGraph("child", fits, { persistence: "always" })
})

test("refused: a mapping with a misspelt channel", () => {
  // @ts-expect-error: the graph has no such channel
  empty.addGraph("child", other, { input: () => ({}), output: () => ({ count: 1, conut: 1 }) })
  // @ts-expect-error: the subgraph has no such channel
  empty.addGraph("child", other, { input: () => ({ count: "1", conut: 1 }), output: () => ({}) })
})
