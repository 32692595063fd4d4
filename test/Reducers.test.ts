import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { Channel, Command, Graph, Reducers } from "effect-pregel"
import { briefly, withTasks } from "./support/events.js"
import { says } from "./support/graphs.js"
import { failsWith, sum } from "./support/thread.js"

const Message = Schema.Struct({ id: Schema.optional(Schema.String), content: Schema.String })
type Message = typeof Message.Type

const options: Reducers.ByIdOptions<Message> = { id: ({ id }) => id, withId: (message, id) => ({ ...message, id }) }
const messages = Reducers.byId(Message, options)

const apply = (left: ReadonlyArray<Message>, right: Reducers.Changes<Message>) =>
  Either.match(Reducers.applyById(options)(left, right), {
    onLeft: ({ detail, reason }) => ({ reason, detail }),
    onRight: (list) => list
  })

const one = { id: "1", content: "Hello" }
const two = { id: "2", content: "Hi there!" }
const three = { id: "3", content: "System message" }

describe("a list of items with ids", () => {
  it("core-021 takes one item or several, and both sides may be empty", () => {
    assert.deepStrictEqual(apply([one], two), [one, two])
    assert.deepStrictEqual(apply([one], [two, three]), [one, two, three])
    assert.deepStrictEqual(apply([], []), [])
    assert.deepStrictEqual(apply([], [one]), [one])
    assert.deepStrictEqual(apply([one], []), [one])
  })

  it("core-022 puts an item in the place of the one that has its id", () => {
    assert.deepStrictEqual(apply([one], { id: "1", content: "again" }), [{ id: "1", content: "again" }])
    assert.deepStrictEqual(apply([one, two], [{ id: "1", content: "new" }, three]), [
      { id: "1", content: "new" },
      two,
      three
    ])
  })

  it("core-023 gives items without id an id of their own, on both sides", () => {
    assert.deepStrictEqual(apply([{ content: "Hello" }], [{ content: "Hi there!" }]), [
      { id: "1", content: "Hello" },
      { id: "2", content: "Hi there!" }
    ])
    const generate = (n: number) => `m${n}`
    const named = Reducers.applyById<Message>({ ...options, generate })
    assert.deepStrictEqual(
      named([{ id: "m1", content: "a" }], { content: "b" }),
      Either.right([
        { id: "m1", content: "a" },
        { id: "m2", content: "b" }
      ])
    )
  })

  it("refuses an item without id where none can be given", () => {
    const strict = Reducers.applyById<Message>({ id: ({ id }) => id })
    const result = strict([], { content: "a" })
    assert.strictEqual(Either.isLeft(result) && result.left.reason, "InvalidValue")
  })

  it("core-025 removes items, also together with other changes", () => {
    const { remove } = Reducers
    assert.deepStrictEqual(apply([one, two], remove("2")), [one])
    assert.deepStrictEqual(apply([one, two], [remove("2"), remove("2")]), [one])
    assert.deepStrictEqual(apply([one, two], [remove("1"), remove("2")]), [])
    assert.deepStrictEqual(apply([one, two], [{ id: "1", content: "Updated" }, remove("2"), three]), [
      { id: "1", content: "Updated" },
      three
    ])
    assert.deepStrictEqual(apply([one, two], [remove("1"), { id: "1", content: "back" }]), [
      { id: "1", content: "back" },
      two
    ])
  })

  it("core-026 refuses to remove what is not there", () => {
    assert.deepStrictEqual(apply([one], Reducers.remove("2")), {
      reason: "UnknownItem",
      detail: 'there is no item "2" to remove'
    })
  })

  it("core-027 drops everything before the last removal of all", () => {
    const all = Reducers.removeAll
    assert.deepStrictEqual(apply([one, two], [all]), [])
    assert.deepStrictEqual(apply([one, two], [all, three]), [three])
    assert.deepStrictEqual(apply([one], [two, all, three]), [three])
    assert.deepStrictEqual(apply([one], [two, all, three, all, { id: "4", content: "d" }]), [{ id: "4", content: "d" }])
    assert.deepStrictEqual(apply([one], [Reducers.remove("nobody"), all]), [])
  })

  it.effect("core-026 a node that removes what is not there fails with the channel's refusal", () =>
    Effect.gen(function* () {
      const graph = Graph.make("chat", { messages })
        .addNode("a", () => Effect.succeed({ messages: Reducers.remove("nobody") }))
        .addEdge(Graph.START, "a")
        .compile()
      const error = yield* failsWith(graph.invoke({ messages: [one] }), "InvalidUpdate")
      assert.deepStrictEqual([error.reason, error.channel, error.node], ["UnknownItem", "messages", "a"])
    })
  )

  it.effect("core-028 the input goes through the reducers before the first node runs", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const graph = Graph.make("chat", { hello: Channel.lastValue(Schema.String), messages })
        .addNode("a", (state) => Effect.sync(() => void seen.push(state)))
        .addEdge(Graph.START, "a")
        .compile()
      const result = yield* graph.invoke({ hello: "there", messages: { content: "hello" } })
      assert.deepStrictEqual(result, { hello: "there", messages: [{ id: "0", content: "hello" }] })
      assert.deepStrictEqual(seen, [result])
    })
  )
})

describe("overwriting", () => {
  const START = { messages: ["START"] }
  const list = {
    messages: Channel.reduce(Schema.Array(Schema.String), { initial: () => [], reducer: Reducers.concat })
  }
  const write = (...words: ReadonlyArray<string>) => Effect.succeed({ messages: words })
  const replace = (...words: ReadonlyArray<string>) => Effect.succeed({ messages: Channel.overwrite(words) })
  const wire = (...words: ReadonlyArray<string>) => Effect.succeed({ messages: { __overwrite__: words } as never })

  for (const [form, b] of Object.entries({ marker: replace, wire })) {
    it.effect(`core-030 an overwrite drops what was accumulated (${form})`, () =>
      Effect.gen(function* () {
        const graph = Graph.make("g", list)
          .addSequence([
            ["a", () => write("a")],
            ["b", () => b("b")]
          ])
          .addEdge(Graph.START, "a")
          .compile()
        assert.deepStrictEqual(yield* graph.invoke(START), { messages: ["b"] })
      })
    )
  }

  it.effect("core-030 accumulation goes on after an overwrite", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { count: sum, items: Channel.append(Schema.String) })
        .addNode("add", () => Effect.succeed({ count: 5, items: "a" }))
        .addNode("reset", () => Effect.succeed({ count: Channel.overwrite(0), items: Channel.overwrite(["x"]) }))
        .addNode("more", () => Effect.succeed({ count: 3, items: "y" }))
        .addEdge(Graph.START, "add")
        .addEdge("add", "reset")
        .addEdge("reset", "more")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({}), { count: 3, items: ["x", "y"] })
    })
  )

  const parallel = (c: typeof write | typeof replace) =>
    Graph.make("g", list)
      .addNode("a", () => write("a"))
      .addNode("b", () => replace("b"))
      .addNode("c", () => c("c") as ReturnType<typeof write>)
      .addNode("d", () => write("d"))
      .addEdge(Graph.START, "a")
      .addEdge("a", "b")
      .addEdge("a", "c")
      .addEdge("b", "d")
      .addEdge("c", "d")
      .compile()

  it.effect("core-031 an overwrite wins over parallel siblings, and events show it as it was written", () =>
    Effect.gen(function* () {
      const graph = parallel(write)
      assert.deepStrictEqual(yield* graph.invoke(START), { messages: ["b", "d"] })
      const events = yield* briefly(graph.stream(START, { modes: ["values", "updates"] }))
      assert.deepStrictEqual(events, [
        ["values", { messages: ["START"] }],
        ["updates", "a", { messages: ["a"] }],
        ["values", { messages: ["START", "a"] }],
        ["updates", "b", { messages: Channel.overwrite(["b"]) }],
        ["updates", "c", { messages: ["c"] }],
        ["values", { messages: ["b"] }],
        ["updates", "d", { messages: ["d"] }],
        ["values", { messages: ["b", "d"] }]
      ])
    })
  )

  it.effect("core-031 two parallel overwrites are refused", () =>
    Effect.gen(function* () {
      const error = yield* failsWith(parallel(replace).invoke(START), "InvalidUpdate")
      assert.strictEqual(error.reason, "ConcurrentOverwrite")
      assert.include(error.message, "only one overwrite")
    })
  )
})

it.effect("core-032 writes of one node to one channel are folded in order and reported one by one", () =>
  Effect.gen(function* () {
    const joined = Channel.reduce(Schema.String, {
      initial: () => "",
      reducer: (a, b) => [a, b].filter((part) => part !== "").join(", ")
    })
    const graph = Graph.make("g", { foo: joined })
      .addNode("one", () =>
        Effect.succeed(
          Command.make({
            update: [
              ["foo", "one.0"],
              ["foo", "one.1"]
            ]
          })
        )
      )
      .addNode("two", () => Effect.succeed({ foo: "two" }))
      .addEdge(Graph.START, "one")
      .addEdge("one", "two")
      .compile()
    assert.deepStrictEqual(yield* graph.invoke({ foo: "input" }), { foo: "input, one.0, one.1, two" })
    const events = yield* withTasks(graph.stream({ foo: "input" }, { modes: ["updates", "tasks"] }))
    assert.deepStrictEqual(events, [
      ["start", "one", { foo: "input" }, ["branch:to:one"]],
      ["updates", "one", [{ foo: "one.0" }, { foo: "one.1" }]],
      ["end", "one", { foo: { $writes: ["one.0", "one.1"] } }],
      ["start", "two", { foo: "input, one.0, one.1" }, ["branch:to:two"]],
      ["updates", "two", { foo: "two" }],
      ["end", "two", { foo: "two" }]
    ])
  })
)

it.effect("core-033 a reducer that throws fails the run with its error as cause", () =>
  Effect.gen(function* () {
    const fault = new Error("Faulty reducer")
    const graph = Graph.make("g", {
      foo: Channel.reduce(Schema.String, {
        initial: () => "",
        reducer: (): string => {
          throw fault
        }
      })
    })
      .addNode("agent", () => Effect.void)
      .addEdge(Graph.START, "agent")
      .compile()
    const invoked = yield* failsWith(graph.invoke({ foo: "" }), "InvalidUpdate")
    const streamed = yield* failsWith(briefly(graph.stream({ foo: "" })), "InvalidUpdate")
    assert.deepStrictEqual([invoked.reason, invoked.cause], ["ReducerFailed", fault])
    assert.deepStrictEqual([streamed.reason, streamed.cause], ["ReducerFailed", fault])
  })
)

describe("ready-made reducers", () => {
  it("do what their names say", () => {
    assert.deepStrictEqual(Reducers.concat([1], [2]), [1, 2])
    assert.strictEqual(Reducers.sum(1, 2), 3)
    assert.deepStrictEqual([Reducers.max(1, 2), Reducers.max(2, 1)], [2, 2])
    assert.deepStrictEqual([Reducers.min(1, 2), Reducers.min(2, 1)], [1, 1])
    assert.deepStrictEqual(Reducers.union(new Set([1]), new Set([1, 2])), new Set([1, 2]))
    assert.strictEqual(Reducers.last("a", "b"), "b")
    assert.deepStrictEqual(Reducers.merge<object>({ a: 1, b: { c: 1 } }, { b: { d: 2 } }), { a: 1, b: { d: 2 } })
  })

  it("mergeDeep merges records in records, replaces the rest, and changes neither side", () => {
    const left = { a: { b: { c: 1 }, list: [1] }, keep: null }
    const right = { a: { b: { d: 2 }, list: [2] } }
    assert.deepStrictEqual(Reducers.mergeDeep<object>(left, right), { a: { b: { c: 1, d: 2 }, list: [2] }, keep: null })
    assert.deepStrictEqual(left, { a: { b: { c: 1 }, list: [1] }, keep: null })
    assert.deepStrictEqual(right, { a: { b: { d: 2 }, list: [2] } })
  })

  it("mergeDeep takes the key __proto__ for what it is: a key", () => {
    const merged = Reducers.mergeDeep<object>({ a: 1 }, JSON.parse('{"__proto__":{"polluted":true}}'))
    assert.strictEqual((merged as { polluted?: boolean }).polluted, undefined)
    assert.isTrue(Object.hasOwn(merged, "__proto__"))
    assert.strictEqual(({} as { polluted?: boolean }).polluted, undefined)
  })

  it.effect("fold parallel writes", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", {
        best: Channel.reduce(Schema.Number, { reducer: Reducers.max }),
        tags: Channel.reduce(Schema.ReadonlySet(Schema.String), { initial: () => new Set(), reducer: Reducers.union }),
        foo: Channel.append(Schema.String)
      })
        .addNode("a", () => Effect.succeed({ best: 3, tags: new Set(["x"]) }))
        .addNode("b", () => Effect.succeed({ best: 7, tags: new Set(["x", "y"]) }))
        .addNode("c", says("c"))
        .addEdge(Graph.START, "a")
        .addEdge(Graph.START, "b")
        .addEdge(Graph.START, "c")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({}), { best: 7, tags: new Set(["x", "y"]), foo: ["c"] })
    })
  )
})
