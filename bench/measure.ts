/**
 * Measures one workload at one size: every engine in its own process, one repetition each in turn, so that a ratio
 * compares neighbouring moments and nobody suffers from another's heap.
 */
import { type ChildProcess, fork } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import type { Reply, Request, Task } from "./protocol.js"
import { median } from "./stats.js"
import { OURS, RAW, THEIRS, type Workload } from "./workload.js"

/** One line of the result. */
export interface Row {
  readonly workload: string
  readonly engine: string
  readonly n: number
  readonly unit: string
  readonly medianMs: number
  readonly perUnitMicros: number
  /** How many times the compared engine's time is that of this one: more is better. */
  readonly ratioToLangGraph: number | undefined
  /** How many times this engine's time is the raw limit's: less is better. */
  readonly ratioToRaw: number | undefined
  readonly peakRssMb: number
  readonly fileBytes: number | undefined
  readonly bestMs: number
  readonly cpuMs: number
  /** The same ratios of CPU time, which other programs on the machine disturb less. */
  readonly cpuRatioToLangGraph: number | undefined
  readonly cpuRatioToRaw: number | undefined
  /** The median of the rounds' own ratios. */
  readonly roundRatioToLangGraph: number | undefined
  readonly roundRatioToRaw: number | undefined
  readonly repetitions: number
}

export interface Effort {
  readonly repetitions: number
  /** Engines start and warm up at the same time. */
  readonly together: boolean
  readonly warmUpMs: number
  readonly warmUpRuns: number
  readonly againMs: number
  /** An engine whose run takes longer gets fewer repetitions. */
  readonly slowMs: number
}

class Engine {
  readonly times: Array<number> = []
  readonly cpuTimes: Array<number> = []
  peakRssMb = 0
  fileBytes: number | undefined
  wanted = 0
  private constructor(
    readonly name: string,
    private readonly process: ChildProcess
  ) {}

  static async start(task: Task, effort: Effort): Promise<Engine> {
    const child = fork(fileURLToPath(new URL("./child.js", import.meta.url)), [JSON.stringify(task)], {
      execArgv: ["--expose-gc"],
      env: { ...process.env, LANGCHAIN_TRACING_V2: "false", LANGSMITH_TRACING: "false", NODE_NO_WARNINGS: "1" }
    })
    const engine = new Engine(task.engine, child)
    const ready = await engine.reply().catch((error) => {
      child.kill()
      throw error
    })
    if (ready._tag !== "Ready") throw new Error("a child process does not know its turn")
    const { lastMs } = ready
    engine.wanted = lastMs <= effort.slowMs ? effort.repetitions : lastMs <= effort.slowMs * 5 ? 3 : 1
    return engine
  }

  private reply(): Promise<Reply> {
    const { name, process: child } = this
    return new Promise((resolve, reject) => {
      const onExit = (code: number | null, signal: string | null) =>
        reject(new Error(`${name} ended: ${code ?? signal}`))
      child.once("exit", onExit)
      child.once("message", (reply: Reply) => {
        child.off("exit", onExit)
        if (reply._tag === "Failed") reject(new Error(`${name}: ${reply.error}`))
        else resolve(reply)
      })
    })
  }

  async repeat(effort: Effort): Promise<number> {
    this.process.send({ _tag: "Run" } satisfies Request)
    const done = await this.reply()
    if (done._tag !== "Done") throw new Error("a child process does not know its turn")
    this.times.push(done.ms)
    this.cpuTimes.push(done.cpuMs)
    this.peakRssMb = done.peakRssMb
    this.fileBytes = done.fileBytes
    if (done.ms > effort.slowMs) this.wanted = Math.min(this.wanted, done.ms > effort.slowMs * 5 ? 1 : 3)
    return done.ms
  }

  stop(): void {
    if (this.process.connected) this.process.send({ _tag: "Exit" } satisfies Request)
    else this.process.kill()
  }
}

/** Median of the ratios of the rounds that both took part in. */
const roundRatio = (above: Engine | undefined, below: Engine | undefined): number | undefined => {
  if (above === undefined || below === undefined) return undefined
  const rounds = Math.min(above.times.length, below.times.length)
  return median(Array.from({ length: rounds }, (_, i) => above.times[i]! / below.times[i]!))
}

const rowOf = (workload: Workload, n: number, engine: Engine, engines: ReadonlyArray<Engine>): Row => {
  const named = (name: string) => engines.find((other) => other.name === name)
  const theirs = named(THEIRS)
  const raw = named(RAW)
  const medianMs = median(engine.times)
  const cpuMs = median(engine.cpuTimes)
  return {
    workload: workload.name,
    engine: engine.name,
    n,
    unit: workload.unit,
    medianMs,
    perUnitMicros: (medianMs * 1000) / workload.units(n),
    ratioToLangGraph: theirs && median(theirs.times) / medianMs,
    ratioToRaw: raw && medianMs / median(raw.times),
    peakRssMb: engine.peakRssMb,
    fileBytes: engine.fileBytes,
    bestMs: Math.min(...engine.times),
    cpuMs,
    cpuRatioToLangGraph: theirs && median(theirs.cpuTimes) / cpuMs,
    cpuRatioToRaw: raw && cpuMs / median(raw.cpuTimes),
    roundRatioToLangGraph: roundRatio(theirs, engine),
    roundRatioToRaw: roundRatio(engine, raw),
    repetitions: engine.times.length
  }
}

const ORDER = [OURS, THEIRS, RAW]
const rank = (name: string) => (ORDER.indexOf(name) + ORDER.length + 1) % (ORDER.length + 1)

/** Waits for all, so that none is left behind, then fails as the first one did. */
const all = async (starts: ReadonlyArray<Promise<void>>): Promise<void> => {
  for (const result of await Promise.allSettled(starts)) if (result.status === "rejected") throw result.reason
}

/** Measures the workload at size `n` with those of its engines that `wanted` lets through. */
export const measure = async (
  workload: Workload,
  n: number,
  effort: Effort,
  wanted: (engine: string) => boolean
): Promise<ReadonlyArray<Row>> => {
  const names = Object.keys(workload.engines).filter(
    (engine) => wanted(engine) && n <= (workload.limits?.[engine] ?? n)
  )
  const directory = mkdtempSync(join(tmpdir(), "bench-"))
  const engines: Array<Engine> = []
  try {
    const { againMs, warmUpMs, warmUpRuns } = effort
    const start = async (engine: string) => {
      const started = await Engine.start(
        { workload: workload.name, engine, n, directory, warmUpMs, warmUpRuns, againMs },
        effort
      )
      engines.push(started)
    }
    if (effort.together) await all(names.map(start))
    else for (const name of names) await start(name)
    engines.sort((a, b) => rank(a.name) - rank(b.name))
    for (let round = 0; round < effort.repetitions; round++) {
      for (const engine of engines) if (round < engine.wanted) await engine.repeat(effort)
    }
    return engines.map((engine) => rowOf(workload, n, engine, engines))
  } finally {
    for (const engine of engines) engine.stop()
    rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  }
}
