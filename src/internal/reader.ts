/**
 * Loads states from rows: which rows a checkpoint is spread over, and how to reuse what was read for its neighbours.
 */
import * as Effect from "effect/Effect"
import type { Json } from "../Checkpoint.js"
import type { Column } from "../CheckpointDriver.js"
import {
  between,
  type Cell,
  firstOf,
  fold,
  type Items,
  itemsOf,
  parse,
  parseLog,
  type Row,
  type State
} from "./fold.js"
import { type Ancestry, type Range, RecordError, ROOT } from "./record.js"

/** Where the rows of one namespace come from. */
export interface Rows<E> {
  readonly data: (ranges: ReadonlyArray<Range>) => Effect.Effect<Column, E>
  readonly logs: (ranges: ReadonlyArray<Range>) => Effect.Effect<Column, E>
}

/** A state with the items of its append channels. */
export interface Read {
  readonly state: State
  readonly before: Ancestry
  readonly items: ReadonlyMap<string, ReadonlyArray<Json>>
  /** What the state's own row appended. */
  readonly own: Items | undefined
}

type Logs = ReadonlyArray<{ readonly seq: number; readonly items: Items }>

/** Runs decoding code; whatever it throws means damaged rows. */
export const decoding = <A>(decode: () => A): Effect.Effect<A, RecordError> =>
  Effect.try({
    try: decode,
    catch: (cause) => (cause instanceof RecordError ? cause : new RecordError(`it is damaged (${cause})`))
  })

/**
 * Remembers states, branches and logs as long as one caller reads one namespace.
 *
 * Each load makes a reader, so its functions are plain ones: to make an `Effect.fnUntraced` costs more than to run it.
 */
export const makeReader = <E>(rows: Rows<E>) => {
  const states = new Map<number, State>()
  const runs = new Map<number, Ancestry>()
  let logs: { readonly run: number; readonly from: number; readonly to: number; readonly rows: Logs } | undefined

  /** The runs before the run that begins at `run`. */
  const beforeRun = (run: number) =>
    Effect.gen(function* () {
      if (run === 0) return ROOT
      const known = runs.get(run)
      if (known !== undefined) return known
      const [start] = yield* rows.data([[run, run]])
      // Of a removed checkpoint the log remains, if others need the run it began.
      const [log] = start === undefined ? yield* rows.logs([[run, run]]) : []
      const before = yield* decoding(() =>
        start !== undefined ? parse(run, start.text).before : log && parseLog(run, log.text).before
      )
      if (before === undefined) return yield* Effect.fail(new RecordError(`row ${run} does not begin a run`))
      runs.set(run, before)
      return before
    })

  /** The branch that ends with `row`, at least back to `from`. */
  const branch = (row: Row, before: Ancestry, from: number) =>
    Effect.gen(function* () {
      let ranges: ReadonlyArray<Range> = [...before.ranges, [row.run, row.seq]]
      for (let block = before.block; block !== 0 && ranges[0]![0] > from; ) {
        const older = yield* beforeRun(block)
        ranges = [...older.ranges, ...ranges]
        block = older.block
      }
      return ranges
    })

  const parentState = (row: Row, before: Ancestry) =>
    Effect.gen(function* () {
      const parent = row.parent?.seq ?? 0
      const known = states.get(parent)
      if (known !== undefined) return known
      const found = yield* rows.data(between(yield* branch(row, before, row.base), row.base, parent))
      return yield* decoding(() => {
        const chain = found.map(({ seq, text }) => parse(seq, text))
        const whole = chain.findLastIndex((link) => link.base === link.seq)
        let state: State | undefined
        for (const link of whole < 0 ? [] : chain.slice(whole)) {
          state = fold(link, state)
          states.set(link.seq, state)
        }
        return state
      })
    })

  const logsOf = (row: Row, before: Ancestry, from: number) =>
    Effect.gen(function* () {
      if (logs !== undefined && logs.run === row.run && logs.from <= from && logs.to >= row.seq) return logs.rows
      const found = yield* rows.logs(between(yield* branch(row, before, from), from, row.seq))
      const parsed = yield* decoding(() => found.map(({ seq, text }) => ({ seq, items: parseLog(seq, text).items })))
      logs = { run: row.run, from, to: row.seq, rows: parsed }
      return parsed
    })

  /** The state of a row without its append channels' items. */
  const state = (row: Row) =>
    Effect.gen(function* () {
      const before = row.before ?? (yield* beforeRun(row.run))
      if (row.before !== undefined) runs.set(row.seq, row.before)
      const parent = row.base === row.seq ? undefined : yield* parentState(row, before)
      const found = yield* decoding(() => fold(row, parent))
      states.set(row.seq, found)
      return { state: found, before }
    })

  /** Adds the items of the append channels. */
  const items = ({ before, state }: { readonly state: State; readonly before: Ancestry }) =>
    Effect.gen(function* () {
      const lists: Array<readonly [string, Cell & { readonly append: true }]> = []
      for (const [name, cell] of state.cells) if (cell.append) lists.push([name, cell])
      const found = lists.some(([, cell]) => cell.length > 0) ? yield* logsOf(state.row, before, firstOf(state)) : []
      return yield* decoding((): Read => {
        const { seq } = state.row
        const items = new Map(lists.map(([name, cell]) => [name, itemsOf(name, cell, found, seq)]))
        return { state, before, items, own: found.find((log) => log.seq === seq)?.items }
      })
    })

  return { state, items, branch, beforeRun }
}
