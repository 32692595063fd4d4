import { rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import Database from "better-sqlite3"
import { Effect, Schema } from "effect"
import { Channel, Checkpointer, Command, Graph, Interrupt, Send } from "effect-pregel"
import * as SqliteCheckpointer from "effect-pregel/SqliteCheckpointer"
import { before, failsWith, log, snapshots } from "./support/thread.js"

const { END, START } = Graph

/** A node that appends "r" and how many items there were. */
const replies = (name: string, items: Channel.Channel<ReadonlyArray<string>, any, true> = log) =>
  Graph.make(name, { items })
    .addNode("reply", ({ items }) => Effect.succeed({ items: [`r${items.length}`] }))
    .addEdge(START, "reply")
    .compile()

/** A file that is gone when the test is over. */
const databaseFile = Effect.acquireRelease(
  Effect.sync(() => join(tmpdir(), `pregel-append-${process.pid}-${Math.random().toString(36).slice(2)}.db`)),
  (file) => Effect.sync(() => ["", "-wal", "-shm"].forEach((end) => void rmSync(file + end, { force: true })))
)

/** What a file keeps of logs, row by row. */
const logsIn = (file: string): ReadonlyArray<ReadonlyArray<string>> => {
  const database = new Database(file, { readonly: true })
  const rows = database.prepare("SELECT log FROM pregel_checkpoints WHERE log IS NOT NULL ORDER BY key").all()
  database.close()
  return (rows as Array<{ log: string }>)
    .map(({ log }) => /\["r?\w+"(?:,"\w+")*\]/.exec(log)?.[0] ?? log)
    .map((text) => JSON.parse(text))
}

describe("a log", () => {
  it.effect(
    "per-153 an old checkpoint holds what its ancestors appended since the last overwrite, and nothing newer",
    () =>
      Effect.gen(function* () {
        const thread = Graph.make("steps", { items: log, n: Channel.lastValue(Schema.Number, { initial: () => 0 }) })
          .addNode("step", ({ n }) =>
            Effect.succeed({ n: n + 1, items: n === 3 ? Channel.overwrite(["base"]) : `i${n}` })
          )
          .addEdge(START, "step")
          .addConditionalEdges("step", ({ n }) => (n < 6 ? "step" : END), ["step", END])
          .compile()
          .thread("t")
        yield* thread.invoke({})
        const held = (yield* snapshots(thread)).map(({ values }) => values.items).reverse()
        const all = ["i0", "i1", "i2", "base", "i4", "i5"]
        assert.deepStrictEqual(held, [
          [],
          [],
          all.slice(0, 1),
          all.slice(0, 2),
          all.slice(0, 3),
          all.slice(3, 4),
          all.slice(3, 5),
          all.slice(3, 6)
        ])
      }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("per-155 writes of one superstep stand in the order of node names, live and reloaded", () =>
    Effect.gen(function* () {
      const graph = Graph.make("order", { items: log })
        .addNode("b_node", () => Effect.succeed({ items: "b" }))
        .addNode("a_node", () => Effect.as(Effect.yieldNow(), { items: "a" }))
        .addEdge(START, "b_node")
        .addEdge(START, "a_node")
        .compile()
      const live = yield* graph.thread("t").invoke({})
      assert.deepStrictEqual(live, { items: ["a", "b"] })
      assert.deepStrictEqual((yield* graph.thread("t").state).values, live)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  for (const durability of ["sync", "async"] as const) {
    it.scoped(`per-156 with ${durability} durability each item is stored once, in the row of its superstep`, () =>
      Effect.gen(function* () {
        const file = yield* databaseFile
        const values = yield* Effect.gen(function* () {
          const thread = replies("sync").thread("t")
          yield* thread.invoke({ items: "hello" }, { durability })
          yield* thread.invoke({ items: "again" }, { durability })
          return (yield* thread.state).values
        }).pipe(Effect.provide(SqliteCheckpointer.layer({ filename: file })))
        assert.deepStrictEqual(values, { items: ["hello", "r1", "again", "r3"] })
        assert.deepStrictEqual(logsIn(file), [["hello"], ["r1"], ["again"], ["r3"]])
      })
    )
  }

  it.scoped(
    "per-157 with exit durability a run's items are stored in its one row; one that appends nothing adds none",
    () =>
      Effect.gen(function* () {
        const file = yield* databaseFile
        const quiet = Graph.make("exit", { items: log })
          .addNode("reply", () => Effect.void)
          .addEdge(START, "reply")
          .compile()
        const values = yield* Effect.gen(function* () {
          yield* replies("exit").thread("t").invoke({ items: "hello" }, { durability: "exit" })
          yield* replies("exit").thread("t").invoke({ items: "again" }, { durability: "exit" })
          yield* quiet.thread("u").invoke({}, { durability: "exit" })
          assert.strictEqual((yield* snapshots(quiet.thread("u"))).length, 1)
          return (yield* replies("exit").thread("t").state).values
        }).pipe(Effect.provide(SqliteCheckpointer.layer({ filename: file })))
        assert.deepStrictEqual(values, { items: ["hello", "r1", "again", "r3"] })
        assert.deepStrictEqual(logsIn(file), [
          ["hello", "r1"],
          ["again", "r3"]
        ])
      })
  )

  it.scoped("per-158 the whole log is never written again, however long it gets", () =>
    Effect.gen(function* () {
      const file = yield* databaseFile
      const size = yield* Effect.gen(function* () {
        const thread = replies("long").thread("t")
        for (let i = 0; i < 120; i++) yield* thread.invoke({ items: `m${i}` })
        return (yield* thread.state).values.items.length
      }).pipe(Effect.provide(SqliteCheckpointer.layer({ filename: file })))
      assert.strictEqual(size, 240)
      assert.strictEqual(logsIn(file).flat().length, 240)
    })
  )

  it.effect("per-160 an overwrite starts the log anew, live and reloaded; two in one superstep are refused", () =>
    Effect.gen(function* () {
      const thread = Graph.make("reset", { items: log })
        .addNode("n", () => Effect.succeed({ items: Channel.overwrite(["z"]) }))
        .addNode("m", () => Effect.succeed({ items: "y" }))
        .addEdge(START, "n")
        .addEdge("n", "m")
        .compile()
        .thread("t")
      assert.deepStrictEqual(yield* thread.invoke({ items: "a" }), { items: ["z", "y"] })
      assert.deepStrictEqual((yield* thread.state).values, { items: ["z", "y"] })

      const two = Graph.make("two", { items: log })
        .addNode("n", () => Effect.succeed({ items: Channel.overwrite(["n"]) }))
        .addNode("m", () => Effect.succeed({ items: Channel.overwrite(["m"]) }))
        .addEdge(START, "n")
        .addEdge(START, "m")
        .compile()
      const refused = yield* Effect.flip(two.thread("u").invoke({}))
      assert.isTrue(refused._tag === "InvalidUpdate" && refused.reason === "ConcurrentOverwrite")
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("per-161 updates of a thread append, on a fresh thread as well", () =>
    Effect.gen(function* () {
      const graph = Graph.make("model", { items: log })
        .addNode("model", () => Effect.void)
        .addEdge(START, "model")
        .compile()
      const fresh = graph.thread("fresh")
      yield* fresh.update({ items: "hello" }, { as: "model" })
      yield* fresh.update({ items: "second" }, { as: "model" })
      assert.deepStrictEqual((yield* fresh.state).values, { items: ["hello", "second"] })
      const used = graph.thread("used")
      yield* used.invoke({ items: "seed" })
      yield* used.update({ items: "appended" })
      assert.deepStrictEqual((yield* used.state).values, { items: ["seed", "appended"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("per-162 two updates as one node in one superstep are both kept", () =>
    Effect.gen(function* () {
      const thread = replies("bulk").thread("t")
      yield* thread.invoke({ items: "s" })
      yield* thread.updateAll([
        [
          { update: { items: "a" }, as: "reply" },
          { update: { items: "b" }, as: "reply" }
        ]
      ])
      assert.deepStrictEqual((yield* thread.state).values, { items: ["s", "r1", "a", "b"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("per-163 branches from one checkpoint never see each other's items, live or reloaded", () =>
    Effect.gen(function* () {
      let runs = 0
      const thread = Graph.make("forks", { items: log })
        .addNode("a", () => Effect.succeed({ items: "a" }))
        .addNode("b", () => Effect.sync(() => ({ items: `b${++runs}` })))
        .addEdge(START, "a")
        .addEdge("a", "b")
        .compile()
        .thread("t")
      yield* thread.invoke({})
      const tip = (yield* thread.state).checkpoint!.id
      const point = (yield* before(thread, "b")).checkpoint!.id
      assert.deepStrictEqual(yield* thread.at(point).resume(), { items: ["a", "b2"] })
      assert.deepStrictEqual((yield* thread.state).values, { items: ["a", "b2"] })
      yield* thread.at(point).update({ items: "x" }, { as: "a" })
      assert.deepStrictEqual((yield* thread.state).values, { items: ["a", "x"] })
      assert.deepStrictEqual(yield* thread.resume(), { items: ["a", "x", "b3"] })
      assert.deepStrictEqual((yield* thread.state).values, { items: ["a", "x", "b3"] })
      assert.deepStrictEqual((yield* thread.at(tip).state).values, { items: ["a", "b1"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("what is stored", () => {
  it.effect("per-185 per-186 is data: nothing in it selects a class, a method or a prototype", () =>
    Effect.gen(function* () {
      const forged = {
        lc: 2,
        type: "constructor",
        id: ["RegExp"],
        kwargs: { source: "x", flags: "g" },
        method: "groupBy",
        nested: [{ __proto__: null, toString: "own" }, { type: "undefined" }] as ReadonlyArray<unknown>
      }
      const text = `{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}`
      const graph = Graph.make("data", { value: Channel.lastValue(Schema.Unknown) })
        .addNode("keep", () => Effect.void)
        .addEdge(START, "keep")
        .compile()
      const thread = graph.thread("__proto__")
      yield* thread.invoke({ value: forged }, { metadata: { forged } })
      const { metadata, values } = yield* thread.state
      assert.deepStrictEqual(values.value, JSON.parse(JSON.stringify(forged)))
      assert.deepStrictEqual(metadata.forged, JSON.parse(JSON.stringify(forged)))
      yield* thread.invoke({ value: JSON.parse(text) })
      assert.strictEqual(JSON.stringify((yield* thread.state).values.value), text)
      assert.isUndefined(({} as { polluted?: boolean }).polluted)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.scoped(
    "per-187 untracked values are in no row: not as state, nor in sends, pending writes or events of a resume",
    () =>
      Effect.gen(function* () {
        const file = yield* databaseFile
        const graph = Graph.make("untracked", {
          messages: log,
          dictionary: Channel.lastValue(Schema.Unknown),
          secret: Channel.untracked(Schema.String)
        })
          .addNode("setup", () => Effect.succeed({ messages: "setup", secret: "TOP-SECRET" }))
          .addNode("tool", ({ dictionary, secret }) =>
            Effect.gen(function* () {
              yield* Interrupt.interrupt("go?")
              return Command.make({
                update: { messages: `used ${String(secret)}`.slice(0, 4), dictionary, secret: "TOP-SECRET-2" }
              })
            })
          )
          .addEdge(START, "setup")
          .addConditionalEdges(
            "setup",
            ({ secret }) => Send.make("tool", { messages: [], secret: secret!, dictionary: { secret: "legal" } }),
            ["tool"]
          )
          .compile()
        yield* Effect.gen(function* () {
          const thread = graph.thread("t")
          yield* Effect.flip(thread.invoke({}))
          const state = yield* thread.answer(true)
          assert.deepStrictEqual(state, {
            messages: ["setup", "used"],
            dictionary: { secret: "legal" },
            secret: "TOP-SECRET-2"
          })
          assert.notProperty((yield* thread.state).values, "secret")
        }).pipe(Effect.provide(SqliteCheckpointer.layer({ filename: file })))
        const database = new Database(file, { readonly: true })
        const dump = ["checkpoints", "writes", "threads"].flatMap((table) =>
          database.prepare(`SELECT * FROM pregel_${table}`).all()
        )
        database.close()
        const text = JSON.stringify(dump)
        assert.include(text, "legal")
        assert.notInclude(text, "SECRET")
      })
  )
})

describe("a list that a node changes in place", () => {
  it.effect("fails the next superstep that adds to it, and nothing wrong is saved", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { log: Channel.append(Schema.String) })
        .addNode("hacks", ({ log }) => Effect.sync(() => void (log as Array<string>).push("hacked")))
        .addNode("adds", () => Effect.succeed({ log: "added" }))
        .addEdge(Graph.START, "hacks")
        .addEdge("hacks", "adds")
        .compile()
      const thread = graph.thread("t")
      const error = yield* failsWith(thread.invoke({ log: "input" }), "InvalidUpdate")
      assert.deepStrictEqual([error.channel, error.reason], ["log", "InvalidValue"])
      assert.match(error.message, /in place/)
      assert.deepStrictEqual((yield* thread.state).values, { log: ["input"] })
      assert.deepStrictEqual((yield* thread.resume()).log, ["input", "added"])
      assert.deepStrictEqual((yield* thread.state).values, { log: ["input", "added"] })
      yield* failsWith(graph.invoke({ log: "input" }), "InvalidUpdate")
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})
