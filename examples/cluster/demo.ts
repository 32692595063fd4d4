/**
 * `npm run demo:cluster`: three runners over one PostgreSQL work on 200 orders, while runners are killed by their
 * process ids. The table shows who does what; the last line says what was lost and what happened twice.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Exit, Fiber, Logger, LogLevel, Random } from "effect"
import { type Fleet, fleetOf } from "./fleet.js"
import { clientLive, databaseLive, type Settings } from "./layers.js"
import { createLedger, Orders } from "./orders.js"
import { postgres } from "./postgres.js"
import { isWhole, type Loss, lineOf, linesOf, proof } from "./proof.js"

const threads = 200
const items = 8
/** Seconds that a runner may be silent before its threads go to others. */
const expiry = Number(process.env.EXPIRY ?? 8)
const kills = 2

type Results = Map<string, ReadonlyArray<{ readonly what: string; readonly receipt: number }>>

const clock = (started: number) => {
  const seconds = Math.floor((Date.now() - started) / 1000)
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`
}

const row = (cells: ReadonlyArray<string>) => cells.map((cell, i) => cell.padStart([5, 6, 8, 7, 7][i]!)).join("  ")

/** A line of the table each second, and who runs what: a runner is shown with the side effects of the last second. */
const table = (fleet: Fleet, results: Results, started: number, busyNow: Effect.Latch) =>
  Effect.gen(function* () {
    const lines = yield* linesOf
    const runnersOf = new Map<string, Set<string>>()
    const since = Date.now() - 1000
    const busy = new Map<string, number>()
    for (const { ended, runner, thread } of lines) {
      runnersOf.set(thread, (runnersOf.get(thread) ?? new Set()).add(runner))
      if (ended > since) busy.set(runner, (busy.get(runner) ?? 0) + 1)
    }
    const moved = Array.from(runnersOf.values()).filter(({ size }) => size > 1).length
    const alive = fleet.alive.map(({ name, process: { pid } }) => `${pid}:${String(busy.get(name) ?? 0).padEnd(4)}`)
    const running = runnersOf.size - results.size
    if (running > threads / 4) yield* busyNow.open
    const cells = [clock(started), `${results.size}`, `${running}`, `${moved}`, `${alive.length}`]
    yield* Console.log(`${row(cells)}   ${alive.join(" ")}`)
  }).pipe(Effect.delay("1 second"), Effect.forever)

/** Kills a runner now and then, by its process id, and starts another one. */
const trouble = (fleet: Fleet, losses: Array<Loss>, started: number, busyNow: Effect.Latch) =>
  Effect.gen(function* () {
    yield* busyNow.await
    for (let round = 0; round < kills; round++) {
      yield* Effect.sleep(`${round === 0 ? 2 : expiry} seconds`)
      const runner = yield* Random.choice(fleet.alive)
      losses.push({ runner: runner.name, how: "killed", at: Date.now() })
      yield* Console.log(`${clock(started).padStart(5)}  kill -9 ${runner.process.pid}`)
      yield* fleet.kill(runner)
      const next = yield* fleet.start
      yield* Console.log(`${clock(started).padStart(5)}  started ${next.process.pid}`)
    }
  })

const help = `Three runners over one PostgreSQL work on ${threads} orders; ${kills} runners are killed meanwhile. Takes about a minute.

Usage
  npm run demo:cluster

Environment
  EXPIRY   seconds that a runner may be silent before its orders go to others (default: 8)`

const main = Effect.gen(function* () {
  yield* Console.log("Starting PostgreSQL and three runners ...")
  const settings: Settings = { database: yield* postgres, expiry, work: 1000 }
  yield* Effect.provide(createLedger, databaseLive(settings))
  const fleet = yield* fleetOf(settings, 3)
  const pids = fleet.alive.map(({ process: { pid } }) => pid).join(", ")
  yield* Console.log(`Runners are processes ${pids}. They work on ${threads} orders of ${items} items.\n`)
  yield* Console.log(`${row(["time", "done", "running", "moved", "alive"])}   process:side effects in the last second`)
  const results: Results = new Map()
  const losses: Array<Loss> = []
  const started = Date.now()
  // The trouble begins when there is work to disturb.
  const busyNow = Effect.unsafeMakeLatch()
  const found = yield* Effect.gen(function* () {
    const { thread } = yield* Orders
    const call = (id: string) =>
      Effect.tap(Effect.exit(thread(id).invoke({ items }, { runId: `run-${id}` })), (exit) =>
        Exit.isSuccess(exit) ? Effect.sync(() => results.set(id, exit.value.log)) : Console.error(`${id}: ${exit}`)
      )
    const shown = yield* Effect.forkScoped(table(fleet, results, started, busyNow))
    const troubled = yield* Effect.forkScoped(trouble(fleet, losses, started, busyNow))
    const ids = Array.from({ length: threads }, (_, i) => `order-${i + 1}`)
    yield* Effect.forEach(ids, call, { concurrency: "unbounded", discard: true })
    yield* Fiber.interruptAll([shown, troubled])
    return yield* proof(results, threads, items, losses)
  }).pipe(Effect.provide(clientLive(settings)))
  yield* Console.log(`\n${lineOf(found, losses, expiry)}`)
  if (!isWhole(found)) process.exitCode = 1
})

if (process.argv.length === 2) {
  main.pipe(Effect.scoped, Effect.provide(Logger.minimumLogLevel(LogLevel.Error)), NodeRuntime.runMain)
} else {
  console.log(help)
  process.exitCode = process.argv.includes("--help") ? 0 : 2
}
