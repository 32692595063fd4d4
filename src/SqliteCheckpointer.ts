/**
 * Durable state in a SQLite file, on a connection of its own: one statement a superstep.
 *
 * It calls `better-sqlite3`, the driver beneath `@effect/sql-sqlite-node`, itself: an Effect for each statement would cost
 * more than the statement.
 */
import { SqlError } from "@effect/sql/SqlError"
import Database from "better-sqlite3"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { Checkpointer, makeEncoded } from "./Checkpointer.js"
import { CheckpointerError } from "./GraphError.js"
import { groupAppends } from "./internal/group.js"
import { type Db, defaultRetry, makeGuard, type Program, type Result } from "./internal/sql.js"
import { createTables, KEYS, makeSqlite, TABLES } from "./internal/sqlite.js"
import { checkTables } from "./SqlCheckpointer.js"

/** Where the database is, and what its commits promise. */
export interface Options {
  /** Path of the file; `":memory:"` for a database that ends with the layer. */
  readonly filename: string
  /**
   * `"normal"` survives a killed process, `"full"` a power cut as well, at the price of a flush to the disk for each
   * group of commits. `"normal"` by default.
   */
  readonly synchronous?: "normal" | "full" | undefined
  /** Waits between attempts while another process holds the lock; 5 ms up to 250 ms, for 5 seconds, by default. */
  readonly retry?: Schedule.Schedule<unknown> | undefined
}

const NO_ROWS: Result["rows"] = []

/** Statements on a connection that nobody else uses. */
const makeDb = (connection: Database.Database): Db => {
  const statements = new Map<string, Database.Statement>()

  const prepare = (text: string): Database.Statement => {
    const statement = connection.prepare(text)
    statements.set(text, statement)
    return statement
  }

  const execute = (text: string, params: ReadonlyArray<unknown>): Result => {
    const statement = statements.get(text) ?? prepare(text)
    if (!statement.reader) return { rows: NO_ROWS, count: statement.run(params).changes }
    const rows = statement.all(params)
    return { rows, count: rows.length }
  }

  const perform = <A>(program: Program<A>): A => {
    let step = program.next()
    while (step.done !== true) step = program.next(execute(step.value.text, step.value.params))
    return step.value
  }

  const committed = <A>(begin: string, program: Program<A>): A => {
    execute(begin, [])
    try {
      const value = perform(program)
      execute("COMMIT", [])
      return value
    } finally {
      if (connection.inTransaction) execute("ROLLBACK", [])
    }
  }

  /** One statement needs no transaction; a program that has a second one begins anew in one. */
  const consistent = <A>(program: () => Program<A>): A => {
    const statements = program()
    let step = statements.next()
    if (step.done !== true) step = statements.next(execute(step.value.text, step.value.params))
    return step.done === true ? step.value : committed("BEGIN", program())
  }

  // Run to its end in one go: no other fiber's statement can come in between, and no lock outlives a turn of the loop.
  const inOneTurn = <A>(use: () => A): Effect.Effect<A, SqlError> =>
    Effect.suspend(() => {
      try {
        return Effect.succeed(use())
      } catch (cause) {
        return Effect.fail(new SqlError({ cause, message: "a statement failed" }))
      }
    })

  return {
    run: (text, params) => inOneTurn(() => execute(text, params)),
    ask: (program) => inOneTurn(() => perform(program())),
    read: (program) => inOneTurn(() => consistent(program)),
    transaction: (program) => inOneTurn(() => committed("BEGIN IMMEDIATE", program())),
    joins: Effect.succeed(false)
  }
}

const PRAGMAS = [
  "PRAGMA journal_mode = WAL",
  // 16 MB of log before it is written back, and of pages in memory, instead of 4 and 2.
  "PRAGMA wal_autocheckpoint = 4000",
  "PRAGMA cache_size = -16000"
]

/** A lock is waited for between turns of the loop, not inside SQLite, which would block every fiber. */
const LOCK_MS = 10

const open = (filename: string): Effect.Effect<Database.Database, CheckpointerError, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.try({
      try: () => new Database(filename, { timeout: LOCK_MS }),
      catch: (cause) =>
        new CheckpointerError({
          operation: "open",
          reason: "Unavailable",
          detail: `"${filename}" does not open`,
          cause
        })
    }),
    (connection) => Effect.sync(() => connection.close())
  )

/** Lets every fiber that is ready now go first. */
const turn = Effect.async<void>((resume) => {
  const handle = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(handle))
})

/** The typed service over a connection of its own; creates the file and its tables. */
export const make: (options: Options) => Effect.Effect<typeof Checkpointer.Service, CheckpointerError, Scope.Scope> =
  Effect.fnUntraced(function* (options) {
    const guard = makeGuard(options.retry ?? defaultRetry)
    const db = makeDb(yield* open(options.filename))
    const opening = <A>(attempt: () => Effect.Effect<A, SqlError>) => guard("open", undefined, attempt)
    for (const pragma of PRAGMAS) yield* opening(() => db.run(pragma, []))
    yield* opening(() => db.run(`PRAGMA synchronous = ${options.synchronous === "full" ? "FULL" : "NORMAL"}`, []))
    yield* checkTables(yield* opening(() => createTables(db)), TABLES)
    const encoded = makeSqlite(db, guard, KEYS)
    return makeEncoded({ ...encoded, append: groupAppends(encoded.append, turn) })
  })

/** Keeps checkpoints in a SQLite file. */
export const layer = (options: Options): Layer.Layer<Checkpointer, CheckpointerError> =>
  Layer.scoped(Checkpointer, make(options))
