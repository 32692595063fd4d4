import { assert, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"
import * as Activity from "../src/Activity.js"
import * as Channel from "../src/Channel.js"
import { layerMemory } from "../src/Checkpointer.js"
import * as Command from "../src/Command.js"
import * as Graph from "../src/Graph.js"
import * as Interrupt from "../src/Interrupt.js"
import * as Thread from "../src/Thread.js"
import { asked, collect, concat, failsWith, log, makeTrace, questions, rows, snapshots, sum } from "./support/thread.js"

const START = Graph.START
const END = Graph.END

/** One node that asks in one market and not in another. */
const market = (trace = makeTrace()) => ({
  trace,
  graph: Graph.make("market", { my_key: concat, market: Channel.lastValue(Schema.String) })
    .addNode(
      "tool_two",
      (state) =>
        Effect.gen(function* () {
          yield* trace.note("tool_two")
          const answer = state.market === "DE" ? yield* Interrupt.interrupt<string>("Just because...") : " all good"
          return { my_key: answer }
        }),
      { retry: Schedule.recurs(3) }
    )
    .addEdge(START, "tool_two")
    .compile()
})

/** A node that asks a person between two that do not. */
const askHuman = (trace = makeTrace()) => ({
  trace,
  graph: Graph.make("ask", { value: log })
    .addNode("node_a", () => Effect.as(trace.note("node_a"), { value: ["a"] }))
    .addNode("ask_human", () =>
      Effect.zipRight(
        trace.note("ask_human"),
        Effect.map(Interrupt.interrupt<string>("What is your input?"), (answer) => ({ value: [`human:${answer}`] }))
      )
    )
    .addNode("node_b", () => Effect.as(trace.note("node_b"), { value: ["b"] }))
    .addEdge(START, "node_a")
    .addEdge("node_a", "ask_human")
    .addEdge("ask_human", "node_b")
    .compile()
})

it.effect("per-031 without a checkpointer an interrupt stops the run, and a retry policy does not repeat it", () =>
  Effect.gen(function* () {
    const { graph, trace } = market()
    const outcome = yield* graph.run({ my_key: "value", market: "DE" })
    assert.deepStrictEqual(questions(outcome), ["Just because..."])
    assert.deepStrictEqual(outcome.state, { my_key: "value", market: "DE" })
    assert.strictEqual(trace.count("tool_two"), 1)
    assert.isString(asked(outcome)[0]!.id)
    const pause = yield* failsWith(graph.invoke({ my_key: "value", market: "DE" }), "GraphInterrupt")
    assert.deepStrictEqual(
      pause.interrupts.map(({ value }) => value),
      ["Just because..."]
    )
    assert.deepStrictEqual(pause.next, ["tool_two"])
    assert.deepStrictEqual(yield* graph.invoke({ my_key: "value", market: "US" }), {
      my_key: "value all good",
      market: "US"
    })
  })
)

it.effect("per-032 a paused run's stream tells only the question, a resumed one's only the answer's effect", () =>
  Effect.gen(function* () {
    const { graph } = market()
    const thread = graph.thread("2")
    const first = yield* collect(thread.stream({ my_key: "value", market: "DE" }))
    assert.deepStrictEqual(
      first.map((event) => (event._tag === "Interrupted" ? event.interrupts.map(({ value }) => value) : event)),
      [["Just because..."]]
    )
    const second = yield* collect(thread.resumeStream(Thread.answer(" my answer")))
    assert.deepStrictEqual(
      second.map((event) => (event._tag === "Updates" ? [event.node, event.update, event.cached] : event)),
      [["tool_two", { my_key: " my answer" }, false]]
    )
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-033 a snapshot shows the pause, and updating as END clears it", () =>
  Effect.gen(function* () {
    const { graph } = market()
    const thread = graph.thread("1")
    const outcome = yield* thread.run({ my_key: "value", market: "DE" }, { durability: "exit" })
    const history = yield* snapshots(thread)
    assert.deepStrictEqual(
      history.map(({ checkpoint }) => [checkpoint!.source, checkpoint!.step, checkpoint!.parent]),
      [["loop", 0, undefined]]
    )
    const state = yield* thread.state
    assert.deepStrictEqual(state.values, { my_key: "value", market: "DE" })
    assert.deepStrictEqual(state.next, ["tool_two"])
    assert.strictEqual(state.tasks.length, 1)
    const task = state.tasks[0]!
    assert.deepStrictEqual([task.node, task.result, task.error], ["tool_two", undefined, undefined])
    assert.deepStrictEqual(
      task.interrupts.map(({ id, value }) => [id, value]),
      asked(outcome).map(({ id, value }) => [id, value])
    )
    assert.deepStrictEqual(state.interrupts, task.interrupts)
    assert.deepStrictEqual(state.metadata, {})

    const cleared = yield* thread.update(null, { as: END })
    const after = yield* thread.state
    assert.strictEqual(after.checkpoint!.id, cleared)
    assert.deepStrictEqual(after.values, state.values)
    assert.deepStrictEqual([after.next, after.tasks, after.interrupts], [[], [], []])
    assert.deepStrictEqual([after.checkpoint!.source, after.checkpoint!.step], ["update", 1])
    assert.strictEqual(after.checkpoint!.parent!.id, state.checkpoint!.id)
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-035 an interrupt lets siblings finish, and neither runs again without an answer", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const graph = Graph.make("siblings", { hello: concat })
      .addNode("agent", () =>
        Effect.zipRight(trace.note("agent"), Effect.as(Effect.sleep("1 second"), { hello: " again" }))
      )
      .addNode("bad", () =>
        Effect.zipRight(
          trace.note("bad"),
          Effect.map(Interrupt.interrupt<string>("I am bad"), (hello) => ({ hello }))
        )
      )
      .addEdge(START, "agent")
      .addEdge(START, "bad")
      .compile()
    const thread = graph.thread("t")
    const fiber = yield* Effect.fork(thread.run({ hello: "world" }))
    yield* TestClock.adjust("1 second")
    const first = yield* Fiber.join(fiber)
    assert.deepStrictEqual(first.state, { hello: "world again" })
    assert.deepStrictEqual([trace.count("agent"), trace.count("bad")], [1, 1])
    // A pause without a new answer is not run again: the question and its id stay.
    const second = yield* failsWith(thread.resume(), "GraphInterrupt")
    assert.deepStrictEqual(
      second.interrupts.map(({ id }) => id),
      asked(first).map(({ id }) => id)
    )
    assert.deepStrictEqual([trace.count("agent"), trace.count("bad")], [1, 1])
    assert.deepStrictEqual(yield* thread.answer(" okay"), { hello: "world again okay" })
    assert.deepStrictEqual([trace.count("agent"), trace.count("bad")], [1, 2])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-036 going on without an answer asks the same again, a new input abandons the waiting task", () =>
  Effect.gen(function* () {
    const { graph, trace } = askHuman()
    const thread = graph.thread("a")
    const first = yield* thread.run({ value: [] })
    const ids = asked(first).map(({ id }) => id)
    for (let i = 0; i < 2; i++) {
      const again = yield* failsWith(thread.resume(), "GraphInterrupt")
      assert.deepStrictEqual(
        again.interrupts.map(({ id }) => id),
        ids
      )
      assert.deepStrictEqual((yield* thread.state).values, { value: ["a"] })
    }
    assert.deepStrictEqual(trace.entries, ["node_a", "ask_human"])
    assert.deepStrictEqual(yield* rows(thread), [
      ["loop", 1, ["ask_human"], { value: ["a"] }],
      ["loop", 0, ["node_a"], { value: [] }],
      ["input", -1, ["__start__"], { value: [] }]
    ])

    trace.take()
    const other = graph.thread("b")
    const before = yield* other.run({ value: [] })
    const after = yield* other.run({ value: ["x"] })
    assert.deepStrictEqual(trace.entries, ["node_a", "ask_human", "node_a", "ask_human"])
    assert.deepStrictEqual(after.state, { value: ["a", "x", "a"] })
    assert.notStrictEqual(asked(after)[0]!.id, asked(before)[0]!.id)
    assert.deepStrictEqual(yield* rows(other), [
      ["loop", 4, ["ask_human"], { value: ["a", "x", "a"] }],
      ["loop", 3, ["node_a"], { value: ["a", "x"] }],
      ["input", 2, ["__start__"], { value: ["a"] }],
      ["loop", 1, ["ask_human"], { value: ["a"] }],
      ["loop", 0, ["node_a"], { value: [] }],
      ["input", -1, ["__start__"], { value: [] }]
    ])
    const abandoned = (yield* snapshots(other))[3]!
    assert.deepStrictEqual(
      abandoned.interrupts.map(({ id }) => id),
      asked(before).map(({ id }) => id)
    )
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-037 several interrupts of one node have ids of their own and take their answers in order", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const graph = Graph.make("twice", { value: log })
      .addNode("ask", () =>
        Effect.gen(function* () {
          yield* trace.note("ask")
          const a = yield* Interrupt.interrupt<string>("q1")
          const b = yield* Interrupt.interrupt<string>("q2")
          return { value: [a, b] }
        })
      )
      .addEdge(START, "ask")
      .compile()
    const thread = graph.thread("t")
    const first = yield* thread.run({ value: [] })
    assert.deepStrictEqual(questions(first), ["q1"])
    const second = yield* failsWith(thread.answer("1"), "GraphInterrupt")
    assert.deepStrictEqual(
      second.interrupts.map(({ value }) => value),
      ["q2"]
    )
    assert.notStrictEqual(second.interrupts[0]!.id, asked(first)[0]!.id)
    const waiting = yield* thread.state
    assert.deepStrictEqual(waiting.values, { value: [] })
    assert.deepStrictEqual(waiting.next, ["ask"])
    assert.deepStrictEqual(
      waiting.interrupts.map(({ value }) => value),
      ["q2"]
    )
    assert.deepStrictEqual(yield* thread.answer("2"), { value: ["1", "2"] })
    assert.strictEqual(trace.count("ask"), 3)
    const asking = (yield* snapshots(thread))[1]!
    assert.deepStrictEqual(asking.tasks[0]!.result, { value: ["1", "2"] })

    const ages = Graph.make("ages", { age: Channel.lastValue(Schema.Number), other: concat })
      .addNode("node", () =>
        Effect.gen(function* () {
          let question = "How old are you?"
          while (true) {
            const value = Number(yield* Interrupt.interrupt(question))
            if (value >= 18) return { age: value }
            question = "invalid response"
          }
        })
      )
      .addEdge(START, "node")
      .compile()
      .thread("ages")
    assert.deepStrictEqual(questions(yield* ages.run({ other: "" })), ["How old are you?"])
    for (const answer of ["13", "15"]) {
      const pause = yield* failsWith(ages.answer(answer), "GraphInterrupt")
      assert.deepStrictEqual(
        pause.interrupts.map(({ value }) => value),
        ["invalid response"]
      )
    }
    const last = yield* collect(ages.resumeStream(Thread.answer("19")))
    assert.deepStrictEqual(
      last.map((event) => (event._tag === "Updates" ? [event.node, event.update] : event)),
      [["node", { age: 19 }]]
    )
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-038 a pause shows among updates and among values, in the order of events", () =>
  Effect.gen(function* () {
    const graph = Graph.make("robot", {
      robot_input: Channel.lastValue(Schema.String),
      human_input: Channel.lastValue(Schema.String)
    })
      .addNode("robot_input_node", () => Effect.succeed({ robot_input: "beep boop i am a robot" }))
      .addNode("human_input_node", () =>
        Effect.map(Interrupt.interrupt<string>("interrupt"), (human_input) => Command.make({ update: { human_input } }))
      )
      .addEdge(START, "robot_input_node")
      .addEdge("robot_input_node", "human_input_node")
      .compile()
    const thread = graph.thread("t")
    const said = (event: { readonly _tag: string } & Record<string, any>) =>
      event._tag === "Values"
        ? ["values", event.state]
        : event._tag === "Updates"
          ? ["updates", event.node, event.update]
          : ["interrupted", event.interrupts.map((one: { value: unknown }) => one.value)]
    const robot = { robot_input: "beep boop i am a robot" }
    const first = yield* collect(thread.stream({}, { modes: ["updates", "values"] }))
    // The state of a pause is an event of its own, without the question in it.
    assert.deepStrictEqual(first.map(said), [
      ["updates", "robot_input_node", robot],
      ["values", robot],
      ["interrupted", ["interrupt"]],
      ["values", robot]
    ])
    const second = yield* collect(thread.resumeStream(Thread.answer("i am a human"), { modes: ["updates", "values"] }))
    assert.deepStrictEqual(second.map(said), [
      ["values", robot],
      ["updates", "human_input_node", { human_input: "i am a human" }],
      ["values", { ...robot, human_input: "i am a human" }]
    ])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-040 a node's error handler does not swallow its pause", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const graph = Graph.make("handled", { foo: concat })
      .addNode("node_a", () => Effect.map(Interrupt.interrupt<string>("q"), (foo) => ({ foo })), {
        onError: () => Effect.as(trace.note("handler"), { foo: "handled" })
      })
      .addNode("node_b", () => Effect.succeed({ foo: "b" }))
      .addEdge(START, "node_a")
      .addEdge(START, "node_b")
      .compile()
    const thread = graph.thread("t")
    assert.deepStrictEqual(questions(yield* thread.run({ foo: "" })), ["q"])
    const state = yield* thread.state
    assert.deepStrictEqual(
      state.tasks.map(({ interrupts, node }) => [node, interrupts.length]),
      [
        ["node_a", 1],
        ["node_b", 0]
      ]
    )
    assert.deepStrictEqual(trace.entries, [])
    assert.deepStrictEqual(yield* thread.answer("a"), { foo: "ab" })
    assert.deepStrictEqual(trace.entries, [])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-041 a sibling's failure wins over a pause, which is recorded all the same", () =>
  Effect.gen(function* () {
    const graph = Graph.make("both", { value: sum })
      .addNode("i", () => Effect.map(Interrupt.interrupt<number>("q"), (value) => ({ value })))
      .addNode("f", () => Effect.fail(new Error("bad")))
      .addEdge(START, "i")
      .addEdge(START, "f")
      .compile()
    const thread = graph.thread("t")
    const result = yield* Effect.either(thread.invoke({ value: 0 }))
    assert.isTrue(Either.isLeft(result) && result.left instanceof Error && result.left.message === "bad")
    const state = yield* thread.state
    assert.deepStrictEqual(Array.from(state.next).sort(), ["f", "i"])
    const task = (node: string) => state.tasks.find((one) => one.node === node)!
    assert.deepStrictEqual(
      task("i").interrupts.map(({ value }) => value),
      ["q"]
    )
    assert.match(task("f").error!, /bad/)
    assert.isUndefined(task("i").result)
    assert.isUndefined(task("f").result)
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-042 a pause can't be swallowed, whatever the node does with its failure", () =>
  Effect.gen(function* () {
    const ways: Record<string, Effect.Effect<number, unknown, import("../src/Task.js").Task>> = {
      catchAll: Effect.catchAll(Interrupt.interrupt<number>("q"), () => Effect.succeed(1000)),
      catchAllCause: Effect.catchAllCause(Interrupt.interrupt<number>("q"), () => Effect.succeed(1000)),
      orElse: Effect.orElseSucceed(Interrupt.interrupt<number>("q"), () => 1000),
      retry: Effect.retry(Interrupt.interrupt<number>("q"), Schedule.recurs(5)),
      race: Effect.race(Interrupt.interrupt<number>("q"), Effect.succeed(1000)),
      exit: Effect.as(Effect.exit(Interrupt.interrupt<number>("q")), 1000),
      timeout: Effect.timeoutTo(Interrupt.interrupt<number>("q"), {
        duration: "1 second",
        onSuccess: () => 1000,
        onTimeout: () => 1000
      }),
      goesOn: Effect.zipRight(Effect.ignore(Interrupt.interrupt("q")), Effect.never),
      sleeps: Effect.zipRight(Effect.ignore(Interrupt.interrupt("q")), Effect.as(Effect.sleep("1 day"), 1000))
    }
    for (const [way, effect] of Object.entries(ways)) {
      let finalized = 0
      const graph = Graph.make("swallow", { value: sum })
        .addNode("node", () =>
          Effect.map(
            Effect.ensuring(
              effect,
              Effect.sync(() => finalized++)
            ),
            (value) => ({ value })
          )
        )
        .addNode("sibling", () => Effect.succeed({ value: 1 }))
        .addEdge(START, "node")
        .addEdge(START, "sibling")
        .compile()
      const thread = graph.thread(`swallow ${way}`)
      const outcome = yield* thread.run({ value: 0 })
      assert.deepStrictEqual(questions(outcome), ["q"], way)
      assert.deepStrictEqual(outcome.state, { value: 1 }, way)
      assert.strictEqual(finalized, 1, way)
      const state = yield* thread.state
      assert.deepStrictEqual(state.next, ["node"], way)
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("the pause of a node stays although the node fails with another error afterwards", () =>
  Effect.gen(function* () {
    const graph = Graph.make("mapped", { value: sum })
      .addNode("node", () =>
        Effect.map(
          Effect.mapError(Interrupt.interrupt<number>("q"), () => "something else" as const),
          (value) => ({ value })
        )
      )
      .addEdge(START, "node")
      .compile()
    const thread = graph.thread("t")
    assert.deepStrictEqual(questions(yield* thread.run({ value: 0 })), ["q"])
    assert.deepStrictEqual(yield* thread.answer(3), { value: 3 })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("finalizers of a paused node run once and to their end", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const graph = Graph.make("finalized", { value: sum })
      .addNode("node", () =>
        Effect.scoped(
          Effect.gen(function* () {
            yield* Effect.addFinalizer(() => Effect.zipRight(Effect.sleep("1 second"), trace.note("released")))
            const value = yield* Interrupt.interrupt<number>("q")
            return { value }
          })
        )
      )
      .addEdge(START, "node")
      .compile()
    const fiber = yield* Effect.fork(graph.run({ value: 0 }))
    yield* TestClock.adjust("1 second")
    assert.deepStrictEqual(questions(yield* Fiber.join(fiber)), ["q"])
    assert.deepStrictEqual(trace.entries, ["released"])
  })
)

it.effect("per-043 a question asked in a helper of the node is told exactly once", () =>
  Effect.gen(function* () {
    const addParticipant = (name: string) =>
      Effect.map(Interrupt.interrupt<boolean>(`Hey do you want to add ${name}?`), (yes) =>
        yes ? `Added ${name}!` : "no"
      )
    const graph = Graph.make("participants", { added: log })
      .addNode("entry", () =>
        Effect.gen(function* () {
          const first = yield* addParticipant("James")
          const second = yield* addParticipant("Will")
          return { added: [first, second] }
        })
      )
      .addEdge(START, "entry")
      .compile()
    const thread = graph.thread("t")
    const interrupted = (events: ReadonlyArray<{ readonly _tag: string }>) =>
      events.filter(({ _tag }) => _tag === "Interrupted").length
    assert.strictEqual(interrupted(yield* collect(thread.stream({ added: [] }))), 1)
    assert.deepStrictEqual(
      (yield* thread.state).tasks[0]!.interrupts.map(({ value }) => value),
      ["Hey do you want to add James?"]
    )
    assert.strictEqual(interrupted(yield* collect(thread.resumeStream(Thread.answer(true)))), 1)
    assert.deepStrictEqual(
      (yield* thread.state).tasks[0]!.interrupts.map(({ value }) => value),
      ["Hey do you want to add Will?"]
    )
    assert.deepStrictEqual(yield* thread.answer(true), { added: ["Added James!", "Added Will!"] })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("questions asked in parallel by one node are all told and answered by id", () =>
  Effect.gen(function* () {
    const graph = Graph.make("parallel", { value: log })
      .addNode("ask", () =>
        Effect.map(
          Effect.forEach(["x", "y", "z"], (name) => Interrupt.interrupt<string>(name, { key: name }), {
            concurrency: "unbounded"
          }),
          (value) => ({ value })
        )
      )
      .addEdge(START, "ask")
      .compile()
    const thread = graph.thread("t")
    const outcome = yield* thread.run({ value: [] })
    assert.include(questions(outcome) as Array<string>, "x")
    const answers = Object.fromEntries(asked(outcome).map(({ id, value }) => [id, `${value}!`]))
    let result = yield* Effect.either(thread.resume(answers))
    while (Either.isLeft(result)) {
      const left = result.left
      assert.strictEqual(left._tag, "GraphInterrupt")
      if (left._tag !== "GraphInterrupt") return
      result = yield* Effect.either(
        thread.resume(Object.fromEntries(left.interrupts.map(({ id, value }) => [id, `${value}!`])))
      )
    }
    assert.deepStrictEqual(result.right, { value: ["x!", "y!", "z!"] })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("a typed interrupt asks and answers in its schemas' encoded form", () =>
  Effect.gen(function* () {
    const Approve = Interrupt.make("approve", {
      request: Schema.Struct({ at: Schema.Date }),
      answer: Schema.Struct({ until: Schema.Date })
    })
    const graph = Graph.make("typed", { until: Channel.lastValue(Schema.Number) })
      .addNode("node", () => Effect.map(Approve({ at: new Date(1000) }), ({ until }) => ({ until: until.getTime() })))
      .addEdge(START, "node")
      .compile()
    const thread = graph.thread("t")
    const outcome = yield* thread.run({})
    assert.deepStrictEqual(questions(outcome), [{ at: "1970-01-01T00:00:01.000Z" }])
    assert.strictEqual(asked(outcome)[0]!.name, "approve")
    assert.deepStrictEqual(yield* thread.resume(Approve, { until: new Date(5) }), { until: 5 })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("an answer that does not decode fails with InvalidAnswer and leaves the pause pending", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const Age = Interrupt.make("age", { request: Schema.String, answer: Schema.Int })
    const graph = Graph.make("typed", { age: Channel.lastValue(Schema.Number) })
      .addNode("node", () =>
        Effect.gen(function* () {
          const age = yield* Age("How old?")
          yield* trace.note("answered")
          return { age }
        })
      )
      .addEdge(START, "node")
      .compile()
    const thread = graph.thread("t")
    const outcome = yield* thread.run({})
    for (const durability of ["sync", "async", "exit"] as const) {
      const error = yield* failsWith(thread.answer("old", { durability }), "InvalidAnswer")
      assert.strictEqual(error.interrupt, "age")
      const state = yield* thread.state
      assert.deepStrictEqual(
        state.interrupts.map(({ id }) => id),
        asked(outcome).map(({ id }) => id),
        durability
      )
      assert.deepStrictEqual(state.next, ["node"])
    }
    // A person's typed mistake is refused before anything is read or written.
    yield* failsWith(thread.resume(Age, 1.5), "InvalidAnswer")
    assert.deepStrictEqual(yield* thread.answer(30), { age: 30 })
    assert.deepStrictEqual(trace.entries, ["answered"])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("an activity before a pause ran once although its node runs again", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const charge = Activity.make("charge", {
      input: Schema.Struct({ cents: Schema.Int }),
      success: Schema.String,
      execute: ({ cents }) => Effect.as(trace.note("charge"), `receipt ${cents}`)
    })
    const graph = Graph.make("pay", { value: log })
      .addNode("node", () =>
        Effect.gen(function* () {
          const receipt = yield* charge({ cents: 500 })
          const answer = yield* Interrupt.interrupt<string>("ok?")
          return { value: [receipt, answer] }
        })
      )
      .addEdge(START, "node")
      .compile()
    const thread = graph.thread("t")
    assert.deepStrictEqual(questions(yield* thread.run({ value: [] })), ["ok?"])
    assert.deepStrictEqual(yield* thread.answer("yes"), { value: ["receipt 500", "yes"] })
    assert.deepStrictEqual(trace.entries, ["charge"])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("a question that can't be saved fails with InvalidUpdate and names its path", () =>
  Effect.gen(function* () {
    const graph = Graph.make("unsayable", { value: log })
      .addNode("node", () => Effect.as(Interrupt.interrupt({ deep: [1n] }), { value: [] }))
      .addEdge(START, "node")
      .compile()
    const thread = graph.thread("t")
    const error = yield* failsWith(thread.run({ value: ["x"] }), "InvalidUpdate")
    assert.strictEqual(error.node, "node")
    assert.strictEqual(error.reason, "NotEncodable")
    assert.include(error.path!, "deep")
    assert.deepStrictEqual((yield* thread.state).next, ["node"])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("a pause while a sibling still runs does not end the run before the sibling", () =>
  Effect.gen(function* () {
    const gate = yield* Deferred.make<void>()
    const graph = Graph.make("waits", { value: log })
      .addNode("asks", () => Effect.map(Interrupt.interrupt<string>("q"), (value) => ({ value })))
      .addNode("works", () => Effect.as(Deferred.await(gate), { value: ["work"] }))
      .addEdge(START, "asks")
      .addEdge(START, "works")
      .compile()
    const thread = graph.thread("t")
    const fiber = yield* Effect.fork(thread.run({ value: [] }))
    yield* Effect.yieldNow()
    assert.isNull(fiber.unsafePoll())
    yield* Deferred.succeed(gate, undefined)
    const outcome = yield* Fiber.join(fiber).pipe(Effect.timeout(Duration.seconds(1)))
    assert.deepStrictEqual(outcome.state, { value: ["work"] })
  }).pipe(Effect.provide(layerMemory))
)
