/** One run at a time on a thread, within this process. Other processes are kept off by compare-and-set at the commit. */
import * as Effect from "effect/Effect"
import { CheckpointerError, RunCancelled, ThreadBusy } from "../GraphError.js"
import { uninterruptibleMask } from "./regions.js"

/** What to do when a run of the thread is in progress. */
export type Multitask = "reject" | "enqueue" | "interrupt" | "rollback"

const POLICIES: ReadonlySet<unknown> = new Set<Multitask>(["reject", "enqueue", "interrupt", "rollback"])

/** A run that holds its thread, or waits for it. */
export interface Holder {
  /** Ends the run with a failure; set once the run is loaded. */
  cancel: ((error: RunCancelled) => void) | undefined
  /** Set when the run must end as soon as it is loaded. */
  replaced: RunCancelled | undefined
  /** The checkpoint that the run started from; `null` for an empty thread, `undefined` while it is not known. */
  base: string | null | undefined
  /** Set while the run waits for its turn. */
  begin: (() => void) | undefined
}

/** The runs of a thread in the order of their turns: the first one runs, the others wait. */
type Line = Set<Holder>

const lines = new WeakMap<object, Map<string, Line>>()

const lineOf = (storage: object, thread: string): Line => {
  let threads = lines.get(storage)
  if (threads === undefined) lines.set(storage, (threads = new Map()))
  let line = threads.get(thread)
  if (line === undefined) threads.set(thread, (line = new Set()))
  return line
}

const firstOf = (line: Line): Holder | undefined => line.values().next().value

const turnOf = (line: Line, holder: Holder): Effect.Effect<void> =>
  Effect.async((resume) => {
    const begin = () => resume(Effect.void)
    if (firstOf(line) === holder) begin()
    else holder.begin = begin
  })

const leave = (storage: object, thread: string, line: Line, holder: Holder): void => {
  line.delete(holder)
  const next = firstOf(line)
  if (next === undefined) lines.get(storage)?.delete(thread)
  else next.begin?.()
}

const replace = (holders: Iterable<Holder>, error: RunCancelled): void => {
  for (const holder of holders) {
    if (holder.cancel === undefined) holder.replaced = error
    else holder.cancel(error)
  }
}

/** Tells the registry that a run is loaded, and ends it if it was replaced meanwhile. */
export const opened = (holder: Holder, base: string | null, cancel: (error: RunCancelled) => void): void => {
  holder.base = base
  holder.cancel = cancel
  if (holder.replaced !== undefined) cancel(holder.replaced)
}

/** Stops the runs that hold the thread or wait for it; yields how many there were. */
export const cancel = (storage: object, thread: string): number => {
  const running = Array.from(lines.get(storage)?.get(thread) ?? [])
  replace(running, new RunCancelled({ thread, reason: "cancel" }))
  return running.length
}

/**
 * Runs an effect while no other one holds the thread of this storage: refuses, waits for its turn, or takes the place
 * of the others. With `rollback` the effect is told where the first of the replaced runs had started.
 */
export const exclusive = <A, E, R>(
  storage: object,
  thread: string,
  policy: Multitask,
  effect: (holder: Holder, base: string | null | undefined) => Effect.Effect<A, E, R>
): Effect.Effect<A, E | ThreadBusy, R> =>
  Effect.suspend((): Effect.Effect<A, E | ThreadBusy, R> => {
    if (!POLICIES.has(policy))
      return Effect.die(
        new RangeError(`multitask is one of ${Array.from(POLICIES, (one) => `"${one}"`).join(", ")}, not "${policy}"`)
      )
    return uninterruptibleMask((restore): Effect.Effect<A, E | ThreadBusy, R> => {
      const line = lineOf(storage, thread)
      const before = Array.from(line)
      if (before.length > 0 && policy === "reject") return new ThreadBusy({ thread })
      const holder: Holder = { cancel: undefined, replaced: undefined, base: undefined, begin: undefined }
      line.add(holder)
      if (policy === "interrupt" || policy === "rollback") replace(before, new RunCancelled({ thread, reason: policy }))
      const body = Effect.suspend(() => effect(holder, policy === "rollback" ? before[0]?.base : undefined))
      const inTurn = before.length === 0 ? body : Effect.zipRight(turnOf(line, holder), body)
      return Effect.flatMap(Effect.exit(restore(inTurn)), (exit) => {
        leave(storage, thread, line, holder)
        return exit
      })
    })
  })

/** Copies something to a thread while nobody runs it. */
export const copying = (
  storage: object,
  thread: string,
  copy: Effect.Effect<void, CheckpointerError>
): Effect.Effect<void, CheckpointerError> =>
  Effect.catchTag(
    exclusive(storage, thread, "reject", () => copy),
    "ThreadBusy",
    () =>
      new CheckpointerError({ operation: "copyThread", thread, reason: "Busy", detail: "a run is in progress on it" })
  )
