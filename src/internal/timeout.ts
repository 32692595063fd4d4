/**
 * Time limits in the form in which nodes and sends keep them: milliseconds, as plain data.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"

interface Policy {
  readonly run?: Duration.DurationInput | undefined
  readonly idle?: Duration.DurationInput | undefined
  readonly refreshOn?: "auto" | "heartbeat" | undefined
}

const isDuration = (input: Duration.DurationInput | Policy): input is Duration.DurationInput =>
  typeof input !== "object" || Duration.isDuration(input) || Array.isArray(input)

/** The milliseconds of a limit; `NaN` for what is no duration. */
const millisOf = (limit: Duration.DurationInput): number =>
  Option.match(Duration.decodeUnknown(limit), { onNone: () => Number.NaN, onSome: Duration.toMillis })

/** The time limits that an option stands for: a bare duration limits the whole attempt. Infinite limits are none. */
export const timeoutPolicy = (input: Duration.DurationInput | Policy | undefined): Policy | undefined => {
  if (input === undefined || input === null) return undefined
  const { idle, refreshOn, run }: Policy = isDuration(input) ? { run: input } : input
  const policy: { run?: number; idle?: number; refreshOn?: "auto" | "heartbeat" } = {}
  if (run !== undefined && millisOf(run) !== Number.POSITIVE_INFINITY) policy.run = millisOf(run)
  if (idle !== undefined && millisOf(idle) !== Number.POSITIVE_INFINITY) policy.idle = millisOf(idle)
  if (policy.run === undefined && policy.idle === undefined) return undefined
  if (refreshOn !== undefined) policy.refreshOn = refreshOn
  return policy
}

/** What is wrong with time limits, if anything. */
export const timeoutProblem = (policy: Policy | undefined): string | undefined => {
  for (const kind of ["run", "idle"] as const) {
    const limit = policy?.[kind]
    if (limit !== undefined && !(millisOf(limit) > 0)) return `its ${kind} timeout must be greater than 0`
  }
  const { refreshOn = "auto" } = policy ?? {}
  if (refreshOn === "auto" || refreshOn === "heartbeat") return undefined
  return `its idle timeout is refreshed on "auto" or "heartbeat", not on "${refreshOn}"`
}
