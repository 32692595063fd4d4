/**
 * What a benchmark is: one job, done by several engines, at several sizes.
 */

/** The engine of this project, the one it is compared with, and what the machine allows at best. */
export const OURS = "effect-pregel"
export const THEIRS = "langgraph"
export const RAW = "raw"
/** Others, where the workload makes sense to them: LangGraph with its delta channel, a state machine, workflows. */
export const DELTA = "langgraph-delta"
export const XSTATE = "xstate"
export const MASTRA = "mastra"

/** A prepared job in its own process. Only `run` is timed. */
export interface Session {
  /** Makes what one run needs: a new database, a new thread. */
  readonly before?: () => Promise<void>
  /** Does the job once and throws unless the result is right. May return its own time in milliseconds. */
  readonly run: () => Promise<number | void>
  /** Puts away what `before` made; returns the bytes that were stored. */
  readonly after?: () => Promise<number | undefined>
}

/** Where a session may keep files. */
export interface Place {
  readonly directory: string
}

/** Where checkpoints are kept. */
export type Kind = "none" | "memory" | "sqlite"

/** Prepares the job at size `n`; only then are the engine's modules loaded. */
export type Open = (n: number, place: Place) => Promise<Session>

export interface Workload {
  /** Names with a common beginning belong together: `loop`, `loop+memory`, `loop+sqlite/full`. */
  readonly name: string
  readonly title: string
  /** What one unit of work is, and how many of them a run has. */
  readonly unit: string
  readonly units: (n: number) => number
  readonly sizes: ReadonlyArray<number>
  /** The sizes of a quick benchmark; none leaves the workload out. */
  readonly quick: ReadonlyArray<number>
  /** The size to warm up with where a run at full size takes too long. */
  readonly warmUpSize?: number
  /** The greatest size that an engine can do in reasonable time or memory. */
  readonly limits?: Readonly<Record<string, number>>
  readonly engines: Readonly<Record<string, Open>>
}

/** Fails a session whose result is wrong. */
export const expectEqual = (actual: unknown, expected: unknown, what: string): void => {
  if (actual !== expected) throw new Error(`wrong ${what}: ${String(actual)} instead of ${String(expected)}`)
}
