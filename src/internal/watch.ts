/**
 * What the threads on a runner need to know of it: whether it still hosts them, and whether its process stood still, so
 * that others may have taken them over unnoticed.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** A thread in the memory of a runner. */
export interface Resident {
  readonly isHeld: () => boolean
  /** Called once, soon after it is not held any more. */
  readonly leave: () => void
}

export interface Watch {
  /** How often the process is known to have stood still. */
  readonly standstills: () => number
  readonly add: (resident: Resident) => void
  readonly remove: (resident: Resident) => void
}

const INTERVAL = 100
/** A timer that is this late means that the process stood still, whatever the reason. */
const LATE = 500

/** Watches until the scope is closed. */
export const make: Effect.Effect<Watch, never, Scope.Scope> = Effect.gen(function* () {
  const clock = yield* Effect.clock
  const residents = new Set<Resident>()
  let seen = clock.unsafeCurrentTimeMillis()
  let standstills = 0
  const look = () => {
    const now = clock.unsafeCurrentTimeMillis()
    if (now - seen > INTERVAL + LATE) {
      standstills++
      // Until the next look nothing else is late.
      seen = now
    }
    return now
  }
  const tick = Effect.sync(() => {
    seen = look()
    for (const resident of residents) {
      if (resident.isHeld()) continue
      residents.delete(resident)
      resident.leave()
    }
  })
  yield* Effect.forkScoped(Effect.forever(Effect.zipRight(Effect.sleep(INTERVAL), tick)))
  return {
    standstills: () => {
      look()
      return standstills
    },
    add: (resident) => void residents.add(resident),
    remove: (resident) => void residents.delete(resident)
  }
})
