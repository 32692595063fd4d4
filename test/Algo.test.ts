import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as fc from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"
import { Algo, Channel, Channels, Graph, Send } from "effect-pregel"
import { taskPath } from "../src/TaskState.js"
import type { Topology } from "../src/Topology.js"
import { briefly } from "./support/events.js"
import { names, says, word } from "./support/graphs.js"
import { concat, failsWith, log, sum } from "./support/thread.js"

const idle = () => Effect.void

/** The live channels of a graph, with versions and values by name. */
const tableOf = (
  topology: Topology,
  state: Readonly<Record<string, readonly [version: number, value: unknown]>>
): Channels.ChannelTable =>
  new Channels.ChannelTable(
    topology.channels,
    Object.entries(state).map(([name, [version, value]]) => ({ id: topology.channelIds.get(name)!, version, value }))
  )

const plan = (topology: Topology, node: string, index = -1): Algo.TaskPlan => ({
  node: topology.nodes[topology.nodeIds.get(node)!]!,
  send: index < 0 ? undefined : Send.make(node, undefined),
  index
})

const write = (topology: Topology, channel: string, value: unknown): Algo.Write => ({
  channel: topology.channelIds.get(channel)!,
  value,
  encoded: undefined
})

describe("the order of folding", () => {
  const { topology } = Graph.make("g", names)
    .addNode("z", idle)
    .addNode("abc", idle)
    .addNode("a", idle)
    .addEdge(Graph.START, "z")
    .compile()

  it("core-035 pulled tasks come first by name, then pushed ones by number; saved paths sort the same", () => {
    const tasks = [plan(topology, "abc", 10), plan(topology, "z"), plan(topology, "z", 2), plan(topology, "abc")]
    const sorted = tasks.toSorted(Algo.taskOrder)
    assert.deepStrictEqual(
      sorted.map(({ index, node }) => [node.name, index]),
      [
        ["abc", -1],
        ["z", -1],
        ["z", 2],
        ["abc", 10]
      ]
    )
    assert.deepStrictEqual(sorted.map(taskPath), ["0abc", "0z", "100000002", "100000010"])
    assert.deepStrictEqual(tasks.map(taskPath).toSorted(), sorted.map(taskPath))
  })

  it.effect("core-036 parallel writes are folded by node name, whoever is defined or done first", () =>
    Effect.gen(function* () {
      const later = (name: string, millis: number) => () => Effect.delay(Effect.succeed({ foo: [name] }), millis)
      const graph = Graph.make("g", names)
        .addNode("z", later("z", 1))
        .addNode("a", later("a", 30))
        .addNode("m", later("m", 0))
        .addEdge(Graph.START, "z")
        .addEdge(Graph.START, "a")
        .addEdge(Graph.START, "m")
        .compile()
      const fiber = yield* Effect.fork(briefly(graph.stream({}, { modes: ["updates", "values"] })))
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* fiber, [
        ["updates", "m", { foo: ["m"] }],
        ["updates", "z", { foo: ["z"] }],
        ["updates", "a", { foo: ["a"] }],
        ["values", { foo: ["a", "m", "z"] }]
      ])
    })
  )

  it.effect("core-037 tasks of edges are folded before tasks of sends", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { my_key: concat, market: word })
        .addNode("tool_one", () => Effect.succeed({ my_key: " one" }))
        .addNode("tool_two", () => Effect.succeed({ my_key: " all good" }))
        .addConditionalEdges(Graph.START, (state) => ["tool_two", Send.make("tool_one", state)], [
          "tool_one",
          "tool_two"
        ])
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ my_key: "value", market: "US" }), {
        my_key: "value all good one",
        market: "US"
      })
    })
  )

  it.prop(
    "the result of a superstep does not depend on the order in which its tasks ended",
    [fc.shuffledSubarray([0, 1, 2, 3, 4, 5], { minLength: 6 })],
    ([order]) => {
      const tasks = [
        { ...plan(topology, "a"), writes: [write(topology, "foo", "a1"), write(topology, "foo", ["a2", "a3"])] },
        { ...plan(topology, "abc"), writes: [write(topology, "foo", "abc")] },
        { ...plan(topology, "z"), writes: [write(topology, "foo", "z")] },
        { ...plan(topology, "z", 0), writes: [write(topology, "foo", "push 0")] },
        { ...plan(topology, "a", 2), writes: [write(topology, "foo", "push 2")] },
        { ...plan(topology, "a", 10), writes: [write(topology, "foo", "push 10")] }
      ]
      const table = tableOf(topology, {})
      const applied = Algo.applyWrites(
        topology,
        table,
        new Map(),
        order.map((i) => tasks[i]!)
      )
      assert.isTrue(Either.isRight(applied))
      assert.deepStrictEqual(table.read(topology.state), {
        foo: ["a1", "a2", "a3", "abc", "z", "push 0", "push 2", "push 10"]
      })
    }
  )
})

describe("who runs next", () => {
  it.effect("core-038 a node that several edges lead to in one step runs once", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("rewrite", says("rewrite"))
        .addNode("r1", says("r1"))
        .addNode("r2", says("r2"))
        .addNode("qa", says("qa"))
        .addEdge(Graph.START, "rewrite")
        .addEdge("rewrite", "r1")
        .addEdge("rewrite", "r2")
        .addEdge("r1", "qa")
        .addEdge("r2", "qa")
        .addEdge("qa", Graph.END)
        .compile()
      assert.deepStrictEqual(yield* briefly(graph.stream({})), [
        ["updates", "rewrite", { foo: ["rewrite"] }],
        ["updates", "r1", { foo: ["r1"] }],
        ["updates", "r2", { foo: ["r2"] }],
        ["updates", "qa", { foo: ["qa"] }]
      ])
    })
  )

  const number = Channel.lastValue(Schema.Number)
  const { topology } = Graph.make("g", { c1: number, c2: number, c3: number, c4: number, c5: number })
    .addNode("n4", idle, { subscribe: ["c4"] })
    .addNode("n3", idle, { subscribe: ["c3"] })
    .addNode("n2", idle, { subscribe: ["c1", "c2"] })
    .addNode("n1", idle, { subscribe: ["c1"] })
    .addNode("n5", idle, { subscribe: ["c5"] })
    .compile()

  const seenOf = (seen: Readonly<Record<string, Readonly<Record<string, number>>>>): Algo.Seen =>
    new Map(
      Object.entries(seen).map(([node, channels]) => [
        topology.nodeIds.get(node)!,
        new Map(Object.entries(channels).map(([name, version]) => [topology.channelIds.get(name)!, version]))
      ])
    )

  const named = (tasks: ReadonlyArray<Algo.TaskPlan>) => tasks.map(({ index, node }) => [node.name, index])

  it("core-041 a node is pulled when an available trigger is newer than what it has seen; packets come first", () => {
    const table = tableOf(topology, {
      c1: [2, 1],
      c2: [5, 2],
      c3: [4, 3],
      c4: [4, 4],
      __pregel_tasks: [5, [Send.make("n1", { test: true }), Send.make("n3", { test: 3 })]]
    })
    const seen = seenOf({ n1: { c1: 1 }, n2: { c2: 5 }, n3: { c3: 4 }, n4: { c4: 3 }, n5: { c5: 1 } })
    const before = structuredClone(seen)
    assert.deepStrictEqual(named(Algo.prepareNextTasks(topology, table, seen, undefined)), [
      ["n1", 0],
      ["n3", 1],
      ["n1", -1],
      ["n2", -1],
      ["n4", -1]
    ])
    assert.deepStrictEqual(seen, before)
    assert.deepStrictEqual(named(Algo.prepareNextTasks(topology, tableOf(topology, {}), seen, undefined)), [])
  })

  it("with a hint only nodes that the updated channels trigger are looked at", () => {
    const table = tableOf(topology, { c1: [2, 1], c4: [2, 4] })
    const updated = [topology.channelIds.get("c4")!]
    assert.deepStrictEqual(named(Algo.prepareNextTasks(topology, table, new Map(), updated)), [["n4", -1]])
    assert.deepStrictEqual(named(Algo.prepareNextTasks(topology, table, new Map(), [])), [])
  })

  it("a node that has run is not planned again before a trigger is written again, with whatever value", () => {
    const table = tableOf(topology, { c1: [2, 1] })
    const seen: Algo.Seen = new Map()
    const run = (writes: ReadonlyArray<Algo.Write>) =>
      Either.getOrThrow(Algo.applyWrites(topology, table, seen, [{ ...plan(topology, "n1"), writes }]))
    assert.deepStrictEqual(run([]).updated, [])
    assert.deepStrictEqual(named(Algo.prepareNextTasks(topology, table, seen, undefined)), [["n2", -1]])
    const { updated } = run([write(topology, "c1", 1)])
    assert.deepStrictEqual(named(Algo.prepareNextTasks(topology, table, seen, updated)), [
      ["n1", -1],
      ["n2", -1]
    ])
    assert.strictEqual(table.versionOf(topology.channelIds.get("c1")!), 3)
  })

  it("writes of no task alone neither end a superstep nor clear what lives for one", () => {
    const { topology } = Graph.make("g", { once: Channel.ephemeral(Schema.Number), n: number })
      .addNode("a", idle)
      .addEdge(Graph.START, "a")
      .compile()
    const table = tableOf(topology, { once: [1, 7] })
    Either.getOrThrow(Algo.applyWrites(topology, table, new Map(), [], [write(topology, "n", 1)]))
    assert.deepStrictEqual(table.read(topology.state), { once: 7, n: 1 })
    Either.getOrThrow(Algo.applyWrites(topology, table, new Map(), [{ ...plan(topology, "a"), writes: [] }]))
    assert.deepStrictEqual(table.read(topology.state), { n: 1 })
  })
})

describe("what a task reads", () => {
  const { topology } = Graph.make("g", { foo: log, n: sum, once: Channel.ephemeral(Schema.Number), one: word })
    .addNode("a", idle)
    .addEdge(Graph.START, "a")
    .compile()

  it("is the state with its own writes, without what lived for the last superstep, and changes nothing", () => {
    const table = tableOf(topology, { foo: [1, ["x"]], once: [1, 1] })
    const writes = [write(topology, "foo", "a"), write(topology, "n", 2), write(topology, "n", 3)]
    assert.deepStrictEqual(Algo.localRead(table, topology.state, writes), Either.right({ foo: ["x", "a"], n: 5 }))
    assert.deepStrictEqual(table.read(topology.state), { foo: ["x"], n: 0, once: 1 })
  })

  it("fails as the writes would", () => {
    const writes = [write(topology, "one", "a"), write(topology, "one", "b")]
    const read = Algo.localRead(tableOf(topology, {}), topology.state, writes)
    assert.strictEqual(Either.isLeft(read) && read.left.reason, "ConcurrentUpdate")
  })
})

it("breakpoints stop only where something changed since the last resume, and '*' leaves the engine's nodes out", () => {
  const { topology } = Graph.make("g", names).addNode("a", idle).addEdge(Graph.START, "a").compile()
  const [entry, a] = [plan(topology, Graph.START), plan(topology, "a")]
  assert.isTrue(Algo.shouldInterrupt(2, 1, new Set(["a"]), [a]))
  assert.isFalse(Algo.shouldInterrupt(2, 2, new Set(["a"]), [a]))
  assert.isFalse(Algo.shouldInterrupt(2, 1, new Set(["b"]), [a]))
  assert.isTrue(Algo.shouldInterrupt(2, 1, "*", [entry, a]))
  assert.isFalse(Algo.shouldInterrupt(2, 1, "*", [entry]))
})

describe("updates", () => {
  for (const [what, result] of Object.entries({ nothing: undefined, null: null, "an empty record": {} })) {
    it.effect(`core-040 a step that writes nothing goes on and shows no new state (a node that returns ${what})`, () =>
      Effect.gen(function* () {
        const graph = Graph.make("g", names)
          .addNode("a", () => Effect.succeed(result))
          .addEdge(Graph.START, "a")
          .compile()
        const events = yield* briefly(graph.stream({ foo: ["x"] }, { modes: ["updates", "values"] }))
        assert.deepStrictEqual(events, [
          ["values", { foo: ["x"] }],
          ["updates", "a", null]
        ])
        assert.deepStrictEqual(yield* graph.invoke({ foo: ["x"] }), { foo: ["x"] })
      })
    )
  }

  it.effect("core-042 an update of a channel that does not exist fails before anything is applied", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("a", () => Effect.succeed({ foo: ["q"], unknown: 1 } as { foo: Array<string> }))
        .addEdge(Graph.START, "a")
        .compile()
      const error = yield* failsWith(graph.invoke({}), "InvalidUpdate")
      assert.deepStrictEqual([error.reason, error.channel, error.node], ["UnknownChannel", "unknown", "a"])
      assert.include(error.message, "foo")
    })
  )

  it.effect("core-043 runs of one graph at the same time share nothing", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { counter: sum })
        .addNode("node", () => Effect.delay(Effect.succeed({ counter: 1 }), "100 millis"))
        .addEdge(Graph.START, "node")
        .compile()
      const runs = Array.from({ length: 10 }, () => graph.invoke({ counter: 0 }))
      const fiber = yield* Effect.fork(Effect.all(runs, { concurrency: "unbounded" }))
      yield* TestClock.adjust("100 millis")
      assert.deepStrictEqual(yield* Fiber.join(fiber), Array(10).fill({ counter: 1 }))
    })
  )
})

it.effect("the algorithm is a service that a test can replace", () =>
  Effect.gen(function* () {
    const planned: Array<ReadonlyArray<string>> = []
    const { prepareNextTasks } = yield* Algo.Algo
    const recording = Algo.layer({
      ...(yield* Algo.Algo),
      prepareNextTasks: (...args) => {
        const tasks = prepareNextTasks(...args)
        planned.push(tasks.map(({ node }) => node.name))
        return tasks
      }
    })
    const graph = Graph.make("g", names)
      .addSequence([
        ["a", says("a")],
        ["b", says("b")]
      ])
      .addEdge(Graph.START, "a")
      .compile()
    yield* Effect.provide(graph.invoke({}), recording)
    assert.deepStrictEqual(planned, [[], ["__start__"], ["a"], ["b"], []])
  })
)
