/**
 * Retry policies as values. A node takes any `Schedule`; these are the ones that need no thought.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import type { RetryPolicy } from "./Topology.js"

/** Options of `backoff`. */
export interface BackoffOptions {
  /** Wait after the first failure; default 500 milliseconds. */
  readonly initial?: Duration.DurationInput | undefined
  /** What each wait is multiplied with for the next one; default 2. */
  readonly factor?: number | undefined
  /** Longest wait before jitter; default 128 seconds. */
  readonly max?: Duration.DurationInput | undefined
  /** Attempts in all, the first one included; default 3. */
  readonly attempts?: number | undefined
  /** Adds up to a second to each wait, so that clients do not come back together; default `true`. */
  readonly jitter?: boolean | undefined
}

/** Waits that grow, with jitter added after the cap, for a number of attempts. */
export const backoff = (options: BackoffOptions = {}): Schedule.Schedule<unknown> => {
  const initial = Duration.toMillis(options.initial ?? "500 millis")
  const max = Duration.toMillis(options.max ?? "128 seconds")
  const factor = options.factor ?? 2
  const waits = Schedule.addDelay(Schedule.recurs((options.attempts ?? 3) - 1), (failures) =>
    Math.min(max, initial * factor ** failures)
  )
  if (options.jitter === false) return waits
  return Schedule.modifyDelayEffect(waits, (_, wait) =>
    Effect.map(Random.next, (part) => Duration.sum(wait, Duration.seconds(part)))
  )
}

/** Failures that another attempt can't mend: what the node wrote or chose is wrong. */
const OWN = new Set(["InvalidUpdate", "UnknownNode", "ActivityMismatch", "CheckpointDecodeError", "ThreadConflict"])

/** Statuses of HTTP that another attempt can't mend. */
const isFinalStatus = (status: unknown): boolean =>
  typeof status === "number" && status >= 400 && status < 500 && status !== 408 && status !== 429

const statusOf = (error: object): unknown => {
  const { response, status } = error as { readonly response?: { readonly status?: unknown }; readonly status?: unknown }
  return status ?? response?.status
}

/**
 * Whether another attempt may help: not after failures that the engine found in the node's result, programming errors
 * (`TypeError` and its like), or an HTTP status of 400 to 499 other than 408 and 429. Timeouts are repeated.
 */
export const mayHelp = (error: unknown): boolean => {
  if (typeof error !== "object" || error === null) return true
  const { _tag: tag } = error as { readonly _tag?: unknown }
  if (typeof tag === "string" && OWN.has(tag)) return false
  if (error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError) return false
  return !isFinalStatus(statusOf(error))
}

/**
 * LangGraph's default policy: three attempts, half a second and twice that between them plus up to a second, for
 * failures that another attempt may mend (`semantics.md` 4).
 *
 * @example
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Channel, Graph, Retry } from "effect-pregel"
 *
 * declare const fetchPage: Effect.Effect<string, Error>
 *
 * const graph = Graph.make("page", { text: Channel.lastValue(Schema.String) })
 *   .addNode("fetch", () => Effect.map(fetchPage, (text) => ({ text })), { retry: Retry.standard })
 *   .addEdge(Graph.START, "fetch")
 *   .compile()
 * ```
 */
export const standard: RetryPolicy<never> = { schedule: backoff(), while: mayHelp }
