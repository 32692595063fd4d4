/** Instances of a subgraph that remembers: each has a memory of its own, or is refused. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Checkpointer, Graph, type GraphError, Interrupt, Send } from "effect-pregel"
import { names } from "./support/graphs.js"
import { failsWith } from "./support/thread.js"

const inMemory = Effect.provide(Checkpointer.layerMemory)

/** Remembers what it is told, and says all of it. */
const memory = Graph.make("memory", names)
  .addNode("remember", ({ foo }) => Effect.asVoid(foo.includes("?") ? Interrupt.interrupt("?") : Effect.void))
  .addEdge(Graph.START, "remember")
  .compile({ persistence: "thread" })

/** The same, one graph further in. */
const around = Graph.make("around", names)
  .addNode("inner", ({ foo }) => Effect.map(memory.invoke({ foo }), (state) => ({ foo: state.foo.slice(foo.length) })))
  .addEdge(Graph.START, "inner")
  .compile({ persistence: "thread" })

type Item = readonly [key: string | undefined, text: string]

/** Adds a text to what an instance remembers. */
type Remember = (text: string) => Effect.Effect<{ readonly foo: ReadonlyArray<string> }, GraphError.RunError>

const children: Record<string, Remember> = {
  memory: (foo) => memory.invoke({ foo }),
  around: (foo) => around.invoke({ foo })
}

/** Tells each item to the instance of its key. */
const tells = (remember: Remember, items: { current: ReadonlyArray<Item> }) =>
  Graph.make("tells", names)
    .addWorker("tell", Schema.String, (text) => Effect.map(remember(text), ({ foo }) => ({ foo: foo.join("") })))
    .addConditionalEdges(Graph.START, () => items.current.map(([key, text]) => Send.make("tell", text, { key })), [
      "tell"
    ])
    .compile()

describe("two tasks of one superstep", () => {
  for (const [what, key] of [
    ["without keys", undefined],
    ["with one key", "k"]
  ] as const) {
    it.effect(`can't be the same instance: ${what}`, () =>
      Effect.gen(function* () {
        for (const [name, child] of Object.entries(children)) {
          const items: { current: ReadonlyArray<Item> } = {
            current: [
              [key, "a"],
              [key, "b"]
            ]
          }
          const graph = tells(child, items)
          const { node, reason } = yield* failsWith(graph.thread(name).run({}), "InvalidUpdate")
          assert.deepStrictEqual([node, reason], ["tell", "ConcurrentUpdate"])
          // What one of them remembers is not taken for the other's.
          const { foo } = yield* graph.thread(name).resume()
          assert.match(foo.at(-1)!, /b/)
        }
      }).pipe(inMemory)
    )
  }

  it.effect("can be two instances, and go on each where it was", () =>
    Effect.gen(function* () {
      const items: { current: ReadonlyArray<Item> } = {
        current: [
          ["1", "?"],
          ["2", "?"]
        ]
      }
      const thread = tells(children.memory!, items).thread("t")
      const paused = yield* thread.run({})
      if (paused._tag !== "Paused") return assert.fail("the run did not pause")
      const [first, second] = paused.interrupts
      yield* failsWith(thread.resume({ [second!.id as "a:b"]: "yes" }), "GraphInterrupt")
      assert.deepStrictEqual((yield* thread.resume({ [first!.id as "a:b"]: "yes" })).foo, ["?", "?"])
    }).pipe(inMemory)
  )

  it.effect("of one task and of later supersteps may be one instance", () =>
    Effect.gen(function* () {
      const graph = Graph.make("loop", names)
        .addNode("node", () =>
          Effect.map(memory.invoke({ foo: "x" }, { key: "one" }), ({ foo }) => ({ foo: foo.join("") }))
        )
        .addEdge(Graph.START, "node")
        .addConditionalEdges("node", ({ foo }) => (foo.length < 3 ? "node" : Graph.END), ["node", Graph.END])
        .compile()
      assert.deepStrictEqual((yield* graph.thread("t").invoke({})).foo, ["x", "xx", "xxx"])
    }).pipe(inMemory)
  )
})

describe("keys are data", () => {
  const keys = ["user", "user:1", "user:2", "user/1", "user#1", "user|1", "user%3A1", "", "|", "__proto__", "tell"]
  for (const [name, child] of Object.entries(children)) {
    it.effect(`whatever they contain, instances share nothing: ${name}`, () =>
      Effect.gen(function* () {
        const items = { current: keys.map((key): Item => [key, `<${key}>`]) }
        const thread = tells(child, items).thread("t")
        const first = (yield* thread.invoke({})).foo
        const second = (yield* thread.invoke({})).foo.slice(keys.length)
        for (const [i, key] of keys.entries()) {
          assert.strictEqual(first[i], `<${key}>`)
          assert.match(second[i]!, /></)
          assert.strictEqual(second[i]!.replaceAll(`<${key}>`, ""), "")
        }
      }).pipe(inMemory)
    )
  }
})
