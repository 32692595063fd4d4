/**
 * Calls that are delivered again, told by their run ids: what an earlier delivery left is gone on with instead of begun
 * anew. A run of the thread's head needs nothing of this: it finds its own checkpoint there.
 */
import * as Chunk from "effect/Chunk"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type Address, type Checkpoint, RESUME } from "./Checkpoint.js"
import type { Checkpointer, Loaded } from "./Checkpointer.js"
import type { CheckpointDecodeError, CheckpointerError } from "./GraphError.js"
import { type Call, NULL_TASK } from "./Load.js"
import type { Options } from "./Runs.js"

type Service = Context.Tag.Service<typeof Checkpointer>

type Reading<A> = Effect.Effect<A, CheckpointerError | CheckpointDecodeError>

/** Checkpoints that others may have saved between a change and the death of the runner that had not answered it. */
const SINCE = 32

/**
 * The checkpoints that a change of `most` supersteps has made already, newest first. Only who holds the thread by its
 * fence delivers a change again.
 */
export const applied = (
  storage: Service,
  address: Address,
  options: Options,
  most: number
): Reading<ReadonlyArray<Checkpoint>> => {
  const { fence, runId } = options
  if (fence === undefined || runId === undefined) return NONE
  return storage.list(address, { limit: most + SINCE }).pipe(
    Stream.map(({ checkpoint }) => checkpoint),
    Stream.filter(({ metadata }) => metadata.run_id === runId),
    Stream.runCollect,
    Effect.map(Chunk.toReadonlyArray)
  )
}

const NONE = Effect.succeed<ReadonlyArray<Checkpoint>>([])

/** Old checkpoints that a run starts from: of its thread, and of subgraphs by namespace. */
export interface Start {
  readonly at: string | undefined
  readonly pins: ReadonlyMap<string, string> | undefined
}

/** Where a run starts: an earlier delivery of it goes on where it came to, in every namespace that it has forked. */
export const startOf = Effect.fnUntraced(function* (
  storage: Service,
  thread: string,
  { runId }: Options,
  call: Call,
  { at, pins }: Start
) {
  if (runId === undefined) return { at, pins }
  const hasForked = (namespace: string): Reading<boolean> =>
    Effect.map(
      storage.load({ thread, namespace }),
      (head) => head?.checkpoint.metadata.run_id === runId && hasTaken(head, call)
    )
  const left = new Map<string, string>()
  for (const [namespace, id] of pins ?? []) if (!(yield* hasForked(namespace))) left.set(namespace, id)
  return { at: (yield* hasForked("")) ? undefined : at, pins: left }
})

/** Whether a run's fork, if that is all it has saved, holds what the call brought. */
const hasTaken = ({ checkpoint, writes }: Loaded, call: Call): boolean =>
  checkpoint.source !== "fork" ||
  call._tag !== "Resume" ||
  ((call.answer === undefined || writes.some(({ channel }) => channel === RESUME)) &&
    (call.command === undefined || writes.some(({ task }) => task === NULL_TASK)))
