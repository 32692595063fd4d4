import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as Channel from "../src/Channel.js"
import { layerMemory } from "../src/Checkpointer.js"
import * as Graph from "../src/Graph.js"
import type { GraphEvent } from "../src/GraphEvent.js"
import * as Interrupt from "../src/Interrupt.js"
import * as Task from "../src/Task.js"
import { collect, concat, failsWith, log, questions, snapshots } from "./support/thread.js"

const START = Graph.START

class Boom extends Schema.TaggedError<Boom>("Boom")("Boom", { text: Schema.String }) {
  override get message() {
    return this.text
  }
}

it.effect(
  "per-170 a task's start says what it runs on; the run's metadata is told with its checkpoints, as it was",
  () =>
    Effect.gen(function* () {
      const metadata: Record<string, unknown> = { user: "u", nested: { tags: ["a"] } }
      const graph = Graph.make("meta", { value: log })
        .addNode("node", () =>
          Effect.sync(() => {
            ;(metadata.nested as { tags: Array<string> }).tags.push("changed during the run")
            metadata.user = "changed during the run"
            return { value: ["n"] }
          })
        )
        .addEdge(START, "node")
        .compile()
      const thread = graph.thread("t")
      const events = yield* collect(thread.stream({ value: ["in"] }, { modes: ["debug"], metadata }))
      const starts = events.filter(({ _tag }) => _tag === "TaskStarted")
      assert.deepStrictEqual(
        starts.map((event) => Object.keys(event).sort()),
        [["_tag", "id", "input", "namespace", "node", "step", "triggers"]]
      )
      const told = events.flatMap((event) => (event._tag === "Checkpointed" ? [event.metadata] : []))
      const kept = { user: "u", nested: { tags: ["a"] } }
      assert.deepStrictEqual(told, [kept, kept, kept])
      assert.deepStrictEqual(
        (yield* snapshots(thread)).map((row) => row.metadata),
        [kept, kept, kept]
      )
    }).pipe(Effect.provide(layerMemory))
)

it.effect("per-171 events of each subgraph can be told apart by their namespace, while they happen", () =>
  Effect.gen(function* () {
    const child = (name: string, fails: boolean) =>
      Graph.make(name, { items: log })
        .addNode("one", () => Effect.as(Effect.sleep("1 second"), { items: [`${name} one`] }))
        .addNode("two", () => (fails ? new Boom({ text: "child boom" }) : Effect.succeed({ items: [`${name} two`] })))
        .addEdge(START, "one")
        .addEdge("one", "two")
        .compile()
    const graph = (fails: boolean) =>
      Graph.make("outer", { items: log })
        .addGraph("one", child("first", false))
        .addGraph("two", child("second", fails))
        .addEdge(START, "one")
        .addEdge("one", "two")
        .compile()
    const seen: Array<readonly [string, GraphEvent["_tag"]]> = []
    const watch = (fails: boolean) =>
      Stream.runForEach(graph(fails).stream({ items: [] }, { modes: ["tasks"], subgraphs: true }), (event) =>
        Effect.sync(() => {
          const path = event.namespace.map((segment) => segment.split(":")[0]).join("|")
          seen.push([`${path}/${event.node}`, event._tag])
        })
      )
    const fiber = yield* Effect.fork(watch(false))
    yield* TestClock.adjust("1 second")
    // The first child's whole run is told before the second one's ends.
    assert.deepStrictEqual(
      seen.filter(([, tag]) => tag === "TaskEnded").map(([name]) => name),
      ["one/one", "one/two", "/one"]
    )
    yield* TestClock.adjust("1 second")
    yield* Fiber.join(fiber)
    assert.deepStrictEqual(
      seen.filter(([, tag]) => tag === "TaskEnded").map(([name]) => name),
      ["one/one", "one/two", "/one", "two/one", "two/two", "/two"]
    )
    const failing = yield* Effect.fork(failsWith(watch(true), "Boom"))
    yield* TestClock.adjust("2 seconds")
    assert.strictEqual((yield* Fiber.join(failing)).text, "child boom")
  })
)

it.effect("per-172 a run is an effect of its outcome and a stream of its events", () =>
  Effect.gen(function* () {
    const state = { value: concat, items: log }
    const graph = Graph.make("run", state, { events: Schema.String })
      .addNode("node_a", () => Effect.as(Task.emit("from a"), { value: "A", items: ["a"] }))
      .addNode("node_b", () => Effect.succeed({ value: "B", items: ["b"] }))
      .addEdge(START, "node_a")
      .addEdge("node_a", "node_b")
      .compile()
    const expected = { value: "xAB", items: ["a", "b"] }
    assert.deepStrictEqual(yield* graph.invoke({ value: "x" }), expected)
    assert.deepStrictEqual(yield* graph.run({ value: "x" }), { _tag: "Completed", state: expected })
    const values = yield* collect(graph.stream({ value: "x" }, { modes: ["values"] }))
    assert.deepStrictEqual(values.at(-1)!.state, expected)
    // Nothing is produced that nobody asked for.
    assert.isTrue(values.every(({ _tag }) => _tag === "Values"))
    const custom = yield* collect(graph.stream({ value: "x" }, { modes: ["custom"] }))
    assert.deepStrictEqual(
      custom.map(({ value }) => value),
      ["from a"]
    )
    const failing = Graph.make("failing", state)
      .addNode("node", () => new Boom({ text: "boom" }))
      .addEdge(START, "node")
      .compile()
    for (const effect of [
      failing.invoke({}),
      failing.run({}),
      Stream.runDrain(failing.stream({})),
      Stream.runDrain(failing.stream({}, { modes: ["values"] }))
    ] as ReadonlyArray<Effect.Effect<unknown, Boom>>) {
      assert.strictEqual((yield* failsWith(effect, "Boom")).text, "boom")
    }
    const asking = Graph.make("asking", { value: Channel.lastValue(Schema.String) })
      .addNode("node", () => Effect.map(Interrupt.interrupt<string>("q"), (value) => ({ value })))
      .addEdge(START, "node")
      .compile()
    assert.deepStrictEqual(questions(yield* asking.run({})), ["q"])
    // Stopping twice is stopping once.
    const long = Graph.make("long", { value: log })
      .addNode("node", () => Effect.never)
      .addEdge(START, "node")
      .compile()
    const fiber = yield* Effect.fork(long.invoke({}))
    yield* Effect.yieldNow()
    const first = yield* Fiber.interrupt(fiber)
    assert.deepStrictEqual(yield* Fiber.interrupt(fiber), first)
  })
)
