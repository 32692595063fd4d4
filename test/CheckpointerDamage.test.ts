import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as KeyValueStore from "@effect/platform/KeyValueStore"
import * as SqlClient from "@effect/sql/SqlClient"
import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, describe, it } from "@effect/vitest"
import Sqlite from "better-sqlite3"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { inject } from "vitest"
import type { RawRow } from "../src/CheckpointDriver.js"
import * as Checkpointer from "../src/Checkpointer.js"
import { fails, pending, type Saver, sameCheckpoint, valuesOf, Writer } from "../src/internal/suite.js"
import * as KeyValueCheckpointer from "../src/KeyValueCheckpointer.js"
import * as SqlCheckpointer from "../src/SqlCheckpointer.js"
import * as SqliteCheckpointer from "../src/SqliteCheckpointer.js"

const address = { thread: "t", namespace: "" }

const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "effect-pregel-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

const use = <A, E, E2>(
  layer: Layer.Layer<Checkpointer.Checkpointer, E2>,
  body: (saver: Saver) => Effect.Effect<A, E>
) => Effect.provide(Effect.flatMap(Checkpointer.Checkpointer, body), layer)

describe("damaged rows", () => {
  const write = Effect.fnUntraced(function* (saver: Saver) {
    const writer = new Writer(saver, "t")
    const wide = Array.from({ length: 12 }, (_, i) => ({ set: `c${i}`, value: `${i}`.repeat(20) }))
    yield* writer.write([...wide, { append: "log", items: ["one", "two"] }], { metadata: { a: 1 } })
    yield* writer.write(
      [
        { set: "c3", value: 12345 },
        { append: "log", items: ["three"] }
      ],
      { metadata: { a: 2 } }
    )
    yield* writer.write([{ set: "c4", value: true }], { writes: [pending("a", "x", { answer: 42 })] })
    return writer
  })

  /** Changes that a text may suffer; each is a text that was never written there. */
  const damages = (text: string, others: ReadonlyArray<string>): ReadonlyArray<string> => {
    const flips = Array.from({ length: text.length }, (_, i) =>
      [1, 2, 4, 8, 16, 32, 64].map(
        (bit) => text.slice(0, i) + String.fromCharCode(text.charCodeAt(i) ^ bit) + text.slice(i + 1)
      )
    ).flat()
    const cuts = [1, 2, 10, text.length >> 1, text.length - 1].map((length) => text.slice(0, length))
    const replaced = [
      "{}",
      "[]",
      "null",
      "0",
      '"text"',
      "[1,2]",
      '{"__proto__":{}}',
      `${text} `,
      ` ${text}`,
      text + text
    ]
    return [...flips, ...cuts, ...replaced, ...others].filter((one) => one !== text)
  }

  it.effect(
    "any damage to a row is a typed failure that names it, never a defect and never another state",
    () =>
      use(
        Checkpointer.layerMemory,
        Effect.fnUntraced(function* (saver) {
          const writer = yield* write(saver)
          const rows = yield* saver.encoded.raw(address, 0, 10)
          assert.isTrue(rows[2]!.data.includes('"b":1'), "the last row holds only changes")
          const put = (row: RawRow) =>
            saver.encoded.rewrite({ address, expectedHead: 3, rows: [row], remove: [], now: 0 })
          let tried = 0
          for (const row of rows) {
            const forged = [
              ...damages(
                row.data,
                rows.map(({ data }) => data)
              ).map((data) => ({ ...row, data })),
              ...(row.log === null
                ? []
                : damages(
                    row.log,
                    rows.flatMap(({ log }) => log ?? [])
                  )
              ).map((log) => ({ ...row, log })),
              ...(row.log === null ? [] : [{ ...row, log: null }]),
              ...row.writes.flatMap((one) =>
                damages(one.value, ["1"]).map((value) => ({ ...row, writes: [{ ...one, value }] }))
              )
            ]
            for (const one of forged) {
              yield* put(one)
              const exit = yield* Effect.exit(saver.load(address))
              const cause = Exit.isFailure(exit) ? exit.cause : undefined
              if (cause?._tag !== "Fail" || cause.error._tag !== "CheckpointDecodeError") {
                assert.fail(`row ${row.seq} as ${JSON.stringify(one)} gave ${JSON.stringify(exit)}`)
              }
              assert.match(cause.error.checkpoint ?? "", /^#3$/)
              assert.match(cause.error.detail, new RegExp(`row ${row.seq}|tells of|damaged|is missing`))
              tried++
            }
            yield* put(row)
          }
          assert.isAbove(tried, 3000)
          sameCheckpoint(yield* saver.load(address), writer.all[2]!)
        })
      ),
    120_000
  )

  it.effect("a row of a newer format is refused, and so is one whose base is gone", () =>
    use(
      Checkpointer.layerMemory,
      Effect.fnUntraced(function* (saver) {
        const writer = yield* write(saver)
        const { seal } = yield* Effect.promise(() => import("../src/internal/record.js"))
        const put = (rows: ReadonlyArray<RawRow>, remove: ReadonlyArray<number>) =>
          saver.encoded.rewrite({ address, expectedHead: 3, rows, remove, now: 0 })
        const rows = yield* saver.encoded.raw(address, 0, 10)
        const body = rows[2]!.data.slice(rows[2]!.data.indexOf(",") + 1, -1)
        yield* put([{ ...rows[2]!, data: seal(body.replace(/^1,/, "2,"), 3) }], [])
        const newer = yield* Effect.flip(saver.load(address))
        assert.strictEqual(newer._tag, "CheckpointDecodeError")
        assert.include(newer.message, "format 2")
        for (const forged of [
          "1,2,3",
          '1,2,null,{"b":9}',
          '1,2,null,{"p":7}',
          '1,2,null,{"c":[1]}',
          '1,"x",null,{}',
          '1,2,null,{"w":[["t","gone"]]}',
          '1,2,null,{"a":[1,2]}',
          '1,2,null,{"l":[["x",9,1]]}',
          '1,2,null,{"c":3}',
          '1,2,null,{"w":7}'
        ]) {
          yield* put([{ ...rows[2]!, data: seal(forged, 3) }], [])
          yield* fails(saver.load(address), "CheckpointDecodeError")
        }
        yield* put([rows[2]!], [1])
        yield* fails(saver.load(address), "CheckpointDecodeError")
        yield* fails(Stream.runCollect(saver.list(address)), "CheckpointDecodeError")
        yield* put(rows, [])
        sameCheckpoint(yield* saver.load(address), writer.all[2]!)
      })
    )
  )
})

describe("limits", () => {
  it.effect("a text that is too long is refused before it is written", () =>
    use(
      Checkpointer.limited(1000)(Checkpointer.layerMemory),
      Effect.fnUntraced(function* (saver) {
        const writer = new Writer(saver, "t")
        yield* writer.write([{ set: "x", value: "y".repeat(500) }])
        const long = "y".repeat(1000)
        yield* fails(
          saver.commit(writer.next([{ set: "x", value: long }]).commit),
          "CheckpointerError",
          "LimitExceeded"
        )
        yield* fails(
          saver.commit(writer.next([{ append: "x", items: [long] }]).commit),
          "CheckpointerError",
          "LimitExceeded"
        )
        yield* fails(saver.putWrites(address, 1, [pending("a", "x", long)]), "CheckpointerError", "LimitExceeded")
        sameCheckpoint(yield* saver.load(address), writer.all[0]!)
      })
    )
  )

  it.effect("metadata that is no JSON is refused", () =>
    use(
      Checkpointer.layerMemory,
      Effect.fnUntraced(function* (saver) {
        const writer = new Writer(saver, "t")
        const circular: Record<string, unknown> = {}
        circular.self = circular
        for (const value of [1n, circular]) {
          yield* fails(
            saver.commit(writer.next([], { metadata: { value } }).commit),
            "CheckpointerError",
            "InvalidRequest"
          )
        }
        assert.isUndefined(yield* saver.load(address))
      })
    )
  )
})

describe("a key-value store that dies", () => {
  /** A store over a map that dies at operation `at`; a write may be cut in half. */
  const dying = (texts: Map<string, string>, at: number, torn: boolean) => {
    let operations = 0
    const dead = () => Effect.die(new Error("dead"))
    const step = <A>(run: () => A, dies: () => void = () => {}) =>
      Effect.suspend(() => {
        if (operations++ < at) return Effect.sync(run)
        if (operations === at + 1 && torn) dies()
        return dead()
      })
    return KeyValueStore.make({
      get: (key) => step(() => Option.fromNullable(texts.get(key))),
      getUint8Array: dead,
      set: (key, value) =>
        step(
          () => void texts.set(key, String(value)),
          () => void texts.set(key, String(value).slice(0, 20))
        ),
      remove: (key) => step(() => void texts.delete(key)),
      clear: dead(),
      size: dead()
    })
  }

  const over = (store: KeyValueStore.KeyValueStore) =>
    Layer.provide(KeyValueCheckpointer.layer(), Layer.succeed(KeyValueStore.KeyValueStore, store))

  for (const torn of [false, true]) {
    it.effect(
      `at any operation${torn ? ", in the middle of a write," : ""} leaves the last commit that was acknowledged, or the next`,
      () =>
        Effect.gen(function* () {
          for (let at = 0, finished = false; !finished; at++) {
            const texts = new Map<string, string>()
            let acknowledged = 0
            const nodes: Array<Writer["all"][number]> = []
            const exit = yield* Effect.exit(
              use(
                over(dying(texts, at, torn)),
                Effect.fnUntraced(function* (saver) {
                  const writer = new Writer(saver, "t")
                  for (let i = 0; i < 4; i++) {
                    const { commit, node } = writer.next(
                      [
                        { append: "log", items: [i] },
                        { set: "x", value: "y".repeat(i) }
                      ],
                      {
                        writes: [pending("a", "x", i)],
                        status: "running"
                      }
                    )
                    nodes.push(node)
                    const lineage = yield* saver.commit(commit)
                    Object.assign(writer, { head: commit.seq, last: { node, lineage } })
                    acknowledged++
                  }
                  yield* saver.prune("t", { keep: 2 })
                })
              )
            )
            finished = Exit.isSuccess(exit)
            yield* use(
              over(dying(texts, Number.POSITIVE_INFINITY, false)),
              Effect.fnUntraced(function* (saver) {
                const loaded = yield* saver.load(address)
                const seq = loaded?.checkpoint.seq ?? 0
                assert.isTrue(seq === acknowledged || seq === acknowledged + 1, `${seq} after ${acknowledged} at ${at}`)
                if (loaded === undefined) return
                sameCheckpoint(loaded, nodes[seq - 1]!)
                assert.deepStrictEqual(loaded.writes, [pending("a", "x", seq - 1)])
                const writer = Object.assign(new Writer(saver, "t"), {
                  head: loaded.head,
                  last: { node: nodes[seq - 1]!, lineage: loaded.lineage }
                })
                yield* writer.write([{ append: "log", items: ["again"] }])
                const again = yield* saver.load(address)
                sameCheckpoint(again, writer.all[0]!)
                assert.deepStrictEqual(again?.writes, [])
              })
            )
          }
        })
    )
  }
})

describe("SQLite", () => {
  it.scoped("several processes on one file create the tables once and wait for each other's commits", () =>
    Effect.gen(function* () {
      const filename = join(yield* temporary, "test.sqlite")
      const layers = Array.from({ length: 4 }, () => Layer.fresh(SqliteCheckpointer.layer({ filename })))
      const savers = yield* Effect.forEach(
        layers,
        (layer) => Effect.flatMap(Layer.build(layer), (context) => Effect.provide(Checkpointer.Checkpointer, context)),
        {
          concurrency: "unbounded"
        }
      )
      const runs = savers.map(
        Effect.fnUntraced(function* (saver, i) {
          const writer = new Writer(saver, `t${i}`)
          for (let n = 0; n < 30; n++) yield* writer.write([{ append: "log", items: [n] }], { status: "running" })
          return writer
        })
      )
      for (const writer of yield* Effect.all(runs, { concurrency: "unbounded" })) {
        sameCheckpoint(yield* savers[0]!.load(writer.address), writer.all.at(-1)!)
      }
    })
  )

  it.scoped("a lock of another process is waited for without blocking, and is a typed failure in the end", () =>
    Effect.gen(function* () {
      const filename = join(yield* temporary, "test.sqlite")
      const retry = Schedule.recurs(3)
      const context = yield* Layer.build(SqliteCheckpointer.layer({ filename, retry }))
      const saver = yield* Effect.provide(Checkpointer.Checkpointer, context)
      const writer = new Writer(saver, "t")
      yield* writer.write([{ set: "x", value: 1 }])
      const other = new Sqlite(filename)
      other.exec("BEGIN IMMEDIATE")
      yield* fails(saver.commit(writer.next([]).commit), "CheckpointerError", "Busy")
      sameCheckpoint(yield* saver.load(address), writer.all[0]!)
      other.exec("COMMIT")
      other.close()
      yield* writer.write([{ set: "x", value: 2 }])
      assert.deepStrictEqual(valuesOf(yield* saver.load(address)), { x: 2 })
    })
  )

  it.scoped("what was committed is there after the layer is closed, and a newer table version is refused", () =>
    Effect.gen(function* () {
      const filename = join(yield* temporary, "test.sqlite")
      const layer = SqliteCheckpointer.layer({ filename })
      const node = yield* use(Layer.fresh(layer), (saver) => {
        const writer = new Writer(saver, "t")
        return Effect.map(writer.write([{ append: "log", items: [1] }]), ({ node }) => node)
      })
      yield* use(Layer.fresh(layer), (saver) =>
        Effect.map(saver.load(address), (loaded) => sameCheckpoint(loaded, node))
      )
      const other = new Sqlite(filename)
      other.exec("UPDATE pregel_format SET version = 99")
      other.close()
      yield* fails(
        use(Layer.fresh(layer), () => Effect.void),
        "CheckpointerError",
        "Unsupported"
      )
      yield* fails(
        use(SqliteCheckpointer.layer({ filename: "/no/such/folder/x.sqlite" }), () => Effect.void),
        "CheckpointerError",
        "Unavailable"
      )
    })
  )
})

describe("PostgreSQL", () => {
  const client = (maxConnections?: number) =>
    Layer.fresh(
      PgClient.layer({
        url: Redacted.make(inject("pgUrl")),
        maxConnections,
        applicationName: `damage-${Math.random()}`
      })
    )
  const over = (sql: ReturnType<typeof client>) => Layer.provideMerge(SqlCheckpointer.layer(), sql)
  const schemaOf = (name: string) => `${name}_${Math.random().toString(36).slice(2)}`
  let threads = 0
  const newThread = () => `damage-${process.pid}-${threads++}-${Math.random()}`

  it.effect("many processes that start at once create the tables once", () =>
    Effect.gen(function* () {
      const schema = schemaOf("start")
      const admin = Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(`CREATE SCHEMA ${schema}`))
      yield* Effect.provide(admin, client())
      const url = `${inject("pgUrl")}?options=-c%20search_path%3D${schema}`
      const starts = Array.from({ length: 8 }, () =>
        Effect.flatMap(Checkpointer.Checkpointer, (saver) => new Writer(saver, newThread()).write([])).pipe(
          Effect.provide(
            Layer.fresh(Layer.provide(SqlCheckpointer.layer(), PgClient.layer({ url: Redacted.make(url) })))
          )
        )
      )
      const exits = yield* Effect.all(starts.map(Effect.exit), { concurrency: "unbounded" })
      for (const exit of exits) if (Exit.isFailure(exit)) assert.fail(String(exit.cause))
    })
  )

  it.live(
    "a connection that the server closes is replaced, and a lost answer is no conflict",
    () =>
      Effect.gen(function* () {
        const saver = yield* Checkpointer.Checkpointer
        const sql = yield* SqlClient.SqlClient
        const writer = new Writer(saver, newThread())
        yield* writer.write([{ set: "x", value: 0 }])
        for (let i = 1; i <= 5; i++) {
          const running = yield* Effect.fork(
            Effect.gen(function* () {
              for (let n = 0; n < 20; n++) yield* writer.write([{ append: "log", items: [n] }])
            })
          )
          for (let n = 0; n < 5; n++) {
            yield* Effect.ignore(
              sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE ${"%pregel_checkpoints%"}`
            )
            yield* Effect.yieldNow()
          }
          yield* Fiber.join(running)
        }
        sameCheckpoint(yield* saver.load(writer.address), writer.all.at(-1)!)
        assert.strictEqual(writer.all.length, 101)
      }).pipe(Effect.provide(over(client(3)))),
    60_000
  )

  /** Waits until so many statements of this client wait for locks. */
  const untilBlocked = (sql: SqlClient.SqlClient, count: number) =>
    sql<{
      count: number
    }>`SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name = current_setting('application_name') AND wait_event_type = 'Lock'`.pipe(
      Effect.repeat({ until: ([row]) => row!.count >= count, schedule: Schedule.spaced("5 millis") })
    )

  for (const what of ["pending writes", "a commit"] as const) {
    it.live(`a newer fence waits for ${what} of an older one that have begun, so that its reader sees them`, () =>
      Effect.gen(function* () {
        const saver = yield* Checkpointer.Checkpointer
        const sql = yield* SqlClient.SqlClient
        const writer = new Writer(saver, newThread())
        const { thread } = writer.address
        yield* writer.write([{ set: "x", value: 0 }])
        const fence = yield* saver.takeFence(thread)
        const locked = yield* Deferred.make<void>()
        const release = yield* Deferred.make<void>()
        const holder = yield* Effect.fork(
          sql.withTransaction(
            sql`SELECT key FROM pregel_namespaces WHERE thread = ${thread} FOR UPDATE`.pipe(
              Effect.zipRight(Deferred.succeed(locked, undefined)),
              Effect.zipRight(Deferred.await(release))
            )
          )
        )
        yield* Deferred.await(locked)
        const write =
          what === "a commit"
            ? Effect.asVoid(saver.commit({ ...writer.next([{ set: "x", value: 1 }]).commit, fence }))
            : saver.putWrites(writer.address, 1, [pending("a", "x", 1)], fence)
        const writing = yield* Effect.fork(write)
        yield* untilBlocked(sql, 1)
        const taking = yield* Effect.fork(Effect.zipRight(saver.takeFence(thread), saver.load(writer.address)))
        yield* Effect.raceFirst(untilBlocked(sql, 2), Fiber.await(taking))
        yield* Deferred.succeed(release, undefined)
        yield* Effect.all([Fiber.join(holder), Fiber.join(writing)])
        const seen = (yield* Fiber.join(taking))!
        assert.strictEqual(seen.checkpoint.seq + seen.writes.length, 2)
        yield* fails(saver.putWrites(writer.address, 1, [pending("b", "x", 1)], fence), "ThreadConflict")
      }).pipe(Effect.provide(over(client(5))))
    )
  }

  it.effect("joins the transaction around it, and is undone with it", () =>
    Effect.gen(function* () {
      const saver = yield* Checkpointer.Checkpointer
      const sql = yield* SqlClient.SqlClient
      const thread = newThread()
      const writer = new Writer(saver, thread)
      const graph = { name: schemaOf("graph"), fingerprint: "1" }
      const undone = Effect.gen(function* () {
        yield* writer.write([{ set: "x", value: 1 }], { graph, writes: [pending("a", "x", 1)] })
        sameCheckpoint(yield* saver.load(writer.address), writer.all[0]!)
        return yield* Effect.fail("undo")
      })
      yield* Effect.flip(sql.withTransaction(undone))
      assert.isUndefined(yield* saver.load(writer.address))
      const again = new Writer(saver, thread)
      yield* sql.withTransaction(again.write([{ set: "x", value: 2 }], { graph }))
      sameCheckpoint(yield* saver.load(again.address), again.all[0]!)
    }).pipe(Effect.provide(over(client())))
  )
})
