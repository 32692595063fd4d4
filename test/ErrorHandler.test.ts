/** Handlers of failures are tasks like others: finished ones are kept, they pause, and nobody else addresses them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Channel, Checkpointer, Command, Graph, Interrupt, Send, type Task } from "effect-pregel"
import { names, says } from "./support/graphs.js"
import { asked, before, failsWith, makeTrace, questions } from "./support/thread.js"

const ask = Interrupt.interrupt<string>
const inMemory = Effect.provide(Checkpointer.layerMemory)

/** Fails after so many turns of other fibers. */
const failsLate = (turns: number) => Effect.zipRight(Effect.repeatN(Effect.yieldNow(), turns), Effect.fail("boom"))

describe("a handler that has finished", () => {
  /** `a` fails and is handled while `b` waits for an answer. */
  const handledBesideAQuestion = (trace: ReturnType<typeof makeTrace>) =>
    Graph.make("g", names)
      .addNode("a", () => Effect.zipRight(trace.note("a"), Effect.fail("boom")), {
        onError: () => Effect.as(trace.note("handler"), { foo: "handled" })
      })
      .addNode("b", () => Effect.map(ask("q"), (answer) => ({ foo: answer })))
      .addNode("after", says("after"))
      .addEdge(Graph.START, "a")
      .addEdge(Graph.START, "b")
      .addEdge("b", "after")
      .compile()
      .thread("t")

  it.effect("is not run again when the run goes on", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const thread = handledBesideAQuestion(trace)
      yield* thread.run({})
      assert.deepStrictEqual((yield* thread.answer("yes")).foo, ["yes", "handled", "after"])
      assert.deepStrictEqual(trace.entries, ["a", "handler"])
    }).pipe(inMemory)
  )

  it.effect("counts for its node in the state of the thread", () =>
    Effect.gen(function* () {
      const thread = handledBesideAQuestion(makeTrace())
      yield* thread.run({})
      const { next, tasks, values } = yield* thread.state
      assert.deepStrictEqual(next, ["b"])
      assert.deepStrictEqual(values, { foo: ["handled"] })
      assert.deepStrictEqual(
        tasks.map(({ error, node, result }) => [node, result, error]),
        [
          ["a", { foo: ["handled"] }, "boom"],
          ["b", undefined, undefined]
        ]
      )
      yield* thread.answer("yes")
      const [a] = (yield* before(thread, "a", "b")).tasks
      assert.deepStrictEqual(a!.result, { foo: ["handled"] })
    }).pipe(inMemory)
  )

  it.effect("is applied when what is pending is cleared, and by an update of its sibling", () =>
    Effect.gen(function* () {
      const cleared = handledBesideAQuestion(makeTrace())
      yield* cleared.run({})
      yield* cleared.update(null, { as: Graph.END })
      assert.deepStrictEqual((yield* cleared.state).values, { foo: ["handled"] })
      assert.deepStrictEqual((yield* cleared.state).next, [])
      const updated = Graph.make("g2", names)
        .addNode("a", () => Effect.fail("boom"), { onError: () => Effect.succeed({ foo: "handled" }) })
        .addNode("b", () => Effect.map(ask("q"), (answer) => ({ foo: answer })))
        .addEdge(Graph.START, "a")
        .addEdge(Graph.START, "b")
        .compile()
        .thread("t2")
      yield* updated.run({})
      yield* updated.update({ foo: "instead" }, { as: "b" })
      assert.deepStrictEqual((yield* updated.state).values, { foo: ["handled", "instead"] })
      assert.deepStrictEqual((yield* updated.state).next, [])
    }).pipe(inMemory)
  )

  it.effect("leaves its node as the last one that ran, which updates count as", () =>
    Effect.gen(function* () {
      const thread = Graph.make("g", names)
        .addNode("a", () => Effect.fail("boom"), { onError: () => Effect.succeed({ foo: "handled" }) })
        .addNode("after", says("after"))
        .addEdge(Graph.START, "a")
        .addEdge("a", "after")
        .compile()
        .thread("t")
      yield* thread.run({})
      assert.deepStrictEqual((yield* thread.state).checkpoint?.ran, ["a"])
      yield* thread.update({ foo: "edited" })
      assert.deepStrictEqual((yield* thread.state).next, ["after"])
    }).pipe(inMemory)
  )

  it.effect("of several sends is kept for the one that failed", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const work = (turns: number): Effect.Effect<unknown, unknown, Task.Task> =>
        turns === 2 ? ask("q") : failsLate(turns)
      const thread = Graph.make("g", names)
        .addWorker(
          "work",
          Schema.Number,
          (turns) => Effect.zipRight(work(turns), Effect.succeed({ foo: "answered" })),
          {
            onError: (_, turns) => Effect.as(trace.note(`handler ${turns}`), { foo: `handled ${turns}` })
          }
        )
        .addConditionalEdges(Graph.START, () => [5, 2, 1].map((turns) => Send.make("work", turns)), ["work"])
        .compile()
        .thread("t")
      yield* thread.run({})
      assert.deepStrictEqual((yield* thread.answer("yes")).foo, ["answered", "handled 5", "handled 1"])
      assert.deepStrictEqual(trace.entries, ["handler 1", "handler 5"])
    }).pipe(inMemory)
  )
})

describe("a handler that asks", () => {
  it.effect("waits under an id that does not depend on which node failed first", () =>
    Effect.gen(function* () {
      const handler = (name: string) => () => Effect.map(ask(name), (answer) => ({ foo: `${name}: ${answer}` }))
      const thread = Graph.make("g", names)
        .addNode("a", () => failsLate(3), { onError: handler("a") })
        .addNode("b", () => failsLate(1), { onError: handler("b") })
        .addEdge(Graph.START, "a")
        .addEdge(Graph.START, "b")
        .compile()
        .thread("t")
      const outcome = yield* thread.run({})
      assert.deepStrictEqual(questions(outcome), ["b", "a"])
      assert.deepStrictEqual(outcome._tag === "Paused" && outcome.next, ["b", "a"])
      const { interrupts, next } = yield* thread.state
      assert.deepStrictEqual(next, ["a", "b"])
      assert.deepStrictEqual(
        interrupts.map(({ value }) => value),
        ["a", "b"]
      )
      const [b] = asked(outcome)
      const { interrupts: left } = yield* failsWith(thread.resume({ [b!.id as "a:b"]: "B" }), "GraphInterrupt")
      assert.deepStrictEqual(
        left.map(({ value }) => value),
        ["a"]
      )
      assert.deepStrictEqual((yield* thread.answer("A")).foo, ["a: A", "b: B"])
    }).pipe(inMemory)
  )

  it.effect("has a subgraph that goes on where it was", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const child = Graph.make("child", names)
        .addNode("first", () => Effect.as(trace.note("first"), { foo: "first" }))
        .addNode("ask", () => Effect.map(ask("q"), (answer) => ({ foo: answer })))
        .addEdge(Graph.START, "first")
        .addEdge("first", "ask")
        .compile()
      const handler = () => Effect.map(child.invoke({}), ({ foo }) => ({ foo }))
      const thread = Graph.make("g", names)
        .addNode("a", () => failsLate(3), { onError: handler })
        .addNode("b", () => failsLate(1), { onError: handler })
        .addEdge(Graph.START, "a")
        .addEdge(Graph.START, "b")
        .compile()
        .thread("t")
      const answers = Object.fromEntries(asked(yield* thread.run({})).map(({ id }) => [id, "yes"]))
      assert.deepStrictEqual((yield* thread.resume(answers)).foo, ["first", "yes", "first", "yes"])
      assert.strictEqual(trace.count("first"), 2)
    }).pipe(inMemory)
  )
})

describe("writes of handlers", () => {
  it.effect("are folded in the order of the nodes that failed, whichever failed first", () =>
    Effect.gen(function* () {
      const graph = (turns: { readonly a: number; readonly b: number }) =>
        Graph.make("g", { foo: Channel.append(Schema.String) })
          .addNode("a", () => failsLate(turns.a), { onError: () => Effect.succeed({ foo: "a" }) })
          .addNode("b", () => failsLate(turns.b), { onError: () => Effect.succeed({ foo: "b" }) })
          .addEdge(Graph.START, "b")
          .addEdge(Graph.START, "a")
          .compile()
      assert.deepStrictEqual((yield* graph({ a: 1, b: 5 }).invoke({})).foo, ["a", "b"])
      assert.deepStrictEqual((yield* graph({ a: 5, b: 1 }).invoke({})).foo, ["a", "b"])
    })
  )
})

describe("the engine's own nodes", () => {
  const graph = Graph.make("g", names)
    .addNode("a", () => Effect.fail("boom"), { onError: () => Effect.succeed({ foo: "handled" }) })
    .addEdge(Graph.START, "a")
    .compile()

  for (const name of ["__error_handler__a", "__start__"] as const) {
    it.effect(`are no place to go to, to send to or to stop at: ${name}`, () =>
      Effect.gen(function* () {
        const thread = graph.thread("t")
        yield* failsWith(thread.run(Command.make({ goto: name }) as never), "UnknownNode")
        yield* failsWith(thread.run(Command.make({ goto: Send.make(name, {}) }) as never), "UnknownNode")
        yield* failsWith(thread.run({}, { interruptBefore: [name as never] }), "UnknownNode")
        yield* failsWith(thread.run({}, { interruptAfter: [name as never] }), "UnknownNode")
        assert.isUndefined((yield* thread.state).checkpoint)
      }).pipe(inMemory)
    )
  }

  it.effect("are nobody that an update counts as, but for the start", () =>
    Effect.gen(function* () {
      const thread = graph.thread("t")
      yield* failsWith(thread.update({ foo: "x" }, { as: "__error_handler__a" as never }), "UnknownNode")
      yield* thread.update({ foo: "x" }, { as: Graph.START })
      assert.deepStrictEqual((yield* thread.state).next, ["a"])
    }).pipe(inMemory)
  )
})
