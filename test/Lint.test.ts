import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Channel, Entrypoint, Graph, Send } from "effect-pregel"
import { failsWith, log, sum } from "./support/thread.js"

const { END, START } = Graph

const nothing = () => Effect.void
const text = Channel.lastValue(Schema.String)

const tags = (graph: Parameters<typeof Graph.lint>[0]) => Graph.lint(graph).map(({ _tag }) => _tag)

describe("conflicting writes", () => {
  const start = Graph.make("g", {
    one: text,
    many: log,
    total: sum,
    free: Channel.ephemeral(Schema.String, { guard: false })
  })

  it("are found between nodes that one node leads to at once", () => {
    const graph = start
      .addNode("a", nothing, { writes: ["one", "many", "total", "free"] })
      .addNode("b", nothing, { writes: ["one", "many", "total", "free"] })
      .addNode("c", nothing)
      .addEdge(START, "a")
      .addEdge(START, "b")
      .addEdge(START, "c")
      .compile()
    const findings = Graph.lint(graph)
    assert.deepStrictEqual(findings, [
      {
        _tag: "WriteConflict",
        channel: "one",
        nodes: ["a", "b"],
        message:
          'nodes "a", "b" can run in one superstep and both write channel "one", which holds one value: give it a reducer, or make it a log'
      }
    ])
  })

  it("are found where branches of different nodes meet in one superstep, and not in different ones", () => {
    const graph = start
      .addNode("l", nothing)
      .addNode("r", nothing)
      .addNode("l2", nothing, { writes: ["one"] })
      .addNode("r2", nothing, { writes: ["one"] })
      .addNode("r3", nothing, { writes: ["one"] })
      .addEdge(START, "l")
      .addEdge(START, "r")
      .addEdge("l", "l2")
      .addConditionalEdges("r", () => "r2", ["r2", END])
      .addEdge("r2", "r3")
      .compile()
    assert.deepStrictEqual(
      Graph.lint(graph).map((finding) => (finding._tag === "WriteConflict" ? finding.nodes : finding._tag)),
      [["l2", "r2"]]
    )
  })

  it("are not found between alternatives of one router, and a deferred node conflicts with deferred ones only", () => {
    const graph = start
      .addNode("a", nothing, { writes: ["one"] })
      .addNode("b", nothing, { writes: ["one"] })
      .addNode("late", nothing, { writes: ["one"], defer: true })
      .addConditionalEdges(START, () => "a" as const, ["a", "b"])
      .addEdge(START, "late")
      .compile()
    assert.deepStrictEqual(tags(graph), [])
  })

  it("are found between tasks of one worker", () => {
    const graph = start
      .addWorker("w", Schema.Number, nothing, { writes: ["one", "many"] })
      .addConditionalEdges(START, () => [Send.make("w", 1), Send.make("w", 2)], ["w"])
      .compile()
    assert.deepStrictEqual(
      Graph.lint(graph).map((finding) => (finding._tag === "WriteConflict" ? [finding.channel, finding.nodes] : [])),
      [["one", ["w", "w"]]]
    )
  })

  it.effect("a node that writes what it does not declare fails", () =>
    Effect.gen(function* () {
      const graph = start
        .addNode("a", () => Effect.succeed({ many: ["x"] }), { writes: ["one"] })
        .addEdge(START, "a")
        .compile()
      const error = yield* failsWith(graph.invoke({}), "InvalidUpdate")
      assert.deepStrictEqual([error.reason, error.node, error.channel], ["UnknownChannel", "a", "many"])
    })
  )
})

describe("nodes that nothing leads to", () => {
  it("are found, and what only they lead to", () => {
    const graph = Graph.make("g", { one: text })
      .addNode("a", nothing)
      .addNode("lost", nothing)
      .addNode("after", nothing)
      .addEdge(START, "a")
      .addEdge("lost", "after")
      .compile()
    assert.deepStrictEqual(
      Graph.lint(graph).map(({ message }) => message),
      ['nothing leads to node "lost"', 'nothing leads to node "after"']
    )
  })

  it("are led to by routers, gotos, sends, joins, subscriptions and error handlers", () => {
    const graph = Graph.make("g", { one: text, two: text })
      .addWorker("worker", Schema.Number, nothing)
      .addNode("a", nothing, { goto: ["b", "worker"] })
      .addNode("b", nothing)
      .addNode("c", nothing)
      .addNode("joined", nothing)
      .addNode("listens", nothing, { subscribe: ["two"] })
      .addNode("fails", () => Effect.fail("x"), { onError: () => Effect.void })
      .addEdge(START, "fails")
      .addConditionalEdges(START, () => "a" as const, ["a", "c"])
      .addEdge(["c", "fails"], "joined", { optional: true })
      .compile()
    assert.deepStrictEqual(tags(graph), [])
  })
})

describe("joins", () => {
  const start = Graph.make("g", { one: text })
    .addNode("a", nothing)
    .addNode("b", nothing)
    .addNode("c", nothing)
    .addNode("end", nothing)

  it("that wait for a node that nothing leads to never fire", () => {
    const graph = start.addEdge(START, "a").addEdge(START, "c").addEdge(["a", "b"], "end").compile()
    const finding = Graph.lint(graph).find(({ _tag }) => _tag === "JoinNeverFires")
    assert.include(finding, {
      node: "end",
      message: 'the join of ["a", "b"] into "end" never fires: nothing leads to "b"'
    })
    assert.deepStrictEqual(tags(graph), ["UnreachableNode", "UnreachableNode", "JoinNeverFires"])
  })

  it("that a router can leave half full may stall", () => {
    const skipping = start
      .addEdge(START, "a")
      .addConditionalEdges(START, () => "b" as const, ["b", "c"])
      .addEdge(["a", "b"], "end")
    assert.deepStrictEqual(
      Graph.lint(skipping.compile()).map((finding) =>
        finding._tag === "JoinMayStall" ? [finding.node, finding.arrived, finding.missing] : finding._tag
      ),
      [["end", ["a"], ["b"]]]
    )
    assert.deepStrictEqual(
      tags(
        start
          .addEdge(START, "a")
          .addConditionalEdges(START, () => "b" as const, ["b", "c"])
          .addEdge(["a", "b"], "end", { optional: true })
          .compile()
      ),
      []
    )
  })

  it("whose sources all lie behind one way are fine", () => {
    const graph = start
      .addNode("fork", nothing)
      .addConditionalEdges(START, () => "fork" as const, ["fork", "c"])
      .addEdge("fork", "a")
      .addEdge("fork", "b")
      .addEdge(["a", "b"], "end")
      .compile()
    assert.deepStrictEqual(tags(graph), [])
  })

  it("after a loop that can be left are fine", () => {
    const graph = start
      .addEdge(START, "a")
      .addEdge(START, "b")
      .addConditionalEdges("a", () => "c" as const, ["a", "c"])
      .addEdge(["b", "c"], "end")
      .compile()
    assert.deepStrictEqual(tags(graph), [])
  })
})

describe("cycles", () => {
  const start = Graph.make("g", { one: text }).addNode("a", nothing).addNode("b", nothing).addNode("c", nothing)

  it("of static edges never end, whatever a router beside them says", () => {
    const graph = start
      .addEdge(START, "a")
      .addEdge("a", "b")
      .addEdge("b", "a")
      .addConditionalEdges("b", () => END, ["c", END])
      .compile()
    assert.deepStrictEqual(
      Graph.lint(graph).map((finding) => (finding._tag === "EndlessCycle" ? finding.nodes : finding._tag)),
      [["a", "b"]]
    )
  })

  it("whose routers can't choose another node or END never end", () => {
    const graph = start
      .addEdge(START, "a")
      .addConditionalEdges("a", () => "b" as const, ["b", "c"])
      .addEdge("b", "a")
      .addEdge("c", "a")
      .compile()
    assert.deepStrictEqual(tags(graph), ["EndlessCycle"])
  })

  it("that a router or a goto can leave are fine", () => {
    const routed = start
      .addEdge(START, "a")
      .addConditionalEdges("a", () => "b" as const, ["b", END])
      .addEdge("b", "a")
      .addConditionalEdges("a", () => "c" as const, ["c", END])
      .compile()
    const gone = Graph.make("g", { one: text })
      .addNode("x", nothing, { goto: ["x"] })
      .addEdge(START, "x")
      .compile()
    assert.deepStrictEqual([...tags(routed), ...tags(gone)], [])
  })
})

it("goto beside static edges is told", () => {
  const graph = Graph.make("g", { one: text })
    .addNode("a", nothing, { goto: ["b"] })
    .addNode("b", nothing)
    .addNode("c", nothing)
    .addEdge(START, "a")
    .addEdge("a", "c")
    .compile()
  assert.deepStrictEqual(Graph.lint(graph), [
    {
      _tag: "GotoBesideEdges",
      node: "a",
      goto: ["b"],
      edges: ["c"],
      message: 'node "a" goes to ["b"] by goto and to ["c"] by edges: a goto adds to edges, it does not replace them'
    }
  ])
})

it("an entrypoint has nothing to find", () => {
  const ep = Entrypoint.make("ep", { input: Schema.Void, output: Schema.Void, execute: () => Effect.void })
  assert.deepStrictEqual(Graph.lint(ep.graph), [])
})

it("a chain of 300 nodes with a router at each is judged; a join behind that many choices is not", () => {
  let graph: any = Graph.make("g", { one: text }).addNode("n0", nothing).addNode("join", nothing).addEdge(START, "n0")
  for (let i = 1; i < 300; i++) {
    graph = graph.addNode(`n${i}`, nothing).addConditionalEdges(`n${i - 1}`, () => END, [`n${i}`, END])
  }
  graph = graph.addEdge(["n1", "n299"], "join")
  assert.deepStrictEqual(Graph.lint(graph.compile()), [])
})
