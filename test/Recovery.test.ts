import { assert, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as Activity from "../src/Activity.js"
import * as Channel from "../src/Channel.js"
import { Checkpointer, layerMemory } from "../src/Checkpointer.js"
import * as Graph from "../src/Graph.js"
import { CheckpointerError, ThreadConflict } from "../src/GraphError.js"
import { collect, concat, failsWith, failure, log, makeTrace, rows, snapshots, sum } from "./support/thread.js"

const START = Graph.START

class Boom extends Schema.TaggedError<Boom>("Boom")("Boom", { text: Schema.String }) {
  override get message() {
    return this.text
  }
}

it.effect("per-146 a failed task is retried alone, its finished sibling never", () =>
  Effect.gen(function* () {
    for (const durability of ["sync", "async", "exit"] as const) {
      const trace = makeTrace()
      let fixed = false
      const graph = Graph.make("siblings", { value: sum })
        .addNode("one", () => Effect.as(trace.note("one"), { value: 2 }))
        .addNode(
          "two",
          () =>
            Effect.zipRight(trace.note("two"), fixed ? Effect.succeed({ value: 3 }) : new Boom({ text: "two failed" })),
          { retry: Schedule.recurs(1) }
        )
        .addEdge(START, "one")
        .addEdge(START, "two")
        .compile()
      const thread = graph.thread(durability)
      yield* failsWith(thread.invoke({ value: 1 }, { durability }), "Boom")
      assert.deepStrictEqual([trace.count("one"), trace.count("two")], [1, 2])
      const state = yield* thread.state
      assert.deepStrictEqual([state.values, state.next], [{ value: 3 }, ["two"]])
      assert.deepStrictEqual(
        state.tasks.map(({ error, node, result }) => [node, result, error]),
        [
          ["one", { value: 2 }, undefined],
          ["two", undefined, "two failed"]
        ]
      )
      assert.notStrictEqual(state.tasks[0]!.id, state.tasks[1]!.id)
      assert.deepStrictEqual([state.checkpoint!.source, state.checkpoint!.step], ["loop", 0])
      // By its id the checkpoint is told as it was saved.
      const byId = yield* thread.at(state.checkpoint!.id).state
      assert.deepStrictEqual([byId.values, byId.next], [{ value: 1 }, ["one", "two"]])

      const count = (yield* rows(thread)).length
      yield* failsWith(thread.resume({ durability }), "Boom")
      assert.deepStrictEqual([trace.count("one"), trace.count("two")], [1, 4])
      assert.strictEqual((yield* rows(thread)).length, count)
      fixed = true
      assert.deepStrictEqual(yield* thread.resume({ durability }), { value: 6 })
      assert.deepStrictEqual([trace.count("one"), trace.count("two")], [1, 5])
      assert.deepStrictEqual((yield* thread.state).values, { value: 6 })
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-147 a new input after a failure starts again from the stored state", () =>
  Effect.gen(function* () {
    for (const durability of ["sync", "async", "exit"] as const) {
      const graph = Graph.make("steps", { steps: log, attempt: Channel.lastValue(Schema.Number) })
        .addNode("node1", (state) =>
          state.attempt === 1 ? new Boom({ text: "first attempt" }) : Effect.succeed({ steps: ["node1"] })
        )
        .addNode("node2", () => Effect.succeed({ steps: ["node2"] }))
        .addEdge(START, "node1")
        .addEdge("node1", "node2")
        .compile()
      const thread = graph.thread(`a ${durability}`)
      yield* failsWith(thread.invoke({ steps: ["start"], attempt: 1 }, { durability }), "Boom")
      const state = yield* thread.state
      assert.deepStrictEqual([state.values, state.next], [{ steps: ["start"], attempt: 1 }, ["node1"]])
      assert.match(state.tasks[0]!.error!, /first attempt/)
      assert.deepStrictEqual(yield* thread.invoke({ steps: [], attempt: 2 }, { durability }), {
        steps: ["start", "node1", "node2"],
        attempt: 2
      })
      const history = yield* snapshots(thread)
      assert.strictEqual(history.length, durability === "exit" ? 2 : 6)
      assert.strictEqual(history.filter(({ tasks }) => tasks.some(({ error }) => error !== undefined)).length, 1)
    }

    const number = Channel.lastValue(Schema.Number)
    let runs = 0
    const sums = Graph.make("sums", { total: sum, input: number, output: number })
      .addNode(
        "one",
        ({ input = 0, total }) =>
          Effect.gen(function* () {
            if (++runs === 2) return yield* new Boom({ text: "transient" })
            if (total + input > 10) return yield* new Boom({ text: "Input is too large" })
            return { output: total + input, total: total + input }
          }),
        { retry: { schedule: Schedule.recurs(1), while: (error: Boom) => error.text === "transient" } }
      )
      .addEdge(START, "one")
      .compile()
    const thread = sums.thread("b")
    const output = (input: number) => Effect.map(thread.invoke({ input }), (state) => state.output)
    assert.strictEqual(yield* output(2), 2)
    assert.strictEqual(yield* output(3), 5)
    assert.strictEqual(runs, 3)
    assert.strictEqual((yield* thread.state).values.total, 7)
    const error = yield* failsWith(thread.invoke({ input: 4 }), "Boom")
    assert.strictEqual(error.text, "Input is too large")
    const failed = yield* thread.state
    assert.deepStrictEqual([failed.values.total, failed.next], [7, ["one"]])
    assert.deepStrictEqual(
      failed.tasks.map((task) => task.error),
      ["Input is too large"]
    )
    assert.strictEqual(yield* output(2), 9)
    assert.strictEqual((yield* thread.state).values.total, 16)
  }).pipe(Effect.provide(layerMemory))
)

type Service = typeof Checkpointer.Service

/** A checkpointer some of whose operations fail. */
const broken = (operation: "load" | "commit" | "putWrites") =>
  Layer.effect(
    Checkpointer,
    Effect.map(Checkpointer, (saver): Service => {
      const fail = () =>
        Effect.fail(new CheckpointerError({ operation, reason: "Unavailable", detail: `${operation} is broken` }))
      return operation === "commit" ? { ...saver, commit: fail, write: fail } : { ...saver, [operation]: fail }
    })
  ).pipe(Layer.provide(layerMemory))

it.effect("per-148 failures of the storage, of encoding and of reducers fail the run, from each entry point", () =>
  Effect.gen(function* () {
    const graph = Graph.make("fails", { value: sum })
      .addNode("one", () => Effect.succeed({ value: 1 }))
      .addNode("slow", () => Effect.as(Effect.yieldNow(), { value: 1 }))
      .addEdge(START, "one")
      .addEdge(START, "slow")
      .compile()
    for (const operation of ["load", "commit", "putWrites"] as const) {
      for (const durability of ["sync", "async", "exit"] as const) {
        // With exit nothing is written before the end, and all of it at once.
        if (operation === "putWrites" && durability === "exit") continue
        const thread = graph.thread("t")
        const layer = Layer.fresh(broken(operation))
        const invoked = yield* failsWith(thread.invoke({ value: 0 }, { durability }), "CheckpointerError").pipe(
          Effect.provide(layer)
        )
        assert.strictEqual(invoked.detail, `${operation} is broken`, `${operation} ${durability}`)
        const streamed = yield* failsWith(
          Stream.runDrain(thread.stream({ value: 0 }, { durability })),
          "CheckpointerError"
        ).pipe(Effect.provide(layer))
        assert.strictEqual(streamed.detail, `${operation} is broken`, `${operation} ${durability}`)
      }
    }
    const refusing = Graph.make("reducer", {
      value: Channel.reduce(Schema.Number, {
        initial: () => 0,
        reducer: (a, b) => {
          if (b === 13) throw new Error("unlucky")
          return a + b
        }
      }),
      strange: Channel.lastValue(Schema.Unknown)
    })
      .addNode("one", ({ value }) => Effect.succeed(value === 1 ? { value: 13 } : { strange: () => 1 }))
      .addEdge(START, "one")
      .compile()
    const reduced = yield* failsWith(refusing.thread("r").invoke({ value: 1 }), "InvalidUpdate")
    assert.deepStrictEqual([reduced.reason, reduced.channel, reduced.node], ["ReducerFailed", "value", "one"])
    const reducedStream = yield* failsWith(Stream.runDrain(refusing.thread("rs").stream({ value: 1 })), "InvalidUpdate")
    assert.strictEqual(reducedStream.reason, "ReducerFailed")
    const encoded = yield* failsWith(refusing.thread("e").invoke({ value: 2 }), "InvalidUpdate")
    assert.deepStrictEqual([encoded.reason, encoded.channel, encoded.node], ["NotEncodable", "strange", "one"])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-150 if an error handler crashes, a resume runs the handler again, not the node", () =>
  Effect.gen(function* () {
    for (const durability of ["sync", "async", "exit"] as const) {
      const trace = makeTrace()
      let crashes = 1
      const seen: Array<string> = []
      const graph = Graph.make("handled", { foo: concat })
        .addNode("fail", () => Effect.zipRight(trace.note("node"), new Boom({ text: "boom" })), {
          onError: (error) =>
            Effect.gen(function* () {
              yield* trace.note("handler")
              seen.push(`${error._tag}: ${error.message}`)
              if (crashes-- > 0) return yield* Effect.die(new Error("handler crash"))
              return { foo: "recovered" }
            })
        })
        .addEdge(START, "fail")
        .compile()
      const thread = graph.thread(`one ${durability}`)
      const exit = yield* Effect.exit(thread.invoke({ foo: "" }, { durability }))
      assert.isTrue(exit._tag === "Failure" && String(exit.cause).includes("handler crash"))
      assert.deepStrictEqual([trace.count("node"), trace.count("handler")], [1, 1])
      assert.deepStrictEqual(yield* thread.resume({ durability }), { foo: "recovered" })
      assert.deepStrictEqual([trace.count("node"), trace.count("handler")], [1, 2])
      // After a reload the failure is told by tag and message.
      assert.deepStrictEqual(seen, ["Boom: boom", "Boom: boom"])

      trace.take()
      const crash = new Set(["handler_a", "handler_b"])
      const node = (name: string, delay: string) => () =>
        Effect.zipRight(Effect.zipRight(trace.note(name), Effect.sleep(delay as "1 second")), new Boom({ text: name }))
      const handler = (name: string) => () =>
        Effect.gen(function* () {
          yield* trace.note(name)
          if (crash.delete(name)) {
            yield* Effect.sleep("10 seconds")
            return yield* Effect.die(new Error(`${name} crash`))
          }
          return { foo: `[${name}]` }
        })
      const two = Graph.make("two", { foo: concat })
        .addNode("node_a", node("node_a", "1 second"), { onError: handler("handler_a") })
        .addNode("node_b", node("node_b", "2 seconds"), { onError: handler("handler_b") })
        .addEdge(START, "node_a")
        .addEdge(START, "node_b")
        .compile()
        .thread(`two ${durability}`)
      const fiber = yield* Effect.fork(Effect.exit(two.invoke({ foo: "" }, { durability })))
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "Failure")
      crash.clear()
      assert.deepStrictEqual(yield* two.resume({ durability }), { foo: "[handler_a][handler_b]" })
      assert.deepStrictEqual(["node_a", "node_b", "handler_a", "handler_b"].map(trace.count), [1, 1, 2, 2], durability)
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-151 the step limit leaves the thread at its last checkpoint, and a resume has the same limit", () =>
  Effect.gen(function* () {
    const graph = Graph.make("loop", { value: sum })
      .addNode("n", () => Effect.succeed({ value: 1 }))
      .addEdge(START, "n")
      .addConditionalEdges("n", ({ value }) => (value < 6 ? "n" : Graph.END), ["n", Graph.END])
      .compile()
    const thread = graph.thread("t")
    const error = yield* failsWith(thread.invoke({ value: 0 }, { recursionLimit: 3 }), "GraphRecursion")
    assert.strictEqual(error.limit, 3)
    const state = yield* thread.state
    assert.deepStrictEqual([state.values, state.next], [{ value: 3 }, ["n"]])
    assert.deepStrictEqual([state.checkpoint!.source, state.checkpoint!.step], ["loop", 3])
    // Three more supersteps are what is left, and a limit counts those that run.
    assert.deepStrictEqual(yield* thread.resume({ recursionLimit: 3 }), { value: 6 })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-152 a failed activity can be caught, and the node goes on", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const task = Activity.make("my_task", {
      input: Schema.Number,
      success: Schema.Number,
      execute: (n) => Effect.as(trace.note("my_task"), n + 1)
    })
    const bad = Activity.make("task_with_exception", {
      input: Schema.Number,
      success: Schema.Number,
      error: Boom,
      execute: () => Effect.zipRight(trace.note("bad"), new Boom({ text: "bad" }))
    })
    const graph = Graph.make("workflow", { result: Channel.lastValue(Schema.String) })
      .addNode("entry", () =>
        Effect.gen(function* () {
          yield* task(1)
          const caught = yield* Effect.either(bad(1))
          assert.isTrue(Either.isLeft(caught))
          yield* task(1)
          return { result: "done" }
        })
      )
      .addEdge(START, "entry")
      .compile()
    const thread = graph.thread("t")
    const events = yield* collect(thread.stream({}))
    assert.deepStrictEqual(
      events.map((event) =>
        event._tag === "Updates"
          ? [event.node, event.update]
          : event._tag === "ActivityEnded"
            ? [event.activity, event.value]
            : event
      ),
      [
        ["my_task", 2],
        ["my_task", 2],
        ["entry", { result: "done" }]
      ]
    )
    assert.deepStrictEqual(trace.entries, ["my_task", "bad", "my_task"])
  }).pipe(Effect.provide(layerMemory))
)

// ---------------------------------------------------------------------------------------------------------------------
// decisions 12 and 13
// ---------------------------------------------------------------------------------------------------------------------

it.effect("a step whose writes conflict leaves the thread usable, and a fixed graph goes on from it", () =>
  Effect.gen(function* () {
    for (const durability of ["sync", "async", "exit"] as const) {
      const trace = makeTrace()
      const make = (second: "value" | "other") =>
        Graph.make("conflict", {
          value: Channel.lastValue(Schema.String),
          other: Channel.lastValue(Schema.String),
          log
        })
          .addNode("a", () => Effect.as(trace.note("a"), { value: "a" }))
          .addNode("b", () => Effect.as(trace.note("b"), { [second]: "b" } as { value?: string; other?: string }))
          .addNode("c", () => Effect.as(trace.note("c"), { log: ["c"] }))
          .addEdge(START, "a")
          .addEdge(START, "b")
          .addEdge(START, "c")
          .compile()
      const thread = make("value").thread(durability)
      const error = yield* failsWith(thread.invoke({}, { durability }), "InvalidUpdate")
      assert.deepStrictEqual([error.reason, error.channel, error.node], ["ConcurrentUpdate", "value", "a, b"])
      const state = yield* thread.state
      assert.deepStrictEqual(state.next, ["a", "b"])
      assert.deepStrictEqual(state.values, { log: ["c"] })
      assert.isAtLeast((yield* rows(thread)).length, 1)
      yield* failsWith(thread.resume({ durability }), "InvalidUpdate")
      // The sibling that had no part in it is not run again.
      assert.deepStrictEqual(yield* make("other").thread(durability).resume({ durability }), {
        value: "a",
        other: "b",
        log: ["c"]
      })
      assert.deepStrictEqual(["a", "b", "c"].map(trace.count), [3, 3, 1])
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("after a conflict a new input goes on from the state before it", () =>
  Effect.gen(function* () {
    let both = true
    const graph = Graph.make("conflict", { value: Channel.lastValue(Schema.String), log })
      .addNode("a", () => Effect.succeed({ value: "a" }))
      .addNode("b", () => Effect.succeed(both ? { value: "b" } : { log: ["b"] }))
      .addEdge(START, "a")
      .addEdge(START, "b")
      .compile()
    const thread = graph.thread("t")
    yield* failsWith(thread.invoke({ log: ["in"] }), "InvalidUpdate")
    both = false
    assert.deepStrictEqual(yield* thread.invoke({ log: ["again"] }), { value: "a", log: ["in", "again", "b"] })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("a failing task interrupts its siblings and waits for their finalizers; what had finished is kept", () =>
  Effect.gen(function* () {
    for (const durability of ["sync", "async", "exit"] as const) {
      const trace = makeTrace()
      const gate = yield* Deferred.make<void>()
      let fixed = false
      const graph = Graph.make("siblings", { value: log })
        .addNode("quick", () => Effect.as(trace.note("quick"), { value: ["quick"] }))
        .addNode("slow", () =>
          Effect.as(
            Effect.zipRight(
              trace.note("slow"),
              fixed
                ? Effect.void
                : Effect.onInterrupt(Effect.zipRight(Deferred.succeed(gate, undefined), Effect.never), () =>
                    Effect.zipRight(Effect.sleep("5 seconds"), trace.note("released"))
                  )
            ),
            { value: ["slow"] }
          )
        )
        .addNode("zz_bad", () =>
          Effect.zipRight(
            Effect.zipRight(trace.note("bad"), Deferred.await(gate)),
            fixed ? Effect.succeed({ value: ["bad"] }) : new Boom({ text: "bad" })
          )
        )
        .addEdge(START, "quick")
        .addEdge(START, "slow")
        .addEdge(START, "zz_bad")
        .compile()
      const thread = graph.thread(durability)
      const fiber = yield* Effect.fork(failure(thread.invoke({ value: [] }, { durability })))
      yield* TestClock.adjust("4 seconds")
      assert.isNull(fiber.unsafePoll())
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "Boom")
      assert.deepStrictEqual(trace.take().sort(), ["bad", "quick", "released", "slow"])
      const state = yield* thread.state
      assert.deepStrictEqual([state.values, state.next], [{ value: ["quick"] }, ["slow", "zz_bad"]])
      assert.deepStrictEqual(
        state.tasks.map(({ error, node }) => [node, error]),
        [
          ["quick", undefined],
          ["slow", undefined],
          ["zz_bad", "bad"]
        ]
      )
      fixed = true
      assert.deepStrictEqual(yield* thread.resume({ durability }), { value: ["quick", "slow", "bad"] })
      assert.deepStrictEqual(trace.take().sort(), ["bad", "slow"])
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("defects of nodes fail the run as they are, and the thread stays usable", () =>
  Effect.gen(function* () {
    let fixed = false
    const graph = Graph.make("defect", { value: sum })
      .addNode("node", () => {
        if (!fixed) throw new Error("thrown, not returned")
        return Effect.succeed({ value: 1 })
      })
      .addEdge(START, "node")
      .compile()
    const thread = graph.thread("t")
    const exit = yield* Effect.exit(thread.invoke({ value: 1 }))
    assert.isTrue(exit._tag === "Failure" && String(exit.cause).includes("thrown, not returned"))
    assert.deepStrictEqual((yield* thread.state).tasks[0]!.error, "thrown, not returned")
    fixed = true
    assert.deepStrictEqual(yield* thread.resume(), { value: 2 })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("a writer whose head was moved by another fails with ThreadConflict and loses nothing of the other's", () =>
  Effect.gen(function* () {
    for (const durability of ["sync", "async", "exit"] as const) {
      const gate = yield* Deferred.make<void>()
      const started = yield* Deferred.make<void>()
      const graph = Graph.make("race", { value: log })
        .addNode("node", ({ value }) =>
          value.includes("slow")
            ? Effect.as(Effect.zipRight(Deferred.succeed(started, undefined), Deferred.await(gate)), {
                value: ["lost"]
              })
            : Effect.succeed({ value: ["kept"] })
        )
        .addNode("after", () => Effect.void)
        .addEdge(START, "node")
        .addEdge("node", "after")
        .compile()
      const saver = yield* Checkpointer
      const thread = graph.thread(durability)
      // Another process has another checkpointer on the same storage: only the compare-and-set keeps them apart.
      const elsewhere = Effect.provideService(Checkpointer, { ...saver })
      const slow = yield* Effect.fork(Effect.either(thread.invoke({ value: ["slow"] }, { durability })))
      yield* Deferred.await(started)
      yield* elsewhere(thread.invoke({ value: Channel.overwrite(["other"]) }, { durability: "sync" }))
      yield* Deferred.succeed(gate, undefined)
      const result = yield* Fiber.join(slow)
      assert.isTrue(Either.isLeft(result) && result.left instanceof ThreadConflict, durability)
      assert.deepStrictEqual((yield* thread.state).values, { value: ["other", "kept"] })
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("runs on one thread refuse each other by default, or wait for their turn", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const graph = Graph.make("busy", { value: sum })
      .addNode("node", ({ value }) =>
        Effect.zipRight(trace.note(`from ${value}`), Effect.as(Effect.sleep("1 second"), { value: 10 }))
      )
      .addEdge(START, "node")
      .compile()
    const thread = graph.thread("t")
    const first = yield* Effect.fork(thread.invoke({ value: 1 }))
    yield* Effect.yieldNow()
    const busy = yield* failsWith(graph.thread("t").invoke({ value: 2 }), "ThreadBusy")
    assert.strictEqual(busy.thread, "t")
    yield* failsWith(thread.update({ value: 1 }), "ThreadBusy")
    // Another thread does not mind.
    const other = yield* Effect.fork(graph.thread("u").invoke({ value: 0 }))
    const second = yield* Effect.fork(graph.thread("t").invoke({ value: 2 }, { multitask: "enqueue" }))
    const third = yield* Effect.fork(graph.thread("t").invoke({ value: 3 }, { multitask: "enqueue" }))
    yield* TestClock.adjust("1 second")
    assert.deepStrictEqual(yield* Fiber.join(first), { value: 11 })
    assert.deepStrictEqual(yield* Fiber.join(other), { value: 10 })
    yield* TestClock.adjust("2 seconds")
    assert.deepStrictEqual(yield* Fiber.join(second), { value: 23 })
    assert.deepStrictEqual(yield* Fiber.join(third), { value: 36 })
    assert.deepStrictEqual(trace.entries, ["from 1", "from 0", "from 13", "from 26"])
    // Whoever waits may leave, and the line goes on.
    const running = yield* Effect.fork(thread.invoke({ value: 0 }))
    yield* Effect.yieldNow()
    const leaves = yield* Effect.fork(thread.invoke({ value: 1000 }, { multitask: "enqueue" }))
    yield* Effect.yieldNow()
    yield* Fiber.interrupt(leaves)
    yield* TestClock.adjust("1 second")
    yield* Fiber.join(running)
    assert.deepStrictEqual((yield* thread.state).values, { value: 46 })
    const after = yield* Effect.fork(thread.invoke({ value: 0 }))
    yield* TestClock.adjust("1 second")
    assert.deepStrictEqual(yield* Fiber.join(after), { value: 56 })
  }).pipe(Effect.provide(layerMemory))
)
