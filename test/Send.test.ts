import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Channel, Checkpointer, Command, Graph, Send } from "effect-pregel"
import { briefly } from "./support/events.js"
import { names, says, word } from "./support/graphs.js"
import { failsWith, log } from "./support/thread.js"

const items = { items: log }
const adds = (name: string) => () => Effect.succeed({ items: name })

describe("sends", () => {
  it.effect("core-078 run in the next superstep, each on its own, and what follows them runs once", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", items)
        .addNode("1", adds("1"))
        .addNode("2", adds("2"))
        .addNode("3", adds("3"))
        .addEdge(Graph.START, "1")
        .addConditionalEdges("1", (state) => [Send.make("2", state), Send.make("2", state)], ["2"])
        .addConditionalEdges("2", () => "3" as const, ["3"])
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ items: ["0"] }), { items: ["0", "1", "2", "2", "3"] })
    })
  )

  it.effect("core-080 a node that was reached by a send may send on", () =>
    Effect.gen(function* () {
      const Input = Schema.Union(Schema.Number, Schema.Struct({ next: Schema.Number }))
      const graph = Graph.make("g", items)
        .addNode("1", adds("1"))
        .addNode("3.1", adds("3.1"))
        .addNode("3", adds("3"))
        .addWorker(
          "2",
          Input,
          (input) =>
            Effect.succeed(
              typeof input === "number"
                ? { items: `2|${input}` }
                : Command.make({ update: { items: `2|next:${input.next}` }, goto: Send.make("2", input.next) })
            ),
          { goto: ["2"] }
        )
        .addEdge(Graph.START, "1")
        .addConditionalEdges("1", () => [Send.make("2", { next: 3 }), Send.make("2", { next: 4 }), "3.1"], ["2", "3.1"])
        .addConditionalEdges("2", () => "3" as const, ["3"])
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ items: ["0"] }), {
        items: ["0", "1", "3.1", "2|next:3", "2|next:4", "3", "2|3", "2|4", "3"]
      })
    })
  )

  it.effect("core-081 carry the whole input of their node, which no channel takes up", () =>
    Effect.gen(function* () {
      const inputs: Array<unknown> = []
      const states: Array<unknown> = []
      const graph = Graph.make("g", { foo: log, last: word })
        .addNode("s", () => Effect.void)
        .addWorker("w", Schema.Unknown, (input) =>
          Effect.as(
            Effect.sync(() => inputs.push(input)),
            { foo: "w" }
          )
        )
        .addEdge(Graph.START, "s")
        .addConditionalEdges("s", () => [Send.make("w", { foo: ["priv"], zzz: 1 }), Send.make("w", 7)], ["w"])
        .addConditionalEdges(
          "w",
          (state) => {
            states.push(state)
            return Graph.END
          },
          [Graph.END]
        )
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({ foo: "x", last: "L" }), { foo: ["x", "w", "w"], last: "L" })
      assert.deepStrictEqual(inputs, [{ foo: ["priv"], zzz: 1 }, 7])
      assert.deepStrictEqual(states, [
        { foo: ["x", "w"], last: "L" },
        { foo: ["x", "w"], last: "L" }
      ])
    })
  )

  const workers = (count: number) =>
    Graph.make("g", { foo: Channel.append(Schema.Number) })
      .addWorker("w", Schema.Struct({ i: Schema.Number }), ({ i }) => Effect.succeed({ foo: [i] }))
      .addConditionalEdges(
        Graph.START,
        () => Array.from({ length: count }, (_, n) => Send.make("w", { i: count - 1 - n })),
        ["w"]
      )
      .compile()

  it.effect("core-082 are folded in the order they were sent, not by name of their number", () =>
    Effect.gen(function* () {
      const { foo } = yield* workers(12).invoke({})
      assert.deepStrictEqual(foo, [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    })
  )

  it.effect("core-082 have an event of their own each", () =>
    Effect.gen(function* () {
      const events = yield* briefly(workers(2).stream({ foo: [] }, { modes: ["updates", "values"] }))
      assert.deepStrictEqual(events, [
        ["updates", "w", { foo: [1] }],
        ["updates", "w", { foo: [0] }],
        ["values", { foo: [1, 0] }]
      ])
    })
  )

  it.effect("core-083 run beside the node that an edge runs, which is folded first", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { foo: log, via: word })
        .addNode(
          "s",
          () =>
            Effect.succeed(Command.make({ update: { foo: "s" }, goto: [Send.make("w", { foo: [], via: "send" })] })),
          {
            goto: ["w"]
          }
        )
        .addNode("w", ({ via }) => Effect.succeed({ foo: `w:${via ?? "edge"}` }))
        .addEdge(Graph.START, "s")
        .addEdge("s", "w")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({}), { foo: ["s", "w:edge", "w:send"] })
    })
  )

  it.effect("may be what a node returns, alone or in a list", () =>
    Effect.gen(function* () {
      const send = (n: number) => Send.make("w", n)
      const graph = (result: ReturnType<typeof send> | ReadonlyArray<ReturnType<typeof send>>) =>
        Graph.make("g", names)
          .addNode("s", () => Effect.succeed(result), { goto: ["w"] })
          .addWorker("w", Schema.Number, (n) => Effect.succeed({ foo: String(n) }))
          .addEdge(Graph.START, "s")
          .compile()
      assert.deepStrictEqual(yield* graph(send(1)).invoke({}), { foo: ["1"] })
      assert.deepStrictEqual(yield* graph([send(2), send(1)]).invoke({}), { foo: ["2", "1"] })
    })
  )
})

describe("untracked channels in sends", () => {
  const state = { messages: log, session_resource: Channel.untracked(Schema.String) }

  it.effect("core-085 reach the node in the same run and are never saved", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", state)
        .addNode("setup", () => Effect.succeed({ messages: "setup complete", session_resource: "R1" }))
        .addNode("tool_node", ({ session_resource }) =>
          Effect.succeed({ messages: `tool used resource: ${session_resource}`, session_resource: "R2" })
        )
        .addEdge(Graph.START, "setup")
        .addConditionalEdges("setup", (all) => Send.make("tool_node", all), ["tool_node"])
        .compile()
      const thread = graph.thread("t")
      assert.deepStrictEqual(yield* thread.invoke({}), {
        messages: ["setup complete", "tool used resource: R1"],
        session_resource: "R2"
      })
      assert.deepStrictEqual((yield* thread.state).values, { messages: ["setup complete", "tool used resource: R1"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("core-085 only the argument's own key of that name is left out of what is saved", () =>
    Effect.gen(function* () {
      const inputs: Array<unknown> = []
      const graph = Graph.make("g", state)
        .addNode("setup", () => Effect.void)
        .addNode("tool_node", (input) => Effect.sync(() => void inputs.push(input)))
        .addEdge(Graph.START, "setup")
        .addConditionalEdges("setup", () => {
          const packet = { dictionary: { session_resource: "legal_value" }, session_resource: "illegal_value" }
          return Send.make("tool_node", packet as never)
        }, ["tool_node"])
        .compile()
      const dictionary = { session_resource: "legal_value" }
      yield* graph.thread("straight").invoke({})
      assert.deepStrictEqual(inputs, [{ dictionary, session_resource: "illegal_value" }])
      const stopped = graph.thread("stopped")
      yield* stopped.run({}, { interruptBefore: ["tool_node"] })
      yield* stopped.resume()
      assert.deepStrictEqual(inputs[1], { dictionary })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("mistakes in sends", () => {
  const sending = (send: unknown) =>
    Graph.make("g", names)
      .addNode("s", () => Effect.succeed(send as Send.Send<"w", number>), { goto: ["w"] })
      .addNode("other", says("other"))
      .addWorker("w", Schema.Number, (n) => Effect.succeed({ foo: String(n) }))
      .addEdge(Graph.START, "s")
      .compile()

  for (const [what, run] of [
    ["without a thread", (send: unknown) => sending(send).invoke({})],
    ["on a thread", (send: unknown) => sending(send).thread("t").invoke({})]
  ] as const) {
    it.effect(`are typed failures before anything is applied (${what})`, () =>
      Effect.gen(function* () {
        const unknown = yield* failsWith(run(Send.make("nope", 1)), "UnknownNode")
        assert.deepStrictEqual([unknown.reason, unknown.node, unknown.from], ["NotInGraph", "nope", "s"])
        const undeclared = yield* failsWith(run(Send.make("other", {})), "UnknownNode")
        assert.strictEqual(undeclared.reason, "NotATarget")
        yield* failsWith(run(Send.make(Graph.END, 1)), "UnknownNode")
        const invalid = yield* failsWith(run(Send.make("w", "one")), "InvalidUpdate")
        assert.deepStrictEqual([invalid.reason, invalid.node], ["InvalidValue", "s"])
      }).pipe(Effect.provide(Checkpointer.layerMemory))
    )
  }
})
