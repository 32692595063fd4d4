/**
 * Copying threads.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { COPYING, type Json } from "../Checkpoint.js"
import type { Encoded } from "../CheckpointDriver.js"
import type { Checkpointer } from "../Checkpointer.js"
import { CheckpointerError } from "../GraphError.js"
import { invalid, now, onThread } from "./address.js"
import { decodeName } from "./record.js"
import { copyNamespace } from "./retention.js"

interface Copy {
  readonly from: string
  readonly to: string
}

/** Times that a copy is gone on with when somebody else has copied some rows: a runner that stood still, say. */
const ATTEMPTS = 20

const parse = (metadata: string, thread: string): Effect.Effect<Record<string, Json>, CheckpointerError> =>
  Effect.try({
    try: () => JSON.parse(metadata),
    catch: (cause) =>
      new CheckpointerError({
        operation: "copyThread",
        reason: "Corrupt",
        detail: "the metadata is no JSON",
        thread: decodeName(thread),
        cause
      })
  })

const others = (thread: string) =>
  new CheckpointerError({
    operation: "copyThread",
    reason: "Busy",
    detail: "it is written to by others",
    thread: decodeName(thread)
  })

const refuse = (problem: string, thread: string) => invalid("copyThread", decodeName(thread), problem)

/** `copyThread` over a driver. */
export const makeCopying = (encoded: Encoded): Context.Tag.Service<typeof Checkpointer>["copyThread"] => {
  /**
   * Copies the rows of all namespaces; false where somebody else writes to the copy. The thread's own graph comes first:
   * then nobody else can begin the thread.
   */
  const copyRows = Effect.fnUntraced(function* ({ from, to }: Copy) {
    const at = yield* now
    for (const namespace of (yield* encoded.namespaces(from)).toSorted()) {
      const [source, target] = [from, to].map((thread) => ({ thread, namespace }))
      if (!(yield* copyNamespace(encoded, source!, target!, at))) return false
    }
    return true
  })

  const describe = Effect.fnUntraced(function* ({ from, to }: Copy, metadata?: Record<string, Json>) {
    const info = yield* encoded.thread(from)
    if (info === undefined) return
    const text = metadata && JSON.stringify({ ...(yield* parse(info.metadata, from)), ...metadata })
    yield* encoded.putThread(to, { ...info, metadata: text ?? info.metadata }, yield* now)
  })

  /** A copy that is removed if it fails, unless somebody else uses the thread. */
  const copyOnce = Effect.fnUntraced(function* (copy: Copy) {
    if ((yield* encoded.namespaces(copy.from)).length === 0) return yield* refuse("it has no checkpoint", copy.from)
    if ((yield* encoded.namespaces(copy.to)).length > 0) return yield* refuse("it has checkpoints already", copy.to)
    const all = Effect.tap(copyRows(copy), (done) => (done ? describe(copy) : Effect.void))
    const done = yield* Effect.onError(all, () => Effect.ignore(encoded.deleteThread(copy.to)))
    if (!done) return yield* others(copy.to)
  })

  /** A copy that says in the thread's metadata whose it is, from before its first row. */
  const copyNamed = Effect.fnUntraced(function* (copy: Copy, name: string) {
    const stage = Effect.flatMap(encoded.thread(copy.to), (info) => parse(info?.metadata ?? "{}", copy.to))
    const { [COPYING]: copying, run_id } = yield* stage
    if (run_id === name) return
    if ((yield* encoded.namespaces(copy.from)).length === 0) return yield* refuse("it has no checkpoint", copy.from)
    if (copying !== name) {
      if ((yield* encoded.namespaces(copy.to)).length > 0) return yield* refuse("it has checkpoints already", copy.to)
      yield* describe(copy, { [COPYING]: name })
    }
    const done = yield* Effect.repeat(copyRows(copy), { times: ATTEMPTS, while: (done) => !done })
    if (!done) return yield* others(copy.to)
    if ((yield* stage)[COPYING] === name) yield* describe(copy, { [COPYING]: undefined, run_id: name })
  })

  return (from, to, name) =>
    onThread("copyThread", from, (source) =>
      onThread("copyThread", to, (target) => {
        const copy = { from: source, to: target }
        return name === undefined ? copyOnce(copy) : copyNamed(copy, name)
      })
    )
}
