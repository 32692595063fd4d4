/** Crashes: a storage that fails at one of its calls, and what a process does after it was started again. */
import * as Effect from "effect/Effect"
import { ACTIVITY, type PendingWrite } from "../../src/Checkpoint.js"
import type { Checkpointer } from "../../src/Checkpointer.js"
import { CheckpointerError } from "../../src/GraphError.js"

type Service = typeof Checkpointer.Service

/** When the storage fails, and how. */
export interface Fault {
  /** The call that fails, counted from 1. */
  readonly call: number
  /** Whether the call takes effect before it fails: a lost acknowledgement. */
  readonly takesEffect: boolean
  /** Whether every later call fails as well: the process is dead. */
  readonly forGood: boolean
}

const rowsIn = (writes: ReadonlyArray<PendingWrite> | undefined) =>
  (writes ?? []).filter(({ channel }) => channel.startsWith(ACTIVITY)).map(({ value }) => JSON.parse(value) as Saved)

interface Saved {
  readonly name: string
  readonly failed: boolean
}

/** What became durable: names of activities whose results are saved. */
export interface Durable {
  readonly activities: Set<string>
}

/** A storage with a fault. `calls` counts what was asked of it. */
export const faulty = (saver: Service, fault: Fault | undefined, durable: Durable) => {
  const counted = { calls: 0, failed: false }
  const error = new CheckpointerError({ operation: "crash", reason: "Unavailable", detail: "the storage is gone" })
  const call = <A, E, R>(
    effect: Effect.Effect<A, E, R>,
    writes: ReadonlyArray<PendingWrite> | undefined = undefined
  ): Effect.Effect<A, E | CheckpointerError, R> =>
    Effect.suspend(() => {
      const number = ++counted.calls
      const noted = Effect.tap(effect, () => {
        for (const { failed, name } of rowsIn(writes)) if (!failed) durable.activities.add(name)
      })
      if (fault === undefined || number < fault.call || (number > fault.call && !fault.forGood)) return noted
      counted.failed = true
      return number === fault.call && fault.takesEffect ? Effect.zipRight(noted, error) : error
    })
  const service: Service = {
    ...saver,
    load: (address, id) => call(saver.load(address, id)),
    commit: (commit) => call(saver.commit(commit), commit.writes),
    write: (staged) =>
      call(
        saver.write(staged),
        staged.flatMap(({ commit }) => commit.writes ?? [])
      ),
    putWrites: (address, seq, writes, ...others) => call(saver.putWrites(address, seq, writes, ...others), writes),
    dropWrites: (address, seq, tasks) => call(saver.dropWrites(address, seq, tasks)),
    setStatus: (thread, status) => call(saver.setStatus(thread, status))
  }
  return { service, counted }
}
