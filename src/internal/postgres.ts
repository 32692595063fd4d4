/**
 * The PostgreSQL driver. A commit is one statement: it moves the namespace's head under its row lock and appends the
 * row, its pending writes and the thread's description, or does nothing.
 */
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import type { Append, Encoded, EncodedRow, EncodedWrite, Rewrite } from "../CheckpointDriver.js"
import {
  appendInOrder,
  type Db,
  type Guard,
  makeGraphTable,
  makeThreadTable,
  type Program,
  type Result,
  run,
  toWrites
} from "./sql.js"

/** Version of the tables. */
export const TABLES = 1

/** Any number that no other library is likely to lock. */
const LOCK = 7_036_874_417

// Names compare byte by byte, whatever the database's language.
const NAME = 'text COLLATE "C" NOT NULL'

const CREATE = [
  "CREATE TABLE IF NOT EXISTS pregel_format (version integer NOT NULL)",
  `INSERT INTO pregel_format SELECT ${TABLES} WHERE NOT EXISTS (SELECT 1 FROM pregel_format)`,
  `CREATE TABLE IF NOT EXISTS pregel_graphs (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name ${NAME}, fingerprint ${NAME}, UNIQUE (name, fingerprint))`,
  `CREATE TABLE IF NOT EXISTS pregel_threads (thread ${NAME} PRIMARY KEY, graph integer NOT NULL, status text NOT NULL, fence bigint NOT NULL, created bigint NOT NULL, updated bigint NOT NULL, metadata text NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS pregel_namespaces (key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, thread ${NAME}, namespace ${NAME}, head bigint NOT NULL, UNIQUE (thread, namespace))`,
  "CREATE TABLE IF NOT EXISTS pregel_checkpoints (key bigint NOT NULL, seq bigint NOT NULL, log text, data text NOT NULL, PRIMARY KEY (key, seq))",
  `CREATE TABLE IF NOT EXISTS pregel_writes (key bigint NOT NULL, seq bigint NOT NULL, task ${NAME}, channel ${NAME}, idx integer NOT NULL, path ${NAME}, value text NOT NULL, PRIMARY KEY (key, seq, task, channel, idx))`
]

/** Writes of a checkpoint as one JSON text, so that reading it takes one round trip. */
const WRITES =
  "coalesce((SELECT json_agg(json_build_array(w.task, w.path, w.channel, w.idx, w.value)) FROM pregel_writes w WHERE w.key = n.key AND w.seq = c.seq)::text, '[]') AS writes"

const NAMESPACE = "n.thread = $1 AND n.namespace = $2"

const column = (name: string) =>
  `SELECT c.seq, c.${name} AS text FROM pregel_namespaces n JOIN unnest($3::bigint[], $4::bigint[]) r(low, high) ON true JOIN pregel_checkpoints c ON c.key = n.key AND c.seq BETWEEN r.low AND r.high WHERE ${NAMESPACE} AND c.${name} <> '' ORDER BY c.seq`

const rows = (condition: string, limit: string) =>
  `SELECT n.head, c.seq, c.data, ${WRITES} FROM pregel_namespaces n LEFT JOIN LATERAL (SELECT c.seq, c.data FROM pregel_checkpoints c WHERE c.key = n.key AND c.data <> ''${condition} ORDER BY c.seq DESC LIMIT ${limit}) c ON true WHERE ${NAMESPACE} ORDER BY c.seq DESC`

/**
 * The thread's fence, locked: taking a newer one waits for the statement, or the statement sees it. The statement's own
 * snapshot may be older than a fence that others have taken meanwhile.
 */
const lockedFence = (lock: "SHARE" | "NO KEY UPDATE") =>
  `latest AS (SELECT t.fence FROM pregel_threads t WHERE t.thread = $1 FOR ${lock}), `

const unfenced = (fence: string) => ` AND NOT EXISTS (SELECT 1 FROM latest WHERE latest.fence > ${fence})`

/** Rows of writes out of parallel arrays, whose first parameter is number `at`. */
const unnested = (at: number) =>
  `unnest($${at}::text[], $${at + 1}::text[], $${at + 2}::integer[], $${at + 3}::text[], $${at + 4}::text[], $${at + 5}::boolean[]) u(task, channel, idx, path, value, replaced)`

const WRITE_COLUMNS = "(key, seq, task, channel, idx, path, value)"

/** Two parts of a statement that save the writes for every row of `source`. */
const savingWrites = (source: string, seq: string, at: number): string => {
  const select = `SELECT ${source}.key, ${seq}::bigint, u.task, u.channel, u.idx, u.path, u.value FROM ${source}, ${unnested(at)}`
  return (
    `, kept AS (INSERT INTO pregel_writes ${WRITE_COLUMNS} ${select} WHERE NOT u.replaced ON CONFLICT DO NOTHING)` +
    `, replaced AS (INSERT INTO pregel_writes ${WRITE_COLUMNS} ${select} WHERE u.replaced ON CONFLICT (key, seq, task, channel, idx) DO UPDATE SET path = excluded.path, value = excluded.value)`
  )
}

/** Adds or changes a thread's row; a status that is NULL stays as it is. */
const DESCRIBE = (values: string, status: string) =>
  `INSERT INTO pregel_threads AS t (thread, graph, status, fence, created, updated, metadata) ${values} ON CONFLICT (thread) DO UPDATE SET graph = excluded.graph, status = coalesce(${status}::text, t.status), updated = excluded.updated, metadata = excluded.metadata`

const rawRows = `SELECT c.seq, c.log, c.data, ${WRITES} FROM pregel_namespaces n JOIN pregel_checkpoints c ON c.key = n.key AND c.seq > $3 WHERE ${NAMESPACE} ORDER BY c.seq LIMIT $4`

const Q = {
  hasTables: "SELECT to_regclass('pregel_format') IS NOT NULL AS found",
  lock: `SELECT pg_advisory_xact_lock(${LOCK})`,
  version: "SELECT version FROM pregel_format",
  newest: rows("", "1"),
  one: rows(" AND c.seq = $3", "1"),
  page: rows(" AND c.seq < $3", "$4"),
  data: column("data"),
  logs: column("log"),
  same: `SELECT c.data FROM pregel_namespaces n JOIN pregel_checkpoints c ON c.key = n.key AND c.seq = $3 WHERE ${NAMESPACE}`,
  raw: rawRows,
  claim:
    "INSERT INTO pregel_namespaces AS n (thread, namespace, head) VALUES ($1, $2, 0) ON CONFLICT (thread, namespace) DO UPDATE SET head = n.head RETURNING n.key, n.head",
  put: "INSERT INTO pregel_checkpoints (key, seq, log, data) SELECT $1, u.seq, u.log, u.data FROM unnest($2::bigint[], $3::text[], $4::text[]) u(seq, log, data) ON CONFLICT (key, seq) DO UPDATE SET log = excluded.log, data = excluded.data",
  removeRows: "DELETE FROM pregel_checkpoints WHERE key = $1 AND seq = ANY($2::bigint[])",
  removeWrites: "DELETE FROM pregel_writes WHERE key = $1 AND seq = ANY($2::bigint[])",
  saveWrites: `WITH at AS (SELECT $1::bigint AS key)${savingWrites("at", "$2", 3)} SELECT 1`,
  settle:
    "UPDATE pregel_namespaces n SET head = (SELECT max(c.seq) FROM pregel_checkpoints c WHERE c.key = n.key) WHERE key = $1 AND EXISTS (SELECT 1 FROM pregel_checkpoints c WHERE c.key = n.key)",
  removeKey: "DELETE FROM pregel_namespaces WHERE key = $1",
  describe: `${DESCRIBE("SELECT $1, $2::integer, coalesce($3::text, 'idle'), 0, $4::bigint, $4::bigint, $5::text", "$3")}`,
  dropWrites: `DELETE FROM pregel_writes w USING pregel_namespaces n WHERE ${NAMESPACE} AND w.key = n.key AND w.seq = $3 AND w.task = ANY($4::text[])`,
  takeFence:
    "INSERT INTO pregel_threads (thread, graph, status, fence, created, updated, metadata) VALUES ($1, 0, 'idle', 1, $2, $2, '{}') ON CONFLICT (thread) DO UPDATE SET fence = pregel_threads.fence + 1 RETURNING fence",
  setStatus: "UPDATE pregel_threads SET status = $1, updated = $2 WHERE thread = $3",
  threads:
    "SELECT thread, graph, status, created, updated, metadata FROM pregel_threads WHERE thread > $1 AND status = coalesce($2, status) AND updated >= $3 AND updated < $4 ORDER BY thread LIMIT $5",
  oneThread: "SELECT thread, graph, status, created, updated, metadata FROM pregel_threads WHERE thread = $1",
  namespaces: "SELECT namespace FROM pregel_namespaces WHERE thread = $1",
  graph: "SELECT name, fingerprint FROM pregel_graphs WHERE id = $1",
  graphId: "SELECT id FROM pregel_graphs WHERE name = $1 AND fingerprint = $2",
  addGraph: "INSERT INTO pregel_graphs (name, fingerprint) VALUES ($1, $2) ON CONFLICT DO NOTHING",
  keys: "SELECT key FROM pregel_namespaces WHERE thread = $1 FOR UPDATE",
  deleteRows: "DELETE FROM pregel_checkpoints WHERE key = ANY($1::bigint[])",
  deleteWrites: "DELETE FROM pregel_writes WHERE key = ANY($1::bigint[])",
  deleteNamespaces: "DELETE FROM pregel_namespaces WHERE key = ANY($1::bigint[])",
  deleteThread: "DELETE FROM pregel_threads WHERE thread = $1"
}

/** Creates the tables unless they exist; safe to run at any time from several processes. Returns their version. */
export const createTables = Effect.fnUntraced(function* (db: Db) {
  // Asked first: a process may use the tables without being allowed to create any.
  const [{ found }] = (yield* db.run(Q.hasTables, [])).rows
  if (found !== true) {
    yield* db.transaction(function* () {
      yield run(Q.lock, [])
      for (const text of CREATE) yield run(text, [])
    })
  }
  return Number((yield* db.run(Q.version, [])).rows[0]?.version)
})

/** Writes as parallel arrays; of two with one name the one that stays. */
const writeArrays = (writes: ReadonlyArray<EncodedWrite>): ReadonlyArray<unknown> => {
  const unique = new Map<string, EncodedWrite>()
  for (const write of writes) {
    const key = `${write.task}\n${write.channel}\n${write.index}`
    if (write.replace || !unique.has(key)) unique.set(key, write)
  }
  const all = Array.from(unique.values())
  return [
    all.map((write) => write.task),
    all.map((write) => write.channel),
    all.map((write) => write.index),
    all.map((write) => write.path),
    all.map((write) => write.value),
    all.map((write) => write.replace)
  ]
}

const texts = new Map<number, string>()

const remembered = (form: number, make: () => string): string => {
  const known = texts.get(form)
  if (known !== undefined) return known
  const text = make()
  texts.set(form, text)
  return text
}

/** The statement that appends a row, and its parameters. One text for each combination of what a row may bring along. */
const appendStatement = (append: Append): readonly [text: string, params: ReadonlyArray<unknown>] => {
  const { address, created, data, expectedHead, fence, log, requires, seq, thread, writes } = append
  const params: Array<unknown> = [address.thread, address.namespace, seq, expectedHead, log, data]
  const add = (...values: ReadonlyArray<unknown>): number => {
    for (const value of values) params.push(value)
    return params.length - values.length + 1
  }
  const fenceAt = fence === undefined ? 0 : add(fence)
  const requiresAt = requires === undefined ? 0 : add(requires)
  const writesAt = writes.length === 0 ? 0 : add(...writeArrays(writes))
  const threadAt = thread === undefined ? 0 : add(thread.graph, thread.status ?? null, created, thread.metadata)
  const isFirst = expectedHead === 0
  const form = [isFirst, fenceAt > 0, requiresAt > 0, writesAt > 0, threadAt > 0].reduce(
    (n, bit) => n * 2 + Number(bit),
    0
  )
  const text = remembered(form, () => {
    const mayWrite = fenceAt > 0 ? unfenced(`$${fenceAt}`) : ""
    const exists =
      requiresAt > 0
        ? ` AND EXISTS (SELECT 1 FROM pregel_checkpoints c WHERE c.key = n.key AND c.seq = $${requiresAt} AND c.data <> '')`
        : ""
    const moved = isFirst
      ? `INSERT INTO pregel_namespaces AS n (thread, namespace, head) SELECT $1, $2, $3::bigint WHERE $4::bigint = 0${mayWrite} ON CONFLICT (thread, namespace) DO UPDATE SET head = excluded.head WHERE n.head = 0${exists} RETURNING n.key`
      : `UPDATE pregel_namespaces n SET head = $3::bigint WHERE ${NAMESPACE} AND n.head = $4::bigint${mayWrite}${exists} RETURNING n.key`
    const values = `SELECT $1, $${threadAt}::integer, coalesce($${threadAt + 1}::text, 'idle'), 0, $${threadAt + 2}::bigint, $${threadAt + 2}::bigint, $${threadAt + 3}::text FROM moved`
    const described = threadAt > 0 ? `, described AS (${DESCRIBE(values, `$${threadAt + 1}`)})` : ""
    const saved = writesAt > 0 ? savingWrites("moved", "$3", writesAt) : ""
    return `WITH ${fenceAt > 0 ? lockedFence("NO KEY UPDATE") : ""}moved AS (${moved})${saved}${described} INSERT INTO pregel_checkpoints (key, seq, log, data) SELECT key, $3::bigint, $5::text, $6::text FROM moved`
  })
  return [text, params]
}

/** A part of a statement that changes the thread's status if the writes are saved. */
const telling = (at: number) =>
  `, told AS (UPDATE pregel_threads t SET status = $${at}, updated = $${at + 1}::bigint FROM found WHERE t.thread = $1)`

const putWritesText = (isFenced: boolean, tells: boolean) =>
  // The lock keeps the namespace from being deleted before the writes are there.
  `WITH ${isFenced ? lockedFence(tells ? "NO KEY UPDATE" : "SHARE") : ""}found AS (SELECT n.key FROM pregel_namespaces n WHERE ${NAMESPACE} AND EXISTS (SELECT 1 FROM pregel_checkpoints c WHERE c.key = n.key AND c.seq = $3::bigint AND c.data <> '')${
    isFenced ? unfenced("$10") : ""
  } FOR SHARE)${savingWrites("found", "$3", 4)}${tells ? telling(isFenced ? 11 : 10) : ""} SELECT key FROM found`

const PUT = { plain: putWritesText(false, false), telling: putWritesText(false, true) }
const PUT_FENCED = { plain: putWritesText(true, false), telling: putWritesText(true, true) }

function* appendOne(append: Append, again: boolean): Program<boolean> {
  const [text, params] = appendStatement(append)
  if ((yield run(text, params)).count === 1) return true
  if (!again) return false
  // The answer of an earlier attempt was lost: the row that is in the way may be the very same.
  const { address, data, seq } = append
  return (yield run(Q.same, [address.thread, address.namespace, seq])).rows[0]?.data === data
}

function* rewriteRows(rewrite: Rewrite): Program<boolean> {
  const { address, expectedHead, remove, rows } = rewrite
  // Takes the namespace's row lock, as a commit does.
  const [{ head, key }] = (yield run(Q.claim, [address.thread, address.namespace])).rows
  if (Number(head) === expectedHead) {
    const bare = rows.filter(({ writes }) => writes !== undefined).map(({ seq }) => seq)
    yield run(Q.removeRows, [key, remove])
    yield run(Q.removeWrites, [key, [...remove, ...bare]])
    yield run(Q.put, [key, rows.map(({ seq }) => seq), rows.map(({ log }) => log), rows.map(({ data }) => data)])
    for (const { seq, writes = [] } of rows) {
      if (writes.length === 0) continue
      yield run(Q.saveWrites, [key, seq, ...writeArrays(writes.map((write) => ({ ...write, replace: true })))])
    }
  }
  if ((yield run(Q.settle, [key])).count === 0) yield run(Q.removeKey, [key])
  return Number(head) === expectedHead
}

const makeWriting = (db: Db, guard: Guard): Pick<Encoded, "append" | "putWrites" | "dropWrites" | "rewrite"> => ({
  append: (rows) =>
    guard("commit", rows[0]?.address.thread, (again) => {
      if (rows.length === 0) return Effect.succeed([])
      const appended = () => appendInOrder(rows, (row) => appendOne(row, again))
      return rows.length === 1 ? db.ask(appended) : db.transaction(appended)
    }),
  rewrite: (change) => guard("rewrite", change.address.thread, () => db.transaction(() => rewriteRows(change))),
  putWrites: ({ namespace, thread }, seq, writes, fence, told) =>
    guard("putWrites", thread, () => {
      const text = (fence === undefined ? PUT : PUT_FENCED)[told === undefined ? "plain" : "telling"]
      const params = [thread, namespace, seq, ...writeArrays(writes)]
      if (fence !== undefined) params.push(fence)
      if (told !== undefined) params.push(told.status, told.now)
      return Effect.map(db.run(text, params), ({ count }) => count === 1)
    }),
  dropWrites: ({ namespace, thread }, seq, tasks) =>
    guard("dropWrites", thread, () => Effect.asVoid(db.run(Q.dropWrites, [thread, namespace, seq, tasks])))
})

const toRow = ({ data, seq, writes }: any): EncodedRow => ({ seq: Number(seq), data, writes: toWrites(writes) })

const toColumn = ({ rows }: Result) => rows.map(({ seq, text }) => ({ seq: Number(seq), text: String(text) }))

const makeReading = (db: Db, guard: Guard): Pick<Encoded, "read" | "data" | "logs" | "page" | "raw"> => {
  const columnOf =
    (text: string): Encoded["data"] =>
    ({ namespace, thread }, ranges) =>
      guard("load", thread, () =>
        Effect.map(
          db.run(text, [thread, namespace, ranges.map(([from]) => from), ranges.map(([, to]) => to)]),
          toColumn
        )
      )
  return {
    read: ({ namespace, thread }, seq) =>
      guard("load", thread, () =>
        Effect.map(
          seq === undefined ? db.run(Q.newest, [thread, namespace]) : db.run(Q.one, [thread, namespace, seq]),
          ({ rows: [row] }) =>
            row === undefined
              ? { head: 0, row: undefined }
              : { head: Number(row.head), row: row.seq === null ? undefined : toRow(row) }
        )
      ),
    data: columnOf(Q.data),
    logs: columnOf(Q.logs),
    raw: ({ namespace, thread }, after, limit) =>
      guard("load", thread, () =>
        Effect.map(db.run(Q.raw, [thread, namespace, after, limit]), ({ rows }) =>
          rows.map((row) => ({ ...toRow(row), log: row.log }))
        )
      ),
    page: ({ namespace, thread }, before, limit) =>
      guard("list", thread, () =>
        Effect.map(db.run(Q.page, [thread, namespace, before, limit]), ({ rows }) =>
          rows.filter((row) => row.seq !== null).map(toRow)
        )
      )
  }
}

const deleteThread = (db: Db, thread: string): Effect.Effect<void, SqlError> =>
  db.transaction(function* () {
    // Locked first: what a commit in progress appends must be seen by the statements that follow.
    const keys = (yield run(Q.keys, [thread])).rows.map(({ key }) => key)
    for (const text of [Q.deleteRows, Q.deleteWrites, Q.deleteNamespaces]) yield run(text, [keys])
    yield run(Q.deleteThread, [thread])
  })

/** The driver over a PostgreSQL database whose tables exist. */
export const makePostgres = (db: Db, guard: Guard): Encoded => ({
  ...makeWriting(db, guard),
  ...makeReading(db, guard),
  ...makeGraphTable(db, guard, Q),
  ...makeThreadTable(db, guard, Q),
  putThread: (thread, { graph, metadata, status }, now) =>
    guard("setStatus", thread, () => Effect.asVoid(db.run(Q.describe, [thread, graph, status ?? null, now, metadata]))),
  takeFence: (thread, now) =>
    guard("takeFence", thread, () =>
      Effect.map(db.run(Q.takeFence, [thread, now]), ({ rows }) => Number(rows[0].fence))
    ),
  deleteThread: (thread) => guard("deleteThread", thread, () => deleteThread(db, thread))
})
