import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Stream } from "effect"
import { Checkpointer, Graph, Interrupt, Thread } from "effect-pregel"
import { names, says } from "./support/graphs.js"
import { collect } from "./support/thread.js"

describe("a graph that is streamed inside a node", () => {
  const child = Graph.make("child", names)
    .addNode("first", says("first"))
    .addNode("ask", () => Effect.map(Interrupt.interrupt<string>("q"), (answer) => ({ foo: answer })))
    .addEdge(Graph.START, "first")
    .addEdge("first", "ask")
    .compile()
  const told = (child: { readonly namespace: ReadonlyArray<string>; readonly _tag: string }) =>
    `${child.namespace.length}${child._tag}`

  it.effect("is a subgraph of it: its pause is the node's, and it goes on where it was", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const graph = Graph.make("g", names)
        .addNode("node", () =>
          child.stream({}, { modes: ["updates", "values"] }).pipe(
            Stream.tap((event) => Effect.sync(() => seen.push(told(event)))),
            Stream.filterMap((event) => (event._tag === "Values" ? Option.some(event.state) : Option.none())),
            Stream.runLast,
            Effect.map((last) => ({ foo: Option.getOrThrow(last).foo }))
          )
        )
        .addEdge(Graph.START, "node")
        .compile()
      const thread = graph.thread("t")
      const events = yield* collect(thread.stream({}, { modes: ["updates"] }))
      assert.deepStrictEqual(events.map(told), ["0Interrupted"])
      assert.deepStrictEqual(
        (yield* thread.state).interrupts.map(({ value }) => value),
        ["q"]
      )
      assert.deepStrictEqual(seen.splice(0), ["0Updates", "0Values", "0Interrupted", "0Values"])
      const more = yield* collect(
        thread.resumeStream(Thread.answer("yes"), { modes: ["updates", "values"], subgraphs: true })
      )
      assert.deepStrictEqual(seen, ["0Values", "0Updates", "0Values"])
      assert.deepStrictEqual(more.map(told), ["0Values", "1Values", "1Updates", "1Values", "0Updates", "0Values"])
      assert.deepStrictEqual((yield* thread.state).values, { foo: ["first", "yes"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("can't be swallowed either", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("node", () => Effect.as(Effect.ignore(Stream.runDrain(child.stream({}))), { foo: "swallowed" }))
        .addEdge(Graph.START, "node")
        .compile()
      assert.strictEqual((yield* graph.thread("t").run({}))._tag, "Paused")
      assert.strictEqual((yield* graph.run({}))._tag, "Paused")
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("is stopped when its reader leaves, and the node goes on", () =>
    Effect.gen(function* () {
      let stopped = false
      const endless = Graph.make("endless", names)
        .addNode("first", says("first"))
        .addNode("never", () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => (stopped = true))))
        .addEdge(Graph.START, "first")
        .addEdge("first", "never")
        .compile()
      const graph = Graph.make("g", names)
        .addNode("node", () =>
          Effect.map(collect(Stream.take(endless.stream({}), 1)), (events) => ({ foo: String(events.length) }))
        )
        .addEdge(Graph.START, "node")
        .compile()
      assert.deepStrictEqual((yield* graph.thread("t").invoke({})).foo, ["1"])
      assert.isTrue(stopped)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})
