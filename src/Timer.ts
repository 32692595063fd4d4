/**
 * Durable waiting: a node that sleeps until a time pauses its run, costs nothing meanwhile, and is woken after any
 * restart.
 *
 * A sleep is a pause like any other; its question says until when. Whoever hosts the threads answers it when the time
 * has come: a cluster does (`GraphEntity`); elsewhere `answersDue` says which answers to resume with.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { GraphInterrupt, PendingInterrupt } from "./GraphError.js"
import * as Interrupt from "./Interrupt.js"
import { Task } from "./Task.js"

const NAME = "__timer__"

/** The question of a sleeping node. */
const Wake = Interrupt.make(NAME, {
  request: Schema.Struct({ until: Schema.Number }),
  answer: Schema.Null
})

const pauseUntil = (until: number): Effect.Effect<void, GraphInterrupt, Task> => Effect.asVoid(Wake({ until }))

/**
 * Sleeps until a time: milliseconds since the epoch, or a `Date`. On a thread the run pauses and is woken then; without
 * one the node's fiber sleeps.
 */
export const sleepUntil = (time: number | Date): Effect.Effect<void, GraphInterrupt, Task> => {
  const until = typeof time === "number" ? time : time.getTime()
  return Effect.flatMap(Task, (task) =>
    task.checkpoint !== undefined
      ? pauseUntil(until)
      : Effect.flatMap(Clock.currentTimeMillis, (now) => Effect.sleep(Math.max(0, until - now)))
  )
}

/**
 * Sleeps for a duration, counted from when the node first asks: a replay does not start it again.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { Timer } from "effect-pregel"
 *
 * const remind = () => Effect.as(Timer.sleep("2 days"), { reminded: true })
 * ```
 */
export const sleep = (duration: Duration.DurationInput): Effect.Effect<void, GraphInterrupt, Task> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => sleepUntil(now + Duration.toMillis(duration)))

/** When a pause is over by itself, in milliseconds since the epoch; `undefined` for one that needs a person. */
export const dueAt = (pending: Pick<PendingInterrupt, "name" | "value">): number | undefined =>
  pending.name === NAME ? (pending.value as { readonly until: number }).until : undefined

/** The answers that wake the sleeps that are over by a time: by interrupt id, as `thread.resume` takes them. */
export const answersDue = (
  pending: ReadonlyArray<PendingInterrupt>,
  now: number
): { readonly [id: `${string}:${string}`]: null } => {
  const answers: Record<`${string}:${string}`, null> = {}
  for (const one of pending) {
    const due = dueAt(one)
    if (due !== undefined && due <= now) answers[one.id as `${string}:${string}`] = null
  }
  return answers
}
