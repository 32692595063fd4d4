/**
 * Removing checkpoints without harming those that stay: what a row needs of removed ones (its state, the items of its
 * append channels, the runs before its own) is written out or kept as a log without checkpoint.
 */
import * as Effect from "effect/Effect"
import { type Address, INTERRUPT, type Json, RESULT, RESUME } from "../Checkpoint.js"
import type { Encoded, Range, RawRow, Rewrite } from "../CheckpointDriver.js"
import { CheckpointerError } from "../GraphError.js"
import { between, firstOf, parse, parseLog, type Row, recordOf, stubLog, wholeData } from "./fold.js"
import { decoding, Reader, type Reading, readFrom } from "./reader.js"
import type { Ancestry, RecordError } from "./record.js"

/** What decides whether a checkpoint stays. */
export interface Candidate {
  readonly seq: number
  readonly created: number
  /** Position from the newest one, which has 0. */
  readonly age: number
  /** No other checkpoint is built on it. */
  readonly isLeaf: boolean
  /** A task of it waits for an answer. */
  readonly isPaused: boolean
  readonly metadata: Readonly<Record<string, Json>>
}

interface Known extends Omit<Candidate, "age" | "isLeaf"> {
  readonly row: Row
}

type Fails = CheckpointerError | RecordError

const PAGE = 200

const ATTEMPTS = 20

const isPaused = (writes: RawRow["writes"]): boolean => {
  const answered = new Set(
    writes.filter(({ channel }) => channel === RESUME || channel === RESULT).map(({ task }) => task)
  )
  return writes.some(({ channel, task }) => channel === INTERRUPT && !answered.has(task))
}

/** A reader of one namespace that also finds the runs that removed rows began. */
const makeScan = (encoded: Encoded, address: Address) => {
  const reader = new Reader()
  const read = <A>(reading: (reader: Reader) => Reading<A>) => readFrom(encoded, address, () => reading(reader))
  const all = Effect.fnUntraced(function* () {
    const checkpoints: Array<Known> = []
    /** Every row, and the runs before it if it begins one. */
    const rows = new Map<number, { readonly hasLog: boolean; readonly before: Ancestry | undefined }>()
    for (let after = 0; ; ) {
      const page: ReadonlyArray<RawRow> = yield* encoded.raw(address, after, PAGE)
      for (const { data, log, seq, writes } of page) {
        if (data === "") {
          const before = log === null ? undefined : (yield* decoding(() => parseLog(seq, log))).before
          rows.set(seq, { hasLog: log !== null, before })
          continue
        }
        const row = yield* decoding(() => parse(seq, data))
        const { state } = yield* read((reader) => reader.state(row))
        rows.set(seq, { hasLog: log !== null, before: row.before })
        checkpoints.push({
          row,
          seq,
          created: row.created,
          isPaused: isPaused(writes),
          metadata: recordOf(state.metadata)
        })
      }
      if (page.length < PAGE) return { checkpoints, rows }
      after = page.at(-1)!.seq
    }
  })
  return { read, all }
}

type Scan = ReturnType<typeof makeScan>

/** What the rows that stay need of the ones that go. */
const needsOf = Effect.fnUntraced(function* (
  scan: Scan,
  stays: ReadonlyArray<Known>,
  isKept: (seq: number) => boolean
) {
  const ranges: Array<Range> = []
  const runs = new Set<number>()
  const whole: Array<{ readonly seq: number; readonly data: string }> = []
  for (const { row, seq } of stays) {
    const found = yield* scan.read((reader) => reader.state(row))
    const first = firstOf(found.state)
    const branch = yield* scan.read((reader) => reader.branch(row, found.before, first))
    if (first < seq) ranges.push(...between(branch, first, seq - 1))
    if (row.run !== 0) runs.add(row.run)
    for (let block = found.before.block; block !== 0 && !runs.has(block); ) {
      runs.add(block)
      const start = block
      block = (yield* scan.read((reader) => reader.beforeRun(start))).block
    }
    if (row.base !== seq && row.parent !== undefined && !isKept(row.parent.seq)) {
      const data = yield* decoding(() => wholeData(found.state))
      whole.push({ seq, data })
    }
  }
  return { isNeeded: (seq: number) => ranges.some(([from, to]) => from <= seq && seq <= to), runs, whole }
})

const chunks = <A>(all: ReadonlyArray<A>, size: number): ReadonlyArray<ReadonlyArray<A>> =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, i) => all.slice(i * size, (i + 1) * size))

/** The changes that leave only the kept checkpoints, in groups of which each leaves every kept one readable. */
const planOf = Effect.fnUntraced(function* (
  encoded: Encoded,
  address: Address,
  head: number,
  keep: (candidate: Candidate) => boolean
) {
  const scan = makeScan(encoded, address)
  const { checkpoints, rows } = yield* scan.all()
  const parents = new Set(checkpoints.map(({ row }) => row.parent?.seq))
  const kept = new Set<number>()
  const stays = checkpoints.filter((one, i) => {
    const stay = keep({ ...one, age: checkpoints.length - 1 - i, isLeaf: !parents.has(one.seq) })
    if (stay) kept.add(one.seq)
    return stay
  })
  const removed = checkpoints.length - stays.length
  if (removed === 0) return { removed, groups: [] }
  const goes = Array.from(rows.keys()).filter((seq) => !kept.has(seq))
  if (stays.length === 0) return { removed, groups: [{ rows: [], remove: goes }] }
  const { isNeeded, runs, whole } = yield* needsOf(scan, stays, (seq) => kept.has(seq))
  const logsOf = (seqs: ReadonlyArray<number>) =>
    Effect.map(
      encoded.logs(
        address,
        seqs.map((seq) => [seq, seq])
      ),
      (found) => {
        const logs = new Map(found.map(({ seq, text }) => [seq, text]))
        return (seq: number) => logs.get(seq) ?? null
      }
    )
  const groups: Array<Pick<Rewrite, "rows" | "remove">> = []
  for (const part of chunks(whole, PAGE)) {
    const logOf = yield* logsOf(part.map(({ seq }) => seq))
    groups.push({ rows: part.map(({ data, seq }) => ({ seq, data, log: logOf(seq), writes: undefined })), remove: [] })
  }
  // The number after a removed head is used up, so that no writer mistakes another checkpoint for the one it knew.
  if (!kept.has(head)) groups.push({ rows: [{ seq: head + 1, data: "", log: null, writes: [] }], remove: [] })
  for (const seqs of chunks(goes.reverse(), PAGE)) {
    const stubs: Array<Rewrite["rows"][number]> = []
    const remove: Array<number> = []
    const logOf = yield* logsOf(seqs.filter((seq) => rows.get(seq)!.hasLog && isNeeded(seq)).reverse())
    for (const seq of seqs) {
      const before = runs.has(seq) ? rows.get(seq)!.before : undefined
      const log = yield* decoding(() => stubLog(seq, logOf(seq), before))
      if (log === null) remove.push(seq)
      else stubs.push({ seq, data: "", log, writes: [] })
    }
    groups.push({ rows: stubs, remove })
  }
  return { removed, groups }
})

/** Removes the checkpoints that `keep` refuses; returns how many those were. Begins anew when the head moves meanwhile. */
export const retain = Effect.fnUntraced(function* (
  encoded: Encoded,
  address: Address,
  now: number,
  keep: (candidate: Candidate) => boolean
) {
  attempts: for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    let { head } = yield* encoded.read(address, undefined)
    const { groups, removed } = yield* planOf(encoded, address, head, keep)
    for (const group of groups) {
      const done = yield* encoded.rewrite({ ...group, address, expectedHead: head, now })
      if (!done) continue attempts
      if (group.rows[0]?.seq === head + 1) head++
    }
    return removed
  }
  return yield* new CheckpointerError({
    operation: "prune",
    reason: "Busy",
    detail: `the thread was written to during ${ATTEMPTS} attempts`,
    thread: address.thread
  })
}) as (
  encoded: Encoded,
  address: Address,
  now: number,
  keep: (candidate: Candidate) => boolean
) => Effect.Effect<number, Fails>

/** Copies every row of a namespace that comes after those of the copy; false if somebody else writes to the copy. */
export const copyNamespace = Effect.fnUntraced(function* (encoded: Encoded, from: Address, to: Address, now: number) {
  for (let after = (yield* encoded.read(to, undefined)).head; ; ) {
    const page: ReadonlyArray<RawRow> = yield* encoded.raw(from, after, PAGE)
    if (page.length === 0) return true
    const rewrite = { address: to, expectedHead: after, rows: page, remove: [], now }
    if (!(yield* encoded.rewrite(rewrite))) return false
    after = page.at(-1)!.seq
  }
})
