import { inspect } from "node:util"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Channel from "../src/Channel.js"
import * as Graph from "../src/Graph.js"
import { make, type Shape } from "../src/internal/view.js"

const shape: Shape = {
  positions: new Map([
    ["a", 0],
    ["b", 1],
    ["toString", 2],
    ["__proto__", 3]
  ]),
  length: 4
}
const viewOf = (a: unknown, b: unknown, more: ReadonlyArray<unknown> = [Channel.MISSING, Channel.MISSING]) =>
  make(shape, [a, b, ...more])

/** What a view must do just as the plain record does. */
const looks: Record<string, (state: any) => unknown> = {
  get: (state) => [state.a, state.b, state.c, typeof state.toString, state.constructor === Object],
  has: (state) => ["a" in state, "b" in state, "c" in state, "toString" in state],
  keys: (state) => [Object.keys(state), Object.entries(state), Reflect.ownKeys(state)],
  own: (state) => [Object.hasOwn(state, "a"), Object.hasOwn(state, "b"), Object.hasOwn(state, "toString")],
  loop: (state) => {
    const names: Array<string> = []
    for (const name in state) names.push(name)
    return names
  },
  spread: (state) => ({ ...state }),
  rest: ({ a, ...rest }) => [a, rest],
  json: (state) => JSON.stringify(state),
  inspect: (state) => inspect(state),
  inspectFilled: (state) => [Object.keys(state), inspect(state)],
  prototype: (state) => Object.getPrototypeOf(state) === Object.prototype,
  prototypeSet: (state) => [Object.setPrototypeOf(state, null), Object.getPrototypeOf(state)].length,
  tag: (state) => [Object.prototype.toString.call(state), `${typeof state}`, Array.isArray(state)],
  set: (state) => {
    state.a = 9
    state.c = 8
    return [state.a, state.b, state.c, Object.keys(state)]
  },
  delete: (state) => {
    delete state.a
    return [state.a, Object.keys(state)]
  },
  define: (state) => {
    Object.defineProperty(state, "a", { value: 7, enumerable: false })
    return [state.a, Object.keys(state)]
  },
  freeze: (state) => [Object.isFrozen(state), Object.isFrozen(Object.freeze(state)), state.a]
}

describe("view", () => {
  for (const [name, look] of Object.entries(looks)) {
    it(`${name} does what it does on a plain record`, () => {
      assert.deepStrictEqual(look(viewOf(1, undefined)), look({ a: 1, b: undefined }))
      assert.deepStrictEqual(look(viewOf(Channel.MISSING, null)), look({ b: null }))
    })
  }

  it("equals the plain record", () => {
    assert.deepStrictEqual(viewOf(1, [2]), { a: 1, b: [2] })
  })

  it("knows channels with the names of inherited members", () => {
    const state = viewOf(1, 2, ["own", "proto"]) as any
    assert.strictEqual(state.toString, "own")
    assert.deepStrictEqual(Object.keys(state), ["a", "b", "toString", "__proto__"])
    assert.strictEqual(Object.getOwnPropertyDescriptor(state, "__proto__")!.value, "proto")
  })
})

describe("a graph with many channels", () => {
  const names = Array.from({ length: 100 }, (_, i) => `c${i}`)
  const graphOf = (seen: Array<any>, steps: number) =>
    Graph.make("wide", {
      ...(Object.fromEntries(names.map((name) => [name, Channel.lastValue(Schema.Number)])) as Record<
        string,
        Channel.Channel<number, number, false>
      >),
      log: Channel.append(Schema.Number),
      once: Channel.ephemeral(Schema.Number)
    })
      .addNode("write", (state: any) =>
        Effect.sync(() => {
          seen.push(state)
          const count = (state.c0 ?? 0) + 1
          return { c0: count, [names[count]!]: count, log: count, once: count } as any
        })
      )
      .addEdge(Graph.START, "write")
      .addConditionalEdges(
        "write",
        (state: any) => {
          seen.push(state)
          return state.c0 < steps ? "write" : Graph.END
        },
        ["write", Graph.END]
      )
      .compile()

  it.effect("nodes and routers see the state as it was, whatever comes later", () =>
    Effect.gen(function* () {
      const seen: Array<any> = []
      const result: any = yield* graphOf(seen, 3).invoke({ c99: 99 } as any)
      const plain = seen.map((state) => ({ ...state }))
      assert.deepStrictEqual(plain, [
        { c99: 99, log: [] },
        { c0: 1, c1: 1, c99: 99, log: [1], once: 1 },
        { c0: 1, c1: 1, c99: 99, log: [1], once: 1 },
        { c0: 2, c1: 1, c2: 2, c99: 99, log: [1, 2], once: 2 },
        { c0: 2, c1: 1, c2: 2, c99: 99, log: [1, 2], once: 2 },
        { c0: 3, c1: 1, c2: 2, c3: 3, c99: 99, log: [1, 2, 3], once: 3 }
      ])
      assert.deepStrictEqual(structuredClone(result), {
        c0: 3,
        c1: 1,
        c2: 2,
        c3: 3,
        c99: 99,
        log: [1, 2, 3],
        once: 3
      })
    })
  )

  it.effect("what a node does to its record reaches nobody else", () =>
    Effect.gen(function* () {
      const kept = (state: any) =>
        Effect.sync(() => {
          state.c1 = 1000
          return { log: state.c1 }
        })
      const graph = Graph.make("wide", {
        ...(Object.fromEntries(names.map((name) => [name, Channel.lastValue(Schema.Number)])) as Record<
          string,
          Channel.Channel<number, number, false>
        >),
        log: Channel.append(Schema.Number)
      })
        .addNode("a", kept as any)
        .addNode("b", ((state: any) => Effect.sync(() => ({ log: state.c1 }))) as any)
        .addEdge(Graph.START, "a")
        .addEdge(Graph.START, "b")
        .compile()
      const result: any = yield* graph.invoke({ c1: 1 } as any) as Effect.Effect<any>
      assert.deepStrictEqual([result.c1, result.log], [1, [1000, 1]])
    })
  )
})
