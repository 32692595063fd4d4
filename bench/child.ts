/**
 * One engine at one workload, alone in its process: warms up, then does one repetition whenever it is told to.
 */
import type { Reply, Request, Task } from "./protocol.js"
import type { Session } from "./workload.js"
import { workloads } from "./workloads.js"

const task: Task = JSON.parse(process.argv[2]!)
const tell = (reply: Reply) => process.send!(reply)

const cpuMs = () => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1000
}

const collectYoung = () => (globalThis.gc as unknown as (options: { type: "minor" }) => void)({ type: "minor" })

interface Result {
  /** Measured by the run itself, in a process of its own: nothing here can get warm. */
  readonly apart: boolean
  readonly ms: number
  readonly cpuMs: number
  readonly fileBytes: number | undefined
}

const once = async (session: Session, after: "collection" | "another run" = "collection"): Promise<Result> => {
  await session.before?.()
  // Only the young generation: a forced full collection also throws optimised code away, which no program does. And not
  // between runs of a few milliseconds: each would begin with memory that the system has to give anew.
  if (after === "collection") collectYoung()
  const cpu = cpuMs()
  const begin = performance.now()
  const own = await session.run()
  const ms = own ?? performance.now() - begin
  const spent = cpuMs() - cpu
  return { apart: own !== undefined, ms, cpuMs: spent, fileBytes: await session.after?.() }
}

/** Short runs are too short for clocks and schedulers: a repetition is the mean of as many as take this long. */
const LEAST_MS = 50

/** The shortest run so far. */
let fastest = Number.POSITIVE_INFINITY

/**
 * While others had their turn, the code of this engine was thrown away as unused: where a run is too short to make up
 * for that, it is warmed up again.
 */
const repetition = async (session: Session): Promise<Result> => {
  let first = await once(session)
  fastest = Math.min(fastest, first.ms)
  if (first.apart || fastest > 4 * task.againMs) return first
  for (const end = cpuMs() + task.againMs; cpuMs() < end; ) first = await once(session)
  const runs = Math.max(1, Math.min(100, Math.ceil(LEAST_MS / first.ms)))
  const total = { ms: 0, cpuMs: 0 }
  for (let i = 0; i < runs; i++) {
    const run = await once(session, i === 0 ? "collection" : "another run")
    total.ms += run.ms
    total.cpuMs += run.cpuMs
  }
  return { apart: false, ms: total.ms / runs, cpuMs: total.cpuMs / runs, fileBytes: first.fileBytes }
}

const workload = workloads.find(({ name }) => name === task.workload)!
const open = workload.engines[task.engine]!
const place = { directory: task.directory }

const warmUp = async (session: Session, size: number) => {
  const begin = cpuMs()
  let lastMs = 0
  for (let runs = 0; runs < task.warmUpRuns || cpuMs() - begin < task.warmUpMs; runs++) {
    const { apart, ms } = await once(session)
    lastMs = ms
    if (task.n === size) fastest = Math.min(fastest, lastMs)
    if (apart || lastMs > task.warmUpMs * 2) break
  }
  return lastMs
}

const fail = (error: unknown) => {
  tell({ _tag: "Failed", error: error instanceof Error ? `${error.message}\n${error.stack}` : String(error) })
}

const main = async () => {
  const size = Math.min(workload.warmUpSize ?? task.n, task.n)
  const warm = await open(size, place)
  const lastMs = await warmUp(warm, size)
  const session = size === task.n ? warm : await open(task.n, place)
  process.on("message", (request: Request) => {
    if (request._tag === "Exit") process.exit(0)
    repetition(session).then(
      (result) => tell({ _tag: "Done", ...result, peakRssMb: process.resourceUsage().maxRSS / 1024 }),
      fail
    )
  })
  tell({ _tag: "Ready", lastMs })
}

process.on("uncaughtException", fail)
process.on("disconnect", () => process.exit(0))
main().catch(fail)
