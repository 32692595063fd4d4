/**
 * `npm run torture -- [--kills 200] [--races 200] [--seed 1]`: kills processes in the middle of their runs, and lets two
 * of them send inputs to one thread at once. PostgreSQL is the one of `DATABASE_URL`, or one of its own.
 */
import { type ChildProcess, fork } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { isDeepStrictEqual, parseArgs } from "node:util"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { startPostgres } from "../pg.setup.js"
import { expected, raceThread, storage } from "./graph.js"

const { values: options } = parseArgs({
  options: {
    kills: { type: "string", default: "200" },
    races: { type: "string", default: "200" },
    seed: { type: "string", default: "1" }
  }
})

const ROUNDS = 25

const childFile = fileURLToPath(new URL("./child.js", import.meta.url))

/** Random numbers below 1 that a seed repeats. */
let seed = Number(options.seed)
const random = (): number => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
  return seed / 2 ** 32
}

const started = (args: ReadonlyArray<string>): Promise<ChildProcess> =>
  new Promise((resolve, reject) => {
    const child = fork(childFile, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] })
    child.once("message", () => resolve(child))
    child.once("error", reject)
    child.once("exit", (code) => reject(new Error(`a process ended with ${code} before it was ready`)))
  })

const ended = (child: ChildProcess): Promise<number | null> =>
  child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve(child.exitCode)
    : new Promise((resolve) => child.once("exit", resolve))

/** What the ledger of some threads says against the engine. */
const judge = (lines: ReadonlyArray<string>) => {
  const problems = { lost: 0, doubled: 0, unreadable: 0 }
  const begun = new Map<string, number>()
  const paid = new Set<string>()
  for (const line of lines) {
    const [thread, event, ...rest] = line.split(" ") as [string, string, ...Array<string>]
    const detail = rest.join(" ")
    const round = Number(detail)
    if (event === "start") begun.set(thread, Math.max(begun.get(thread) ?? 0, round))
    // A round begins when the one before it is saved.
    if (event === "head" && round < (begun.get(thread) ?? 0)) problems.lost++
    if (event === "pay" && paid.has(`${thread} ${round}`)) problems.doubled++
    if (event === "paid") paid.add(`${thread} ${round}`)
    if (event === "end" && !isDeepStrictEqual(JSON.parse(detail), expected(ROUNDS))) problems.doubled++
  }
  return problems
}

const kill = async (name: string, database: string, kills: number, folder: string) => {
  const found = { kills: 0, threads: 0, lost: 0, doubled: 0, unreadable: 0 }
  for (let batch = 0; found.kills < kills; batch++) {
    const file = join(folder, `${name}-${batch}.txt`)
    writeFileSync(file, "")
    const args = ["run", database, `torture-${process.pid}-${batch}`, file, String(ROUNDS)]
    for (;;) {
      const child = await started(args)
      const exit = ended(child)
      const timer = setTimeout(
        () => {
          if (child.kill("SIGKILL")) found.kills++
        },
        // Enough kills: the last process may finish.
        found.kills < kills ? 20 + random() * 1000 : 2 ** 30
      )
      const code = await exit
      clearTimeout(timer)
      if (code === 0) break
      if (code !== null) found.unreadable++
      if (found.unreadable > 5) break
    }
    const { doubled, lost } = judge(readFileSync(file, "utf8").split("\n").filter(Boolean))
    const ends = readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line.includes(" end ")).length
    found.lost += lost
    found.doubled += doubled
    found.threads += ends
    if (found.unreadable > 5) break
  }
  console.log(
    `${name}: ${found.kills} kills, ${found.threads} threads finished, ${found.lost} lost, ${found.doubled} doubled, ${found.unreadable} unreadable`
  )
  return found.lost + found.doubled + found.unreadable === 0
}

const race = async (name: string, database: string, races: number) => {
  const thread = `race-${process.pid}-${Date.now()}`
  const children = await Promise.all([1, 2].map(() => started(["race", database, thread, "", ""])))
  const taken: Array<string> = []
  let conflicts = 0
  let others = 0
  for (let i = 0; i < races; i++) {
    await Promise.all(
      children.map(
        (child, n) =>
          new Promise<void>((resolve) => {
            child.once("message", ({ error, input }: { readonly input: string; readonly error?: string }) => {
              if (error === undefined) taken.push(input)
              else if (error === "ThreadConflict") conflicts++
              else others++
              resolve()
            })
            child.send(`input ${i} of ${n}`)
          })
      )
    )
  }
  for (const child of children) child.disconnect()
  await Promise.all(children.map(ended))
  const handle = raceThread(thread)
  const { chain, log } = await Effect.runPromise(
    Effect.gen(function* () {
      const history = Chunk.toReadonlyArray(yield* Stream.runCollect(handle.history()))
      const isChain = history.every(({ checkpoint }, i) => checkpoint?.parent?.id === history[i + 1]?.checkpoint?.id)
      return { chain: isChain, log: (yield* handle.state).values.log ?? [] }
    }).pipe(Effect.provide(storage(database)))
  )
  const lost = taken.filter((input) => log.filter((one) => one === input).length !== 1).length
  console.log(
    `${name}: ${races} races, ${taken.length} inputs taken, ${conflicts} conflicts, ${others} other failures, ${lost} lost, history is ${chain ? "one chain" : "broken"}`
  )
  return lost === 0 && others === 0 && chain
}

const folder = mkdtempSync(join(tmpdir(), "effect-pregel-torture-"))
const postgres = await startPostgres()
try {
  const sqlite = join(folder, "torture.sqlite")
  const outcomes = [
    await kill("SQLite", sqlite, Number(options.kills), folder),
    await kill("PostgreSQL", postgres.url, Number(options.kills), folder),
    await race("SQLite", sqlite, Number(options.races)),
    await race("PostgreSQL", postgres.url, Number(options.races))
  ]
  if (outcomes.includes(false)) process.exitCode = 1
} finally {
  await postgres.stop()
  if (process.exitCode === undefined && existsSync(folder)) rmSync(folder, { recursive: true, force: true })
  else console.log(`the ledgers are in ${folder}`)
}
