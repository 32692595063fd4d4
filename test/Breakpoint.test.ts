import { assert, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"
import * as Channel from "../src/Channel.js"
import { layerMemory } from "../src/Checkpointer.js"
import * as Command from "../src/Command.js"
import * as Graph from "../src/Graph.js"
import type { GraphEvent } from "../src/GraphEvent.js"
import * as Send from "../src/Send.js"
import { asked, collect, concat, failsWith, log, makeTrace, rows, snapshots, sum } from "./support/thread.js"

const START = Graph.START

/** Updates by node, and the questions of stops. */
const told = (events: ReadonlyArray<GraphEvent>) =>
  events.map((event) =>
    event._tag === "Updates"
      ? { [event.node]: event.update }
      : event._tag === "Interrupted"
        ? event.interrupts.map(({ value }) => value)
        : event._tag
  )

/** An agent that calls tools twice and then ends. */
const agent = () =>
  Graph.make("agent", { log })
    .addNode("agent", (state) => Effect.succeed({ log: [`agent ${state.log.length}`] }))
    .addNode("tools", () => Effect.succeed({ log: ["tools"] }))
    .addEdge(START, "agent")
    .addConditionalEdges("agent", (state) => (state.log.length < 5 ? "tools" : Graph.END), ["tools", Graph.END])
    .addEdge("tools", "agent")
    .compile()

/** +1, then +10. */
const sums = () =>
  Graph.make("sums", { value: sum })
    .addNode("a", () => Effect.succeed({ value: 1 }))
    .addNode("b", () => Effect.succeed({ value: 10 }))
    .addEdge(START, "a")
    .addEdge("a", "b")

it.effect("per-067 stopping after every node makes progress although no state changes, and not after the last", () =>
  Effect.gen(function* () {
    const graph = Graph.make("steps", { input: Channel.lastValue(Schema.String) })
      .addSequence([
        ["step_1", () => Effect.void],
        ["step_2", () => Effect.void],
        ["step_3", () => Effect.void]
      ])
      .addEdge(START, "step_1")
      .compile({ interruptAfter: "*" })
    for (const durability of ["sync", "async", "exit"] as const) {
      const thread = graph.thread(durability)
      const state = { input: "hello world" }
      const seen: Array<readonly [string, ReadonlyArray<string>, number]> = []
      const note = (tag: string) =>
        Effect.gen(function* () {
          const { next, values } = yield* thread.state
          assert.deepStrictEqual(values, state)
          seen.push([tag, next, (yield* rows(thread)).length])
        })
      assert.deepStrictEqual((yield* thread.run(state, { durability })).state, state)
      yield* note("paused")
      const second = yield* failsWith(thread.resume({ durability }), "GraphInterrupt")
      assert.deepStrictEqual([second.interrupts, second.next], [[], ["step_3"]])
      yield* note("paused")
      for (let i = 0; i < 2; i++) {
        assert.deepStrictEqual(yield* thread.resume({ durability }), state)
        yield* note("done")
      }
      assert.deepStrictEqual(
        seen,
        durability === "exit"
          ? [
              ["paused", ["step_2"], 1],
              ["paused", ["step_3"], 2],
              ["done", [], 3],
              ["done", [], 3]
            ]
          : [
              ["paused", ["step_2"], 3],
              ["paused", ["step_3"], 4],
              ["done", [], 5],
              ["done", [], 5]
            ]
      )
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-068 a static stop is told without questions", () =>
  Effect.gen(function* () {
    for (const options of [{ interruptBefore: ["tools"] }, { interruptAfter: ["agent"] }] as const) {
      const thread = agent().thread(Object.keys(options)[0]!)
      assert.deepStrictEqual(told(yield* collect(thread.stream({ log: [] }, options))), [
        { agent: { log: ["agent 0"] } },
        []
      ])
      const state = yield* thread.state
      assert.deepStrictEqual(state.next, ["tools"])
      assert.deepStrictEqual(
        state.tasks.map(({ interrupts }) => interrupts),
        [[]]
      )
      assert.deepStrictEqual(state.interrupts, [])
      const outcome = yield* agent().run({ log: [] }, options)
      assert.deepStrictEqual(outcome, {
        _tag: "Paused",
        state: { log: ["agent 0"] },
        interrupts: [],
        next: ["tools"]
      })
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-070 stopping before or after every node runs one node a call", () =>
  Effect.gen(function* () {
    const graph = agent()
    for (const durability of ["exit", "sync", "async"] as const) {
      const before = graph.thread(`before ${durability}`)
      const options = { interruptBefore: "*", durability } as const
      assert.deepStrictEqual(told(yield* collect(before.stream({ log: [] }, options))), [[]])
      const position = Effect.map(before.state, ({ checkpoint, next }) => [checkpoint!.step, next])
      assert.deepStrictEqual(yield* position, [0, ["agent"]])
      const steps: Array<unknown> = []
      for (let i = 0; i < 5; i++) {
        steps.push(told(yield* collect(before.resumeStream(undefined, options))), yield* position)
      }
      assert.deepStrictEqual(steps, [
        [{ agent: { log: ["agent 0"] } }, []],
        [1, ["tools"]],
        [{ tools: { log: ["tools"] } }, []],
        [2, ["agent"]],
        [{ agent: { log: ["agent 2"] } }, []],
        [3, ["tools"]],
        [{ tools: { log: ["tools"] } }, []],
        [4, ["agent"]],
        [{ agent: { log: ["agent 4"] } }],
        [5, []]
      ])
    }
    const after = graph.thread("after")
    const options = { interruptAfter: "*" } as const
    const steps = [told(yield* collect(after.stream({ log: [] }, options)))]
    for (let i = 0; i < 4; i++) steps.push(told(yield* collect(after.resumeStream(undefined, options))))
    assert.deepStrictEqual(steps, [
      [{ agent: { log: ["agent 0"] } }, []],
      [{ tools: { log: ["tools"] } }, []],
      [{ agent: { log: ["agent 2"] } }, []],
      [{ tools: { log: ["tools"] } }, []],
      [{ agent: { log: ["agent 4"] } }]
    ])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-071 a node in both lists stops before it and after it", () =>
  Effect.gen(function* () {
    const thread = sums()
      .compile({ interruptBefore: ["a"], interruptAfter: ["a"] })
      .thread("t")
    const seen: Array<unknown> = []
    const note = Effect.map(thread.state, ({ next, values }) => void seen.push([values, next]))
    yield* thread.run({ value: 0 })
    yield* note
    yield* failsWith(thread.resume(), "GraphInterrupt")
    yield* note
    for (let i = 0; i < 2; i++) {
      yield* thread.resume()
      yield* note
    }
    assert.deepStrictEqual(seen, [
      [{ value: 0 }, ["a"]],
      [{ value: 1 }, ["b"]],
      [{ value: 11 }, []],
      [{ value: 11 }, []]
    ])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-072 at a static stop there is no question to answer, and a goto runs beside what is pending", () =>
  Effect.gen(function* () {
    const graph = Graph.make("commands", { foo: concat })
      .addNode("node1", () => Effect.succeed({ foo: "|node-1" }))
      .addNode("node2", () => Effect.succeed({ foo: "|node-2" }))
      .addEdge(START, "node1")
      .addEdge("node1", "node2")
      .compile({ interruptBefore: ["node1"] })
    const thread = graph.thread("a")
    yield* thread.run({ foo: "abc" })
    yield* failsWith(thread.answer("node1"), "UnknownInterrupt")
    assert.deepStrictEqual(yield* thread.resume(), { foo: "abc|node-1|node-2" })
    const other = graph.thread("b")
    yield* other.run({ foo: "abc" })
    const outcome = yield* other.run(Command.make({ goto: ["node2"] }))
    // The command is a new input: its superstep has the same breakpoint before it.
    assert.deepStrictEqual([outcome._tag, outcome.state], ["Paused", { foo: "abc" }])
    assert.deepStrictEqual((yield* other.state).next, ["node1", "node2"])
    assert.deepStrictEqual(yield* other.resume(), { foo: "abc|node-1|node-2|node-2" })
    const third = graph.thread("c")
    yield* third.run({ foo: "abc" })
    assert.deepStrictEqual(yield* third.resume({ goto: "node2" }), { foo: "abc|node-1|node-2|node-2" })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-073 a graph of subscriptions with a stop, an abandoned run and a full history", () =>
  Effect.gen(function* () {
    const number = Channel.lastValue(Schema.Number)
    const graph = Graph.make(
      "subscriptions",
      { input: number, inbox: number, output: number },
      { input: ["input"], output: ["output"] }
    )
      .addNode("one", ({ input = 0 }) => Effect.succeed({ inbox: input + 1 }), { subscribe: ["input"] })
      .addNode("two", ({ inbox = 0 }) => Effect.succeed({ output: inbox + 1 }), { subscribe: ["inbox"] })
      .compile({ interruptAfter: ["one"] })
    const thread = graph.thread("1")
    assert.deepStrictEqual((yield* thread.run({ input: 2 })).state, {})
    assert.deepStrictEqual(yield* thread.resume(), { output: 4 })
    assert.deepStrictEqual((yield* thread.run({ input: 20 }))._tag, "Paused")
    assert.deepStrictEqual((yield* thread.run({ input: 3 }))._tag, "Paused")
    assert.deepStrictEqual(yield* thread.resume(), { output: 5 })
    // Our input goes through the entry node, so each run has one superstep more than its nodes.
    assert.deepStrictEqual(
      (yield* rows(thread)).filter(([source, , next]) => source !== "input" && next[0] !== "one"),
      [
        ["loop", 9, [], { inbox: 4, output: 5, input: 3 }],
        ["loop", 8, ["two"], { inbox: 4, output: 4, input: 3 }],
        ["loop", 5, ["two"], { inbox: 21, output: 4, input: 20 }],
        ["loop", 2, [], { inbox: 3, output: 4, input: 2 }],
        ["loop", 1, ["two"], { inbox: 3, input: 2 }]
      ]
    )
    const history = yield* snapshots(thread)
    const abandoned = history.find(({ checkpoint }) => checkpoint!.step === 5)!
    assert.deepStrictEqual(
      abandoned.tasks.map(({ node, result }) => [node, result]),
      [["two", undefined]]
    )
    const at = (step: number) => thread.at(history.find(({ checkpoint }) => checkpoint!.step === step)!.checkpoint!.id)
    assert.deepStrictEqual(told(yield* collect(at(9).resumeStream(undefined))), [])
    assert.deepStrictEqual(told(yield* collect(at(8).resumeStream(undefined))), [{ two: { output: 5 } }])
    assert.deepStrictEqual(told(yield* collect(at(7).resumeStream(undefined))), [{ one: { inbox: 4 } }, []])

    const second = graph.thread("2")
    yield* second.run({ input: 20 })
    assert.deepStrictEqual((yield* second.state).values, { input: 20, inbox: 21 })
    assert.deepStrictEqual((yield* second.state).next, ["two"])
    yield* second.update({ inbox: 25 }, { as: "one" })
    assert.deepStrictEqual(yield* second.resume(), { output: 26 })
    assert.deepStrictEqual((yield* second.state).next, [])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-075 a static stop two levels down stops the root, which goes on inside", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const my_key = Channel.lastValue(Schema.String)
    const says = (name: string, text: (key: string) => string) => (state: { readonly my_key?: string }) =>
      Effect.as(trace.note(name), { my_key: text(state.my_key ?? "") })
    const grandchild = Graph.make("grandchild", { my_key })
      .addNode(
        "grandchild_1",
        says("grandchild_1", (key) => `${key} here`)
      )
      .addNode(
        "grandchild_2",
        says("grandchild_2", (key) => `${key} and there`)
      )
      .addEdge(START, "grandchild_1")
      .addEdge("grandchild_1", "grandchild_2")
      .compile({ interruptBefore: ["grandchild_2"] })
    const child = Graph.make("child", { my_key }).addGraph("child_1", grandchild).addEdge(START, "child_1").compile()
    const graph = Graph.make("parent", { my_key })
      .addNode(
        "parent_1",
        says("parent_1", (key) => `hi ${key}`)
      )
      .addGraph("child", child)
      .addNode(
        "parent_2",
        says("parent_2", (key) => `${key} and back again`)
      )
      .addEdge(START, "parent_1")
      .addEdge("parent_1", "child")
      .addEdge("child", "parent_2")
      .compile()
    const thread = graph.thread("t")
    const modes = ["values", "tasks"] as const
    const summary = (events: ReadonlyArray<GraphEvent>) => ({
      values: events.flatMap((event) => (event._tag === "Values" && event.namespace.length === 0 ? [event.state] : [])),
      ended: events.flatMap((event) => (event._tag === "TaskEnded" && event.result !== undefined ? [event.node] : []))
    })
    const first = yield* collect(thread.stream({ my_key: "my value" }, { modes, subgraphs: true }))
    assert.deepStrictEqual(summary(first), {
      values: [{ my_key: "my value" }, { my_key: "hi my value" }],
      ended: ["parent_1", "grandchild_1"]
    })
    assert.deepStrictEqual((yield* thread.state).next, ["child"])
    const second = yield* collect(thread.resumeStream(undefined, { modes, subgraphs: true }))
    assert.deepStrictEqual(summary(second), {
      values: [
        { my_key: "hi my value" },
        { my_key: "hi my value here and there" },
        { my_key: "hi my value here and there and back again" }
      ],
      ended: ["grandchild_2", "child_1", "child", "parent_2"]
    })
    assert.deepStrictEqual(trace.entries, ["parent_1", "grandchild_1", "grandchild_2", "parent_2"])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-076 a stop before a hundred sends keeps them all, in order, and the limit of concurrency holds", () =>
  Effect.gen(function* () {
    let running = 0
    let most = 0
    const hundred = Array.from({ length: 100 }, (_, i) => i)
    const graph = Graph.make("sends", { state: Channel.append(Schema.Union(Schema.String, Schema.Number)) })
      .addNode("1", () => Effect.succeed({ state: ["1"] }))
      .addWorker("2", Schema.Number, (n) =>
        Effect.gen(function* () {
          running++
          most = Math.max(most, running)
          yield* Effect.sleep("1 second")
          running--
          return { state: [n] }
        })
      )
      .addNode("3", () => Effect.succeed({ state: ["3"] }))
      .addEdge(START, "1")
      .addConditionalEdges("1", () => hundred.map((n) => Send.make("2", n)), ["2"])
      .addEdge("2", "3")
      .compile({ interruptBefore: ["2"] })
    for (const concurrency of [10, "unbounded"] as const) {
      most = 0
      const thread = graph.thread(String(concurrency))
      assert.deepStrictEqual((yield* thread.run({ state: ["0"] }, { concurrency })).state, { state: ["0", "1"] })
      assert.deepStrictEqual((yield* thread.state).values, { state: ["0", "1"] })
      const fiber = yield* Effect.fork(thread.resume({ concurrency }))
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* Fiber.join(fiber), { state: ["0", "1", ...hundred, "3"] })
      assert.strictEqual(most, concurrency === 10 ? 10 : 100)
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-077 stops may be given per call, unknown names are rejected, no checkpointer means a one-way stop", () =>
  Effect.gen(function* () {
    const graph = sums().compile()
    const thread = graph.thread("t")
    assert.deepStrictEqual((yield* thread.run({ value: 0 }, { interruptBefore: ["b"] })).state, { value: 1 })
    assert.deepStrictEqual((yield* thread.state).next, ["b"])
    assert.deepStrictEqual(told(yield* collect(thread.resumeStream(undefined))), [{ b: { value: 10 } }])

    const stops = sums().compile({ interruptBefore: ["b"] })
    assert.deepStrictEqual((yield* stops.run({ value: 0 })).state, { value: 1 })
    assert.deepStrictEqual(told(yield* collect(stops.stream({ value: 0 }))), [{ a: { value: 1 } }, []])
    const error = yield* failsWith(stops.invoke({ value: 0 }), "GraphInterrupt")
    assert.deepStrictEqual([error.interrupts, error.next], [[], ["b"]])

    for (const options of [{ interruptBefore: ["zzz"] }, { interruptAfter: ["zzz"] }]) {
      assert.throws(() => sums().compile(options as {}), /"zzz"/)
      const unknown = yield* failsWith(thread.run({ value: 0 }, options as {}), "UnknownNode")
      assert.strictEqual(unknown.node, "zzz")
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("an update between a stop and its resume does not stop a second time", () =>
  Effect.gen(function* () {
    const thread = sums()
      .compile({ interruptBefore: ["b"] })
      .thread("t")
    yield* thread.run({ value: 0 })
    yield* thread.update({ value: 100 })
    assert.deepStrictEqual((yield* thread.state).next, ["b"])
    assert.deepStrictEqual(yield* thread.resume(), { value: 111 })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("a resume passes the stop after one node and the stop before the next together", () =>
  Effect.gen(function* () {
    const thread = sums()
      .compile({ interruptAfter: ["a"], interruptBefore: ["b"] })
      .thread("t")
    const first = yield* collect(thread.stream({ value: 0 }, { modes: ["values", "updates"] }))
    assert.deepStrictEqual(told(first).slice(-2), ["Values", []])
    assert.deepStrictEqual(told(yield* collect(thread.resumeStream(undefined))), [{ b: { value: 10 } }])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("a new input on a stopped thread stops again", () =>
  Effect.gen(function* () {
    const thread = sums()
      .compile({ interruptBefore: ["b"] })
      .thread("t")
    yield* thread.run({ value: 0 })
    const again = yield* thread.run({ value: 5 })
    assert.deepStrictEqual([again._tag, again.state], ["Paused", { value: 7 }])
    assert.deepStrictEqual(asked(again), [])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("a stop after the last node of a subgraph stops the parent before what follows", () =>
  Effect.gen(function* () {
    const gate = yield* Deferred.make<void>()
    const child = sums().compile({ interruptAfter: ["b"] })
    const graph = Graph.make("parent", { value: sum })
      .addGraph("child", child, { output: ({ value }) => ({ value }) })
      .addNode("after", () => Effect.as(Deferred.succeed(gate, undefined), { value: 100 }))
      .addEdge(START, "child")
      .addEdge("child", "after")
      .compile()
    const thread = graph.thread("t")
    assert.strictEqual((yield* thread.run({ value: 0 }))._tag, "Paused")
    assert.isFalse(yield* Deferred.isDone(gate))
    assert.deepStrictEqual(yield* thread.resume(), { value: 111 })
  }).pipe(Effect.provide(layerMemory))
)
