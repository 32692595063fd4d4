import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { type Channel, Checkpointer, Graph, GraphError } from "effect-pregel"
import { names, says, word } from "./support/graphs.js"
import { failsWith, log } from "./support/thread.js"

/** A builder as code without types sees it. */
const untyped = (channels: Channel.Fields = names, options: object = {}): any => Graph.make("g", channels, options)

const problemsOf = (builder: { validate(): Either.Either<unknown, GraphError.InvalidGraph> }) =>
  Either.match(builder.validate(), { onLeft: ({ problems }) => problems, onRight: () => [] })

const start = () => untyped().addNode("a", says("a")).addEdge(Graph.START, "a")

describe("what the types can't refuse, compile does", () => {
  const mistakes: Record<string, readonly [builder: any, problem: RegExp]> = {
    "core-150 an edge from a node that does not exist": [start().addEdge("unknown", "a"), /starts at "unknown"/],
    "core-150 an edge to a node that does not exist": [start().addEdge("a", "zz"), /leads to "zz"/],
    "core-150 a join from a node that does not exist": [start().addEdge(["a", "zz"], "a"), /starts at "zz"/],
    "core-150 a join to a node that does not exist": [
      start().addNode("b", says("b")).addEdge(["a", "b"], "zz"),
      /leads to "zz"/
    ],
    "core-150 an edge from END": [start().addEdge(Graph.END, "a"), /can't start at END/],
    "core-150 an edge to START": [start().addEdge("a", Graph.START), /can't lead to START/],
    "core-150 a branch target that does not exist": [
      start().addConditionalEdges("a", () => "x", { x: "zz" }),
      /leads to "zz"/
    ],
    "core-150 a branch at a node that does not exist": [
      start().addConditionalEdges("zz", () => "a", ["a"]),
      /starts at "zz"/
    ],
    "a goto target that does not exist": [start().addNode("b", says("b"), { goto: ["zz"] }), /node "b" goes to "zz"/],
    "core-151 a graph that nothing enters": [untyped().addNode("a", says("a")), /add an edge from START/],
    "an edge from START to END": [start().addEdge(Graph.START, Graph.END), /START to END/],
    "core-152 a name that is taken": [start().addNode("a", says("a")), /"a" is added twice/],
    "core-152 the name of a virtual node": [start().addNode("__start__", says("a")), /virtual node/],
    "core-152 a name with |": [start().addNode("a|b", says("a")), /can't contain/],
    "core-152 a name with :": [start().addNode("a:b", says("a")), /can't contain/],
    "core-152 a name of the engine's own": [start().addNode("__interrupt__", says("a")), /engine's own/],
    "a node that is no function": [start().addNode("b", "b"), /"b" is no function/],
    "a router that is no function": [start().addConditionalEdges("a", "b", ["a"]), /router of "a" is no function/],
    "an edge to a worker": [
      start()
        .addWorker("w", Schema.String, () => Effect.void)
        .addEdge("a", "w"),
      /only a Send can run/
    ],
    "a join into a worker": [
      start()
        .addWorker("w", Schema.String, () => Effect.void)
        .addEdge(["a"], "w"),
      /only a Send can run/
    ],
    "two nodes that had the same name": [
      start().addNode("b", says("b"), { renamedFrom: "z" }).addNode("c", says("c"), { renamedFrom: "z" }),
      /two nodes are renamed from "z"/
    ],
    "joins that can't be told apart": [
      ["b+c", "a+b", "c", "d"]
        .reduce((graph, name) => graph.addNode(name, says(name)), start())
        .addEdge(["a", "b+c"], "d")
        .addEdge(["a+b", "c"], "d"),
      /can't be told apart/
    ],
    "core-152 an empty sequence": [start().addSequence([]), /sequence/],
    "core-152 a sequence that names a node twice": [
      start().addSequence([
        ["foo", says("a")],
        ["foo", says("b")]
      ]),
      /"foo" is added twice/
    ],
    "core-155 a subscription to a channel that does not exist": [
      start().addNode("b", says("b"), { subscribe: ["zz"] }),
      /channel "zz"/
    ],
    "core-155 reading a channel that does not exist": [
      start().addNode("b", says("b"), { reads: ["zz"] }),
      /channel "zz"/
    ],
    "core-155 an input channel that does not exist": [
      untyped(names, { input: ["zz"] })
        .addNode("a", says("a"))
        .addEdge(Graph.START, "a"),
      /channel "zz"/
    ],
    "core-155 an output channel that does not exist": [
      untyped(names, { output: ["zz"] })
        .addNode("a", says("a"))
        .addEdge(Graph.START, "a"),
      /channel "zz"/
    ],
    "core-155 a channel that is none": [
      untyped({ foo: Schema.String as never })
        .addNode("a", says("a"))
        .addEdge(Graph.START, "a"),
      /not a Channel/
    ],
    "a channel with a reserved name": [
      untyped({ __start__: log }).addNode("a", says("a")).addEdge(Graph.START, "a"),
      /reserved/
    ]
  }
  for (const [what, [builder, problem]] of Object.entries(mistakes)) {
    it(what, () => {
      const problems = problemsOf(builder)
      assert.strictEqual(problems.filter((text) => problem.test(text)).length, 1, problems.join("; "))
      assert.throws(() => builder.compile(), problem)
    })
  }

  it("and lists everything at once", () => {
    const builder = untyped().addNode("a", says("a")).addNode("a", says("a")).addEdge("a", "zz").addEdge(Graph.END, "a")
    const problems = problemsOf(builder)
    assert.strictEqual(problems.length, 4, problems.join("; "))
    try {
      builder.compile()
      assert.fail("it compiled")
    } catch (error) {
      assert.instanceOf(error, GraphError.InvalidGraph)
      assert.deepStrictEqual((error as GraphError.InvalidGraph).problems, problems)
    }
  })
})

describe("what is allowed", () => {
  it.effect("core-151 a node that no edge leads to: a command may", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("a", says("a"))
        .addNode("b", says("b"))
        .addEdge(Graph.START, "a")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({}), { foo: ["a"] })
    })
  )

  it.effect("core-152 a node with the name of a channel", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names).addNode("foo", says("foo")).addEdge(Graph.START, "foo").compile()
      assert.deepStrictEqual(yield* graph.invoke({}), { foo: ["foo"] })
    })
  )

  it.effect("core-153 channels of equal name and another kind in a graph inside are not shared", () =>
    Effect.gen(function* () {
      const inner = Graph.make("inner", { items: word })
        .addNode("i", ({ items }) => Effect.succeed({ items: `inner of ${items}` }))
        .addEdge(Graph.START, "i")
        .compile()
      const outer = Graph.make("outer", { items: log })
        // @ts-expect-error: the compiler refuses it already
        .addGraph("sub", inner)
        .addEdge(Graph.START, "sub")
        .compile()
      assert.deepStrictEqual(yield* outer.invoke({ items: "x" }), { items: ["x"] })
    })
  )

  it("compiling twice gives two graphs and changes no builder", () => {
    const builder = Graph.make("g", names).addNode("a", says("a"))
    const one = builder.addEdge(Graph.START, "a")
    const two = one.addNode("b", says("b")).addEdge("a", "b")
    assert.deepStrictEqual(
      [one.compile(), two.compile(), one.compile()].map(({ topology }) => topology.nodes.map(({ name }) => name)),
      [
        ["__start__", "a"],
        ["__start__", "a", "b"],
        ["__start__", "a"]
      ]
    )
    assert.isTrue(Either.isLeft(builder.validate()))
  })
})

describe("a join that is added twice", () => {
  it.effect("is one join, also after a reload", () =>
    Effect.gen(function* () {
      const thread = Graph.make("g", names)
        .addNode("a", says("a"))
        .addNode("slow", says("slow"))
        .addNode("b", says("b"))
        .addNode("c", says("c"))
        .addEdge(Graph.START, "a")
        .addEdge(Graph.START, "slow")
        .addEdge("slow", "b")
        .addEdge(["a", "b"], "c")
        .addEdge(["a", "b"], "c", { optional: true })
        .compile()
        .thread("t")
      yield* thread.run({}, { interruptBefore: ["b"] })
      assert.deepStrictEqual((yield* thread.resume()).foo, ["a", "slow", "b", "c"])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("is optional only if it was so each time", () =>
    Effect.gen(function* () {
      const join = (...optional: ReadonlyArray<boolean>): Effect.Effect<unknown, { readonly _tag: string }> =>
        optional
          .reduce(
            (graph, one) => graph.addEdge(["a", "b"], "c", { optional: one }),
            ["b", "c"].reduce((graph, name) => graph.addNode(name, says(name)), start())
          )
          .compile()
          .invoke({})
      assert.deepStrictEqual(yield* join(true, true), { foo: ["a"] })
      yield* failsWith(join(true, false), "JoinUnsatisfied")
      yield* failsWith(join(false, true), "JoinUnsatisfied")
    })
  )
})

describe("breakpoints", () => {
  it.effect("at nodes that do not exist fail the run before anything is done", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names).addNode("a", says("a")).addEdge(Graph.START, "a").compile()
      yield* failsWith(graph.invoke({}, { interruptBefore: ["zz" as "a"] }), "UnknownNode")
    })
  )
})
