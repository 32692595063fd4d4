/** A process of the torture. `run` finishes threads and waits to be killed; `race` sends inputs when it is told to. */
import { readFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { finish, ledger, raceThread, storage } from "./graph.js"

const [mode, database, thread, file, rounds] = process.argv.slice(2) as [string, string, string, string, string]

const runtime = ManagedRuntime.make(storage(database))

const run = async () => {
  const note = ledger(file)
  const ended = (id: string) => readFileSync(file, "utf8").includes(`${id} end `)
  const ids = Array.from({ length: 3 }, (_, i) => `${thread}-${i}`).filter((id) => !ended(id))
  process.send?.("ready")
  await runtime.runPromise(
    Effect.forEach(ids, (id) => finish(id, Number(rounds), (line) => note(`${id} ${line}`)), {
      concurrency: "unbounded",
      discard: true
    })
  )
}

const race = async () => {
  const handle = raceThread(thread)
  process.on("message", async (input: string) => {
    const exit = await runtime.runPromise(Effect.either(handle.invoke({ log: [input] })))
    process.send?.({ input, error: exit._tag === "Left" ? (exit.left as { readonly _tag: string })._tag : undefined })
  })
  await runtime.runPromise(Effect.void)
  process.send?.("ready")
  await new Promise((resolve) => process.once("disconnect", resolve))
}

await (mode === "race" ? race() : run())
await runtime.dispose()
process.exit(0)
