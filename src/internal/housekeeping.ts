/**
 * Copying threads and removing parts of them.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Encoded } from "../CheckpointDriver.js"
import type { Checkpointer } from "../Checkpointer.js"
import { CheckpointerError } from "../GraphError.js"
import { invalid, now, onThread } from "./address.js"
import { located } from "./reading.js"
import { decodeName } from "./record.js"
import { type Candidate, copyNamespace, retain } from "./retention.js"

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

  const copy = Effect.fnUntraced(function* ({ from, to }: { readonly from: string; readonly to: string }) {
    const namespaces = yield* encoded.namespaces(from)
    if (namespaces.length === 0) return yield* invalid("copyThread", decodeName(from), "it has no checkpoint")
    if ((yield* encoded.namespaces(to)).length > 0) {
      return yield* invalid("copyThread", decodeName(to), "it has checkpoints already")
    }
    const at = yield* now
    const copyAll = Effect.gen(function* () {
      for (const namespace of namespaces) {
        const [source, target] = [from, to].map((thread) => ({ thread, namespace }))
        if (!(yield* copyNamespace(encoded, source!, target!, at))) {
          return yield* new CheckpointerError({
            operation: "copyThread",
            reason: "Busy",
            detail: "it is written to by others",
            thread: decodeName(to)
          })
        }
      }
      const info = yield* encoded.thread(from)
      if (info !== undefined) yield* encoded.putThread(to, info, at)
    })
    yield* Effect.onError(copyAll, () => Effect.ignore(encoded.deleteThread(to)))
  })

  return {
    copyThread: (from, to) =>
      onThread("copyThread", from, (source) =>
        onThread("copyThread", to, (target) => copy({ from: source, to: target }))
      ),
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
