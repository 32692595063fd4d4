/**
 * The events of a thread's runs while its entity lives, for readers that come and go.
 *
 * An event's id names the log (which dies with the entity) and a number. A reader that comes back with the last id it
 * saw gets what it missed; one whose log is gone, or whose events were dropped, must start from the state.
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"

/** An event with its id; without a value it stands for events that the reader was too late for. */
export interface Entry<A> {
  readonly id: string
  readonly value: A | undefined
}

export interface EventLog<A> {
  readonly push: (value: A) => void
  /** The id of the newest event; readers go on after it. */
  readonly last: () => string
  /**
   * Events after an id, then those that come: `undefined` when the log does not know the id (any more).
   */
  readonly after: (id: string | undefined) => Stream.Stream<Entry<A>> | undefined
}

/** Tells whether two ids are of one log. */
export const sameLog = (one: string, other: string): boolean =>
  one.slice(0, one.lastIndexOf("/")) === other.slice(0, other.lastIndexOf("/"))

/** The number of an id in its log. */
export const numberOf = (id: string): number => Number(id.slice(id.lastIndexOf("/") + 1))

/** A log of at least the last `capacity` events. `epoch` tells it from every other log. */
export const make = <A>(epoch: string, capacity: number): EventLog<A> => {
  let entries: Array<A> = []
  /** Number of the first entry kept. */
  let first = 1
  let waiting: Array<() => void> = []
  const newest = () => first + entries.length - 1
  const idOf = (number: number) => `${epoch}/${number}`

  const push = (value: A): void => {
    entries.push(value)
    if (entries.length > 2 * capacity) {
      const dropped = entries.length - capacity
      entries = entries.slice(dropped)
      first += dropped
    }
    const woken = waiting
    waiting = []
    for (const wake of woken) wake()
  }

  const wait = Effect.async<void>((resume) => {
    const wake = () => resume(Effect.void)
    waiting.push(wake)
    return Effect.sync(() => {
      waiting = waiting.filter((other) => other !== wake)
    })
  })

  const from = (start: number): Stream.Stream<Entry<A>> =>
    Stream.paginateChunkEffect(start, (next) => {
      const read = Effect.sync((): readonly [ReadonlyArray<Entry<A>>, Option.Option<number>] => {
        if (next < first) return [[{ id: idOf(newest()), value: undefined }], Option.some(newest() + 1)]
        const batch = entries.slice(next - first).map((value, i) => ({ id: idOf(next + i), value }))
        return [batch, Option.some(next + batch.length)]
      })
      const ready = Effect.suspend(() => (newest() >= next ? Effect.void : wait))
      return Effect.map(
        Effect.zipRight(ready, read),
        ([batch, following]) => [Chunk.unsafeFromArray(batch), following] as const
      )
    })

  const after = (id: string | undefined): Stream.Stream<Entry<A>> | undefined => {
    if (id === undefined) return from(newest() + 1)
    const number = numberOf(id)
    if (!sameLog(id, idOf(0)) || !Number.isInteger(number) || number < first - 1 || number > newest()) return undefined
    return from(number + 1)
  }
  return { push, last: () => idOf(newest()), after }
}
