/**
 * Regions that nobody interrupts, made anew for each run.
 *
 * `Effect.uninterruptible` and its like assign a function literal to a property, and V8 puts such a function into the
 * old generation: what it holds survives until the next full collection, here the whole run. These let go of it as soon
 * as it runs, so each of them runs once.
 */
import * as Effect from "effect/Effect"

const once = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
  let held: Effect.Effect<A, E, R> | undefined = effect
  return Effect.suspend(() => {
    const now = held!
    held = undefined
    return now
  })
}

/** `Effect.uninterruptible` of an effect that runs once. */
export const uninterruptible = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.uninterruptible(once(effect))

type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** `Effect.uninterruptibleMask` of effects that run once. */
export const uninterruptibleMask = <A, E, R>(
  body: (restore: Restore) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> => {
  let held: typeof body | undefined = body
  return Effect.uninterruptibleMask((restore) => {
    const now = held!
    held = undefined
    return now((effect) => restore(once(effect)))
  })
}
