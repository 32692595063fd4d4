import { mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, it } from "@effect/vitest"
import Sqlite from "better-sqlite3"
import * as Effect from "effect/Effect"
import { Checkpointer, type Commit, type Lineage } from "../src/Checkpointer.js"
import type { Saver } from "../src/internal/suite.js"
import * as SqliteCheckpointer from "../src/SqliteCheckpointer.js"

const address = { thread: "t", namespace: "" }
const ITEM = 1024
const graph = { name: "growth", fingerprint: "1" }

/** A run of `n` supersteps, each of which appends one item of 1 KiB. */
const appendItems = Effect.fnUntraced(function* (saver: Saver, n: number) {
  let lineage: Lineage | undefined
  for (let seq = 1; seq <= n; seq++) {
    const item = JSON.stringify(`${seq}`.padEnd(ITEM - 2, "x"))
    const commit: Commit = {
      address,
      expectedHead: seq - 1,
      seq,
      parent: lineage && { seq: seq - 1, id: "" },
      lineage,
      step: seq - 2,
      source: "loop",
      created: 1_764_000_000_000 + seq,
      version: seq,
      resumedAt: 0,
      changes: [{ _tag: "Append", channel: "messages", version: seq, reset: false, items: [item], length: seq }],
      whole: () => [{ append: true, channel: "messages", version: seq, length: seq }],
      seen: [],
      ran: ["agent"],
      results: [{ task: "agent", writes: [["messages", undefined]] }],
      graph,
      parents: {},
      metadata: {}
    }
    lineage = yield* saver.commit(commit)
  }
})

/** Bytes on disk after `n` supersteps, and milliseconds of processor time to load the head. */
const measure = Effect.fnUntraced(function* (n: number) {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "effect-pregel-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  )
  const filename = join(folder, "growth.sqlite")
  const load = yield* Effect.provide(
    Effect.gen(function* () {
      const saver = yield* Checkpointer
      yield* appendItems(saver, n)
      // Time of the processor: others may be using it too.
      const loads = n === 0 ? 0 : 20
      const before = process.cpuUsage()
      for (let i = 0; i < loads; i++) {
        const [channel] = (yield* saver.load(address))!.checkpoint.channels
        assert.lengthOf(channel!.value as ReadonlyArray<unknown>, n)
      }
      const { system, user } = process.cpuUsage(before)
      return (system + user) / 1000 / loads
    }),
    SqliteCheckpointer.layer({ filename })
  )
  const db = new Sqlite(filename)
  db.pragma("wal_checkpoint(TRUNCATE)")
  db.close()
  return { n, bytes: statSync(filename).size, load }
}, Effect.scoped)

it.live(
  "what n supersteps store grows with n, stays near the size of the data, and loads in the time of its size",
  () =>
    Effect.gen(function* () {
      const { bytes: empty } = yield* measure(0)
      const [first, , , last] = yield* Effect.forEach([250, 500, 1000, 2000], measure)
      const small = yield* measure(200)
      const exponent = Math.log((last!.bytes - empty) / (first!.bytes - empty)) / Math.log(last!.n / first!.n)
      console.log(
        `bytes at 2000: ${last!.bytes} (${(last!.bytes / (2000 * ITEM)).toFixed(2)} of the data), exponent ${exponent.toFixed(3)}, ` +
          `load ${small.load.toFixed(2)} ms at 200, ${last!.load.toFixed(2)} ms at 2000`
      )
      assert.closeTo(exponent, 1, 0.05)
      assert.isBelow(last!.bytes / (2000 * ITEM), 1.6)
      assert.isBelow(last!.load / 10, small.load * 3)
    }),
  60_000
)
