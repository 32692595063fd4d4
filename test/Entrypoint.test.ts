import { assert, describe, it } from "@effect/vitest"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { Activity, Channel, Checkpointer, Entrypoint, Graph, type GraphEvent, Interrupt, Task } from "effect-pregel"
import { brief, briefly } from "./support/events.js"
import { collect, failsWith, makeTrace, snapshots } from "./support/thread.js"

const onMemory = Effect.provide(Checkpointer.layerMemory)

class Boom extends Data.TaggedError("Boom")<{ readonly text: string }> {}

/** An activity that doubles, and notes its runs. */
const doubling = (trace = makeTrace()) => ({
  trace,
  double: Activity.make("double", {
    input: Schema.Number,
    success: Schema.Number,
    execute: (n) => Effect.as(trace.note(`double ${n}`), n * 2)
  })
})

const mapping = (trace = makeTrace()) => ({
  trace,
  mapper: Activity.make("mapper", {
    input: Schema.Number,
    success: Schema.String,
    execute: (n) => Effect.as(trace.note(`mapper ${n}`), `${n}${n}`)
  })
})

const ABC = Schema.Struct({ a: Schema.String, b: Schema.optional(Schema.String), c: Schema.optional(Schema.String) })

describe("streams of an entrypoint", () => {
  const foo = Activity.make("foo", {
    input: ABC,
    success: ABC,
    execute: ({ a }) => Effect.succeed({ a: `${a}foo`, b: "bar" })
  })
  const bar = Activity.make("bar", {
    input: ABC,
    success: ABC,
    execute: ({ a, b, c }) => Effect.succeed({ a: `${a}${b}`, c: `${c ?? ""}bark` })
  })
  const baz = Activity.make("baz", {
    input: ABC,
    success: ABC,
    execute: ({ a }) => Effect.succeed({ a: `${a}baz`, c: "something else" })
  })

  it.effect("core-170 the ends of activities precede the entrypoint's own update", () =>
    Effect.gen(function* () {
      const graph = Entrypoint.make("graph", {
        input: ABC,
        output: ABC,
        execute: (input) => foo(input).pipe(Effect.flatMap(bar), Effect.flatMap(baz))
      })
      assert.deepStrictEqual(yield* briefly(graph.thread("1").stream({ a: "0" })), [
        ["activity", "foo", { a: "0foo", b: "bar" }],
        ["activity", "bar", { a: "0foobar", c: "bark" }],
        ["activity", "baz", { a: "0foobarbaz", c: "something else" }],
        ["updates", "graph", { a: "0foobarbaz", c: "something else" }]
      ])
    }).pipe(onMemory)
  )

  it.effect("core-170 parallel activities are told as they end, and their results keep the order of the calls", () =>
    Effect.gen(function* () {
      const t = Activity.make("t", {
        input: Schema.Number,
        success: Schema.Number,
        execute: (x) => Effect.as(Effect.sleep(x * 10), x)
      })
      const ep = Entrypoint.make("ep", {
        input: Schema.Array(Schema.Number),
        output: Schema.Array(Schema.Number),
        execute: (xs) => Effect.forEach(xs, t, { concurrency: "unbounded" })
      })
      const fiber = yield* Effect.fork(briefly(ep.stream([3, 1, 2])))
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* Fiber.join(fiber), [
        ["activity", "t", 1],
        ["activity", "t", 2],
        ["activity", "t", 3],
        ["updates", "ep", [3, 1, 2]]
      ])
    })
  )

  it.effect("core-170 there is one event of the values, at the end, also when a resumed run has an older result", () =>
    Effect.gen(function* () {
      const { double: dbl } = doubling()
      const ep = Entrypoint.make("ep", {
        input: Schema.Number,
        output: Schema.Struct({ a: Schema.Number, b: Schema.Number }),
        execute: (n) =>
          Effect.gen(function* () {
            const a = yield* dbl(n)
            const b = yield* dbl(a)
            if (n > 2) yield* Interrupt.interrupt("go on?")
            return { a, b }
          })
      })
      const thread = ep.thread("1")
      const all = { modes: ["updates", "values"] } as const
      assert.deepStrictEqual(yield* briefly(thread.stream(2, all)), [
        ["activity", "double", 4],
        ["activity", "double", 8],
        ["updates", "ep", { a: 4, b: 8 }],
        ["values", { a: 4, b: 8 }]
      ])
      assert.deepStrictEqual(yield* briefly(thread.stream(3, { modes: ["values"] })), [])
      assert.deepStrictEqual(yield* briefly(thread.resumeStream({ _tag: "Bare", value: true }, all)), [
        ["updates", "ep", { a: 6, b: 12 }],
        ["values", { a: 6, b: 12 }]
      ])
    }).pipe(onMemory)
  )

  it.effect("tasks show the input and no saved values, checkpoints the result", () =>
    Effect.gen(function* () {
      const ep = Entrypoint.make("ep", {
        input: Schema.Number,
        output: Schema.Number,
        execute: (n) => Effect.succeed(n + 1)
      })
      const events = yield* collect(ep.thread("1").stream(1, { modes: ["debug"] }))
      assert.deepStrictEqual(
        events.map((event) => {
          if (event._tag === "TaskStarted") return [...brief(event), event.input]
          return event._tag === "Checkpointed" ? ["checkpoint", event.next, event.state] : brief(event)
        }),
        [
          ["checkpoint", ["ep"], undefined],
          ["start", "ep", 1],
          ["end", "ep"],
          ["checkpoint", [], 2]
        ]
      )
    }).pipe(onMemory)
  )
})

describe("failures", () => {
  const failing = Activity.make("failing", {
    input: Schema.Void,
    success: Schema.Void,
    execute: () => new Boom({ text: "test error" })
  })

  it.effect("core-171 errors of entrypoints and of activities are the caller's, typed", () =>
    Effect.gen(function* () {
      const direct = Entrypoint.make("direct", {
        input: Schema.Void,
        output: Schema.Void,
        execute: () => new Boom({ text: "test error" })
      })
      const indirect = Entrypoint.make("indirect", {
        input: Schema.Void,
        output: Schema.Void,
        execute: () => failing()
      })
      assert.strictEqual((yield* failsWith(direct.invoke(), "Boom")).text, "test error")
      assert.strictEqual((yield* failsWith(indirect.invoke(), "Boom")).text, "test error")
      assert.strictEqual((yield* failsWith(indirect.thread("1").invoke(), "Boom")).text, "test error")
    }).pipe(onMemory)
  )

  it.effect("core-171 per-152 a workflow that catches an activity's failure goes on, and no event tells it", () =>
    Effect.gen(function* () {
      const { double } = doubling()
      const workflow = Entrypoint.make("my_workflow", {
        input: Schema.Number,
        output: Schema.String,
        execute: (n) =>
          double(n).pipe(Effect.zipRight(Effect.ignore(failing())), Effect.zipRight(double(n)), Effect.as("done"))
      })
      assert.strictEqual(yield* workflow.thread("1").invoke(1), "done")
      assert.deepStrictEqual(yield* briefly(workflow.thread("2").stream(1)), [
        ["activity", "double", 2],
        ["activity", "double", 2],
        ["updates", "my_workflow", "done"]
      ])
    }).pipe(onMemory)
  )

  it("core-172 generators are refused where they are declared", () => {
    const sync = function* () {}
    const async = async function* () {}
    for (const execute of [sync, async] as ReadonlyArray<any>) {
      assert.throws(() => Entrypoint.make("e", { input: Schema.Void, output: Schema.Void, execute }), /generator/)
      assert.throws(() => Activity.make("a", { input: Schema.Void, success: Schema.Void, execute }), /generator/)
    }
  })

  it.effect("a failed run is gone on with, and finished activities are not repeated", () =>
    Effect.gen(function* () {
      const { double, trace } = doubling()
      let broken = true
      const ep = Entrypoint.make("ep", {
        input: Schema.Number,
        output: Schema.Number,
        execute: (n) =>
          Effect.flatMap(double(n), (twice) => (broken ? new Boom({ text: "once" }) : Effect.succeed(twice)))
      })
      const thread = ep.thread("1")
      yield* failsWith(thread.invoke(4), "Boom")
      assert.deepStrictEqual((yield* thread.state).next, ["ep"])
      broken = false
      assert.strictEqual(yield* thread.resume(), 8)
      assert.deepStrictEqual(trace.entries, ["double 4"])
    }).pipe(onMemory)
  )
})

it.effect("core-173 entrypoints emit events, and forward those of one that they run", () =>
  Effect.gen(function* () {
    const inner = Entrypoint.make("inner", {
      input: Schema.String,
      output: Schema.String,
      events: Schema.String,
      execute: (name) =>
        Effect.gen(function* () {
          yield* Task.emit(`hello ${name}`)
          yield* Effect.yieldNow()
          yield* Task.emit(`hello again, ${name}`)
          return `goodbye, ${name}`
        })
    })
    const outer = Entrypoint.make("outer", {
      input: Schema.String,
      output: Schema.String,
      execute: (name) =>
        inner.stream(name, { modes: ["custom", "values"] }).pipe(
          Stream.runForEach((event) => Task.emit(event._tag === "Values" ? event.state : event.value)),
          Effect.as("done")
        )
    })
    const words = ["hello world", "hello again, world"]
    const custom = { modes: ["custom"] } as const
    assert.strictEqual(yield* inner.invoke("world"), "goodbye, world")
    assert.deepStrictEqual(
      (yield* collect(inner.stream("world", custom))).map(({ value }) => value),
      words
    )
    const forwarded = yield* collect(outer.stream("world", custom))
    assert.deepStrictEqual(
      forwarded.map(({ value }) => value),
      [...words, "goodbye, world"]
    )
    assert.strictEqual(yield* outer.invoke("world"), "done")
  })
)

describe("what the next run knows of the last one", () => {
  it.effect("core-175 a run returns one value and saves another", () =>
    Effect.gen(function* () {
      const ep = Entrypoint.make("ep", {
        input: Schema.Number,
        output: Schema.Number,
        execute: (n, { previous }) =>
          Effect.succeed(Entrypoint.final({ value: n + Option.getOrElse(previous, () => 0), save: n }))
      })
      const thread = ep.thread("1")
      const results = yield* Effect.forEach([1, 2, 3], (n) => thread.invoke(n))
      assert.deepStrictEqual(results, [1, 3, 5])
      assert.deepStrictEqual(yield* thread.previous, Option.some(3))
      assert.strictEqual((yield* thread.state).values, 5)
    }).pipe(onMemory)
  )

  it.effect("core-175 per-116 what is saved may have a type of its own", () =>
    Effect.gen(function* () {
      const seen: Array<Option.Option<ReadonlyArray<string>>> = []
      const ep = Entrypoint.make("ep", {
        input: Schema.String,
        output: Schema.Number,
        saved: Schema.Array(Schema.String),
        execute: (word, { previous }) =>
          Effect.sync(() => {
            seen.push(previous)
            const words = Option.getOrElse(previous, (): ReadonlyArray<string> => [])
            return Entrypoint.final({ value: words.length, save: [...words, word] })
          })
      })
      const thread = ep.thread("1")
      const results = yield* Effect.forEach(["hello", "goodbye", "definitely"], (word) => thread.invoke(word))
      assert.deepStrictEqual(results, [0, 1, 2])
      assert.deepStrictEqual(seen, [Option.none(), Option.some(["hello"]), Option.some(["hello", "goodbye"])])
      assert.strictEqual(yield* ep.invoke("alone"), 0)
    }).pipe(onMemory)
  )

  it.effect("0, false and empty texts are previous values like others", () =>
    Effect.gen(function* () {
      const ep = Entrypoint.make("ep", {
        input: Schema.Union(Schema.Number, Schema.Boolean, Schema.String, Schema.Null),
        output: Schema.Unknown,
        saved: Schema.Unknown,
        execute: (save, { previous }) => Effect.succeed(Entrypoint.final({ value: Option.isSome(previous), save }))
      })
      const thread = ep.thread("1")
      const known = yield* Effect.forEach([0, false, "", null, 1], (value) => thread.invoke(value))
      assert.deepStrictEqual(known, [false, true, true, true, true])
    }).pipe(onMemory)
  )

  it.effect("per-116 an update counts as a result; failed and paused runs save nothing", () =>
    Effect.gen(function* () {
      const ep = Entrypoint.make("foo", {
        input: Schema.Unknown,
        output: Schema.Unknown,
        execute: (current, { previous }) =>
          Effect.gen(function* () {
            if (current === "fail") return yield* new Boom({ text: "no" })
            if (current === "pause") yield* Interrupt.interrupt("?")
            return { current, previous: Option.getOrNull(previous) }
          })
      })
      const thread = ep.thread("1")
      const previous = (result: unknown) => (result as { readonly previous: unknown }).previous
      yield* thread.update({ a: "-1" })
      assert.deepStrictEqual(previous(yield* thread.invoke({ a: "1" })), { a: "-1" })
      assert.deepStrictEqual(previous(yield* thread.invoke({ a: "2" })), { current: { a: "1" }, previous: { a: "-1" } })
      yield* thread.update({ a: "3" })
      assert.deepStrictEqual(previous(yield* thread.invoke({ a: "1" })), { a: "3" })
      yield* Effect.exit(thread.invoke("fail"))
      yield* thread.run("pause")
      assert.deepStrictEqual(yield* thread.previous, Option.some({ current: { a: "1" }, previous: { a: "3" } }))
      assert.isNull(previous(yield* ep.invoke(1)))
    }).pipe(onMemory)
  )

  it.effect("a run is one superstep: two checkpoints in the history, each of which can be gone back to", () =>
    Effect.gen(function* () {
      const ep = Entrypoint.make("ep", {
        input: Schema.Number,
        output: Schema.Number,
        execute: (n, { previous }) => Effect.succeed(n + Option.getOrElse(previous, () => 0))
      })
      const thread = ep.thread("1")
      yield* thread.invoke(1, { recursionLimit: 1 })
      yield* thread.invoke(2, { recursionLimit: 1 })
      const history = yield* snapshots(thread)
      assert.deepStrictEqual(
        history.map(({ checkpoint, next, values }) => [checkpoint!.source, next, values]),
        [
          ["loop", [], 3],
          ["input", ["ep"], 1],
          ["loop", [], 1],
          ["input", ["ep"], undefined]
        ]
      )
      assert.strictEqual(yield* thread.at(history[2]!.checkpoint!.id).invoke(10), 11)
    }).pipe(onMemory)
  )
})

describe("pauses", () => {
  for (const durability of ["sync", "async", "exit"] as const) {
    it.effect(`core-176 per-058 finished activities do not run again on resume (${durability})`, () =>
      Effect.gen(function* () {
        const { mapper, trace } = mapping()
        const ep = Entrypoint.make("graph", {
          input: Schema.Array(Schema.Number),
          output: Schema.Array(Schema.String),
          execute: (numbers) =>
            Effect.gen(function* () {
              const mapped = yield* Effect.forEach(numbers, mapper, { concurrency: "unbounded" })
              const answer = yield* Interrupt.interrupt<string>("question")
              return mapped.map((one) => one + answer)
            })
        })
        const thread = ep.thread("1")
        const events = yield* briefly(thread.stream([0, 1], { durability }))
        assert.deepStrictEqual(events.slice(0, 2).sort(), [
          ["activity", "mapper", "00"],
          ["activity", "mapper", "11"]
        ])
        assert.deepStrictEqual(events.slice(2), [["interrupted", ["question"]]])
        assert.deepStrictEqual(yield* thread.answer("answer", { durability }), ["00answer", "11answer"])
        assert.strictEqual(trace.entries.length, 2)
      }).pipe(onMemory)
    )
  }

  it.effect("core-177 per-058 several questions in one body, with activities between them", () =>
    Effect.gen(function* () {
      const { double, trace } = doubling()
      const ep = Entrypoint.make("graph", {
        input: Schema.Struct({}),
        output: Schema.Struct({ values: Schema.Array(Schema.Unknown) }),
        execute: () =>
          Effect.gen(function* () {
            const values: Array<unknown> = []
            for (const i of [1, 2, 3]) values.push(yield* double(i), yield* Interrupt.interrupt({ a: "boo" }))
            return { values }
          })
      })
      const thread = ep.thread("1")
      const runs: Array<number> = []
      yield* thread.run({})
      for (const word of ["a", "b"]) {
        runs.push(trace.entries.length)
        yield* failsWith(thread.answer(word), "GraphInterrupt")
      }
      runs.push(trace.entries.length)
      assert.deepStrictEqual(yield* thread.answer("c"), { values: [2, "a", 4, "b", 6, "c"] })
      assert.deepStrictEqual([...runs, trace.entries.length], [1, 2, 3, 3])
    }).pipe(onMemory)
  )

  const asking = (trace = makeTrace()) => ({
    trace,
    ask: Activity.make("ask", {
      input: Schema.String,
      success: Schema.String,
      execute: (question) => Effect.zipRight(trace.note(question), Interrupt.interrupt<string>(question))
    })
  })

  it.effect("core-177 questions inside activities are asked one after the other", () =>
    Effect.gen(function* () {
      const { ask } = asking()
      const setup = Activity.make("setup", {
        input: Schema.Number,
        success: Schema.Array(Schema.Number),
        execute: (n) => Effect.succeed(Array.from({ length: n }, (_, i) => i + 1))
      })
      const ep = Entrypoint.make("graph", {
        input: Schema.Number,
        output: Schema.Struct({ answers: Schema.Array(Schema.String) }),
        execute: (n) =>
          Effect.flatMap(setup(n), (topics) =>
            Effect.map(
              Effect.forEach(topics, (topic) => ask(`Whats the answer for topic ${topic}?`)),
              (answers) => ({ answers })
            )
          )
      })
      const thread = ep.thread("1")
      const first = yield* failsWith(thread.invoke(2), "GraphInterrupt")
      assert.deepStrictEqual(
        first.interrupts.map(({ value }) => value),
        ["Whats the answer for topic 1?"]
      )
      const second = yield* failsWith(thread.answer("answer1"), "GraphInterrupt")
      assert.deepStrictEqual(
        second.interrupts.map(({ value }) => value),
        ["Whats the answer for topic 2?"]
      )
      assert.deepStrictEqual(yield* thread.answer("answer2"), { answers: ["answer1", "answer2"] })
    }).pipe(onMemory)
  )

  it.effect("core-177 an activity that asks may be called twice with one input", () =>
    Effect.gen(function* () {
      const { ask, trace } = asking()
      const foo = Activity.make("foo", {
        input: Schema.String,
        success: Schema.String,
        execute: (a) => Effect.succeed(`${a}foo`)
      })
      const ep = Entrypoint.make("graph", {
        input: Schema.Struct({ a: Schema.String }),
        output: Schema.Struct({ a: Schema.String }),
        execute: ({ a }) =>
          Effect.gen(function* () {
            const start = yield* foo(a)
            return { a: start + (yield* ask("Provide value for bar:")) + (yield* ask("Provide value for bar:")) }
          })
      })
      const thread = ep.thread("1")
      yield* thread.run({ a: "" })
      yield* failsWith(thread.answer("bar"), "GraphInterrupt")
      assert.deepStrictEqual(yield* thread.answer("baz"), { a: "foobarbaz" })
      assert.strictEqual(trace.entries.length, 4)
    }).pipe(onMemory)
  )

  it.effect("per-043 a question inside an activity is surfaced once, in events and in the state", () =>
    Effect.gen(function* () {
      const add = Activity.make("add_participant", {
        input: Schema.String,
        success: Schema.String,
        execute: (name) =>
          Effect.map(Interrupt.interrupt<boolean>(`Hey do you want to add ${name}?`), (yes) =>
            yes ? `Added ${name}!` : `${name} stays away`
          )
      })
      const ep = Entrypoint.make("program", {
        input: Schema.Unknown,
        output: Schema.Array(Schema.String),
        execute: () => Effect.all([add("James"), add("Will")])
      })
      const thread = ep.thread("1")
      const questions = Effect.map(thread.state, ({ tasks }) =>
        tasks.map(({ interrupts }) => interrupts.map((i) => i.value))
      )
      assert.deepStrictEqual(yield* briefly(thread.stream("x")), [["interrupted", ["Hey do you want to add James?"]]])
      assert.deepStrictEqual(yield* questions, [["Hey do you want to add James?"]])
      assert.deepStrictEqual(yield* briefly(thread.resumeStream({ _tag: "Bare", value: true })), [
        ["activity", "add_participant", "Added James!"],
        ["interrupted", ["Hey do you want to add Will?"]]
      ])
      assert.deepStrictEqual(yield* questions, [["Hey do you want to add Will?"]])
      assert.deepStrictEqual(yield* thread.answer(true), ["Added James!", "Added Will!"])
    }).pipe(onMemory)
  )

  it.effect("core-178 a falsy result counts as finished", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const falsy = Activity.make("falsy", {
        input: Schema.Void,
        success: Schema.Boolean,
        execute: () => Effect.as(trace.note("falsy"), false)
      })
      const ep = Entrypoint.make("graph", {
        input: Schema.Struct({ a: Schema.Number }),
        output: Schema.Void,
        execute: () => Effect.zipRight(falsy(), Effect.asVoid(Interrupt.interrupt("test")))
      })
      const thread = ep.thread("1")
      const paused = yield* failsWith(thread.invoke({ a: 5 }), "GraphInterrupt")
      assert.deepStrictEqual(
        paused.interrupts.map(({ value }) => value),
        ["test"]
      )
      const events = yield* briefly(
        thread.resumeStream({ _tag: "Bare", value: "123" }, { modes: ["updates", "tasks"] })
      )
      assert.deepStrictEqual(events, [
        ["start", "graph"],
        ["updates", "graph", undefined],
        ["end", "graph"]
      ])
      assert.deepStrictEqual(trace.entries, ["falsy"])
    }).pipe(onMemory)
  )

  it.effect("typed pauses are answered with their types", () =>
    Effect.gen(function* () {
      const Approve = Interrupt.make("approve", {
        request: Schema.Struct({ cents: Schema.Int }),
        answer: Schema.Boolean
      })
      const ep = Entrypoint.make("pay", {
        input: Schema.Int,
        output: Schema.String,
        execute: (cents) => Effect.map(Approve({ cents }), (yes) => (yes ? "paid" : "kept"))
      })
      const thread = ep.thread("1")
      assert.strictEqual((yield* thread.run(5))._tag, "Paused")
      assert.strictEqual(yield* thread.resume(Approve, true), "paid")
    }).pipe(onMemory)
  )
})

it.effect("per-180 a cancelled call is not remembered and starts again on resume", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const mapper = Activity.make("mapper", {
      input: Schema.Number,
      success: Schema.String,
      execute: (n) =>
        Effect.zipRight(trace.note("call"), n === 1 ? Effect.never : Effect.succeed(`${n}${n}`)).pipe(
          Effect.onInterrupt(() => trace.note("cancel"))
        )
    })
    const ep = Entrypoint.make("graph", {
      input: Schema.Array(Schema.Number),
      output: Schema.Array(Schema.String),
      execute: (numbers) =>
        Effect.gen(function* () {
          const fibers = yield* Effect.forEach(numbers, (n) => Effect.fork(mapper(n)))
          yield* Effect.yieldNow()
          yield* Fiber.interrupt(fibers[fibers.length - 1]!)
          const mapped = yield* Effect.forEach(fibers.slice(0, -1), Fiber.join)
          const answer = yield* Interrupt.interrupt<string>("question")
          return mapped.map((one) => one + answer)
        })
    })
    const thread = ep.thread("1")
    assert.deepStrictEqual(yield* briefly(thread.stream([0, 1])), [
      ["activity", "mapper", "00"],
      ["interrupted", ["question"]]
    ])
    assert.deepStrictEqual([trace.count("call"), trace.count("cancel")], [2, 1])
    assert.deepStrictEqual(yield* thread.answer("answer"), ["00answer"])
    assert.deepStrictEqual([trace.count("call"), trace.count("cancel")], [3, 2])
  }).pipe(onMemory)
)

describe("draining", () => {
  const child = Activity.make("child", {
    input: Schema.Number,
    success: Schema.Number,
    execute: (n) => Effect.succeed(n + 1)
  })

  it.effect("core-165 per-181 calls of a running step still run after a drain was requested", () =>
    Effect.gen(function* () {
      const control = Graph.makeControl()
      const ep = Entrypoint.make("ep", {
        input: Schema.Number,
        output: Schema.Number,
        execute: (n) =>
          Effect.zipRight(
            Effect.sync(() => control.requestDrain()),
            child(n)
          )
      })
      assert.strictEqual(yield* ep.thread("1").invoke(1, { control }), 2)
    }).pipe(onMemory)
  )

  const first = (drain: () => void) =>
    Graph.make("steps", { first: Channel.lastValue(Schema.String), second: Channel.lastValue(Schema.String) })
      .addNode("first", () => Effect.as(Effect.sync(drain), { first: "done" }))
      .addNode("second", () => Effect.succeed({ second: "done" }))
      .addEdge(Graph.START, "first")
      .addEdge("first", "second")

  for (const durability of ["sync", "async", "exit"] as const) {
    it.effect(`per-181 a drain stops before the next superstep, and the thread goes on later (${durability})`, () =>
      Effect.gen(function* () {
        const control = Graph.makeControl()
        const trace = makeTrace()
        const graph = first(() => {
          trace.entries.push("first")
          control.requestDrain("sigterm")
        }).compile()
        const thread = graph.thread("1")
        const drained = yield* failsWith(thread.invoke({}, { control, durability }), "GraphDrained")
        assert.deepStrictEqual([drained.reason, drained.next], ["sigterm", ["second"]])
        const state = yield* thread.state
        assert.deepStrictEqual([state.values, state.next], [{ first: "done" }, ["second"]])
        if (durability === "exit") assert.strictEqual((yield* snapshots(thread)).length, 1)
        assert.deepStrictEqual(yield* thread.resume(), { first: "done", second: "done" })
        assert.deepStrictEqual(trace.entries, ["first"])
      }).pipe(onMemory)
    )
  }

  it.effect(
    "per-181 before the run nothing runs; in the last step nothing changes; the default reason is shutdown",
    () =>
      Effect.gen(function* () {
        const control = Graph.makeControl()
        control.requestDrain()
        const thread = first(() => undefined)
          .compile()
          .thread("1")
        const drained = yield* failsWith(thread.invoke({}, { control }), "GraphDrained")
        assert.deepStrictEqual([drained.reason, drained.next], ["shutdown", ["__start__"]])
        assert.deepStrictEqual((yield* thread.state).next, ["__start__"])
        assert.deepStrictEqual(yield* thread.resume(), { first: "done", second: "done" })
        const late = Graph.makeControl()
        const single = Graph.make("single", { done: Channel.lastValue(Schema.Boolean) })
          .addNode("only", () => Effect.as(Effect.sync(late.requestDrain), { done: true }))
          .addEdge(Graph.START, "only")
          .compile()
        assert.deepStrictEqual(yield* single.thread("2").invoke({}, { control: late }), { done: true })
      }).pipe(onMemory)
  )

  it.effect("core-165 per-181 a drain inside a subgraph stops its parent, and both go on later", () =>
    Effect.gen(function* () {
      const control = Graph.makeControl()
      const trace = makeTrace()
      const flag = Channel.lastValue(Schema.String)
      const inner = Graph.make("inner", { child_first: flag, child_second: flag })
        .addNode("child_one", () =>
          Effect.as(
            Effect.zipRight(
              trace.note("child_one"),
              Effect.sync(() => control.requestDrain())
            ),
            {
              child_first: "done"
            }
          )
        )
        .addNode("child_two", () => Effect.succeed({ child_second: "done" }))
        .addEdge(Graph.START, "child_one")
        .addEdge("child_one", "child_two")
        .compile()
      const parent = Graph.make("parent", { child_first: flag, child_second: flag, parent_second: flag })
        .addGraph("child", inner)
        .addNode("after", () => Effect.succeed({ parent_second: "done" }))
        .addEdge(Graph.START, "child")
        .addEdge("child", "after")
        .compile()
      const thread = parent.thread("1")
      yield* failsWith(thread.invoke({}, { control }), "GraphDrained")
      assert.deepStrictEqual(yield* thread.resume(), {
        child_first: "done",
        child_second: "done",
        parent_second: "done"
      })
      assert.deepStrictEqual(trace.entries, ["child_one"])
    }).pipe(onMemory)
  )
})

describe("entrypoints among graphs", () => {
  it.effect("an entrypoint runs another one, whose pause is its own", () =>
    Effect.gen(function* () {
      const { double, trace } = doubling()
      const inner = Entrypoint.make("inner", {
        input: Schema.Number,
        output: Schema.Number,
        execute: (n) => Effect.zipWith(double(n), Interrupt.interrupt<number>("plus?"), (twice, plus) => twice + plus)
      })
      const outer = Entrypoint.make("outer", {
        input: Schema.Number,
        output: Schema.Number,
        execute: (n) => Effect.flatMap(double(n), (twice) => inner.invoke(twice))
      })
      const thread = outer.thread("1")
      assert.strictEqual((yield* thread.run(1))._tag, "Paused")
      assert.strictEqual(yield* thread.answer(100), 104)
      assert.deepStrictEqual(trace.entries, ["double 1", "double 2"])
    }).pipe(onMemory)
  )

  it.effect("an entrypoint is a node of a graph", () =>
    Effect.gen(function* () {
      const ep = Entrypoint.make("ep", {
        input: Schema.Number,
        output: Schema.Number,
        execute: (n) => Effect.succeed(n + 1)
      })
      const graph = Graph.make("graph", { count: Channel.lastValue(Schema.Number, { initial: () => 0 }) })
        .addNode("call", (state) => Effect.map(ep.invoke(state.count), (count) => ({ count })))
        .addEdge(Graph.START, "call")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ count: 1 }), { count: 2 })
    })
  )

  it.effect("outside of a run an activity does not compile", () => {
    const { double } = doubling()
    // @ts-expect-error the requirement of a task is left over
    // @effect-diagnostics-next-line missingEffectContext:off
    const alone: Effect.Effect<unknown, unknown, never> = double(1)
    return Effect.map(Effect.exit(alone), (exit) => assert.isTrue(Exit.isFailure(exit)))
  })
})

describe("undefined", () => {
  const text = Entrypoint.make("text", {
    input: Schema.String,
    output: Schema.String,
    execute: (input) => Effect.succeed((input === "nothing" ? undefined : input) as string)
  })

  it.effect("is refused as input and as result where the schema does not take it", () =>
    Effect.gen(function* () {
      for (const run of [text.invoke, text.thread("t").invoke]) {
        const input = yield* failsWith(run(undefined as never), "InvalidUpdate")
        assert.deepStrictEqual([input.channel, input.reason], ["input", "InvalidValue"])
        assert.strictEqual(yield* run("something"), "something")
        const output = yield* failsWith(run("nothing"), "InvalidUpdate")
        assert.deepStrictEqual([output.channel, output.reason], ["output", "InvalidValue"])
      }
    }).pipe(onMemory)
  )

  it.effect("is an input and a result where the schema takes it, also after a pause", () =>
    Effect.gen(function* () {
      const maybe = Entrypoint.make("maybe", {
        input: Schema.UndefinedOr(Schema.String),
        output: Schema.UndefinedOr(Schema.String),
        execute: (input) => Effect.as(Interrupt.interrupt("go on?"), input)
      })
      const thread = maybe.thread("t")
      yield* thread.run("first")
      assert.strictEqual(yield* thread.answer(true), "first")
      yield* thread.run(undefined)
      assert.isUndefined(yield* thread.answer(true))
      assert.deepStrictEqual(yield* thread.previous, Option.some(undefined))
    }).pipe(onMemory)
  )
})

const _typed = (event: GraphEvent.Of<"updates", number, number>) => event
void _typed
