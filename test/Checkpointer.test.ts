import * as KeyValueStore from "@effect/platform/KeyValueStore"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import { afterAll, describe, it } from "@effect/vitest"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { inject } from "vitest"
import * as Checkpointer from "../src/Checkpointer.js"
import { checkpointerSuite } from "../src/GraphTest.js"
import * as KeyValueCheckpointer from "../src/KeyValueCheckpointer.js"
import * as SqlCheckpointer from "../src/SqlCheckpointer.js"
import * as SqliteCheckpointer from "../src/SqliteCheckpointer.js"

const runner = { describe, it, afterAll }

checkpointerSuite("memory", Checkpointer.layerMemory, { runner, numRuns: 100 })

checkpointerSuite("SQLite", SqliteCheckpointer.layer({ filename: ":memory:" }), { runner, numRuns: 50 })

checkpointerSuite(
  "SQLite with full synchronisation",
  SqliteCheckpointer.layer({ filename: ":memory:", synchronous: "full" }),
  {
    runner,
    numRuns: 10
  }
)

checkpointerSuite(
  "SQLite over a client",
  Layer.provide(SqlCheckpointer.layer(), SqliteClient.layer({ filename: ":memory:" })),
  { runner, numRuns: 30 }
)

checkpointerSuite("a key-value store", Layer.provide(KeyValueCheckpointer.layer(), KeyValueStore.layerMemory), {
  runner,
  numRuns: 30
})

checkpointerSuite(
  "PostgreSQL",
  Layer.provide(SqlCheckpointer.layer(), PgClient.layer({ url: Redacted.make(inject("pgUrl")) })),
  { runner, numRuns: 20 }
)
