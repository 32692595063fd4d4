import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Channel, Graph, Send } from "effect-pregel"
import { briefly } from "./support/events.js"
import { names, says, word } from "./support/graphs.js"
import { failsWith, log, sum } from "./support/thread.js"

class TestError extends Schema.TaggedError<TestError>()("TestError", {}) {}

describe("where a router leads", () => {
  it.effect("core-071 labels are translated by the target map, and defaults can be read at the start", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const side = (name: string) => (state: { readonly input?: string }) =>
        Effect.succeed({ output: `${state.input}->${name}` })
      const graph = Graph.make("g", { input: word, output: word, steps: log })
        .addNode("left", side("left"))
        .addNode("right", side("right"))
        .addConditionalEdges(
          Graph.START,
          (state) => {
            seen.push(state)
            return state.input!.length > 10 ? "go-right" : "go-left"
          },
          { "go-left": "left", "go-right": "right" }
        )
        .compile()
      const input = "what is weather in sf"
      assert.deepStrictEqual(yield* graph.invoke({ input }), { input, output: `${input}->right`, steps: [] })
      assert.deepStrictEqual(yield* briefly(graph.stream({ input: "short" })), [
        ["updates", "left", { output: "short->left" }]
      ])
      assert.deepStrictEqual(seen[0], { input, steps: [] })
    })
  )

  it.effect("core-071 node names need no map, and a router may be an effect with services and failures", () =>
    Effect.gen(function* () {
      class Choice extends Context.Tag("Choice")<Choice, "analyzer" | "none">() {}
      const graph = Graph.make("g", { query: word })
        .addNode("rewriter", ({ query }) => Effect.succeed({ query: `query: ${query}` }))
        .addNode("analyzer", ({ query }) => Effect.succeed({ query: `analyzed: ${query}` }))
        .addEdge(Graph.START, "rewriter")
        .addConditionalEdges(
          "rewriter",
          () => Effect.flatMap(Choice, (choice) => (choice === "none" ? new TestError() : Effect.succeed(choice))),
          ["analyzer"]
        )
        .compile()
      const run = (choice: "analyzer" | "none") => Effect.provideService(graph.invoke({ query: "q" }), Choice, choice)
      assert.deepStrictEqual(yield* run("analyzer"), { query: "analyzed: query: q" })
      yield* failsWith(run("none"), "TestError")
    })
  )

  it.effect("several destinations run together, END among them counts for nothing, and so does an empty list", () =>
    Effect.gen(function* () {
      const route = (to: ReadonlyArray<"a" | "b" | typeof Graph.END>) =>
        Graph.make("g", names)
          .addNode("a", says("a"))
          .addNode("b", says("b"))
          .addConditionalEdges(Graph.START, () => to, ["a", "b", Graph.END])
          .compile()
          .invoke({})
      assert.deepStrictEqual(yield* route(["b", Graph.END, "a", "b"]), { foo: ["a", "b"] })
      assert.deepStrictEqual(yield* route([]), { foo: [] })
      assert.deepStrictEqual(yield* route([Graph.END]), { foo: [] })
    })
  )
})

describe("what a router sees", () => {
  it.effect("core-072 is the state with its own node's writes, without those of parallel siblings", () =>
    Effect.gen(function* () {
      const seen: Record<string, ReadonlyArray<string>> = {}
      const record =
        (name: string) =>
        (state: { readonly foo: ReadonlyArray<string> }): typeof Graph.END => {
          seen[name] = state.foo
          return Graph.END
        }
      const graph = Graph.make("g", names)
        .addNode("a", says("a"))
        .addNode("b", says("b"))
        .addEdge(Graph.START, "a")
        .addEdge(Graph.START, "b")
        .addConditionalEdges("a", record("a"), [Graph.END])
        .addConditionalEdges("b", record("b"), [Graph.END])
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ foo: ["x"] }), { foo: ["x", "a", "b"] })
      assert.deepStrictEqual(seen, { a: ["x", "a"], b: ["x", "b"] })
    })
  )

  it.effect("core-073 is reduced state; it has every channel, also those that its node does not read", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const graph = Graph.make("g", { foo: sum, bar: word, baz: Channel.ephemeral(Schema.String) })
        .addNode("node_1", () => Effect.succeed({ foo: 1, baz: "bar" }))
        .addNode("node_2", ({ baz }) => Effect.succeed({ foo: 1, bar: baz! }), { reads: ["baz"] })
        .addNode("node_3", () => Effect.succeed({ foo: 1 }))
        .addEdge(Graph.START, "node_1")
        .addEdge("node_1", "node_2")
        .addConditionalEdges(
          "node_2",
          (state) => {
            seen.push(state)
            return state.foo === 2 ? "node_3" : Graph.END
          },
          ["node_3", Graph.END]
        )
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ foo: 0 }), { foo: 3, bar: "bar" })
      assert.deepStrictEqual(seen, [{ foo: 2, bar: "bar" }])
    })
  )

  it.effect("core-077 is channels only: a node can't pass it what no channel holds", () =>
    Effect.gen(function* () {
      let asked = false
      const graph = Graph.make("g", names)
        .addNode("agent", () => Effect.succeed({ foo: "agent", something_extra: "hi there" } as { foo: string }))
        .addEdge(Graph.START, "agent")
        .addConditionalEdges("agent", () => {
          asked = true
          return Graph.END
        }, [Graph.END])
        .compile()
      const error = yield* failsWith(graph.invoke({}), "InvalidUpdate")
      assert.deepStrictEqual([error.reason, error.channel, asked], ["UnknownChannel", "something_extra", false])
    })
  )
})

describe("what goes wrong in a router", () => {
  const routed = (route: () => unknown, targets: Readonly<Record<string, "b">> = { b: "b" }) =>
    Graph.make("g", names)
      .addNode("a", says("a"))
      .addNode("b", says("b"))
      .addEdge(Graph.START, "a")
      .addConditionalEdges("a", route as () => "b", targets)
      .compile()
      .invoke({})

  for (const [result, reason, node] of [
    [undefined, "NoDestination", "undefined"],
    [null, "NoDestination", "null"],
    [["b", undefined], "NoDestination", "undefined"],
    ["zzz", "NotATarget", "zzz"],
    ["a", "NotATarget", "a"]
  ] as const) {
    it.effect(`core-075 a result outside its targets fails the run: ${JSON.stringify(result)}`, () =>
      Effect.gen(function* () {
        const error = yield* failsWith(
          routed(() => result),
          "UnknownNode"
        )
        assert.deepStrictEqual([error.reason, error.node, error.from], [reason, node, "a"])
      })
    )
  }

  it.effect("core-075 a send to a node that is no target fails the run as well", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* routed(() => Send.make("b", { foo: [] })), { foo: ["a", "b"] })
      const error = yield* failsWith(
        routed(() => Send.make("a", { foo: [] })),
        "UnknownNode"
      )
      assert.deepStrictEqual([error.reason, error.node, error.from], ["NotATarget", "a", "a"])
    })
  )

  it.effect("core-075 with labels a node's own name is no result", () =>
    Effect.gen(function* () {
      const error = yield* failsWith(
        routed(() => "b", { x: "b" }),
        "UnknownNode"
      )
      assert.strictEqual(error.reason, "NotATarget")
    })
  )

  it.effect("core-076 its failure is the run's failure, and what it throws the run's defect", () =>
    Effect.gen(function* () {
      const fault = new TestError()
      const throwing = (route: () => Effect.Effect<never, TestError>) =>
        Graph.make("g", { my_key: word })
          .addNode("init", () => Effect.succeed({ my_key: "x" }))
          .addNode("x", () => Effect.void)
          .addEdge(Graph.START, "init")
          .addConditionalEdges("init", route, ["x"])
          .compile()
          .invoke({})
      const failure = yield* failsWith(
        throwing(() => Effect.fail(fault)),
        "TestError"
      )
      assert.strictEqual(failure, fault)
      const cause = yield* throwing(() => {
        throw fault
      }).pipe(Effect.sandbox, Effect.flip)
      assert.deepStrictEqual(Array.from(Cause.defects(cause)), [fault])
    })
  )
})
