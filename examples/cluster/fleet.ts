/** Runners as processes that can be killed, frozen and replaced. */
import { type ChildProcess, spawn } from "node:child_process"
import { fileURLToPath } from "node:url"
import { Effect } from "effect"
import type { Settings } from "./layers.js"
import { freePort } from "./postgres.js"

export interface Runner {
  readonly name: string
  readonly process: ChildProcess
  state: "starting" | "alive" | "frozen" | "dead"
}

const program = fileURLToPath(new URL("./runner.js", import.meta.url))

export class Fleet {
  readonly runners: Array<Runner> = []

  constructor(readonly settings: Settings) {}

  get alive(): ReadonlyArray<Runner> {
    return this.runners.filter(({ state }) => state === "alive")
  }

  /** Starts a runner, at an address that none had before, and waits until it hosts threads. */
  readonly start = Effect.gen(this, function* () {
    const port = yield* freePort
    const child = spawn(process.execPath, ["--no-deprecation", program, `${port}`, JSON.stringify(this.settings)], {
      stdio: ["ignore", "pipe", "inherit"]
    })
    const runner: Runner = { name: `${port}`, process: child, state: "starting" }
    this.runners.push(runner)
    yield* Effect.async<void>((resume) => {
      child.once("exit", () => {
        runner.state = "dead"
        resume(Effect.void)
      })
      child.stdout!.once("data", () => {
        runner.state = "alive"
        resume(Effect.void)
      })
    })
    return runner
  })

  readonly kill = (runner: Runner) => this.end(runner, "SIGKILL")

  readonly shutDown = (runner: Runner) => this.end(runner, "SIGTERM")

  private end(runner: Runner, signal: "SIGKILL" | "SIGTERM") {
    return Effect.async<void>((resume) => {
      if (runner.state === "dead") return resume(Effect.void)
      runner.process.once("exit", () => resume(Effect.void))
      if (runner.state === "frozen") runner.process.kill("SIGCONT")
      runner.process.kill(signal)
    })
  }

  readonly freeze = (runner: Runner) =>
    Effect.sync(() => {
      runner.state = "frozen"
      runner.process.kill("SIGSTOP")
    })

  readonly thaw = (runner: Runner) =>
    Effect.sync(() => {
      if (runner.state !== "frozen") return
      runner.state = "alive"
      runner.process.kill("SIGCONT")
    })

  readonly endAll = Effect.suspend(() => Effect.forEach(this.runners, this.kill, { concurrency: "unbounded" }))
}

/** A fleet that leaves no process behind. */
export const fleetOf = (settings: Settings, size: number) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const fleet = new Fleet(settings)
      process.once("exit", () => {
        for (const { process: child, state } of fleet.runners) if (state !== "dead") child.kill("SIGKILL")
      })
      return fleet
    }),
    (fleet) => fleet.endAll
  ).pipe(
    // The first one creates the cluster's tables; two at once would get in each other's way.
    Effect.tap((fleet) => fleet.start),
    Effect.tap((fleet) =>
      Effect.all(
        Array.from({ length: size - 1 }, () => fleet.start),
        { concurrency: "unbounded" }
      )
    )
  )
