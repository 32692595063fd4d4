/**
 * The reading half of the typed service.
 */
import * as Chunk from "effect/Chunk"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import {
  type Address,
  type GraphIdentity,
  makeId,
  type PendingWrite,
  pendingWriteOrder,
  seqOfId,
  type ThreadStatus
} from "../Checkpoint.js"
import type { Encoded, EncodedRow, EncodedThreadInfo } from "../CheckpointDriver.js"
import type { Checkpointer, ListOptions, Loaded, ThreadInfo } from "../Checkpointer.js"
import { CheckpointDecodeError, CheckpointerError } from "../GraphError.js"
import { addressProblem, encodeAddress, invalid, matches, now, onThread } from "./address.js"
import { lineOf, recordOf, resultsOf, type State, seenOf } from "./fold.js"
import { andThen, decoding, hasEnded, type Read, Reader, type Reading, readFrom } from "./reader.js"
import { decodeName, RecordError, unsealWrite } from "./record.js"
import { type Graphs, toLineage } from "./writing.js"

type Service = Context.Tag.Service<typeof Checkpointer>

/** Rows that are read at once. */
const PAGE = 64

/** Says where a damaged row is. */
export const located =
  (address: Address, seq: number | undefined) =>
  (error: RecordError | CheckpointerError): CheckpointDecodeError | CheckpointerError =>
    error instanceof RecordError
      ? new CheckpointDecodeError({
          ...address,
          checkpoint: seq === undefined ? undefined : `#${seq}`,
          channel: error.channel,
          detail: error.message
        })
      : error

/** Which checkpoints a caller wants, and how many. */
interface Wanted {
  readonly is: (state: State) => boolean
  readonly most: number
}

/** A decoded row with its pending writes. */
interface ReadRow extends Read {
  readonly writes: Loaded["writes"]
}

/** Decodes those rows that are wanted, newest first. */
function* readRows(reader: Reader, rows: ReadonlyArray<EncodedRow>, wanted: Wanted): Reading<ReadonlyArray<ReadRow>> {
  const read: Array<ReadRow> = []
  for (const row of rows) {
    if (read.length >= wanted.most) break
    const found = yield* reader.state(reader.rowOf(row))
    reader.forget(row.seq)
    if (!wanted.is(found.state)) continue
    const { before, items, own, state } = yield* reader.items(found)
    read.push({ before, items, own, state, writes: decodeWrites(row.seq, row.writes) })
  }
  return read
}

const NO_WRITES: Loaded["writes"] = []

const decodeWrites = (seq: number, writes: ReadonlyArray<PendingWrite>): Loaded["writes"] =>
  writes.length === 0
    ? NO_WRITES
    : writes
        .map((write) => ({
          ...write,
          task: decodeName(write.task),
          path: decodeName(write.path),
          channel: decodeName(write.channel)
        }))
        .map((write) => unsealWrite(write, seq))
        .sort(pendingWriteOrder)

/** A row that was read, with its pending writes, as the engine sees it. */
const toLoaded = (
  { before, items, own, state, writes }: ReadRow,
  graph: GraphIdentity | undefined,
  head: number
): Loaded => {
  const { row } = state
  if (graph === undefined) throw new RecordError(`row ${row.seq} names graph ${state.graph}, which is not stored`)
  const results = resultsOf(state, own)
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
      ran: row.fields.n ?? results.map(({ task }) => task),
      results,
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

/** Loads rows of a namespace. */
const makeLoadRows =
  (encoded: Encoded, graphs: Graphs) =>
  (address: Address, reader: Reader, rows: ReadonlyArray<EncodedRow>, head: number, wanted: Wanted) => {
    const read = readFrom(encoded, encodeAddress(address), () => readRows(reader, rows, wanted), rows)
    const loaded = andThen(read, (found) =>
      andThen(graphs.graphsOf(found.map(({ state }) => state.graph)), (graphOf) =>
        decoding(() =>
          found.map((one) => {
            reader.at = one.state.row.seq
            return toLoaded(one, graphOf(one.state.graph), head)
          })
        )
      )
    )
    return hasEnded(loaded) ? loaded : Effect.mapError(loaded, (error) => located(address, reader.at)(error))
  }

/** What is wrong with a request for a list of checkpoints. */
const listProblem = (address: Address, { before, limit = 0 }: ListOptions): string | undefined => {
  const problem = addressProblem(address)
  if (problem !== undefined) return problem
  if (before !== undefined && seqOfId(String(before)) === undefined) return `"${before}" is no checkpoint id`
  const isNumber = limit === Number.POSITIVE_INFINITY || (Number.isInteger(limit) && limit >= 0)
  return isNumber ? undefined : `the limit ${limit} is no number of checkpoints`
}

const NOTHING = Effect.succeed(undefined)

/** `load` and `list` over a driver. */
export const makeReading = (encoded: Encoded, graphs: Graphs) => {
  const loadRows = makeLoadRows(encoded, graphs)

  const load: Service["load"] = (address, id) => {
    const problem = addressProblem(address)
    if (problem !== undefined) return invalid("load", address.thread, problem)
    const seq = id === undefined ? undefined : seqOfId(String(id))
    if (id !== undefined && seq === undefined) return NOTHING
    const is = ({ row }: State) => id === undefined || makeId(row.seq, row.created) === id
    return Effect.flatMap(encoded.read(encodeAddress(address), seq), ({ head, row }) =>
      row === undefined
        ? NOTHING
        : andThen(loadRows(address, new Reader(), [row], head, { is, most: 1 }), ([loaded]) => Effect.succeed(loaded))
    )
  }

  const list: Service["list"] = (address, options = {}) => {
    const { before, filter = {}, limit = Number.POSITIVE_INFINITY } = options
    const problem = listProblem(address, options)
    if (problem !== undefined) return Stream.fail(invalid("list", address.thread, problem))
    const last = before === undefined ? Number.MAX_SAFE_INTEGER : seqOfId(String(before))!
    const at = encodeAddress(address)
    const filtered = Object.keys(filter).length > 0
    const is = ({ metadata, row: { source, step } }: State) =>
      !filtered || matches({ ...recordOf(metadata), source, step }, filter)
    const page = Effect.fnUntraced(function* (reader: Reader, head: number, from: number, left: number) {
      const size = filtered ? PAGE : Math.min(PAGE, left)
      const rows = size === 0 ? [] : yield* encoded.page(at, from, size)
      const found = yield* loadRows(address, reader, rows, head, { is, most: left })
      const rest = left - found.length
      const next =
        rows.length < size || size === 0 || rest === 0 ? Option.none() : Option.some([rows.at(-1)!.seq, rest] as const)
      return [Chunk.unsafeFromArray(found), next] as const
    })
    return Stream.unwrap(
      Effect.map(encoded.read(at, undefined), ({ head }) => {
        const reader = new Reader()
        return Stream.paginateChunkEffect([last, limit] as readonly [number, number], ([from, left]) =>
          page(reader, head, from, left)
        )
      })
    )
  }

  return { load, list }
}

/** What concerns whole threads, over a driver. */
export const makeThreads = (encoded: Encoded, graphs: Graphs) => {
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

  return {
    threads,
    thread: (thread: string) =>
      onThread("threads", thread, (name) =>
        Effect.flatMap(encoded.thread(name), (row) => (row === undefined ? Effect.succeed(undefined) : threadInfo(row)))
      ),
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
