import * as Persistence from "@effect/experimental/Persistence"
import * as KeyValueStore from "@effect/platform/KeyValueStore"
import { assert, describe, it } from "@effect/vitest"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"
import { Activity, Channel, Checkpointer, Command, Entrypoint, Graph, Interrupt, NodeCache, Send } from "effect-pregel"
import * as NodeCachePersistence from "effect-pregel/NodeCachePersistence"
import { briefly } from "./support/events.js"
import { failsWith, log, makeTrace } from "./support/thread.js"

const { END, START } = Graph

class Boom extends Data.TaggedError("Boom")<{}> {}

/** `a` is cached, `b` is not. */
const letters = (trace = makeTrace(), cache: Parameters<typeof Graph.make>[2] | any = true) => ({
  trace,
  graph: Graph.make("letters", { foo: log })
    .addNode("a", (state) => Effect.as(trace.note("a"), { foo: [`a${state.foo.length}`] }), { cache })
    .addNode("b", () => Effect.succeed({ foo: ["b"] }))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .compile()
})

const layers = {
  memory: NodeCache.layerMemory,
  "a persistence in memory": Layer.provide(NodeCachePersistence.layer(), Persistence.layerMemory),
  "a key-value store": Layer.provide(
    NodeCachePersistence.layer({ storeId: "cache" }),
    Layer.provide(Persistence.layerKeyValueStore, KeyValueStore.layerMemory)
  )
}

for (const [name, layer] of Object.entries(layers)) {
  describe(`a cache in ${name}`, () => {
    it.effect("core-130 the key is the node's input, and a hit is told as cached and has no end", () =>
      Effect.gen(function* () {
        const { graph, trace } = letters()
        const counts: Array<number> = []
        for (const foo of [["x"], ["x"], ["y"]]) {
          yield* graph.invoke({ foo })
          counts.push(trace.entries.length)
        }
        assert.deepStrictEqual(counts, [1, 1, 2])
        assert.deepStrictEqual(yield* briefly(graph.stream({ foo: ["x"] }, { modes: ["updates", "tasks"] })), [
          ["start", "a"],
          ["updates", "a", { foo: ["a1"] }, "cached"],
          ["start", "b"],
          ["updates", "b", { foo: ["b"] }],
          ["end", "b"]
        ])
      }).pipe(Effect.provide(layer))
    )

    it.effect("entries expire after their time to live", () =>
      Effect.gen(function* () {
        const { graph, trace } = letters(makeTrace(), { ttl: "10 seconds" })
        yield* graph.invoke({ foo: ["x"] })
        yield* TestClock.adjust("9 seconds")
        yield* graph.invoke({ foo: ["x"] })
        assert.strictEqual(trace.entries.length, 1)
        yield* TestClock.adjust("1 second")
        yield* graph.invoke({ foo: ["x"] })
        assert.strictEqual(trace.entries.length, 2)
      }).pipe(Effect.provide(layer))
    )

    it.effect("clearing forgets some nodes of one graph and nothing else", () =>
      Effect.gen(function* () {
        const trace = makeTrace()
        const make = (name: string) =>
          Graph.make(name, { n: Channel.lastValue(Schema.Number) })
            .addNode("a", () => Effect.as(trace.note(`${name} a`), { n: 1 }), { cache: { key: () => 1 } })
            .addNode("a_b", () => Effect.as(trace.note(`${name} a_b`), { n: 2 }), { cache: { key: () => 1 } })
            .addEdge(START, "a")
            .addEdge("a", "a_b")
            .compile()
        const [one, two] = [make("one"), make("two")]
        for (const graph of [one, two, one, two]) yield* graph.invoke({})
        assert.deepStrictEqual(trace.take(), ["one a", "one a_b", "two a", "two a_b"])
        yield* NodeCache.clear("one", ["a"])
        for (const graph of [one, two]) yield* graph.invoke({})
        assert.deepStrictEqual(trace.take(), ["one a"])
        yield* one.invoke({})
        assert.deepStrictEqual(trace.take(), [])
      }).pipe(Effect.provide(layer))
    )
  })
}

it.effect("core-131 a key of the caller's own: the writes are replayed onto the new state", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const graph = Graph.make("g", { foo: log })
      .addNode("a", () => Effect.map(trace.note("a"), () => ({ foo: [`a${trace.count("a")}`] })), {
        cache: { key: () => "k" }
      })
      .addEdge(START, "a")
      .compile()
    assert.deepStrictEqual(yield* graph.invoke({ foo: ["x"] }), { foo: ["x", "a1"] })
    assert.deepStrictEqual(yield* graph.invoke({ foo: ["y"] }), { foo: ["y", "a1"] })
  }).pipe(Effect.provide(NodeCache.layerMemory))
)

it.effect("core-131 without a cache in the environment a policy changes nothing", () =>
  Effect.gen(function* () {
    const { graph, trace } = letters()
    yield* graph.invoke({})
    yield* graph.invoke({})
    assert.strictEqual(trace.entries.length, 2)
  })
)

describe("graph-wide defaults", () => {
  const policies = (graph: { readonly topology: Graph.AnyCompiled["topology"] }) =>
    Object.fromEntries(graph.topology.nodes.filter(({ hidden }) => !hidden).map(({ name, policy }) => [name, policy]))

  it("core-132 a default is a policy, true or false; a node's own word wins", () => {
    const make = (cache: any) =>
      Graph.make("g", { foo: log })
        .defaults({ cache })
        .addNode("own", () => Effect.void, { cache: { ttl: 5 } })
        .addNode("none", () => Effect.void, { cache: false })
        .addNode("other", () => Effect.void)
        .addEdge(START, "own")
        .addEdge(START, "none")
        .addEdge(START, "other")
        .compile()
    const caches = (cache: unknown) =>
      Object.fromEntries(Object.entries(policies(make(cache))).map(([name, policy]) => [name, policy.cache]))
    assert.deepStrictEqual(caches({ ttl: 60 }), { own: { ttl: 5 }, none: undefined, other: { ttl: 60 } })
    assert.deepStrictEqual(caches(true), { own: { ttl: 5 }, none: undefined, other: {} })
    assert.deepStrictEqual(caches(false), { own: { ttl: 5 }, none: undefined, other: undefined })
  })

  it.effect("core-132 a node may opt out of a default", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const graph = Graph.make("g", { foo: log })
        .addNode("cached", () => Effect.as(trace.note("cached"), { foo: ["c"] }))
        .addNode("uncached", () => Effect.as(trace.note("uncached"), { foo: ["u"] }), { cache: false })
        .addEdge(START, "cached")
        .addEdge(START, "uncached")
        .defaults({ cache: true })
        .compile()
      yield* graph.invoke({})
      yield* graph.invoke({})
      assert.deepStrictEqual([trace.count("cached"), trace.count("uncached")], [1, 2])
    }).pipe(Effect.provide(NodeCache.layerMemory))
  )

  it.effect("core-127 a default retry counts for nodes without their own", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const flaky = (name: string, failures: number) => () =>
        Effect.flatMap(trace.note(name), () => (trace.count(name) <= failures ? new Boom() : Effect.void))
      const graph = Graph.make("g", { foo: log })
        .addNode("default", flaky("default", 2))
        .addNode("own", flaky("own", 4), { retry: Schedule.recurs(4) })
        .addEdge(START, "default")
        .addEdge("default", "own")
        .defaults({ retry: Schedule.recurs(2) })
        .compile()
      yield* graph.invoke({})
      assert.deepStrictEqual([trace.count("default"), trace.count("own")], [3, 5])
      const none = Graph.make("g", { foo: log })
        .defaults({ retry: Schedule.recurs(2) })
        .addNode("none", flaky("none", 1), { retry: false })
        .addEdge(START, "none")
        .compile()
      yield* failsWith(none.invoke({}), "Boom")
    })
  )

  it("core-127 several calls merge, a later one wins for each policy, and no builder is changed", () => {
    const once = Schedule.recurs(1)
    const start = Graph.make("g", { foo: log })
      .addNode("n", () => Effect.void)
      .addEdge(START, "n")
    const first = start.defaults({ retry: once, timeout: "1 second" })
    const second = first.defaults({ timeout: "2 seconds", cache: true })
    const of = (graph: typeof start) => policies(graph.compile()).n!
    assert.deepStrictEqual([of(start).retry, of(start).timeout, of(start).cache], [undefined, undefined, undefined])
    assert.deepStrictEqual([of(first).retry?.schedule, of(first).timeout?.run], [once, 1000])
    assert.deepStrictEqual([of(second).retry?.schedule, of(second).timeout?.run], [once, 2000])
    assert.deepStrictEqual([of(second).cache, of(second).cache], [{}, {}])
    assert.isUndefined(of(first).cache)
  })

  it.effect("core-127 defaults are not inherited by graphs inside", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const inner = Graph.make("inner", { foo: log })
        .addNode("fails", () => Effect.flatMap(trace.note("fails"), () => new Boom()))
        .addEdge(START, "fails")
        .compile()
      const outer = Graph.make("outer", { foo: log })
        .defaults({ retry: Schedule.recurs(2) })
        .addGraph("inner", inner)
        .addEdge(START, "inner")
        .compile()
      yield* failsWith(outer.invoke({}), "Boom")
      assert.strictEqual(trace.entries.length, 3)
      assert.isUndefined(policies(inner).fails!.retry)
    })
  )

  it.effect("core-127 a default handler gets the failure and the failed node's input, after all attempts", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const seen: Array<unknown> = []
      const text = Channel.lastValue(Schema.String)
      const graph = Graph.make("g", { a: text, b: text, handled: Channel.lastValue(Schema.Boolean) })
        .addNode("fail", () => Effect.flatMap(trace.note("fail"), () => new Boom()), { reads: ["a"] })
        .addEdge(START, "fail")
        .defaults({
          retry: Schedule.recurs(2),
          onError: (error, input) =>
            Effect.sync(() => {
              seen.push([(error as Boom)._tag, input])
              return { handled: true }
            })
        })
        .compile()
      const result = yield* graph.invoke({ a: "x", b: "y", handled: false })
      assert.deepStrictEqual(result, { a: "x", b: "y", handled: true })
      assert.strictEqual(trace.entries.length, 3)
      assert.deepStrictEqual(seen, [["Boom", { a: "x" }]])
    })
  )

  it.effect("core-127 a node's own handler wins, and its failure is not caught by the default one", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const graph = Graph.make("g", { foo: log })
        .defaults({ onError: () => Effect.as(trace.note("default"), { foo: ["default"] }), cache: true })
        .addNode("fail", () => Effect.fail("first" as const), { onError: () => new Boom() })
        .addEdge(START, "fail")
        .compile()
      yield* failsWith(graph.invoke({}) as Effect.Effect<unknown, Boom>, "Boom")
      assert.deepStrictEqual(trace.entries, [])
      const handler = policies(graph).__error_handler__fail!
      assert.isUndefined(handler.cache)
    })
  )
})

describe("what is kept", () => {
  it.effect("core-133 results of activities are shared between calls, runs and threads", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const t = Activity.make("t", {
        input: Schema.Number,
        success: Schema.Number,
        execute: (x) => Effect.as(trace.note("t"), 2 * x),
        cache: true
      })
      const ep = Entrypoint.make("ep", {
        input: Schema.Array(Schema.Number),
        output: Schema.Array(Schema.Number),
        execute: (xs) => Effect.forEach(xs, t)
      })
      assert.deepStrictEqual(yield* ep.thread("1").invoke([1, 1, 2]), [2, 2, 4])
      assert.strictEqual(trace.entries.length, 2)
      assert.deepStrictEqual(yield* briefly(ep.thread("2").stream([1, 3])), [
        ["activity", "t", 2, "cached"],
        ["activity", "t", 6],
        ["updates", "ep", [2, 6]]
      ])
      assert.strictEqual(trace.entries.length, 3)
      yield* NodeCache.clear("ep", [NodeCache.activity("t")])
      yield* ep.invoke([1])
      assert.strictEqual(trace.entries.length, 4)
    }).pipe(Effect.provide([NodeCache.layerMemory, Checkpointer.layerMemory]))
  )

  it.effect("a hit goes where the result went: commands, sends and branches are replayed", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const graph = Graph.make("g", { foo: log })
        .addWorker("w", Schema.DateFromString, (date) => Effect.succeed({ foo: [date.toISOString().slice(0, 10)] }))
        .addNode(
          "a",
          () =>
            Effect.as(trace.note("a"), [
              Send.make("w", new Date("2026-01-02T00:00:00Z")),
              Command.make({ update: { foo: ["a"] }, goto: "b" })
            ]),
          { goto: ["w", "b"], cache: true }
        )
        .addNode("b", () => Effect.succeed({ foo: ["b"] }))
        .addEdge(START, "a")
        .compile()
      const first = yield* graph.invoke({})
      assert.deepStrictEqual(first, { foo: ["a", "b", "2026-01-02"] })
      assert.deepStrictEqual(yield* graph.invoke({}), first)
      assert.deepStrictEqual(trace.entries, ["a"])
    }).pipe(Effect.provide(NodeCache.layerMemory))
  )

  it.effect("workers are found by what their sends carry", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const graph = Graph.make("g", { foo: log })
        .addWorker("w", Schema.Number, (n) => Effect.as(trace.note(`${n}`), { foo: [`w${n}`] }), { cache: true })
        .addConditionalEdges(START, () => [1, 2, 1].map((n) => Send.make("w", n)), ["w"])
        .compile()
      const expected = { foo: ["w1", "w2", "w1"] }
      assert.deepStrictEqual(yield* graph.invoke({}), expected)
      assert.deepStrictEqual(yield* graph.invoke({}), expected)
      assert.deepStrictEqual(trace.entries, ["1", "2", "1"])
    }).pipe(Effect.provide(NodeCache.layerMemory))
  )

  it.effect("failures and pauses are never kept", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const graph = Graph.make("g", { foo: log })
        .addNode(
          "a",
          () =>
            Effect.gen(function* () {
              yield* trace.note("a")
              if (trace.count("a") === 1) return yield* new Boom()
              yield* Effect.ignore(Interrupt.interrupt("?"))
              return { foo: [`a${trace.count("a")}`] }
            }),
          { cache: true }
        )
        .addEdge(START, "a")
        .compile()
      yield* failsWith(graph.thread("1").invoke({}), "Boom")
      assert.strictEqual((yield* graph.thread("2").run({}))._tag, "Paused")
      assert.deepStrictEqual(yield* graph.thread("2").answer(1), { foo: ["a3"] })
      assert.strictEqual((yield* graph.thread("3").run({}))._tag, "Paused")
      assert.strictEqual(trace.entries.length, 4)
    }).pipe(Effect.provide([NodeCache.layerMemory, Checkpointer.layerMemory]))
  )

  it.effect("a paused task goes on with its answer and not with another thread's result", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { foo: log })
        .addNode("a", () => Effect.map(Interrupt.interrupt<string>("?"), (answer) => ({ foo: [answer] })), {
          cache: true
        })
        .addEdge(START, "a")
        .compile()
      yield* graph.thread("1").run({})
      yield* graph.thread("2").run({})
      assert.deepStrictEqual(yield* graph.thread("1").answer("one"), { foo: ["one"] })
      assert.deepStrictEqual(yield* graph.thread("2").answer("two"), { foo: ["two"] })
    }).pipe(Effect.provide([NodeCache.layerMemory, Checkpointer.layerMemory]))
  )

  it.effect("what must not be saved is not kept: untracked channels, values outside JSON", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const graph = Graph.make("g", {
        secret: Channel.untracked(Schema.String),
        any: Channel.lastValue(Schema.Unknown)
      })
        .addNode("writes", () => Effect.as(trace.note("writes"), { secret: "s" }), { cache: { key: () => 1 } })
        .addNode("reads", () => Effect.as(trace.note("reads"), { any: 1 }), { reads: ["secret"], cache: true })
        .addNode("odd", () => Effect.as(trace.note("odd"), { any: () => 1 }), { cache: { key: () => 1 } })
        .addEdge(START, "writes")
        .addEdge("writes", "reads")
        .addEdge("reads", "odd")
        .compile()
      yield* graph.invoke({})
      yield* graph.invoke({})
      assert.deepStrictEqual(trace.entries, ["writes", "reads", "odd", "writes", "reads", "odd"])
    }).pipe(Effect.provide(NodeCache.layerMemory))
  )

  it.effect("a hit is durable like a result: a sibling's pause does not lose it, and the history shows it", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const graph = Graph.make("g", { foo: log })
        .addNode("a", () => Effect.map(trace.note("a"), () => ({ foo: [`a${trace.count("a")}`] })), {
          cache: { key: () => 1 }
        })
        .addNode("b", () => Effect.map(Interrupt.interrupt<string>("?"), (answer) => ({ foo: [answer] })))
        .addEdge(START, "a")
        .addEdge(START, "b")
        .compile()
      yield* graph.thread("1").run({})
      yield* graph.thread("2").run({})
      yield* NodeCache.clear("g", ["a"])
      const state = yield* graph.thread("2").state
      assert.deepStrictEqual([state.next, state.values], [["b"], { foo: ["a1"] }])
      assert.deepStrictEqual(yield* graph.thread("2").answer("b"), { foo: ["a1", "b"] })
      assert.deepStrictEqual(trace.entries, ["a"])
    }).pipe(Effect.provide([NodeCache.layerMemory, Checkpointer.layerMemory]))
  )

  it.effect("a cache that fails counts as empty", () =>
    Effect.gen(function* () {
      const { graph, trace } = letters()
      yield* graph.invoke({})
      yield* graph.invoke({})
      assert.strictEqual(trace.entries.length, 2)
    }).pipe(
      Effect.provideService(NodeCache.NodeCache, {
        get: () => Effect.fail({ _tag: "NodeCacheError", message: "down" } as never),
        set: () => Effect.fail({ _tag: "NodeCacheError", message: "down" } as never),
        clear: () => Effect.void
      })
    )
  )

  it.effect("entries whose form no longer fits are not used", () =>
    Effect.gen(function* () {
      const make = (schema: Schema.Schema<any, any>, value: unknown) =>
        Graph.make("g", { v: Channel.lastValue(schema) })
          .addNode("a", () => Effect.succeed({ v: value }), { cache: { key: () => 1 } })
          .addEdge(START, "a")
          .addEdge("a", END)
          .compile()
      yield* make(Schema.Number, 1).invoke({})
      assert.deepStrictEqual(yield* make(Schema.String, "one").invoke({}), { v: "one" })
    }).pipe(Effect.provide(NodeCache.layerMemory))
  )

  it.effect("the cache in memory drops what was not used for the longest time", () =>
    Effect.gen(function* () {
      const cache = yield* NodeCache.NodeCache
      const key = (text: string) => ({ graph: "g", node: "n", key: text })
      yield* cache.set({ ...key("a"), value: "1", ttl: undefined })
      yield* cache.set({ ...key("b"), value: "2", ttl: undefined })
      yield* cache.get([key("a")])
      yield* cache.set({ ...key("c"), value: "3", ttl: undefined })
      assert.deepStrictEqual(yield* cache.get(["a", "b", "c"].map(key)), ["1", undefined, "3"])
    }).pipe(Effect.provide(NodeCache.layerMemoryWith({ capacity: 2 })))
  )
})

describe("what depends on an answer is not kept", () => {
  const ask = Interrupt.interrupt<string>("q")
  const asks = Graph.make("asks", { foo: log })
    .addNode("ask", () => Effect.map(ask, (answer) => ({ foo: answer })), { cache: true })
    .addEdge(START, "ask")
    .compile()
  const consult = Activity.make("consult", {
    input: Schema.String,
    success: Schema.String,
    cache: true,
    execute: () => Effect.orDie(ask)
  })
  const shapes = {
    "of a node": asks,
    "of a node with a subgraph": Graph.make("around", { foo: log })
      .addGraph("asks", asks)
      .addEdge(START, "asks")
      .compile(),
    "of a cached node that runs a subgraph": Graph.make("runs", { foo: log })
      .addNode("run", () => Effect.map(asks.invoke({}), ({ foo }) => ({ foo })), { cache: true })
      .addEdge(START, "run")
      .compile(),
    "of an activity": Graph.make("calls", { foo: log })
      .addNode("call", () => Effect.map(consult("x"), (answer) => ({ foo: answer })))
      .addEdge(START, "call")
      .compile()
  }
  for (const [what, graph] of Object.entries(shapes)) {
    it.effect(what, () =>
      Effect.gen(function* () {
        for (const name of ["Ada", "Bob"]) {
          const thread = graph.thread(name)
          assert.strictEqual((yield* thread.run({}))._tag, "Paused")
          assert.deepStrictEqual((yield* thread.answer(name)).foo, [name])
        }
      }).pipe(Effect.provide(NodeCache.layerMemory), Effect.provide(Checkpointer.layerMemory))
    )
  }
})

it.effect("activities that a node calls between its questions are kept", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const double = Activity.make("double", {
      input: Schema.Number,
      success: Schema.Number,
      cache: true,
      execute: (n) => Effect.as(trace.note(`double ${n}`), 2 * n)
    })
    const asks = Entrypoint.make("asks", {
      input: Schema.Array(Schema.Number),
      output: Schema.Array(Schema.Number),
      execute: (list) =>
        Effect.forEach(list, (n) => Effect.tap(double(n), () => Interrupt.interrupt("go on?")), { concurrency: 1 })
    })
    const thread = asks.thread("t")
    yield* thread.run([1, 1, 2, 2, 3, 3])
    for (let i = 0; i < 5; i++) yield* failsWith(thread.answer(true), "GraphInterrupt")
    assert.deepStrictEqual(yield* thread.answer(true), [2, 2, 4, 4, 6, 6])
    assert.deepStrictEqual(trace.entries, ["double 1", "double 2", "double 3"])
  }).pipe(Effect.provide([NodeCache.layerMemory, Checkpointer.layerMemory]))
)

describe("a key that is no JSON value", () => {
  for (const key of [1n, Number.NaN, new Date(0), new Map()]) {
    it.effect(`tells no inputs apart, and fails no run: ${Object.prototype.toString.call(key)}`, () =>
      Effect.gen(function* () {
        const trace = makeTrace()
        const act = Activity.make("act", {
          input: Schema.String,
          success: Schema.String,
          cache: { key: () => key },
          execute: () => Effect.as(trace.note("act"), "done")
        })
        const { graph } = letters(trace, { key: () => key })
        const calls = Graph.make("calls", { foo: log })
          .addNode("call", () => Effect.map(act("x"), (foo) => ({ foo })))
          .addEdge(START, "call")
          .compile()
        for (const _ of [1, 2]) {
          yield* graph.invoke({})
          yield* calls.invoke({})
        }
        assert.deepStrictEqual(trace.entries, ["a", "act", "a", "act"])
      }).pipe(Effect.provide(NodeCache.layerMemory))
    )
  }
})
