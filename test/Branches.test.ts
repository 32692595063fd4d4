import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Checkpointer, Graph } from "effect-pregel"
import { before, log } from "./support/thread.js"

const chain = Graph.make("chain", { value: log })
  .addNode("a", () => Effect.succeed({ value: "a" }))
  .addNode("b", () => Effect.succeed({ value: "b" }))
  .addEdge(Graph.START, "a")
  .addEdge("a", "b")
  .compile()

describe("the branches of a thread", () => {
  it.effect("a thread without forks is one branch; an unused one has none", () =>
    Effect.gen(function* () {
      const thread = chain.thread("t")
      assert.deepStrictEqual(yield* thread.branches, [])
      yield* thread.invoke({})
      const branches = yield* thread.branches
      assert.deepStrictEqual(
        branches.map(({ forks, isHead, points }) => [points.map(({ step }) => step), forks, isHead]),
        [[[-1, 0, 1, 2], [], true]]
      )
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("a fork ends a branch; each of its branches goes on, the newest holds the head", () =>
    Effect.gen(function* () {
      const thread = chain.thread("t")
      yield* thread.invoke({})
      const point = (yield* before(thread, "b")).checkpoint!.id
      yield* thread.at(point).resume()
      yield* thread.at(point).update({ value: "x" }, { as: "a" })
      const [root] = yield* thread.branches
      assert.strictEqual(root!.points.at(-1)!.id, point)
      assert.deepStrictEqual(
        root!.forks.map(({ isHead, points }) => [points.map(({ source, step }) => `${source} ${step}`), isHead]),
        [
          [["loop 2"], false],
          [["fork 2", "loop 3"], false],
          [["update 2"], true]
        ]
      )
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("a copy has the same history under another id and goes its own way", () =>
    Effect.gen(function* () {
      const thread = chain.thread("t")
      yield* thread.invoke({})
      yield* thread.copyTo("copy")
      const copy = chain.thread("copy")
      assert.deepStrictEqual(yield* copy.branches, yield* thread.branches)
      yield* copy.invoke({})
      assert.deepStrictEqual((yield* copy.state).values, { value: ["a", "b", "a", "b"] })
      assert.deepStrictEqual((yield* thread.state).values, { value: ["a", "b"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})
