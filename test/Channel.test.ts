import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Channel, Channels } from "effect-pregel"
import { arrivedAt } from "../src/Cell.js"
import * as Codec from "../src/Codec.js"

/** One live channel, with the outcome of each operation as a plain value. */
const live = <V, U>(channel: Channel.Channel<V, U, boolean>, snapshot?: unknown) => {
  const channels = Channels.make({ c: channel }, snapshot === undefined ? new Map() : new Map([["c", snapshot]]))
  return {
    get: () => Either.match(channels.get("c"), { onLeft: (error) => error._tag, onRight: (value) => ({ value }) }),
    update: (...values: ReadonlyArray<unknown>) =>
      Either.getOrElse(channels.update("c", values), (error) => error.reason),
    isAvailable: () => channels.isAvailable("c"),
    consume: () => channels.consume("c"),
    finish: () => channels.finish("c"),
    snapshot: () => channels.snapshot().get("c"),
    /** The same channel, restored from what would be saved. */
    reload: () => live(channel, channels.snapshot().get("c"))
  }
}

const EMPTY = "EmptyChannel"
const add = { reducer: (a: number, b: number) => a + b }

describe("lastValue", () => {
  it("core-001 keeps a value until it is overwritten, also over a restore", () => {
    const cell = live(Channel.lastValue(Schema.Number))
    assert.strictEqual(cell.get(), EMPTY)
    assert.strictEqual(cell.update(3), true)
    assert.deepStrictEqual(cell.get(), { value: 3 })
    assert.strictEqual(cell.update(4), true)
    assert.deepStrictEqual(cell.reload().get(), { value: 4 })
    assert.strictEqual(cell.update(), false)
    assert.deepStrictEqual(cell.get(), { value: 4 })
  })

  it("core-002 refuses two values in one step, equal ones too, and keeps what it had", () => {
    const cell = live(Channel.lastValue(Schema.Number))
    cell.update(1)
    assert.strictEqual(cell.update(5, 6), "ConcurrentUpdate")
    assert.strictEqual(cell.update(5, 5), "ConcurrentUpdate")
    assert.deepStrictEqual(cell.get(), { value: 1 })
  })

  it("starts with its initial value, which a restore does not bring back", () => {
    const channel = Channel.lastValue(Schema.Number, { initial: () => 7 })
    assert.deepStrictEqual(live(channel).get(), { value: 7 })
    const cell = live(channel)
    cell.update(1)
    assert.deepStrictEqual(cell.reload().get(), { value: 1 })
  })
})

describe("values and emptiness", () => {
  const kinds = {
    lastValue: Channel.lastValue(Schema.Unknown),
    anyValue: Channel.anyValue(Schema.Unknown),
    ephemeral: Channel.ephemeral(Schema.Unknown, { guard: false })
  }

  it("core-003 0, the empty text, false and null are values", () => {
    for (const channel of Object.values(kinds)) {
      for (const value of [0, "", false, null]) {
        const cell = live(channel)
        assert.strictEqual(cell.update(value), true)
        assert.deepStrictEqual(cell.get(), { value })
        assert.deepStrictEqual(cell.reload().get(), { value })
      }
    }
  })

  it("core-003 undefined is a value where the schema takes it", () => {
    for (const channel of Object.values(kinds)) {
      const cell = live(channel)
      assert.strictEqual(cell.get(), EMPTY)
      cell.update(undefined)
      assert.deepStrictEqual(cell.get(), { value: undefined })
      cell.update(3)
      assert.deepStrictEqual(cell.get(), { value: 3 })
      cell.update(undefined)
      assert.deepStrictEqual(cell.get(), { value: undefined })
      assert.strictEqual(cell.isAvailable(), true)
    }
  })

  it("anyValue takes several values, keeps the last, and an empty step clears it", () => {
    const cell = live(kinds.anyValue)
    assert.strictEqual(cell.update(1, 2), true)
    assert.deepStrictEqual(cell.get(), { value: 2 })
    assert.strictEqual(cell.update(), true)
    assert.strictEqual(cell.get(), EMPTY)
    assert.strictEqual(cell.update(), false)
  })
})

describe("topic", () => {
  it("core-005 holds only the last step's values and spreads arrays one level", () => {
    const cell = live(Channel.topic(Schema.String))
    cell.update("a", "b")
    assert.deepStrictEqual(cell.get(), { value: ["a", "b"] })
    cell.update(["c", "d"], "d")
    assert.deepStrictEqual(cell.get(), { value: ["c", "d", "d"] })
    assert.strictEqual(cell.update(), true)
    assert.strictEqual(cell.get(), EMPTY)
    assert.strictEqual(cell.update(), false)
    cell.update("e")
    assert.deepStrictEqual(cell.get(), { value: ["e"] })

    const nested = live(Channel.topic(Schema.Unknown))
    nested.update(["a", ["b"]])
    assert.deepStrictEqual(nested.get(), { value: ["a", ["b"]] })
  })

  it("core-006 channels restored from one snapshot share nothing", () => {
    const channel = Channel.topic(Schema.String)
    const cell = live(channel)
    cell.update("e")
    const snapshot = cell.snapshot()
    assert.deepStrictEqual(snapshot, ["e"])
    const [one, two] = [live(channel, snapshot), live(channel, snapshot)]
    two.update("f")
    assert.deepStrictEqual(two.get(), { value: ["f"] })
    assert.deepStrictEqual(one.get(), { value: ["e"] })
    assert.deepStrictEqual(live(channel).snapshot(), [])
    assert.strictEqual(live(channel, []).get(), EMPTY)
  })

  it("core-007 with accumulate keeps all values, also over a restore", () => {
    const cell = live(Channel.topic(Schema.String, { accumulate: true }))
    cell.update("a", "b")
    cell.update("b", ["c", "d"], "d")
    assert.deepStrictEqual(cell.get(), { value: ["a", "b", "b", "c", "d", "d"] })
    assert.strictEqual(cell.update(), false)
    const restored = cell.reload()
    assert.deepStrictEqual(restored.get(), { value: ["a", "b", "b", "c", "d", "d"] })
    restored.update("e")
    assert.deepStrictEqual(restored.get(), { value: ["a", "b", "b", "c", "d", "d", "e"] })
    assert.deepStrictEqual(cell.get(), { value: ["a", "b", "b", "c", "d", "d"] })
  })

  it("core-008 with unique drops values that an earlier step had", () => {
    const channel = Channel.topic(Schema.String, { unique: true })
    const cell = live(channel)
    cell.update("a", "b")
    assert.deepStrictEqual(cell.get(), { value: ["a", "b"] })
    cell.update("b", ["c", "d"], "d")
    assert.deepStrictEqual(cell.get(), { value: ["c", "d"] })
    cell.update()
    assert.strictEqual(cell.get(), EMPTY)
    cell.update("e")
    assert.deepStrictEqual(cell.snapshot(), [["a", "b", "c", "d", "e"], ["e"]])
    const restored = cell.reload()
    restored.update("d", "f")
    assert.deepStrictEqual(restored.get(), { value: ["f"] })
    const flat = live(channel, ["e"])
    flat.update("d", "f", "e")
    assert.deepStrictEqual(flat.get(), { value: ["d", "f"] })
  })

  it("core-008 with unique and accumulate keeps each value once", () => {
    const cell = live(Channel.topic(Schema.String, { unique: true, accumulate: true }))
    cell.update("a", "b")
    cell.update("b", ["c", "d"], "d")
    cell.update()
    assert.deepStrictEqual(cell.get(), { value: ["a", "b", "c", "d"] })
    const restored = cell.reload()
    restored.update("d", "e")
    assert.deepStrictEqual(restored.get(), { value: ["a", "b", "c", "d", "e"] })
  })

  it("with unique compares values as they are saved", () => {
    const codec = Codec.make(Channel.topic(Schema.BigInt, { unique: true }))
    const big = live(Channel.topic(Schema.BigInt, { unique: true, accumulate: true }))
    big.update(1n)
    assert.strictEqual(big.update(1n), false)
    assert.isTrue(Either.isRight(codec.encodeState(big.snapshot())))
    const cell = live(Channel.topic(Schema.Struct({ id: Schema.Number }), { unique: true, accumulate: true }))
    cell.update({ id: 1 })
    assert.strictEqual(cell.update({ id: 1 }), false)
    assert.strictEqual(cell.reload().update({ id: 1 }, { id: 2 }), true)
  })
})

describe("reduce", () => {
  const sum = Channel.reduce(Schema.Number, { initial: () => 0, ...add })

  it("core-010 without an initial value adopts the first one untouched", () => {
    const calls: Array<readonly [number, number]> = []
    const cell = live(
      Channel.reduce(Schema.Number, {
        reducer: (a, b) => {
          calls.push([a, b])
          return a + b
        }
      })
    )
    assert.strictEqual(cell.get(), EMPTY)
    cell.update(1, 2)
    assert.deepStrictEqual(cell.get(), { value: 3 })
    assert.deepStrictEqual(calls, [[1, 2]])
  })

  it("core-011 an overwrite replaces the value and never calls the reducer", () => {
    let calls = 0
    const cell = live(
      Channel.reduce(Schema.Array(Schema.String), {
        initial: () => [],
        reducer: (a, b) => {
          calls++
          return [...a, ...b]
        }
      })
    )
    cell.update(["a", "b"])
    assert.strictEqual(calls, 1)
    cell.update(Channel.overwrite(["replaced"]))
    assert.deepStrictEqual(cell.get(), { value: ["replaced"] })
    cell.update({ __overwrite__: ["wire"] })
    assert.deepStrictEqual(cell.get(), { value: ["wire"] })
    cell.update(Channel.overwrite([]))
    assert.deepStrictEqual(cell.get(), { value: [] })
    assert.strictEqual(calls, 1)
  })

  it("core-012 one overwrite a step wins over its siblings; two are refused", () => {
    const outcome = (before: ReadonlyArray<number>, ...updates: ReadonlyArray<unknown>) => {
      const cell = live(sum)
      if (before.length > 0) cell.update(...before)
      return [cell.update(...updates), cell.get()]
    }
    assert.deepStrictEqual(outcome([5], Channel.overwrite(100), 50), [true, { value: 100 }])
    assert.deepStrictEqual(outcome([], 10, Channel.overwrite(42)), [true, { value: 42 }])
    assert.deepStrictEqual(outcome([], Channel.overwrite(42)), [true, { value: 42 }])
    assert.deepStrictEqual(outcome([3], Channel.overwrite(10), Channel.overwrite(20)), [
      "ConcurrentOverwrite",
      { value: 3 }
    ])
    const cell = live(sum)
    cell.update(1, 2, 3)
    cell.update(Channel.overwrite(100))
    assert.strictEqual(cell.snapshot(), 100)
    const restored = cell.reload()
    restored.update(5)
    assert.deepStrictEqual(restored.get(), { value: 105 })
  })

  it("unwraps and counts an overwrite that is the first value ever", () => {
    const cell = live(Channel.reduce(Schema.Number, add))
    assert.strictEqual(cell.update(Channel.overwrite(1), Channel.overwrite(2)), "ConcurrentOverwrite")
    cell.update(Channel.overwrite(1), 5)
    assert.deepStrictEqual(cell.get(), { value: 1 })
  })

  it("core-013 knows an overwrite in each of its forms, and nothing else", () => {
    const inner = (update: unknown) => {
      const value = Channel.overwriteValue(update)
      return value === Channel.MISSING ? Option.none() : Option.some(value)
    }
    const marker = Channel.overwrite(["b"])
    for (const form of [
      marker,
      { __overwrite__: ["b"] },
      JSON.parse(JSON.stringify(marker)),
      { type: "__overwrite__", value: ["b"] }
    ]) {
      assert.deepStrictEqual(inner(form), Option.some(["b"]))
    }
    for (const other of [{ value: ["b"] }, { type: "human", value: "hi" }, ["b"], null]) {
      assert.deepStrictEqual(inner(other), Option.none())
    }
    assert.deepStrictEqual(inner({ __overwrite__: ["b"], more: 1 }), Option.none())
  })

  it("says which reducer threw, and keeps the value", () => {
    const cell = live(
      Channel.reduce(Schema.Number, {
        initial: () => 1,
        reducer: () => {
          throw new Error("no")
        }
      })
    )
    assert.strictEqual(cell.update(1), "ReducerFailed")
    assert.deepStrictEqual(cell.get(), { value: 1 })
  })
})

describe("ephemeral and untracked", () => {
  it("core-015 an ephemeral value lives for one step and is guarded unless told otherwise", () => {
    const guarded = live(Channel.ephemeral(Schema.Number))
    guarded.update(3)
    assert.deepStrictEqual(guarded.get(), { value: 3 })
    assert.strictEqual(guarded.update(4, 5), "ConcurrentUpdate")
    assert.strictEqual(guarded.update(), true)
    assert.strictEqual(guarded.get(), EMPTY)
    assert.strictEqual(guarded.update(), false)
    const open = live(Channel.ephemeral(Schema.Number, { guard: false }))
    open.update(4, 5)
    assert.deepStrictEqual(open.get(), { value: 5 })
  })

  it("core-016 an untracked value stays during the run and is never saved", () => {
    const cell = live(Channel.untracked(Schema.Unknown))
    assert.strictEqual(cell.get(), EMPTY)
    cell.update({ session: "test" })
    cell.update({ session: "updated" })
    assert.deepStrictEqual(cell.get(), { value: { session: "updated" } })
    assert.strictEqual(cell.update(), false)
    assert.deepStrictEqual(cell.get(), { value: { session: "updated" } })
    assert.strictEqual(cell.snapshot(), undefined)
    assert.strictEqual(cell.reload().get(), EMPTY)
    const initial = live(Channel.untracked(Schema.Number, { initial: () => 999 }))
    initial.update(1)
    assert.deepStrictEqual(initial.reload().get(), { value: 999 })
    assert.strictEqual(live(Channel.untracked(Schema.Number)).update(1, 2), "ConcurrentUpdate")
    const open = live(Channel.untracked(Schema.Number, { guard: false }))
    open.update(1, 2, 3)
    assert.deepStrictEqual(open.get(), { value: 3 })
  })
})

describe("barriers and channels that wait for the end", () => {
  it("core-017 a barrier is available once every name was written, until it is consumed", () => {
    const cell = live(Channel.barrier(["a", "b"]))
    assert.strictEqual(cell.isAvailable(), false)
    assert.strictEqual(cell.get(), EMPTY)
    assert.strictEqual(cell.update("a"), true)
    assert.strictEqual(cell.update("a"), false)
    const half = cell.reload()
    assert.strictEqual(half.update("b"), true)
    assert.strictEqual(half.isAvailable(), true)
    cell.update("b")
    assert.deepStrictEqual(cell.get(), { value: null })
    assert.strictEqual(cell.consume(), true)
    assert.strictEqual(cell.isAvailable(), false)
    assert.strictEqual(cell.consume(), false)
    assert.strictEqual(cell.update("zzz"), "UnknownBarrierName")
    assert.strictEqual(cell.update(), false)
  })

  it("a barrier names what has arrived, in no way that later writes change", () => {
    const channels = Channels.make({ c: Channel.barrier(["a", "b"]) })
    channels.update("c", ["b"])
    const snapshot = channels.snapshot().get("c")
    const arrived = arrivedAt(channels.table.cell(0))
    channels.update("c", ["a"])
    assert.deepStrictEqual(snapshot, ["b"])
    assert.deepStrictEqual(arrived, ["b"])
  })

  it("core-018 a value that waits for the end is locked until the run would finish, and again by a new write", () => {
    const cell = live(Channel.lastValueAfterFinish(Schema.Number))
    assert.strictEqual(cell.finish(), false)
    assert.strictEqual(cell.update(1, 2), true)
    assert.strictEqual(cell.isAvailable(), false)
    assert.strictEqual(cell.finish(), true)
    assert.deepStrictEqual(cell.get(), { value: 2 })
    assert.strictEqual(cell.finish(), false)
    assert.deepStrictEqual(cell.snapshot(), [2, true])
    assert.deepStrictEqual(cell.reload().get(), { value: 2 })
    assert.strictEqual(cell.consume(), true)
    assert.strictEqual(cell.isAvailable(), false)
    cell.update(3)
    cell.finish()
    cell.update(4)
    assert.strictEqual(cell.isAvailable(), false)
  })

  it("core-018 a barrier that waits for the end needs both: all names, and the end", () => {
    const cell = live(Channel.barrierAfterFinish(["a", "b"]))
    cell.update("a")
    assert.strictEqual(cell.finish(), false)
    cell.update("b")
    assert.strictEqual(cell.isAvailable(), false)
    assert.strictEqual(cell.consume(), false)
    assert.strictEqual(cell.finish(), true)
    assert.strictEqual(cell.isAvailable(), true)
    assert.strictEqual(cell.reload().isAvailable(), true)
    assert.strictEqual(cell.consume(), true)
    assert.deepStrictEqual(cell.snapshot(), [[], false])
  })
})

describe("append", () => {
  const numbers = Channel.append(Schema.Number)

  it("core-020 an overwrite is all that its step leaves, wherever it stands; two are refused", () => {
    for (const updates of [
      [[1], { __overwrite__: [50] }, [4]],
      [{ __overwrite__: [50] }, [1], [4]],
      [[1], [4], Channel.overwrite([50])]
    ]) {
      const cell = live(numbers, [100])
      assert.strictEqual(cell.update(...updates), true)
      assert.deepStrictEqual(cell.get(), { value: [50] })
    }
    const cell = live(numbers, [100])
    assert.strictEqual(cell.update(Channel.overwrite([1]), Channel.overwrite([2])), "ConcurrentOverwrite")
    assert.deepStrictEqual(cell.get(), { value: [100] })
  })

  it("core-020 later steps add to what an overwrite left", () => {
    const cell = live(numbers, [100])
    for (const update of [[1], { __overwrite__: [50] }, [4]]) cell.update(update)
    assert.deepStrictEqual(cell.get(), { value: [50, 4] })
    const fresh = live(numbers)
    for (const update of [[1], [2, 3], 4]) fresh.update(update)
    assert.deepStrictEqual(fresh.get(), { value: [1, 2, 3, 4] })
    assert.strictEqual(fresh.update(), false)
    assert.strictEqual(fresh.update([]), false)
  })

  it("what was read is never changed by later updates, nor is an overwriting list taken over", () => {
    const cell = live(numbers)
    cell.update(1)
    const seen = cell.get()
    cell.update(2)
    const list = [9]
    cell.update(Channel.overwrite(list))
    cell.update(10)
    assert.deepStrictEqual(seen, { value: [1] })
    assert.deepStrictEqual(list, [9])
    list.push(99)
    assert.deepStrictEqual(cell.get(), { value: [9, 10] })
  })

  it("has its initial items until it is overwritten", () => {
    const cell = live(Channel.append(Schema.Number, { initial: () => [1] }))
    cell.update(2)
    assert.deepStrictEqual(cell.get(), { value: [1, 2] })
  })
})

describe("codecs", () => {
  const json = (text: string | undefined) => (text === undefined ? undefined : JSON.parse(text))

  it.prop(
    "what is encoded is decoded to the same value",
    { date: Schema.ValidDateFromSelf, names: Schema.Array(Schema.String) },
    ({ date, names }) => {
      const codec = Codec.make(
        Channel.lastValue(Schema.Struct({ date: Schema.Date, names: Schema.Array(Schema.String) }))
      )
      const encoded = Either.getOrThrow(codec.encodeState({ date, names }))
      assert.deepStrictEqual(Either.getOrThrow(codec.decodeState(json(encoded))), { date, names })
    }
  )

  it("an update that is outside the schema is refused with its path", () => {
    const codec = Codec.make(Channel.lastValue(Schema.Struct({ a: Schema.Struct({ b: Schema.Number }) })))
    const refusal = Option.getOrThrow(Either.getLeft(codec.encodeUpdate({ a: { b: "x" } })))
    assert.strictEqual(refusal.reason, "InvalidValue")
    assert.strictEqual(refusal.path, "a.b")
    assert.isTrue(codec.isExact({ a: { b: 1 } }))
    assert.isFalse(codec.isExact({ a: { b: "x" } }))
  })

  it("a value with more than its schema names is told from one without", () => {
    const codec = Codec.make(Channel.lastValue(Schema.Struct({ a: Schema.Number })))
    const told = (value: unknown) => [codec.isExact(value), Either.getOrThrow(codec.encodeUpdate(value)).excess]
    assert.deepStrictEqual(told({ a: 1 }), [true, false])
    assert.deepStrictEqual(told({ a: 1, b: 2 }), [false, true])
  })

  it("what JSON would change on the way is refused, not turned into null", () => {
    const codec = Codec.make(Channel.lastValue(Schema.Unknown))
    for (const value of [
      { a: Number.NaN },
      { a: Number.POSITIVE_INFINITY },
      { a: 1n },
      { a: () => 1 },
      { a: Symbol("a") },
      { a: new Map() }
    ]) {
      const result = codec.encodeUpdate(value)
      assert.isTrue(Either.isLeft(result), String(Object.values(value)[0]?.toString()))
      if (Either.isLeft(result)) {
        assert.strictEqual(result.left.reason, "NotEncodable")
        assert.strictEqual(result.left.path, "a")
      }
    }
  })

  it("the value of an overwrite is checked by the value's schema, an update by its own", () => {
    const codec = Codec.make(
      Channel.reduce(Schema.Array(Schema.Number), {
        initial: () => [],
        update: Schema.Number,
        reducer: (all, one) => [...all, one]
      })
    )
    const values = [1, [1], Channel.overwrite([1]), Channel.overwrite(1)]
    assert.deepStrictEqual(values.map(codec.isExact), [true, false, true, false])
    assert.deepStrictEqual(
      values.map((value) => Either.isRight(codec.encodeUpdate(value))),
      [true, false, true, false]
    )
    const encoded = Either.getOrThrow(codec.encodeUpdate(Channel.overwrite([1])))
    assert.deepStrictEqual(Either.getOrThrow(codec.decodeUpdate(json(encoded.text))), Channel.overwrite([1]))
  })

  it("a value of an older version goes through the migrations before it is decoded", () => {
    const first = Channel.lastValue(Schema.Struct({ full: Schema.String, count: Schema.Number }))
    const channel = first.pipe(
      Channel.evolve((old: { name: string }) => ({ full: old.name })),
      Channel.evolve((old: { full: string }) => ({ ...old, count: 0 }))
    )
    const codec = Codec.make(channel)
    const decode = (value: unknown, version?: number) => Either.getOrThrow(codec.decodeState(value, version))
    assert.deepStrictEqual(decode({ name: "Ada" }, 1), { full: "Ada", count: 0 })
    assert.deepStrictEqual(decode({ full: "Ada" }, 2), { full: "Ada", count: 0 })
    assert.deepStrictEqual(decode({ full: "Ada", count: 3 }, 3), { full: "Ada", count: 3 })
  })

  it("an unknown saved value is refused", () => {
    const codec = Codec.make(Channel.append(Schema.Number))
    assert.isTrue(Either.isLeft(codec.decodeState(["x"])))
    assert.isTrue(Either.isLeft(codec.decodeUpdate([1, "x"])))
  })

  it("every kind of channel reads back what it saves", () => {
    const kinds: Record<string, readonly [Channel.Any, ReadonlyArray<unknown>]> = {
      lastValue: [Channel.lastValue(Schema.Date), [new Date(1)]],
      ephemeral: [Channel.ephemeral(Schema.Date), [new Date(1)]],
      topic: [Channel.topic(Schema.Date), [new Date(1), [new Date(2)]]],
      unique: [Channel.topic(Schema.Number, { unique: true }), [1, 2, 1]],
      reduce: [Channel.reduce(Schema.Number, add), [1, 2]],
      append: [Channel.append(Schema.Date), [[new Date(1)], new Date(2)]],
      barrier: [Channel.barrier(["a", "b"]), ["b"]],
      barrierAfterFinish: [Channel.barrierAfterFinish(["a", "b"]), ["b", "a"]],
      lastValueAfterFinish: [Channel.lastValueAfterFinish(Schema.Date), [new Date(1)]]
    }
    for (const [kind, [channel, updates]] of Object.entries(kinds)) {
      const cell = live(channel)
      cell.update(...updates)
      const codec = Codec.make(channel)
      const text = Either.getOrThrow(codec.encodeState(cell.snapshot()))
      const restored = live(channel, Either.getOrThrow(codec.decodeState(json(text))))
      assert.deepStrictEqual([restored.get(), restored.snapshot()], [cell.get(), cell.snapshot()], kind)
    }
  })
})

it.effect("the live channels are also a service", () =>
  Effect.gen(function* () {
    const channels = yield* Channels.Channels
    channels.update("n", [2])
    assert.deepStrictEqual(channels.get("n"), Either.right(3))
  }).pipe(
    Effect.provide(
      Channels.layer({ n: Channel.reduce(Schema.Number, { initial: () => 0, ...add }) }, new Map([["n", 1]]))
    )
  )
)
