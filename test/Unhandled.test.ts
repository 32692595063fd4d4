/** What stops a run is no failure of a node: whatever the node does with it, the run stops. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { Activity, Checkpointer, Graph, Interrupt } from "effect-pregel"
import * as GraphTest from "effect-pregel/GraphTest"
import { names, says } from "./support/graphs.js"
import { failsWith, makeTrace } from "./support/thread.js"

const inMemory = Effect.provide(Checkpointer.layerMemory)

type Work = Effect.Effect<unknown, any, any>

/** What nodes do with failures. */
const ways: Record<string, (work: Work) => Work> = {
  "that passes it on": (work) => work,
  "that catches everything": Effect.catchAllCause(() => Effect.void),
  "that takes its exit": Effect.exit,
  "that retries": Effect.retry(Schedule.recurs(2)),
  "that races it": (work) => Effect.raceFirst(Effect.ignore(work), Effect.never),
  "that calls it in parallel": (work) => Effect.ignore(Effect.all([work, Effect.void], { concurrency: 2 })),
  "that calls it without interruption": (work) => Effect.uninterruptible(Effect.ignore(work))
}

describe("a drain inside a subgraph stops the graph around it", () => {
  for (const [way, treat] of Object.entries(ways)) {
    it.effect(`in a node ${way}`, () =>
      Effect.gen(function* () {
        const trace = makeTrace()
        const control = Graph.makeControl()
        const child = Graph.make("child", names)
          .addNode("first", () =>
            Effect.as(Effect.zipRight(trace.note("first"), Effect.sync(control.requestDrain)), { foo: "first" })
          )
          .addNode("second", says("second"))
          .addEdge(Graph.START, "first")
          .addEdge("first", "second")
          .compile()
        const thread = Graph.make("g", names)
          .addNode("node", () => Effect.as(treat(child.invoke({})), { foo: "node" }), {
            retry: Schedule.recurs(2),
            onError: () => Effect.as(trace.note("handled"), { foo: "handled" })
          })
          .addNode("sibling", () => Effect.as(trace.note("sibling"), { foo: "sibling" }))
          .addNode("slow", () => Effect.as(Effect.repeatN(Effect.yieldNow(), 20), { foo: "slow" }))
          .addEdge(Graph.START, "node")
          .addEdge(Graph.START, "sibling")
          .addEdge(Graph.START, "slow")
          .compile()
          .thread("t")
        const drained = yield* failsWith(thread.run({}, { control }), "GraphDrained")
        assert.deepStrictEqual(drained.next, ["second"])
        const { next, tasks, values } = yield* thread.state
        assert.deepStrictEqual(next, ["node"])
        assert.deepStrictEqual(values, { foo: ["sibling", "slow"] })
        assert.isUndefined(tasks[0]!.error)
        assert.deepStrictEqual((yield* thread.resume()).foo, ["node", "sibling", "slow"])
        assert.deepStrictEqual(Array.from(trace.entries).sort(), ["first", "sibling"])
      }).pipe(inMemory)
    )
  }

  it.effect("and the question of another subgraph of the node is kept", () =>
    Effect.gen(function* () {
      const control = Graph.makeControl()
      const asks = Graph.make("asks", names)
        .addNode("ask", () => Effect.map(Interrupt.interrupt<string>("q"), (answer) => ({ foo: answer })))
        .addEdge(Graph.START, "ask")
        .compile()
      const drains = Graph.make("drains", names)
        .addNode("first", () => Effect.as(Effect.sync(control.requestDrain), { foo: "first" }))
        .addNode("second", says("second"))
        .addEdge(Graph.START, "first")
        .addEdge("first", "second")
        .compile()
      const thread = Graph.make("g", names)
        .addNode("node", () =>
          Effect.map(
            Effect.all([asks.invoke({}), drains.invoke({})], { concurrency: 2, mode: "either" }),
            ([a, b]) => ({
              foo: [...(a._tag === "Right" ? a.right.foo : []), ...(b._tag === "Right" ? b.right.foo : [])]
            })
          )
        )
        .addEdge(Graph.START, "node")
        .compile()
        .thread("t")
      yield* failsWith(thread.run({}, { control }), "GraphDrained")
      assert.deepStrictEqual(
        (yield* thread.state).interrupts.map(({ value }) => value),
        ["q"]
      )
      assert.deepStrictEqual((yield* thread.answer("yes")).foo, ["yes", "first", "second"])
    }).pipe(inMemory)
  )
})

describe("a save that fails ends the run", () => {
  const charge = Activity.make("charge", {
    input: Schema.Number,
    success: Schema.String,
    execute: (cents) => Effect.succeed(`charged ${cents}`)
  })
  const child = Graph.make("child", names)
    .addNode("first", says("first"))
    .addNode("second", says("second"))
    .addEdge(Graph.START, "first")
    .addEdge("first", "second")
    .compile()

  const works: Record<string, readonly [work: () => Work, broken: (call: GraphTest.Call) => boolean]> = {
    "of an activity": [() => charge(5), ({ operation }) => operation === "putWrites"],
    "of a subgraph": [() => child.invoke({}), ({ nth, operation }) => operation === "append" && nth === 3]
  }

  for (const [what, [work, broken]] of Object.entries(works)) {
    for (const [way, treat] of Object.entries(ways)) {
      it.effect(`${what} in a node ${way}`, () => {
        const trace = makeTrace()
        let repaired = false
        const faults = GraphTest.faults((call) => (!repaired && broken(call) ? { _tag: "Fail" } : undefined))
        return Effect.gen(function* () {
          const thread = Graph.make("g", names)
            .addNode("node", () => Effect.as(treat(work()), { foo: "node" }), {
              onError: () => Effect.as(trace.note("handled"), { foo: "handled" })
            })
            .addNode("after", () => Effect.as(trace.note("after"), { foo: "after" }))
            .addEdge(Graph.START, "node")
            .addEdge("node", "after")
            .compile()
            .thread("t")
          yield* failsWith(thread.run({}), "CheckpointerError")
          assert.deepStrictEqual(trace.entries, [])
          repaired = true
          assert.deepStrictEqual((yield* thread.resume()).foo, ["node", "after"])
          assert.deepStrictEqual(trace.entries, ["after"])
        }).pipe(Effect.provide(faults(Checkpointer.layerMemory)))
      })
    }
  }
})

describe("a failure that no handler gets", () => {
  it.effect("is not handed to it by a resume either", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      let question: unknown = 1n
      const thread = Graph.make("g", names)
        .addNode(
          "node",
          () =>
            Effect.map(
              Effect.suspend(() => Interrupt.interrupt<string>(question)),
              (foo) => ({ foo })
            ),
          {
            onError: () => Effect.as(trace.note("handled"), { foo: "handled" })
          }
        )
        .addEdge(Graph.START, "node")
        .compile()
        .thread("t")
      yield* failsWith(thread.run({}), "InvalidUpdate")
      question = "q"
      yield* failsWith(thread.resume(), "GraphInterrupt")
      assert.deepStrictEqual((yield* thread.answer("yes")).foo, ["yes"])
      assert.deepStrictEqual(trace.entries, [])
    }).pipe(inMemory)
  )
})
