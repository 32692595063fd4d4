import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Channel, Checkpointer, Command, Graph, Send } from "effect-pregel"
import { word } from "./support/graphs.js"
import { failsWith } from "./support/thread.js"

/** A graph of one node that returns this, run without and with a thread. */
const returning = (channels: Channel.Fields, result: unknown) => {
  const graph = Graph.make("g", channels)
    .addNode("foo", () => Effect.succeed(result as {}))
    .addEdge(Graph.START, "foo")
    .compile()
  return { graph, thread: graph.thread("t") }
}

const refusals = (channels: Channel.Fields, result: unknown, input: Record<string, unknown> = {}) =>
  Effect.gen(function* () {
    const { graph, thread } = returning(channels, result)
    const alone = yield* failsWith(graph.invoke(input), "InvalidUpdate")
    const saved = yield* failsWith(thread.invoke(input), "InvalidUpdate")
    const fields = ({ channel, node, path, reason }: typeof alone) => ({ channel, node, path, reason })
    assert.deepStrictEqual(fields(alone), fields(saved))
    assert.deepStrictEqual((yield* thread.state).next, ["foo"])
    yield* thread.delete
    return alone
  }).pipe(Effect.provide(Checkpointer.layerMemory))

describe("what a node may return", () => {
  for (const [what, result] of Object.entries({
    "a number": 123,
    "a text": "str",
    "a list of texts": ["x"],
    "an empty list": [],
    "a list of updates": [{ my_key: "a" }],
    "a function": () => ({}),
    "a Promise": Promise.resolve({ my_key: "a" }),
    "an Error": new Error("no update"),
    "a Date": new Date(0),
    "a Map": new Map([["my_key", "a"]]),
    "a Command whose update is a list of no pairs": Command.make({ update: [null] as never }),
    "a Command whose update is a list of texts": Command.make({ update: ["my_key"] as never }),
    "a Command whose update is a Map": Command.make({ update: new Map([["my_key", "a"]]) as never })
  })) {
    it.effect(`core-156 ${what} is refused`, () =>
      Effect.gen(function* () {
        const error = yield* refusals({ my_key: word }, result)
        assert.deepStrictEqual([error.reason, error.node], ["InvalidReturn", "foo"])
      })
    )
  }

  const noEffects: Record<string, () => unknown> = {
    Promise: () => Promise.resolve({}),
    Object: () => ({ my_key: "a" }),
    Generator: function* () {},
    undefined: () => undefined
  }
  for (const [what, body] of Object.entries(noEffects)) {
    it.effect(`a node that returns no Effect but ${what} is told so`, () =>
      Effect.gen(function* () {
        const graph = Graph.make("g", { my_key: word })
          .addNode("foo", body as never)
          .addEdge(Graph.START, "foo")
          .compile()
        const error = yield* failsWith(graph.invoke({ my_key: "x" }) as Effect.Effect<unknown, any>, "InvalidUpdate")
        assert.deepStrictEqual([error.reason, error.node], ["InvalidReturn", "foo"])
        assert.include(error.message, what)
      })
    )
  }

  it.effect("core-156 nothing, null and an empty record are no update", () =>
    Effect.gen(function* () {
      for (const result of [undefined, null, {}, { my_key: undefined }]) {
        const { graph } = returning({ my_key: word }, result)
        assert.deepStrictEqual(yield* graph.invoke({ my_key: "x" }), { my_key: "x" })
      }
    })
  )
})

describe("updates are checked by the channels' schemas", () => {
  const count = Channel.lastValue(Schema.Number.pipe(Schema.between(0, 10)))

  it.effect("core-158 what a node writes, as it is or in a command, names the channel when it is refused", () =>
    Effect.gen(function* () {
      for (const result of [{ count: 15 }, Command.make({ update: { count: 15 } })]) {
        const error = yield* refusals({ count }, result)
        assert.deepStrictEqual([error.reason, error.channel, error.node], ["InvalidValue", "count", "foo"])
      }
      const text = Channel.reduce(Schema.String, {
        initial: () => "",
        update: Schema.String.pipe(Schema.minLength(2)),
        reducer: (a, b) => a + b
      })
      const two = [Command.make({ update: { text: "ok" } }), Command.make({ update: { text: "x" } })]
      assert.strictEqual((yield* refusals({ text }, two)).channel, "text")
      const { graph } = returning({ text }, two.slice(0, 1))
      assert.deepStrictEqual(yield* graph.invoke({}), { text: "ok" })
    })
  )

  it.effect("core-158 a command that is the input is checked in the same way", () =>
    Effect.gen(function* () {
      const { graph } = returning({ count }, undefined)
      const give = (n: number) => graph.invoke(Command.make({ update: { count: n } }))
      assert.strictEqual((yield* failsWith(give(-1), "InvalidUpdate")).channel, "count")
      assert.deepStrictEqual(yield* give(5), { count: 5 })
    })
  )
})

describe("values are saved as they are or refused when they are written", () => {
  it.effect("what can't be encoded names node, channel and path, on a thread only", () =>
    Effect.gen(function* () {
      const anything = { a: Channel.lastValue(Schema.Unknown) }
      for (const bad of [
        Number.NaN,
        Number.NEGATIVE_INFINITY,
        1n,
        Symbol("s"),
        new Date(0),
        new Map([[1, 2]]),
        () => 1
      ]) {
        const { graph, thread } = returning(anything, { a: { deep: [1, { x: bad }] } })
        assert.deepStrictEqual(yield* graph.invoke({}), { a: { deep: [1, { x: bad }] } })
        const error = yield* failsWith(thread.invoke({}), "InvalidUpdate")
        assert.deepStrictEqual(
          [error.reason, error.node, error.channel, error.path],
          ["NotEncodable", "foo", "a", "deep[1].x"]
        )
        yield* thread.delete
      }
      const circular: { self?: unknown } = {}
      circular.self = circular
      yield* failsWith(returning(anything, { a: circular }).thread.invoke({}), "InvalidUpdate")
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("what the schema encodes comes back as it was", () =>
    Effect.gen(function* () {
      class Point extends Schema.Class<Point>("Point")({ x: Schema.Number, y: Schema.BigInt }) {}
      const a = {
        date: new Date(5),
        set: new Set(["a"]),
        map: new Map([["k", 1]]),
        bytes: new Uint8Array([1, 2]),
        point: new Point({ x: -0, y: 12345678901234567890n }),
        none: undefined,
        nothing: null
      }
      const schema = Schema.Struct({
        date: Schema.Date,
        set: Schema.ReadonlySet(Schema.String),
        map: Schema.ReadonlyMap({ key: Schema.String, value: Schema.Number }),
        bytes: Schema.Uint8ArrayFromBase64,
        point: Point,
        none: Schema.UndefinedOr(Schema.String),
        nothing: Schema.Null
      })
      const { thread } = returning({ a: Channel.lastValue(schema) }, { a })
      yield* thread.invoke({})
      const saved = (yield* thread.state).values.a as typeof a
      assert.deepStrictEqual({ ...saved, none: undefined }, a)
      assert.instanceOf(saved.point, Point)
      assert.isTrue(Object.is(saved.point.x, -0))
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("undefined is a value where the schema takes it, and is reloaded as one", () =>
    Effect.gen(function* () {
      const maybe = { a: Channel.lastValue(Schema.UndefinedOr(Schema.String)) }
      const { thread } = returning(maybe, { a: undefined })
      assert.deepStrictEqual(Object.entries(yield* thread.invoke({ a: "x" })), [["a", undefined]])
      assert.deepStrictEqual(Object.entries((yield* thread.state).values), [["a", undefined]])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("a reducer whose result can't be saved fails the run and leaves the thread at its last checkpoint", () =>
    Effect.gen(function* () {
      const n = Channel.reduce(Schema.Number, { initial: () => 1, reducer: (a, b) => a / b })
      const { thread } = returning({ n }, { n: 0 })
      const error = yield* failsWith(thread.invoke({}), "InvalidUpdate")
      assert.deepStrictEqual([error.reason, error.channel], ["NotEncodable", "n"])
      const state = yield* thread.state
      assert.deepStrictEqual(state.values, { n: 1 })
      yield* failsWith(thread.resume(), "InvalidUpdate")
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("what is saved and no longer decodes fails when it is loaded, and names the channel", () =>
    Effect.gen(function* () {
      yield* returning({ a: Channel.lastValue(Schema.Unknown) }, { a: "text" }).thread.invoke({})
      const changed = returning({ a: Channel.lastValue(Schema.Number) }, { a: 1 }).thread
      const error = yield* failsWith(changed.state, "CheckpointDecodeError")
      assert.deepStrictEqual([error.thread, error.channel], ["t", "a"])
      yield* failsWith(changed.invoke({}), "CheckpointDecodeError")
      yield* failsWith(changed.update({ a: 2 }), "CheckpointDecodeError")
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("keys that a schema does not name", () => {
  const Person = Schema.Struct({ name: Schema.String, home: Schema.optional(Schema.Struct({ town: Schema.String })) })
  const rich = (name: string) => ({ name, home: { town: "Oslo", zip: 1 }, age: 7 })
  const plain = (name: string) => ({ name, home: { town: "Oslo" } })
  const graph = Graph.make("people", {
    last: Channel.lastValue(Person),
    all: Channel.append(Person),
    oldest: Channel.reduce(Person, { initial: () => ({ name: "" }), reducer: (_, next) => next }),
    scratch: Channel.untracked(Person),
    seen: Channel.append(Schema.Unknown)
  })
    .addNode("first", () =>
      Effect.succeed({ last: rich("a"), all: [rich("b"), { name: "c" }], oldest: rich("d"), scratch: rich("e") })
    )
    .addWorker("look", Person, (person) => Effect.succeed({ seen: Object.keys(person) }))
    .addNode("second", ({ all, last, oldest, scratch }) => Effect.succeed({ seen: [{ all, last, oldest, scratch }] }))
    .addEdge(Graph.START, "first")
    .addEdge("first", "second")
    .addConditionalEdges("first", () => [Send.make("look", rich("f"))], ["look"])
    .compile()
  const expected = { last: plain("a"), all: [plain("b"), { name: "c" }], oldest: plain("d"), scratch: plain("e") }

  it.effect("are in no live state either, whether it is saved or not", () =>
    Effect.gen(function* () {
      const thread = graph.thread("t")
      const live = yield* thread.invoke({})
      assert.deepStrictEqual(live.seen, [expected, "name", "home"])
      assert.deepStrictEqual((yield* graph.invoke({})).seen, live.seen)
      const { scratch, ...saved } = live
      assert.deepStrictEqual(scratch, expected.scratch)
      assert.deepStrictEqual((yield* thread.state).values, saved)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("a value without such keys is kept as it is", () =>
    Effect.gen(function* () {
      const value = plain("a")
      const graph = Graph.make("same", { last: Channel.lastValue(Person), same: Channel.lastValue(Schema.Boolean) })
        .addNode("first", () => Effect.succeed({ last: value }))
        .addNode("second", ({ last }) => Effect.succeed({ same: last === value }))
        .addEdge(Graph.START, "first")
        .addEdge("first", "second")
        .compile()
      assert.isTrue((yield* graph.invoke({})).same)
      assert.isTrue((yield* graph.thread("t").invoke({})).same)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})
