import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { Channel, Checkpointer, Graph, type GraphEvent, Interrupt, Task } from "effect-pregel"
import { briefly, untilEnd } from "./support/events.js"
import { names, says, word } from "./support/graphs.js"
import { collect, concat, failsWith, log, sum } from "./support/thread.js"

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
const slowly =
  <A>(node: () => Effect.Effect<A>) =>
  () =>
    Effect.delay(node(), "1 second")
const answers = (state: { readonly docs: ReadonlyArray<string> }) => Effect.succeed({ answer: state.docs.join(",") })

const ALL = ["doc1", "doc2", "doc3", "doc4"]

/** Runs to the end, however long its nodes sleep. */
const eventually = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(effect)
    yield* TestClock.adjust("1 minute")
    return yield* Fiber.join(fiber)
  })

/** Who ran in which superstep, in the order in which they started. */
const steps = <E, R>(stream: Stream.Stream<GraphEvent.Of<"tasks">, E, R>) =>
  Effect.map(eventually(collect(stream)), (events) =>
    events.flatMap((event) => (event._tag === "TaskStarted" ? [`${event.step} ${event.node}`] : []))
  )

const researchNodes = Graph.make("g", search)
  .addNode("rewrite_query", prefix("query"))
  .addNode("analyzer_one", prefix("analyzed"))
  .addNode("retriever_one", finds("doc1", "doc2"))
  .addNode("retriever_two", slowly(finds("doc3", "doc4")))
  .addNode("qa", answers)
  .addEdge(Graph.START, "rewrite_query")
  .addEdge("rewrite_query", "analyzer_one")
  .addEdge("analyzer_one", "retriever_one")

describe("joins", () => {
  const byEdge = researchNodes
    .addEdge("rewrite_query", "retriever_two")
    .addEdge(["retriever_one", "retriever_two"], "qa")
    .compile()
  const byBranch = researchNodes
    .addConditionalEdges("rewrite_query", () => "retriever_two" as const, ["retriever_two"])
    .addEdge(["retriever_one", "retriever_two"], "qa")
    .compile()

  it.effect("core-098 run their target once, after all of their sources, whatever led to these", () =>
    Effect.gen(function* () {
      for (const graph of [byEdge, byBranch]) {
        assert.deepStrictEqual(yield* eventually(graph.invoke({ query: "weather" })), {
          query: "analyzed: query: weather",
          docs: ALL,
          answer: ALL.join(",")
        })
        const events = yield* eventually(briefly(graph.stream({ query: "q" })))
        assert.deepStrictEqual(
          events.map(([, node]) => node),
          ["rewrite_query", "analyzer_one", "retriever_two", "retriever_one", "qa"]
        )
      }
      const values = yield* eventually(collect(byEdge.stream({ query: "q" }, { modes: ["values"] })))
      assert.deepStrictEqual(
        values.map(({ state }) => state.docs),
        [[], [], ["doc3", "doc4"], ALL, ALL]
      )
      const tasks = yield* eventually(collect(byEdge.stream({ query: "q" }, { modes: ["tasks"] })))
      const qa = tasks.find((event) => event._tag === "TaskStarted" && event.node === "qa")
      assert.strictEqual(qa?.step, 4)
      assert.include(qa?._tag === "TaskStarted" ? qa.triggers : [], "join:retriever_one+retriever_two:qa")
    })
  )

  it.effect("core-100 start over once they have run their target", () =>
    Effect.gen(function* () {
      const loop = Graph.make("g", search)
        .addNode("rewrite_query", prefix("query"))
        .addNode("analyzer_one", prefix("analyzed"))
        .addNode("retriever_one", finds("doc1", "doc2"))
        .addNode("retriever_two", slowly(finds("doc3", "doc4")))
        .addNode("decider", () => Effect.void)
        .addNode("qa", answers)
        .addEdge(Graph.START, "rewrite_query")
        .addEdge("analyzer_one", "retriever_one")
        .addEdge(["retriever_one", "retriever_two"], "decider")
        .addConditionalEdges("decider", ({ query }) => (query!.split("analyzed").length > 2 ? "qa" : "rewrite_query"), [
          "qa",
          "rewrite_query"
        ])
      const graphs = [
        loop.addEdge("rewrite_query", "analyzer_one").addEdge("rewrite_query", "retriever_two").compile(),
        loop
          .addConditionalEdges("rewrite_query", () => ["analyzer_one", "retriever_two"] as const, [
            "analyzer_one",
            "retriever_two"
          ])
          .compile()
      ]
      for (const graph of graphs) {
        const twice = ALL.flatMap((doc) => [doc, doc])
        assert.deepStrictEqual(yield* eventually(graph.invoke({ query: "weather" })), {
          query: "analyzed: query: analyzed: query: weather",
          docs: twice,
          answer: twice.join(",")
        })
        assert.deepStrictEqual(yield* steps(graph.stream({ query: "q" }, { modes: ["tasks"] })), [
          "1 rewrite_query",
          "2 analyzer_one",
          "2 retriever_two",
          "3 retriever_one",
          "4 decider",
          "5 rewrite_query",
          "6 analyzer_one",
          "6 retriever_two",
          "7 retriever_one",
          "8 decider",
          "9 qa"
        ])
      }
    })
  )

  it.effect("core-101 may have sources of which one leads to another", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { my_key: concat })
        .addNode("up", () => Effect.void)
        .addNode("side", () => Effect.void)
        .addNode("other", () => Effect.succeed({ my_key: "_more" }))
        .addNode("down", () => Effect.void)
        .addEdge(Graph.START, "up")
        .addEdge("up", "side")
        .addEdge("up", "other")
        .addEdge(["up", "side"], "down")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ my_key: "my_value" }), { my_key: "my_value_more" })
      assert.deepStrictEqual(yield* steps(graph.stream({}, { modes: ["tasks"] })), [
        "1 up",
        "2 other",
        "2 side",
        "3 down"
      ])
    })
  )

  it.effect("core-102 may lead to END", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("A", says("A"))
        .addNode("B", says("B"))
        .addEdge(Graph.START, "A")
        .addEdge(Graph.START, "B")
        .addEdge(["A", "B"], Graph.END)
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ foo: [] }), { foo: ["A", "B"] })
    })
  )

  const choosing = (optional: boolean) =>
    Graph.make("g", { foo: log, both: Channel.lastValue(Schema.Boolean) })
      .addNode("a", says("a"))
      .addNode("b", says("b"))
      .addNode("c", says("c"))
      .addConditionalEdges(Graph.START, ({ both }) => (both === true ? ["a", "b"] : ["a"]), ["a", "b"])
      .addEdge(["a", "b"], "c", { optional })
      .compile()

  it.effect("that were met by some of their sources only end the run with a failure that names the others", () =>
    Effect.gen(function* () {
      const graph = choosing(false)
      assert.deepStrictEqual(yield* graph.invoke({ both: true }), { both: true, foo: ["a", "b", "c"] })
      const error = yield* failsWith(graph.invoke({}), "JoinUnsatisfied")
      assert.deepStrictEqual([error.node, error.arrived, error.missing], ["c", ["a"], ["b"]])
      // A join that nothing reached is none that waits.
      const untouched = Graph.make("g", names)
        .addNode("x", says("x"))
        .addNode("a", says("a"))
        .addNode("b", says("b"))
        .addNode("c", says("c"))
        .addEdge(Graph.START, "x")
        .addEdge(["a", "b"], "c")
        .compile()
      assert.deepStrictEqual(yield* untouched.invoke({}), { foo: ["x"] })
    })
  )

  it.effect("that are optional may stay half met, also over later runs of the thread", () =>
    Effect.gen(function* () {
      const thread = choosing(true).thread("t")
      assert.deepStrictEqual(yield* thread.invoke({ both: false }), { both: false, foo: ["a"] })
      const later = yield* thread.invoke({ both: true })
      assert.deepStrictEqual(later, { both: true, foo: ["a", "a", "b", "c"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("that are half met at a pause are no failure, and go on after it", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("a", says("a"))
        .addNode("b1", says("b1"))
        .addNode("b", () => Effect.map(Interrupt.interrupt<string>("b?"), (foo) => ({ foo })))
        .addNode("c", says("c"))
        .addEdge(Graph.START, "a")
        .addEdge(Graph.START, "b1")
        .addEdge("b1", "b")
        .addEdge(["a", "b"], "c")
        .compile()
      const thread = graph.thread("t")
      assert.strictEqual((yield* thread.run({}))._tag, "Paused")
      assert.deepStrictEqual(yield* thread.answer("b"), { foo: ["a", "b1", "b", "c"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("deferred nodes", () => {
  const nodes = Graph.make("g", search)
    .addNode("rewrite_query", prefix("query"))
    .addNode("analyzer_one", prefix("analyzed"))
    .addNode("retriever_one", finds("doc1", "doc2"))
    .addNode("retriever_two", slowly(finds("doc3", "doc4")))
    .addNode("qa", answers, { defer: true })
    .addEdge(Graph.START, "rewrite_query")
    .addEdge("rewrite_query", "retriever_one")
    .addEdge("retriever_one", "analyzer_one")
    .addEdge("rewrite_query", "retriever_two")
  const variants = {
    edges: nodes.addEdge("retriever_one", "qa").addEdge("retriever_two", "qa").compile(),
    join: nodes.addEdge(["retriever_one", "retriever_two"], "qa").compile()
  }
  const trigger = { edges: "branch:to:qa", join: "join:retriever_one+retriever_two:qa" }

  for (const variant of ["edges", "join"] as const) {
    it.effect(`core-103 wait until nothing else can run (reached by ${variant})`, () =>
      Effect.gen(function* () {
        const graph = variants[variant]
        assert.deepStrictEqual(yield* eventually(graph.invoke({ query: "weather" })), {
          query: "analyzed: query: weather",
          docs: ALL,
          answer: ALL.join(",")
        })
        const events = yield* eventually(collect(graph.stream({ query: "q" }, { modes: ["updates", "tasks"] })))
        assert.deepStrictEqual(
          events.flatMap((event) => (event._tag === "Updates" ? [event.node] : [])),
          ["rewrite_query", "retriever_one", "retriever_two", "analyzer_one", "qa"]
        )
        const starts = events.flatMap((event) => (event._tag === "TaskStarted" ? [event] : []))
        assert.deepStrictEqual(
          starts.map(({ node, step }) => `${step} ${node}`),
          ["1 rewrite_query", "2 retriever_one", "2 retriever_two", "3 analyzer_one", "4 qa"]
        )
        assert.include(starts[4]!.triggers, trigger[variant])
      })
    )
  }

  it.effect("core-105 that a loop reaches at every turn run once, at the end", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { foo: log, n: sum })
        .addNode("a", () => Effect.succeed({ n: 1, foo: "a" }))
        .addNode("d", ({ n }) => Effect.succeed({ foo: `d${n}` }), { defer: true })
        .addEdge(Graph.START, "a")
        .addEdge("a", "d")
        .addConditionalEdges("a", ({ n }) => (n < 3 ? "a" : Graph.END), ["a", Graph.END])
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({}), { foo: ["a", "a", "a", "d3"], n: 3 })
      const thread = graph.thread("t")
      assert.deepStrictEqual(yield* thread.invoke({}), { foo: ["a", "a", "a", "d3"], n: 3 })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("keep waiting over a pause and a reload", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("a", says("a"))
        .addNode("b", () => Effect.map(Interrupt.interrupt<string>("b?"), (foo) => ({ foo })))
        .addNode("d", says("d"), { defer: true })
        .addEdge(Graph.START, "a")
        .addEdge("a", "d")
        .addEdge("a", "b")
        .compile()
      const thread = graph.thread("t")
      yield* thread.run({})
      assert.deepStrictEqual((yield* thread.state).next, ["b"])
      assert.deepStrictEqual(yield* thread.answer("b"), { foo: ["a", "b", "d"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("the recursion limit", () => {
  const chain = (length: number) => {
    const nodes = Array.from({ length }, (_, i) => [`n${i}`, says(`n${i}`)] as const)
    return Graph.make("g", names).addSequence(nodes).addEdge(Graph.START, "n0").compile()
  }
  const outcome = (length: number, recursionLimit: number) =>
    Effect.match(chain(length).invoke({}, { recursionLimit }), {
      onFailure: (error) => error._tag,
      onSuccess: ({ foo }) => foo.length
    })

  it.effect("core-106 core-107 lets a graph of n supersteps finish with limit n", () =>
    Effect.gen(function* () {
      for (const length of [1, 2, 3]) {
        assert.strictEqual(yield* outcome(length, length - 1), "GraphRecursion")
        assert.strictEqual(yield* outcome(length, length), length)
        assert.strictEqual(yield* outcome(length, length + 1), length)
      }
    })
  )

  it.effect("core-107 counts a chain of subscribers in the same way", () =>
    Effect.gen(function* () {
      const number = Channel.lastValue(Schema.Number)
      const fields = Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`c${i}`, number]))
      let builder = Graph.make("g", fields, { input: ["c0"], output: ["c100"] })
      for (let i = 0; i < 100; i++) {
        const run = (state: Readonly<Record<string, number | undefined>>) =>
          Effect.succeed({ [`c${i + 1}`]: state[`c${i}`]! + 1 })
        builder = builder.addNode(`n${i}`, run as never, { subscribe: [`c${i}`], reads: [`c${i}`] }) as never
      }
      const graph = builder.compile()
      const run = (n: number) => Effect.map(graph.invoke({ c0: n }, { recursionLimit: 100 }), (output) => output.c100)
      assert.deepStrictEqual(yield* Effect.replicateEffect(run(2), 10), Array(10).fill(102))
      assert.deepStrictEqual(yield* Effect.replicateEffect(run(2), 10, { concurrency: 10 }), Array(10).fill(102))
      assert.deepStrictEqual(yield* Effect.forEach([2, 1, 3, 4, 5], run, { concurrency: 5 }), [102, 101, 103, 104, 105])
      yield* failsWith(graph.invoke({ c0: 2 }, { recursionLimit: 99 }), "GraphRecursion")
    })
  )

  it.effect("is the same for a resumed run, which counts its own supersteps only", () =>
    Effect.gen(function* () {
      const thread = chain(5).thread("t")
      const options = { recursionLimit: 2 }
      yield* failsWith(thread.invoke({}, options), "GraphRecursion")
      assert.deepStrictEqual((yield* thread.state).values, { foo: ["n0", "n1"] })
      yield* failsWith(thread.resume(options), "GraphRecursion")
      assert.deepStrictEqual((yield* thread.state).values, { foo: ["n0", "n1", "n2", "n3"] })
      assert.deepStrictEqual(yield* thread.resume({ recursionLimit: 1 }), { foo: ["n0", "n1", "n2", "n3", "n4"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("counts a superstep that paused again once it is run to its end", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("a", () => Effect.map(Interrupt.interrupt<string>("a?"), (foo) => ({ foo })))
        .addNode("b", says("b"))
        .addEdge(Graph.START, "a")
        .addEdge("a", "b")
        .compile()
      const thread = graph.thread("t")
      yield* thread.run({}, { recursionLimit: 1 })
      assert.deepStrictEqual(yield* thread.answer("a", { recursionLimit: 2 }), { foo: ["a", "b"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("core-108 is a typed failure that says what to do, after the events of what ran", () =>
    Effect.gen(function* () {
      const [events, exit] = yield* untilEnd(chain(3).stream({}, { recursionLimit: 2 }))
      assert.deepStrictEqual(
        events.map((event) => event._tag === "Updates" && event.update),
        [{ foo: ["n0"] }, { foo: ["n1"] }]
      )
      const error = yield* failsWith(exit, "GraphRecursion")
      assert.strictEqual(error.limit, 2)
      assert.include(error.message, "raise recursionLimit")
    })
  )

  it.effect("core-110 is 25 unless the graph or the run says otherwise", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* chain(25).invoke({})).foo.length, 25)
      assert.strictEqual((yield* failsWith(chain(26).invoke({}), "GraphRecursion")).limit, 25)
      const endless = Graph.make("g", names).addNode("i", says("i")).addEdge(Graph.START, "i").addEdge("i", "i")
      const compiled = endless.compile({ recursionLimit: 7 })
      assert.strictEqual((yield* failsWith(compiled.invoke({}), "GraphRecursion")).limit, 7)
      assert.strictEqual((yield* failsWith(compiled.invoke({}, { recursionLimit: 3 }), "GraphRecursion")).limit, 3)
      const unsaid = { recursionLimit: undefined }
      assert.strictEqual((yield* failsWith(compiled.invoke({}, unsaid), "GraphRecursion")).limit, 7)
    })
  )

  it.effect("core-111 holds for graphs inside, and their failure is the whole run's", () =>
    Effect.gen(function* () {
      const sub = Graph.make("sub", names).addNode("i", says("i")).addEdge(Graph.START, "i").addEdge("i", "i").compile()
      const outer = Graph.make("outer", names).addGraph("sub", sub).addEdge(Graph.START, "sub").compile()
      const error = yield* failsWith(outer.invoke({}, { recursionLimit: 4 }), "GraphRecursion")
      assert.deepStrictEqual([error.graph, error.limit], ["sub", 4])
    })
  )

  it.effect("core-161 a node can ask how many supersteps are left, and whether this is the last", () =>
    Effect.gen(function* () {
      const asks = () =>
        Effect.map(Task.current, ({ isLastStep, remainingSteps }) => ({ foo: `${remainingSteps} ${isLastStep}` }))
      const graph = Graph.make("g", names)
        .addSequence([
          ["a", asks],
          ["b", asks]
        ])
        .addEdge(Graph.START, "a")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({}), { foo: ["24 false", "23 false"] })
      assert.deepStrictEqual(yield* graph.invoke({}, { recursionLimit: 2 }), { foo: ["1 false", "0 true"] })
    })
  )
})

describe("a superstep that takes too long", () => {
  it.effect("core-070 fails the run after what was done in time, and stops the rest", () =>
    Effect.gen(function* () {
      let stopped = false
      const graph = Graph.make("g", names)
        .addNode("awhile", () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => (stopped = true))))
        .addNode("alittlewhile", () => Effect.delay(Effect.succeed({ foo: "done" }), "10 millis"))
        .addConditionalEdges(Graph.START, () => ["awhile", "alittlewhile"] as const, ["awhile", "alittlewhile"])
        .compile()
      const fiber = yield* Effect.fork(untilEnd(graph.stream({}, { stepTimeout: "50 millis" })))
      yield* TestClock.adjust("50 millis")
      const [events, exit] = yield* Fiber.join(fiber)
      assert.deepStrictEqual(
        events.map((event) => event._tag === "Updates" && event.node),
        ["alittlewhile"]
      )
      const error = yield* failsWith(exit, "TaskTimeout")
      assert.deepStrictEqual([error.kind, error.limitMillis, stopped], ["step", 50, true])
    })
  )
})
