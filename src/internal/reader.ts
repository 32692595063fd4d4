/**
 * Loads states from rows: which rows a checkpoint is spread over, and how to reuse what was read for its neighbours.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Address, Json } from "../Checkpoint.js"
import type { Column, Encoded, EncodedRow } from "../CheckpointDriver.js"
import type { CheckpointerError } from "../GraphError.js"
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

interface Question {
  readonly column: "data" | "logs"
  readonly ranges: ReadonlyArray<Range>
}

/** Decoding that asks for more rows where it needs them, which is seldom. */
export type Reading<A> = Generator<Question, A, Column>

function* ask(column: Question["column"], ranges: ReadonlyArray<Range>): Reading<Column> {
  return yield { column, ranges }
}

const damaged = (cause: unknown): RecordError =>
  cause instanceof RecordError ? cause : new RecordError(`it is damaged (${cause})`)

/** The answer, if rows that are at hand, newest first and without gaps, hold all of it. */
const answerIn = (rows: ReadonlyArray<EncodedRow>, { column, ranges }: Question): Column | undefined => {
  const newest = rows[0]
  if (column !== "data" || newest === undefined) return undefined
  const oldest = rows[rows.length - 1]!
  if (!ranges.every(([from, to]) => from >= oldest.seq && to <= newest.seq)) return undefined
  const asked = rows.filter(({ seq }) => ranges.some(([from, to]) => from <= seq && seq <= to))
  return asked.map(({ data, seq }) => ({ seq, text: data })).reverse()
}

const NO_ROWS: ReadonlyArray<EncodedRow> = []

/**
 * Reads a namespace with the rows of a driver, at once as far as none are needed, and with those of a page that is at
 * hand; whatever the decoding throws means damaged rows.
 */
export const readFrom = <A>(
  encoded: Pick<Encoded, Question["column"]>,
  address: Address,
  reading: () => Reading<A>,
  page: ReadonlyArray<EncodedRow> = NO_ROWS
): Effect.Effect<A, CheckpointerError | RecordError> => {
  const questions = reading()
  const go = (...answer: [] | [Column]): Effect.Effect<A, CheckpointerError | RecordError> => {
    try {
      let step = questions.next(...answer)
      while (step.done !== true) {
        const found = answerIn(page, step.value)
        if (found === undefined) return Effect.flatMap(encoded[step.value.column](address, step.value.ranges), go)
        step = questions.next(found)
      }
      return Effect.succeed(step.value)
    } catch (cause) {
      return Effect.fail(damaged(cause))
    }
  }
  return go()
}

/** Whether an effect has ended well before it was run. */
export const hasEnded = <A, E>(effect: Effect.Effect<A, E>): effect is Exit.Success<A, never> =>
  Exit.isExit(effect) && Exit.isSuccess(effect)

/** `Effect.flatMap` that goes on at once after what has ended: an operation costs as much as to decode a row. */
export const andThen = <A, E, B, E2>(
  effect: Effect.Effect<A, E>,
  f: (value: A) => Effect.Effect<B, E2>
): Effect.Effect<B, E | E2> => (hasEnded(effect) ? f(effect.value) : Effect.flatMap(effect, f))

/** A state with the items of its append channels. */
export interface Read {
  readonly state: State
  readonly before: Ancestry
  readonly items: ReadonlyMap<string, ReadonlyArray<Json>>
  /** What the state's own row appended. */
  readonly own: Items | undefined
}

type Logs = ReadonlyArray<{ readonly seq: number; readonly items: Items }>

/** Runs decoding code at once; whatever it throws means damaged rows. */
export const decoding = <A>(decode: () => A): Effect.Effect<A, RecordError> => {
  try {
    return Effect.succeed(decode())
  } catch (cause) {
    return Effect.fail(damaged(cause))
  }
}

/** Remembers states, branches and logs as long as one caller reads one namespace. */
export class Reader {
  private readonly states = new Map<number, State>()
  private readonly runs = new Map<number, Ancestry>()
  /** The row that is being read. */
  at: number | undefined
  private logs: { readonly run: number; readonly from: number; readonly to: number; readonly rows: Logs } | undefined;

  /** The runs before the run that begins at `run`. */
  *beforeRun(run: number): Reading<Ancestry> {
    if (run === 0) return ROOT
    const known = this.runs.get(run)
    if (known !== undefined) return known
    const [start] = yield* ask("data", [[run, run]])
    // Of a removed checkpoint the log remains, if others need the run it began.
    const [log] = start === undefined ? yield* ask("logs", [[run, run]]) : []
    const before = start !== undefined ? parse(run, start.text).before : log && parseLog(run, log.text).before
    if (before === undefined) throw new RecordError(`row ${run} does not begin a run`)
    this.runs.set(run, before)
    return before
  }

  /** The branch that ends with `row`, at least back to `from`. */
  *branch(row: Row, before: Ancestry, from: number): Reading<ReadonlyArray<Range>> {
    let ranges: ReadonlyArray<Range> = [...before.ranges, [row.run, row.seq]]
    for (let block = before.block; block !== 0 && ranges[0]![0] > from; ) {
      const older = yield* this.beforeRun(block)
      ranges = [...older.ranges, ...ranges]
      block = older.block
    }
    return ranges
  }

  private *parentState(row: Row, before: Ancestry): Reading<State | undefined> {
    const parent = row.parent?.seq ?? 0
    const known = this.states.get(parent)
    if (known !== undefined) return known
    const found = yield* ask("data", between(yield* this.branch(row, before, row.base), row.base, parent))
    const chain = found.map(({ seq, text }) => parse(seq, text))
    const whole = chain.findLastIndex((link) => link.base === link.seq)
    let state: State | undefined
    for (const link of whole < 0 ? [] : chain.slice(whole)) {
      state = fold(link, state)
      this.states.set(link.seq, state)
    }
    return state
  }

  private *logsOf(row: Row, before: Ancestry, from: number): Reading<Logs> {
    const { logs } = this
    if (logs !== undefined && logs.run === row.run && logs.from <= from && logs.to >= row.seq) return logs.rows
    const found = yield* ask("logs", between(yield* this.branch(row, before, from), from, row.seq))
    const rows = found.map(({ seq, text }) => ({ seq, items: parseLog(seq, text).items }))
    this.logs = { run: row.run, from, to: row.seq, rows }
    return rows
  }

  /** The state of a row without its append channels' items. */
  *state(row: Row): Reading<{ readonly state: State; readonly before: Ancestry }> {
    const before = row.before ?? (yield* this.beforeRun(row.run))
    if (row.before !== undefined) this.runs.set(row.seq, row.before)
    const known = this.states.get(row.seq)
    if (known?.row === row) return { state: known, before }
    const parent = row.base === row.seq ? undefined : yield* this.parentState(row, before)
    const state = fold(row, parent)
    this.states.set(row.seq, state)
    return { state, before }
  }

  /** A row, parsed unless it was read for a newer one. */
  rowOf({ data, seq }: EncodedRow): Row {
    this.at = seq
    return this.states.get(seq)?.row ?? parse(seq, data)
  }

  /** Forgets a state that no older row needs. */
  forget(seq: number): void {
    this.states.delete(seq)
  }

  /** Adds the items of the append channels. */
  *items({ before, state }: { readonly state: State; readonly before: Ancestry }): Reading<Read> {
    const lists: Array<readonly [string, Cell & { readonly append: true }]> = []
    for (const [name, cell] of state.cells) if (cell.append) lists.push([name, cell])
    const isFilled = lists.some(([, cell]) => cell.length > 0)
    const found = isFilled ? yield* this.logsOf(state.row, before, firstOf(state)) : []
    const { seq } = state.row
    const items = new Map(lists.map(([name, cell]) => [name, itemsOf(name, cell, found, seq)]))
    return { state, before, items, own: found.find((log) => log.seq === seq)?.items }
  }
}
