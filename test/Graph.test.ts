import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"
import { Channel, Checkpointer, Command, Graph, Interrupt, Reducers, Send } from "effect-pregel"
import { briefly, untilEnd } from "./support/events.js"
import { names, says, word } from "./support/graphs.js"
import { asked, concat, failsWith, log, makeTrace, sum } from "./support/thread.js"

const number = Channel.lastValue(Schema.Number)

/** Documents, kept sorted. */
const docs = Channel.reduce(Schema.Array(Schema.String), {
  initial: () => [],
  reducer: (a, b) => [...a, ...b].sort()
})

const search = { query: word, answer: word, docs }
const prefix = (text: string) => (state: { readonly query?: string }) =>
  Effect.succeed({ query: `${text}: ${state.query}` })
const finds =
  (...found: ReadonlyArray<string>) =>
  () =>
    Effect.succeed({ docs: found })
const answers = (state: { readonly docs: ReadonlyArray<string> }) => Effect.succeed({ answer: state.docs.join(",") })

// ---------------------------------------------------------------------------------------------------------------------
// nodes that subscribe to channels
// ---------------------------------------------------------------------------------------------------------------------

describe("nodes that subscribe to channels", () => {
  const chain = { input: number, inbox: number, output: number }
  const one = (state: { readonly input?: number }) => Effect.succeed({ inbox: state.input! + 1 })
  const two = (state: { readonly inbox?: number }) => Effect.succeed({ output: state.inbox! + 1 })

  it.effect("core-045 a chain runs along its channels", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", chain, { input: ["input"], output: ["inbox", "output"] })
        .addNode("one", one, { subscribe: ["input"] })
        .addNode("two", two, { subscribe: ["inbox"] })
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ input: 2 }), { inbox: 3, output: 4 })
      const events = yield* briefly(graph.stream({ input: 2 }, { modes: ["updates", "values"] }))
      // No state is shown for the input: `input` is no output channel.
      assert.deepStrictEqual(events, [
        ["updates", "one", { inbox: 3 }],
        ["values", { inbox: 3 }],
        ["updates", "two", { output: 4 }],
        ["values", { inbox: 3, output: 4 }]
      ])
    })
  )

  it.effect("core-045 a node may write several channels, and a channel may be written again", () =>
    Effect.gen(function* () {
      const graph = Graph.make(
        "g",
        { input: number, between: number, output: number },
        { output: ["output", "between"] }
      )
        .addNode("one", ({ input }) => Effect.succeed({ between: input! + 1, output: input! + 1 }), {
          subscribe: ["input"]
        })
        .addNode("two", ({ between }) => Effect.succeed({ output: between! + 1 }), { subscribe: ["between"] })
        .compile()
      const events = yield* briefly(graph.stream({ input: 2 }, { modes: ["updates", "values"] }))
      assert.deepStrictEqual(events, [
        ["updates", "one", { between: 3, output: 3 }],
        ["values", { output: 3, between: 3 }],
        ["updates", "two", { output: 4 }],
        ["values", { output: 4, between: 3 }]
      ])
    })
  )

  it.effect("core-046 a run that writes no output channel ends with an empty output", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", chain, { output: ["output"] })
        .addNode("one", one, { subscribe: ["input"] })
        .addNode("two", () => Effect.void, { subscribe: ["inbox"] })
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ input: 2 }), {})
    })
  )

  it.effect("core-047 two writers of one channel conflict, unless it holds a list", () =>
    Effect.gen(function* () {
      const plusOne = ({ input }: { readonly input?: number }) => Effect.succeed({ output: input! + 1 })
      const conflicting = Graph.make("g", { input: number, output: number })
        .addNode("one", plusOne, { subscribe: ["input"] })
        .addNode("two", plusOne, { subscribe: ["input"] })
        .compile()
      const error = yield* failsWith(conflicting.invoke({ input: 2 }), "InvalidUpdate")
      assert.deepStrictEqual([error.reason, error.channel, error.node], ["ConcurrentUpdate", "output", "one, two"])
      const listing = Graph.make("g", { input: number, output: Channel.topic(Schema.Number) })
        .addNode("one", plusOne, { subscribe: ["input"] })
        .addNode("two", plusOne, { subscribe: ["input"] })
        .compile()
      assert.deepStrictEqual(yield* listing.invoke({ input: 2 }), { input: 2, output: [3, 3] })
    })
  )

  it.effect("core-048 a subscriber of a topic sees all that the last superstep wrote, as one list", () =>
    Effect.gen(function* () {
      const plusOne = ({ input }: { readonly input?: number }) => Effect.succeed({ inbox: input! + 1 })
      const graph = Graph.make(
        "g",
        { input: number, inbox: Channel.topic(Schema.Number), output: Channel.lastValue(Schema.Array(Schema.Number)) },
        { output: ["output"] }
      )
        .addNode("one", plusOne, { subscribe: ["input"] })
        .addNode("three", plusOne, { subscribe: ["input"] })
        .addNode("four", ({ inbox }) => Effect.succeed({ output: inbox!.map((n) => n + 10) }), { subscribe: ["inbox"] })
        .compile()
      const results = yield* Effect.replicateEffect(graph.invoke({ input: 2 }), 100, { concurrency: 10 })
      assert.deepStrictEqual(results, Array(100).fill({ output: [13, 13] }))
    })
  )

  it.effect("core-041 a subscriber that has run on a value does not run on it again after a reload", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const graph = Graph.make("g", { input: number, foo: log })
        .addNode("once", ({ input }) => Effect.as(trace.note(`once ${input}`), { foo: "once" }), {
          subscribe: ["input"]
        })
        .addNode("asks", () => Effect.map(Interrupt.interrupt<string>("q"), (foo) => ({ foo })))
        .addNode("again", ({ foo }) => Effect.succeed({ input: foo.length }))
        .addEdge("once", "asks")
        .addConditionalEdges("asks", ({ foo }) => (foo.length < 3 ? "again" : Graph.END), ["again", Graph.END])
        .compile()
      const thread = graph.thread("t")
      yield* thread.run({ input: 0 })
      assert.deepStrictEqual(trace.take(), ["once 0"])
      assert.deepStrictEqual((yield* thread.state).next, ["asks"])
      yield* failsWith(thread.answer("a"), "GraphInterrupt")
      assert.deepStrictEqual(trace.take(), ["once 2"])
      assert.deepStrictEqual(yield* thread.answer("b"), { input: 2, foo: ["once", "a", "once", "b"] })
      assert.deepStrictEqual(trace.take(), [])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("core-015 what lives for one superstep is not in the saved state of later ones", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { input: number, ephemeral: Channel.ephemeral(Schema.String), output: number })
        .addNode("node", ({ input }) => Effect.succeed({ output: input! }), { subscribe: ["input"] })
        .compile()
      const thread = graph.thread("t")
      yield* thread.invoke({ input: 1, ephemeral: "meow" })
      assert.deepStrictEqual((yield* thread.state).values, { input: 1, output: 1 })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

// ---------------------------------------------------------------------------------------------------------------------
// input and output
// ---------------------------------------------------------------------------------------------------------------------

describe("input and output", () => {
  const graph = Graph.make("g", { c1: word, c2: word, c3: word }, { input: ["c1", "c2"], output: ["c1", "c2", "c3"] })
    .addNode("a", () => Effect.void)
    .addEdge(Graph.START, "a")
    .compile()

  it.effect("core-050 input is a record of channels: what is absent or no input channel is left out", () =>
    Effect.gen(function* () {
      const input = (value: unknown) => graph.invoke(value as { readonly c1?: string })
      assert.deepStrictEqual(yield* input({ c1: "some chunk 1" }), { c1: "some chunk 1" })
      assert.deepStrictEqual(yield* input({ c1: "1", c3: "3", zzz: 4 }), { c1: "1" })
      for (const value of [["array", "of", "chunks"], "text", 7]) {
        const error = yield* failsWith(input(value), "InvalidUpdate")
        assert.include(error.message, "record")
      }
    })
  )

  it.effect("core-051 an output has the channels that hold a value, as they are after the reducers", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { o1: number, o2: sum, o3: number }, { output: ["o1", "o2"] })
        .addNode("a", () => Effect.succeed({ o2: 2, o3: 1 }))
        .addNode("b", () => Effect.succeed({ o3: 2 }))
        .addEdge(Graph.START, "a")
        .addEdge("a", "b")
        .compile()
      const events = yield* briefly(graph.stream({ o2: 1 }, { modes: ["values"] }))
      assert.deepStrictEqual(events, [
        ["values", { o2: 1 }],
        ["values", { o2: 3 }]
      ])
      assert.deepStrictEqual(yield* graph.invoke({ o1: 4 }), { o1: 4, o2: 2 })
    })
  )

  it.effect("core-052 updates are told for each task, none for the engine's own", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { o1: number, o2: number, o3: number }, { output: ["o1"] })
        .addNode("task1", () => Effect.succeed({ o1: 1, o2: 2 }))
        .addNode("task2", () => Effect.succeed({ o3: 3 }))
        .addEdge(Graph.START, "task1")
        .addEdge(Graph.START, "task2")
        .compile()
      assert.deepStrictEqual(yield* briefly(graph.stream({})), [
        ["updates", "task1", { o1: 1, o2: 2 }],
        ["updates", "task2", { o3: 3 }]
      ])
    })
  )

  it.effect("core-053 a batch of runs gives results in the order of its inputs", () =>
    Effect.gen(function* () {
      const plusOne = (state: { readonly n?: number }) =>
        Effect.delay(Effect.succeed({ n: state.n! + 1 }), `${state.n! * 100} millis`)
      const graph = Graph.make("g", { n: number })
        .addNode("one", plusOne)
        .addNode("two", plusOne)
        .addEdge(Graph.START, "one")
        .addEdge("one", "two")
        .compile()
      const batch = Effect.forEach([3, 2, 1, 3, 5], (n) => graph.invoke({ n }), { concurrency: "unbounded" })
      const fiber = yield* Effect.fork(batch)
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(
        (yield* Fiber.join(fiber)).map(({ n }) => n),
        [5, 4, 3, 5, 7]
      )
    })
  )

  it.effect("core-055 nothing is no input, but an empty record is", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names).addNode("a", says("a")).addEdge(Graph.START, "a").compile()
      yield* failsWith(graph.invoke(null as never), "EmptyInput")
      yield* failsWith(graph.invoke(Command.make({})), "EmptyInput")
      assert.deepStrictEqual(yield* graph.invoke({}), { foo: ["a"] })
      assert.deepStrictEqual(yield* graph.invoke({ zzz: 1 } as {}), { foo: ["a"] })
    })
  )

  it.effect("core-157 input is checked with the channels' schemas before any node runs", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const graph = Graph.make("g", {
        count: Channel.lastValue(Schema.NonNegative),
        name: Channel.lastValue(Schema.NonEmptyString)
      })
        .addNode("process", ({ count }) => Effect.as(trace.note("process"), { count: count! + 1 }))
        .addEdge(Graph.START, "process")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ count: 0, name: "test" }), { count: 1, name: "test" })
      trace.take()
      const error = yield* failsWith(graph.invoke({ count: 0, name: "" }), "InvalidUpdate")
      assert.deepStrictEqual([error.reason, error.channel], ["InvalidValue", "name"])
      assert.deepStrictEqual(trace.entries, [])
    })
  )
})

// ---------------------------------------------------------------------------------------------------------------------
// shapes
// ---------------------------------------------------------------------------------------------------------------------

describe("shapes of graphs", () => {
  it.effect("core-056 a sequence runs its steps one after the other", () =>
    Effect.gen(function* () {
      const state = { foo: log, bar: word }
      const graph = Graph.make("g", state)
        .addSequence([
          ["step1", () => Effect.succeed({ foo: "step1", bar: "baz" })],
          ["step2", () => Effect.succeed({ foo: "step2" })]
        ])
        .addEdge(Graph.START, "step1")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ foo: [] }), { foo: ["step1", "step2"], bar: "baz" })
      assert.deepStrictEqual(yield* briefly(graph.stream({ foo: [] })), [
        ["updates", "step1", { foo: "step1", bar: "baz" }],
        ["updates", "step2", { foo: "step2" }]
      ])
    })
  )

  it.effect("core-056 sequences mix with nodes, branches and each other", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { foo: log, bar: word })
        .addSequence([
          ["a", says("a")],
          ["b", says("b")]
        ])
        .addNode("c", says("c"))
        .addSequence([
          ["d", says("d")],
          ["e", says("e")]
        ])
        .addConditionalEdges("b", ({ foo }) => (foo[0] === "a" ? "d" : "c"), ["c", "d"])
        .addEdge(Graph.START, "a")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ foo: [] }), { foo: ["a", "b", "d", "e"] })
      assert.deepStrictEqual(yield* graph.invoke({ foo: ["start"] }), { foo: ["start", "a", "b", "c"] })
      assert.deepStrictEqual(
        (yield* briefly(graph.stream({ foo: [] }))).map(([, node]) => node),
        ["a", "b", "d", "e"]
      )
      const joined = Graph.make("g", { foo: log, bar: word })
        .addSequence([["a", says("a")]])
        .addSequence([["b", says("b")]])
        .addEdge(Graph.START, "a")
        .addEdge("a", "b")
        .compile()
      assert.deepStrictEqual(yield* joined.invoke({ foo: [] }), { foo: ["a", "b"] })
    })
  )

  it.effect("core-057 a channel without initial value is absent until it is written", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { count: sum, name: word })
        .addNode("increment", () => Effect.succeed({ count: 1 }))
        .addEdge(Graph.START, "increment")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ name: "test" }), { count: 1, name: "test" })
      const seen: Array<object> = []
      const bare = Graph.make("g", { x: word })
        .addNode("a", (state) => Effect.sync(() => void seen.push(state)))
        .addEdge(Graph.START, "a")
        .compile()
      const result = yield* bare.invoke({})
      assert.deepStrictEqual([Object.keys(result), seen.map(Object.keys)], [[], [[]]])
    })
  )

  it.effect("core-058 a node sees the channels it reads; input and output have their own", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const note = <A>(state: unknown, update: A) =>
        Effect.as(
          Effect.sync(() => seen.push(state)),
          update
        )
      const message = Schema.Struct({ id: Schema.optional(Schema.String), content: Schema.String })
      const messages = Reducers.byId(message, { id: ({ id }) => id, withId: (m, id) => ({ ...m, id }) })
      const graph = Graph.make(
        "g",
        { hello: word, bye: word, messages, now: number },
        { input: ["hello", "bye", "messages"], output: ["messages"] }
      )
        .addNode("a", (state) => note(state, undefined), { reads: ["hello", "messages"] })
        .addNode("b", (state) => note(state, { now: 123, hello: "again" }), { reads: ["bye", "now"] })
        .addNode("c", (state) => note(state, undefined), { reads: ["hello", "now"] })
        .addEdge(Graph.START, "a")
        .addEdge("a", "b")
        .addEdge("b", "c")
        .compile()
      const hello = [{ id: "0", content: "hello" }]
      const input = { hello: "there", bye: "world", messages: { content: "hello" }, now: 345 }
      assert.deepStrictEqual(yield* graph.invoke(input), { messages: hello })
      assert.deepStrictEqual(seen, [
        { hello: "there", messages: hello },
        { bye: "world" },
        { hello: "again", now: 123 }
      ])
      assert.deepStrictEqual(yield* briefly(graph.stream(input)), [
        ["updates", "a", null],
        ["updates", "b", { now: 123, hello: "again" }],
        ["updates", "c", null]
      ])
    })
  )

  it.effect("core-060 branches of equal length meet in one run of their target", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", search)
        .addNode("rewrite_query", prefix("query"))
        .addNode("retriever_one", () => Effect.delay(finds("doc1", "doc2")(), "100 millis"))
        .addNode("retriever_two", finds("doc3", "doc4"))
        .addNode("qa", answers)
        .addEdge(Graph.START, "rewrite_query")
        .addEdge("rewrite_query", "retriever_one")
        .addEdge("rewrite_query", "retriever_two")
        .addEdge("retriever_one", "qa")
        .addEdge("retriever_two", "qa")
        .addEdge("qa", Graph.END)
        .compile()
      const fiber = yield* Effect.fork(briefly(graph.stream({ query: "weather" }, { modes: ["updates", "values"] })))
      yield* TestClock.adjust("100 millis")
      const query = "query: weather"
      const all = ["doc1", "doc2", "doc3", "doc4"]
      assert.deepStrictEqual(yield* Fiber.join(fiber), [
        ["values", { query: "weather", docs: [] }],
        ["updates", "rewrite_query", { query }],
        ["values", { query, docs: [] }],
        ["updates", "retriever_two", { docs: ["doc3", "doc4"] }],
        ["updates", "retriever_one", { docs: ["doc1", "doc2"] }],
        ["values", { query, docs: all }],
        ["updates", "qa", { answer: all.join(",") }],
        ["values", { query, docs: all, answer: all.join(",") }]
      ])
    })
  )

  it.effect("core-061 plain edges of branches of different length run their target twice", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", search)
        .addNode("rewrite_query", prefix("query"))
        .addNode("analyzer_one", prefix("analyzed"))
        .addNode("retriever_one", finds("doc1", "doc2"))
        .addNode("retriever_two", finds("doc3", "doc4"))
        .addNode("qa", answers)
        .addEdge(Graph.START, "rewrite_query")
        .addEdge("rewrite_query", "analyzer_one")
        .addEdge("analyzer_one", "retriever_one")
        .addEdge("rewrite_query", "retriever_two")
        .addEdge("retriever_one", "qa")
        .addEdge("retriever_two", "qa")
        .compile()
      const events = yield* briefly(graph.stream({ query: "q" }))
      assert.deepStrictEqual(
        events.map(([, node]) => node),
        ["rewrite_query", "analyzer_one", "retriever_two", "qa", "retriever_one", "qa"]
      )
      assert.deepStrictEqual(events[3], ["updates", "qa", { answer: "doc3,doc4" }])
      assert.deepStrictEqual(events[5], ["updates", "qa", { answer: "doc1,doc2,doc3,doc4" }])
    })
  )

  it.effect("core-062 parallel writes to one value fail the run and name the channel and the nodes", () =>
    Effect.gen(function* () {
      const hello = () => Effect.succeed({ hello: "world" })
      const edges = Graph.make("g", { hello: word })
        .addNode("a", hello)
        .addNode("b", hello)
        .addNode("c", hello)
        .addEdge(Graph.START, "a")
        .addEdge("a", "b")
        .addEdge("a", "c")
        .compile()
      const routed = Graph.make("g", { hello: word })
        .addNode("b", hello)
        .addNode("c", hello)
        .addConditionalEdges(Graph.START, () => ["b", "c"] as const, ["b", "c"])
        .compile()
      for (const graph of [edges, routed]) {
        const error = yield* failsWith(graph.invoke({ hello: "there" }), "InvalidUpdate")
        assert.deepStrictEqual([error.reason, error.channel, error.node], ["ConcurrentUpdate", "hello", "b, c"])
      }
    })
  )

  it.effect("core-066 the concurrency limit bounds the tasks of a superstep and changes no result", () =>
    Effect.gen(function* () {
      let [running, peak] = [0, 0]
      const worker = (n: number) =>
        Effect.acquireUseRelease(
          Effect.sync(() => (peak = Math.max(peak, ++running))),
          () => Effect.as(Effect.sleep("1 second"), { items: [String(n)] }),
          () => Effect.sync(() => running--)
        )
      const numbers = Array.from({ length: 100 }, (_, n) => n)
      const sends = numbers.map((n) => Send.make("2", n))
      const start = Graph.make("g", { items: log }).addWorker("2", Schema.Number, worker)
      const routed = start
        .addNode("1", () => Effect.succeed({ items: "1" }))
        .addNode("3", () => Effect.succeed({ items: "3" }))
        .addEdge(Graph.START, "1")
        .addConditionalEdges("1", () => sends, ["2"])
        .addEdge("2", "3")
        .compile()
      const commanded = Graph.make("g", { items: log })
        .addWorker("2", Schema.Number, (n) => Effect.map(worker(n), (update) => Command.make({ update, goto: "3" })), {
          goto: ["3"]
        })
        .addNode("1", () => Effect.succeed(Command.make({ update: { items: "1" }, goto: sends })), { goto: ["2"] })
        .addNode("3", () => Effect.succeed({ items: "3" }))
        .addEdge(Graph.START, "1")
        .compile()
      for (const graph of [routed, commanded]) {
        for (const concurrency of ["unbounded", 10] as const) {
          peak = 0
          const fiber = yield* Effect.fork(graph.invoke({ items: "0" }, { concurrency }))
          yield* TestClock.adjust("10 seconds")
          const { items } = yield* Fiber.join(fiber)
          assert.deepStrictEqual(items, ["0", "1", ...numbers.map(String), "3"])
          assert.strictEqual(peak, concurrency === 10 ? 10 : 100)
        }
      }
    })
  )
})

it.effect("a concurrency that lets nothing run is refused instead of waiting forever", () =>
  Effect.gen(function* () {
    const graph = Graph.make("g", names).addNode("a", says("a")).addEdge(Graph.START, "a").compile()
    for (const concurrency of [0, -1, Number.NaN]) {
      const exit = yield* Effect.exit(graph.invoke({}, { concurrency }))
      assert.isTrue(Exit.isFailure(exit) && Cause.isDie(exit.cause))
    }
    assert.deepStrictEqual(yield* graph.invoke({}, { concurrency: 1 }), { foo: ["a"] })
  })
)

// ---------------------------------------------------------------------------------------------------------------------
// graphs in graphs
// ---------------------------------------------------------------------------------------------------------------------

describe("graphs in graphs", () => {
  it.effect("core-067 a graph as node shares the channels of equal name, and nothing else", () =>
    Effect.gen(function* () {
      const inner = Graph.make("inner", { my_key: word, my_other_key: word })
        .addNode("up", ({ my_key }) => Effect.succeed({ my_key: `${my_key} there`, my_other_key: my_key }))
        .addEdge(Graph.START, "up")
        .compile()
      const outer = Graph.make("outer", { my_key: word, never_called: word })
        .addGraph("inner", inner)
        .addNode("side", ({ my_key }) => Effect.succeed({ my_key: `${my_key} and back again` }))
        .addEdge(Graph.START, "inner")
        .addEdge("inner", "side")
        .compile()
      const input = { my_key: "my value", never_called: "X" }
      const [there, back] = ["my value there", "my value there and back again"]
      assert.deepStrictEqual(yield* outer.invoke(input), { my_key: back, never_called: "X" })
      assert.deepStrictEqual(yield* briefly(outer.stream(input, { modes: ["updates", "values"] })), [
        ["values", input],
        ["updates", "inner", { my_key: there }],
        ["values", { ...input, my_key: there }],
        ["updates", "side", { my_key: back }],
        ["values", { ...input, my_key: back }]
      ])
    })
  )

  it.effect("core-068 a graph as node hands back its whole log, which the enclosing log appends", () =>
    Effect.gen(function* () {
      const sub = Graph.make("sub", names)
        .addSequence([
          ["i1", says("i1")],
          ["i2", says("i2")]
        ])
        .addEdge(Graph.START, "i1")
        .compile()
      const outer = Graph.make("outer", names)
        .addNode("o", says("o"))
        .addGraph("sub", sub)
        .addEdge(Graph.START, "o")
        .addEdge("o", "sub")
        .compile()
      assert.deepStrictEqual(yield* outer.invoke({ foo: ["x"] }), { foo: ["x", "o", "x", "o", "i1", "i2"] })
    })
  )
})

// ---------------------------------------------------------------------------------------------------------------------
// failures, pauses and cancellation among siblings
// ---------------------------------------------------------------------------------------------------------------------

class Bad extends Schema.TaggedError<Bad>()("Bad", { message: Schema.String }) {}

describe("siblings", () => {
  it.effect("core-063 the first failure ends the run with its error, after the siblings' finalizers", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const graph = Graph.make("g", names)
        .addNode("agent", () =>
          Effect.sleep("1 second").pipe(
            Effect.onInterrupt(() => Effect.zipRight(Effect.sleep("10 millis"), trace.note("agent stopped"))),
            Effect.ensuring(trace.note("agent cleaned up"))
          )
        )
        .addNode("bad", () => Effect.delay(new Bad({ message: "I am bad" }), "10 millis"))
        .addConditionalEdges(Graph.START, () => ["agent", "bad"] as const, ["agent", "bad"])
        .compile()
      const fiber = yield* Effect.fork(Effect.ensuring(failsWith(graph.invoke({}), "Bad"), trace.note("run ended")))
      yield* TestClock.adjust("10 millis")
      assert.deepStrictEqual(trace.entries, [])
      yield* TestClock.adjust("10 millis")
      assert.strictEqual((yield* Fiber.join(fiber)).message, "I am bad")
      assert.deepStrictEqual(trace.entries, ["agent stopped", "agent cleaned up", "run ended"])
    })
  )

  it.effect("core-065 a pause lets its siblings finish, and they are not run again", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const graph = Graph.make("g", { hello: concat })
        .addNode("agent", () => Effect.delay(Effect.as(trace.note("agent"), { hello: " again" }), "1 second"))
        .addNode("bad", () => Effect.map(Interrupt.interrupt<string>("I am bad"), (hello) => ({ hello })))
        .addConditionalEdges(Graph.START, () => ["agent", "bad"] as const, ["agent", "bad"])
        .compile()
      const thread = graph.thread("t")
      const fiber = yield* Effect.fork(thread.run({ hello: "world" }))
      yield* TestClock.adjust("1 second")
      const first = yield* Fiber.join(fiber)
      assert.deepStrictEqual(first.state, { hello: "world again" })
      assert.deepStrictEqual(
        asked(first).map(({ value }) => value),
        ["I am bad"]
      )
      const again = yield* failsWith(thread.resume(), "GraphInterrupt")
      assert.deepStrictEqual(
        again.interrupts.map(({ value }) => value),
        ["I am bad"]
      )
      assert.deepStrictEqual(yield* thread.answer(" okay"), { hello: "world again okay" })
      assert.strictEqual(trace.count("agent"), 1)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("a finished sibling's work is kept over a failure, and only the failed node runs again", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      let broken = true
      const graph = Graph.make("g", names)
        .addNode("done", () => Effect.as(trace.note("done"), { foo: "done" }))
        .addNode("slow", () => Effect.as(Effect.delay(trace.note("slow"), "1 second"), { foo: "slow" }))
        .addNode("fails", () =>
          Effect.gen(function* () {
            yield* trace.note("fails")
            yield* Effect.sleep("500 millis")
            if (broken) return yield* new Bad({ message: "not yet" })
            return { foo: "fails" }
          })
        )
        .addConditionalEdges(Graph.START, () => ["done", "slow", "fails"] as const, ["done", "slow", "fails"])
        .compile()
      const thread = graph.thread("t")
      const failing = yield* Effect.fork(failsWith(thread.invoke({}), "Bad"))
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(failing)
      assert.deepStrictEqual(trace.take(), ["done", "fails"])
      const between = yield* thread.state
      assert.deepStrictEqual(between.values, { foo: ["done"] })
      assert.deepStrictEqual(between.next, ["fails", "slow"])
      assert.deepStrictEqual(
        between.tasks.map(({ error, node }) => [node, error]),
        [
          ["done", undefined],
          ["fails", "not yet"],
          ["slow", undefined]
        ]
      )

      broken = false
      const resumed = yield* Effect.fork(thread.resume())
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* Fiber.join(resumed), { foo: ["done", "fails", "slow"] })
      assert.deepStrictEqual(trace.take(), ["fails", "slow"])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("a failed superstep leaves the thread usable", () => {
  for (const durability of ["sync", "async"] as const) {
    it.effect(`also where a reducer has made what can't be saved: its writers run again (${durability})`, () =>
      Effect.gen(function* () {
        const trace = makeTrace()
        let factor = Number.NaN
        const thread = Graph.make("g", {
          product: Channel.reduce(Schema.Number, { initial: () => 1, reducer: (a, b) => a * b }),
          foo: log
        })
          .addNode("bad", () => Effect.as(trace.note("bad"), { product: 2 }))
          .addNode("worse", () =>
            Effect.as(Effect.zipRight(Effect.yieldNow(), trace.note("worse")), { product: 1, foo: "worse" })
          )
          .addNode("other", () => Effect.as(trace.note("other"), { foo: "other" }))
          .addNode("after", () => Effect.as(trace.note("after"), { product: factor }))
          .addEdge(Graph.START, "bad")
          .addEdge(Graph.START, "worse")
          .addEdge(Graph.START, "other")
          .addEdge(["bad", "worse"], "after")
          .compile()
          .thread("t")
        yield* failsWith(thread.invoke({}, { durability }), "InvalidUpdate")
        assert.deepStrictEqual((yield* thread.state).next, ["after"])
        factor = 5
        assert.deepStrictEqual((yield* thread.resume({ durability })).product, 10)
        assert.strictEqual(trace.count("other"), 1)

        let limit = 0
        const sums = Graph.make("sums", {
          sum: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => (b > limit ? Number.NaN : a + b) }),
          foo: log
        })
          .addNode("a", () => Effect.as(trace.note("a"), { sum: 1 }))
          .addNode("b", () => Effect.as(Effect.zipRight(Effect.yieldNow(), trace.note("b")), { sum: 2, foo: "b" }))
          .addNode("c", () => Effect.as(trace.note("c"), { foo: "c" }))
          .addEdge(Graph.START, "a")
          .addEdge(Graph.START, "b")
          .addEdge(Graph.START, "c")
          .compile()
          .thread("s")
        const error = yield* failsWith(sums.invoke({}, { durability }), "InvalidUpdate")
        assert.deepStrictEqual(
          [error.channel, error.node, error.reason, error.step, error.thread],
          ["sum", "a, b", "NotEncodable", 1, "s"]
        )
        const { next, values } = yield* sums.state
        assert.deepStrictEqual([next, values], [["a", "b"], { sum: 0, foo: ["c"] }])
        limit = 5
        assert.deepStrictEqual(yield* sums.resume({ durability }), { sum: 3, foo: ["b", "c"] })
        assert.deepStrictEqual([trace.count("a"), trace.count("b"), trace.count("c")], [2, 2, 1])
      }).pipe(Effect.provide(Checkpointer.layerMemory))
    )
  }

  const conflicting = (writes: { on: boolean }) =>
    Graph.make("g", { hello: word, foo: log })
      .addNode("before", () => Effect.succeed({ foo: "before", hello: "start" }))
      .addNode("a", () => Effect.succeed({ foo: "a", hello: "a" }))
      .addNode("b", () => Effect.succeed(writes.on ? { foo: "b", hello: "b" } : { foo: "b" }))
      .addNode("c", () => Effect.succeed({ foo: "c" }))
      .addEdge(Graph.START, "before")
      .addEdge("before", "a")
      .addEdge("before", "b")
      .addEdge("before", "c")
      .compile()

  it.effect("a conflict leaves the head where it was, and a resume after a fix goes on", () =>
    Effect.gen(function* () {
      const writes = { on: true }
      const thread = conflicting(writes).thread("t")
      const error = yield* failsWith(thread.invoke({}), "InvalidUpdate")
      assert.deepStrictEqual([error.reason, error.node, error.thread], ["ConcurrentUpdate", "a, b", "t"])
      const state = yield* thread.state
      assert.deepStrictEqual(state.values, { foo: ["before", "c"], hello: "start" })
      assert.deepStrictEqual(state.next, ["a", "b"])
      yield* failsWith(thread.resume(), "InvalidUpdate")
      writes.on = false
      assert.deepStrictEqual(yield* thread.resume(), { foo: ["before", "a", "b", "c"], hello: "a" })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("a new input after a conflict starts over", () =>
    Effect.gen(function* () {
      const writes = { on: true }
      const thread = conflicting(writes).thread("t")
      yield* failsWith(thread.invoke({}), "InvalidUpdate")
      writes.on = false
      assert.deepStrictEqual(yield* thread.invoke({ foo: "again" }), {
        foo: ["before", "again", "before", "a", "b", "c"],
        hello: "a"
      })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("cancellation", () => {
  const two = (trace: ReturnType<typeof makeTrace>) =>
    Graph.make("two", names)
      .addNode("one", () =>
        Effect.onInterrupt(
          Effect.zipRight(trace.note("one"), Effect.as(Effect.sleep("50 millis"), { foo: "one" })),
          () => Effect.zipRight(Effect.yieldNow(), trace.note("one stopped"))
        )
      )
      .addNode("two", () => Effect.as(trace.note("two"), { foo: "two" }))
      .addEdge(Graph.START, "one")
      .addEdge("one", "two")
      .compile()

  type Trace = ReturnType<typeof makeTrace>
  const alone = (trace: Trace) => {
    const thread = two(trace).thread("t")
    return [thread.invoke({}), thread.resume()] as const
  }
  const asNode = (trace: Trace) => {
    const outer = Graph.make("outer", names).addGraph("sub", two(trace)).addEdge(Graph.START, "sub").compile()
    const thread = outer.thread("t")
    return [thread.invoke({}), thread.resume()] as const
  }
  const inNode = (trace: Trace) => {
    const sub = two(trace)
    const outer = Graph.make("outer", names)
      .addNode("sub", () => sub.invoke({}))
      .addEdge(Graph.START, "sub")
      .compile()
    const thread = outer.thread("t")
    return [thread.invoke({}), thread.resume()] as const
  }

  for (const [what, make] of [
    ["a graph", alone],
    ["a graph as node", asNode],
    ["a graph invoked in a node", inNode]
  ] as const) {
    it.effect(`core-070 interrupting a run interrupts its nodes and waits for their finalizers (${what})`, () =>
      Effect.gen(function* () {
        const trace = makeTrace()
        const [invoke, resume] = make(trace)
        const fiber = yield* Effect.fork(Effect.asVoid(invoke as typeof resume))
        yield* TestClock.adjust("10 millis")
        const exit = yield* Fiber.interrupt(fiber)
        yield* trace.note("run ended")
        assert.isTrue(Exit.isInterrupted(exit))
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(trace.take(), ["one", "one stopped", "run ended"])

        const resumed = yield* Effect.fork(resume as typeof invoke)
        yield* TestClock.adjust("50 millis")
        assert.deepStrictEqual(yield* Fiber.join(resumed), { foo: ["one", "two"] })
        assert.deepStrictEqual(trace.take(), ["one", "two"])
      }).pipe(Effect.provide(Checkpointer.layerMemory))
    )
  }
})

// ---------------------------------------------------------------------------------------------------------------------
// values
// ---------------------------------------------------------------------------------------------------------------------

describe("values are immutable", () => {
  const Box = Schema.Struct({ items: Schema.mutable(Schema.Array(Schema.Number)) })
  const graph = Graph.make("g", { box: Channel.lastValue(Box), seen: Channel.append(Box) })
    .addNode("a", ({ box }) => Effect.succeed({ seen: box! }))
    .addNode("b", ({ box }) => Effect.succeed({ seen: box! }))
    .addEdge(Graph.START, "a")
    .addEdge("a", "b")
    .compile()

  it.effect("what a caller keeps and changes is not what the thread holds", () =>
    Effect.gen(function* () {
      const thread = graph.thread("t")
      const input = { items: [1] }
      const result = yield* thread.invoke({ box: input })
      input.items.push(2)
      result.box!.items.push(3)
      const snapshot = yield* thread.state
      assert.deepStrictEqual(snapshot.values.box, { items: [1] })
      snapshot.values.box!.items.push(4)
      assert.deepStrictEqual((yield* thread.state).values.box, { items: [1] })
      assert.deepStrictEqual((yield* thread.state).values.seen, [{ items: [1] }, { items: [1] }])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("with freeze, who changes what it sees fails", () => {
  const Box = Schema.Struct({ deep: Schema.Struct({ items: Schema.mutable(Schema.Array(Schema.Number)) }) })
  const state = { box: Channel.lastValue(Box), foo: log }
  const push = ({ box }: { readonly box?: typeof Box.Type }) => box!.deep.items.push(2)
  const input = () => ({ box: { deep: { items: [1] } } })

  it.effect("a node, also one that a send reaches, and a router", () =>
    Effect.gen(function* () {
      const node = Graph.make("g", state)
        .addNode("a", (all) => Effect.sync(() => void push(all)))
        .addEdge(Graph.START, "a")
        .compile()
      const sent = Graph.make("g", state)
        .addNode("a", (all) => Effect.sync(() => void push(all)))
        .addConditionalEdges(Graph.START, (all) => Send.make("a", all), ["a"])
        .compile()
      const router = Graph.make("g", state)
        .addNode("a", () => Effect.void)
        .addEdge(Graph.START, "a")
        .addConditionalEdges("a", (all) => (push(all) > 0 ? Graph.END : "a"), ["a", Graph.END])
        .compile()
      for (const run of [node.run, sent.run, router.run]) {
        const exit = yield* Effect.exit(run(input(), { freeze: true }))
        assert.isTrue(Exit.isFailure(exit) && Cause.isDie(exit.cause))
        assert.isTrue(Exit.isSuccess(yield* Effect.exit(run(input()))))
      }
    })
  )

  it.effect("and the engine does not", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", {
        foo: log,
        seen: Channel.topic(Schema.String, { accumulate: true, unique: true }),
        map: Channel.lastValue(Schema.ReadonlyMap({ key: Schema.String, value: Box }))
      })
        .addNode("a", () => Effect.succeed({ foo: "a", seen: ["x"], map: new Map([["k", input().box]]) }))
        .addNode("b", ({ map }) => Effect.succeed({ foo: ["b"], seen: ["x", "y"], map: map! }))
        .addNode("c", ({ foo }) => Effect.succeed({ foo }))
        .addEdge(Graph.START, "a")
        .addEdge("a", "b")
        .addEdge("b", "c")
        .compile({ freeze: true })
      const expected = { foo: ["a", "b", "a", "b"], seen: ["x", "y"], map: new Map([["k", input().box]]) }
      assert.deepStrictEqual(yield* graph.invoke({}), expected)
      assert.deepStrictEqual(yield* graph.thread("t").invoke({}), expected)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

// ---------------------------------------------------------------------------------------------------------------------
// services and ids
// ---------------------------------------------------------------------------------------------------------------------

describe("context", () => {
  class User extends Context.Tag("User")<User, { readonly name: string }>() {}

  it.effect("core-162 services of the caller reach every node, also of graphs inside", () =>
    Effect.gen(function* () {
      const greet = Effect.map(User, ({ name }) => `${name}!`)
      const sub = Graph.make("sub", { subgraph: word })
        .addNode("sub_node", () => Effect.map(greet, (subgraph) => ({ subgraph })))
        .addEdge(Graph.START, "sub_node")
        .compile()
      const graph = Graph.make("g", { subgraph: word, main: word })
        .addGraph("sub", sub)
        .addNode("main_node", () => Effect.map(greet, (main) => ({ main })))
        .addEdge(Graph.START, "main_node")
        .addEdge("main_node", "sub")
        .compile()
      const result = yield* Effect.provideService(graph.invoke({}), User, { name: "Alice" })
      assert.deepStrictEqual(result, { subgraph: "Alice!", main: "Alice!" })
    })
  )

  it.effect("core-162 a service may be a live object that nodes share", () =>
    Effect.gen(function* () {
      class Store extends Context.Tag("Store")<Store, Array<string>>() {}
      const push = (name: string) => () => Effect.map(Store, (store) => void store.push(name))
      const graph = Graph.make("g", { visits: word, collect: Channel.lastValue(Schema.Array(Schema.String)) })
        .addNode("one", push("one"))
        .addNode("two", push("two"))
        .addNode("check", () => Effect.map(Store, (store) => ({ collect: store.slice() })))
        .addEdge(Graph.START, "one")
        .addEdge("one", "two")
        .addEdge("two", "check")
        .compile()
      const result = yield* Effect.provideService(graph.invoke({ visits: "one" }), Store, [])
      assert.deepStrictEqual(result, { visits: "one", collect: ["one", "two"] })
    })
  )
})

describe("ids and metadata are data", () => {
  const strange = ["%", "_", "a' OR 1=1 --", "__proto__", "constructor", "a|b", "a:b", "a/b#c", " ", "\u0000", "ü"]
  const graph = Graph.make("g", names).addNode("a", says("a")).addEdge(Graph.START, "a").compile()

  it.effect("threads of strange names are kept apart", () =>
    Effect.gen(function* () {
      for (const id of strange) yield* graph.thread(id).invoke({ foo: id })
      for (const id of strange) assert.deepStrictEqual((yield* graph.thread(id).state).values, { foo: [id, "a"] })
      yield* graph.thread("%").delete
      assert.deepStrictEqual((yield* graph.thread("%").state).values, { foo: [] })
      assert.deepStrictEqual((yield* graph.thread("_").state).values, { foo: ["_", "a"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("a thread without an id is refused, whatever is done with it", () =>
    Effect.gen(function* () {
      for (const id of [undefined, null, "", 5, {}]) {
        const thread = graph.thread(id as string)
        yield* failsWith(thread.invoke({}), "CheckpointerError")
        yield* failsWith(thread.resume(), "CheckpointerError")
        yield* failsWith(thread.update({ foo: "x" }), "CheckpointerError")
        yield* failsWith(thread.state, "CheckpointerError")
      }
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("metadata keys are matched exactly, and may be any text", () =>
    Effect.gen(function* () {
      const metadata = JSON.parse('{"__proto__":"x","a.b":"%","constructor":1}') as Record<string, unknown>
      const thread = graph.thread("t")
      yield* thread.invoke({}, { metadata })
      const saved = (yield* thread.state).metadata
      assert.deepStrictEqual(Object.entries(saved), Object.entries(metadata))
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("state whose records have the key __proto__ is faithful", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { bag: Channel.lastValue(Schema.Unknown) })
        .addNode("a", () => Effect.void)
        .addEdge(Graph.START, "a")
        .compile()
      const value = JSON.parse('{"__proto__":1,"hasOwnProperty":2}') as Record<string, number>
      const thread = graph.thread("t")
      yield* thread.invoke({ bag: value })
      const saved = (yield* thread.state).values.bag as object
      assert.deepStrictEqual(Object.entries(saved), Object.entries(value))
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

it.effect("what a stopped stream has shown is what has happened", () =>
  Effect.gen(function* () {
    const gate = yield* Deferred.make<void>()
    const graph = Graph.make("g", names)
      .addNode("a", says("a"))
      .addNode("b", () => Effect.as(Deferred.await(gate), { foo: "b" }))
      .addNode("c", () => Effect.fail(new Bad({ message: "c" })))
      .addEdge(Graph.START, "a")
      .addEdge("a", "b")
      .addEdge("b", "c")
      .compile()
    const fiber = yield* Effect.fork(untilEnd(graph.stream({})))
    yield* Deferred.succeed(gate, undefined)
    const [events, exit] = yield* Fiber.join(fiber)
    assert.deepStrictEqual(
      events.map((event) => event._tag === "Updates" && event.node),
      ["a", "b"]
    )
    assert.isTrue(Exit.isFailure(exit))
  })
)
