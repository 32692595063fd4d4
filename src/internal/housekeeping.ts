/**
 * Copying threads and removing parts of them.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Encoded } from "../CheckpointDriver.js"
import type { Checkpointer } from "../Checkpointer.js"
import { now, onThread } from "./address.js"
import { makeCopying } from "./copying.js"
import { located } from "./reading.js"
import { decodeName } from "./record.js"
import { type Candidate, retain } from "./retention.js"

type Service = Context.Tag.Service<typeof Checkpointer>

/** `copyThread`, `deleteRuns`, `prune` over a driver. */
export const makeHousekeeping = (encoded: Encoded): Pick<Service, "copyThread" | "deleteRuns" | "prune"> => {
  /** Keeps what `keep` says in every namespace; a thread without checkpoints is removed. */
  const retainAll = Effect.fnUntraced(function* (name: string, keep: (candidate: Candidate) => boolean) {
    const at = yield* now
    let removed = 0
    for (const namespace of yield* encoded.namespaces(name)) {
      const address = { thread: decodeName(name), namespace: decodeName(namespace) }
      removed += yield* Effect.mapError(
        retain(encoded, { thread: name, namespace }, at, keep),
        located(address, undefined)
      )
    }
    if (removed > 0 && (yield* encoded.namespaces(name)).length === 0) yield* encoded.deleteThread(name)
    return removed
  })

  return {
    copyThread: makeCopying(encoded),
    deleteRuns: (thread, runs) =>
      onThread("deleteRuns", thread, (name) => {
        const gone = new Set<unknown>(runs)
        return retainAll(name, ({ metadata }) => !gone.has(metadata.run_id))
      }),
    prune: (thread, { keep = 1, olderThan } = {}) =>
      onThread("prune", thread, (name) =>
        retainAll(
          name,
          ({ age, created, isLeaf, isPaused }) =>
            age < keep || isLeaf || isPaused || (olderThan !== undefined && created >= olderThan)
        )
      )
  }
}
