import { assert, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as Activity from "../src/Activity.js"
import * as Channel from "../src/Channel.js"
import { Checkpointer, layerMemory } from "../src/Checkpointer.js"
import * as Graph from "../src/Graph.js"
import * as Interrupt from "../src/Interrupt.js"
import * as Task from "../src/Task.js"
import { concat, failsWith, log, makeTrace, questions, rows, sum } from "./support/thread.js"

const START = Graph.START

class Bad extends Schema.TaggedError<Bad>("Bad")("Bad", {}) {}

const modes = ["sync", "async", "exit"] as const

/** Sleeps, and notes how that ended. */
const sleeper = (trace: ReturnType<typeof makeTrace>, name: string, time: "1 second" | "600 millis" | "1500 millis") =>
  Effect.zipRight(
    trace.note(`${name} started`),
    Effect.onExit(Effect.sleep(time), (exit) =>
      trace.note(Exit.isInterrupted(exit) ? `${name} cancelled` : `${name} ended`)
    )
  )

it.effect("per-175 an outer timeout and a failing sibling cancel running nodes", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const alone = Graph.make("alone", { hello: concat })
      .addNode("agent", () => Effect.as(sleeper(trace, "agent", "1 second"), { hello: "!" }))
      .addEdge(START, "agent")
      .compile()
    const limited = yield* Effect.fork(failsWith(Effect.timeout(alone.invoke({}), "500 millis"), "TimeoutException"))
    yield* TestClock.adjust("500 millis")
    yield* Fiber.join(limited)
    assert.deepStrictEqual(trace.take(), ["agent started", "agent cancelled"])

    const two = Graph.make("two", { hello: concat })
      .addNode("agent", () => Effect.as(sleeper(trace, "agent", "1 second"), { hello: "!" }))
      .addNode("bad", () => new Bad())
      .addEdge(START, "agent")
      .addEdge(START, "bad")
      .compile()
    for (const run of [two.invoke({}), Effect.timeout(two.invoke({}), "500 millis")]) {
      // No time passes: the failure itself cancels the sibling.
      yield* failsWith(run, "Bad")
      assert.deepStrictEqual(trace.take(), ["agent started", "agent cancelled"])
    }
  })
)

it.effect("per-176 closing the stream stops the run and keeps finished work", () =>
  Effect.gen(function* () {
    for (const durability of modes) {
      const trace = makeTrace()
      const graph = Graph.make("closed", { value: sum })
        .addNode("alittlewhile", () => Effect.as(sleeper(trace, "alittlewhile", "600 millis"), { value: 2 }))
        .addNode("aparallelwhile", () => Effect.as(sleeper(trace, "aparallelwhile", "1500 millis"), { value: 5 }))
        .addNode("awhile", () => Effect.as(trace.note("awhile started"), { value: 3 }))
        .addEdge(START, "alittlewhile")
        .addEdge(START, "aparallelwhile")
        .addEdge("alittlewhile", "awhile")
        .compile()
      const thread = graph.thread(durability)
      const reader = yield* Effect.fork(Stream.runCollect(Stream.take(thread.stream({ value: 1 }, { durability }), 1)))
      yield* TestClock.adjust("600 millis")
      const [chunk] = Chunk.toReadonlyArray(yield* Fiber.join(reader))
      assert.deepStrictEqual(chunk?._tag === "Updates" && [chunk.node, chunk.update], ["alittlewhile", { value: 2 }])
      // The stream does not end before the cancelled node has.
      assert.deepStrictEqual(trace.entries, [
        "alittlewhile started",
        "aparallelwhile started",
        "alittlewhile ended",
        "aparallelwhile cancelled"
      ])
      const state = yield* thread.state
      assert.deepStrictEqual([state.values, state.next], [{ value: 3 }, ["aparallelwhile"]])
      assert.deepStrictEqual([state.checkpoint!.source, state.checkpoint!.step], ["loop", 0])
      const resumed = yield* Effect.fork(thread.resume({ durability }))
      yield* TestClock.adjust("1500 millis")
      assert.deepStrictEqual(yield* Fiber.join(resumed), { value: 11 })
      assert.strictEqual(trace.count("alittlewhile started"), 1)
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-177 a cancelled run leaves its last checkpoint without an error, and can be gone on with", () =>
  Effect.gen(function* () {
    for (const durability of modes) {
      const trace = makeTrace()
      const graph = Graph.make("cancelled", { hello: concat })
        .addNode("agent", () => Effect.as(sleeper(trace, "agent", "1 second"), { hello: "!" }))
        .addEdge(START, "agent")
        .compile()
      const thread = graph.thread(durability)
      const fiber = yield* Effect.fork(thread.invoke({ hello: "world" }, { durability }))
      yield* TestClock.adjust("200 millis")
      assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(fiber)))
      assert.deepStrictEqual(trace.entries, ["agent started", "agent cancelled"])
      const state = yield* thread.state
      assert.deepStrictEqual([state.values, state.next], [{ hello: "world" }, ["agent"]])
      assert.deepStrictEqual(
        state.tasks.map(({ error }) => error),
        [undefined]
      )
      assert.strictEqual((yield* rows(thread)).length, durability === "exit" ? 1 : 2)
      const resumed = yield* Effect.fork(thread.resume())
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* Fiber.join(resumed), { hello: "world!" })
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-178 the time limit of a superstep also counts while the consumer is slow", () =>
  Effect.gen(function* () {
    for (const pause of ["300 millis", "600 millis"] as const) {
      const trace = makeTrace()
      const graph = Graph.make("limited", { hello: concat })
        .addNode("awhile", () => Effect.as(sleeper(trace, "awhile", "1500 millis"), { hello: "2" }))
        .addNode("alittlewhile", () => Effect.as(sleeper(trace, "alittlewhile", "600 millis"), { hello: "1" }))
        .addEdge(START, "awhile")
        .addEdge(START, "alittlewhile")
        .compile({ stepTimeout: "1 second" })
      const thread = graph.thread(pause)
      const chunks: Array<unknown> = []
      const reader = yield* Effect.fork(
        Effect.either(
          Stream.runForEach(thread.stream({ hello: "" }), (event) =>
            Effect.zipRight(
              Effect.sync(() => chunks.push(event._tag === "Updates" ? [event.node, event.update] : event)),
              Effect.sleep(pause)
            )
          )
        )
      )
      yield* TestClock.adjust("5 seconds")
      const result = yield* Fiber.join(reader)
      assert.isTrue(Either.isLeft(result))
      if (Either.isRight(result)) return
      assert.strictEqual(result.left._tag, "TaskTimeout")
      assert.deepInclude(result.left, { node: "awhile", kind: "step", limitMillis: 1000 })
      assert.deepStrictEqual(chunks, [["alittlewhile", { hello: "1" }]])
      assert.deepStrictEqual(trace.entries, [
        "alittlewhile started",
        "awhile started",
        "alittlewhile ended",
        "awhile cancelled"
      ])
      // What had finished is kept; each superstep has the limit for itself.
      assert.deepStrictEqual((yield* thread.state).next, ["awhile"])
      const resumed = yield* Effect.fork(thread.resume({ stepTimeout: "2 seconds" }))
      yield* TestClock.adjust("1500 millis")
      assert.deepStrictEqual(yield* Fiber.join(resumed), { hello: "12" })
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-180 an activity that was cancelled is not remembered and starts again on resume", () =>
  Effect.gen(function* () {
    let calls = 0
    let cancels = 0
    const mapper = Activity.make("mapper", {
      input: Schema.Number,
      success: Schema.String,
      execute: (n) =>
        Effect.onInterrupt(
          Effect.zipRight(
            Effect.sync(() => calls++),
            Effect.as(Effect.sleep("1 second"), `${n}${n}`)
          ),
          () => Effect.sync(() => cancels++)
        )
    })
    const graph = Graph.make("children", { value: log })
      .addNode("entry", () =>
        Effect.gen(function* () {
          const first = yield* Effect.fork(mapper(0))
          const last = yield* Effect.fork(mapper(1))
          yield* Effect.yieldNow()
          yield* Fiber.interrupt(last)
          const result = yield* Fiber.join(first)
          const answer = yield* Interrupt.interrupt<string>("question")
          return { value: [result + answer] }
        })
      )
      .addEdge(START, "entry")
      .compile()
    const thread = graph.thread("t")
    const fiber = yield* Effect.fork(thread.run({ value: [] }))
    yield* TestClock.adjust("1 second")
    assert.deepStrictEqual(questions(yield* Fiber.join(fiber)), ["question"])
    assert.deepStrictEqual([calls, cancels], [2, 1])
    assert.deepStrictEqual(yield* thread.answer("answer"), { value: ["00answer"] })
    assert.deepStrictEqual([calls, cancels], [3, 2])
  }).pipe(Effect.provide(layerMemory))
)

/** Yields a value, having asked for a drain. */
const drains = <A>(control: ReturnType<typeof Graph.makeControl>, value: A) =>
  Effect.sync(() => {
    control.requestDrain()
    return value
  })

it.effect("per-181 a drain stops between supersteps and leaves a thread to go on with", () =>
  Effect.gen(function* () {
    const value = Channel.lastValue(Schema.String)
    const build = (control: ReturnType<typeof Graph.makeControl>, trace = makeTrace(), reason?: string) =>
      Graph.make("drained", { first: value, second: value })
        .addNode("first", () =>
          Effect.sync(() => {
            trace.entries.push("first")
            control.requestDrain(reason)
            return { first: "done" }
          })
        )
        .addNode("second", () => Effect.as(trace.note("second"), { second: "done" }))
        .addEdge(START, "first")
        .addEdge("first", "second")
        .compile()
    for (const durability of modes) {
      const trace = makeTrace()
      const control = Graph.makeControl()
      const graph = build(control, trace, durability === "sync" ? "sigterm" : undefined)
      const thread = graph.thread(durability)
      const error = yield* failsWith(thread.invoke({}, { control, durability }), "GraphDrained")
      assert.deepStrictEqual([error.reason, error.next], [durability === "sync" ? "sigterm" : "shutdown", ["second"]])
      const state = yield* thread.state
      assert.deepStrictEqual([state.values, state.next], [{ first: "done" }, ["second"]])
      if (durability === "exit") assert.strictEqual((yield* rows(thread)).length, 1)
      assert.deepStrictEqual(yield* thread.resume({ durability }), { first: "done", second: "done" })
      assert.deepStrictEqual(trace.entries, ["first", "second"])
    }
    // In the last superstep there is nothing left to stop.
    const last = Graph.makeControl()
    const single = Graph.make("single", { first: value })
      .addNode("only", () => drains(last, { first: "done" }))
      .addEdge(START, "only")
      .compile()
    assert.deepStrictEqual(yield* single.thread("last").invoke({}, { control: last }), { first: "done" })
    // Drained before it began: nothing runs.
    const early = Graph.makeControl()
    early.requestDrain("sigterm")
    const graph = build(Graph.makeControl())
    const thread = graph.thread("early")
    yield* failsWith(thread.invoke({}, { control: early }), "GraphDrained")
    assert.deepStrictEqual((yield* thread.state).next, ["__start__"])
    assert.deepStrictEqual(yield* thread.resume(), { first: "done", second: "done" })
    // Requested from outside, while a node runs: that node ends.
    const outside = Graph.makeControl()
    const gate = yield* Deferred.make<void>()
    const waiting = Graph.make("waiting", { first: value, second: value })
      .addNode("first", () => Effect.as(Deferred.await(gate), { first: "done" }))
      .addNode("second", () => Effect.succeed({ second: "done" }))
      .addEdge(START, "first")
      .addEdge("first", "second")
      .compile()
      .thread("outside")
    const fiber = yield* Effect.fork(failsWith(waiting.invoke({}, { control: outside }), "GraphDrained"))
    yield* Effect.yieldNow()
    outside.requestDrain()
    yield* Deferred.succeed(gate, undefined)
    assert.deepStrictEqual((yield* Fiber.join(fiber)).next, ["second"])
    assert.deepStrictEqual((yield* waiting.state).values, { first: "done" })
    // Inside a subgraph that remembers: the parent goes on with it.
    for (const persistence of ["thread", "call"] as const) {
      const inner = Graph.makeControl()
      const child = Graph.make("child", { child_first: value, child_second: value })
        .addNode("child_first_node", () => drains(inner, { child_first: "done" }))
        .addNode("child_second_node", () => Effect.succeed({ child_second: "done" }))
        .addEdge(START, "child_first_node")
        .addEdge("child_first_node", "child_second_node")
        .compile()
      const parent = Graph.make("parent", { child_first: value, child_second: value, parent_second: value })
        .addGraph("child", child, { persistence })
        .addNode("parent_second_node", () => Effect.succeed({ parent_second: "done" }))
        .addEdge(START, "child")
        .addEdge("child", "parent_second_node")
        .compile()
        .thread(`parent ${persistence}`)
      yield* failsWith(parent.invoke({}, { control: inner }), "GraphDrained")
      assert.deepStrictEqual((yield* parent.state).next, ["child"])
      assert.deepStrictEqual(yield* parent.resume(), {
        child_first: "done",
        child_second: "done",
        parent_second: "done"
      })
    }
    // Activities under way end as well.
    const running = Graph.makeControl()
    const add = Activity.make("add", {
      input: Schema.Number,
      success: Schema.Number,
      execute: (n) => drains(running, n + 1)
    })
    const entry = Graph.make("entry", { result: Channel.lastValue(Schema.Number) })
      .addNode("entry", () => Effect.map(add(1), (result) => ({ result })))
      .addEdge(START, "entry")
      .compile()
    assert.deepStrictEqual(yield* entry.thread("entry").invoke({}, { control: running }), { result: 2 })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-182 stopping a run stops nested loops at every depth", () =>
  Effect.gen(function* () {
    for (let depth = 1; depth <= 4; depth++) {
      let ran = 0
      let graph: any = Graph.make("loop", { count: sum })
        .addNode("count", () =>
          Effect.zipRight(
            Effect.sleep("100 millis"),
            Effect.sync(() => {
              ran++
              return { count: 1 }
            })
          )
        )
        .addEdge(START, "count")
        .addConditionalEdges("count", ({ count }) => (count < 10 ? "count" : Graph.END), ["count", Graph.END])
        .compile()
      for (let i = 1; i < depth; i++) {
        graph = Graph.make(`level ${i}`, { count: sum }).addGraph("inner", graph).addEdge(START, "inner").compile()
      }
      const thread = graph.thread(`depth ${depth}`) as Graph.CompiledGraph<
        any,
        any,
        never,
        unknown,
        never,
        never
      >["thread"] extends (id: string) => infer T
        ? T
        : never
      const reader = yield* Effect.fork(
        thread.stream({ count: 0 }, { modes: ["values"], subgraphs: true }).pipe(
          Stream.takeUntil((event) => (event.state as { count: number }).count === 2),
          Stream.runDrain
        )
      )
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(reader)
      assert.isBelow(ran, 4, `depth ${depth}`)
      const before = ran
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(ran, before, `depth ${depth}`)
    }
    // A node in flight observes it, also where something else waits for the stream.
    const trace = makeTrace()
    const long = Graph.make("long", { hello: concat })
      .addNode("agent", () => Effect.as(sleeper(trace, "agent", "1 second"), { hello: "!" }))
      .addEdge(START, "agent")
      .compile()
    const reader = yield* Effect.fork(Stream.runDrain(long.thread("long").stream({ hello: "" })))
    yield* TestClock.adjust("200 millis")
    yield* Fiber.interrupt(reader)
    assert.deepStrictEqual(trace.entries, ["agent started", "agent cancelled"])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-145 a save in progress is finished before a cancelled run returns", () =>
  Effect.gen(function* () {
    for (const how of ["invoke", "stream"] as const) {
      for (const durability of modes) {
        const trace = makeTrace()
        const saver = yield* Checkpointer
        const slow = <A, E>(name: string, effect: Effect.Effect<A, E>) =>
          trace
            .note(`${name} start`)
            .pipe(
              Effect.zipRight(Effect.sleep("1 second")),
              Effect.zipRight(effect),
              Effect.zipLeft(trace.note(`${name} end`))
            )
        const provide = Effect.provideService(Checkpointer, {
          ...saver,
          commit: (commit) => slow("save", saver.commit(commit)),
          write: (staged) => slow("save", saver.write(staged))
        })
        const graph = Graph.make("saves", { value: sum })
          .addNode("node", () => Effect.as(sleeper(trace, "node", "1 second"), { value: 1 }))
          .addEdge(START, "node")
          .compile()
        const thread = graph.thread(`${how} ${durability}`)
        const fiber = yield* Effect.fork(
          provide(
            how === "invoke"
              ? thread.invoke({ value: 0 }, { durability })
              : Stream.runDrain(thread.stream({ value: 0 }, { durability }))
          )
        )
        // With sync the input's save is under way at that time, with exit the node.
        yield* TestClock.adjust("200 millis")
        const before = trace.entries.slice()
        const stop = yield* Effect.fork(Fiber.interrupt(fiber))
        yield* TestClock.adjust("500 millis")
        assert.isNull(stop.unsafePoll())
        yield* TestClock.adjust("10 seconds")
        assert.isTrue(Exit.isInterrupted(yield* Fiber.join(stop)))
        const starts = trace.entries.filter((entry) => entry === "save start").length
        assert.strictEqual(trace.count("save end"), starts)
        assert.isAtLeast(starts, 1)
        assert.strictEqual(trace.count("node ended"), 0)
        if (durability === "exit") {
          assert.deepStrictEqual(before, ["node started"])
          assert.deepStrictEqual(trace.entries, ["node started", "node cancelled", "save start", "save end"])
        }
        assert.deepStrictEqual((yield* thread.state).next, [durability === "sync" ? "__start__" : "node"])
      }
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("a slow consumer slows the run down, and no event is lost", () =>
  Effect.gen(function* () {
    let emitted = 0
    const graph = Graph.make("slow", { value: sum })
      .addNode("node", () =>
        Effect.as(
          Effect.forEach(
            Array.from({ length: 100 }, (_, i) => i),
            (i) =>
              Effect.zipRight(
                Task.emit(i),
                Effect.sync(() => emitted++)
              ),
            { discard: true }
          ),
          { value: 1 }
        )
      )
      .addEdge(START, "node")
      .compile()
    const got: Array<unknown> = []
    let most = 0
    yield* Stream.runForEach(graph.stream({ value: 0 }, { modes: ["custom"], bufferSize: 4 }), (event) =>
      Effect.zipRight(
        Effect.yieldNow(),
        Effect.sync(() => {
          got.push(event.value)
          most = Math.max(most, emitted - got.length)
        })
      )
    )
    assert.deepStrictEqual(
      got,
      Array.from({ length: 100 }, (_, i) => i)
    )
    // The buffer, and what the reader took from it at once.
    assert.isAtMost(most, 9)
  })
)

it.effect("interrupting a run awaits its nodes' finalizers, also in subgraphs", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const child = Graph.make("child", { value: sum })
      .addNode("inner", () =>
        Effect.onInterrupt(Effect.never, () => Effect.zipRight(Effect.sleep("3 seconds"), trace.note("inner released")))
      )
      .addEdge(START, "inner")
      .compile()
    const graph = Graph.make("parent", { value: sum })
      .addGraph("child", child)
      .addNode("sibling", () =>
        Effect.onInterrupt(Effect.never, () =>
          Effect.zipRight(Effect.sleep("1 second"), trace.note("sibling released"))
        )
      )
      .addEdge(START, "child")
      .addEdge(START, "sibling")
      .compile()
    const fiber = yield* Effect.fork(graph.thread("t").invoke({ value: 0 }))
    yield* Effect.yieldNow()
    const stop = yield* Effect.fork(Fiber.interrupt(fiber))
    yield* TestClock.adjust("2 seconds")
    assert.isNull(stop.unsafePoll())
    yield* TestClock.adjust("1 second")
    assert.isTrue(Exit.isInterrupted(yield* Fiber.join(stop)))
    assert.deepStrictEqual(trace.entries, ["sibling released", "inner released"])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("a node that interrupts itself fails with NodeCancelled", () =>
  Effect.gen(function* () {
    const graph = Graph.make("self", { value: sum })
      .addNode("node", () => Effect.interrupt)
      .addEdge(START, "node")
      .compile()
    const error = yield* failsWith(graph.thread("t").invoke({ value: 0 }), "NodeCancelled")
    assert.strictEqual(error.node, "node")
  }).pipe(Effect.provide(layerMemory))
)
