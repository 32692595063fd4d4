import * as PgClient from "@effect/sql-pg/PgClient"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { inject } from "vitest"
import type { Change } from "../src/Checkpoint.js"
import { Checkpointer, type Commit, type Lineage, layerMemory } from "../src/Checkpointer.js"
import { modelProperty } from "../src/CheckpointerSuite.js"
import * as SqlCheckpointer from "../src/SqlCheckpointer.js"
import * as SqliteCheckpointer from "../src/SqliteCheckpointer.js"

const address = { thread: "t", namespace: "" }

const commitOf = (
  seq: number,
  lineage: Lineage | undefined,
  changes: ReadonlyArray<Change>,
  whole: ReturnType<Commit["whole"]>,
  more: Partial<Commit> = {}
): Commit => ({
  address,
  expectedHead: seq - 1,
  seq,
  parent: lineage && { seq: seq - 1, id: "" },
  lineage,
  step: seq - 2,
  source: "loop",
  created: 1_764_512_345_000 + seq,
  version: seq,
  resumedAt: 0,
  changes,
  whole: () => whole,
  seen: [],
  ran: ["loop"],
  results: [{ task: "loop", writes: [["count", undefined]] }],
  graph: { name: "g", fingerprint: "f" },
  parents: {},
  metadata: {},
  ...more
})

const set = (channel: string, version: number, value: unknown): Change => ({
  _tag: "Set",
  channel,
  version,
  text: JSON.stringify(value)
})

it.effect(
  "postgres agrees with a plain model",
  () =>
    modelProperty(assert.deepStrictEqual, 30).pipe(
      Effect.provide(Layer.provide(SqlCheckpointer.layer(), PgClient.layer({ url: Redacted.make(inject("pgUrl")) })))
    ),
  60_000
)
it.effect(
  "sqlite agrees with a plain model",
  () =>
    modelProperty(assert.deepStrictEqual, 60).pipe(Effect.provide(SqliteCheckpointer.layer({ filename: ":memory:" }))),
  60_000
)
it.effect(
  "sqlite over a client agrees with a plain model",
  () =>
    modelProperty(assert.deepStrictEqual, 30).pipe(
      Effect.provide(Layer.provide(SqlCheckpointer.layer(), SqliteClient.layer({ filename: ":memory:" })))
    ),
  60_000
)
it.effect(
  "agrees with a plain model over random forks, gaps, resets and reloads",
  () => modelProperty(assert.deepStrictEqual, 300).pipe(Effect.provide(layerMemory)),
  60_000
)

it.layer(layerMemory)("Checkpointer", (it) => {
  it.effect("reads back what a loop committed", () =>
    Effect.gen(function* () {
      const saver = yield* Checkpointer
      let lineage: Lineage | undefined
      for (let seq = 1; seq <= 40; seq++) {
        const staged = yield* saver.stage(
          commitOf(
            seq,
            lineage,
            [set("count", seq, seq)],
            [{ append: false, channel: "count", version: seq, text: String(seq) }]
          )
        )
        yield* saver.write([staged])
        lineage = staged.lineage
        assert.isAtMost(staged.append.data.length, 90)
      }
      const loaded = yield* saver.load(address)
      assert.strictEqual(loaded?.head, 40)
      assert.deepStrictEqual(loaded?.checkpoint.channels, [{ name: "count", version: 40, append: false, value: 40 }])
      assert.deepStrictEqual(loaded?.checkpoint.results, [{ task: "loop", writes: [["count", 40]] }])
      assert.strictEqual(loaded?.checkpoint.step, 38)
      const old = yield* saver.load(address, loaded?.checkpoint.parent?.id)
      assert.deepStrictEqual(old?.checkpoint.channels, [{ name: "count", version: 39, append: false, value: 39 }])
    })
  )
})
