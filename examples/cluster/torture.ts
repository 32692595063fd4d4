/**
 * `npm run torture:cluster`: three runners over one PostgreSQL, while runners are killed, frozen for longer than their
 * locks last, and shut down. Every thread must finish, and nothing may happen twice.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Exit, Fiber, Logger, LogLevel, Random } from "effect"
import { type Fleet, fleetOf } from "./fleet.js"
import { clientLive, databaseLive, type Settings } from "./layers.js"
import { createLedger, Orders, stepsOf } from "./orders.js"
import { postgres } from "./postgres.js"
import { isWhole, type Loss, lineOf, linesOf, proof, verdict } from "./proof.js"

const short = process.argv.includes("--short")
const threads = short ? 60 : 300
const items = 17
/** Seconds; more of them where the machine is so busy that a query takes a third of it. */
const expiry = Number(process.env.EXPIRY ?? 5)
/** Seconds between two losses. */
const pause = expiry + 1

const chaos = (fleet: Fleet, losses: Array<Loss>) =>
  Effect.gen(function* () {
    for (let round = 0; ; round++) {
      yield* Effect.sleep(`${round === 0 ? 3 : pause} seconds`)
      const runner = yield* Random.choice(fleet.alive)
      const how = (["killed", "frozen", "shut down"] as const)[round % 3]!
      losses.push({ runner: runner.name, how, at: Date.now() })
      yield* Console.log(`${how} ${runner.name}`)
      if (how === "frozen") {
        yield* fleet.freeze(runner)
        yield* Effect.sleep(`${expiry + 2} seconds`)
        yield* fleet.thaw(runner)
      } else {
        yield* how === "killed" ? fleet.kill(runner) : fleet.shutDown(runner)
        yield* fleet.start
      }
    }
  })

/** How far everything is, for those who look for what is slow. */
const watch = (results: ReadonlyMap<string, unknown>) =>
  Effect.gen(function* () {
    const lines = yield* linesOf
    const since = Date.now() - 2000
    const recent = lines.filter(({ began }) => began > since)
    yield* Console.log(
      `  ${results.size} done, ${lines.length} lines, of them in 2 s:`,
      ...Array.from(new Set(recent.map(({ runner }) => runner)), (runner) => {
        return `${runner} ${recent.filter((line) => line.runner === runner).length}`
      })
    )
  }).pipe(Effect.delay("2 seconds"), Effect.forever)

const main = Effect.gen(function* () {
  const settings: Settings = { database: yield* postgres, expiry, work: short ? 500 : 800 }
  yield* Effect.provide(createLedger, databaseLive(settings))
  const fleet = yield* fleetOf(settings, 3)
  const results = new Map<string, ReadonlyArray<{ readonly what: string; readonly receipt: number }>>()
  const losses: Array<Loss> = []
  const started = Date.now()
  const found = yield* Effect.gen(function* () {
    const { thread } = yield* Orders
    const call = (id: string) =>
      Effect.tap(Effect.exit(thread(id).invoke({ items }, { runId: `run-${id}` })), (exit) =>
        Exit.isSuccess(exit) ? Effect.sync(() => results.set(id, exit.value.log)) : Console.error(`${id}: ${exit}`)
      )
    const ids = Array.from({ length: threads }, (_, i) => `order-${i}`)
    if (process.env.WATCH) yield* Effect.forkScoped(watch(results))
    const trouble = yield* Effect.forkScoped(process.env.CALM ? Effect.never : chaos(fleet, losses))
    yield* Effect.forEach(ids, call, { concurrency: "unbounded", discard: true })
    yield* Fiber.interrupt(trouble)
    return yield* proof(results, threads, items, losses)
  }).pipe(Effect.provide(clientLive(settings)))
  yield* Console.log(
    `${threads} threads x ${stepsOf(items)} supersteps in ${((Date.now() - started) / 1000).toFixed(0)} s`
  )
  yield* Console.log(lineOf(found, losses, expiry))
  if (!isWhole(found) || verdict(found, expiry) === "exceeded") process.exitCode = 1
})

main.pipe(Effect.scoped, Effect.provide(Logger.minimumLogLevel(LogLevel.Error)), NodeRuntime.runMain)
