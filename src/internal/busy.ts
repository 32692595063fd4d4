/** One run at a time on a thread, within this process. Other processes are kept off by compare-and-set at the commit. */
import * as Effect from "effect/Effect"
import { ThreadBusy } from "../GraphError.js"

interface Line {
  holders: number
  readonly turn: Effect.Semaphore
}

const lines = new WeakMap<object, Map<string, Line>>()

/** Runs an effect while no other one holds the thread of this storage: refuses, or waits for its turn. */
export const exclusive = <A, E, R>(
  storage: object,
  thread: string,
  policy: "reject" | "enqueue",
  effect: () => Effect.Effect<A, E, R>
): Effect.Effect<A, E | ThreadBusy, R> =>
  Effect.suspend((): Effect.Effect<A, E | ThreadBusy, R> => {
    let threads = lines.get(storage)
    if (threads === undefined) lines.set(storage, (threads = new Map()))
    let line = threads.get(thread)
    if (line === undefined) threads.set(thread, (line = { holders: 0, turn: Effect.unsafeMakeSemaphore(1) }))
    if (line.holders > 0 && policy === "reject") return new ThreadBusy({ thread })
    line.holders++
    const release = Effect.sync(() => {
      line.holders--
      if (line.holders === 0) threads.delete(thread)
    })
    return Effect.ensuring(line.turn.withPermits(1)(Effect.suspend(effect)), release)
  })
