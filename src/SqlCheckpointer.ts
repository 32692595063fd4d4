/**
 * Durable state in a SQL database, over any client of `@effect/sql` for SQLite or PostgreSQL.
 *
 * Operations join the transaction around them, if there is one. For SQLite alone, `SqliteCheckpointer` is faster.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { identity } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Schedule from "effect/Schedule"
import { Checkpointer, makeEncoded } from "./Checkpointer.js"
import { CheckpointerError } from "./GraphError.js"
import * as Postgres from "./internal/postgres.js"
import { type Db, defaultRetry, makeGuard, type Program, perform, type Result, type Run } from "./internal/sql.js"
import { createTables, makeSqlite, TABLES } from "./internal/sqlite.js"

/** How to use the database. */
export interface Options {
  /** Waits between attempts at a busy or lost database; from 5 ms up to 250 ms, for 5 seconds in all, by default. */
  readonly retry?: Schedule.Schedule<unknown> | undefined
}

/** What `executeRaw` gives: an array of rows or a summary from SQLite, an object with both from PostgreSQL. */
const toResult = (raw: any): Result =>
  Array.isArray(raw)
    ? { rows: raw, count: raw.length }
    : { rows: raw?.rows ?? [], count: Number(raw?.rowCount ?? raw?.changes ?? 0) }

const runOn =
  (connection: Connection): Run =>
  (text, params) =>
    Effect.map(connection.executeRaw(text, params), toResult)

const makeDb = (
  sql: SqlClient.SqlClient,
  begin: string,
  guarded: <A, E>(use: Effect.Effect<A, E>) => Effect.Effect<A, E>
): Db => {
  const joined = Effect.map(
    Effect.serviceOption(SqlClient.TransactionConnection),
    Option.map(([connection]) => ({ run: runOn(connection) }))
  )

  const onOwn = <A>(use: (run: Run) => Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> =>
    guarded(Effect.scoped(Effect.flatMap(sql.reserve, (connection) => use(runOn(connection)))))

  /** Runs a program between two statements; the third undoes it. */
  const around = <A>(run: Run, [start, end, undo]: readonly [string, string, string], program: () => Program<A>) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.zipRight(
        run(start, []),
        Effect.flatMap(Effect.exit(restore(perform(run, program))), (exit) =>
          Exit.isSuccess(exit)
            ? Effect.as(
                Effect.tapError(run(end, []), () => Effect.ignore(run(undo, []))),
                exit.value
              )
            : Effect.zipRight(Effect.ignore(run(undo, [])), exit)
        )
      )
    )

  const onAny = <A>(use: (run: Run) => Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> =>
    Effect.flatMap(joined, (outer) => (Option.isSome(outer) ? use(outer.value.run) : onOwn(use)))

  const ask: Db["ask"] = (program) => onAny((run) => perform(run, program))

  return {
    joins: Effect.map(joined, Option.isSome),
    run: (text, params) => onAny((run) => run(text, params)),
    ask,
    read: ask,
    transaction: (program) =>
      Effect.flatMap(joined, (outer) => {
        if (Option.isNone(outer)) return onOwn((run) => around(run, [begin, "COMMIT", "ROLLBACK"], program))
        const point = "pregel_point"
        return around(
          outer.value.run,
          [`SAVEPOINT ${point}`, `RELEASE SAVEPOINT ${point}`, `ROLLBACK TO SAVEPOINT ${point}`],
          program
        )
      })
  }
}

/** Refuses tables that a newer version of this library made. */
export const checkTables = (version: number, expected: number): Effect.Effect<void, CheckpointerError> =>
  version === expected
    ? Effect.void
    : new CheckpointerError({
        operation: "open",
        reason: "Unsupported",
        detail: `the tables have version ${version}, this library uses version ${expected}`
      })

/** The typed service over the client in the environment; creates its tables. */
export const make = Effect.fnUntraced(function* (options: Options = {}) {
  const sql = yield* SqlClient.SqlClient
  const guard = makeGuard(options.retry ?? defaultRetry)
  const unsupported = () =>
    new CheckpointerError({
      operation: "open",
      reason: "Unsupported",
      detail: "only SQLite and PostgreSQL are supported"
    })
  return yield* sql.onDialectOrElse({
    sqlite: () =>
      Effect.gen(function* () {
        const db = makeDb(sql, "BEGIN IMMEDIATE", identity)
        yield* checkTables(yield* guard("open", undefined, () => createTables(db)), TABLES)
        return makeEncoded(makeSqlite(db, guard, 0))
      }),
    pg: () =>
      Effect.gen(function* () {
        // An interruption waits for the statement. Interrupted itself, the client loses a connection that is being
        // opened, and its request to cancel may hit the next statement on that connection, whoever's that is.
        const db = makeDb(sql, "BEGIN", Effect.uninterruptible)
        yield* checkTables(yield* guard("open", undefined, () => Postgres.createTables(db)), Postgres.TABLES)
        return makeEncoded(Postgres.makePostgres(db, guard))
      }),
    orElse: () => Effect.fail(unsupported())
  })
})

/** Keeps checkpoints in the database of the client in the environment. */
export const layer = (options: Options = {}): Layer.Layer<Checkpointer, CheckpointerError, SqlClient.SqlClient> =>
  Layer.effect(Checkpointer, make(options))
