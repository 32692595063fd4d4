import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Channel from "../src/Channel.js"
import { layerMemory } from "../src/Checkpointer.js"
import * as Graph from "../src/Graph.js"
import * as Interrupt from "../src/Interrupt.js"
import * as SqliteCheckpointer from "../src/SqliteCheckpointer.js"

const channels = { log: Channel.append(Schema.String) }

const First = Interrupt.make("first", { request: Schema.String, answer: Schema.Number })
const Second = Interrupt.make("second", { request: Schema.String, answer: Schema.Number })

const ask = (question: string) => Interrupt.interrupt<string>(question)

/** One question after the other. */
const askTwice = () =>
  Effect.gen(function* () {
    const [one, two] = [yield* First("one?"), yield* Second("two?")]
    return { log: `${one}${two}` }
  })

/** Asks two questions in each of two supersteps. */
const child = Graph.make("child", channels)
  .addNode("ask", () => Effect.map(Effect.all([ask("1"), ask("2")]), (answers) => ({ log: answers.join("") })))
  .addNode("also", () => Effect.succeed({}))
  .addEdge(Graph.START, "ask")
  .addEdge(Graph.START, "also")
  .addEdge("also", "ask")
  .compile()

const graph = Graph.make("answers", channels)
  .addNode("beside", () => Effect.map(ask("0"), (log) => ({ log })))
  .addGraph("child", child, { input: () => ({}), output: ({ log }) => ({ log }) })
  .addEdge(Graph.START, "beside")
  .addEdge(Graph.START, "child")
  .compile()

describe("answers", () => {
  for (const [name, layer] of [
    ["memory", layerMemory],
    ["SQLite", SqliteCheckpointer.layer({ filename: ":memory:" })]
  ] as const) {
    it.effect(`to many questions of one task, given beside another task's, are all kept (${name})`, () =>
      Effect.gen(function* () {
        const thread = graph.thread("t")
        let outcome = yield* Effect.either(thread.invoke({}))
        const asked: Array<string> = []
        for (let call = 0; call < 6 && outcome._tag === "Left"; call++) {
          const { left: error } = outcome
          if (error._tag !== "GraphInterrupt") return yield* error
          asked.push(error.interrupts.map(({ value }) => value).join(" "))
          const answers = error.interrupts.map(({ id, value }) => [id, `a${value}`])
          outcome = yield* Effect.either(thread.resume(Object.fromEntries(answers)))
        }
        assert.deepStrictEqual(asked, ["0 1", "2", "1", "2"])
        assert.deepStrictEqual((yield* thread.state).values.log, ["a0", "a1a2", "a1a2"])
      }).pipe(Effect.provide(layer))
    )
  }

  it.effect("that were given before an invalid one are kept", () =>
    Effect.gen(function* () {
      const twice = Graph.make("twice", channels).addNode("ask", askTwice).addEdge(Graph.START, "ask").compile()
      const thread = twice.thread("t")
      yield* thread.run({})
      yield* Effect.flip(thread.resume(First, 1))
      const error = yield* Effect.flip(thread.answer("no number"))
      assert.strictEqual(error._tag, "InvalidAnswer")
      assert.deepStrictEqual(
        (yield* thread.state).interrupts.map(({ value }) => value),
        ["two?"]
      )
      assert.deepStrictEqual((yield* thread.resume(Second, 2)).log, ["12"])
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect(
    "that are invalid leave a subgraph's question open, whatever handles the failures of the node around it",
    () =>
      Effect.gen(function* () {
        const inner = Graph.make("inner", channels).addNode("ask", askTwice).addEdge(Graph.START, "ask").compile()
        const outer = Graph.make("outer", channels)
          .addNode("call", () => Effect.map(inner.invoke({}), ({ log }) => ({ log })), {
            onError: () => Effect.succeed({ log: "handled" })
          })
          .addNode("beside", () => Effect.map(Second("beside?"), (log) => ({ log: String(log) })))
          .addEdge(Graph.START, "call")
          .addEdge(Graph.START, "beside")
          .compile()
        for (const durability of ["sync", "async", "exit"] as const) {
          const thread = outer.thread(durability)
          const questions = Effect.map(thread.state, ({ interrupts }) => interrupts.map(({ value }) => value))
          yield* thread.run({}, { durability })
          yield* Effect.flip(thread.resume(First, 1, { durability }))
          assert.deepStrictEqual(yield* questions, ["beside?", "two?"])
          const [beside, two] = (yield* thread.state).interrupts
          const both = { [beside!.id]: 3, [two!.id]: "no number" }
          const error = yield* Effect.flip(thread.resume(both, { durability }))
          assert.strictEqual(error._tag, "InvalidAnswer")
          assert.deepStrictEqual(yield* questions, ["two?"])
          assert.deepStrictEqual((yield* thread.answer(2, { durability })).log, ["3", "12"])
        }
      }).pipe(Effect.provide(layerMemory))
  )
})
