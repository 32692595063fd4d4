/**
 * Group commit: what several threads append at the same time shares one transaction, and so one flush to the disk.
 */
import * as Effect from "effect/Effect"
import type { Append, Encoded } from "../CheckpointDriver.js"
import type { CheckpointerError } from "../GraphError.js"

type Written = ReadonlyArray<boolean>

interface Waiting {
  readonly rows: ReadonlyArray<Append>
  readonly resume: (written: Effect.Effect<Written, CheckpointerError>) => void
}

/**
 * Collects appends until `pause` is over. Each caller gets the outcome of its own rows; they are written even if it does
 * not wait for it. A thread that appends again with none in between does not wait: it seems to be the only one.
 */
export const groupAppends = (append: Encoded["append"], pause: Effect.Effect<void>): Encoded["append"] => {
  let waiting: Array<Waiting> = []
  let lastThread: string | undefined

  const flush = Effect.suspend(() => {
    const group = waiting
    waiting = []
    if (group.length === 0) return Effect.void
    const all = append(group.flatMap(({ rows }) => rows))
    const alone = Effect.forEach(
      group,
      ({ resume, rows }) => Effect.map(Effect.exit(append(rows)), (exit) => resume(exit)),
      { discard: true }
    )
    return Effect.matchEffect(all, {
      // One row may be what the storage refuses; the others must not suffer from it.
      onFailure: (error) => (group.length === 1 ? Effect.sync(() => group[0]!.resume(Effect.fail(error))) : alone),
      onSuccess: (written) =>
        Effect.sync(() => {
          let from = 0
          for (const { resume, rows } of group) {
            resume(Effect.succeed(written.slice(from, from + rows.length)))
            from += rows.length
          }
        })
    })
  })

  return (rows) =>
    Effect.suspend(() => {
      const thread = rows[0]?.address.thread
      const isAlone = waiting.length === 0 && thread === lastThread
      lastThread = thread
      if (isAlone) return append(rows)
      const leads = waiting.length === 0
      const outcome = Effect.async<Written, CheckpointerError>((resume) => {
        waiting.push({ rows, resume })
      })
      // A fiber of its own: the group must not depend on the caller that happened to come first.
      return leads ? Effect.zipRight(Effect.forkDaemon(Effect.zipRight(pause, flush)), outcome) : outcome
    })
}
