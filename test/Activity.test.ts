import { assert, describe, it } from "@effect/vitest"
import * as Data from "effect/Data"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"
import {
  Activity,
  Channel,
  Checkpointer,
  Entrypoint,
  Graph,
  type GraphError,
  Interrupt,
  type Task
} from "effect-pregel"
import { briefly } from "./support/events.js"
import { failsWith, log, makeTrace } from "./support/thread.js"

const onMemory = Effect.provide(Checkpointer.layerMemory)

class Boom extends Data.TaggedError("Boom")<{ readonly text: string }> {}

/** An activity that doubles numbers and notes its runs. */
const doubling = (trace = makeTrace()) => ({
  trace,
  double: Activity.make("double", {
    input: Schema.Number,
    success: Schema.Number,
    execute: (n) => Effect.as(trace.note(`double ${n}`), n * 2)
  })
})

/** An entrypoint of unknown input and output. */
const entry = <E, R>(execute: (input: unknown) => Effect.Effect<unknown, E, R>) =>
  Entrypoint.make("ep", { input: Schema.Unknown, output: Schema.Unknown, execute: (input) => execute(input) })

describe("replays", () => {
  it.effect("a call with another input than before fails with ActivityMismatch, and nothing is run", () =>
    Effect.gen(function* () {
      const { double, trace } = doubling()
      let n = 1
      const ep = entry(() =>
        Effect.zipRight(
          Effect.suspend(() => double(n)),
          Interrupt.interrupt("?")
        )
      )
      const thread = ep.thread("1")
      yield* thread.run(0)
      n = 2
      const error = yield* failsWith(thread.answer(1), "ActivityMismatch")
      assert.deepStrictEqual([error.activity, error.node, error.occurrence], ["double", "ep", 0])
      assert.deepStrictEqual(trace.entries, ["double 1"])
      n = 1
      assert.strictEqual(yield* thread.resume(), 1)
    }).pipe(onMemory)
  )

  it.effect("parallel calls are found again in whatever order they come", () =>
    Effect.gen(function* () {
      const { double, trace } = doubling()
      let order = [1, 2]
      const ep = entry(() =>
        Effect.gen(function* () {
          const gates = yield* Effect.forEach(order, () => Deferred.make<void>())
          const calls = yield* Effect.forEach([1, 2], (n) =>
            Effect.fork(Effect.zipRight(Deferred.await(gates[order.indexOf(n)]!), double(n)))
          )
          for (const gate of gates) {
            yield* Deferred.succeed(gate, undefined)
            yield* Effect.yieldNow()
          }
          const results = yield* Effect.forEach(calls, Fiber.join)
          yield* Interrupt.interrupt("?")
          return results
        })
      )
      const thread = ep.thread("1")
      yield* thread.run(0)
      order = [2, 1]
      assert.deepStrictEqual(yield* thread.answer(1), [2, 4])
      assert.deepStrictEqual(trace.entries.slice().sort(), ["double 1", "double 2"])
    }).pipe(onMemory)
  )

  it.effect("parallel calls that a crash cut short go on where each one was, in another order", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      let failing = true
      const step = Activity.make("step", {
        input: Schema.String,
        success: Schema.String,
        execute: (name) =>
          Effect.flatMap(trace.note(name), () =>
            failing && name === "b" ? new Boom({ text: name }) : Effect.succeed(name)
          )
      })
      const ep = entry(() =>
        Effect.all(failing ? [step("a"), step("b")] : [Effect.zipRight(Effect.yieldNow(), step("a")), step("b")], {
          concurrency: "unbounded"
        })
      )
      const thread = ep.thread("1")
      yield* failsWith(thread.invoke(0), "Boom")
      failing = false
      assert.deepStrictEqual(yield* thread.resume(), ["a", "b"])
      assert.deepStrictEqual(trace.entries, ["a", "b", "b"])
    }).pipe(onMemory)
  )

  it.effect("a parallel call with another input than before is found out at the task's end", () =>
    Effect.gen(function* () {
      const { double } = doubling()
      let input = [1, 2]
      const ep = entry(() =>
        Effect.zipRight(
          Effect.suspend(() => Effect.forEach(input, double, { concurrency: "unbounded" })),
          Interrupt.interrupt("?")
        )
      )
      const thread = ep.thread("1")
      yield* thread.run(0)
      input = [3, 2]
      yield* failsWith(thread.answer(1), "ActivityMismatch")
    }).pipe(onMemory)
  )

  it.effect("equal calls are told apart by how often they were made", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const next = Activity.make("next", {
        input: Schema.Void,
        success: Schema.Number,
        execute: () => Effect.map(trace.note("next"), () => trace.entries.length)
      })
      const ep = entry(() =>
        Effect.gen(function* () {
          const first = yield* Effect.all([next(), next()])
          yield* Interrupt.interrupt("?")
          return [...first, yield* next()]
        })
      )
      const thread = ep.thread("1")
      yield* thread.run(0)
      assert.deepStrictEqual(yield* thread.answer(1), [1, 2, 3])
    }).pipe(onMemory)
  )

  it.effect("the key of a call is the same for every attempt and different for every other call", () =>
    Effect.gen(function* () {
      const keys: Array<string> = []
      let failing = true
      const charge = Activity.make("charge", {
        input: Schema.Number,
        success: Schema.Void,
        execute: () =>
          Effect.flatMap(Activity.key, (key) => {
            keys.push(key)
            return failing ? new Boom({ text: "crash" }) : Effect.void
          })
      })
      const ep = entry(() => Effect.zipRight(charge(5), charge(5)))
      for (const id of ["1", "2"]) {
        failing = true
        yield* failsWith(ep.thread(id).invoke(0), "Boom")
        failing = false
        yield* ep.thread(id).resume()
      }
      assert.strictEqual(keys.length, 6)
      assert.strictEqual(keys[0], keys[1])
      assert.strictEqual(new Set(keys).size, 4)
    }).pipe(onMemory)
  )

  it.effect("with an error schema a failure that the node has caught is remembered over a pause", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const broken = Activity.make("broken", {
        input: Schema.Void,
        success: Schema.Void,
        error: Schema.Struct({ code: Schema.Number }),
        execute: () => Effect.zipRight(trace.note("broken"), Effect.fail({ code: 7 }))
      })
      const ep = entry(() =>
        Effect.gen(function* () {
          const failed = yield* Effect.flip(broken() as Effect.Effect<void, { readonly code: number }, Task.Task>)
          return [failed.code, yield* Interrupt.interrupt("?")]
        })
      )
      const thread = ep.thread("1")
      yield* thread.run(0)
      assert.deepStrictEqual(yield* thread.answer("x"), [7, "x"])
      assert.strictEqual(trace.entries.length, 1)
    }).pipe(onMemory)
  )
})

describe("calls within calls", () => {
  it.effect("a finished inner call is not repeated when the outer one goes on after a pause", () =>
    Effect.gen(function* () {
      const { double, trace } = doubling()
      const outer = Activity.make("outer", {
        input: Schema.Number,
        success: Schema.Number,
        execute: (n) =>
          Effect.gen(function* () {
            const twice = yield* double(n)
            return twice + (yield* Interrupt.interrupt<number>(`plus for ${n}?`))
          })
      })
      const ep = entry(() => Effect.flatMap(double(1), (n) => Effect.all([outer(n), outer(n), double(1)])))
      const thread = ep.thread("1")
      yield* thread.run(0)
      yield* failsWith(thread.answer(10), "GraphInterrupt")
      assert.deepStrictEqual(yield* thread.answer(20), [14, 24, 2])
      assert.deepStrictEqual(trace.entries, ["double 1", "double 2", "double 2", "double 1"])
    }).pipe(onMemory)
  )

  it.effect("graphs that calls run are kept apart, and go on where they were", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const inner = Graph.make("inner", { words: log, answer: Channel.lastValue(Schema.String) })
        .addNode("first", (state) => Effect.as(trace.note(`first ${state.words}`), { words: ["first"] }))
        .addNode("ask", (state) => Effect.map(Interrupt.interrupt<string>(state.words[0]), (answer) => ({ answer })))
        .addEdge(Graph.START, "first")
        .addEdge("first", "ask")
        .compile()
      const call = Activity.make("call", {
        input: Schema.String,
        success: Schema.String,
        execute: (word) => Effect.map(inner.invoke({ words: [word] }), ({ answer }) => `${word} ${answer}`)
      })
      const ep = entry(() => Effect.all([call("a"), call("b")]))
      const thread = ep.thread("1")
      const first = yield* failsWith(thread.invoke(0), "GraphInterrupt")
      assert.strictEqual(first.interrupts[0]!.value, "a")
      yield* failsWith(thread.answer("1"), "GraphInterrupt")
      assert.deepStrictEqual(yield* thread.answer("2"), ["a 1", "b 2"])
      assert.deepStrictEqual(trace.entries, ["first a", "first b"])
    }).pipe(onMemory)
  )

  it.effect("two calls may ask at once, and each gets its own answer", () =>
    Effect.gen(function* () {
      const ask = Activity.make("ask", {
        input: Schema.String,
        success: Schema.String,
        execute: (question) => Effect.map(Interrupt.interrupt<string>(question), (answer) => `${question}${answer}`)
      })
      const ep = entry(() =>
        Effect.flatMap(
          Effect.all([Effect.either(ask("a")), Effect.either(ask("b"))], { concurrency: "unbounded" }),
          (all) => Effect.all(all)
        )
      )
      const thread = ep.thread("1")
      const { interrupts } = yield* failsWith(thread.invoke(0), "GraphInterrupt")
      assert.deepStrictEqual(interrupts.map(({ value }) => value).sort(), ["a", "b"])
      const answers = Object.fromEntries(interrupts.map(({ id, value }) => [id, `${value}!`]))
      assert.deepStrictEqual(yield* thread.resume(answers as Record<`${string}:${string}`, string>), ["aa!", "bb!"])
    }).pipe(onMemory)
  )
})

it.effect("a fiber that has swallowed a pause calls nothing any more", () =>
  Effect.gen(function* () {
    const { double, trace } = doubling()
    const ep = entry(() => Effect.zipRight(Effect.ignore(Interrupt.interrupt("?")), double(1)))
    const thread = ep.thread("1")
    assert.strictEqual((yield* thread.run(0))._tag, "Paused")
    assert.deepStrictEqual(trace.entries, [])
    assert.strictEqual(yield* thread.answer("x"), 2)
    assert.deepStrictEqual(trace.entries, ["double 1"])
  }).pipe(onMemory)
)

describe("policies of calls", () => {
  const flaky = (trace: ReturnType<typeof makeTrace>, failures: number) =>
    Effect.flatMap(trace.note("try"), () =>
      trace.entries.length <= failures ? new Boom({ text: `${trace.entries.length}` }) : Effect.succeed("ok")
    )

  it.effect("a failed call is repeated by its schedule, and the node runs once", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const nodes = makeTrace()
      const call = Activity.make("call", {
        input: Schema.Void,
        success: Schema.String,
        execute: () => flaky(trace, 2),
        retry: Schedule.recurs(2)
      })
      const ep = entry(() => Effect.zipRight(nodes.note("node"), call()))
      assert.strictEqual(yield* ep.thread("1").invoke(0), "ok")
      assert.deepStrictEqual([trace.entries.length, nodes.entries.length], [3, 1])
    }).pipe(onMemory)
  )

  it.effect("a predicate may end the repetition, and a pause is never repeated", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const call = Activity.make("call", {
        input: Schema.Void,
        success: Schema.String,
        execute: () => flaky(trace, 9),
        retry: { schedule: Schedule.recurs(9), while: (error) => error.text !== "3" }
      })
      yield* failsWith(entry(() => call()).invoke(0), "Boom")
      assert.strictEqual(trace.entries.length, 3)
      const asks = makeTrace()
      const ask = Activity.make("ask", {
        input: Schema.Void,
        success: Schema.Unknown,
        execute: () => Effect.zipRight(asks.note("ask"), Interrupt.interrupt("?")),
        retry: Schedule.recurs(9)
      })
      yield* entry(() => ask())
        .thread("1")
        .run(0)
      assert.strictEqual(asks.entries.length, 1)
    }).pipe(onMemory)
  )

  it.effect("an attempt past its time limit is interrupted and fails with TaskTimeout", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const slow = Activity.make("slow", {
        input: Schema.Void,
        success: Schema.String,
        execute: () => Effect.onInterrupt(Effect.never, () => trace.note("interrupted")),
        timeout: "1 second",
        retry: Schedule.recurs(1)
      })
      const ep = entry(() => slow())
      const fiber = yield* Effect.fork(Effect.flip(ep.invoke(0)))
      yield* TestClock.adjust("2 seconds")
      const error = (yield* Fiber.join(fiber)) as GraphError.TaskTimeout
      assert.deepStrictEqual([error._tag, error.node, error.limitMillis], ["TaskTimeout", "ep/slow", 1000])
      assert.strictEqual(trace.entries.length, 2)
    })
  )

  it.effect("a call whose result is saved is not limited or repeated again", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const call = Activity.make("call", {
        input: Schema.Void,
        success: Schema.String,
        execute: () => flaky(trace, 0),
        timeout: "1 second"
      })
      const thread = entry(() => Effect.zipRight(call(), Interrupt.interrupt("?"))).thread("1")
      yield* thread.run(0)
      yield* thread.answer(1)
      assert.strictEqual(trace.entries.length, 1)
    }).pipe(onMemory)
  )
})

describe("mistakes", () => {
  it.effect("inputs and results outside their schemas are typed failures", () =>
    Effect.gen(function* () {
      const call = Activity.make("call", {
        input: Schema.Int,
        success: Schema.Int,
        execute: (n) => Effect.succeed(n / 2)
      })
      const ep = entry((n) => call(n as number))
      const input = yield* failsWith(ep.invoke(1.5), "InvalidUpdate")
      assert.include(input.message, "the input of activity")
      const result = yield* failsWith(ep.invoke(3), "InvalidUpdate")
      assert.include(result.message, "the result of activity")
      const odd = Activity.make("odd", {
        input: Schema.Void,
        success: Schema.Unknown,
        execute: () => Effect.succeed({ deep: [() => 1] })
      })
      const error = yield* failsWith(entry(() => odd()).invoke(0), "InvalidUpdate")
      assert.deepStrictEqual([error.reason, error.node], ["NotEncodable", "ep"])
    })
  )

  it("names that could be taken for places are refused", () => {
    for (const name of ["", "a/b", "a:b", "a|b", "a#1"]) {
      const options = { input: Schema.Void, success: Schema.Void, execute: () => Effect.void }
      assert.throws(() => Activity.make(name, options), /name/)
    }
  })

  it.effect("a result that no longer decodes is a typed failure", () =>
    Effect.gen(function* () {
      const make = (success: Schema.Schema<any, any>, value: unknown) => {
        const call = Activity.make("call", { input: Schema.Void, success, execute: () => Effect.succeed(value) })
        return entry(() => Effect.zipRight(call(), Interrupt.interrupt("?")))
      }
      yield* make(Schema.Number, 1).thread("1").run(0)
      yield* failsWith(
        make(Schema.String, "x").thread("1").answer(1) as Effect.Effect<unknown, GraphError.CheckpointDecodeError>,
        "CheckpointDecodeError"
      )
    }).pipe(onMemory)
  )
})

it.effect("nodes of graphs call activities: their ends are told before the node's update, in subgraphs too", () =>
  Effect.gen(function* () {
    const { double } = doubling()
    const count = Channel.lastValue(Schema.Number)
    const inner = Graph.make("inner", { count })
      .addNode("n", (state) => Effect.map(double(state.count ?? 0), (count) => ({ count })))
      .addEdge(Graph.START, "n")
      .compile()
    const outer = Graph.make("outer", { count })
      .addNode("before", () => Effect.map(double(2), (count) => ({ count })))
      .addGraph("inner", inner)
      .addEdge(Graph.START, "before")
      .addEdge("before", "inner")
      .compile()
    assert.deepStrictEqual(yield* briefly(outer.stream({}, { subgraphs: true })), [
      ["activity", "double", 4],
      ["updates", "before", { count: 4 }],
      ["activity", "double", 8],
      ["updates", "n", { count: 8 }],
      ["updates", "inner", { count: 8 }]
    ])
    assert.deepStrictEqual(
      yield* briefly(outer.stream({}, { modes: ["values"] })).pipe(Effect.map((all) => all.length)),
      2
    )
  })
)

it("the failures of a call are those of its body and of the engine, and a limit adds one", () => {
  const options = { input: Schema.Number, success: Schema.String, execute: () => new Boom({ text: "" }) }
  const plain = Activity.make("plain", options)
  const limited = Activity.make("limited", { ...options, timeout: "1 second" })
  type ErrorOf<F extends (...args: any) => Effect.Effect<any, any, any>> = Effect.Effect.Error<ReturnType<F>>
  type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false
  const plainIs: Same<ErrorOf<typeof plain>, Boom | Activity.Failure> = true
  const limitedIs: Same<ErrorOf<typeof limited>, Boom | Activity.Failure | GraphError.TaskTimeout> = true
  assert.isTrue(plainIs && limitedIs)
  // @ts-expect-error the body fails with something that the error schema does not describe
  Activity.make("wrong", { ...options, error: Schema.Struct({ code: Schema.Number }) })
})

describe("a process that may have lost its thread", () => {
  it.effect("makes sure of it before a side effect, again if it stood still while it asked", () =>
    Effect.gen(function* () {
      const { double, trace } = doubling()
      const graph = Graph.make("doubt", { count: Channel.lastValue(Schema.Number) })
        .addNode("n", ({ count = 1 }) => Effect.map(double(count), (count) => ({ count })))
        .addEdge(Graph.START, "n")
        .compile()
      const storage = yield* Checkpointer.Checkpointer
      const fence = yield* storage.takeFence("t")
      let reasons = 1
      let asked = 0
      const doubt = { settled: 0, reasons: () => reasons }
      const standingStill: typeof storage = {
        ...storage,
        putWrites: (address, seq, writes, ...others) =>
          Effect.tap(storage.putWrites(address, seq, writes, ...others), () => {
            if (writes.length > 0) return Effect.void
            asked++
            if (asked > 1) return Effect.void
            // The answer is on its way, the process stands still, and another one takes the thread.
            reasons++
            return storage.takeFence("t")
          })
      }
      // As a host runs it, which has options of its own.
      const run = (fence: number) =>
        graph
          .thread("t")
          .invoke({ count: 1 }, { fence, control: { drain: undefined, doubt } } as object)
          .pipe(Effect.provideService(Checkpointer.Checkpointer, standingStill))
      yield* failsWith(run(fence), "ThreadConflict")
      assert.deepStrictEqual([asked, trace.entries], [1, []])
      yield* run(yield* storage.takeFence("t"))
      assert.deepStrictEqual([asked, doubt.settled, trace.entries], [2, 2, ["double 1"]])
    }).pipe(onMemory)
  )
})
