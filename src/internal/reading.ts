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
  type Json,
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
import { lineOf, parse, recordOf, resultsOf, seenOf } from "./fold.js"
import { decoding, type Read, Reader, type Reading, readFrom } from "./reader.js"
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

/** Which checkpoints a caller wants: by id, or by metadata with source and step. */
type Wanted = (id: string, record: () => Readonly<Record<string, Json>>) => boolean

/** Decodes a row; `undefined` where it is not wanted. */
function* readRow(reader: Reader, { data, seq }: EncodedRow, wanted: Wanted): Reading<Read | undefined> {
  const row = parse(seq, data)
  const found = yield* reader.state(row)
  const record = () => ({ ...recordOf(found.state.metadata), source: row.source, step: row.step })
  return wanted(makeId(seq, row.created), record) ? yield* reader.items(found) : undefined
}

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

/** A row that was read, with its pending writes, as the engine sees it. */
const toLoaded = (
  { before, items, own, state }: Read,
  graph: GraphIdentity,
  head: number,
  writes: Loaded["writes"]
): Loaded => {
  const { row } = state
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

/** Loads one row of a namespace; `undefined` where it is not wanted. */
const makeLoadRow =
  (encoded: Encoded, graphs: Graphs) =>
  (address: Address, reader: Reader, row: EncodedRow, head: number, wanted: Wanted) =>
    Effect.flatMap(
      readFrom(encoded, address, () => readRow(reader, row, wanted)),
      (read) => {
        if (read === undefined) return Effect.succeed(undefined)
        const { graph: number } = read.state
        return Effect.flatMap(graphs.graphOf(number), (graph) =>
          decoding(() => {
            if (graph === undefined) throw new RecordError(`row ${row.seq} names graph ${number}, which is not stored`)
            return toLoaded(read, graph, head, row.writes.length === 0 ? [] : decodeWrites(row.seq, row.writes))
          })
        )
      }
    )

/** What is wrong with a request for a list of checkpoints. */
const listProblem = (address: Address, { before, limit = 0 }: ListOptions): string | undefined => {
  const problem = addressProblem(address)
  if (problem !== undefined) return problem
  if (before !== undefined && seqOfId(String(before)) === undefined) return `"${before}" is no checkpoint id`
  const isNumber = limit === Number.POSITIVE_INFINITY || (Number.isInteger(limit) && limit >= 0)
  return isNumber ? undefined : `the limit ${limit} is no number of checkpoints`
}

/** `load` and `list` over a driver. */
export const makeReading = (encoded: Encoded, graphs: Graphs) => {
  const loadRow = makeLoadRow(encoded, graphs)

  const load: Service["load"] = Effect.fnUntraced(function* (address, id) {
    const problem = addressProblem(address)
    if (problem !== undefined) return yield* invalid("load", address.thread, problem)
    const seq = id === undefined ? undefined : seqOfId(String(id))
    if (id !== undefined && seq === undefined) return undefined
    const at = encodeAddress(address)
    const { head, row } = yield* encoded.read(at, seq)
    if (row === undefined) return undefined
    const wanted = (found: string) => id === undefined || found === id
    return yield* Effect.mapError(loadRow(at, new Reader(), row, head, wanted), located(address, row.seq))
  })

  const list: Service["list"] = (address, options = {}) => {
    const { before, filter = {}, limit = Number.POSITIVE_INFINITY } = options
    const problem = listProblem(address, options)
    if (problem !== undefined) return Stream.fail(invalid("list", address.thread, problem))
    const last = before === undefined ? Number.MAX_SAFE_INTEGER : seqOfId(String(before))!
    const at = encodeAddress(address)
    const reader = new Reader()
    const filtered = Object.keys(filter).length > 0
    const wanted: Wanted = (_, record) => !filtered || matches(record(), filter)
    const page = Effect.fnUntraced(function* (head: number, from: number, left: number) {
      const size = filtered ? PAGE : Math.min(PAGE, left)
      const rows = size === 0 ? [] : yield* encoded.page(at, from, size)
      const found: Array<Loaded> = []
      for (const row of rows) {
        if (found.length >= left) break
        const one = yield* Effect.mapError(loadRow(at, reader, row, head, wanted), located(address, row.seq))
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
