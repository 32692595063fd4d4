import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { Channel, Checkpointer, Command, Graph, Interrupt, Reducers, Send, Task, Thread } from "effect-pregel"
import { brief, briefly } from "./support/events.js"
import { names, says, word } from "./support/graphs.js"
import { collect, concat, makeTrace, snapshots, sum } from "./support/thread.js"

const docs = Channel.reduce(Schema.Array(Schema.String), {
  initial: () => [],
  reducer: (a, b) => [...a, ...b].sort()
})

const counting = Graph.make("counting", { value: sum })
  .addNode("add_one", () => Effect.succeed({ value: 1 }))
  .addEdge(Graph.START, "add_one")
  .addConditionalEdges("add_one", ({ value }) => (value < 6 ? "add_one" : Graph.END), ["add_one", Graph.END])
  .compile()

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i)

describe("modes", () => {
  it.effect("core-135 are updates unless others are asked for, whatever runs the nodes", () =>
    Effect.gen(function* () {
      const events = yield* briefly(counting.stream({ value: 1 }))
      assert.deepStrictEqual(events, Array(5).fill(["updates", "add_one", { value: 1 }]))
      const number = Channel.lastValue(Schema.Number)
      const subscribing = Graph.make("g", { input: number, inbox: number, output: number })
        .addNode("one", ({ input }) => Effect.succeed({ inbox: input! + 1 }), { subscribe: ["input"] })
        .addNode("two", ({ inbox }) => Effect.succeed({ output: inbox! + 1 }), { subscribe: ["inbox"] })
        .compile()
      assert.deepStrictEqual(yield* briefly(subscribing.stream({ input: 2 })), [
        ["updates", "one", { inbox: 3 }],
        ["updates", "two", { output: 4 }]
      ])
    })
  )

  it.effect("core-136 may be several; events come in one order, and each says what it is", () =>
    Effect.gen(function* () {
      const values = numbers(1, 6).map((value) => ["values", { value }])
      const updates: ReadonlyArray<ReadonlyArray<unknown>> = Array<ReadonlyArray<unknown>>(5).fill([
        "updates",
        "add_one",
        { value: 1 }
      ])
      assert.deepStrictEqual(yield* briefly(counting.stream({ value: 1 }, { modes: ["values"] })), values)
      assert.deepStrictEqual(yield* briefly(counting.stream({ value: 1 }, { modes: ["updates"] })), updates)
      const both = yield* briefly(counting.stream({ value: 1 }, { modes: ["values", "updates"] }))
      assert.deepStrictEqual(
        both,
        values.flatMap((value, i) => [value, ...updates.slice(i, i + 1)])
      )
    })
  )

  it.effect("core-137 never change an event's form: namespace, superstep, node and task are always there", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { my_key: concat })
        .addNode("n", () => Effect.succeed({ my_key: "n" }))
        .addEdge(Graph.START, "n")
        .compile()
      const thread = graph.thread("t")
      for (const stream of [
        graph.stream({}),
        graph.stream({}, { modes: ["updates"], subgraphs: true }),
        thread.stream({}, { modes: ["updates", "updates"] })
      ]) {
        const events = yield* collect(stream as ReturnType<typeof graph.stream>)
        assert.deepStrictEqual(
          events.map((event) => ({ ...event, task: "" })),
          [{ _tag: "Updates", namespace: [], step: 1, node: "n", task: "", update: { my_key: "n" }, cached: false }]
        )
      }
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("core-143 values are of the output channels; a step that writes none of them shows none", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { my_key: word, market: word }, { output: ["market"] })
        .addNode("n", () => Effect.succeed({ my_key: "n" }))
        .addEdge(Graph.START, "n")
        .compile()
      const modes = { modes: ["values", "updates"] } as const
      assert.deepStrictEqual(yield* briefly(graph.stream({ my_key: "x" }, modes)), [["updates", "n", { my_key: "n" }]])
      assert.deepStrictEqual(yield* briefly(graph.stream({ my_key: "x", market: "m" }, modes)), [
        ["values", { market: "m" }],
        ["updates", "n", { my_key: "n" }]
      ])
    })
  )
})

describe("the order of events", () => {
  it.effect("core-138 is starts, then each task's update before its end, then the new state", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { query: word, answer: word, docs })
        .addNode("rewrite_query", ({ query }) => Effect.succeed({ query: `query: ${query}` }))
        .addNode("retriever_one", () => Effect.delay(Effect.succeed({ docs: ["doc1", "doc2"] }), "100 millis"))
        .addNode("retriever_two", () => Effect.succeed({ docs: ["doc3", "doc4"] }))
        .addNode("qa", (state) => Effect.succeed({ answer: state.docs.join(",") }))
        .addEdge(Graph.START, "rewrite_query")
        .addEdge("rewrite_query", "retriever_one")
        .addEdge("rewrite_query", "retriever_two")
        .addEdge("retriever_one", "qa")
        .addEdge("retriever_two", "qa")
        .compile()
      const stream = graph.stream({ query: "q" }, { modes: ["values", "updates", "debug"] })
      const fiber = yield* Effect.fork(collect(stream))
      yield* TestClock.adjust("100 millis")
      const events = yield* Fiber.join(fiber)
      const all = ["doc1", "doc2", "doc3", "doc4"]
      assert.deepStrictEqual(events.map(brief), [
        ["values", { query: "q", docs: [] }],
        ["start", "rewrite_query"],
        ["updates", "rewrite_query", { query: "query: q" }],
        ["end", "rewrite_query"],
        ["values", { query: "query: q", docs: [] }],
        ["start", "retriever_one"],
        ["start", "retriever_two"],
        ["updates", "retriever_two", { docs: ["doc3", "doc4"] }],
        ["end", "retriever_two"],
        ["updates", "retriever_one", { docs: ["doc1", "doc2"] }],
        ["end", "retriever_one"],
        ["values", { query: "query: q", docs: all }],
        ["start", "qa"],
        ["updates", "qa", { answer: all.join(",") }],
        ["end", "qa"],
        ["values", { query: "query: q", docs: all, answer: all.join(",") }]
      ])
      const [start, end] = events.filter((event) => "id" in event)
      assert.deepStrictEqual(start, {
        _tag: "TaskStarted",
        namespace: [],
        step: 1,
        id: start!.id,
        node: "rewrite_query",
        input: { query: "q", docs: [] },
        triggers: ["branch:to:rewrite_query"]
      })
      assert.deepStrictEqual(end, {
        _tag: "TaskEnded",
        namespace: [],
        step: 1,
        id: start!.id,
        node: "rewrite_query",
        result: { query: "query: q" },
        error: undefined,
        interrupts: []
      })
    })
  )

  it.effect("core-141 tells each task's start and end, those of sends first", () =>
    Effect.gen(function* () {
      const one = yield* collect(counting.stream({ value: 5 }, { modes: ["tasks"] }))
      const [start, end] = one
      assert.deepStrictEqual([start?._tag, end?._tag, one.length], ["TaskStarted", "TaskEnded", 2])
      assert.strictEqual(start?._tag === "TaskStarted" && start.id, end?._tag === "TaskEnded" && end.id)

      const graph = Graph.make("g", names)
        .addWorker("w", Schema.Struct({ i: Schema.Number }), ({ i }) => Effect.succeed({ foo: `w${i}` }))
        .addNode("p", says("p"))
        .addConditionalEdges(Graph.START, () => [Send.make("w", { i: 1 }), "p", Send.make("w", { i: 2 })], ["w", "p"])
        .compile()
      const events = yield* collect(graph.stream({}, { modes: ["tasks"] }))
      assert.deepStrictEqual(
        events.flatMap((event) => (event._tag === "TaskStarted" ? [[event.node, event.input, event.triggers]] : [])),
        [
          ["w", { i: 1 }, ["__pregel_push"]],
          ["w", { i: 2 }, ["__pregel_push"]],
          ["p", { foo: [] }, ["branch:to:p"]]
        ]
      )
      assert.deepStrictEqual(yield* graph.invoke({}), { foo: ["p", "w1", "w2"] })
    })
  )

  const two = Graph.make("two", names)
    .addSequence([
      ["a", says("a")],
      ["b", says("b")]
    ])
    .addEdge(Graph.START, "a")
    .compile()

  it.effect("core-142 tells the checkpoint that each superstep starts from, as the history has it", () =>
    Effect.gen(function* () {
      const thread = two.thread("t")
      const events = yield* collect(thread.stream({}, { modes: ["checkpoints", "tasks", "updates", "values"] }))
      const told = events.map((event) =>
        event._tag === "Checkpointed" ? ["checkpoint", event.checkpoint.source, event.step, event.next] : brief(event)
      )
      assert.deepStrictEqual(told, [
        ["checkpoint", "input", -1, ["__start__"]],
        ["checkpoint", "loop", 0, ["a"]],
        ["start", "a"],
        ["updates", "a", { foo: ["a"] }],
        ["end", "a"],
        ["values", { foo: ["a"] }],
        ["checkpoint", "loop", 1, ["b"]],
        ["start", "b"],
        ["updates", "b", { foo: ["b"] }],
        ["end", "b"],
        ["values", { foo: ["a", "b"] }],
        ["checkpoint", "loop", 2, []]
      ])
      const history = (yield* snapshots(thread)).toReversed()
      const checkpoints = events.flatMap((event) => (event._tag === "Checkpointed" ? [event] : []))
      assert.deepStrictEqual(
        checkpoints.map(({ checkpoint, metadata, next, state, step }) => ({
          ...checkpoint,
          metadata,
          next,
          state,
          step
        })),
        history.map(({ checkpoint, metadata, next, values }) => ({
          id: checkpoint!.id,
          parent: checkpoint!.parent,
          source: checkpoint!.source,
          created: checkpoint!.created,
          metadata,
          next,
          state: values,
          step: checkpoint!.step
        }))
      )
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("core-142 debug is checkpoints and tasks; without a thread there are no checkpoints", () =>
    Effect.gen(function* () {
      const tags = (events: ReadonlyArray<{ readonly _tag: string }>) => events.map(({ _tag }) => _tag)
      const tasks = ["TaskStarted", "TaskEnded"]
      const alone = yield* collect(two.stream({}, { modes: ["checkpoints", "debug"] }))
      assert.deepStrictEqual(tags(alone), [...tasks, ...tasks])
      const saved = yield* collect(two.thread("t").stream({}, { modes: ["debug"] }))
      const checkpoint = "Checkpointed"
      assert.deepStrictEqual(tags(saved), [checkpoint, checkpoint, ...tasks, checkpoint, ...tasks, checkpoint])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("custom events", () => {
  it.effect("core-140 are delivered at once, before the node's update; nobody's are dropped", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { my_key: word })
        .addNode("a", () =>
          Effect.gen(function* () {
            yield* Task.emit("Before sleep")
            yield* Effect.sleep("200 millis")
            yield* Task.emit({ after: "sleep" })
            return { my_key: "a" }
          })
        )
        .addEdge(Graph.START, "a")
        .compile()
      const trace = makeTrace()
      const stream = graph.stream({}, { modes: ["custom", "updates", "values", "tasks"] })
      const fiber = yield* Effect.fork(Stream.runForEach(stream, (event) => trace.note(JSON.stringify(brief(event)))))
      yield* TestClock.adjust("199 millis")
      assert.deepStrictEqual(trace.take(), ['["start","a"]', '["custom","Before sleep"]'])
      yield* TestClock.adjust("1 millis")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(trace.take(), [
        '["custom",{"after":"sleep"}]',
        '["updates","a",{"my_key":"a"}]',
        '["end","a"]',
        '["values",{"my_key":"a"}]'
      ])
      const silent = yield* Effect.fork(briefly(graph.stream({})))
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* Fiber.join(silent), [["updates", "a", { my_key: "a" }]])
    })
  )

  it.effect(
    "core-147 core-148 carry what a node wants shown of its messages: once, and none that is only passed on",
    () =>
      Effect.gen(function* () {
        const Message = Schema.Struct({ id: Schema.String, content: Schema.String })
        const messages = Reducers.byId(Message, { id: ({ id }) => id })
        const sub = Graph.make("sub", { messages })
          .addNode("call_model", () =>
            Effect.as(Task.emit({ id: "1", content: "hi" }), { messages: { id: "1", content: "hi" } })
          )
          .addNode("route", ({ messages }) =>
            Effect.succeed(Command.make({ graph: Graph.PARENT, goto: "node_2", update: { messages } }))
          )
          .addEdge(Graph.START, "call_model")
          .addEdge("call_model", "route")
          .compile()
        const parent = Graph.make("parent", { messages })
          .addGraph("node_1", sub, { goto: ["node_2"] })
          .addNode("node_2", (state) => Effect.succeed(state))
          .addEdge(Graph.START, "node_1")
          .compile()
        const input = { messages: { id: "0", content: "hi" } }
        const events = yield* collect(parent.stream(input, { modes: ["custom"], subgraphs: true }))
        assert.deepStrictEqual(
          events.map((event) => [event.node, event.step, event.value, event.namespace.length]),
          [["call_model", 1, { id: "1", content: "hi" }, 1]]
        )
      })
  )
})

describe("graphs inside", () => {
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
  const root = [
    ["values", { foo: ["x"] }],
    ["updates", "o", { foo: ["o"] }],
    ["values", { foo: ["x", "o"] }],
    ["updates", "sub", { foo: ["x", "o", "i1", "i2"] }],
    ["values", { foo: ["x", "o", "x", "o", "i1", "i2"] }]
  ]
  const inner = [
    ["values", { foo: ["x", "o"] }],
    ["updates", "i1", { foo: ["i1"] }],
    ["values", { foo: ["x", "o", "i1"] }],
    ["updates", "i2", { foo: ["i2"] }],
    ["values", { foo: ["x", "o", "i1", "i2"] }]
  ]

  it.effect("core-145 tell their own events where they are asked for, with the path that leads to them", () =>
    Effect.gen(function* () {
      const modes = ["updates", "values"] as const
      assert.deepStrictEqual(yield* briefly(outer.stream({ foo: "x" }, { modes })), root)
      const events = yield* collect(outer.stream({ foo: "x" }, { modes, subgraphs: true }))
      const at = (event: (typeof events)[number]) =>
        event.namespace.map((segment) => segment.slice(0, segment.indexOf(":")))
      assert.deepStrictEqual(
        events.map((event) => [at(event), brief(event)]),
        [
          ...root.slice(0, 3).map((event) => [[], event]),
          ...inner.map((event) => [["sub"], event]),
          ...root.slice(3).map((event) => [[], event])
        ]
      )
    })
  )
})

describe("pauses in streams", () => {
  it.effect("core-146 are an event, after which the stream ends; a resume begins with the state", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { robot_input: word, human_input: word })
        .addNode("robot", () => Effect.succeed({ robot_input: "beep boop" }))
        .addNode("human", () =>
          Effect.map(Interrupt.interrupt<string>("interrupt"), (human_input) => ({ human_input }))
        )
        .addEdge(Graph.START, "robot")
        .addEdge("robot", "human")
        .compile()
      const thread = graph.thread("t")
      const modes = ["updates", "values"] as const
      assert.deepStrictEqual(yield* briefly(thread.stream({}, { modes })), [
        ["updates", "robot", { robot_input: "beep boop" }],
        ["values", { robot_input: "beep boop" }],
        ["interrupted", ["interrupt"]],
        ["values", { robot_input: "beep boop" }]
      ])
      assert.deepStrictEqual(yield* briefly(thread.resumeStream(Thread.answer("i am a human"), { modes })), [
        ["values", { robot_input: "beep boop" }],
        ["updates", "human", { human_input: "i am a human" }],
        ["values", { robot_input: "beep boop", human_input: "i am a human" }]
      ])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("core-146 at breakpoints ask nothing", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { my_key: concat })
        .addNode("a", () => Effect.succeed({ my_key: "a" }))
        .addNode("h", () => Effect.succeed({ my_key: "h" }))
        .addEdge(Graph.START, "a")
        .addEdge("a", "h")
        .compile()
      const thread = graph.thread("t")
      const stops = { interruptBefore: ["h"] } as const
      assert.deepStrictEqual(yield* briefly(thread.stream({ my_key: "x" }, stops)), [
        ["updates", "a", { my_key: "a" }],
        ["interrupted", []]
      ])
      assert.deepStrictEqual(yield* briefly(thread.resumeStream(undefined, stops)), [["updates", "h", { my_key: "h" }]])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("readers", () => {
  it.effect("a reader that leaves stops the run, after its nodes' finalizers; what was committed stays", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const graph = Graph.make("g", names)
        .addNode("a", says("a"))
        .addNode("b", () =>
          Effect.never.pipe(
            Effect.onInterrupt(() => Effect.zipRight(Effect.sleep("1 second"), trace.note("b stopped")))
          )
        )
        .addEdge(Graph.START, "a")
        .addEdge("a", "b")
        .compile()
      const thread = graph.thread("t")
      const reading = Effect.zipRight(Stream.runCollect(Stream.take(thread.stream({}), 1)), trace.note("reader gone"))
      const fiber = yield* Effect.fork(reading)
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(trace.entries, ["b stopped", "reader gone"])
      const state = yield* thread.state
      assert.deepStrictEqual([state.values, state.next], [{ foo: ["a"] }, ["b"]])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("a reader that is slow makes the run wait: it never is more than the buffer ahead", () =>
    Effect.gen(function* () {
      let made = 0
      const gate = yield* Deferred.make<void>()
      const graph = Graph.make("g", names)
        .addNode("a", () =>
          Effect.as(
            Effect.forEach(numbers(1, 1000), (n) => Effect.tap(Task.emit(n), () => Effect.sync(() => (made = n))), {
              discard: true
            }),
            undefined
          )
        )
        .addEdge(Graph.START, "a")
        .compile()
      const got: Array<unknown> = []
      const stream = graph.stream({}, { modes: ["custom"], bufferSize: 2 })
      const fiber = yield* Effect.fork(
        Stream.runForEach(stream, ({ value }) =>
          Effect.zipRight(
            Deferred.await(gate),
            Effect.sync(() => got.push(value))
          )
        )
      )
      yield* TestClock.adjust("1 second")
      assert.isAtMost(made, 6)
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(got, numbers(1, 1000))
    })
  )

  it.effect("an event whose node is interrupted while it waits for room is told all the same", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const graph = Graph.make("g", names)
        .addNode("a", () =>
          Effect.as(
            Effect.forEach(numbers(1, 4), (n) => Effect.timeoutOption(Task.emit(n), "1 second"), { discard: true }),
            undefined
          )
        )
        .addEdge(Graph.START, "a")
        .compile()
      const got: Array<unknown> = []
      const stream = graph.stream({}, { modes: ["custom"], bufferSize: 1 })
      const fiber = yield* Effect.fork(
        Stream.runForEach(stream, ({ value }) => Effect.andThen(Deferred.await(gate), () => got.push(value)))
      )
      yield* TestClock.adjust("10 seconds")
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(got, numbers(1, 4))
    })
  )

  it.effect("a stream that nobody reads runs nothing, and each reading is a run of its own", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const graph = Graph.make("g", names)
        .addNode("a", () => Effect.as(trace.note("a"), { foo: "a" }))
        .addEdge(Graph.START, "a")
        .compile()
      const stream = graph.stream({})
      assert.deepStrictEqual(trace.entries, [])
      yield* Stream.runDrain(stream)
      yield* Stream.runDrain(stream)
      assert.deepStrictEqual(trace.entries, ["a", "a"])
    })
  )

  it.effect("a node's defect is the stream's defect", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("a", () => Effect.die("broken"))
        .addEdge(Graph.START, "a")
        .compile()
      const exit = yield* Effect.exit(Stream.runDrain(graph.stream({})))
      assert.deepStrictEqual(exit, Exit.die("broken"))
    })
  )
})
