import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Channel, Checkpointer, Graph, Interrupt } from "effect-pregel"

const Review = Interrupt.make("review", {
  request: Schema.Struct({ licence: Schema.String, since: Schema.Date }),
  answer: Schema.Literal("allow", "deny")
})

const graph = Graph.make("reviews", { log: Channel.append(Schema.String) })
  .addNode("mit", () =>
    Effect.map(Review({ licence: "MIT", since: new Date(0) }), (answer) => ({ log: `mit ${answer}` }))
  )
  .addNode("zlib", () =>
    Effect.map(Review({ licence: "Zlib", since: new Date(1) }), (answer) => ({ log: `zlib ${answer}` }))
  )
  .addNode("person", () => Effect.map(Interrupt.interrupt<string>("who?"), (name) => ({ log: name })))
  .addEdge(Graph.START, "mit")
  .addEdge(Graph.START, "zlib")
  .addEdge(Graph.START, "person")
  .compile()

describe("typed questions", () => {
  it.effect("those of one interrupt are read decoded, and answered one by one", () =>
    Effect.gen(function* () {
      const thread: Graph.ThreadOf<typeof graph> = graph.thread("t")
      const paused = yield* thread.run({})
      if (paused._tag !== "Paused") return assert.fail("the run did not pause")
      const reviews = Interrupt.pending(Review, paused.interrupts)
      assert.deepStrictEqual(
        reviews.map(({ node, request }) => [node, request]),
        [
          ["mit", { licence: "MIT", since: new Date(0) }],
          ["zlib", { licence: "Zlib", since: new Date(1) }]
        ]
      )
      assert.strictEqual((yield* Effect.flip(thread.resume(Review, "allow")))._tag, "AmbiguousResume")
      const unknown = yield* Effect.flip(thread.resume(Review, "allow", { id: "no:such:0" }))
      assert.strictEqual(unknown._tag, "UnknownInterrupt")
      yield* Effect.flip(thread.resume(Review, "deny", { id: reviews[1]!.id }))
      yield* Effect.flip(thread.resume(Review, "allow"))
      assert.deepStrictEqual(yield* thread.answer("Ada"), { log: ["mit allow", "Ada", "zlib deny"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("questions with keys", () => {
  const ask = (question: string, key?: string) => Interrupt.interrupt<string>(question, { key })
  const asking = (questions: Effect.Effect<ReadonlyArray<string>, any, any>) =>
    Graph.make("keys", { log: Channel.append(Schema.String) })
      .addNode("ask", () => Effect.map(questions, (log) => ({ log })))
      .addEdge(Graph.START, "ask")
      .compile()
      .thread("t")

  it.effect("never get the answer of another question, whatever their key is", () =>
    Effect.gen(function* () {
      const thread = asking(
        Effect.all([
          ask("0 as key", "0"),
          ask("first"),
          ask("k"),
          ask("k, keyed", "k"),
          ask("k again", "k"),
          ask("", "")
        ])
      )
      yield* thread.run({})
      for (const answer of "ABCDE") yield* Effect.flip(thread.answer(answer))
      assert.deepStrictEqual((yield* thread.answer("F")).log, ["A", "B", "C", "D", "E", "F"])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("have an id each, also where they are asked side by side with the same key", () =>
    Effect.gen(function* () {
      const thread = asking(Effect.all([ask("one", "k"), ask("two", "k")], { concurrency: 2 }))
      const paused = yield* thread.run({})
      if (paused._tag !== "Paused") return assert.fail("the run did not pause")
      const answers = Object.fromEntries(paused.interrupts.map(({ id, value }) => [id, `answer to ${value}`]))
      assert.deepStrictEqual((yield* thread.resume(answers)).log, ["answer to one", "answer to two"])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})
