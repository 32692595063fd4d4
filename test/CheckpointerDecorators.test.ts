import { afterAll, assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import type { RawRow } from "../src/CheckpointDriver.js"
import * as Checkpointer from "../src/Checkpointer.js"
import * as EncryptedCheckpointer from "../src/EncryptedCheckpointer.js"
import * as GraphTest from "../src/GraphTest.js"
import { fails, pending, type Saver, sameCheckpoint, valuesOf, Writer } from "../src/internal/suite.js"
import * as SqliteCheckpointer from "../src/SqliteCheckpointer.js"

const runner = { describe, it, afterAll }
const key = (n: number) => Redacted.make(new Uint8Array(32).fill(n))
const keyed = EncryptedCheckpointer.encrypted({ keys: { k1: key(1) }, current: "k1" })

GraphTest.checkpointerSuite("encrypted SQLite", keyed(SqliteCheckpointer.layer({ filename: ":memory:" })), {
  runner,
  numRuns: 5
})

/** A saver whose rows others can change behind its back. */
const withRows = <A, E>(
  wrap: (layer: Layer.Layer<Checkpointer.Checkpointer>) => Layer.Layer<Checkpointer.Checkpointer, unknown>,
  use: (saver: Saver, beneath: Saver) => Effect.Effect<A, E>
) =>
  Effect.gen(function* () {
    const beneath = yield* Checkpointer.Checkpointer
    return yield* Effect.flatMap(Checkpointer.Checkpointer, (saver) => use(saver, beneath)).pipe(
      Effect.provide(wrap(Layer.succeed(Checkpointer.Checkpointer, beneath)))
    )
  }).pipe(Effect.provide(Checkpointer.layerMemory))

const address = { thread: "t", namespace: "" }

const replaceRow = (saver: Saver, row: RawRow) =>
  Effect.gen(function* () {
    const { head } = yield* saver.encoded.read(address, undefined)
    yield* saver.encoded.rewrite({ address, expectedHead: head, rows: [row], remove: [], now: 0 })
  })

const rowsOf = (saver: Saver) => saver.encoded.raw(address, 0, 100)

describe("encryption", () => {
  it.effect("leaves nothing readable of values, logs, pending writes and metadata", () =>
    withRows(
      keyed,
      Effect.fnUntraced(function* (saver, beneath) {
        const writer = new Writer(saver, "t")
        yield* writer.write(
          [
            { set: "x", value: "SECRET" },
            { append: "log", items: ["SECRET"] }
          ],
          {
            metadata: { note: "SECRET" },
            writes: [pending("a", "x", "SECRET")]
          }
        )
        sameCheckpoint(yield* saver.load(address), writer.all[0]!)
        const stored = JSON.stringify([yield* rowsOf(beneath), yield* beneath.encoded.thread("t")])
        assert.isFalse(/SECRET|note|count/.test(stored))
      })
    )
  )

  const refusesForgeries = Effect.fnUntraced(function* (saver: Saver, beneath: Saver) {
    const writer = new Writer(saver, "t")
    for (const x of [1, 2]) {
      yield* writer.write(
        [
          { set: "x", value: x },
          { append: "log", items: [x] }
        ],
        { writes: [pending("a", "x", x)] }
      )
    }
    const [first, second] = yield* rowsOf(beneath)
    const plain = yield* Effect.provide(
      Effect.flatMap(Checkpointer.Checkpointer, (other) => {
        const forger = new Writer(other, "t")
        const second = Effect.suspend(() => forger.write([{ set: "x", value: "forged" }]))
        return forger.write([]).pipe(Effect.zipRight(second), Effect.zipRight(rowsOf(other)))
      }),
      Checkpointer.layerMemory
    )
    const flipped = (text: string) => `${text.slice(0, -4)}${text.endsWith("AAAA") ? "BBBB" : "AAAA"}`
    const forgeries: ReadonlyArray<Partial<RawRow>> = [
      { ...plain[1]!, writes: [] },
      { data: first!.data },
      { data: flipped(second!.data) },
      { data: second!.data.slice(0, -8) },
      { data: second!.data.replace(":k1:", ":k2:") },
      { data: second!.log! },
      { log: first!.log },
      { log: plain[1]!.data },
      { writes: first!.writes },
      { writes: [pending("a", "x", "forged")] }
    ]
    for (const forgery of forgeries) {
      yield* replaceRow(beneath, { ...second!, ...forgery })
      yield* fails(saver.load(address), "CheckpointerError", "Corrupt")
    }
    yield* replaceRow(beneath, second!)
    sameCheckpoint(yield* saver.load(address), writer.all[1]!)
  })

  it.effect("refuses plain text, texts from another place, changed texts and unknown keys", () =>
    withRows(keyed, refusesForgeries)
  )

  it.effect("that test notices a saver that takes plain text where it can't decrypt", () =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(
        withRows(keyed, (saver, beneath) => {
          const lenient: Saver = {
            ...saver,
            load: (at, id) => Effect.catchTag(saver.load(at, id), "CheckpointerError", () => beneath.load(at, id))
          }
          return refusesForgeries(lenient, beneath)
        })
      )
      assert.include(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "", "expected CheckpointerError, got")
    })
  )

  it.effect("reads what an older key wrote and writes with the current one", () =>
    withRows(
      keyed,
      Effect.fnUntraced(function* (saver, beneath) {
        const old = new Writer(saver, "t")
        yield* old.write([
          { set: "x", value: 1 },
          { append: "log", items: [1] }
        ])
        const rotate = (current: string, keys: Record<string, Redacted.Redacted<Uint8Array>>) =>
          Layer.build(
            EncryptedCheckpointer.encrypted({ keys, current })(Layer.succeed(Checkpointer.Checkpointer, beneath))
          )
        yield* Effect.scoped(
          Effect.gen(function* () {
            const both = yield* rotate("k2", { k1: key(1), k2: key(2) })
            const rotated = yield* Effect.provide(Checkpointer.Checkpointer, both)
            const loaded = yield* rotated.load(address)
            sameCheckpoint(loaded, old.all[0]!)
            const writer = Object.assign(new Writer(rotated, "t"), {
              head: 1,
              last: { node: old.all[0]!, lineage: loaded!.lineage }
            })
            yield* writer.write([{ append: "log", items: [2] }])
            assert.deepStrictEqual(valuesOf(yield* rotated.load(address)), { x: 1, log: [1, 2] })
            assert.match((yield* rowsOf(beneath))[1]!.data, /^e1:k2:/)
            yield* fails(saver.load(address), "CheckpointerError", "Corrupt")
            const refused = [rotate("k3", { k1: key(1) }), rotate("k1", { k1: Redacted.make(new Uint8Array(5)) })]
            for (const one of refused) yield* fails(Effect.scoped(one), "CheckpointerError", "InvalidRequest")
          })
        )
      })
    )
  )
})

describe("a read-only saver", () => {
  it.effect("reads and refuses to write", () =>
    withRows(
      Checkpointer.readOnly,
      Effect.fnUntraced(function* (saver, beneath) {
        const writer = new Writer(beneath, "t")
        yield* writer.write([{ set: "x", value: 1 }])
        sameCheckpoint(yield* saver.load(address), writer.all[0]!)
        const attempts: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
          saver.commit(writer.next([]).commit),
          saver.putWrites(address, 1, [pending("a", "x", 1)]),
          saver.dropWrites(address, 1, ["a"]),
          saver.setStatus("t", "idle"),
          saver.takeFence("t"),
          saver.copyThread("t", "u"),
          saver.deleteThread("t")
        ]
        for (const attempt of attempts) yield* fails(attempt, "CheckpointerError", "Unsupported")
        assert.deepStrictEqual(yield* beneath.namespaces("t"), [""])
      })
    )
  )
})

describe("a recording saver", () => {
  it.effect("tells every call of the driver with its outcome", () => {
    const calls: Array<GraphTest.RecordedCall> = []
    return withRows(
      GraphTest.recording(calls),
      Effect.fnUntraced(function* (saver) {
        const writer = new Writer(saver, "t")
        yield* writer.write([{ set: "x", value: 1 }])
        yield* saver.load(address)
        yield* fails(saver.commit({ ...writer.next([]).commit, expectedHead: 5, seq: 9 }), "ThreadConflict")
        assert.deepStrictEqual(
          calls.map(({ nth, operation }) => [operation, nth]),
          [
            ["graphId", 0],
            ["append", 0],
            ["read", 0],
            ["append", 1]
          ]
        )
        assert.deepStrictEqual(
          calls.filter(({ operation }) => operation === "append").map(({ exit }) => exit),
          [Exit.succeed([true]), Exit.succeed([false])]
        )
      })
    )
  })
})

describe("injected faults", () => {
  const always: { fault: GraphTest.Fault | undefined } = { fault: undefined }
  const faulty = GraphTest.faults(({ operation }) =>
    operation === "append" || operation === "putWrites" ? always.fault : undefined
  )

  it.effect("every fault leaves the thread readable, at the state before or after", () =>
    withRows(
      faulty,
      Effect.fnUntraced(function* (saver, beneath) {
        const outcomes: ReadonlyArray<readonly [GraphTest.Fault, written: number, succeeds: boolean]> = [
          [{ _tag: "Fail" }, 0, false],
          [{ _tag: "Lose" }, 2, false],
          [{ _tag: "Tear" }, 1, false],
          [{ _tag: "Duplicate" }, 2, true]
        ]
        for (const [i, [fault, written, succeeds]] of outcomes.entries()) {
          always.fault = undefined
          const writer = new Writer(saver, `t${i}`)
          yield* writer.write([{ append: "log", items: [0] }])
          const staged: Array<Checkpointer.Staged> = []
          for (const item of [1, 2]) {
            const { commit, node } = writer.next([{ append: "log", items: [item] }])
            staged.push(yield* saver.stage(commit))
            Object.assign(writer, { head: commit.seq, last: { node, lineage: staged.at(-1)!.lineage } })
            writer.all.push(node)
          }
          always.fault = fault
          assert.strictEqual(Exit.isSuccess(yield* Effect.exit(saver.write(staged))), succeeds, fault._tag)
          sameCheckpoint(yield* beneath.load(writer.address), writer.all[written]!)
          const found = yield* Stream.runCollect(beneath.list(writer.address))
          assert.strictEqual(found.length, written + 1)
        }
      })
    )
  )
})
