/**
 * The SQLite driver. Rows of one namespace are neighbours in one b-tree: their key is the number of the namespace times
 * 2^26 plus `seq`, so that the table needs no second index and a commit touches one page.
 */
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import type { Address } from "../Checkpoint.js"
import type {
  Append,
  Column,
  Encoded,
  EncodedStatus,
  EncodedThread,
  EncodedWrite,
  Range,
  RawRow,
  Rewrite
} from "../CheckpointDriver.js"
import {
  appendInOrder,
  type Db,
  type Guard,
  makeGraphTable,
  makeThreadTable,
  type Program,
  run,
  toWrites
} from "./sql.js"

/** Rows a namespace can hold. */
export const MAX_SEQ = 2 ** 26

/** Version of the tables. */
export const TABLES = 1

/** Namespaces whose number is remembered, on a connection of the driver's own. */
export const KEYS = 4096

const CREATE = [
  "CREATE TABLE IF NOT EXISTS pregel_format (version INTEGER NOT NULL)",
  `INSERT INTO pregel_format SELECT ${TABLES} WHERE NOT EXISTS (SELECT 1 FROM pregel_format)`,
  "CREATE TABLE IF NOT EXISTS pregel_graphs (id INTEGER PRIMARY KEY, name TEXT NOT NULL, fingerprint TEXT NOT NULL, UNIQUE (name, fingerprint))",
  "CREATE TABLE IF NOT EXISTS pregel_threads (thread TEXT PRIMARY KEY, graph INTEGER NOT NULL, status TEXT NOT NULL, fence INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, metadata TEXT NOT NULL) WITHOUT ROWID",
  // A number is never given twice: a writer that remembers a deleted namespace must not reach a new one.
  "CREATE TABLE IF NOT EXISTS pregel_namespaces (key INTEGER PRIMARY KEY AUTOINCREMENT, thread TEXT NOT NULL, namespace TEXT NOT NULL, UNIQUE (thread, namespace))",
  "CREATE TABLE IF NOT EXISTS pregel_checkpoints (key INTEGER PRIMARY KEY, log TEXT, data TEXT NOT NULL)",
  "CREATE TABLE IF NOT EXISTS pregel_writes (key INTEGER NOT NULL, task TEXT NOT NULL, channel TEXT NOT NULL, idx INTEGER NOT NULL, path TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (key, task, channel, idx)) WITHOUT ROWID"
]

/** Writes of a checkpoint as one JSON text, so that reading it takes one statement. */
const WRITES =
  "(SELECT json_group_array(json_array(w.task, w.path, w.channel, w.idx, w.value)) FROM pregel_writes w WHERE w.key = c.key) AS writes"

const saving = (conflict: "IGNORE" | "REPLACE", values: string) =>
  `INSERT OR ${conflict} INTO pregel_writes (key, task, channel, idx, path, value) ${values}`

const ALONE = "SELECT ?, ?, ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM pregel_checkpoints WHERE key = ? AND data <> '')"

const UNFENCED = "NOT EXISTS (SELECT 1 FROM pregel_threads WHERE thread = ? AND fence > ?)"

const Q = {
  version: "SELECT version FROM pregel_format",
  key: "SELECT key FROM pregel_namespaces WHERE thread = ? AND namespace = ?",
  addKey: "INSERT INTO pregel_namespaces (thread, namespace) VALUES (?, ?) RETURNING key",
  head: "SELECT max(key) AS key FROM pregel_checkpoints WHERE key > ? AND key < ?",
  newest: `SELECT key, data, ${WRITES} FROM pregel_checkpoints c WHERE key > ? AND key < ? ORDER BY key DESC LIMIT 1`,
  page: `SELECT key, data, ${WRITES} FROM pregel_checkpoints c WHERE key > ? AND key < ? AND data <> '' ORDER BY key DESC LIMIT ?`,
  one: `SELECT key, data, ${WRITES} FROM pregel_checkpoints c WHERE key = ? AND data <> ''`,
  exists: "SELECT 1 FROM pregel_checkpoints WHERE key = ? AND data <> ''",
  data: "SELECT key, data AS text FROM pregel_checkpoints WHERE key BETWEEN ? AND ? AND data <> '' ORDER BY key",
  logs: "SELECT key, log AS text FROM pregel_checkpoints WHERE key BETWEEN ? AND ? AND log IS NOT NULL ORDER BY key",
  append:
    "INSERT INTO pregel_checkpoints (key, log, data) SELECT ?, ?, ? WHERE (SELECT max(key) FROM pregel_checkpoints WHERE key > ? AND key < ?) = ?",
  appendFenced: `INSERT INTO pregel_checkpoints (key, log, data) SELECT ?, ?, ? WHERE (SELECT max(key) FROM pregel_checkpoints WHERE key > ? AND key < ?) = ? AND ${UNFENCED}`,
  raw: `SELECT key, log, data, ${WRITES} FROM pregel_checkpoints c WHERE key > ? AND key < ? ORDER BY key LIMIT ?`,
  put: "INSERT OR REPLACE INTO pregel_checkpoints (key, log, data) VALUES (?, ?, ?)",
  removeRow: "DELETE FROM pregel_checkpoints WHERE key = ?",
  removeWrites: "DELETE FROM pregel_writes WHERE key = ?",
  removeKey:
    "DELETE FROM pregel_namespaces WHERE key = ? AND NOT EXISTS (SELECT 1 FROM pregel_checkpoints WHERE key > ? AND key < ?)",
  insert: "INSERT INTO pregel_checkpoints (key, log, data) VALUES (?, ?, ?)",
  keep: saving("IGNORE", "VALUES (?, ?, ?, ?, ?, ?)"),
  replace: saving("REPLACE", "VALUES (?, ?, ?, ?, ?, ?)"),
  keepAlone: saving("IGNORE", ALONE),
  keepAloneFenced: saving("IGNORE", `${ALONE} AND ${UNFENCED}`),
  dropWrites: "DELETE FROM pregel_writes WHERE key = ? AND task = ?",
  fence: "SELECT fence FROM pregel_threads WHERE thread = ?",
  takeFence:
    "INSERT INTO pregel_threads (thread, graph, status, fence, created, updated, metadata) VALUES (?, 0, 'idle', 1, ?, ?, '{}') ON CONFLICT (thread) DO UPDATE SET fence = fence + 1 RETURNING fence",
  thread:
    "INSERT INTO pregel_threads (thread, graph, status, fence, created, updated, metadata) VALUES (?, ?, coalesce(?, 'idle'), 0, ?, ?, ?) ON CONFLICT (thread) DO UPDATE SET graph = excluded.graph, status = coalesce(?, status), updated = excluded.updated, metadata = excluded.metadata",
  setStatus: "UPDATE pregel_threads SET status = ?, updated = ? WHERE thread = ?",
  threads:
    "SELECT thread, graph, status, created, updated, metadata FROM pregel_threads WHERE thread > ? AND status = coalesce(?, status) AND updated >= ? AND updated < ? ORDER BY thread LIMIT ?",
  oneThread: "SELECT thread, graph, status, created, updated, metadata FROM pregel_threads WHERE thread = ?",
  namespaces: "SELECT namespace FROM pregel_namespaces WHERE thread = ?",
  keys: "SELECT key FROM pregel_namespaces WHERE thread = ?",
  graph: "SELECT name, fingerprint FROM pregel_graphs WHERE id = ?",
  graphId: "SELECT id FROM pregel_graphs WHERE name = ? AND fingerprint = ?",
  addGraph: "INSERT OR IGNORE INTO pregel_graphs (name, fingerprint) VALUES (?, ?)",
  deleteRows: "DELETE FROM pregel_checkpoints WHERE key > ? AND key < ?",
  deleteWrites: "DELETE FROM pregel_writes WHERE key > ? AND key < ?",
  deleteNamespaces: "DELETE FROM pregel_namespaces WHERE thread = ?",
  deleteThread: "DELETE FROM pregel_threads WHERE thread = ?"
}

/** Creates the tables; safe to run at any time from several processes. Returns the version of the tables. */
export const createTables = (db: Db): Effect.Effect<number, SqlError> =>
  db.transaction(function* () {
    for (const text of CREATE) yield run(text, [])
    return Number((yield run(Q.version, [])).rows[0]?.version)
  })

const first = (seqBase: number): number => seqBase * MAX_SEQ

const columnOf = (key: number, rows: ReadonlyArray<any>): Column =>
  rows.map((row) => ({ seq: Number(row.key) - first(key), text: row.text }))

function* findKey({ namespace, thread }: Address): Program<number | undefined> {
  const { rows } = yield run(Q.key, [thread, namespace])
  return rows.length === 0 ? undefined : Number(rows[0].key)
}

/** The numbers of namespaces, as far as they are remembered. */
const makeKeys = (capacity: number) => {
  const keys = new Map<string, number>()
  const nameOf = ({ namespace, thread }: Address) => `${thread}\n${namespace}`
  const known = (address: Address): number | undefined => keys.get(nameOf(address))
  return {
    known,
    forget: (thread: string) => {
      for (const name of keys.keys()) if (name.startsWith(`${thread}\n`)) keys.delete(name)
    },
    /** Outside of transactions only: a number must not be remembered before it is committed. */
    *find(address: Address): Program<number | undefined> {
      const key = known(address) ?? (yield* findKey(address))
      if (key === undefined || capacity === 0) return key
      if (keys.size >= capacity) keys.delete(keys.keys().next().value!)
      keys.set(nameOf(address), key)
      return key
    }
  }
}

function* saveWrites(key: number, writes: ReadonlyArray<EncodedWrite>): Program<void> {
  for (const { channel, index, path, replace, task, value } of writes) {
    yield run(replace ? Q.replace : Q.keep, [key, task, channel, index, path, value])
  }
}

function* isFenced(thread: string, fence: number | undefined): Program<boolean> {
  if (fence === undefined) return false
  const { rows } = yield run(Q.fence, [thread])
  return rows.length > 0 && Number(rows[0].fence) > fence
}

function* exists(key: number): Program<boolean> {
  return (yield run(Q.exists, [key])).rows.length > 0
}

type Keys = ReturnType<typeof makeKeys>

/** The greatest number of a namespace, inside a transaction. */
function* headOf(key: number | undefined): Program<number> {
  if (key === undefined) return 0
  const { rows } = yield run(Q.head, [first(key), first(key + 1)])
  return rows[0].key === null ? 0 : Number(rows[0].key) - first(key)
}

function* addKey({ namespace, thread }: Address): Program<number> {
  return Number((yield run(Q.addKey, [thread, namespace])).rows[0].key)
}

const describe = (name: string, { graph, metadata, status }: EncodedThread, now: number) =>
  run(Q.thread, [name, graph, status ?? null, now, now, metadata, status ?? null])

/** Saves what a row brings along. */
function* bring(at: number, { address, created, thread, writes }: Append): Program<true> {
  if (writes.length > 0) yield* saveWrites(at, writes)
  if (thread !== undefined) yield describe(address.thread, thread, created)
  return true
}

/** Appends to a namespace that has rows; one statement where the row brings nothing along. */
function* appendNext(key: number, append: Append): Program<boolean> {
  const { address, data, expectedHead, fence, log, requires, seq } = append
  if (requires !== undefined && !(yield* exists(first(key) + requires))) return false
  const at = first(key) + seq
  const params = [at, log, data, first(key), first(key + 1), first(key) + expectedHead]
  const inserted = fence === undefined ? run(Q.append, params) : run(Q.appendFenced, [...params, address.thread, fence])
  return (yield inserted).count === 1 && (yield* bring(at, append))
}

function* appendFirst(append: Append): Program<boolean> {
  const { address, data, fence, log, requires, seq } = append
  if (yield* isFenced(address.thread, fence)) return false
  const found = yield* findKey(address)
  if ((yield* headOf(found)) !== 0 || requires !== undefined) return false
  const at = first(found ?? (yield* addKey(address))) + seq
  yield run(Q.insert, [at, log, data])
  return yield* bring(at, append)
}

/** Appends one row inside a transaction. A number that is remembered may be that of a deleted namespace: it has no rows. */
function* appendOne(keys: Keys, append: Append): Program<boolean> {
  if (append.expectedHead === 0) return yield* appendFirst(append)
  const key = keys.known(append.address) ?? (yield* findKey(append.address))
  return key !== undefined && (yield* appendNext(key, append))
}

function* rewriteRows(rewrite: Rewrite): Program<boolean> {
  const { address, expectedHead, remove, rows } = rewrite
  const found = yield* findKey(address)
  if ((yield* headOf(found)) !== expectedHead) return false
  const key = found ?? (yield* addKey(address))
  for (const seq of remove) {
    yield run(Q.removeRow, [first(key) + seq])
    yield run(Q.removeWrites, [first(key) + seq])
  }
  for (const { data, log, seq, writes } of rows) {
    const at = first(key) + seq
    yield run(Q.put, [at, log, data])
    if (writes === undefined) continue
    yield run(Q.removeWrites, [at])
    yield* saveWrites(
      at,
      writes.map((write) => ({ ...write, replace: true }))
    )
  }
  yield run(Q.removeKey, [key, first(key), first(key + 1)])
  return true
}

/** Appends a row that brings nothing along. */
function* appendAlone(keys: Keys, append: Append): Program<ReadonlyArray<boolean>> {
  const key = yield* keys.find(append.address)
  return [key !== undefined && (yield* appendNext(key, append))]
}

/** Pending writes of a checkpoint and what they bring along. */
interface Put {
  readonly address: Address
  readonly seq: number
  readonly writes: ReadonlyArray<EncodedWrite>
  readonly fence: number | undefined
  readonly told: EncodedStatus | undefined
}

function* putAll(keys: Keys, { address, fence, seq, told, writes }: Put): Program<boolean> {
  const key = keys.known(address) ?? (yield* findKey(address))
  if (key === undefined || !(yield* exists(first(key) + seq))) return false
  if (yield* isFenced(address.thread, fence)) return false
  yield* saveWrites(first(key) + seq, writes)
  if (told !== undefined) yield run(Q.setStatus, [told.status, told.now, address.thread])
  return true
}

/**
 * Saves a write that is not to replace another one, in one statement; false where there is one already as well as where
 * it must not be saved.
 */
function* putAlone(keys: Keys, { address, fence, seq }: Put, write: EncodedWrite): Program<boolean> {
  const key = yield* keys.find(address)
  if (key === undefined) return false
  const at = first(key) + seq
  const params = [at, write.task, write.channel, write.index, write.path, write.value, at]
  const kept =
    fence === undefined ? run(Q.keepAlone, params) : run(Q.keepAloneFenced, [...params, address.thread, fence])
  return (yield kept).count === 1
}

const putWrites = (db: Db, keys: Keys, put: Put): Effect.Effect<boolean, SqlError> => {
  const [write, ...others] = put.writes
  const all = db.transaction(() => putAll(keys, put))
  if (write === undefined || write.replace || others.length > 0 || put.told !== undefined) return all
  return Effect.flatMap(
    db.ask(() => putAlone(keys, put, write)),
    (saved) => (saved ? Effect.succeed(true) : all)
  )
}

/** Whether a row needs no more than one statement. */
const isPlain = (append: Append): boolean =>
  append.expectedHead > 0 && append.writes.length === 0 && append.thread === undefined && append.requires === undefined

const makeWriting = (
  db: Db,
  keys: Keys,
  guard: Guard
): Pick<Encoded, "append" | "putWrites" | "dropWrites" | "rewrite"> => ({
  append: (rows) =>
    guard("commit", rows[0]?.address.thread, () => {
      const [row] = rows
      if (row === undefined) return Effect.succeed([])
      if (rows.length > 1 || !isPlain(row)) {
        return db.transaction(() => appendInOrder(rows, (row) => appendOne(keys, row)))
      }
      return db.ask(() => appendAlone(keys, row))
    }),
  rewrite: (change) =>
    guard("rewrite", change.address.thread, () =>
      Effect.tap(
        db.transaction(() => rewriteRows(change)),
        // The namespace may be gone with its last row.
        () => Effect.sync(() => keys.forget(change.address.thread))
      )
    ),
  putWrites: (address, seq, writes, fence, told) =>
    guard("putWrites", address.thread, () => putWrites(db, keys, { address, seq, writes, fence, told })),
  dropWrites: (address, seq, tasks) =>
    guard("dropWrites", address.thread, () =>
      db.transaction(function* () {
        const key = yield* findKey(address)
        if (key === undefined) return
        for (const task of tasks) yield run(Q.dropWrites, [first(key) + seq, task])
      })
    )
})

const toRows = (key: number, rows: ReadonlyArray<any>): ReadonlyArray<RawRow> =>
  rows.map(({ data, key: at, log, writes }) => ({ seq: Number(at) - first(key), data, log, writes: toWrites(writes) }))

function* newestOf(key: number): Program<ReadonlyArray<any>> {
  return (yield run(Q.newest, [first(key), first(key + 1)])).rows
}

const NOTHING = { head: 0, row: undefined }

function* readRow(
  keys: Keys,
  address: Address,
  seq: number | undefined
): Program<{ head: number; row: RawRow | undefined }> {
  let key = yield* keys.find(address)
  if (key === undefined) return NOTHING
  let newest = yield* newestOf(key)
  if (newest.length === 0) {
    // Another process may have deleted the thread and begun it anew, under another number.
    keys.forget(address.thread)
    key = yield* keys.find(address)
    if (key === undefined) return NOTHING
    newest = yield* newestOf(key)
  }
  const [from, to] = [first(key), first(key + 1)]
  if (newest.length === 0) return NOTHING
  const head = Number(newest[0].key) - from
  let rows = newest
  if (seq !== undefined && seq !== head) rows = (yield run(Q.one, [from + Math.min(seq, MAX_SEQ)])).rows
  else if (newest[0].data === "") rows = seq === undefined ? (yield run(Q.page, [from, to, 1])).rows : []
  return { head, row: toRows(key, rows)[0] }
}

function* readPage(keys: Keys, address: Address, before: number, limit: number): Program<ReadonlyArray<RawRow>> {
  const key = yield* keys.find(address)
  if (key === undefined) return []
  return toRows(key, (yield run(Q.page, [first(key), first(key) + Math.min(before, MAX_SEQ), limit])).rows)
}

function* readRaw(keys: Keys, address: Address, after: number, limit: number): Program<ReadonlyArray<RawRow>> {
  const key = yield* keys.find(address)
  if (key === undefined) return []
  return toRows(key, (yield run(Q.raw, [first(key) + after, first(key + 1), limit])).rows)
}

function* readColumn(keys: Keys, text: string, address: Address, ranges: ReadonlyArray<Range>): Program<Column> {
  const key = yield* keys.find(address)
  if (key === undefined) return []
  const parts: Array<Column> = []
  for (const [from, to] of ranges) {
    parts.push(columnOf(key, (yield run(text, [first(key) + from, first(key) + to])).rows))
  }
  return parts.flat()
}

const makeReading = (db: Db, keys: Keys, guard: Guard): Pick<Encoded, "read" | "data" | "logs" | "page" | "raw"> => ({
  read: (address, seq) => guard("load", address.thread, () => db.read(() => readRow(keys, address, seq))),
  data: (address, ranges) =>
    guard("load", address.thread, () => db.read(() => readColumn(keys, Q.data, address, ranges))),
  logs: (address, ranges) =>
    guard("load", address.thread, () => db.read(() => readColumn(keys, Q.logs, address, ranges))),
  raw: (address, after, limit) =>
    guard("load", address.thread, () => db.read(() => readRaw(keys, address, after, limit))),
  page: (address, before, limit) =>
    guard("list", address.thread, () => db.read(() => readPage(keys, address, before, limit)))
})

const makeThreads = (db: Db, keys: Keys, guard: Guard): Pick<Encoded, "putThread" | "takeFence" | "deleteThread"> => ({
  putThread: (thread, to, now) =>
    guard("setStatus", thread, () => {
      const { params, text } = describe(thread, to, now)
      return Effect.asVoid(db.run(text, params))
    }),
  takeFence: (thread, now) =>
    guard("takeFence", thread, () =>
      Effect.map(db.run(Q.takeFence, [thread, now, now]), ({ rows }) => Number(rows[0].fence))
    ),
  deleteThread: (thread) =>
    guard("deleteThread", thread, () =>
      Effect.ensuring(
        db.transaction(function* () {
          for (const { key } of (yield run(Q.keys, [thread])).rows) {
            const range = [first(Number(key)), first(Number(key) + 1)]
            yield run(Q.deleteRows, range)
            yield run(Q.deleteWrites, range)
          }
          yield run(Q.deleteNamespaces, [thread])
          yield run(Q.deleteThread, [thread])
        }),
        Effect.sync(() => keys.forget(thread))
      )
    )
})

/**
 * The driver over a SQLite database whose tables exist. `capacity` is how many numbers of namespaces to remember: none
 * where a transaction around an operation may be rolled back, and the number with it.
 */
export const makeSqlite = (db: Db, guard: Guard, capacity: number): Encoded => {
  const keys = makeKeys(capacity)
  return {
    ...makeGraphTable(db, guard, Q),
    ...makeThreadTable(db, guard, Q),
    ...makeWriting(db, keys, guard),
    ...makeReading(db, keys, guard),
    ...makeThreads(db, keys, guard)
  }
}
