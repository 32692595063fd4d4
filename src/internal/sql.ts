/**
 * What the SQL drivers share: running constant statement texts on a connection, retries, typed failures.
 */
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { PendingWrite, ThreadStatus } from "../Checkpoint.js"
import type { Append, Encoded, EncodedThreadInfo } from "../CheckpointDriver.js"
import { CheckpointerError } from "../GraphError.js"

/** A statement's rows, and how many rows it changed. */
export interface Result {
  readonly rows: ReadonlyArray<any>
  readonly count: number
}

/** Runs one statement. */
export type Run = (text: string, params: ReadonlyArray<unknown>) => Effect.Effect<Result, SqlError>

interface Statement {
  readonly text: string
  readonly params: ReadonlyArray<unknown>
}

/**
 * Statements one after the other, chosen by the results of those before. A database runs them within one turn, where a
 * statement costs no more than SQLite's own call, or as an Effect each.
 */
export type Program<A> = Generator<Statement, A, Result>

/** One statement of a program. */
export const run = (text: string, params: ReadonlyArray<unknown>): Statement => ({ text, params })

/** A database: statements alone, in programs, and in transactions. */
export interface Db {
  readonly run: Run
  readonly ask: <A>(program: () => Program<A>) => Effect.Effect<A, SqlError>
  /** For programs that only read, what they remember included: they may be begun anew. */
  readonly read: <A>(program: () => Program<A>) => Effect.Effect<A, SqlError>
  /** Commits if the program ends. Nothing else runs on the connection meanwhile. */
  readonly transaction: <A>(program: () => Program<A>) => Effect.Effect<A, SqlError>
  /** Whether statements join a transaction that others began and may roll back. */
  readonly joins: Effect.Effect<boolean>
}

/** Runs a program's statements as Effects. */
export const perform = <A>(run: Run, program: () => Program<A>): Effect.Effect<A, SqlError> =>
  Effect.suspend(() => {
    const statements = program()
    const go = (step: IteratorResult<Statement, A>): Effect.Effect<A, SqlError> =>
      step.done
        ? Effect.succeed(step.value)
        : Effect.flatMap(run(step.value.text, step.value.params), (result) => go(statements.next(result)))
    return go(statements.next())
  })

type Reason = CheckpointerError["reason"]

const codeOf = (error: SqlError): string => {
  const cause: unknown = error.cause
  return typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : ""
}

const REASONS: ReadonlyArray<readonly [pattern: RegExp, reason: Reason]> = [
  [/^SQLITE_(BUSY|LOCKED)|^(40001|40P01|55P03)$/, "Busy"],
  [/^SQLITE_(CORRUPT|NOTADB)|^XX00[12]$/, "Corrupt"],
  [/^SQLITE_TOOBIG|^54/, "LimitExceeded"],
  [/^SQLITE_(CONSTRAINT|MISMATCH|ERROR|RANGE)|^(21|22|23|25|42)/, "InvalidRequest"]
]

/** Why a statement failed; what is not known counts as a storage that can't be reached. */
export const reasonOf = (error: SqlError): Reason => {
  const code = codeOf(error)
  return REASONS.find(([pattern]) => pattern.test(code))?.[1] ?? "Unavailable"
}

const detailOf = (error: SqlError): string =>
  error.cause instanceof Error ? error.cause.message : (error.message ?? "unknown")

const toError = (operation: string, thread: string | undefined) => (error: SqlError) =>
  new CheckpointerError({ operation, reason: reasonOf(error), detail: detailOf(error), thread, cause: error.cause })

/** Waits between attempts at a busy or lost database: from 5 ms on, doubled up to 250 ms, for 5 seconds in all. */
export const defaultRetry: Schedule.Schedule<unknown> = Schedule.exponential("5 millis").pipe(
  Schedule.union(Schedule.spaced("250 millis")),
  Schedule.jittered,
  Schedule.upTo("5 seconds")
)

/** Whether another attempt may succeed. */
const mayPass = (error: SqlError): boolean => {
  const reason = reasonOf(error)
  return reason === "Busy" || reason === "Unavailable"
}

/** Runs an operation of a driver; `attempt` learns whether an earlier attempt failed, and so may have been carried out. */
export type Guard = <A>(
  operation: string,
  thread: string | undefined,
  attempt: (again: boolean) => Effect.Effect<A, SqlError>
) => Effect.Effect<A, CheckpointerError>

/** Retries what may pass and types what does not; costs one operation while nothing fails. */
export const makeGuard =
  (retry: Schedule.Schedule<unknown>): Guard =>
  (operation, thread, attempt) =>
    Effect.catchAll(attempt(false), (error) => {
      let first = true
      return Effect.suspend(() => {
        if (!first) return attempt(true)
        first = false
        return Effect.fail(error)
      }).pipe(Effect.retry({ schedule: retry, while: mayPass }), Effect.mapError(toError(operation, thread)))
    })

/** Statements about graphs, with the parameters (name, fingerprint), the same, and (id). */
interface GraphStatements {
  readonly addGraph: string
  readonly graphId: string
  readonly graph: string
}

/** The table of graphs, which is the same in every database. */
export const makeGraphTable = (
  db: Db,
  guard: Guard,
  statements: GraphStatements
): Pick<Encoded, "graphId" | "graph"> => ({
  graphId: ({ fingerprint, name }) =>
    guard("commit", undefined, () =>
      Effect.zipWith(
        Effect.zipRight(
          db.run(statements.addGraph, [name, fingerprint]),
          db.run(statements.graphId, [name, fingerprint])
        ),
        db.joins,
        ({ rows }, joins) => ({ value: Number(rows[0].id), lasts: !joins })
      )
    ),
  graph: (id) =>
    guard("load", undefined, () =>
      Effect.zipWith(db.run(statements.graph, [id]), db.joins, ({ rows: [row] }, joins) =>
        row === undefined ? undefined : { value: { name: row.name, fingerprint: row.fingerprint }, lasts: !joins }
      )
    )
})

/** Statements that read the tables of threads and namespaces, in the database's dialect. */
interface ThreadStatements {
  readonly namespaces: string
  readonly oneThread: string
  readonly threads: string
  readonly setStatus: string
}

const toInfo = ({ created, graph, metadata, status, thread, updated }: any): EncodedThreadInfo => ({
  thread,
  graph: Number(graph),
  status: status as ThreadStatus,
  created: Number(created),
  updated: Number(updated),
  metadata
})

/** A time as the tables keep it: compared with whole milliseconds, a part of one counts as the next. */
const whole = (time: number): number => Math.ceil(Math.min(time, Number.MAX_SAFE_INTEGER))

/** What is known of threads, which is the same in every database. */
export const makeThreadTable = (
  db: Db,
  guard: Guard,
  statements: ThreadStatements
): Pick<Encoded, "namespaces" | "thread" | "threads" | "setStatus"> => ({
  namespaces: (thread) =>
    guard("namespaces", thread, () =>
      Effect.map(db.run(statements.namespaces, [thread]), ({ rows }) => rows.map((row) => String(row.namespace)))
    ),
  thread: (thread) =>
    guard("threads", thread, () =>
      Effect.map(db.run(statements.oneThread, [thread]), ({ rows: [row] }) => (row === undefined ? row : toInfo(row)))
    ),
  threads: (after, limit, { status, updatedBefore = Number.MAX_SAFE_INTEGER, updatedSince = 0 }) =>
    guard("threads", undefined, () =>
      Effect.map(
        db.run(statements.threads, [after ?? "", status ?? null, whole(updatedSince), whole(updatedBefore), limit]),
        ({ rows }) => rows.map(toInfo)
      )
    ),
  setStatus: (thread, status, now) =>
    guard("setStatus", thread, () => Effect.asVoid(db.run(statements.setStatus, [status, now, thread])))
})

const NO_WRITES: ReadonlyArray<PendingWrite> = []

/** Pending writes that were read as one JSON text. */
export const toWrites = (text: string): ReadonlyArray<PendingWrite> =>
  text === "[]"
    ? NO_WRITES
    : JSON.parse(text).map(([task, path, channel, index, value]: any) => ({ task, path, channel, index, value }))

/** Appends rows one after the other inside a transaction; what follows a refused row is refused. */
export function* appendInOrder(
  rows: ReadonlyArray<Append>,
  appendOne: (row: Append) => Program<boolean>
): Program<ReadonlyArray<boolean>> {
  const refused = new Set<Append>()
  const written: Array<boolean> = []
  for (const row of rows) {
    const isWritten = !(row.follows && refused.has(row.follows)) && (yield* appendOne(row))
    if (!isWritten) refused.add(row)
    written.push(isWritten)
  }
  return written
}
