/**
 * Long-term memory in a SQL database, over any client of `@effect/sql` for SQLite or PostgreSQL.
 *
 * Statements are constant texts and everything a caller gives is a bound parameter. Namespaces are matched by ranges of
 * their encoded form, never by patterns. Operations join the transaction around them, if there is one.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { StoreError } from "./GraphError.js"
import { reasonOf } from "./internal/sql.js"
import { type Driver, fromDriver, type Options, type Row, Store } from "./Store.js"

const COLUMNS = "path, key, value, created, updated, ttl, expires, vectors"
const LIVING = "(expires IS NULL OR expires > ?)"

const SQLITE = [
  "CREATE TABLE IF NOT EXISTS pregel_store (path TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, ttl INTEGER, expires INTEGER, vectors TEXT, PRIMARY KEY (path, key)) WITHOUT ROWID",
  "CREATE INDEX IF NOT EXISTS pregel_store_expires ON pregel_store (expires)"
]

const POSTGRES = [
  // Two processes that create a table at once would meet in the catalogue.
  "SELECT pg_advisory_xact_lock(7036874418)",
  'CREATE TABLE IF NOT EXISTS pregel_store (path text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, value text NOT NULL, created bigint NOT NULL, updated bigint NOT NULL, ttl bigint, expires bigint, vectors text, PRIMARY KEY (path, key))',
  "CREATE INDEX IF NOT EXISTS pregel_store_expires ON pregel_store (expires)"
]

/** Rows of one statement where there are many. */
const MANY = 50

const putting = (rows: number): string =>
  `INSERT INTO pregel_store (${COLUMNS}) VALUES ${Array.from({ length: rows }, () => "(?, ?, ?, ?, ?, ?, ?, ?)").join(", ")} ON CONFLICT (path, key) DO UPDATE SET value = excluded.value, updated = excluded.updated, ttl = excluded.ttl, expires = excluded.expires, vectors = excluded.vectors, created = CASE WHEN pregel_store.expires <= excluded.updated THEN excluded.created ELSE pregel_store.created END`

const Q = {
  get: `SELECT ${COLUMNS} FROM pregel_store WHERE path = ? AND key = ? AND ${LIVING}`,
  first: `SELECT ${COLUMNS} FROM pregel_store WHERE path >= ? AND path < ? AND ${LIVING} ORDER BY updated DESC, path, key LIMIT ?`,
  next: `SELECT ${COLUMNS} FROM pregel_store WHERE path >= ? AND path < ? AND ${LIVING} AND (updated < ? OR (updated = ? AND (path > ? OR (path = ? AND key > ?)))) ORDER BY updated DESC, path, key LIMIT ?`,
  paths: `SELECT DISTINCT path FROM pregel_store WHERE path >= ? AND path < ? AND ${LIVING} ORDER BY path`,
  put: putting(1),
  putMany: putting(MANY),
  remove: "DELETE FROM pregel_store WHERE path = ? AND key = ?",
  touch: `UPDATE pregel_store SET expires = ? WHERE path = ? AND key = ? AND ${LIVING}`,
  over: "SELECT count(*) AS number FROM pregel_store WHERE expires <= ?",
  sweep: "DELETE FROM pregel_store WHERE expires <= ?"
}

/** `?` is SQLite's form of a parameter, `$1` PostgreSQL's. */
const numbered = (text: string): string => {
  let n = 0
  return text.replace(/\?/g, () => `$${++n}`)
}

const toRow = ({ created, expires, key, path, ttl, updated, value, vectors }: any): Row => ({
  path,
  key,
  value,
  created: Number(created),
  updated: Number(updated),
  ttl: ttl === null ? undefined : Number(ttl),
  expires: expires === null ? undefined : Number(expires),
  vectors: vectors ?? undefined
})

const paramsOf = ({ created, expires, key, path, ttl, updated, value, vectors }: Row): ReadonlyArray<unknown> => [
  path,
  key,
  value,
  created,
  updated,
  ttl ?? null,
  expires ?? null,
  vectors ?? null
]

const toError = (operation: string) => (error: SqlError) =>
  new StoreError({
    operation,
    reason: reasonOf(error),
    detail: error.cause instanceof Error ? error.cause.message : error.message,
    cause: error.cause
  })

/** A lock of another process is waited for: from 5 ms up to 250 ms, for 5 seconds in all. */
const retry = Schedule.exponential("5 millis").pipe(
  Schedule.union(Schedule.spaced("250 millis")),
  Schedule.jittered,
  Schedule.upTo("5 seconds")
)

const guard = <A>(operation: string, effect: Effect.Effect<A, SqlError>): Effect.Effect<A, StoreError> =>
  effect.pipe(
    Effect.retry({ schedule: retry, while: (error) => reasonOf(error) === "Busy" }),
    Effect.mapError(toError(operation))
  )

type Run = (text: string, params: ReadonlyArray<unknown>) => Effect.Effect<ReadonlyArray<any>, SqlError>

const makeDriver = (sql: SqlClient.SqlClient, run: Run): Driver => ({
  get: (keys, now) =>
    guard(
      "get",
      Effect.forEach(keys, ({ key, path }) =>
        Effect.map(run(Q.get, [path, key, now]), ([row]) => (row === undefined ? undefined : toRow(row)))
      )
    ),
  page: ([from, to], after, limit, now) => {
    const rows =
      after === undefined
        ? run(Q.first, [from, to, now, limit])
        : run(Q.next, [from, to, now, after.updated, after.updated, after.path, after.path, after.key, limit])
    return guard(
      "search",
      Effect.map(rows, (found) => found.map(toRow))
    )
  },
  paths: ([from, to], now) =>
    guard(
      "namespaces",
      Effect.map(run(Q.paths, [from, to, now]), (rows) => rows.map(({ path }) => String(path)))
    ),
  write: ({ puts, removes, touches }, now) =>
    guard(
      "put",
      sql.withTransaction(
        Effect.gen(function* () {
          let next = 0
          for (; next + MANY <= puts.length; next += MANY) {
            yield* run(Q.putMany, puts.slice(next, next + MANY).flatMap(paramsOf))
          }
          for (const row of puts.slice(next)) yield* run(Q.put, paramsOf(row))
          for (const { key, path } of removes) yield* run(Q.remove, [path, key])
          for (const { expires, key, path } of touches) yield* run(Q.touch, [expires ?? null, path, key, now])
        })
      )
    ),
  sweep: (now) =>
    guard(
      "sweep",
      sql.withTransaction(
        Effect.map(Effect.zipLeft(run(Q.over, [now]), run(Q.sweep, [now])), ([row]) => Number(row.number))
      )
    )
})

/** The service over the client in the environment; creates its table. */
export const make = Effect.fnUntraced(function* <E = never, R = never>(options: Options<E, R> = {}) {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  const isPostgres = sql.onDialectOrElse({ sqlite: () => false, pg: () => true, orElse: () => undefined })
  if (isPostgres === undefined) {
    const detail = "only SQLite and PostgreSQL are supported"
    return yield* new StoreError({ operation: "open", reason: "Unsupported", detail })
  }
  const texts = new Map(Object.values(Q).map((text) => [text, isPostgres ? numbered(text) : text]))
  const run: Run = (text, params) => sql.unsafe(texts.get(text) ?? text, params)
  const create = Effect.forEach(isPostgres ? POSTGRES : SQLITE, (text) => run(text, []), { discard: true })
  yield* guard("open", sql.withTransaction(create))
  return yield* fromDriver(makeDriver(sql, run), options)
})

/** Keeps items in the database of the client in the environment. */
export const layer = <E = never, R = never>(
  options: Options<E, R> = {}
): Layer.Layer<Store, StoreError, SqlClient.SqlClient | R> => Layer.effect(Store, make(options))
