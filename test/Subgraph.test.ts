import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema, Stream } from "effect"
import { Channel, Checkpointer, Command, Graph, Interrupt, Send } from "effect-pregel"
import { before, concat, log, makeTrace, rows, snapshots, sum } from "./support/thread.js"

const { END, PARENT, START } = Graph

/** What a graph sees as its log when it runs: the fruit of the call, an echo, and an answer if it asks. */
const agent = (persistence: "call" | "thread" | "none", asks: boolean) =>
  Graph.make("agent", { messages: log })
    .addNode("echo", ({ messages }) =>
      Effect.gen(function* () {
        if (asks) yield* Interrupt.interrupt("continue?")
        return { messages: `Processing: ${messages.at(-1)}` }
      })
    )
    .addNode("respond", () => Effect.succeed({ messages: "Done" }))
    .addEdge(START, "echo")
    .addEdge("echo", "respond")
    .addEdge("respond", END)
    .compile({ persistence })

/** Calls the agent once a run, with the next fruit, and shows what it held at the end. */
const caller = (persistence: "call" | "thread" | "none", asks = false) => {
  const inner = agent(persistence, asks)
  const lists: Array<ReadonlyArray<string>> = []
  const graph = Graph.make("caller", { fruits: log, result: Channel.lastValue(Schema.String) })
    .addNode("call", ({ fruits }) =>
      Effect.map(inner.invoke({ messages: fruits.at(-1)! }), ({ messages }) => {
        lists.push(messages)
        return { result: messages.at(-1)! }
      })
    )
    .addEdge(START, "call")
    .compile()
  return { graph, lists }
}

const apples = ["apples", "Processing: apples", "Done"]
const bananas = ["bananas", "Processing: bananas", "Done"]

describe("what a subgraph remembers", () => {
  it.effect("per-125 by default nothing after its task has ended; its pauses are answered through the parent", () =>
    Effect.gen(function* () {
      const { graph, lists } = caller("call", true)
      const thread = graph.thread("t")
      const paused = yield* thread.run({ fruits: "apples" })
      assert.isTrue(paused._tag === "Paused" && paused.interrupts[0]!.value === "continue?")
      assert.strictEqual((yield* thread.answer(true)).result, "Done")
      yield* thread.run({ fruits: "bananas" })
      yield* thread.answer(true)
      assert.deepStrictEqual(lists, [apples, bananas])

      const plain = caller("call")
      const other = plain.graph.thread("u")
      yield* other.invoke({ fruits: "apples" })
      yield* other.invoke({ fruits: "bananas" })
      assert.deepStrictEqual(plain.lists, [apples, bananas])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("per-126 with no persistence nothing is stored for it, and a resume runs it again from its start", () =>
    Effect.gen(function* () {
      const plain = caller("none")
      yield* plain.graph.thread("u").invoke({ fruits: "apples" })
      yield* plain.graph.thread("u").invoke({ fruits: "bananas" })
      assert.deepStrictEqual(plain.lists, [apples, bananas])

      const trace = makeTrace()
      const child = Graph.make("child", { value: log })
        .addNode("pre", () => Effect.as(trace.note("pre"), { value: "pre" }))
        .addNode("ask", () => Effect.map(Interrupt.interrupt<string>("q"), (value) => ({ value })))
        .addEdge(START, "pre")
        .addEdge("pre", "ask")
        .compile({ persistence: "none" })
      const thread = Graph.make("parent", { value: log })
        .addGraph("child", child)
        .addEdge(START, "child")
        .compile()
        .thread("t")
      const paused = yield* thread.run({})
      assert.strictEqual(paused._tag, "Paused")
      const { namespaces } = yield* Checkpointer.Checkpointer
      assert.deepStrictEqual(yield* namespaces("t"), [""])
      assert.deepStrictEqual(yield* thread.answer("z"), { value: ["pre", "z"] })
      assert.deepStrictEqual(trace.take(), ["pre", "pre"])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("per-127 with thread persistence its state accumulates over the parent's runs, pauses included", () =>
    Effect.gen(function* () {
      const plain = caller("thread")
      yield* plain.graph.thread("u").invoke({ fruits: "apples" })
      yield* plain.graph.thread("u").invoke({ fruits: "bananas" })
      assert.deepStrictEqual(plain.lists, [apples, [...apples, ...bananas]])

      const { graph, lists } = caller("thread", true)
      const thread = graph.thread("t")
      for (const fruits of ["apples", "bananas"]) {
        assert.strictEqual((yield* thread.run({ fruits }))._tag, "Paused")
        yield* thread.answer(true)
      }
      assert.deepStrictEqual(lists, [apples, [...apples, ...bananas]])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("per-128 its namespace is made of node names; calls of one node and keyed instances stay apart", () =>
    Effect.gen(function* () {
      const inner = agent("thread", false)
      const lists: Array<ReadonlyArray<string>> = []
      const thread = Graph.make("parent", { say: log })
        .addNode("both", ({ say }) =>
          Effect.gen(function* () {
            lists.push((yield* inner.invoke({ messages: `first ${say.at(-1)}` })).messages)
            lists.push((yield* inner.invoke({ messages: `second ${say.at(-1)}` })).messages)
            lists.push((yield* inner.invoke({ messages: `keyed ${say.at(-1)}` }, { key: "k" })).messages)
          })
        )
        .addEdge(START, "both")
        .compile()
        .thread("t")
      yield* thread.invoke({ say: "1" })
      yield* thread.invoke({ say: "2" })
      const { namespaces } = yield* Checkpointer.Checkpointer
      assert.deepStrictEqual(yield* namespaces("t"), ["", "both", "both#k/2", "both/1"])
      assert.deepStrictEqual(
        lists.map((list) => [list.length, list.at(-3)]),
        [
          [3, "first 1"],
          [3, "second 1"],
          [3, "keyed 1"],
          [6, "first 2"],
          [6, "second 2"],
          [6, "keyed 2"]
        ]
      )
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("per-130 a remembering subgraph that its parent loops over goes on from its own state", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const inner = Graph.make("inner", { my_key: concat, own: concat })
        .addNode("inner_1", ({ own }) =>
          Effect.sync(() => {
            seen.push(own)
            return { my_key: " got here", own: " got here" }
          })
        )
        .addNode("inner_2", () => Effect.succeed({ my_key: " and there", own: " and there" }))
        .addEdge(START, "inner_1")
        .addEdge("inner_1", "inner_2")
        .compile({ persistence: "thread" })
      const thread = Graph.make("outer", { my_key: Channel.lastValue(Schema.String) })
        .addGraph("inner", inner, {
          input: ({ my_key = "" }) => ({ my_key }),
          output: ({ my_key }) => ({ my_key })
        })
        .addEdge(START, "inner")
        .addConditionalEdges("inner", ({ my_key = "" }) => (my_key.split("there").length > 2 ? END : "inner"), [
          "inner",
          END
        ])
        .compile()
        .thread("t")
      const { my_key } = yield* thread.invoke({ my_key: "" })
      assert.deepStrictEqual(seen, ["", " got here and there"])
      assert.strictEqual(my_key!.split(" got here and there").length - 1, 3)
      assert.strictEqual((yield* rows(thread)).length, 4)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("per-131 a remembering subgraph called with state of its own pauses in every durability", () =>
    Effect.gen(function* () {
      for (const durability of ["sync", "async", "exit"] as const) {
        const inner = Graph.make("sub", {
          bar: Channel.lastValue(Schema.String),
          baz: Channel.lastValue(Schema.String)
        })
          .addNode("subgraph_node_1", () =>
            Effect.map(Interrupt.interrupt<string>("Provide baz value"), (baz) => ({ baz }))
          )
          .addNode("subgraph_node_2", ({ bar, baz }) => Effect.succeed({ bar: `${bar}${baz}` }))
          .addEdge(START, "subgraph_node_1")
          .addEdge("subgraph_node_1", "subgraph_node_2")
          .compile({ persistence: "thread" })
        const thread = Graph.make("parent", { foo: Channel.lastValue(Schema.String) })
          .addNode("node_1", ({ foo }) => Effect.succeed({ foo: `hi! ${foo}` }))
          .addNode("node_2", ({ foo }) => Effect.map(inner.invoke({ bar: foo! }), ({ bar }) => ({ foo: bar! })))
          .addEdge(START, "node_1")
          .addEdge("node_1", "node_2")
          .compile({ durability })
          .thread(durability)
        const paused = yield* thread.run({ foo: "foo" })
        assert.deepStrictEqual(paused.state, { foo: "hi! foo" })
        assert.deepStrictEqual(yield* thread.answer("baz"), { foo: "hi! foobaz" })
      }
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("per-132 a graph run on a thread of its own inside a node has that thread's root namespace", () =>
    Effect.gen(function* () {
      const child = Graph.make("child", { count: sum })
        .addNode("add", () => Effect.succeed({ count: 1 }))
        .addEdge(START, "add")
        .compile()
      const counts: Array<number> = []
      const thread = Graph.make("parent", { done: log })
        .addNode("p", () => Effect.map(child.thread("other").invoke({}), ({ count }) => void counts.push(count)))
        .addEdge(START, "p")
        .compile()
        .thread("t")
      yield* thread.invoke({})
      yield* thread.invoke({})
      assert.deepStrictEqual(counts, [1, 2])
      assert.deepStrictEqual((yield* child.thread("other").state).values, { count: 2 })
      const { namespaces } = yield* Checkpointer.Checkpointer
      assert.deepStrictEqual(yield* namespaces("other"), [""])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("per-133 persistence concerns subgraphs only: a root graph is saved by its thread", () =>
    Effect.gen(function* () {
      const graph = agent("thread", false)
      assert.deepStrictEqual((yield* graph.invoke({ messages: "apples" })).messages, apples)
      assert.deepStrictEqual((yield* graph.thread("t").invoke({ messages: "apples" })).messages, apples)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("per-093 a replay of the parent takes it back to what it held before the replayed point", () =>
    Effect.gen(function* () {
      for (const persistence of ["thread", "call"] as const) {
        const seen: Array<ReadonlyArray<string>> = []
        const sub = Graph.make("sub", { value: log })
          .addNode("step_a", ({ value }) =>
            Effect.gen(function* () {
              seen.push(value)
              return { value: `a:${yield* Interrupt.interrupt<string>("a")}` }
            })
          )
          .addNode("step_b", () => Effect.map(Interrupt.interrupt<string>("b"), (b) => ({ value: `b:${b}` })))
          .addEdge(START, "step_a")
          .addEdge("step_a", "step_b")
          .compile({ persistence })
        const thread = Graph.make("parent", { results: log })
          .addNode("parent_node", () => Effect.succeed({ results: "p" }))
          .addNode("sub_node", () => Effect.asVoid(sub.invoke({})))
          .addEdge(START, "parent_node")
          .addEdge("parent_node", "sub_node")
          .compile()
          .thread(persistence)
        for (const n of [1, 2]) {
          yield* thread.run({})
          yield* Effect.flip(thread.answer(`a${n}`))
          yield* thread.answer(`b${n}`)
        }
        const point = yield* before(thread, "sub_node")
        seen.length = 0
        yield* Effect.flip(thread.at(point.checkpoint!.id).resume())
        const forked = yield* thread.at(point.checkpoint!.id).update({ results: "forked" }, { as: "parent_node" })
        yield* Effect.flip(thread.at(forked).resume())
        const first = persistence === "thread" ? ["a:a1", "b:b1"] : []
        assert.deepStrictEqual(seen, [first, first])
        yield* Effect.flip(thread.answer("a3"))
        yield* thread.answer("b3")
        assert.deepStrictEqual((yield* thread.state).values, { results: ["p", "p", "forked"] })
      }
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("per-095 in a loop only the first visit of a replay goes back; later ones see what the replay did", () =>
    Effect.gen(function* () {
      const seen: Array<ReadonlyArray<string>> = []
      const sub = Graph.make("sub", { value: log })
        .addNode("add", ({ value }) =>
          Effect.sync(() => {
            seen.push(value)
            return { value: "s" }
          })
        )
        .addEdge(START, "add")
        .compile({ persistence: "thread" })
      const thread = Graph.make("parent", { counter: Channel.lastValue(Schema.Number) })
        .addNode("inc", ({ counter = 0 }) => Effect.succeed({ counter: counter + 1 }))
        .addNode("sub_node", () => Effect.asVoid(sub.invoke({})))
        .addEdge(START, "inc")
        .addEdge("inc", "sub_node")
        .addConditionalEdges("sub_node", ({ counter = 0 }) => (counter < 2 ? "inc" : END), ["inc", END])
        .compile()
        .thread("t")
      yield* thread.invoke({ counter: 0 })
      yield* thread.invoke({ counter: 0 })
      const s = (n: number) => Array.from({ length: n }, () => "s")
      assert.deepStrictEqual(seen.splice(0), [s(0), s(1), s(2), s(3)])
      const again = (counter: number) =>
        Effect.gen(function* () {
          const all = yield* snapshots(thread)
          const point = all.find(({ next, values }) => next[0] === "inc" && values.counter === counter)!
          yield* thread.at(point.checkpoint!.id).resume()
          return seen.splice(0)
        })
      assert.deepStrictEqual(yield* again(0), [s(2), s(3)])
      assert.deepStrictEqual(yield* again(1), [s(3)])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("subgraphs and durability", () => {
  const nested = (asks: boolean) => {
    const leaf = Graph.make("leaf", { value: log })
      .addNode("ask", () =>
        asks ? Effect.map(Interrupt.interrupt<string>("q"), (value) => ({ value })) : Effect.succeed({ value: "leaf" })
      )
      .addEdge(START, "ask")
      .compile()
    const middle = Graph.make("middle", { value: log }).addGraph("leaf", leaf).addEdge(START, "leaf").compile()
    return Graph.make("root", { value: log }).addGraph("middle", middle).addEdge(START, "middle").compile()
  }

  it.effect("per-142 they save as the root does: every superstep, or nothing when all went well with exit", () =>
    Effect.gen(function* () {
      const { list, namespaces } = yield* Checkpointer.Checkpointer
      for (const [durability, expected] of [
        ["sync", [3, 3, 3]],
        ["async", [3, 3, 3]],
        ["exit", [1]]
      ] as const) {
        yield* nested(false).thread(durability).invoke({}, { durability })
        const counts: Array<number> = []
        for (const namespace of yield* namespaces(durability)) {
          counts.push(yield* Stream.runCount(list({ thread: durability, namespace })))
        }
        assert.deepStrictEqual<ReadonlyArray<number>>(counts, expected)
      }
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect(
    "per-143 with exit durability a pause saves one checkpoint on each level, and the resume one at the root",
    () =>
      Effect.gen(function* () {
        const { list, namespaces } = yield* Checkpointer.Checkpointer
        const thread = nested(true).thread("t")
        const counts = Effect.gen(function* () {
          const spaces = yield* namespaces("t")
          return yield* Effect.forEach(spaces, (namespace) => Stream.runCount(list({ thread: "t", namespace })))
        })
        yield* Effect.flip(thread.invoke({}, { durability: "exit" }))
        assert.deepStrictEqual(yield* counts, [1, 1, 1])
        assert.deepStrictEqual(yield* thread.answer("a", { durability: "exit" }), { value: ["a"] })
        assert.deepStrictEqual(yield* counts, [2, 1, 1])
        assert.isDefined((yield* thread.state).checkpoint!.parent)
      }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("commands that leave a subgraph", () => {
  const messages = Channel.append(Schema.String)

  it.effect("per-135 a subgraph's node updates a channel that only the parent has", () =>
    Effect.gen(function* () {
      for (const persistence of ["call", "thread"] as const) {
        const child = Graph.make("child", { messages })
          .addNode("tool", () => Effect.succeed(Command.make({ update: { user_name: "Meow" }, graph: PARENT })))
          .addEdge(START, "tool")
          .compile({ persistence })
        const thread = Graph.make("parent", { messages, user_name: Channel.lastValue(Schema.String) })
          .addGraph("alice", child)
          .addEdge(START, "alice")
          .compile({ durability: "exit" })
          .thread(persistence)
        assert.deepStrictEqual(yield* thread.invoke({ messages: "get user name" }), {
          messages: ["get user name"],
          user_name: "Meow"
        })
        const { checkpoint, next } = yield* thread.state
        assert.deepStrictEqual(
          [next, checkpoint!.step, checkpoint!.source, checkpoint!.parent],
          [[], 1, "loop", undefined]
        )
      }
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  const jumper = (persistence: "call" | "thread") =>
    Graph.make("jumper", { d: log })
      .addNode("a_child", () => Effect.succeed({ d: "a_child" }))
      .addNode("b_child", () =>
        Effect.succeed(Command.make({ graph: PARENT, goto: "b_parent", update: { d: "b_child" } }))
      )
      .addEdge(START, "a_child")
      .addEdge("a_child", "b_child")
      .compile({ persistence })

  it.effect("per-136 core-091 a goto to the parent leaves the subgraph: what it had written itself is lost", () =>
    Effect.gen(function* () {
      for (const persistence of ["call", "thread"] as const) {
        const thread = Graph.make("parent", { d: log })
          .addGraph("sub", jumper(persistence), { goto: ["b_parent"] })
          .addNode("b_parent", () => Effect.succeed({ d: "b_parent" }))
          .addEdge(START, "sub")
          .compile()
          .thread(persistence)
        assert.deepStrictEqual(yield* thread.invoke({ d: "init" }), { d: ["init", "b_child", "b_parent"] })
      }
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("per-137 core-092 PARENT is the graph one level up; a name addresses any graph around", () =>
    Effect.gen(function* () {
      const levels = (graph: string) => {
        const inner = Graph.make("subsub", { d: log })
          .addNode("ssc", () => Effect.succeed(Command.make({ graph, goto: "sc3", update: { d: "ssc" } })))
          .addEdge(START, "ssc")
          .compile()
        const middle = Graph.make("sub", { d: log })
          .addNode("sc1", () => Effect.succeed({ d: "sc1" }))
          .addGraph("sc2", inner, { goto: ["sc3"] })
          .addNode("sc3", () => Effect.succeed({ d: "sc3" }))
          .addEdge(START, "sc1")
          .addEdge("sc1", "sc2")
          .compile()
        return Graph.make("main", { d: log })
          .addNode("c1", () => Effect.succeed({ d: "c1" }))
          .addGraph("c2", middle, { goto: ["sc3"] })
          .addNode("sc3", () => Effect.succeed({ d: "main sc3" }))
          .addEdge(START, "c1")
          .addEdge("c1", "c2")
          .compile()
      }
      assert.deepStrictEqual(yield* levels(PARENT).invoke({ d: "init" }), {
        d: ["init", "c1", "init", "c1", "sc1", "ssc", "sc3"]
      })
      assert.deepStrictEqual(yield* levels("main").invoke({ d: "init" }), { d: ["init", "c1", "ssc", "main sc3"] })
      const unknown = yield* Effect.flip(levels("nobody").invoke({ d: "init" }))
      assert.strictEqual(unknown._tag, "UnknownNode")
    })
  )

  it.effect("per-138 a command from a graph that a node invokes abandons the rest of the node", () =>
    Effect.gen(function* () {
      const child = Graph.make("child", { jump: Channel.lastValue(Schema.Boolean) })
        .addNode("maybe", ({ jump }) =>
          Effect.succeed(jump === true ? Command.make({ graph: PARENT, goto: "second" }) : undefined)
        )
        .addEdge(START, "maybe")
        .compile()
      const graph = Graph.make("parent", { from: Channel.lastValue(Schema.Number), log })
        .addNode(
          "first",
          ({ from }) =>
            Effect.gen(function* () {
              yield* child.invoke({ jump: from === 1 })
              yield* child.invoke({ jump: from === 2 })
              return yield* Effect.dieMessage("not reached")
            }),
          { goto: ["second"] }
        )
        .addNode("second", () => Effect.succeed({ log: "second" }))
        .addEdge(START, "first")
        .compile()
      for (const from of [1, 2]) {
        assert.deepStrictEqual(yield* graph.invoke({ from }), { from, log: ["second"] })
      }
    })
  )

  it.effect("core-093 a goto to the parent and a static edge to the same node run it once", () =>
    Effect.gen(function* () {
      const sub = Graph.make("sub", { user_name: Channel.lastValue(Schema.String) })
        .addNode("init", () => Effect.succeed({ user_name: "Woof" }))
        .addNode("tool", () =>
          Effect.succeed([Command.make({ graph: PARENT, goto: "bob", update: { user_name: "Meow" } })])
        )
        .addEdge(START, "init")
        .addEdge("init", "tool")
        .compile()
      const seen: Array<string | undefined> = []
      const graph = Graph.make("parent", { user_name: Channel.lastValue(Schema.String), log })
        .addGraph("alice", sub, { goto: ["bob"] })
        .addNode("bob", ({ user_name }) => {
          seen.push(user_name)
          return Effect.succeed({ log: "bob" })
        })
        .addEdge(START, "alice")
        .addEdge("alice", "bob")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({}), { user_name: "Meow", log: ["bob"] })
      assert.deepStrictEqual(seen, ["Meow"])
    })
  )

  it.effect("core-095 at the root a command to the parent is refused", () =>
    Effect.gen(function* () {
      const graph = Graph.make("root", { key: Channel.lastValue(Schema.String) })
        .addNode("n", () => Effect.succeed(Command.make({ graph: PARENT, goto: "x", update: { key: "value" } })))
        .addEdge(START, "n")
        .compile()
      const error = yield* Effect.flip(graph.invoke({}))
      assert.isTrue(error._tag === "UnknownNode" && error.reason === "NoParent")
    })
  )
})

describe("graphs as nodes", () => {
  it.effect("core-067 parent and child exchange the channels they share", () =>
    Effect.gen(function* () {
      const text = Channel.lastValue(Schema.String)
      const inner = Graph.make("inner", { my_key: text, other: text })
        .addNode("up", ({ my_key }) => Effect.succeed({ my_key: `${my_key} there`, other: "own" }))
        .addEdge(START, "up")
        .compile()
      const outer = Graph.make("outer", { my_key: text, never_called: text })
        .addGraph("inner", inner)
        .addNode("side", ({ my_key }) => Effect.succeed({ my_key: `${my_key} and back again` }))
        .addEdge(START, "inner")
        .addEdge("inner", "side")
        .compile()
      assert.deepStrictEqual(yield* outer.invoke({ my_key: "my value", never_called: "x" }), {
        my_key: "my value there and back again",
        never_called: "x"
      })
    })
  )

  it.effect("core-068 a shared log is written back whole: what the child inherited is appended again", () =>
    Effect.gen(function* () {
      const sub = Graph.make("sub", { foo: log })
        .addNode("i1", () => Effect.succeed({ foo: "i1" }))
        .addNode("i2", () => Effect.succeed({ foo: "i2" }))
        .addEdge(START, "i1")
        .addEdge("i1", "i2")
        .compile()
      const outer = Graph.make("outer", { foo: log })
        .addNode("o", () => Effect.succeed({ foo: "o" }))
        .addGraph("sub", sub)
        .addEdge(START, "o")
        .addEdge("o", "sub")
        .compile()
      assert.deepStrictEqual(yield* outer.invoke({ foo: "x" }), { foo: ["x", "o", "x", "o", "i1", "i2"] })
    })
  )

  it.effect("sends to a subgraph run one instance each, with its own checkpoints", () =>
    Effect.gen(function* () {
      const sub = Graph.make("sub", { n: Channel.lastValue(Schema.Number) })
        .addNode("double", ({ n = 0 }) => Effect.succeed({ n: n * 2 }))
        .addEdge(START, "double")
        .compile()
      const graph = Graph.make("map", { n: Channel.append(Schema.Number) })
        .addWorker("each", Schema.Struct({ n: Schema.Number }), ({ n }) =>
          Effect.map(sub.invoke({ n }), ({ n = 0 }) => ({ n }))
        )
        .addConditionalEdges(START, () => [1, 2, 3].map((n) => Send.make("each", { n })), ["each"])
        .compile()
      assert.deepStrictEqual(yield* graph.thread("t").invoke({}), { n: [2, 4, 6] })
      const { namespaces } = yield* Checkpointer.Checkpointer
      assert.strictEqual((yield* namespaces("t")).length, 4)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})
