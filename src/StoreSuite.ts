/**
 * The conformance suite of stores: what every layer of `Store` does, as named effects that fail where it does not.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { Store } from "effect-pregel"
 * import * as StoreSuite from "effect-pregel/StoreSuite"
 *
 * const checked = Effect.forEach(StoreSuite.cases, ({ run }) => Effect.provide(run, StoreSuite.layer(Store.layerMemoryWith)))
 * ```
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { StoreError } from "./GraphError.js"
import { type Filter, type Options, Store } from "./Store.js"

/** One thing that a store does; run it on a store of its own, with the test clock. */
export interface Case {
  readonly name: string
  readonly run: Effect.Effect<void, StoreError, Store>
}

/** The store that the cases expect: with a time to live where they ask for one, and an index of letters. */
export const layer = <A>(make: (options: Options) => A): A =>
  make({ index: { embed: (texts) => Effect.succeed(texts.map(letters)), fields: ["text"] } })

/** How often each letter stands in a text: texts are near each other that are written with the same letters. */
const letters = (text: string): ReadonlyArray<number> =>
  Array.from({ length: 26 }, (_, i) => text.toLowerCase().split(String.fromCharCode(97 + i)).length - 1)

const same = (actual: unknown, expected: unknown, what: string): Effect.Effect<void> => {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)]
  return a === b ? Effect.void : Effect.dieMessage(`${what}: expected ${b}, got ${a}`)
}

const keysOf = (items: ReadonlyArray<{ readonly key: string }>) => items.map(({ key }) => key)

const test = (name: string, body: (store: Store["Type"]) => Effect.Effect<void, StoreError>): Case => ({
  name,
  run: Effect.flatMap(Store, body)
})

const refused = (effect: Effect.Effect<unknown, StoreError>, what: string) =>
  Effect.flatMap(Effect.either(effect), (result) =>
    same(result._tag === "Left" ? result.left.reason : "Right", "InvalidRequest", what)
  )

/** Names that a pattern, a separator or a statement could trip over. */
const STRANGE = [
  "%",
  "_",
  "a%b",
  "a.b",
  "a|b",
  "*x",
  "'; DROP TABLE",
  "\u0000",
  "\u0001\u0002",
  "\ud800",
  "\ud83d\ude00",
  "__proto__"
]

const basics: ReadonlyArray<Case> = [
  test("gets what was put, and nothing after it was deleted", (store) =>
    Effect.gen(function* () {
      const value = { text: "a", list: [1, null, { deep: true }], none: null, zero: 0 }
      yield* store.put(["users", "1"], "k", value)
      const item = Option.getOrThrow(yield* store.get(["users", "1"], "k"))
      yield* same([item.namespace, item.key, item.value], [["users", "1"], "k", value], "item")
      yield* store.delete(["users", "1"], "k")
      yield* same(Option.isNone(yield* store.get(["users", "1"], "k")), true, "deleted")
      yield* store.delete(["users", "1"], "k")
    })),
  test("a put replaces the value and keeps the time of the first one", (store) =>
    Effect.gen(function* () {
      yield* store.put(["n"], "k", { v: 1 })
      const before = Option.getOrThrow(yield* store.get(["n"], "k"))
      yield* TestClock.adjust("1 minute")
      yield* store.put(["n"], "k", { v: 2 })
      const after = Option.getOrThrow(yield* store.get(["n"], "k"))
      yield* same(
        [after.value, after.created, after.updated],
        [{ v: 2 }, before.created, before.updated + 60_000],
        "item"
      )
      yield* same((yield* store.search(["n"])).length, 1, "number of items")
    })),
  test("names and values are data: they are matched whole and come back as they were", (store) =>
    Effect.gen(function* () {
      for (const name of STRANGE) yield* store.put(["root", name], name, { name })
      for (const name of STRANGE) {
        const found = yield* store.search(["root", name])
        yield* same(
          found.map((item) => [item.namespace, item.key, item.value]),
          [[["root", name], name, { name }]],
          JSON.stringify(name)
        )
      }
      yield* same((yield* store.search(["root"], { limit: 100 })).length, STRANGE.length, "number of items")
    })),
  test("a prefix matches whole segments", (store) =>
    Effect.gen(function* () {
      for (const namespace of [["foo"], ["foo", "x"], ["foobar"], ["fo"], ["x", "foo"]]) {
        yield* store.put(namespace, namespace.join("/"), {})
      }
      yield* same(keysOf(yield* store.search(["foo"])).sort(), ["foo", "foo/x"], "below foo")
      yield* same((yield* store.search([])).length, 5, "everything")
      yield* same(keysOf(yield* store.search(["%"])), [], "no pattern")
    })),
  test("what is no name, value or number is refused", (store) =>
    Effect.gen(function* () {
      yield* refused(store.put([], "k", {}), "empty namespace")
      yield* refused(store.put(["a", ""], "k", {}), "empty segment")
      yield* refused(store.put(["a"], "", {}), "empty key")
      yield* refused(store.get({ $ne: null } as never, "k"), "namespace that is no list")
      yield* refused(store.get(["a"], { $ne: null } as never), "key that is no text")
      yield* refused(store.put(["a"], "k", [] as never), "value that is no record")
      yield* refused(store.put(["a"], "k", { v: Number.NaN }), "value outside JSON")
      yield* refused(store.search(["a"], { limit: -1 }), "negative limit")
    }))
]

const searches: ReadonlyArray<Case> = [
  test("searches give the newest first, page by page", (store) =>
    Effect.gen(function* () {
      for (let i = 0; i < 12; i++) {
        yield* store.put(["n"], `k${i}`, { i })
        yield* TestClock.adjust("1 second")
      }
      yield* same(
        keysOf(yield* store.search(["n"])),
        Array.from({ length: 10 }, (_, i) => `k${11 - i}`),
        "first ten"
      )
      yield* same(keysOf(yield* store.search(["n"], { offset: 10 })), ["k1", "k0"], "the rest")
      yield* same(keysOf(yield* store.search(["n"], { limit: 0 })), [], "none")
    })),
  test("filters compare fields at any depth", (store) =>
    Effect.gen(function* () {
      yield* store.put(["n"], "a", { n: 1, tag: "x", meta: { lang: "en", tags: ["p", "q"] } })
      yield* store.put(["n"], "b", { n: 2, tag: "y", meta: { lang: "de", tags: ["p"] } })
      yield* store.put(["n"], "c", { n: 3, tag: "x" })
      const expected: ReadonlyArray<readonly [Filter, ReadonlyArray<string>]> = [
        [{ tag: "x" }, ["a", "c"]],
        [{ n: { $gt: 1 } }, ["b", "c"]],
        [{ n: { $gte: 2, $lt: 3 } }, ["b"]],
        [{ n: { $lte: 1 } }, ["a"]],
        [{ n: { $ne: 2 }, tag: { $eq: "x" } }, ["a", "c"]],
        [{ meta: { lang: "en" } }, ["a"]],
        [{ meta: { lang: { $ne: "en" } } }, ["b"]],
        [{ missing: { $ne: 1 } }, ["a", "b", "c"]],
        [{ meta: { tags: ["p", "q"] } }, ["a"]],
        [{ meta: { $eq: { lang: "de", tags: ["p"] } } }, ["b"]],
        [{ tag: { $gt: "x" } }, ["b"]],
        [{ n: { $gt: "1" } }, []],
        [{ "tag') OR ('1'='1": "x" }, []],
        [{ constructor: {} }, []]
      ]
      for (const [filter, keys] of expected) {
        yield* same(keysOf(yield* store.search(["n"], { filter })).sort(), keys, JSON.stringify(filter))
      }
      yield* refused(store.search(["n"], { filter: { n: { "$gt') OR 1=1": 0 } } }), "unknown operator")
    })),
  test("a filter looks at all items, however many", (store) =>
    Effect.gen(function* () {
      yield* store.batch(
        Array.from({ length: 1200 }, (_, i) => ({ _tag: "Put" as const, namespace: ["n"], key: `k${i}`, value: { i } }))
      )
      const found = yield* store.search(["n"], { filter: { i: { $gte: 1198 } } })
      yield* same(keysOf(found).sort(), ["k1198", "k1199"], "last ones")
      yield* same((yield* store.search(["n"], { offset: 1195 })).length, 5, "last page")
    })),
  test("a query ranks by similarity, and items that are not indexed come last", (store) =>
    Effect.gen(function* () {
      yield* store.put(["n"], "apple", { text: "apple" })
      yield* store.put(["n"], "plum", { text: "plum" })
      yield* store.put(["n"], "hidden", { text: "apple" }, { index: false })
      yield* store.put(["n"], "other", { name: "zzz", text: "q" }, { index: ["name"] })
      const found = yield* store.search(["n"], { query: "appel" })
      yield* same(keysOf(found), ["apple", "plum", "other", "hidden"], "order")
      yield* same(
        found.map(({ score }) => (score === undefined ? null : Math.round(score * 100))),
        [100, 57, 0, null],
        "scores"
      )
      const filtered = yield* store.search(["n"], { query: "appel", filter: { text: { $ne: "apple" } }, limit: 1 })
      yield* same(keysOf(filtered), ["plum"], "with a filter")
    })),
  test("namespaces are listed by prefix, suffix and depth", (store) =>
    Effect.gen(function* () {
      for (const name of ["a/b/c", "a/b/d/e", "a/x/c", "b/b/c", "a%/b"]) {
        yield* store.put(name.split("/"), "k", {})
        yield* store.put(name.split("/"), "l", {})
      }
      const names = (options?: Parameters<typeof store.namespaces>[0]) =>
        Effect.map(store.namespaces(options), (all) => all.map((one) => one.join("/")).sort())
      yield* same(yield* names(), ["a%/b", "a/b/c", "a/b/d/e", "a/x/c", "b/b/c"], "all")
      yield* same(yield* names({ prefix: ["a"] }), ["a/b/c", "a/b/d/e", "a/x/c"], "prefix")
      yield* same(yield* names({ prefix: ["a", "*", "c"] }), ["a/b/c", "a/x/c"], "wild prefix")
      yield* same(yield* names({ prefix: ["*", "b"] }), ["a%/b", "a/b/c", "a/b/d/e", "b/b/c"], "wild start")
      yield* same(yield* names({ suffix: ["c"] }), ["a/b/c", "a/x/c", "b/b/c"], "suffix")
      yield* same(yield* names({ suffix: ["b", "*"] }), ["a/b/c", "b/b/c"], "wild suffix")
      yield* same(yield* names({ prefix: ["a"], maxDepth: 2 }), ["a/b", "a/x"], "depth")
      yield* same((yield* store.namespaces({ limit: 2 })).length, 2, "limit")
      yield* same((yield* store.namespaces({ offset: 4 })).length, 1, "offset")
    }))
]

const times: ReadonlyArray<Case> = [
  test("items end when their time is over, and reading them restarts it", (store) =>
    Effect.gen(function* () {
      yield* store.put(["n"], "k", { v: 1 }, { ttl: "10 minutes" })
      yield* store.put(["n"], "stays", { v: 2 })
      yield* TestClock.adjust("9 minutes")
      yield* same(Option.isSome(yield* store.get(["n"], "k")), true, "after 9 minutes")
      yield* TestClock.adjust("9 minutes")
      yield* same(keysOf(yield* store.search(["n"])).sort(), ["k", "stays"], "after 9 more")
      yield* TestClock.adjust("9 minutes")
      yield* same(Option.isSome(yield* store.get(["n"], "k", { refresh: false })), true, "not restarted")
      yield* TestClock.adjust("1 minute")
      yield* same(Option.isNone(yield* store.get(["n"], "k")), true, "over")
      yield* same(keysOf(yield* store.search(["n"])), ["stays"], "not found")
    })),
  test("what is over is not counted, is swept, and is new when it is put again", (store) =>
    Effect.gen(function* () {
      yield* store.put(["gone"], "a", {}, { ttl: "1 minute" })
      yield* store.put(["gone"], "b", {}, { ttl: "1 minute" })
      const first = Option.getOrThrow(yield* store.get(["gone"], "a"))
      yield* TestClock.adjust("1 minute")
      yield* same(yield* store.namespaces(), [], "no namespace")
      yield* store.put(["gone"], "a", {}, { ttl: "1 minute" })
      const again = Option.getOrThrow(yield* store.get(["gone"], "a"))
      yield* same(again.created, first.created + 60_000, "created")
      yield* same(yield* store.sweep, 1, "swept")
      yield* same(keysOf(yield* store.search(["gone"])), ["a"], "left")
    }))
]

const batches: ReadonlyArray<Case> = [
  test("reads of a batch see the state before it, the last put of an item counts, results keep their places", (store) =>
    Effect.gen(function* () {
      yield* store.put(["n"], "a", { v: "old" })
      const [first, put, second, found, names] = yield* store.batch([
        { _tag: "Get", namespace: ["n"], key: "a" },
        { _tag: "Put", namespace: ["n"], key: "a", value: { v: "first" } },
        { _tag: "Get", namespace: ["n"], key: "a" },
        { _tag: "Search", prefix: ["n"] },
        { _tag: "Namespaces" },
        { _tag: "Put", namespace: ["n"], key: "a", value: { v: "last" } },
        { _tag: "Put", namespace: ["n"], key: "b", value: { v: "b" } },
        { _tag: "Put", namespace: ["n"], key: "b", value: undefined }
      ])
      yield* same(
        [first, second].map(Option.map(({ value }) => value.v)),
        [Option.some("old"), Option.some("old")],
        "gets"
      )
      yield* same([put, found.map(({ value }) => value.v), names], [undefined, ["old"], [["n"]]], "others")
      yield* same(
        (yield* store.search(["n"])).map(({ value }) => value.v),
        ["last"],
        "after"
      )
    })),
  test("a batch with a mistake changes nothing", (store) =>
    Effect.gen(function* () {
      yield* refused(
        store.batch([
          { _tag: "Put", namespace: ["n"], key: "a", value: { v: 1 } },
          { _tag: "Put", namespace: [], key: "b", value: { v: 1 } }
        ]),
        "batch"
      )
      yield* same((yield* store.search([])).length, 0, "nothing")
    }))
]

/** All cases. */
export const cases: ReadonlyArray<Case> = [...basics, ...searches, ...times, ...batches]
