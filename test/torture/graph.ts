/**
 * What the children of the torture run: a loop of rounds with a fan-out of two, an activity, an append log and a pause in
 * every third round. Every event that a restart must respect goes to a ledger outside the engine first.
 */
import { appendFileSync } from "node:fs"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Activity from "effect-pregel/Activity"
import * as Channel from "effect-pregel/Channel"
import type { Checkpointer } from "effect-pregel/Checkpointer"
import * as Graph from "effect-pregel/Graph"
import * as Interrupt from "effect-pregel/Interrupt"
import * as SqlCheckpointer from "effect-pregel/SqlCheckpointer"
import * as SqliteCheckpointer from "effect-pregel/SqliteCheckpointer"

/** A SQLite file or the address of a PostgreSQL database. */
export const storage = (database: string): Layer.Layer<Checkpointer, unknown> =>
  database.startsWith("postgres://")
    ? Layer.provide(SqlCheckpointer.layer(), PgClient.layer({ url: Redacted.make(database), maxConnections: 4 }))
    : SqliteCheckpointer.layer({ filename: database })

const sum = Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })

/** The graph that runs `rounds` rounds. `note` writes a line to the ledger. */
export const makeGraph = (rounds: number, note: (line: string) => void) => {
  const ask = Interrupt.make("ask", { request: Schema.Number, answer: Schema.Number })
  const pay = Activity.make("pay", {
    input: Schema.Number,
    success: Schema.Number,
    execute: (round) =>
      Effect.as(
        Effect.zipRight(
          Effect.sync(() => note(`pay ${round}`)),
          Effect.yieldNow()
        ),
        round * 10
      )
  })
  return Graph.make("torture", {
    round: Channel.lastValue(Schema.Number),
    log: Channel.append(Schema.String),
    paid: sum,
    left: sum,
    right: sum
  })
    .addNode("left", (state) =>
      Effect.gen(function* () {
        const round = state.round ?? 0
        note(`start ${round}`)
        const paid = yield* pay(round)
        note(`paid ${round}`)
        return { paid, left: 1, log: [`left ${round}`] }
      })
    )
    .addNode("right", (state) => Effect.succeed({ right: 1, log: [`right ${state.round ?? 0}`] }))
    .addNode("join", (state) =>
      Effect.gen(function* () {
        const round = state.round ?? 0
        const answer = round % 3 === 0 ? yield* ask(round) : round
        return { round: round + 1, log: [`join ${answer}`] }
      })
    )
    .addEdge(Graph.START, "left")
    .addEdge(Graph.START, "right")
    .addEdge("left", "join")
    .addEdge("right", "join")
    .addConditionalEdges("join", (state) => ((state.round ?? 0) < rounds ? ["left", "right"] : [Graph.END]), [
      "left",
      "right",
      Graph.END
    ])
    .compile()
}

/** The state at the end of every run. */
export const expected = (rounds: number) => ({
  round: rounds,
  log: Array.from({ length: rounds }, (_, i) => [`left ${i}`, `right ${i}`, `join ${i}`]).flat(),
  paid: Array.from({ length: rounds }, (_, i) => i * 10).reduce((a, b) => a + b, 0),
  left: rounds,
  right: rounds
})

/** Appends lines to a ledger; a killed process does not lose what it has written. */
export const ledger =
  (file: string) =>
  (line: string): void =>
    appendFileSync(file, `${line}\n`)

/** Runs a thread to its end from wherever it is, answering its pauses. */
export const finish = (thread: string, rounds: number, note: (line: string) => void) =>
  Effect.gen(function* () {
    const handle = makeGraph(rounds, note).thread(thread)
    for (;;) {
      const { checkpoint, interrupts, next, values } = yield* handle.state
      note(`head ${values.round ?? 0}`)
      if (checkpoint !== undefined && next.length === 0 && interrupts.length === 0) {
        return note(`end ${JSON.stringify(values)}`)
      }
      const [pause] = interrupts
      const go =
        checkpoint === undefined
          ? handle.invoke({ round: 0 })
          : pause === undefined
            ? handle.resume()
            : handle.resume({ [pause.id]: pause.value })
      yield* Effect.catchTag(Effect.asVoid(go), "GraphInterrupt", () => Effect.void)
    }
  })

const logOf = Graph.make("race", { log: Channel.append(Schema.String) })
  .addNode("echo", (state) => Effect.succeed({ log: [`echo of ${state.log.at(-1)}`] }))
  .addEdge(Graph.START, "echo")
  .addEdge("echo", Graph.END)
  .compile()

/** The thread that several processes send inputs to. */
export const raceThread = (id: string) => logOf.thread(id)
