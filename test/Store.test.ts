import * as SqlClient from "@effect/sql/SqlClient"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { Channel, Checkpointer, Entrypoint, Graph, Interrupt, Store, Task } from "effect-pregel"
import * as SqlStore from "effect-pregel/SqlStore"
import * as StoreSuite from "effect-pregel/StoreSuite"
import { inject } from "vitest"
import { failsWith, sum } from "./support/thread.js"

const { START } = Graph

const sqlite = Layer.provide(StoreSuite.layer(SqlStore.layer), SqliteClient.layer({ filename: ":memory:" }))

const postgres = Layer.unwrapEffect(
  Effect.sync(() => {
    const client = PgClient.layer({ url: Redacted.make(inject("pgUrl")) })
    const emptied = Layer.effectDiscard(
      Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.zipRight(SqlStore.make(), sql`DELETE FROM pregel_store`))
    )
    return Layer.provide(Layer.provide(StoreSuite.layer(SqlStore.layer), emptied), client)
  })
)

const layers = { memory: StoreSuite.layer(Store.layerMemoryWith), sqlite, postgres }

for (const [name, layer] of Object.entries(layers)) {
  describe(`a store in ${name}`, () => {
    for (const one of StoreSuite.cases) {
      it.effect(one.name, () => Effect.provide(one.run, layer as Layer.Layer<Store.Store, unknown>))
    }
  })
}

it.effect("core-167 nodes share a store with each other and with graphs inside, with and without threads", () =>
  Effect.gen(function* () {
    const text = Channel.lastValue(Schema.String)
    const inner = Graph.make("inner", { found: Channel.lastValue(Schema.Number) })
      .addNode("search", () =>
        Effect.flatMap(Store.Store, (store) =>
          Effect.map(store.search(["rules"]), (items) => ({ found: items.length }))
        )
      )
      .addEdge(START, "search")
      .compile()
    const graph = Graph.make("g", {
      assistant: text,
      style: Channel.lastValue(Schema.Unknown),
      found: Channel.lastValue(Schema.Number)
    })
      .addNode("one", (state) =>
        Effect.flatMap(Store.Store, (store) =>
          Effect.as(store.put(["rules", "style"], state.assistant ?? "", { includeHashtags: true }), {})
        )
      )
      .addNode("two", (state) =>
        Effect.flatMap(Store.Store, (store) =>
          Effect.map(store.get(["rules", "style"], state.assistant ?? ""), (item) => ({
            style: Option.getOrThrow(item).value
          }))
        )
      )
      .addGraph("inner", inner)
      .addEdge(START, "one")
      .addEdge("one", "two")
      .addEdge("two", "inner")
      .compile()
    const expected = { assistant: "a", style: { includeHashtags: true }, found: 1 }
    assert.deepStrictEqual(yield* graph.invoke({ assistant: "a" }), expected)
    assert.deepStrictEqual(yield* graph.thread("1").invoke({ assistant: "a" }), expected)
  }).pipe(Effect.provide([Store.layerMemory, Checkpointer.layerMemory]))
)

it.effect(
  "core-168 the store outlives threads, the state does not",
  () =>
    Effect.gen(function* () {
      const seen = new Set<number>()
      let graph: any = Graph.make("g", { count: sum })
      for (let i = 0; i < 51; i++) {
        graph = graph
          .addNode(`n${i}`, (state: { readonly count: number }) =>
            Effect.gen(function* () {
              seen.add(state.count)
              const { thread } = yield* Task.current
              const store = yield* Store.Store
              if (i > 0) yield* store.put(["docs"], "doc", { some_val: state.count, thread })
              return { count: 1 }
            })
          )
          .addEdge(START, `n${i}`)
      }
      const compiled = graph.compile()
      const store = yield* Store.Store
      const expected = [
        ["1", 51, 0],
        ["1", 102, 51],
        ["2", 51, 0]
      ] as const
      for (const [thread, count, value] of expected) {
        seen.clear()
        assert.deepStrictEqual(yield* compiled.thread(thread).invoke({ count: 0 }), { count })
        assert.deepStrictEqual([...seen], [value])
        const docs = yield* store.search(["docs"])
        assert.deepStrictEqual(
          docs.map((doc) => [doc.key, doc.value]),
          [["doc", { some_val: value, thread }]]
        )
      }
    }).pipe(Effect.provide([Store.layerMemory, Checkpointer.layerMemory])) as Effect.Effect<void>
)

it.effect("entrypoints use the store, also after a pause", () =>
  Effect.gen(function* () {
    const ep = Entrypoint.make("ep", {
      input: Schema.String,
      output: Schema.Number,
      execute: (user) =>
        Effect.gen(function* () {
          const store = yield* Store.Store
          yield* store.put(["users", user], "asked", { asked: true })
          yield* Interrupt.interrupt("?")
          return (yield* store.search(["users"])).length
        })
    })
    yield* ep.thread("1").run("a")
    yield* ep.thread("2").run("b")
    assert.strictEqual(yield* ep.thread("1").answer(1), 2)
  }).pipe(Effect.provide([Store.layerMemory, Checkpointer.layerMemory]))
)

it.effect("collections encode and decode their items", () =>
  Effect.gen(function* () {
    const events = Store.collection(Schema.Struct({ at: Schema.Date, text: Schema.NonEmptyString }))
    const value = { at: new Date("2026-01-02T00:00:00Z"), text: "x" }
    yield* events.put(["n"], "k", value)
    assert.deepStrictEqual(yield* events.get(["n"], "k"), Option.some(value))
    const [found] = yield* events.search(["n"], { filter: { text: "x" } })
    assert.deepStrictEqual([found!.decoded, found!.value.at], [value, "2026-01-02T00:00:00.000Z"])
    const refused = yield* failsWith(events.put(["n"], "bad", { at: new Date(), text: "" }), "StoreError")
    assert.strictEqual(refused.reason, "InvalidRequest")
    const store = yield* Store.Store
    yield* store.put(["n"], "foreign", { at: 1 })
    assert.strictEqual((yield* failsWith(events.get(["n"], "foreign"), "StoreError")).reason, "Corrupt")
  }).pipe(Effect.provide(Store.layerMemory))
)

it.effect("an embedding that fails is the store's failure, and defaults of the layer count", () =>
  Effect.gen(function* () {
    const store = yield* Store.Store
    const failed = yield* failsWith(store.put(["n"], "k", { text: "x" }), "StoreError")
    assert.deepStrictEqual([failed.operation, failed.reason], ["embed", "Unavailable"])
    yield* store.put(["n"], "k", { text: "x" }, { index: false })
    assert.strictEqual((yield* store.search(["n"])).length, 1)
  }).pipe(Effect.provide(Store.layerMemoryWith({ index: { embed: () => Effect.fail("no model") } })))
)

it.effect("a put joins the transaction around it", () =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const store = yield* Store.Store
    yield* Effect.exit(sql.withTransaction(Effect.zipRight(store.put(["n"], "k", {}), Effect.fail("no"))))
    assert.deepStrictEqual(yield* store.search([]), [])
  }).pipe(Effect.provide(Layer.provideMerge(SqlStore.layer(), SqliteClient.layer({ filename: ":memory:" }))))
)
