import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Channel from "../src/Channel.js"
import { layerMemory } from "../src/Checkpointer.js"
import * as Command from "../src/Command.js"
import * as Graph from "../src/Graph.js"
import type { GraphEvent } from "../src/GraphEvent.js"
import * as Interrupt from "../src/Interrupt.js"
import { before, collect, failsWith, idBefore, log, makeTrace, rowOf, rows, snapshots, sum } from "./support/thread.js"

const START = Graph.START

const ab = (trace = makeTrace()) =>
  Graph.make("ab", { value: log })
    .addNode("node_a", () => Effect.as(trace.note("node_a"), { value: ["a"] }))
    .addNode("node_b", () => Effect.as(trace.note("node_b"), { value: ["b"] }))
    .addEdge(START, "node_a")
    .addEdge("node_a", "node_b")
    .compile()

/** node_b tells how often it ran. */
const counting = () => {
  let runs = 0
  return Graph.make("abc", { value: log })
    .addNode("node_a", () => Effect.succeed({ value: ["a"] }))
    .addNode("node_b", () => Effect.sync(() => ({ value: [`b${++runs}`] })))
    .addNode("node_c", () => Effect.succeed({ value: ["c"] }))
    .addEdge(START, "node_a")
    .addEdge("node_a", "node_b")
    .addEdge("node_b", "node_c")
    .compile()
}

const askHuman = (trace = makeTrace()) =>
  Graph.make("ask", { value: log })
    .addNode("node_a", () => Effect.as(trace.note("node_a"), { value: ["a"] }))
    .addNode("ask_human", () =>
      Effect.zipRight(
        trace.note("ask_human"),
        Effect.map(Interrupt.interrupt<string>("What is your input?"), (answer) => ({ value: [`human:${answer}`] }))
      )
    )
    .addNode("node_b", () => Effect.as(trace.note("node_b"), { value: ["b"] }))
    .addEdge(START, "node_a")
    .addEdge("node_a", "ask_human")
    .addEdge("ask_human", "node_b")
    .compile()

const updatesOf = (events: ReadonlyArray<GraphEvent>) =>
  events.flatMap((event) => (event._tag === "Updates" ? [{ [event.node]: event.update }] : []))

it.effect("per-078 replaying a checkpoint of the middle runs what follows it again, on a branch", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const thread = ab(trace).thread("a")
    yield* thread.invoke({ value: [] })
    trace.take()
    const id = yield* idBefore(thread, "node_b")
    const old = yield* snapshots(thread)
    assert.deepStrictEqual(yield* thread.at(id).resume(), { value: ["a", "b"] })
    assert.deepStrictEqual(trace.entries, ["node_b"])
    const all = yield* snapshots(thread)
    assert.deepStrictEqual(
      all.map((row) => rowOf(row).slice(0, 3)),
      [
        ["loop", 3, []],
        ["fork", 2, ["node_b"]],
        ["loop", 2, []],
        ["loop", 1, ["node_b"]],
        ["loop", 0, ["node_a"]],
        ["input", -1, ["__start__"]]
      ]
    )
    assert.strictEqual(all[1]!.checkpoint!.parent!.id, id)
    assert.deepStrictEqual(all.slice(2), old)

    const other = counting().thread("b")
    assert.deepStrictEqual(yield* other.invoke({ value: [] }), { value: ["a", "b1", "c"] })
    const ids = (yield* snapshots(other)).map(({ checkpoint }) => checkpoint!.id)
    assert.deepStrictEqual(yield* other.at(yield* idBefore(other, "node_b")).resume(), { value: ["a", "b2", "c"] })
    const history = yield* snapshots(other)
    assert.deepStrictEqual(
      history.map(({ next, values }) => [values.value, next]),
      [
        [["a", "b2", "c"], []],
        [["a", "b2"], ["node_c"]],
        [["a"], ["node_b"]],
        [["a", "b1", "c"], []],
        [["a", "b1"], ["node_c"]],
        [["a"], ["node_b"]],
        [[], ["node_a"]],
        [[], ["__start__"]]
      ]
    )
    assert.deepStrictEqual(
      history.slice(3).map(({ checkpoint }) => checkpoint!.id),
      ids
    )
    assert.deepStrictEqual((yield* other.state).values, { value: ["a", "b2", "c"] })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-080 replaying past an answered pause asks again, every time under another id", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const thread = askHuman(trace).thread("t")
    const asked = new Set<string>()
    yield* thread.run({ value: [] })
    asked.add((yield* thread.state).interrupts[0]!.id)
    yield* thread.answer("hello")
    const id = yield* idBefore(thread, "ask_human")
    for (let i = 1; i <= 3; i++) {
      const pause = yield* failsWith(thread.at(id).resume(), "GraphInterrupt")
      assert.deepStrictEqual(
        pause.interrupts.map(({ value }) => value),
        ["What is your input?"]
      )
      asked.add(pause.interrupts[0]!.id)
      const state = yield* thread.state
      assert.deepStrictEqual(rowOf(state), ["fork", 2, ["ask_human"], { value: ["a"] }])
      assert.strictEqual(state.checkpoint!.parent!.id, id)
      assert.strictEqual((yield* rows(thread)).length, 5 + i)
      if (i === 1) {
        assert.deepStrictEqual(["node_a", "ask_human", "node_b"].map(trace.count), [1, 3, 1])
      }
    }
    assert.strictEqual(asked.size, 4)
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-081 replaying and answering differently leaves two complete branches", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const thread = askHuman(trace).thread("t")
    yield* thread.run({ value: [] })
    yield* thread.answer("old_answer")
    yield* failsWith(thread.at(yield* idBefore(thread, "ask_human")).resume(), "GraphInterrupt")
    assert.deepStrictEqual(
      (yield* rows(thread)).map(([source, , next]) => [source, next]),
      [
        ["fork", ["ask_human"]],
        ["loop", []],
        ["loop", ["node_b"]],
        ["loop", ["ask_human"]],
        ["loop", ["node_a"]],
        ["input", ["__start__"]]
      ]
    )
    assert.deepStrictEqual(yield* thread.answer("new_answer"), { value: ["a", "human:new_answer", "b"] })
    assert.deepStrictEqual(
      (yield* rows(thread)).map(([source, , next, values]) => [source, next, values]),
      [
        ["loop", [], { value: ["a", "human:new_answer", "b"] }],
        ["loop", ["node_b"], { value: ["a", "human:new_answer"] }],
        ["fork", ["ask_human"], { value: ["a"] }],
        ["loop", [], { value: ["a", "human:old_answer", "b"] }],
        ["loop", ["node_b"], { value: ["a", "human:old_answer"] }],
        ["loop", ["ask_human"], { value: ["a"] }],
        ["loop", ["node_a"], { value: [] }],
        ["input", ["__start__"], { value: [] }]
      ]
    )
    assert.strictEqual(trace.count("node_a"), 1)
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-082 replaying from each point leaves the earlier rows as they were", () =>
  Effect.gen(function* () {
    const graph = Graph.make("root", { n: sum })
      .addNode("add_one", () => Effect.succeed({ n: 1 }))
      .addEdge(START, "add_one")
      .addConditionalEdges("add_one", ({ n }) => (n < 6 ? "add_one" : Graph.END), ["add_one", Graph.END])
      .compile()
    const thread = graph.thread("a")
    const events = yield* collect(thread.stream({ n: 1 }, { modes: ["values", "updates"] }))
    assert.deepStrictEqual(
      events.map((event) => (event._tag === "Values" ? event.state.n : updatesOf([event])[0])),
      [1, ...[2, 3, 4, 5, 6].flatMap((n) => [{ add_one: { n: 1 } }, n])]
    )
    const history = yield* snapshots(thread)
    assert.deepStrictEqual(
      history.map(({ checkpoint, values }) => [checkpoint!.step, checkpoint!.source, values.n]),
      [
        [5, "loop", 6],
        [4, "loop", 5],
        [3, "loop", 4],
        [2, "loop", 3],
        [1, "loop", 2],
        [0, "loop", 1],
        [-1, "input", 0]
      ]
    )
    assert.deepStrictEqual(
      history.slice(1).map(({ tasks }) => tasks.map(({ result }) => result)),
      [[{ n: 1 }], [{ n: 1 }], [{ n: 1 }], [{ n: 1 }], [{ n: 1 }], [{ n: 1 }]]
    )
    assert.deepStrictEqual([history[6]!.next, history[6]!.tasks[0]!.result], [["__start__"], { n: 1 }])
    for (let i = 0; i < 3; i++) {
      const replayed = yield* collect(thread.at(history[i]!.checkpoint!.id).resumeStream(undefined))
      assert.deepStrictEqual(
        updatesOf(replayed),
        Array.from({ length: i }, () => ({ add_one: { n: 1 } }))
      )
    }
    assert.deepStrictEqual((yield* snapshots(thread)).slice(-7), history)

    let calls = 0
    const alternating = Graph.make("alternating", { myval: sum, otherval: Channel.lastValue(Schema.Boolean) })
      .addNode("node", () =>
        Effect.sync(() => {
          calls++
          return { myval: calls % 2 === 1 ? 2 : 1, otherval: calls % 2 === 1 }
        })
      )
      .addEdge(START, "node")
      .addConditionalEdges("node", ({ myval }) => (myval > 3 ? Graph.END : "node"), ["node", Graph.END])
      .compile()
      .thread("b")
    assert.deepStrictEqual(yield* alternating.invoke({ myval: 1 }), { myval: 4, otherval: false })
    const four = yield* snapshots(alternating)
    assert.deepStrictEqual(
      four.map(({ values }) => values),
      [{ myval: 4, otherval: false }, { myval: 3, otherval: true }, { myval: 1 }, { myval: 0 }]
    )
    assert.deepStrictEqual(yield* alternating.at(four[1]!.checkpoint!.id).resume(), { myval: 5, otherval: true })
    const six = yield* snapshots(alternating)
    assert.deepStrictEqual([six.length, six[1]!.checkpoint!.source], [6, "fork"])
    assert.deepStrictEqual(six.slice(2), four)
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-083 a new input at an old checkpoint starts a branch from it", () =>
  Effect.gen(function* () {
    const thread = ab().thread("t")
    yield* thread.invoke({ value: [] })
    const id = yield* idBefore(thread, "node_b")
    const old = yield* snapshots(thread)
    assert.deepStrictEqual(yield* thread.at(id).invoke({ value: ["new"] }), { value: ["a", "new", "a", "b"] })
    const all = yield* snapshots(thread)
    assert.deepStrictEqual(all.map((row) => rowOf(row).slice(0, 3)).slice(0, 4), [
      ["loop", 5, []],
      ["loop", 4, ["node_b"]],
      ["loop", 3, ["node_a"]],
      ["input", 2, ["__start__"]]
    ])
    assert.strictEqual(all[3]!.checkpoint!.parent!.id, id)
    assert.deepStrictEqual(all.slice(4), old)
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-085 naming the head's id goes on in place: finished siblings are not run again", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    let fixed = false
    const graph = Graph.make("siblings", { value: sum })
      .addNode("one", () => Effect.as(trace.note("one"), { value: 2 }))
      .addNode("two", () =>
        Effect.zipRight(trace.note("two"), fixed ? Effect.succeed({ value: 3 }) : Effect.fail("two failed" as const))
      )
      .addEdge(START, "one")
      .addEdge(START, "two")
      .compile()
    const thread = graph.thread("t")
    yield* Effect.flip(thread.invoke({ value: 1 }))
    fixed = true
    const { checkpoint } = yield* thread.state
    assert.deepStrictEqual(yield* thread.at(checkpoint!.id).resume(), { value: 6 })
    assert.deepStrictEqual([trace.count("one"), trace.count("two")], [1, 2])
    // From then on it is an old checkpoint: going there again runs both anew.
    assert.deepStrictEqual(yield* thread.at(checkpoint!.id).resume(), { value: 6 })
    assert.deepStrictEqual([trace.count("one"), trace.count("two")], [2, 3])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-096 editing an old checkpoint and running from it", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const thread = ab(trace).thread("t")
    yield* thread.invoke({ value: [] })
    trace.take()
    const id = yield* idBefore(thread, "node_b")
    const edited = yield* thread.at(id).update({ value: ["x"] })
    assert.deepStrictEqual(yield* thread.at(edited).resume(), { value: ["a", "x", "b"] })
    assert.deepStrictEqual(trace.entries, ["node_b"])
    const all = yield* snapshots(thread)
    assert.deepStrictEqual(all.slice(0, 2).map(rowOf), [
      ["loop", 3, [], { value: ["a", "x", "b"] }],
      ["update", 2, ["node_b"], { value: ["a", "x"] }]
    ])
    assert.strictEqual(all[1]!.checkpoint!.parent!.id, id)
    assert.strictEqual(all.length, 6)

    const other = counting().thread("b")
    yield* other.invoke({ value: [] })
    const copy = yield* other.at(yield* idBefore(other, "node_b")).update({ value: ["x"] })
    assert.deepStrictEqual(yield* other.at(copy).resume(), { value: ["a", "x", "b2", "c"] })
    assert.strictEqual((yield* rows(other)).length, 8)
    assert.deepStrictEqual((yield* other.state).values, { value: ["a", "x", "b2", "c"] })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-097 two forks of one checkpoint are independent siblings", () =>
  Effect.gen(function* () {
    const thread = ab().thread("t")
    yield* thread.invoke({ value: [] })
    const id = yield* idBefore(thread, "node_b")
    const first = yield* thread.at(id).update({ value: ["fork1"] })
    assert.deepStrictEqual(yield* thread.at(first).resume(), { value: ["a", "fork1", "b"] })
    const second = yield* thread.at(id).update({ value: ["fork2"] })
    assert.deepStrictEqual(yield* thread.at(second).resume(), { value: ["a", "fork2", "b"] })
    const forks = (yield* snapshots(thread)).filter(({ checkpoint }) => checkpoint!.source === "update")
    assert.deepStrictEqual(
      forks.map(({ checkpoint }) => [checkpoint!.id, checkpoint!.step, checkpoint!.parent!.id]),
      [
        [second, 2, id],
        [first, 2, id]
      ]
    )
    const state = yield* thread.at(first).state
    assert.deepStrictEqual([state.values, state.next], [{ value: ["a", "fork1"] }, ["node_b"]])
    assert.deepStrictEqual(
      state.tasks.map(({ result }) => result),
      [{ value: ["b"] }]
    )
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-098 a fork has no memory of old answers", () =>
  Effect.gen(function* () {
    const thread = askHuman().thread("t")
    yield* thread.run({ value: [] })
    yield* thread.answer("hello")
    const id = yield* idBefore(thread, "ask_human")
    const edited = yield* thread.at(id).update({ value: ["forked"] })
    yield* failsWith(thread.at(edited).resume(), "GraphInterrupt")
    assert.deepStrictEqual(yield* thread.at(edited).answer("world"), { value: ["a", "forked", "human:world", "b"] })
    // The same where the forked row itself has the unanswered question.
    const other = askHuman().thread("u")
    yield* other.run({ value: [] })
    const fork = yield* other.at(yield* idBefore(other, "ask_human")).update({ value: ["forked"] })
    yield* failsWith(other.at(fork).resume(), "GraphInterrupt")
    assert.deepStrictEqual(yield* other.answer("different"), { value: ["a", "forked", "human:different", "b"] })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("answering an old checkpoint's question makes a branch with that answer", () =>
  Effect.gen(function* () {
    const thread = askHuman().thread("t")
    yield* thread.run({ value: [] })
    const { id } = (yield* thread.state).interrupts[0]!
    yield* thread.answer("hello")
    const old = yield* before(thread, "ask_human")
    // The question was answered there: only a replay asks it again.
    yield* failsWith(
      thread.at(old.checkpoint!.id).resume({ [id as `${string}:${string}`]: "again" }),
      "UnknownInterrupt"
    )
    // An abandoned question was not.
    const other = askHuman().thread("u")
    yield* other.run({ value: [] })
    const abandoned = yield* before(other, "ask_human")
    yield* other.run({ value: ["x"] })
    assert.deepStrictEqual(yield* other.at(abandoned.checkpoint!.id).answer("late"), {
      value: ["a", "human:late", "b"]
    })
    const all = yield* snapshots(other)
    assert.deepStrictEqual(
      all.slice(0, 3).map((row) => rowOf(row).slice(0, 3)),
      [
        ["loop", 4, []],
        ["loop", 3, ["node_b"]],
        ["fork", 2, ["ask_human"]]
      ]
    )
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-100 forking as the node that was about to run skips it", () =>
  Effect.gen(function* () {
    const graph = Graph.make("sums", { value: sum })
      .addNode("node_a", () => Effect.succeed({ value: 10 }))
      .addNode("node_b", () => Effect.succeed({ value: 100 }))
      .addEdge(START, "node_a")
      .addEdge("node_a", "node_b")
      .compile()
    const thread = graph.thread("t")
    assert.deepStrictEqual(yield* thread.invoke({ value: 1 }), { value: 111 })
    const edited = yield* thread.at(yield* idBefore(thread, "node_a")).update({ value: 20 }, { as: "node_a" })
    assert.deepStrictEqual(yield* thread.at(edited).resume(), { value: 121 })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-103 copying a checkpoint makes a sibling of it, which asks again", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const thread = ab(trace).thread("a")
    yield* thread.invoke({ value: [] })
    const original = yield* before(thread, "node_b")
    trace.take()
    const id = yield* thread.at(original.checkpoint!.id).copy
    const copy = yield* thread.at(id).state
    assert.deepStrictEqual(rowOf(copy), ["fork", 2, ["node_b"], { value: ["a"] }])
    assert.deepStrictEqual(copy.checkpoint!.parent, original.checkpoint!.parent)
    assert.deepStrictEqual(
      copy.tasks.map(({ result }) => result),
      [undefined]
    )
    assert.deepStrictEqual(yield* thread.at(id).resume(), { value: ["a", "b"] })
    assert.deepStrictEqual(trace.entries, ["node_b"])
    // The first checkpoint of a thread has no parent, and neither has its copy.
    const first = (yield* snapshots(thread)).at(-1)!
    const again = yield* thread.at(first.checkpoint!.id).copy
    const copied = yield* thread.at(again).state
    assert.deepStrictEqual([copied.checkpoint!.parent, copied.next], [undefined, ["__start__"]])
    assert.deepStrictEqual(yield* thread.at(again).resume(), { value: ["a", "b"] })

    const asks = askHuman().thread("b")
    yield* asks.run({ value: [] })
    yield* asks.answer("hello")
    const twin = yield* asks.at(yield* idBefore(asks, "ask_human")).copy
    yield* failsWith(asks.at(twin).resume(), "GraphInterrupt")
    assert.deepStrictEqual(yield* asks.at(twin).answer("new_answer"), { value: ["a", "human:new_answer", "b"] })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-105 an update with nothing still makes a new checkpoint", () =>
  Effect.gen(function* () {
    const thread = askHuman().thread("a")
    yield* thread.run({ value: [] })
    yield* thread.answer("hello")
    const id = yield* thread.at(yield* idBefore(thread, "ask_human")).update(null)
    const state = yield* thread.at(id).state
    assert.deepStrictEqual([state.checkpoint!.source, state.next], ["update", ["ask_human"]])
    yield* failsWith(thread.at(id).resume(), "GraphInterrupt")
    const plain = ab().thread("b")
    yield* plain.invoke({ value: [] })
    yield* plain.update(null)
    assert.deepStrictEqual((yield* rows(plain))[0], ["update", 3, [], { value: ["a", "b"] }])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-106 checkpoints told by a stream after a fork are those of the history", () =>
  Effect.gen(function* () {
    const graph = Graph.make("chat", { messages: log })
      .addNode("one", () => Effect.succeed({ messages: ["one"] }))
      .addNode("two", () => Effect.succeed({ messages: ["two"] }))
      .addEdge(START, "one")
      .addEdge("one", "two")
      .compile()
    const thread = graph.thread("t")
    yield* thread.invoke({ messages: ["in"] })
    const parent = (yield* before(thread, "two")).checkpoint!.parent!.id
    const edited = yield* thread.at(parent).update(null)
    const events = yield* collect(thread.at(edited).resumeStream(undefined, { modes: ["debug"], durability: "async" }))
    const told = events.flatMap((event) => (event._tag === "Checkpointed" ? [event.checkpoint] : []))
    assert.isAtLeast(told.length, 2)
    const history = new Map((yield* snapshots(thread)).map((row) => [row.checkpoint!.id, row.checkpoint!]))
    for (const { id, parent } of told) {
      assert.notStrictEqual(id, parent?.id)
      assert.strictEqual(history.get(id)!.id, id)
      assert.deepStrictEqual(parent, history.get(id)!.parent)
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("two branches never share what they append or reduce, in whatever order they are written and read", () =>
  Effect.gen(function* () {
    const graph = Graph.make("branches", { items: log, total: sum })
      .addNode("work", ({ total }) => Effect.succeed({ items: [`at ${total}`], total: 1 }))
      .addEdge(START, "work")
      .addConditionalEdges("work", ({ total }) => (total % 5 === 0 ? Graph.END : "work"), ["work", Graph.END])
      .compile()
    const thread = graph.thread("t")
    yield* thread.invoke({ items: ["start"] })
    const all = yield* snapshots(thread)
    const ids = all.slice(0, -1).map(({ checkpoint }) => checkpoint!.id)
    const tips = new Map<string, unknown>()
    for (const id of ids) {
      const fork = yield* thread.at(id).update({ items: [`fork of ${id}`] }, { as: "work" })
      tips.set(fork, (yield* thread.at(fork).state).values)
    }
    for (const [fork, values] of tips) {
      yield* Effect.either(thread.at(fork).resume())
      assert.deepStrictEqual((yield* thread.at(fork).state).values, values)
    }
    assert.deepStrictEqual((yield* snapshots(thread)).slice(-all.length), all)
  }).pipe(Effect.provide(layerMemory))
)

it.effect("a command on an old checkpoint branches from it as well", () =>
  Effect.gen(function* () {
    const thread = ab().thread("t")
    yield* thread.invoke({ value: [] })
    const id = yield* idBefore(thread, "node_a")
    assert.deepStrictEqual(yield* thread.at(id).invoke(Command.make({ update: { value: ["c"] }, goto: "node_b" })), {
      value: ["c", "a", "b", "b"]
    })
    assert.strictEqual((yield* thread.state).checkpoint!.step, 3)
  }).pipe(Effect.provide(layerMemory))
)
