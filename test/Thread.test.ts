import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Channel from "../src/Channel.js"
import { Checkpointer, layerMemory } from "../src/Checkpointer.js"
import * as Command from "../src/Command.js"
import * as Graph from "../src/Graph.js"
import * as Interrupt from "../src/Interrupt.js"
import * as Reducers from "../src/Reducers.js"
import * as Send from "../src/Send.js"
import { collect, failsWith, idBefore, log, makeTrace, rowOf, rows, snapshots, sum } from "./support/thread.js"

const START = Graph.START
const END = Graph.END

const ab = () =>
  Graph.make("ab", { value: log })
    .addNode("node_a", () => Effect.succeed({ value: ["a"] }))
    .addNode("node_b", () => Effect.succeed({ value: ["b"] }))
    .addEdge(START, "node_a")
    .addEdge("node_a", "node_b")
    .compile()

const abc = () =>
  Graph.make("abc", { x: log })
    .addSequence([
      ["a", () => Effect.succeed({ x: ["a"] })],
      ["b", () => Effect.succeed({ x: ["b"] })],
      ["c", () => Effect.succeed({ x: ["c"] })]
    ])
    .addEdge(START, "a")
    .compile()

it.effect("per-107 an update counts as the node that ran last", () =>
  Effect.gen(function* () {
    const thread = ab().thread("t")
    yield* thread.invoke({ value: [] })
    const id = yield* thread.update({ value: ["x"] })
    const state = yield* thread.state
    assert.strictEqual(state.checkpoint!.id, id)
    assert.deepStrictEqual(rowOf(state), ["update", 3, [], { value: ["a", "b", "x"] }])
    assert.deepStrictEqual(yield* thread.resume(), { value: ["a", "b", "x"] })
    assert.strictEqual((yield* rows(thread)).length, 5)
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-108 after two nodes of one superstep an update must say which one it is from", () =>
  Effect.gen(function* () {
    const graph = Graph.make("two", { value: log })
      .addNode("p1", () => Effect.succeed({ value: ["1"] }))
      .addNode("p2", () => Effect.succeed({ value: ["2"] }))
      .addEdge(START, "p1")
      .addEdge(START, "p2")
      .compile()
    const thread = graph.thread("t")
    yield* thread.invoke({ value: [] })
    const before = yield* rows(thread)
    const error = yield* failsWith(thread.update({ value: ["x"] }), "AmbiguousUpdate")
    assert.deepStrictEqual(Array.from(error.candidates).sort(), ["p1", "p2"])
    assert.deepStrictEqual(yield* rows(thread), before)
    yield* thread.update({ value: ["x"] }, { as: "p1" })
    assert.deepStrictEqual((yield* thread.state).values, { value: ["1", "2", "x"] })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-110 malformed updates are refused and store nothing; END works on an empty thread", () =>
  Effect.gen(function* () {
    const graph = ab()
    const thread = graph.thread("a")
    const update = { value: ["x"] }
    const unknown = yield* failsWith(thread.update(update, { as: "nope" as "node_a" }), "UnknownNode")
    assert.strictEqual(unknown.node, "nope")
    yield* failsWith(thread.copy, "EmptyInput")
    yield* failsWith(thread.update(null, { as: "__input__" }), "EmptyInput")
    yield* failsWith(thread.updateAll([]), "EmptyInput")
    yield* failsWith(thread.updateAll([[], []]), "EmptyInput")
    yield* failsWith(thread.updateAll([[{ update }, { update }]]), "AmbiguousUpdate")
    yield* failsWith(
      thread.updateAll([
        [
          { update: null, as: END },
          { update, as: "node_a" }
        ]
      ]),
      "InvalidUpdate"
    )
    yield* failsWith(
      thread.updateAll([
        [
          { update, as: "__input__" },
          { update, as: "node_a" }
        ]
      ]),
      "InvalidUpdate"
    )
    // A later superstep's mistake is found before the first one is applied.
    yield* failsWith(thread.updateAll([[{ update, as: "node_a" }], []]), "EmptyInput")
    yield* failsWith(
      thread.updateAll([[{ update, as: "node_a" }], [{ update, as: "nope" as "node_a" }]]),
      "UnknownNode"
    )
    yield* failsWith(thread.update({ value: [1] } as never), "InvalidUpdate")
    yield* failsWith(thread.update(update, { as: END }), "UnknownNode")
    yield* failsWith(thread.at("00000001-0").update(update), "UnknownCheckpoint")
    assert.deepStrictEqual(yield* rows(thread), [])

    const empty = graph.thread("b")
    yield* empty.update(null, { as: END })
    assert.deepStrictEqual(yield* rows(empty), [["update", 0, [], { value: [] }]])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-111 updates of several nodes make one checkpoint a superstep", () =>
  Effect.gen(function* () {
    const text = Channel.lastValue(Schema.String)
    const graph = Graph.make("bulk", { foo: text, baz: text })
      .addNode("node_a", () => Effect.void)
      .addNode("node_b", () => Effect.void)
      .addEdge(START, "node_a")
      .addEdge("node_a", "node_b")
      .compile()
    const first = [{ update: { foo: "bar" }, as: "node_a" as const }]
    const second = [
      { update: { foo: "updated" }, as: "node_a" as const },
      { update: { baz: "new" }, as: "node_b" as const }
    ]
    const apart = graph.thread("apart")
    yield* apart.updateAll([first])
    yield* apart.updateAll([second])
    const together = graph.thread("together")
    const id = yield* together.updateAll([first, second])
    for (const thread of [apart, together]) {
      assert.deepStrictEqual((yield* thread.state).values, { foo: "updated", baz: "new" })
      assert.strictEqual((yield* rows(thread)).length, 2)
    }
    assert.strictEqual((yield* together.state).checkpoint!.id, id)
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-112 bulk updates can rebuild the whole history of runs", () =>
  Effect.gen(function* () {
    const graph = Graph.make("rebuild", { foo: Channel.lastValue(Schema.String) })
      .addNode("agent", () => Effect.succeed({ foo: "agent" }))
      .addNode("tool", () => Effect.succeed({ foo: "tool" }))
      .addEdge(START, "agent")
      .addEdge("agent", "tool")
      .compile()
    const ran = graph.thread("ran")
    yield* ran.invoke({ foo: "input" })
    yield* ran.invoke({ foo: "input" })
    const run = [
      [{ update: { foo: "input" }, as: "__input__" as const }],
      [{ update: { foo: "input" }, as: "__start__" as const }],
      [{ update: { foo: "agent" }, as: "agent" as const }],
      [{ update: { foo: "tool" }, as: "tool" as const }]
    ]
    const rebuilt = graph.thread("rebuilt")
    yield* rebuilt.updateAll([...run, ...run])
    const shown = (all: ReadonlyArray<{ tasks: ReadonlyArray<{ node: string; result: unknown }> }>) =>
      all.map(({ tasks }) => tasks.map(({ node, result }) => [node, result]))
    const ranRows = yield* snapshots(ran)
    const rebuiltRows = yield* snapshots(rebuilt)
    assert.deepStrictEqual(
      rebuiltRows.map((row) => rowOf(row).slice(1)),
      ranRows.map((row) => rowOf(row).slice(1))
    )
    assert.deepStrictEqual(
      rebuiltRows.map((row) => rowOf(row).slice(0, 3)),
      [
        ["update", 6, []],
        ["update", 5, ["tool"]],
        ["update", 4, ["agent"]],
        ["input", 3, ["__start__"]],
        ["update", 2, []],
        ["update", 1, ["tool"]],
        ["update", 0, ["agent"]],
        ["input", -1, ["__start__"]]
      ]
    )
    assert.deepStrictEqual(shown(rebuiltRows), shown(ranRows))
    const exit = graph.thread("exit")
    yield* exit.invoke({ foo: "input" }, { durability: "exit" })
    yield* exit.invoke({ foo: "input" }, { durability: "exit" })
    assert.deepStrictEqual(
      (yield* rows(exit)).map(([, step]) => step),
      [6, 2]
    )
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-113 bulk updates can replay sends", () =>
  Effect.gen(function* () {
    const graph = Graph.make("sends", {
      foo: Channel.lastValue(Schema.String),
      tasks: Channel.append(Schema.Number)
    })
      .addNode("agent", () => Effect.void)
      .addNode(
        "map",
        () =>
          Effect.succeed(
            Command.make({ update: { foo: "map" }, goto: [0, 1, 2].map((index) => Send.make("task", { index })) })
          ),
        { goto: ["task"] }
      )
      .addWorker("task", Schema.Struct({ index: Schema.Number }), ({ index }) => Effect.succeed({ tasks: [index] }))
      .addEdge(START, "agent")
      .addEdge("agent", "map")
      .compile()
    const ran = graph.thread("ran")
    const expected = yield* ran.invoke({ foo: "input" })
    assert.deepStrictEqual(expected, { foo: "map", tasks: [0, 1, 2] })
    const rebuilt = graph.thread("rebuilt")
    yield* rebuilt.updateAll([
      [{ update: { foo: "input" }, as: "__input__" }],
      [{ update: { foo: "input" }, as: START }],
      [{ update: null, as: "agent" }],
      [
        {
          update: Command.make({
            update: { foo: "map" },
            goto: [0, 1, 2].map((index) => Send.make("task", { index }))
          }),
          as: "map"
        }
      ],
      [0, 1, 2].map((index) => ({ update: { tasks: [index] }, as: "task" as const }))
    ])
    assert.deepStrictEqual((yield* rebuilt.state).values, expected)
    const seen = (yield* rows(rebuilt)).map((row) => row.slice(1))
    assert.deepStrictEqual(
      seen,
      (yield* rows(ran)).map((row) => row.slice(1))
    )
    assert.deepStrictEqual(
      seen.map(([step, next]) => [step, next]),
      [
        [3, []],
        [2, ["task", "task", "task"]],
        [1, ["map"]],
        [0, ["agent"]],
        [-1, ["__start__"]]
      ]
    )
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-115 messages are replaced by id, and removable", () =>
  Effect.gen(function* () {
    const Message = Schema.Struct({ id: Schema.String, text: Schema.String })
    const graph = Graph.make("chat", {
      messages: Reducers.byId(Message, { id: (message) => message.id, withId: (message, id) => ({ ...message, id }) })
    })
      .addNode("chatbot", () => Effect.succeed({ messages: [{ id: "2", text: "Hello!" }] }))
      .addNode("tools", () => Effect.void)
      .addEdge(START, "chatbot")
      .addEdge("chatbot", "tools")
      .compile()
    const thread = graph.thread("t")
    yield* thread.run({ messages: [{ id: "1", text: "Hi" }] }, { interruptBefore: ["tools"] })
    yield* thread.update({ messages: [{ id: "2", text: "edited" }] })
    assert.deepStrictEqual((yield* thread.state).values.messages, [
      { id: "1", text: "Hi" },
      { id: "2", text: "edited" }
    ])
    assert.deepStrictEqual((yield* thread.state).next, ["tools"])
    yield* thread.update({ messages: [Reducers.remove("2")] })
    assert.deepStrictEqual((yield* thread.state).values.messages, [{ id: "1", text: "Hi" }])
    yield* thread.delete
    assert.isUndefined((yield* thread.state).checkpoint)
    assert.deepStrictEqual(yield* rows(thread), [])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("what an update makes of an empty, a paused and an unstarted thread", () =>
  Effect.gen(function* () {
    const graph = abc()
    const last = (id: string) => Effect.map(rows(graph.thread(id)), (all) => all[0])
    yield* graph.thread("empty").update({ x: ["u"] })
    assert.deepStrictEqual(yield* last("empty"), ["update", 0, ["a"], { x: ["u"] }])
    yield* graph.thread("as b").update({ x: ["u"] }, { as: "b" })
    assert.deepStrictEqual(yield* last("as b"), ["update", 0, ["c"], { x: ["u"] }])
    yield* graph.thread("input").update({ x: ["inp"] }, { as: "__input__" })
    assert.deepStrictEqual(yield* last("input"), ["input", -1, ["__start__"], { x: [] }])
    assert.deepStrictEqual(yield* graph.thread("input").resume(), { x: ["inp", "a", "b", "c"] })

    const paused = (id: string) =>
      Effect.as(graph.thread(id).run({ x: ["i"] }, { interruptBefore: ["b"] }), graph.thread(id))
    yield* (yield* paused("p1")).update({ x: ["u"] })
    assert.deepStrictEqual(yield* last("p1"), ["update", 2, ["b"], { x: ["i", "a", "u"] }])
    const p2 = yield* paused("p2")
    yield* p2.update({ x: ["u"] }, { as: "b" })
    assert.deepStrictEqual(yield* last("p2"), ["update", 2, ["c"], { x: ["i", "a", "u"] }])
    // The history shows the update as what the node did.
    assert.deepStrictEqual((yield* snapshots(p2))[1]!.tasks[0]!.result, { x: ["u"] })
    yield* (yield* paused("p3")).update(null, { as: END })
    assert.deepStrictEqual(yield* last("p3"), ["update", 2, [], { x: ["i", "a"] }])
    const p4 = yield* paused("p4")
    yield* p4.copy
    assert.deepStrictEqual(yield* last("p4"), ["fork", 2, ["b"], { x: ["i", "a"] }])
    assert.strictEqual((yield* snapshots(p4))[0]!.checkpoint!.parent!.id, yield* idBefore(p4, "a"))
    const p5 = yield* paused("p5")
    yield* p5.update({ x: ["inp2"] }, { as: "__input__" })
    assert.deepStrictEqual((yield* p5.state).next.slice().sort(), ["__start__", "b"])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("END applies what had finished of an unfinished superstep", () =>
  Effect.gen(function* () {
    const graph = Graph.make("half", { value: sum })
      .addNode("done", () => Effect.succeed({ value: 1 }))
      .addNode("asks", () => Effect.map(Interrupt.interrupt<number>("q"), (value) => ({ value })))
      .addEdge(START, "done")
      .addEdge(START, "asks")
      .compile()
    const thread = graph.thread("t")
    yield* thread.run({ value: 10 })
    yield* thread.update(null, { as: END })
    const state = yield* thread.state
    assert.deepStrictEqual([state.values, state.next, state.interrupts], [{ value: 11 }, [], []])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("an update as a node behind a join counts as its run, and the join starts again", () =>
  Effect.gen(function* () {
    const graph = Graph.make("join", { x: log })
      .addNode("a", () => Effect.succeed({ x: ["a"] }))
      .addNode("b", () => Effect.succeed({ x: ["b"] }))
      .addNode("joined", () => Effect.succeed({ x: ["joined"] }))
      .addNode("end", () => Effect.succeed({ x: ["end"] }))
      .addEdge(START, "a")
      .addEdge(START, "b")
      .addEdge(["a", "b"], "joined")
      .addEdge("joined", "end")
      .compile({ interruptBefore: ["joined"] })
    const thread = graph.thread("t")
    yield* thread.run({ x: [] })
    assert.deepStrictEqual((yield* thread.state).next, ["joined"])
    yield* thread.update({ x: ["instead"] }, { as: "joined" })
    assert.deepStrictEqual((yield* thread.state).next, ["end"])
    assert.deepStrictEqual(yield* thread.resume(), { x: ["a", "b", "instead", "end"] })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-120 history takes a filter, a limit and a cursor; a handle at an id shows that checkpoint", () =>
  Effect.gen(function* () {
    const graph = Graph.make("one", { x: log })
      .addNode("node", () => Effect.succeed({ x: ["n"] }))
      .addEdge(START, "node")
      .compile()
    const thread = graph.thread("t")
    yield* thread.invoke({ x: [] })
    yield* thread.update({ x: ["u"] })
    const steps = (options: Parameters<typeof thread.history>[0]) =>
      Effect.map(collect(thread.history(options)), (all) => all.map(({ checkpoint }) => checkpoint!.step))
    assert.deepStrictEqual(yield* steps({}), [2, 1, 0, -1])
    assert.deepStrictEqual(yield* steps({ filter: { source: "loop" } }), [1, 0])
    assert.deepStrictEqual(yield* steps({ limit: 2 }), [2, 1])
    const second = (yield* snapshots(thread))[1]!.checkpoint!.id
    assert.deepStrictEqual(yield* steps({ before: second }), [0, -1])
    const at = yield* thread.at(second).state
    assert.deepStrictEqual(rowOf(at), ["loop", 1, [], { x: ["n"] }])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-121 an unknown thread has an empty state and no history", () =>
  Effect.gen(function* () {
    const graph = Graph.make("any", { x: log, y: Channel.lastValue(Schema.String) })
      .addNode("node", () => Effect.void)
      .addEdge(START, "node")
      .compile()
    const thread = graph.thread("nobody")
    const state = yield* thread.state
    // Channels with an initial value have it, others are absent.
    assert.deepStrictEqual(state, {
      values: { x: [] },
      next: [],
      tasks: [],
      interrupts: [],
      checkpoint: undefined,
      metadata: {}
    })
    assert.deepStrictEqual(yield* rows(thread), [])
    yield* failsWith(thread.at("00000001-0").state, "UnknownCheckpoint")
    // @ts-expect-error a thread needs a checkpointer
    // @effect-diagnostics-next-line missingEffectContext:off
    const needs: Effect.Effect<unknown, unknown, never> = thread.state
    assert.isTrue(Effect.isEffect(needs))
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-122 a run's metadata is kept with each of its checkpoints", () =>
  Effect.gen(function* () {
    const graph = Graph.make("any", { x: log })
      .addNode("asks", () => Effect.map(Interrupt.interrupt<string>("q"), (answer) => ({ x: [answer] })))
      .addEdge(START, "asks")
      .compile()
    const metadata = { test_config_1: "foo", test_config_2: "bar", user: "u", nested: { kept: ["as", "it", "is"] } }
    const thread = graph.thread("t")
    yield* thread.run({ x: [] }, { metadata, runId: "r1" })
    const expected = { ...metadata, run_id: "r1" }
    assert.deepStrictEqual(
      (yield* snapshots(thread)).map((row) => row.metadata),
      [expected, expected]
    )
    yield* thread.answer("a", { metadata: { user: "v" } })
    assert.deepStrictEqual(
      (yield* snapshots(thread)).map((row) => row.metadata),
      [{ user: "v" }, expected, expected]
    )
    assert.deepStrictEqual(
      (yield* collect(thread.history({ filter: { user: "u", run_id: "r1" } }))).map(
        ({ checkpoint }) => checkpoint!.step
      ),
      [0, -1]
    )
    const saver = yield* Checkpointer
    const infos = yield* collect(saver.threads())
    assert.deepStrictEqual(
      infos.map((info) => [info.thread, info.status]),
      [["t", "idle"]]
    )
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-123 history shows what each task wrote", () =>
  Effect.gen(function* () {
    const graph = Graph.make("results", {
      foo: Channel.reduce(Schema.String, {
        initial: () => "",
        reducer: (a, b) => [a, b].filter((part) => part !== "").join(", ")
      })
    })
      .addNode("one", () =>
        Effect.succeed([Command.make({ update: { foo: "one.0" } }), Command.make({ update: { foo: "one.1" } })])
      )
      .addNode("two", () => Effect.succeed({ foo: "two" }))
      .addEdge(START, "one")
      .addEdge("one", "two")
      .compile()
    const thread = graph.thread("t")
    const events = yield* collect(thread.stream({ foo: "input" }, { modes: ["updates", "tasks"] }))
    assert.deepStrictEqual(
      events.flatMap((event) => (event._tag === "TaskEnded" && event.node === "one" ? [event.result] : [])),
      [{ foo: { $writes: ["one.0", "one.1"] } }]
    )
    assert.deepStrictEqual(
      events.flatMap((event) => (event._tag === "Updates" && event.node === "one" ? [event.update] : [])) as unknown,
      [[{ foo: "one.0" }, { foo: "one.1" }]]
    )
    assert.deepStrictEqual(
      (yield* snapshots(thread)).map(({ tasks, values }) => [
        values.foo,
        tasks.map(({ node, result }) => [node, result])
      ]),
      [
        ["input, one.0, one.1, two", []],
        ["input, one.0, one.1", [["two", { foo: "two" }]]],
        ["input", [["one", { foo: { $writes: ["one.0", "one.1"] } }]]],
        ["", [["__start__", { foo: "input" }]]]
      ]
    )
  }).pipe(Effect.provide(layerMemory))
)

it.effect("readers can't change each other's or the thread's values", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const graph = Graph.make("values", { list: Channel.lastValue(Schema.mutable(Schema.Array(Schema.String))) })
      .addNode("node", (state) => Effect.as(trace.note(String(state.list)), {}))
      .addEdge(START, "node")
      .compile()
    const thread = graph.thread("t")
    const input = ["a"]
    yield* thread.invoke({ list: input })
    input.push("changed by the caller")
    const state = yield* thread.state
    try {
      state.values.list!.push("changed by a reader")
    } catch {
      // Frozen is as good.
    }
    assert.deepStrictEqual((yield* thread.state).values, { list: ["a"] })
  }).pipe(Effect.provide(layerMemory))
)
