import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Channel, Checkpointer, Command, Graph, Reducers, Send } from "effect-pregel"
import { briefly } from "./support/events.js"
import { names, says, word } from "./support/graphs.js"
import { failsWith, log, sum } from "./support/thread.js"

describe("goto", () => {
  it.effect("core-086 drives a graph without edges, and a command may be one of a list", () =>
    Effect.gen(function* () {
      const state = { foo: word, bar: word }
      const adds =
        (text: string) =>
        ({ foo }: { readonly foo?: string }) =>
          Effect.succeed({ foo: foo! + text })
      const graph = Graph.make("g", state)
        .addNode(
          "nodeA",
          ({ foo }) => Effect.succeed(Command.make({ update: { foo: "a" }, goto: foo === "foo" ? "nodeB" : "nodeC" })),
          { goto: ["nodeB", "nodeC"] }
        )
        .addNode("nodeB", adds("|b"))
        .addNode("nodeC", adds("|c"))
        .addEdge(Graph.START, "nodeA")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ foo: "foo" }), { foo: "a|b" })
      assert.deepStrictEqual(yield* graph.invoke({ foo: "" }), { foo: "a|c" })

      const listed = Graph.make("g", state)
        .addNode("nodeA", () => Effect.succeed([Command.make({ update: { foo: "a" }, goto: "nodeB" })]), {
          goto: ["nodeB"]
        })
        .addNode("nodeB", ({ foo }) => Effect.succeed([{ foo: `${foo}|b` }, Command.make({ update: { bar: "test" } })]))
        .addEdge(Graph.START, "nodeA")
        .compile()
      assert.deepStrictEqual(yield* listed.invoke({ foo: "foo" }), { foo: "a|b", bar: "test" })
    })
  )

  it.effect("core-086 END ends a branch", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { foo: word, bar: word })
        .addNode("a", () => Effect.succeed(Command.make({ goto: "b", update: { foo: "bar" } })), { goto: ["b"] })
        .addNode("b", () => Effect.succeed(Command.make({ goto: Graph.END, update: { bar: "baz" } })))
        .addEdge(Graph.START, "a")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ foo: "" }), { foo: "bar", bar: "baz" })
    })
  )

  it.effect("core-087 adds to static edges", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("a", () => Effect.succeed(Command.make({ update: { foo: "a" }, goto: "c" })), { goto: ["c"] })
        .addNode("b", says("b"))
        .addNode("c", says("c"))
        .addEdge(Graph.START, "a")
        .addEdge("a", "b")
        .compile()
      assert.deepStrictEqual(yield* briefly(graph.stream({ foo: ["x"] }, { modes: ["values"] })), [
        ["values", { foo: ["x"] }],
        ["values", { foo: ["x", "a"] }],
        ["values", { foo: ["x", "a", "b", "c"] }]
      ])
    })
  )

  it.effect("core-088 takes a list, in which END counts for nothing", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("a", () => Effect.succeed(Command.make({ update: { foo: "a" }, goto: ["c", "b", Graph.END] })), {
          goto: ["b", "c"]
        })
        .addNode("b", says("b"))
        .addNode("c", says("c"))
        .addEdge(Graph.START, "a")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ foo: [] }), { foo: ["a", "b", "c"] })
    })
  )

  it.effect("core-088 to a node that does not exist, or is no declared target, fails before anything is applied", () =>
    Effect.gen(function* () {
      const going = (goto: string) =>
        Graph.make("g", names)
          .addNode("a", () => Effect.succeed(Command.make({ update: { foo: "a" }, goto: goto as "b" })), {
            goto: ["b"]
          })
          .addNode("b", says("b"))
          .addNode("other", says("other"))
          .addEdge(Graph.START, "a")
          .compile()
          .thread(goto)
      for (const [goto, reason] of [
        ["zzz", "NotInGraph"],
        ["other", "NotATarget"],
        [Graph.START, "NotInGraph"]
      ] as const) {
        const thread = going(goto)
        const error = yield* failsWith(thread.invoke({}), "UnknownNode")
        assert.deepStrictEqual([error.reason, error.node, error.from], [reason, goto, "a"])
        const state = yield* thread.state
        assert.deepStrictEqual([state.values, state.next], [{ foo: [] }, ["a"]])
      }
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("core-090 a plan runs its steps, parallel ones in one superstep", () =>
    Effect.gen(function* () {
      const Plan = Schema.Array(Schema.Union(Schema.String, Schema.Array(Schema.String)))
      type Step = "step1" | "step2" | "step3" | "step4"
      const step = (name: string) => () => Effect.succeed(Command.make({ goto: "planner", update: { messages: name } }))
      const back = { goto: ["planner"] } as const
      const graph = Graph.make("g", { plan: Channel.lastValue(Plan), messages: log })
        .addNode(
          "planner",
          ({ plan = ["step1", ["step2", "step3"], "step4"] }) => {
            const [head, ...rest] = plan
            if (head === undefined) return Effect.succeed(undefined)
            return Effect.succeed(Command.make({ goto: head as Step | Array<Step>, update: { plan: rest } }))
          },
          { goto: ["step1", "step2", "step3", "step4"] }
        )
        .addNode("step1", step("step1"), back)
        .addNode("step2", step("step2"), back)
        .addNode("step3", step("step3"), back)
        .addNode("step4", step("step4"), back)
        .addEdge(Graph.START, "planner")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ messages: "start" }), {
        messages: ["start", "step1", "step2", "step3", "step4"],
        plan: []
      })
      const events = yield* briefly(graph.stream({}))
      assert.deepStrictEqual(
        events.map(([, node]) => node),
        ["planner", "step1", "planner", "step2", "step3", "planner", "step4", "planner"]
      )
    })
  )
})

describe("commands for the enclosing graph", () => {
  const d = { d: log }
  const writes = (name: string) => () => Effect.succeed({ d: name })

  it.effect("core-091 leave the graph, and what it had not returned yet is lost", () =>
    Effect.gen(function* () {
      const sub = Graph.make("sub", d)
        .addNode("a_child", writes("a_child"))
        .addNode("b_child", () =>
          Effect.succeed(Command.make({ graph: Graph.PARENT, goto: "b_parent", update: { d: "b_child" } }))
        )
        .addEdge(Graph.START, "a_child")
        .addEdge("a_child", "b_child")
        .compile()
      const parent = Graph.make("parent", d)
        .addGraph("sub", sub, { goto: ["b_parent"] })
        .addNode("b_parent", writes("b_parent"))
        .addEdge(Graph.START, "sub")
        .compile()
      assert.deepStrictEqual(yield* parent.invoke({ d: "init" }), { d: ["init", "b_child", "b_parent"] })
      assert.deepStrictEqual(yield* briefly(parent.stream({ d: "init" }, { subgraphs: true })), [
        ["updates", "a_child", { d: "a_child" }],
        ["updates", "sub", { d: "b_child" }],
        ["updates", "b_parent", { d: "b_parent" }]
      ])
    })
  )

  it.effect("core-091 may write channels that only the enclosing graph has", () =>
    Effect.gen(function* () {
      const sub = Graph.make("alice", { messages: log })
        .addNode("tool", () => Effect.succeed(Command.make({ graph: Graph.PARENT, update: { user_name: "Meow" } })))
        .addEdge(Graph.START, "tool")
        .compile()
      const parent = Graph.make("parent", { messages: log, user_name: word })
        .addGraph("alice", sub)
        .addEdge(Graph.START, "alice")
        .compile()
      assert.deepStrictEqual(yield* parent.invoke({ messages: "get user name" }), {
        messages: ["get user name"],
        user_name: "Meow"
      })
    })
  )

  it.effect("core-092 go up one level, not to the root", () =>
    Effect.gen(function* () {
      const subsub = Graph.make("subsub", d)
        .addNode("ssc", () => Effect.succeed(Command.make({ graph: Graph.PARENT, goto: "sc3", update: { d: "ssc" } })))
        .addEdge(Graph.START, "ssc")
        .compile()
      const sub = Graph.make("sub", d)
        .addNode("sc1", writes("sc1"))
        .addGraph("sc2", subsub, { goto: ["sc3"] })
        .addNode("sc3", writes("sc3"))
        .addEdge(Graph.START, "sc1")
        .addEdge("sc1", "sc2")
        .compile()
      const main = Graph.make("main", d)
        .addNode("c1", writes("c1"))
        .addGraph("c2", sub)
        .addEdge(Graph.START, "c1")
        .addEdge("c1", "c2")
        .compile()
      assert.deepStrictEqual(yield* main.invoke({ d: "init" }), {
        d: ["init", "c1", "init", "c1", "sc1", "ssc", "sc3"]
      })
    })
  )

  it.effect("name the graph they are for, however far around it is", () =>
    Effect.gen(function* () {
      const inner = (graph: string) => {
        const subsub = Graph.make("subsub", d)
          .addNode("ssc", () => Effect.succeed(Command.make({ graph, goto: "end", update: { d: "ssc" } })))
          .addEdge(Graph.START, "ssc")
          .compile()
        const sub = Graph.make("sub", d).addGraph("sc", subsub).addEdge(Graph.START, "sc").compile()
        return Graph.make("main", d)
          .addGraph("c", sub, { goto: ["end"] })
          .addNode("end", writes("end"))
          .addEdge(Graph.START, "c")
          .compile()
      }
      assert.deepStrictEqual(yield* inner("main").invoke({ d: "init" }), { d: ["init", "ssc", "end"] })
      const error = yield* failsWith(inner("nobody").invoke({}), "UnknownNode")
      assert.deepStrictEqual([error.reason, error.node, error.from], ["NoParent", "nobody", "ssc"])
    })
  )

  it.effect("are no failures that the node around could handle, retry or lose among others", () =>
    Effect.gen(function* () {
      const leaving = Graph.make("leaving", d)
        .addNode("a", () => Effect.succeed(Command.make({ graph: Graph.PARENT, goto: "end", update: { d: "left" } })))
        .addEdge(Graph.START, "a")
        .compile()
      const staying = Graph.make("staying", d)
        .addNode("a", () => Effect.never)
        .addEdge(Graph.START, "a")
        .compile()
      const run = leaving.invoke({}) as Effect.Effect<{ readonly d: ReadonlyArray<string> }, unknown>
      const swallowed = { d: "swallowed" }
      const ways = {
        catchAll: Effect.catchAll(run, () => Effect.succeed(swallowed)),
        orElse: Effect.orElseSucceed(run, () => swallowed),
        option: Effect.as(Effect.option(run), swallowed),
        either: Effect.as(Effect.either(run), swallowed),
        retry: Effect.retry(run, { times: 3 }),
        parallel: Effect.as(Effect.all([staying.invoke({}), run], { concurrency: 2 }), swallowed)
      }
      for (const [way, effect] of Object.entries(ways)) {
        const parent = Graph.make("parent", d)
          .addNode("calls", () => effect as Effect.Effect<{ d: string }>, { goto: ["end"] })
          .addNode("end", writes("end"))
          .addEdge(Graph.START, "calls")
          .compile()
        assert.deepStrictEqual(yield* parent.invoke({}), { d: ["left", "end"] }, way)
      }
    })
  )

  it.effect("core-093 a goto and a static edge to one node run it once", () =>
    Effect.gen(function* () {
      const name = Channel.reduce(Schema.String, { initial: () => "", reducer: Reducers.last })
      const sub = Graph.make("alice", { messages: log, user_name: name })
        .addNode("init", () => Effect.succeed({ user_name: "Woof" }))
        .addNode("tool", () =>
          Effect.succeed([Command.make({ graph: Graph.PARENT, goto: "bob", update: { user_name: "Meow" } })])
        )
        .addEdge(Graph.START, "init")
        .addEdge("init", "tool")
        .compile()
      const parent = Graph.make("parent", { messages: log, user_name: name })
        .addNode("init", () => Effect.void)
        .addGraph("alice", sub, { goto: ["bob"] })
        .addNode("bob", ({ user_name }) => Effect.succeed({ messages: `bob knows ${user_name}` }))
        .addEdge(Graph.START, "init")
        .addConditionalEdges("init", () => "alice" as const, ["alice"])
        .addEdge("alice", "bob")
        .compile()
      const thread = parent.thread("t")
      assert.deepStrictEqual(yield* thread.invoke({ messages: "get user name" }), {
        messages: ["get user name", "bob knows Meow"],
        user_name: "Meow"
      })
      assert.strictEqual((yield* thread.state).checkpoint?.step, 3)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("core-095 fail where there is no enclosing graph, as a result and as an input", () =>
    Effect.gen(function* () {
      const leaving = Command.make({ graph: Graph.PARENT, goto: "test_cmd", update: { foo: "value" } })
      const graph = Graph.make("g", names)
        .addNode("a", () => Effect.succeed(leaving))
        .addEdge(Graph.START, "a")
        .compile()
      const returned = yield* failsWith(graph.invoke({}), "UnknownNode")
      assert.deepStrictEqual([returned.reason, returned.from], ["NoParent", "a"])
      const given = yield* failsWith(graph.invoke(leaving as never), "UnknownNode")
      assert.strictEqual(given.reason, "NoParent")
    })
  )
})

describe("commands as input", () => {
  const graph = Graph.make("g", { foo: log, c1: word, c2: word, n: sum })
    .addNode("n1", says("n1"))
    .addNode("n2", says("n2"))
    .addWorker("t", Schema.Number, (n) => Effect.succeed({ foo: `t${n}` }))
    .addEdge(Graph.START, "n1")
    .compile()

  it.effect("core-096 write their update, as a record or as pairs, and go where they say", () =>
    Effect.gen(function* () {
      const base = { foo: [], n: 0 }
      assert.deepStrictEqual(yield* graph.invoke(Command.make({ goto: "n2" })), { ...base, foo: ["n2"] })
      const several = Command.make({ goto: ["n1", Send.make("t", 1), "n2"] })
      assert.deepStrictEqual(yield* graph.invoke(several), { ...base, foo: ["n1", "n2", "t1"] })
      const record = Command.make({ update: { c1: "v1", c2: "v2" } })
      assert.deepStrictEqual(yield* graph.invoke(record), { ...base, c1: "v1", c2: "v2" })
      const pairs = Command.make({
        goto: "n2",
        update: [
          ["n", 1],
          ["n", 2],
          ["c1", "v1"]
        ]
      })
      assert.deepStrictEqual(yield* graph.invoke(pairs), { foo: ["n2"], n: 3, c1: "v1" })
    })
  )

  it.effect("run what subscribes to the channels that they write", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { foo: log, saved: word, unsaved: Channel.untracked(Schema.String) })
        .addNode("a", says("a"))
        .addNode("s", says("s"), { subscribe: ["saved"] })
        .addNode("u", says("u"), { subscribe: ["unsaved"] })
        .addEdge(Graph.START, "a")
        .compile()
      const give = (update: object) =>
        Effect.map(graph.invoke(Command.make({ update }) as never), ({ foo }) => foo.join())
      assert.strictEqual(yield* give({ saved: "x" }), "s")
      assert.strictEqual(yield* give({ unsaved: "x" }), "u")
      assert.strictEqual(yield* give({ unsaved: "x", saved: "x" }), "s,u")
    })
  )

  it.effect("core-096 are refused where they make no sense", () =>
    Effect.gen(function* () {
      const bad = (options: object) => graph.invoke(Command.make(options) as never)
      const target = yield* failsWith(bad({ goto: { invalidType: true } }), "UnknownNode")
      assert.strictEqual(target.reason, "NotInGraph")
      const update = yield* failsWith(bad({ update: "invalid" }), "InvalidUpdate")
      assert.strictEqual(update.reason, "InvalidReturn")
    })
  )

  it.effect("core-097 on a finished thread are applied once and run only what they name", () =>
    Effect.gen(function* () {
      const adds = (name: string) => () => Effect.succeed({ items: name })
      const graph = Graph.make("g", { items: log })
        .addNode("a", adds("a"))
        .addNode("b", adds("b"))
        .addEdge(Graph.START, "a")
        .addEdge("a", "b")
        .compile()
      const thread = graph.thread("t")
      const give = (options: { update?: { items: string }; goto?: "a" | "b" }) =>
        Effect.map(thread.invoke(Command.make(options)), ({ items }) => items.join(" "))
      yield* thread.invoke({ items: "x" })
      assert.strictEqual(yield* give({ update: { items: "u" } }), "x a b u")
      assert.strictEqual(yield* give({ goto: "b" }), "x a b u b")
      assert.strictEqual(yield* give({ goto: "a", update: { items: "v" } }), "x a b u b v a b")
      const fresh = Command.make({ goto: "b", update: { items: "x" } })
      assert.deepStrictEqual(yield* graph.invoke(fresh), { items: ["x", "b"] })
      assert.deepStrictEqual(yield* graph.thread("fresh").invoke(fresh), { items: ["x", "b"] })
      yield* failsWith(thread.invoke(Command.make({})), "EmptyInput")
      assert.strictEqual((yield* thread.state).values.items.length, 8)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("commands as input of a subgraph", () => {
  const child = Graph.make("child", names)
    .addNode("start", says("start"))
    .addNode("other", says("other"))
    .addEdge(Graph.START, "start")
    .compile()
  const input = Command.make({ update: { foo: "given" }, goto: "other" })

  it.effect("do the same as for a graph on its own", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("node", () => Effect.map(child.invoke(input), ({ foo }) => ({ foo })))
        .addEdge(Graph.START, "node")
        .compile()
      const expected = { foo: ["given", "other"] }
      assert.deepStrictEqual(yield* child.invoke(input), expected)
      assert.deepStrictEqual(yield* graph.invoke({}), expected)
      assert.deepStrictEqual(yield* graph.thread("t").invoke({}), expected)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("go on in the state that a remembering subgraph has", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("node", ({ foo }) =>
          Effect.map(
            foo.length === 1
              ? child.invoke({ foo: "input" }, { persistence: "thread" })
              : child.invoke(input, { persistence: "thread" }),
            (state) => ({ foo: Channel.overwrite(state.foo) })
          )
        )
        .addEdge(Graph.START, "node")
        .compile()
      const thread = graph.thread("t")
      assert.deepStrictEqual((yield* thread.invoke({ foo: "1" })).foo, ["input", "start"])
      assert.deepStrictEqual((yield* thread.invoke({ foo: "2" })).foo, ["input", "start", "given", "other"])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("that say nothing, or go nowhere, are refused there as well", () =>
    Effect.gen(function* () {
      const invoking = (command: typeof input) =>
        Graph.make("g", names)
          .addNode("node", () => Effect.asVoid(child.invoke(command)))
          .addEdge(Graph.START, "node")
          .compile()
          .invoke({})
      yield* failsWith(invoking(Command.make({}) as never), "EmptyInput")
      yield* failsWith(invoking(Command.make({ goto: "nowhere" }) as never), "UnknownNode")
    })
  )
})

describe("a worker", () => {
  it.effect("is no place to go to by name: only a Send carries what it takes", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addWorker("work", Schema.Number, (n) => Effect.succeed({ foo: String(n) }))
        .addNode("goes", () => Effect.succeed(Command.make({ goto: "work" })), { goto: ["work"] })
        .addEdge(Graph.START, "goes")
        .addConditionalEdges("goes", () => "work" as const, ["work"])
        .compile()
      const { reason } = yield* failsWith(graph.invoke({}), "UnknownNode")
      assert.strictEqual(reason, "OnlyBySend")
      yield* failsWith(graph.invoke(Command.make({ goto: "work" })), "UnknownNode")
      assert.deepStrictEqual((yield* graph.invoke(Command.make({ goto: Send.make("work", 5) }))).foo, ["5"])
    })
  )
})
