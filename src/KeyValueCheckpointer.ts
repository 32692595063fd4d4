/**
 * Durable state in any `KeyValueStore` of `@effect/platform`: a browser's storage, a plain folder.
 *
 * For one process at a time: a key-value store has no transactions that others would respect. Each commit ends with the
 * one key that makes it visible, which is kept twice, so that a crash at any moment leaves the state before or after.
 */
import * as KeyValueStore from "@effect/platform/KeyValueStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Address, GraphIdentity, PendingWrite, ThreadStatus } from "./Checkpoint.js"
import type { Append, Encoded, EncodedThread, EncodedWrite, Range, RawRow, Rewrite } from "./CheckpointDriver.js"
import { Checkpointer, makeEncoded } from "./Checkpointer.js"
import { CheckpointerError } from "./GraphError.js"
import { makeDocuments } from "./internal/documents.js"

/** How to use the store. */
export interface Options {
  /** Begin of every key; `"pregel"` by default. */
  readonly prefix?: string | undefined
}

/** Key of a change of rows that is being carried out. */
const JOURNAL = "-journal"

/** A gap between numbers that is looked through rather than remembered. */
const GAP = 64

interface Root {
  readonly format: 1
  readonly next: number
  readonly graphs: ReadonlyArray<GraphIdentity>
  readonly threads: ReadonlyArray<readonly [name: string, id: number]>
}

interface Space {
  readonly name: string
  readonly id: number
  readonly head: number
  /** Where rows are, ascending; numbers within may be missing. */
  readonly ranges: ReadonlyArray<Range>
}

interface Thread {
  readonly graph: number
  readonly status: ThreadStatus
  readonly fence: number
  readonly created: number
  readonly updated: number
  readonly metadata: string
  readonly spaces: ReadonlyArray<Space>
}

interface Row {
  readonly log: string | null
  readonly data: string
}

type Failing<A> = Effect.Effect<A, CheckpointerError>

const ROOT: Root = { format: 1, next: 1, graphs: [], threads: [] }

const newThread = (now: number): Thread => ({
  graph: 0,
  status: "idle",
  fence: 0,
  created: now,
  updated: now,
  metadata: "{}",
  spaces: []
})

const described = (thread: Thread, { graph, metadata, status }: EncodedThread, now: number): Thread => ({
  ...thread,
  graph,
  metadata,
  status: status ?? thread.status,
  updated: now
})

const withNumber = (ranges: ReadonlyArray<Range>, seq: number): ReadonlyArray<Range> => {
  const last = ranges.at(-1)
  if (last === undefined || seq - last[1] > GAP) return [...ranges, [seq, seq]]
  return seq <= last[1] ? ranges : [...ranges.slice(0, -1), [last[0], seq]]
}

type Store = ReturnType<typeof makeDocuments>

const rowKey = (thread: number, space: Space, seq: number) => `-${thread}-${space.id}-${seq}`

const makeRows = (store: Store) => {
  const row = (thread: number, space: Space, seq: number): Failing<Row | undefined> =>
    Effect.flatMap(store.get(rowKey(thread, space, seq)), (text) =>
      text === undefined ? Effect.succeed(undefined) : store.parse<Row>(rowKey(thread, space, seq), text)
    )
  const writes = (thread: number, space: Space, seq: number): Failing<ReadonlyArray<PendingWrite>> =>
    Effect.map(store.read<ReadonlyArray<PendingWrite>>(`${rowKey(thread, space, seq)}w`), (found) => found ?? [])
  const saveWrites = Effect.fnUntraced(function* (
    thread: number,
    space: Space,
    seq: number,
    added: ReadonlyArray<EncodedWrite>
  ) {
    if (added.length === 0) return
    const name = (write: PendingWrite) => `${write.task}\n${write.channel}\n${write.index}`
    const all = new Map((yield* writes(thread, space, seq)).map((write) => [name(write), write]))
    for (const { replace, ...write } of added) if (replace || !all.has(name(write))) all.set(name(write), write)
    yield* store.write(`${rowKey(thread, space, seq)}w`, Array.from(all.values()))
  })
  /** Rows between two numbers, in the order that `down` says, until `limit` are found. */
  const scan = Effect.fnUntraced(function* (
    thread: number,
    space: Space,
    [from, to]: Range,
    accept: (row: Row) => boolean,
    { down, limit }: { readonly down: boolean; readonly limit: number }
  ) {
    const found: Array<RawRow> = []
    for (const [low, high] of down ? [...space.ranges].reverse() : space.ranges) {
      const [first, last] = [Math.max(low, from), Math.min(high, to, space.head)]
      for (let i = 0; i <= last - first && found.length < limit; i++) {
        const seq = down ? last - i : first + i
        const one = yield* row(thread, space, seq)
        if (one !== undefined && accept(one)) found.push({ seq, ...one, writes: yield* writes(thread, space, seq) })
      }
    }
    return found
  })
  return { row, writes, saveWrites, scan }
}

const isCheckpoint = ({ data }: Row): boolean => data !== ""

interface Found {
  readonly id: number
  readonly thread: Thread
}

/** Finds threads and namespaces, and changes what is known of them. */
const makeIndex = (store: Store) => {
  const root = Effect.map(store.read<Root>(""), (found) => found ?? ROOT)
  const find = Effect.fnUntraced(function* (name: string) {
    const id = (yield* root).threads.find(([thread]) => thread === name)?.[1]
    const thread = id === undefined ? undefined : yield* store.read<Thread>(`-${id}`)
    return id === undefined || thread === undefined ? undefined : { id, thread }
  })
  const findSpace = (address: Address) =>
    Effect.map(find(address.thread), (found) => {
      const space = found?.thread.spaces.find(({ name }) => name === address.namespace)
      return found === undefined || space === undefined ? undefined : { ...found, space }
    })
  const open = Effect.fnUntraced(function* (name: string, now: number) {
    const found = yield* find(name)
    if (found !== undefined) return found
    const known = yield* root
    const id = known.next
    yield* store.write(`-${id}`, newThread(now))
    yield* store.write("", {
      ...known,
      next: id + 1,
      threads: [...known.threads.filter(([one]) => one !== name), [name, id]]
    })
    return { id, thread: newThread(now) }
  })
  const save = ({ id }: Found, thread: Thread): Failing<void> => store.write(`-${id}`, thread)
  const withSpace = (thread: Thread, space: Space): Thread => ({
    ...thread,
    spaces: [...thread.spaces.filter(({ name }) => name !== space.name), ...(space.ranges.length > 0 ? [space] : [])]
  })
  const newSpace = ({ thread }: Found, name: string): Space => ({
    name,
    id: thread.spaces.reduce((most, { id }) => Math.max(most, id + 1), 0),
    head: 0,
    ranges: []
  })
  return { root, find, findSpace, open, save, withSpace, newSpace }
}

const makeWriting = (store: Store): Pick<Encoded, "append" | "putWrites" | "dropWrites"> => {
  const { find, findSpace, newSpace, open, save, withSpace } = makeIndex(store)
  const { row, saveWrites, writes } = makeRows(store)

  const appendOne = Effect.fnUntraced(function* (append: Append) {
    const { address, created, expectedHead, fence, requires, seq } = append
    const found = yield* find(address.thread)
    const space = found?.thread.spaces.find(({ name }) => name === address.namespace)
    if ((space?.head ?? 0) !== expectedHead || (fence !== undefined && (found?.thread.fence ?? 0) > fence)) return false
    if (requires !== undefined) {
      const parent = yield* row(found!.id, space!, requires)
      if (parent === undefined || !isCheckpoint(parent)) return false
    }
    const opened = found ?? (yield* open(address.thread, created))
    const into = space ?? newSpace(opened, address.namespace)
    // What an earlier crash may have left under this number is not there for anybody.
    yield* store.forget(`${rowKey(opened.id, into, seq)}w`)
    yield* saveWrites(opened.id, into, seq, append.writes)
    yield* store.set(rowKey(opened.id, into, seq), JSON.stringify({ log: append.log, data: append.data }))
    const moved = withSpace(opened.thread, { ...into, head: seq, ranges: withNumber(into.ranges, seq) })
    yield* save(opened, append.thread === undefined ? moved : described(moved, append.thread, created))
    return true
  })

  return {
    append: Effect.fnUntraced(function* (rows) {
      const refused = new Set<Append>()
      const written: Array<boolean> = []
      for (const one of rows) {
        const isWritten = !(one.follows && refused.has(one.follows)) && (yield* appendOne(one))
        if (!isWritten) refused.add(one)
        written.push(isWritten)
      }
      return written
    }),
    putWrites: Effect.fnUntraced(function* (address, seq, added, fence, told) {
      const found = yield* findSpace(address)
      if (found === undefined || seq > found.space.head) return false
      if (fence !== undefined && found.thread.fence > fence) return false
      const parent = yield* row(found.id, found.space, seq)
      if (parent === undefined || !isCheckpoint(parent)) return false
      yield* saveWrites(found.id, found.space, seq, added)
      if (told !== undefined) yield* save(found, { ...found.thread, status: told.status, updated: told.now })
      return true
    }),
    dropWrites: Effect.fnUntraced(function* (address, seq, tasks) {
      const found = yield* findSpace(address)
      if (found === undefined) return
      const left = (yield* writes(found.id, found.space, seq)).filter(({ task }) => !tasks.includes(task))
      yield* store.write(`${rowKey(found.id, found.space, seq)}w`, left)
    })
  }
}

/** Changes of many rows at once: what is to be done is written down first, so that a crash in between is made good. */
const makeRewriting = (store: Store) => {
  const { findSpace, newSpace, open, save, withSpace } = makeIndex(store)
  const { saveWrites } = makeRows(store)

  /** Carries a change out; doing so once more, after a crash in between, comes to the same. */
  const apply = Effect.fnUntraced(function* ({ address, now, remove, rows }: Rewrite) {
    const found = yield* findSpace(address)
    const opened = found ?? (yield* open(address.thread, now))
    const space = found?.space ?? newSpace(opened, address.namespace)
    for (const { data, log, seq, writes } of rows) {
      yield* store.set(rowKey(opened.id, space, seq), JSON.stringify({ log, data }))
      if (writes === undefined) continue
      yield* store.forget(`${rowKey(opened.id, space, seq)}w`)
      yield* saveWrites(
        opened.id,
        space,
        seq,
        writes.map((write) => ({ ...write, replace: true }))
      )
    }
    const gone = new Set(remove)
    const numbers = new Set(rows.map(({ seq }) => seq))
    for (const [low, high] of space.ranges) for (let seq = low; seq <= high; seq++) if (!gone.has(seq)) numbers.add(seq)
    const ranges = Array.from(numbers)
      .sort((a, b) => a - b)
      .reduce(withNumber, [] as ReadonlyArray<Range>)
    yield* save(opened, withSpace(opened.thread, { ...space, head: ranges.at(-1)?.[1] ?? 0, ranges }))
    for (const seq of remove) {
      yield* store.remove(rowKey(opened.id, space, seq))
      yield* store.forget(`${rowKey(opened.id, space, seq)}w`)
    }
  })

  const recover = Effect.flatMap(store.read<Rewrite>(JOURNAL), (change) =>
    change === undefined ? Effect.void : Effect.zipRight(apply(change), store.forget(JOURNAL))
  )

  const rewrite = Effect.fnUntraced(function* (change: Rewrite) {
    const found = yield* findSpace(change.address)
    if ((found?.space.head ?? 0) !== change.expectedHead) return false
    yield* store.write(JOURNAL, change)
    yield* recover
    return true
  })

  return { rewrite, recover }
}

const makeReading = (store: Store): Pick<Encoded, "read" | "data" | "logs" | "page" | "raw"> => {
  const { findSpace } = makeIndex(store)
  const { scan } = makeRows(store)
  const all = Number.POSITIVE_INFINITY
  const column = (pick: (row: Row) => string | null) =>
    Effect.fnUntraced(function* (address: Address, ranges: ReadonlyArray<Range>) {
      const found = yield* findSpace(address)
      const texts: Array<{ readonly seq: number; readonly text: string }> = []
      for (const range of found === undefined ? [] : ranges) {
        const rows = yield* scan(found!.id, found!.space, range, (row) => !!pick(row), { down: false, limit: all })
        for (const one of rows) texts.push({ seq: one.seq, text: pick(one)! })
      }
      return texts
    })
  const rowsOf = (address: Address, range: Range, accept: (row: Row) => boolean, order: Parameters<typeof scan>[4]) =>
    Effect.flatMap(findSpace(address), (found) =>
      found === undefined ? Effect.succeed([]) : scan(found.id, found.space, range, accept, order)
    )
  return {
    read: Effect.fnUntraced(function* (address, seq) {
      const found = yield* findSpace(address)
      if (found === undefined) return { head: 0, row: undefined }
      const range: Range = seq === undefined ? [0, all] : [seq, seq]
      const [row] = yield* scan(found.id, found.space, range, isCheckpoint, { down: true, limit: 1 })
      return { head: found.space.head, row }
    }),
    data: column(({ data }) => data),
    logs: column(({ log }) => log),
    page: (address, before, limit) => rowsOf(address, [0, before - 1], isCheckpoint, { down: true, limit }),
    raw: (address, after, limit) => rowsOf(address, [after + 1, all], () => true, { down: false, limit })
  }
}

type Threads = "thread" | "namespaces" | "threads" | "putThread" | "setStatus" | "takeFence" | "deleteThread"

const makeThreads = (store: Store): Pick<Encoded, Threads | "graphId" | "graph"> => {
  const { find, open, root, save } = makeIndex(store)
  const info = (name: string, { spaces, fence, ...thread }: Thread) => ({ thread: name, ...thread })
  return {
    graphId: Effect.fnUntraced(function* ({ fingerprint, name }) {
      const known = yield* root
      const at = known.graphs.findIndex((graph) => graph.name === name && graph.fingerprint === fingerprint)
      if (at < 0) yield* store.write("", { ...known, graphs: [...known.graphs, { name, fingerprint }] })
      return { value: at < 0 ? known.graphs.length + 1 : at + 1, lasts: true }
    }),
    graph: (id) =>
      Effect.map(root, ({ graphs }) => {
        const graph = graphs[id - 1]
        return graph && { value: graph, lasts: true }
      }),
    thread: (name) => Effect.map(find(name), (found) => found && info(name, found.thread)),
    namespaces: (name) => Effect.map(find(name), (found) => found?.thread.spaces.map((space) => space.name) ?? []),
    threads: Effect.fnUntraced(function* (after, limit) {
      const names = (yield* root).threads.map(([name]) => name).sort()
      const page = names.filter((name) => after === undefined || name > after).slice(0, limit)
      const found = yield* Effect.forEach(page, (name) =>
        Effect.map(find(name), (one) => info(name, one?.thread ?? newThread(0)))
      )
      return found
    }),
    putThread: (name, change, now) =>
      Effect.flatMap(open(name, now), (found) => save(found, described(found.thread, change, now))),
    setStatus: (name, status, now) =>
      Effect.flatMap(find(name), (found) =>
        found === undefined ? Effect.void : save(found, { ...found.thread, status, updated: now })
      ),
    takeFence: (name, now) =>
      Effect.flatMap(open(name, now), (found) => {
        const fence = found.thread.fence + 1
        return Effect.as(save(found, { ...found.thread, fence }), fence)
      }),
    deleteThread: Effect.fnUntraced(function* (name) {
      const known = yield* root
      const found = yield* find(name)
      yield* store.write("", { ...known, threads: known.threads.filter(([one]) => one !== name) })
      if (found === undefined) return
      for (const space of found.thread.spaces) {
        for (const [low, high] of space.ranges) {
          for (let seq = low; seq <= high; seq++) {
            yield* store.remove(rowKey(found.id, space, seq))
            yield* store.forget(`${rowKey(found.id, space, seq)}w`)
          }
        }
      }
      yield* store.forget(`-${found.id}`)
    })
  }
}

/** One operation after the other, none interrupted half-way; first what a crash or a failing store left undone. */
const serialised = (encoded: Encoded, recover: Failing<void>, turn: Effect.Semaphore): Encoded => {
  let isClean = false
  const clean = Effect.suspend(() =>
    isClean
      ? Effect.void
      : Effect.zipRight(
          recover,
          Effect.sync(() => void (isClean = true))
        )
  )
  const wrapped = Object.entries(encoded).map(([name, operation]) => [
    name,
    (...args: ReadonlyArray<never>) =>
      turn.withPermits(1)(
        Effect.uninterruptible(
          Effect.zipRight(clean, (operation as (...args: ReadonlyArray<never>) => Failing<unknown>)(...args))
        ).pipe(Effect.tapErrorCause(() => Effect.sync(() => void (isClean = false))))
      )
  ])
  return Object.fromEntries(wrapped) as Encoded
}

/** The typed service over the key-value store in the environment. */
export const make = (options: Options = {}) =>
  Effect.gen(function* () {
    const store = makeDocuments(yield* KeyValueStore.KeyValueStore, options.prefix ?? "pregel")
    const { recover, rewrite } = makeRewriting(store)
    const encoded = { rewrite, ...makeWriting(store), ...makeReading(store), ...makeThreads(store) }
    const format = (yield* store.read<Root>(""))?.format ?? 1
    if (format !== 1) {
      return yield* new CheckpointerError({
        operation: "open",
        reason: "Unsupported",
        detail: `the store has format ${format}, this library uses format 1`
      })
    }
    return makeEncoded(serialised(encoded, recover, yield* Effect.makeSemaphore(1)))
  })

/** Keeps checkpoints in the key-value store in the environment. */
export const layer = (
  options: Options = {}
): Layer.Layer<Checkpointer, CheckpointerError, KeyValueStore.KeyValueStore> =>
  Layer.effect(Checkpointer, make(options))
