/**
 * The driver that keeps rows in this process.
 */
import * as Effect from "effect/Effect"
import type { Address, GraphIdentity, PendingWrite, ThreadStatus } from "../Checkpoint.js"
import type {
  Append,
  Column,
  Encoded,
  EncodedRow,
  EncodedStatus,
  EncodedThread,
  EncodedThreadInfo,
  EncodedWrite,
  Range,
  Rewrite
} from "../CheckpointDriver.js"

interface Row {
  readonly seq: number
  log: string | null
  data: string
}

interface Space {
  readonly rows: Array<Row>
  readonly writes: Map<number, Map<string, PendingWrite>>
}

interface Thread {
  graph: number
  status: ThreadStatus
  created: number
  updated: number
  metadata: string
  fence: number
  readonly spaces: Map<string, Space>
}

const newThread = (created: number): Thread => ({
  graph: 0,
  status: "idle",
  created,
  updated: created,
  metadata: "{}",
  fence: 0,
  spaces: new Map()
})

/** Index of the first row whose number is at least `seq`. */
const indexOf = (rows: ReadonlyArray<Row>, seq: number): number => {
  let low = 0
  let high = rows.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (rows[middle]!.seq < seq) low = middle + 1
    else high = middle
  }
  return low
}

const getOrSet = <K, V>(map: Map<K, V>, key: K, make: () => V): V => {
  const found = map.get(key)
  if (found !== undefined) return found
  const made = make()
  map.set(key, made)
  return made
}

const saveWrites = (space: Space, seq: number, writes: ReadonlyArray<EncodedWrite>): void => {
  if (writes.length === 0) return
  const saved = getOrSet(space.writes, seq, () => new Map())
  for (const { replace, ...write } of writes) {
    const key = `${write.task}\0${write.channel}\0${write.index}`
    if (replace || !saved.has(key)) saved.set(key, write)
  }
}

const newestRow = (rows: ReadonlyArray<Row>): Row | undefined => rows.findLast((row) => row.data !== "")

const appendInOrder = (rows: ReadonlyArray<Append>, appendOne: (row: Append) => boolean): ReadonlyArray<boolean> => {
  const refused = new Set<Append>()
  return rows.map((row) => {
    const written = !(row.follows && refused.has(row.follows)) && appendOne(row)
    if (!written) refused.add(row)
    return written
  })
}

const rowAt = (rows: ReadonlyArray<Row>, seq: number): Row | undefined => {
  const row = rows[indexOf(rows, seq)]
  return row?.seq === seq && row.data !== "" ? row : undefined
}

const withWrites = (space: Space, { data, seq }: Row): EncodedRow => ({
  seq,
  data,
  writes: Array.from(space.writes.get(seq)?.values() ?? [])
})

const infoOf = (thread: string, { spaces, fence, ...info }: Thread): EncodedThreadInfo => ({ thread, ...info })

const describe = (thread: Thread, change: EncodedThread, now: number): void => {
  thread.graph = change.graph
  thread.metadata = change.metadata
  thread.updated = now
  if (change.status !== undefined) thread.status = change.status
}

/** What is kept: threads with their namespaces, and graphs by number. */
class Tables {
  readonly threads = new Map<string, Thread>()
  readonly graphs: Array<GraphIdentity> = []

  space({ namespace, thread }: Address): Space | undefined {
    return this.threads.get(thread)?.spaces.get(namespace)
  }

  openThread(thread: string, now: number): Thread {
    return getOrSet(this.threads, thread, () => newThread(now))
  }

  openSpace({ namespace, thread }: Address, now: number): Space {
    return getOrSet(this.openThread(thread, now).spaces, namespace, () => ({ rows: [], writes: new Map() }))
  }

  isFenced(thread: string, fence: number | undefined): boolean {
    return fence !== undefined && (this.threads.get(thread)?.fence ?? 0) > fence
  }

  tell(thread: string, { now, status }: EncodedStatus): void {
    const found = this.threads.get(thread)
    if (found === undefined) return
    found.status = status
    found.updated = now
  }

  append({ address, created, data, expectedHead, fence, log, requires, seq, thread, writes }: Append): boolean {
    const rows = this.space(address)?.rows ?? []
    if ((rows.at(-1)?.seq ?? 0) !== expectedHead || this.isFenced(address.thread, fence)) return false
    if (requires !== undefined && rowAt(rows, requires) === undefined) return false
    const space = this.openSpace(address, created)
    space.rows.push({ seq, log, data })
    saveWrites(space, seq, writes)
    if (thread !== undefined) describe(this.openThread(address.thread, created), thread, created)
    return true
  }

  rewrite({ address, expectedHead, now, remove, rows: changed }: Rewrite): boolean {
    if ((this.space(address)?.rows.at(-1)?.seq ?? 0) !== expectedHead) return false
    const space = this.openSpace(address, now)
    for (const seq of remove) {
      const at = indexOf(space.rows, seq)
      if (space.rows[at]?.seq === seq) space.rows.splice(at, 1)
      space.writes.delete(seq)
    }
    for (const { data, log, seq, writes } of changed) {
      const at = indexOf(space.rows, seq)
      space.rows.splice(at, space.rows[at]?.seq === seq ? 1 : 0, { seq, log, data })
      if (writes === undefined) continue
      space.writes.delete(seq)
      saveWrites(
        space,
        seq,
        writes.map((write) => ({ ...write, replace: true }))
      )
    }
    if (space.rows.length === 0) this.threads.get(address.thread)?.spaces.delete(address.namespace)
    return true
  }
}

const makeReading = (tables: Tables): Pick<Encoded, "read" | "data" | "logs" | "page" | "raw"> => {
  const columnOf =
    (pick: (row: Row) => string | null) =>
    (address: Address, ranges: ReadonlyArray<Range>): Effect.Effect<Column> =>
      Effect.sync(() => {
        const rows = tables.space(address)?.rows ?? []
        const found: Array<{ readonly seq: number; readonly text: string }> = []
        for (const [from, to] of ranges) {
          for (let i = indexOf(rows, from); i < rows.length && rows[i]!.seq <= to; i++) {
            const text = pick(rows[i]!)
            if (text) found.push({ seq: rows[i]!.seq, text })
          }
        }
        return found
      })
  return {
    read: (address, seq) =>
      Effect.sync(() => {
        const space = tables.space(address)
        if (space === undefined) return { head: 0, row: undefined }
        const row = seq === undefined ? newestRow(space.rows) : rowAt(space.rows, seq)
        return { head: space.rows.at(-1)?.seq ?? 0, row: row && withWrites(space, row) }
      }),
    data: columnOf((row) => row.data),
    logs: columnOf((row) => row.log),
    page: (address, before, limit) =>
      Effect.sync(() => {
        const space = tables.space(address)
        const found: Array<EncodedRow> = []
        if (space === undefined) return found
        for (let i = indexOf(space.rows, before) - 1; i >= 0 && found.length < limit; i--) {
          const row = space.rows[i]!
          if (row.data !== "") found.push(withWrites(space, row))
        }
        return found
      }),
    raw: (address, after, limit) =>
      Effect.sync(() => {
        const space = tables.space(address)
        if (space === undefined) return []
        const from = indexOf(space.rows, after + 1)
        return space.rows.slice(from, from + limit).map((row) => ({ ...withWrites(space, row), log: row.log }))
      })
  }
}

const makeWriting = (tables: Tables): Pick<Encoded, "append" | "putWrites" | "dropWrites" | "rewrite"> => ({
  append: (rows) => Effect.sync(() => appendInOrder(rows, (row) => tables.append(row))),
  putWrites: (address, seq, writes, fence, status) =>
    Effect.sync(() => {
      const space = tables.space(address)
      if (space === undefined || rowAt(space.rows, seq) === undefined) return false
      if (tables.isFenced(address.thread, fence)) return false
      saveWrites(space, seq, writes)
      if (status !== undefined) tables.tell(address.thread, status)
      return true
    }),
  dropWrites: (address, seq, tasks) =>
    Effect.sync(() => {
      const saved = tables.space(address)?.writes.get(seq)
      for (const [key, write] of saved ?? []) if (tasks.includes(write.task)) saved!.delete(key)
    }),
  rewrite: (change) => Effect.sync(() => tables.rewrite(change))
})

type Threads = "thread" | "namespaces" | "threads" | "putThread" | "setStatus" | "takeFence" | "deleteThread"

const makeThreads = (tables: Tables): Pick<Encoded, Threads> => {
  const { threads } = tables
  return {
    thread: (thread) =>
      Effect.sync(() => {
        const found = threads.get(thread)
        return found && infoOf(thread, found)
      }),
    namespaces: (thread) => Effect.sync(() => Array.from(threads.get(thread)?.spaces.keys() ?? [])),
    threads: (after, limit) =>
      Effect.sync(() =>
        Array.from(threads.keys())
          .filter((thread) => after === undefined || thread > after)
          .sort()
          .slice(0, limit)
          .map((thread) => infoOf(thread, threads.get(thread)!))
      ),
    putThread: (thread, to, now) => Effect.sync(() => describe(tables.openThread(thread, now), to, now)),
    setStatus: (thread, status, now) => Effect.sync(() => tables.tell(thread, { status, now })),
    takeFence: (thread, now) => Effect.sync(() => ++tables.openThread(thread, now).fence),
    deleteThread: (thread) => Effect.sync(() => void threads.delete(thread))
  }
}

const makeGraphTable = ({ graphs }: Tables): Pick<Encoded, "graphId" | "graph"> => ({
  graphId: ({ fingerprint, name }) =>
    Effect.sync(() => {
      const known = graphs.findIndex((graph) => graph.name === name && graph.fingerprint === fingerprint)
      return { value: known >= 0 ? known + 1 : graphs.push({ name, fingerprint }), lasts: true }
    }),
  graph: (id) => Effect.sync(() => graphs[id - 1] && { value: graphs[id - 1]!, lasts: true })
})

/** A driver over plain maps. */
export const makeMemory = (): Encoded => {
  const tables = new Tables()
  return { ...makeGraphTable(tables), ...makeReading(tables), ...makeWriting(tables), ...makeThreads(tables) }
}
