import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { layerMemory } from "../src/Checkpointer.js"
import * as Graph from "../src/Graph.js"
import * as Interrupt from "../src/Interrupt.js"
import type * as Thread from "../src/Thread.js"
import { failsWith, log } from "./support/thread.js"

const graph = Graph.make("asks", { log })
  .addNode("ask", () => Effect.map(Interrupt.interrupt<string>("q"), (answer) => ({ log: [answer] })))
  .addEdge(Graph.START, "ask")
  .compile()

const paused = Effect.gen(function* () {
  const thread = graph.thread("t")
  const { interrupts } = yield* failsWith(thread.invoke({}), "GraphInterrupt")
  return { thread, id: interrupts[0]!.id }
})

it.effect("the id of a pause has a colon, which no option's name has", () =>
  Effect.gen(function* () {
    const { id } = yield* paused
    assert.match(id, /.:./)
  }).pipe(Effect.provide(layerMemory))
)

it.effect("resume takes an object of options as options, also beside no answers", () =>
  Effect.gen(function* () {
    const { thread } = yield* paused
    yield* failsWith(thread.resume({ recursionLimit: 3, metadata: { by: "options" } }), "GraphInterrupt")
    yield* failsWith(thread.resume({}, { interruptBefore: ["ask"] }), "GraphInterrupt")
    yield* failsWith(thread.resume(), "GraphInterrupt")
  }).pipe(Effect.provide(layerMemory))
)

it.effect("resume takes an object with an id as answers; options come second", () =>
  Effect.gen(function* () {
    const { id, thread } = yield* paused
    assert.deepStrictEqual(yield* thread.resume({ [id]: "yes" }, { recursionLimit: 3 }), { log: ["yes"] })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("a key that is neither an option nor an id is refused, and the pause stays", () =>
  Effect.gen(function* () {
    const { id, thread } = yield* paused
    const wrong = { recursionLimt: 3 } as unknown as Thread.Answers
    yield* failsWith(thread.resume(wrong), "UnknownInterrupt")
    const mixed = { [id]: "yes", recursionLimit: 3 }
    yield* failsWith(thread.resume(mixed), "UnknownInterrupt")
    assert.deepStrictEqual(yield* thread.resume({ [id]: "yes" }), { log: ["yes"] })
  }).pipe(Effect.provide(layerMemory))
)
