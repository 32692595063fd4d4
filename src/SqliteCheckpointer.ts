/**
 * Durable state in a SQLite file, on a connection of its own: one statement a superstep.
 */
import * as Reactivity from "@effect/experimental/Reactivity"
import type { SqlError } from "@effect/sql/SqlError"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import type * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import { Checkpointer, makeEncoded } from "./Checkpointer.js"
import { CheckpointerError } from "./GraphError.js"
import { groupAppends } from "./internal/group.js"
import { type Db, defaultRetry, makeGuard, type Run } from "./internal/sql.js"
import { createTables, KEYS, makeSqlite, TABLES } from "./internal/sqlite.js"
import { checkTables, runOn } from "./SqlCheckpointer.js"

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

const BEGIN = "BEGIN IMMEDIATE"

/**
 * Prepares a statement within one turn on its first use. Otherwise a transaction could meet one that another fiber has
 * begun to prepare, and would have to wait for it.
 */
const prepared = (run: Run): Run => {
  const known = new Set<string>()
  return (text, params) => {
    if (known.has(text)) return run(text, params)
    return Effect.suspend(() => {
      known.add(text)
      return Effect.runSyncExit(run(text, params))
    })
  }
}

/** Statements on a connection that nobody else uses. */
const makeDb = (run: Run): Db => ({
  run,
  joins: Effect.succeed(false),
  // Run to its end in one go: no other fiber's statement can come in between, and no lock outlives a turn of the loop.
  transaction: (body) =>
    Effect.suspend(() =>
      Effect.runSyncExit(
        Effect.zipRight(
          run(BEGIN, []),
          Effect.matchCauseEffect(Effect.zipLeft(body(run), run("COMMIT", [])), {
            onFailure: (cause) => Effect.zipRight(Effect.ignore(run("ROLLBACK", [])), Exit.failCause(cause)),
            onSuccess: Effect.succeed
          })
        )
      )
    )
})

/** Lets every fiber that is ready now go first. */
const turn = Effect.async<void>((resume) => {
  const handle = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(handle))
})

/** The typed service over a connection of its own; creates the file and its tables. */
export const make = Effect.fnUntraced(function* (options: Options) {
  const opening = <A>(attempt: () => Effect.Effect<A, SqlError>) => guard("open", undefined, attempt)
  const guard = makeGuard(options.retry ?? defaultRetry)
  const client = yield* SqliteClient.make({
    filename: options.filename,
    prepareCacheSize: 1000,
    // A statement that is prepared again would make a transaction wait for it.
    prepareCacheTTL: Duration.infinity
  }).pipe(
    Effect.provide(Reactivity.layer),
    Effect.catchAllDefect(
      (cause) =>
        new CheckpointerError({
          operation: "open",
          reason: "Unavailable",
          detail: `"${options.filename}" does not open`,
          cause
        })
    )
  )
  // The connection stays reserved until the layer is released, so that nothing has to be acquired for a statement.
  const scope = yield* Effect.scope
  const run = prepared(runOn(yield* opening(() => Scope.extend(client.reserve, scope))))
  const db = makeDb(run)
  // A lock is waited for between turns of the loop, not inside SQLite, which would block every fiber.
  yield* opening(() => run("PRAGMA busy_timeout = 10", []))
  yield* opening(() => run(`PRAGMA synchronous = ${options.synchronous === "full" ? "FULL" : "NORMAL"}`, []))
  yield* checkTables(yield* opening(() => createTables(db)), TABLES)
  const encoded = makeSqlite(db, guard, KEYS)
  return makeEncoded(
    options.synchronous === "full" ? { ...encoded, append: groupAppends(encoded.append, turn) } : encoded
  )
})

/** Keeps checkpoints in a SQLite file. */
export const layer = (options: Options): Layer.Layer<Checkpointer, CheckpointerError> =>
  Layer.scoped(Checkpointer, make(options))
