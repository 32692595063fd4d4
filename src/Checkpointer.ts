/**
 * Durable state, as a service.
 *
 * `Checkpointer` is the face the engine uses: checkpoints, changes and pending writes. `Encoded` is the face a driver
 * implements: rows of text under `(thread, namespace, seq)`. `makeEncoded` joins them, so that memory is as strict as
 * SQL: what is kept is always the encoded text, never a live value.
 *
 * A commit appends one row: the channels that changed, or the whole state where that is no longer than the changes
 * since the last whole one. Items of append channels are kept in a column of their own, each exactly once. So history
 * costs linear space, a head is read at the cost of its state, and an old checkpoint at a bounded one.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Stream from "effect/Stream"
import type {
  Address,
  Change,
  Checkpoint,
  GraphIdentity,
  Header,
  Json,
  PendingWrite,
  Source,
  ThreadStatus
} from "./Checkpoint.js"
import type { Append, Encoded } from "./CheckpointDriver.js"
import { type CheckpointDecodeError, CheckpointerError, type ThreadConflict } from "./GraphError.js"
import { encodeAddress } from "./internal/address.js"
import { makeHousekeeping } from "./internal/housekeeping.js"
import { makeMemory } from "./internal/memory.js"
import { makeReading, makeThreads } from "./internal/reading.js"
import { encodeName } from "./internal/record.js"
import { fromLineage, makeGraphs, makeWriting } from "./internal/writing.js"

/** The saver's own bookkeeping about the branch a checkpoint lies on; opaque to the engine, updated by `commit`. */
export interface Lineage {
  readonly _: unique symbol
}

/** A loaded checkpoint with all that a run needs to go on from it. */
export interface Loaded {
  readonly checkpoint: Checkpoint
  /** The namespace's greatest `seq`; a commit names it to prove that nobody wrote in between. */
  readonly head: number
  readonly lineage: Lineage
  /** Sorted by `pendingWriteOrder`. */
  readonly writes: ReadonlyArray<PendingWrite>
}

/** A new checkpoint, told as changes to its parent. */
export interface Commit {
  readonly address: Address
  /** `Loaded.head` or the last committed `seq`; `0` where nothing was stored. */
  readonly expectedHead: number
  /** Greater than `expectedHead`. */
  readonly seq: number
  readonly parent: { readonly seq: number; readonly id: string } | undefined
  /** The parent's lineage; `undefined` for a checkpoint without parent. */
  readonly lineage: Lineage | undefined
  readonly step: number
  readonly source: Source
  readonly created: number
  readonly version: number
  readonly resumedAt: number
  readonly changes: ReadonlyArray<Change>
  /** Every channel that has a value, for savers that write a whole checkpoint now. Append channels without items. */
  readonly whole: () => ReadonlyArray<WholeEntry>
  readonly seen: Header["seen"]
  readonly ran: ReadonlyArray<string>
  readonly results: ReadonlyArray<{
    readonly task: string
    /** `text === undefined` says: the same as this commit's change of that channel. */
    readonly writes: ReadonlyArray<readonly [channel: string, text: string | undefined]>
  }>
  readonly graph: GraphIdentity
  readonly parents: Readonly<Record<string, string>>
  readonly metadata: Readonly<Record<string, Json>>
  /** Pending writes of this new checkpoint that must be saved with it. */
  readonly writes?: ReadonlyArray<PendingWrite> | undefined
  /** What the thread does from now on, if that changes. */
  readonly status?: ThreadStatus | undefined
  /** Refuse the commit (`ThreadConflict`) if a newer fence was taken for the thread. */
  readonly fence?: number | undefined
}

/** One channel of a whole checkpoint. */
export type WholeEntry =
  | { readonly append: false; readonly channel: string; readonly version: number; readonly text: string | undefined }
  | { readonly append: true; readonly channel: string; readonly version: number; readonly length: number }

/** What `Checkpointer.threads` and searches return. */
export interface ThreadInfo {
  readonly thread: string
  readonly graph: GraphIdentity
  readonly status: ThreadStatus
  readonly created: number
  readonly updated: number
  readonly metadata: Readonly<Record<string, Json>>
}

/** Which checkpoints to list. */
export interface ListOptions {
  /** Only checkpoints before the one of this id. */
  readonly before?: string | undefined
  /** Most checkpoints to return; all by default. */
  readonly limit?: number | undefined
  /** Exact equality on top-level metadata keys (`source` and `step` included). */
  readonly filter?: Readonly<Record<string, Json>> | undefined
}

/** Which threads to list; every condition must hold. */
export interface ThreadOptions {
  readonly status?: ThreadStatus | undefined
  /** Name of the graph. */
  readonly graph?: string | undefined
  /** Milliseconds since the epoch; threads changed at that time or later. */
  readonly updatedSince?: number | undefined
  /** Milliseconds since the epoch; threads last changed before that time. */
  readonly updatedBefore?: number | undefined
  /** Exact equality on top-level metadata keys. */
  readonly metadata?: Readonly<Record<string, Json>> | undefined
}

/**
 * Which checkpoints `prune` may remove. It never removes the end of a branch, nor a checkpoint that waits for an answer,
 * nor items of append channels that a remaining checkpoint holds.
 */
export interface PruneOptions {
  /** How many of the newest checkpoints of each namespace to keep; 1 by default. */
  readonly keep?: number | undefined
  /** Milliseconds since the epoch: keep what was created then or later. */
  readonly olderThan?: number | undefined
}

/** A commit that is encoded and ready to be written. */
export interface Staged {
  readonly commit: Commit
  /** What the next commit on this branch names as its parent's lineage. */
  readonly lineage: Lineage
  readonly append: Append
}

/** The storage of checkpoints. */
export class Checkpointer extends Context.Tag("effect-pregel/Checkpointer")<
  Checkpointer,
  {
    /** The head of a namespace, or the checkpoint of that id; `undefined` where there is none. */
    readonly load: (
      address: Address,
      id?: string | undefined
    ) => Effect.Effect<Loaded | undefined, CheckpointerError | CheckpointDecodeError>
    /** Appends a checkpoint; fails with `ThreadConflict` and writes nothing if the head is not the expected one. */
    readonly commit: (commit: Commit) => Effect.Effect<Lineage, CheckpointerError | ThreadConflict>
    /** Encodes a commit without writing it: its values may change afterwards, its lineage can be built upon. */
    readonly stage: (commit: Commit) => Effect.Effect<Staged, CheckpointerError>
    /**
     * Writes staged commits in their order, in one transaction where the storage has one. Fails with the first
     * `ThreadConflict`; a commit that builds on a refused one is refused as well.
     */
    readonly write: (staged: ReadonlyArray<Staged>) => Effect.Effect<void, CheckpointerError | ThreadConflict>
    /**
     * Saves pending writes of a stored checkpoint (else `ThreadConflict`), and with them what the thread does from now
     * on. Results, answers and activities: the first wins; others are replaced.
     */
    readonly putWrites: (
      address: Address,
      seq: number,
      writes: ReadonlyArray<PendingWrite>,
      fence?: number | undefined,
      status?: ThreadStatus | undefined
    ) => Effect.Effect<void, CheckpointerError | ThreadConflict>
    /** Forgets pending writes of some tasks of a checkpoint. */
    readonly dropWrites: (
      address: Address,
      seq: number,
      tasks: ReadonlyArray<string>
    ) => Effect.Effect<void, CheckpointerError>
    /** Checkpoints of a namespace, newest first. */
    readonly list: (
      address: Address,
      options?: ListOptions
    ) => Stream.Stream<Loaded, CheckpointerError | CheckpointDecodeError>
    /** Namespaces of a thread that hold checkpoints, sorted. */
    readonly namespaces: (thread: string) => Effect.Effect<ReadonlyArray<string>, CheckpointerError>
    /** What is known of a thread. */
    readonly thread: (thread: string) => Effect.Effect<ThreadInfo | undefined, CheckpointerError>
    /** Threads that have a checkpoint, in a stable order. */
    readonly threads: (options?: ThreadOptions) => Stream.Stream<ThreadInfo, CheckpointerError>
    /** Records what a thread is doing without writing a checkpoint. */
    readonly setStatus: (thread: string, status: ThreadStatus) => Effect.Effect<void, CheckpointerError>
    /** Takes a thread over: commits and writes that name an older fence are refused from now on. */
    readonly takeFence: (thread: string) => Effect.Effect<number, CheckpointerError>
    /** Removes every namespace of a thread. */
    readonly deleteThread: (thread: string) => Effect.Effect<void, CheckpointerError>
    /**
     * Copies a thread with its whole history, ids included, to an id that has none. Not atomic: if it fails, the copy
     * is removed again. One that has a name is left as far as it came: the next call of that name goes on with it, and
     * does nothing if it is complete.
     */
    readonly copyThread: (from: string, to: string, name?: string | undefined) => Effect.Effect<void, CheckpointerError>
    /** Removes the checkpoints of some runs (`run_id` of their metadata) with their pending writes; returns how many. */
    readonly deleteRuns: (
      thread: string,
      runs: ReadonlyArray<string>
    ) => Effect.Effect<number, CheckpointerError | CheckpointDecodeError>
    /** Removes checkpoints of a thread that nothing needs any more; returns how many. */
    readonly prune: (
      thread: string,
      options?: PruneOptions
    ) => Effect.Effect<number, CheckpointerError | CheckpointDecodeError>
    /** The driver beneath; decorators wrap it. */
    readonly encoded: Encoded
  }
>() {}

/** The typed service over a driver. */
export const makeEncoded = (encoded: Encoded): Context.Tag.Service<typeof Checkpointer> => {
  const graphs = makeGraphs(encoded)
  return {
    ...makeWriting(encoded, graphs),
    ...makeReading(encoded, graphs),
    ...makeThreads(encoded, graphs),
    ...makeHousekeeping(encoded),
    dropWrites: (address, seq, tasks) =>
      Effect.suspend(() => encoded.dropWrites(encodeAddress(address), seq, tasks.map(encodeName))),
    encoded
  }
}

/**
 * Tells whether the superstep that started from checkpoint `seq` lies on the branch that a lineage ends: a fork keeps
 * what was before the checkpoint it starts from, not what was done there.
 */
export const isOnBranch = (lineage: Lineage, seq: number): boolean => {
  const { before, run, seq: last } = fromLineage(lineage)!
  if (seq >= run) return seq <= last
  const oldest = before.ranges[0]?.[0] ?? run
  if (seq < oldest) return before.block > 0
  return before.ranges.some(([from, to]) => from <= seq && seq < to)
}

/** Keeps everything in this process, as encoded texts, until the layer is released. */
export const layerMemory: Layer.Layer<Checkpointer> = Layer.sync(Checkpointer, () => makeEncoded(makeMemory()))

/** A layer whose driver is wrapped: what decorators are made with. */
export const mapEncoded =
  <E2 = never, R2 = never>(wrap: (encoded: Encoded) => Effect.Effect<Encoded, E2, R2>) =>
  <E, R>(layer: Layer.Layer<Checkpointer, E, R>): Layer.Layer<Checkpointer, E | E2, R | R2> =>
    Layer.provide(
      Layer.effect(
        Checkpointer,
        Effect.flatMap(Checkpointer, ({ encoded }) => Effect.map(wrap(encoded), makeEncoded))
      ),
      layer
    )

/** Refuses everything that would change what is stored, with the reason `Unsupported`. */
export const readOnly: <E, R>(layer: Layer.Layer<Checkpointer, E, R>) => Layer.Layer<Checkpointer, E, R> = mapEncoded(
  (encoded) => {
    const refuse = (operation: string) => (): Effect.Effect<never, CheckpointerError> =>
      new CheckpointerError({ operation, reason: "Unsupported", detail: "the storage is read-only" })
    return Effect.succeed({
      ...encoded,
      append: refuse("commit"),
      putWrites: refuse("putWrites"),
      dropWrites: refuse("dropWrites"),
      putThread: refuse("setStatus"),
      setStatus: refuse("setStatus"),
      takeFence: refuse("takeFence"),
      rewrite: refuse("rewrite"),
      deleteThread: refuse("deleteThread"),
      graphId: refuse("commit")
    })
  }
)

/** Refuses rows and pending writes with a text of more than `characters`, with the reason `LimitExceeded`. */
export const limited = (
  characters: number
): (<E, R>(layer: Layer.Layer<Checkpointer, E, R>) => Layer.Layer<Checkpointer, E, R>) =>
  mapEncoded((encoded) => {
    const problemOf = (texts: ReadonlyArray<string | null>): CheckpointerError | undefined => {
      const longest = texts.reduce((most, text) => Math.max(most, text?.length ?? 0), 0)
      if (longest <= characters) return undefined
      const detail = `a text of ${longest} characters is longer than the limit of ${characters}`
      return new CheckpointerError({ operation: "commit", reason: "LimitExceeded", detail })
    }
    return Effect.succeed({
      ...encoded,
      append: (rows) =>
        problemOf(rows.flatMap(({ data, log, writes }) => [data, log, ...writes.map(({ value }) => value)])) ??
        encoded.append(rows),
      putWrites: (address, seq, writes, fence, status) =>
        problemOf(writes.map(({ value }) => value)) ?? encoded.putWrites(address, seq, writes, fence, status)
    })
  })
