/**
 * Durable state, as a service.
 *
 * `Checkpointer` is the face the engine uses: checkpoints, changes and pending writes. `Encoded` is the face a driver
 * implements: rows of text under `(thread, namespace, seq)`. `makeEncoded` joins them, so that memory is as strict as
 * SQL: what is kept is always the encoded text, never a live value.
 *
 * A commit appends one row: the channels that changed, or the whole state where that is no longer than the changes
 * since the last whole one. Items of append channels are kept in a column of their own, each exactly once. So history
 * costs linear space, a head is read at the cost of its state, and an old checkpoint at a bounded one.
 */
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import {
  type Address,
  type Change,
  type Checkpoint,
  ERROR,
  type GraphIdentity,
  type Header,
  INTERRUPT,
  type Json,
  makeId,
  type PendingWrite,
  pendingWriteOrder,
  type Source,
  seqOfId,
  type ThreadStatus
} from "./Checkpoint.js"
import type { Append, Encoded, EncodedRow, EncodedThreadInfo, EncodedWrite } from "./CheckpointDriver.js"
import { CheckpointDecodeError, CheckpointerError, ThreadConflict } from "./GraphError.js"
import { lineOf, parse, recordOf, resultsOf, seenOf } from "./internal/fold.js"
import { makeMemory } from "./internal/memory.js"
import { decoding, makeReader, type Read } from "./internal/reader.js"
import { decodeName, encode, encodeName, type Line, RecordError, sealWrite, unsealWrite } from "./internal/record.js"

/** The saver's own bookkeeping about the branch a checkpoint lies on; opaque to the engine, updated by `commit`. */
export interface Lineage {
  readonly _: unique symbol
}

/** A loaded checkpoint with all that a run needs to go on from it. */
export interface Loaded {
  readonly checkpoint: Checkpoint
  /** The namespace's greatest `seq`; a commit names it to prove that nobody wrote in between. */
  readonly head: number
  readonly lineage: Lineage
  /** Sorted by `pendingWriteOrder`. */
  readonly writes: ReadonlyArray<PendingWrite>
}

/** A new checkpoint, told as changes to its parent. */
export interface Commit {
  readonly address: Address
  /** `Loaded.head` or the last committed `seq`; `0` where nothing was stored. */
  readonly expectedHead: number
  /** Greater than `expectedHead`. */
  readonly seq: number
  readonly parent: { readonly seq: number; readonly id: string } | undefined
  /** The parent's lineage; `undefined` for a checkpoint without parent. */
  readonly lineage: Lineage | undefined
  readonly step: number
  readonly source: Source
  readonly created: number
  readonly version: number
  readonly resumedAt: number
  readonly changes: ReadonlyArray<Change>
  /** Every channel that has a value, for savers that write a whole checkpoint now. Append channels without items. */
  readonly whole: () => ReadonlyArray<WholeEntry>
  readonly seen: Header["seen"]
  readonly ran: ReadonlyArray<string>
  readonly results: ReadonlyArray<{
    readonly task: string
    /** `text === undefined` says: the same as this commit's change of that channel. */
    readonly writes: ReadonlyArray<readonly [channel: string, text: string | undefined]>
  }>
  readonly graph: GraphIdentity
  readonly parents: Readonly<Record<string, string>>
  readonly metadata: Readonly<Record<string, Json>>
  /** Pending writes of this new checkpoint that must be saved with it. */
  readonly writes?: ReadonlyArray<PendingWrite> | undefined
  /** What the thread does from now on, if that changes. */
  readonly status?: ThreadStatus | undefined
  /** Refuse the commit (`ThreadConflict`) if a newer fence was taken for the thread. */
  readonly fence?: number | undefined
}

export type WholeEntry =
  | { readonly append: false; readonly channel: string; readonly version: number; readonly text: string | undefined }
  | { readonly append: true; readonly channel: string; readonly version: number; readonly length: number }

/** What `Checkpointer.threads` and searches return. */
export interface ThreadInfo {
  readonly thread: string
  readonly graph: GraphIdentity
  readonly status: ThreadStatus
  readonly created: number
  readonly updated: number
  readonly metadata: Readonly<Record<string, Json>>
}

export interface ListOptions {
  /** Newest checkpoint to return is the one before this id. */
  readonly before?: string | undefined
  /** Most checkpoints to return; all by default. */
  readonly limit?: number | undefined
  /** Exact equality on top-level metadata keys (`source` and `step` included). */
  readonly filter?: Readonly<Record<string, Json>> | undefined
}

/** Which threads to list; every condition must hold. */
export interface ThreadOptions {
  readonly status?: ThreadStatus | undefined
  /** Name of the graph. */
  readonly graph?: string | undefined
  /** Milliseconds since the epoch; threads changed at that time or later. */
  readonly updatedSince?: number | undefined
  /** Milliseconds since the epoch; threads last changed before that time. */
  readonly updatedBefore?: number | undefined
  /** Exact equality on top-level metadata keys. */
  readonly metadata?: Readonly<Record<string, Json>> | undefined
}

/** A commit that is encoded and ready to be written. */
export interface Staged {
  readonly commit: Commit
  /** What the next commit on this branch names as its parent's lineage. */
  readonly lineage: Lineage
  readonly append: Append
}

/** The storage of checkpoints. */
export class Checkpointer extends Context.Tag("effect-pregel/Checkpointer")<
  Checkpointer,
  {
    /** The head of a namespace, or the checkpoint of that id; `undefined` where there is none. */
    readonly load: (
      address: Address,
      id?: string | undefined
    ) => Effect.Effect<Loaded | undefined, CheckpointerError | CheckpointDecodeError>
    /** Appends a checkpoint; fails with `ThreadConflict` and writes nothing if the head is not the expected one. */
    readonly commit: (commit: Commit) => Effect.Effect<Lineage, CheckpointerError | ThreadConflict>
    /** Encodes a commit without writing it: its values may change afterwards, its lineage can be built upon. */
    readonly stage: (commit: Commit) => Effect.Effect<Staged, CheckpointerError>
    /**
     * Writes staged commits in their order, in one transaction where the storage has one. Fails with the first
     * `ThreadConflict`; a commit that builds on a refused one is refused as well.
     */
    readonly write: (staged: ReadonlyArray<Staged>) => Effect.Effect<void, CheckpointerError | ThreadConflict>
    /** Saves pending writes of a stored checkpoint (else `ThreadConflict`). Results, answers and activities: the first wins; others are replaced. */
    readonly putWrites: (
      address: Address,
      seq: number,
      writes: ReadonlyArray<PendingWrite>,
      fence?: number | undefined
    ) => Effect.Effect<void, CheckpointerError | ThreadConflict>
    /** Forgets pending writes of some tasks of a checkpoint. */
    readonly dropWrites: (
      address: Address,
      seq: number,
      tasks: ReadonlyArray<string>
    ) => Effect.Effect<void, CheckpointerError>
    /** Checkpoints of a namespace, newest first. */
    readonly list: (
      address: Address,
      options?: ListOptions
    ) => Stream.Stream<Loaded, CheckpointerError | CheckpointDecodeError>
    /** Namespaces of a thread that hold checkpoints, sorted. */
    readonly namespaces: (thread: string) => Effect.Effect<ReadonlyArray<string>, CheckpointerError>
    /** Threads that have a checkpoint, in a stable order. */
    readonly threads: (options?: ThreadOptions) => Stream.Stream<ThreadInfo, CheckpointerError>
    /** Records what a thread is doing without writing a checkpoint. */
    readonly setStatus: (thread: string, status: ThreadStatus) => Effect.Effect<void, CheckpointerError>
    /** Takes a thread over: commits and writes that name an older fence are refused from now on. */
    readonly takeFence: (thread: string) => Effect.Effect<number, CheckpointerError>
    /** Removes every namespace of a thread. */
    readonly deleteThread: (thread: string) => Effect.Effect<void, CheckpointerError>
    /** The driver beneath; decorators wrap it. */
    readonly encoded: Encoded
  }
>() {}

type Service = Context.Tag.Service<typeof Checkpointer>

/** Most bytes of a thread id, namespace, task or channel name in UTF-8. */
const MAX_NAME = 1200

const PAGE = 64

const fromLineage = (lineage: Lineage | undefined): Line | undefined => lineage as unknown as Line | undefined
const toLineage = (line: Line): Lineage => line as unknown as Lineage

const isLong = (text: string): boolean => text.length > MAX_NAME / 3 && new TextEncoder().encode(text).length > MAX_NAME

/** Whether a name can be stored; callers without types may pass anything. */
const nameProblem = (what: string, name: unknown): string | undefined => {
  if (typeof name !== "string") return `${what} must be a text`
  if (isLong(encodeName(name))) return `${what} is longer than ${MAX_NAME} bytes`
  return undefined
}

const invalid = (operation: string, thread: string, detail: string) =>
  new CheckpointerError({ operation, reason: "InvalidRequest", detail, thread: String(thread) })

const addressProblem = ({ namespace, thread }: Address): string | undefined =>
  thread === ""
    ? "the thread id is empty"
    : (nameProblem("the thread id", thread) ?? nameProblem("the namespace", namespace))

const equalJson = (a: Json, b: Json): boolean => {
  if (a === b) return true
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const keys = Object.keys(a)
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && equalJson((a as any)[key], (b as any)[key]))
  )
}

const matches = (record: Readonly<Record<string, Json>>, filter: Readonly<Record<string, Json>>): boolean =>
  Object.keys(filter).every((key) => Object.hasOwn(record, key) && equalJson(record[key], filter[key]))

const encodeWrite =
  (seq: number) =>
  (write: PendingWrite): EncodedWrite => ({
    task: encodeName(write.task),
    path: encodeName(write.path),
    channel: encodeName(write.channel),
    index: write.index,
    value: sealWrite(write, seq),
    replace: write.channel === INTERRUPT || write.channel === ERROR
  })

const encodeAddress = ({ namespace, thread }: Address): Address => ({
  thread: encodeName(thread),
  namespace: encodeName(namespace)
})

/** Keeps the numbers that a driver gave to graphs. */
const makeGraphs = (encoded: Encoded) => {
  const ids = new Map<string, number>()
  let last: { readonly graph: GraphIdentity; readonly id: number } | undefined
  const graphs = new Map<number, GraphIdentity>()
  const remember = (id: number, graph: GraphIdentity) => {
    ids.set(JSON.stringify([graph.name, graph.fingerprint]), id)
    graphs.set(id, graph)
  }
  return {
    known: (graph: GraphIdentity): number | undefined => {
      if (last?.graph === graph) return last.id
      const id = ids.get(JSON.stringify([graph.name, graph.fingerprint]))
      if (id !== undefined) last = { graph, id }
      return id
    },
    idOf: ({ fingerprint, name }: GraphIdentity) =>
      Effect.tap(encoded.graphId({ name: encodeName(name), fingerprint: encodeName(fingerprint) }), (id) =>
        Effect.sync(() => remember(id, { name, fingerprint }))
      ),
    graphOf: (id: number): Effect.Effect<GraphIdentity | undefined, CheckpointerError> => {
      const known = graphs.get(id)
      if (known !== undefined) return Effect.succeed(known)
      return Effect.map(encoded.graph(id), (found) => {
        if (found === undefined) return undefined
        const graph = { name: decodeName(found.name), fingerprint: decodeName(found.fingerprint) }
        remember(id, graph)
        return graph
      })
    }
  }
}

const makeWriting = (encoded: Encoded, graphs: ReturnType<typeof makeGraphs>) => {
  const problemOf = (commit: Commit): string | undefined => {
    if (!Number.isSafeInteger(commit.seq) || !(commit.seq > commit.expectedHead)) {
      return `seq ${commit.seq} does not come after the head ${commit.expectedHead}`
    }
    const line = fromLineage(commit.lineage)
    if (commit.parent?.seq !== line?.seq) return "the lineage is not that of the parent"
    return addressProblem(commit.address)
  }

  const stageWith = (commit: Commit, graph: number): Effect.Effect<Staged, CheckpointerError> => {
    const problem = problemOf(commit)
    if (problem !== undefined) return Effect.fail(invalid("commit", commit.address.thread, problem))
    let row: ReturnType<typeof encode>
    try {
      row = encode(commit, fromLineage(commit.lineage), graph)
    } catch (cause) {
      return Effect.fail(invalid("commit", commit.address.thread, `the metadata is not JSON (${cause})`))
    }
    const isRoot = commit.address.namespace === ""
    return Effect.succeed({
      commit,
      lineage: toLineage(row.line),
      append: {
        address: encodeAddress(commit.address),
        expectedHead: commit.expectedHead,
        seq: commit.seq,
        log: row.log,
        data: row.data,
        requires:
          commit.parent !== undefined && commit.parent.seq !== commit.expectedHead ? commit.parent.seq : undefined,
        writes: commit.writes?.map(encodeWrite(commit.seq)) ?? [],
        created: commit.created,
        thread:
          isRoot && (commit.expectedHead === 0 || commit.status !== undefined)
            ? { graph, status: commit.status, metadata: JSON.stringify(commit.metadata) }
            : undefined,
        fence: commit.fence
      }
    })
  }

  const stage: Service["stage"] = (commit) =>
    Effect.suspend(() => {
      const known = graphs.known(commit.graph)
      return known === undefined
        ? Effect.flatMap(graphs.idOf(commit.graph), (id) => stageWith(commit, id))
        : stageWith(commit, known)
    })

  const write: Service["write"] = (staged) =>
    Effect.flatMap(encoded.append(staged.map(({ append }) => append)), (written) => {
      const refused = written.indexOf(false)
      if (refused < 0) return Effect.void
      const { address, expectedHead } = staged[refused]!.commit
      return new ThreadConflict({ ...address, expected: expectedHead })
    })

  const commit: Service["commit"] = (commit) =>
    Effect.flatMap(stage(commit), (staged) => Effect.as(write([staged]), staged.lineage))

  const putWrites: Service["putWrites"] = (address, seq, writes, fence) =>
    Effect.suspend(() => {
      const problem =
        addressProblem(address) ??
        writes
          .map(({ channel, task }) => nameProblem("the task id", task) ?? nameProblem("the channel", channel))
          .find(Boolean)
      if (problem !== undefined) return Effect.fail(invalid("putWrites", address.thread, problem))
      return Effect.flatMap(
        encoded.putWrites(encodeAddress(address), seq, writes.map(encodeWrite(seq)), fence),
        (written): Effect.Effect<void, ThreadConflict> =>
          written ? Effect.void : new ThreadConflict({ ...address, expected: seq })
      )
    })

  return { stage, write, commit, putWrites }
}

const makeReading = (encoded: Encoded, graphs: ReturnType<typeof makeGraphs>) => {
  const readerOf = (address: Address) =>
    makeReader({ data: (ranges) => encoded.data(address, ranges), logs: (ranges) => encoded.logs(address, ranges) })

  const decodeWrites = (seq: number, writes: ReadonlyArray<PendingWrite>): ReadonlyArray<PendingWrite> =>
    writes
      .map((write) => ({
        ...write,
        task: decodeName(write.task),
        path: decodeName(write.path),
        channel: decodeName(write.channel)
      }))
      .map((write) => unsealWrite(write, seq))
      .sort(pendingWriteOrder)

  const loaded = (
    { before, items, own, state }: Read,
    graph: GraphIdentity,
    head: number,
    writes: Loaded["writes"]
  ): Loaded => {
    const { row } = state
    return {
      head,
      writes,
      lineage: toLineage(lineOf(state, before)),
      checkpoint: {
        seq: row.seq,
        id: makeId(row.seq, row.created),
        parent: row.parent && { seq: row.parent.seq, id: makeId(row.parent.seq, row.parent.created) },
        step: row.step,
        source: row.source,
        created: row.created,
        version: row.version,
        resumedAt: row.resumedAt,
        seen: seenOf(state.seen),
        ran: row.fields.n ?? [],
        results: resultsOf(state, own),
        graph,
        parents: recordOf(state.parents) as Readonly<Record<string, string>>,
        metadata: recordOf(state.metadata),
        channels: Array.from(state.cells, ([name, cell]) => ({
          name,
          version: cell.version,
          append: cell.append,
          value: cell.append ? (items.get(name) ?? []) : cell.value
        }))
      }
    }
  }

  /** Decodes one row; `undefined` where `wanted` refuses it. */
  const decodeRow = Effect.fnUntraced(function* (
    reader: ReturnType<typeof readerOf>,
    row: EncodedRow,
    head: number,
    wanted: (id: string, record: () => Readonly<Record<string, Json>>) => boolean
  ) {
    const parsed = yield* decoding(() => parse(row.seq, row.data))
    const found = yield* reader.state(parsed)
    const { metadata, graph: graphNumber } = found.state
    const { created, seq, source, step } = parsed
    if (!wanted(makeId(seq, created), () => ({ ...recordOf(metadata), source, step }))) return undefined
    const read = yield* reader.items(found)
    const graph = yield* graphs.graphOf(graphNumber)
    return yield* decoding(() => {
      if (graph === undefined) throw new RecordError(`row ${seq} names graph ${graphNumber}, which is not stored`)
      return loaded(read, graph, head, row.writes.length === 0 ? [] : decodeWrites(seq, row.writes))
    })
  })

  const located = (address: Address, row: EncodedRow) => (error: RecordError | CheckpointerError) =>
    error instanceof RecordError
      ? new CheckpointDecodeError({
          ...address,
          checkpoint: `#${row.seq}`,
          channel: error.channel,
          detail: error.message
        })
      : error

  const load: Service["load"] = Effect.fnUntraced(function* (address, id) {
    const problem = addressProblem(address)
    if (problem !== undefined) return yield* invalid("load", address.thread, problem)
    const seq = id === undefined ? undefined : seqOfId(String(id))
    if (id !== undefined && seq === undefined) return undefined
    const at = encodeAddress(address)
    const { head, row } = yield* encoded.read(at, seq)
    if (row === undefined) return undefined
    return yield* decodeRow(readerOf(at), row, head, (found) => id === undefined || found === id).pipe(
      Effect.mapError(located(address, row))
    )
  })

  const list: Service["list"] = (address, options = {}) => {
    const { before, filter = {}, limit = Number.POSITIVE_INFINITY } = options
    const last = before === undefined ? Number.MAX_SAFE_INTEGER : seqOfId(String(before))
    const problem =
      addressProblem(address) ??
      (last === undefined ? `"${before}" is no checkpoint id` : undefined) ??
      (limit >= 0 && (limit === Number.POSITIVE_INFINITY || Number.isInteger(limit))
        ? undefined
        : `the limit ${limit} is no number of checkpoints`)
    if (problem !== undefined || last === undefined)
      return Stream.fail(invalid("list", address.thread, String(problem)))
    const at = encodeAddress(address)
    const reader = readerOf(at)
    const filtered = Object.keys(filter).length > 0
    const page = Effect.fnUntraced(function* (head: number, from: number, left: number) {
      const size = filtered ? PAGE : Math.min(PAGE, left)
      const rows = size === 0 ? [] : yield* encoded.page(at, from, size)
      const found: Array<Loaded> = []
      for (const row of rows) {
        if (found.length >= left) break
        const one = yield* decodeRow(reader, row, head, (_, record) => !filtered || matches(record(), filter)).pipe(
          Effect.mapError(located(address, row))
        )
        if (one !== undefined) found.push(one)
      }
      const rest = left - found.length
      const next =
        rows.length < size || size === 0 || rest === 0 ? Option.none() : Option.some([rows.at(-1)!.seq, rest] as const)
      return [Chunk.unsafeFromArray(found), next] as const
    })
    return Stream.unwrap(
      Effect.map(encoded.read(at, undefined), ({ head }) =>
        Stream.paginateChunkEffect([last, limit] as readonly [number, number], ([from, left]) => page(head, from, left))
      )
    )
  }

  return { load, list }
}

const makeThreads = (encoded: Encoded, graphs: ReturnType<typeof makeGraphs>) => {
  const threadInfo = Effect.fnUntraced(function* (row: EncodedThreadInfo) {
    const graph = yield* graphs.graphOf(row.graph)
    if (graph === undefined) return undefined
    const metadata = yield* Effect.try({
      try: () => JSON.parse(row.metadata) as ThreadInfo["metadata"],
      catch: (cause) =>
        new CheckpointerError({
          operation: "threads",
          reason: "Corrupt",
          detail: "the metadata is no JSON",
          thread: row.thread,
          cause
        })
    })
    return { ...row, thread: decodeName(row.thread), graph, metadata }
  })

  const threads: Service["threads"] = (options = {}) => {
    const wanted = (info: ThreadInfo): boolean =>
      (options.status === undefined || info.status === options.status) &&
      (options.graph === undefined || info.graph.name === options.graph) &&
      (options.updatedSince === undefined || info.updated >= options.updatedSince) &&
      (options.updatedBefore === undefined || info.updated < options.updatedBefore) &&
      matches(info.metadata, options.metadata ?? {})
    return Stream.paginateChunkEffect(undefined as string | undefined, (after) =>
      Effect.gen(function* () {
        const rows = yield* encoded.threads(after, PAGE, options)
        const found = (yield* Effect.forEach(rows, threadInfo)).filter((info) => info !== undefined)
        const next = rows.length < PAGE ? Option.none() : Option.some(rows.at(-1)!.thread)
        return [Chunk.unsafeFromArray(found.filter(wanted)), next] as const
      })
    )
  }

  /** Runs an operation on a thread whose name can be stored. */
  const onThread = <A>(
    operation: string,
    thread: string,
    run: (thread: string) => Effect.Effect<A, CheckpointerError>
  ) =>
    Effect.suspend(() => {
      const problem = addressProblem({ thread, namespace: "" })
      return problem === undefined ? run(encodeName(thread)) : Effect.fail(invalid(operation, thread, problem))
    })

  const now = Effect.clockWith((clock) => clock.currentTimeMillis)

  return {
    threads,
    namespaces: (thread: string) =>
      onThread("namespaces", thread, (name) =>
        Effect.map(encoded.namespaces(name), (found) => found.map(decodeName).sort())
      ),
    setStatus: (thread: string, status: ThreadStatus) =>
      onThread("setStatus", thread, (name) => Effect.flatMap(now, (at) => encoded.setStatus(name, status, at))),
    takeFence: (thread: string) =>
      onThread("takeFence", thread, (name) => Effect.flatMap(now, (at) => encoded.takeFence(name, at))),
    deleteThread: (thread: string) => onThread("deleteThread", thread, (name) => encoded.deleteThread(name))
  }
}

/** The typed service over a driver. */
export const makeEncoded = (encoded: Encoded): Service => {
  const graphs = makeGraphs(encoded)
  return {
    ...makeWriting(encoded, graphs),
    ...makeReading(encoded, graphs),
    ...makeThreads(encoded, graphs),
    dropWrites: (address, seq, tasks) =>
      Effect.suspend(() => encoded.dropWrites(encodeAddress(address), seq, tasks.map(encodeName))),
    encoded
  }
}

/** Keeps everything in this process, as encoded texts, until the layer is released. */
export const layerMemory: Layer.Layer<Checkpointer> = Layer.sync(Checkpointer, () => makeEncoded(makeMemory()))
