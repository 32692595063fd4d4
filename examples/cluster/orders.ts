/**
 * The graph: an order is received, its items are picked one after the other, it is charged and labelled at the same
 * time, and shipped. Whatever touches the world is an activity that books one line in a ledger outside the engine.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Context, Effect, Layer, Schema } from "effect"
import { Activity, Channel, Graph, type Threads } from "effect-pregel"
import * as GraphEntity from "effect-pregel/GraphEntity"

/** The world outside: every line stands for a side effect that has happened. */
export class Ledger extends Context.Tag("Ledger")<
  Ledger,
  { readonly book: (key: string, what: string) => Effect.Effect<number> }
>() {}

export const createLedger = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`CREATE TABLE IF NOT EXISTS ledger (
    id bigserial PRIMARY KEY,
    call text NOT NULL,
    thread text NOT NULL,
    what text NOT NULL,
    runner text NOT NULL,
    began double precision NOT NULL,
    ended double precision NOT NULL DEFAULT extract(epoch from clock_timestamp()) * 1000
  )`
)

/** A ledger in the database; each booking takes the outside world a while. */
export const ledgerLive = (runner: string, milliseconds: number) =>
  Layer.effect(
    Ledger,
    Effect.map(SqlClient.SqlClient, (sql) => ({
      book: (call, what) => {
        const thread = call.slice(0, call.indexOf("/"))
        return Effect.flatMap(Clock.currentTimeMillis, (began) =>
          sql<{
            id: string
          }>`INSERT INTO ledger ${sql.insert({ call, thread, what, runner, began })} RETURNING id`.pipe(
            Effect.map(([row]) => Number(row!.id)),
            Effect.orDie,
            Effect.delay(milliseconds / 2 + Math.random() * milliseconds)
          )
        )
      }
    }))
  )

const Line = Schema.Struct({ what: Schema.String, receipt: Schema.Number })

const book = Activity.make("book", {
  input: Schema.String,
  success: Line,
  execute: (what) =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      return { what, receipt: yield* ledger.book(yield* Activity.key, what) }
    })
})

export const orders = Graph.make("orders", {
  items: Channel.lastValue(Schema.Number),
  log: Channel.append(Line)
})
  .addNode("receive", () => Effect.map(book("receive"), (log) => ({ log })))
  .addNode("pick", ({ log }) => Effect.map(book(`pick ${log.length}`), (line) => ({ log: line })))
  .addNode("charge", () => Effect.map(book("charge"), (log) => ({ log })))
  .addNode("label", () => Effect.map(book("label"), (log) => ({ log })))
  .addNode("ship", () => Effect.map(book("ship"), (log) => ({ log })))
  .addEdge(Graph.START, "receive")
  .addEdge("receive", "pick")
  .addConditionalEdges(
    "pick",
    ({ items = 1, log }) => (log.length <= items ? ("pick" as const) : (["charge", "label"] as const)),
    ["pick", "charge", "label"]
  )
  .addEdge(["charge", "label"], "ship")
  .compile({ recursionLimit: 200 })

/** What the log of an order says when all is well. */
export const expected = (items: number): ReadonlyArray<string> => [
  "receive",
  ...Array.from({ length: items }, (_, i) => `pick ${i + 1}`),
  "charge",
  "label",
  "ship"
]

/** Supersteps of an order. */
export const stepsOf = (items: number): number => items + 3

/** The application asks for this service; where its threads run is a matter of the layer. */
export class Orders extends Context.Tag("Orders")<Orders, Threads.Of<typeof orders>>() {}

export const hosted = GraphEntity.make(orders)
