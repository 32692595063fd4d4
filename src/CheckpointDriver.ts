/**
 * The face a storage driver implements, beneath `Checkpointer`: rows of text, numbered within `(thread, namespace)`.
 * `Checkpointer.makeEncoded` makes the typed service of it. Types only.
 */
import type * as Effect from "effect/Effect"
import type { Address, GraphIdentity, PendingWrite, ThreadStatus } from "./Checkpoint.js"
import type { CheckpointerError } from "./GraphError.js"

/** Inclusive numbers of rows. */
export type Range = readonly [from: number, to: number]

/** One column of some rows, in ascending order. */
export type Column = ReadonlyArray<{ readonly seq: number; readonly text: string }>

/** A row to append: it is written only if the namespace's greatest `seq` is `expectedHead`. */
export interface Append {
  readonly address: Address
  readonly expectedHead: number
  readonly seq: number
  readonly log: string | null
  readonly data: string
  /** A row that must exist, because the new one builds on it. */
  readonly requires: number | undefined
  /** An earlier row of the same call: if that one is refused, so is this one, whatever the head is. */
  readonly follows: Append | undefined
  readonly writes: ReadonlyArray<EncodedWrite>
  readonly created: number
  /** What becomes of the thread, where that changes. */
  readonly thread: EncodedThread | undefined
  readonly fence: number | undefined
}

/** The row that describes a thread. */
export interface EncodedThread {
  /** Number of the graph. */
  readonly graph: number
  /** `undefined` leaves the status of a known thread as it is. */
  readonly status: ThreadStatus | undefined
  /** JSON text. */
  readonly metadata: string
}

/** What a thread does from now on; `now` is in milliseconds since the epoch. */
export interface EncodedStatus {
  readonly status: ThreadStatus
  readonly now: number
}

/** A pending write as a driver keeps it. */
export interface EncodedWrite extends PendingWrite {
  /** True where a new value replaces the old one; otherwise the first one stays. */
  readonly replace: boolean
}

/** A thread as a driver returns it. */
export interface EncodedThreadInfo {
  readonly thread: string
  readonly graph: number
  readonly status: ThreadStatus
  readonly created: number
  readonly updated: number
  readonly metadata: string
}

/** An answer, and whether it may be remembered: not if a transaction around it could still be rolled back. */
export interface Lasting<A> {
  readonly value: A
  readonly lasts: boolean
}

/** Conditions on threads that a driver may use to return fewer. */
export interface ThreadConditions {
  readonly status?: ThreadStatus | undefined
  readonly updatedSince?: number | undefined
  readonly updatedBefore?: number | undefined
}

/**
 * The face a driver implements: rows of text, numbered within `(thread, namespace)`. Names are well-formed texts
 * without NUL,
 * at most 1200 bytes in UTF-8. Rows with empty data are no checkpoints: they only hold a log, or
 * the number of a removed head.
 */
export interface Encoded {
  /** The number of a graph, given on its first use. */
  readonly graphId: (graph: GraphIdentity) => Effect.Effect<Lasting<number>, CheckpointerError>
  /** The graph of that number. */
  readonly graph: (id: number) => Effect.Effect<Lasting<GraphIdentity> | undefined, CheckpointerError>
  /** The greatest number of a namespace (0 if it has none), and one row of it: the newest checkpoint or the one asked for. */
  readonly read: (
    address: Address,
    seq: number | undefined
  ) => Effect.Effect<{ readonly head: number; readonly row: EncodedRow | undefined }, CheckpointerError>
  /** Data of the rows in these ranges, ascending; rows without data are left out. */
  readonly data: (address: Address, ranges: ReadonlyArray<Range>) => Effect.Effect<Column, CheckpointerError>
  /** Logs of the rows in these ranges, ascending; rows without log are left out. */
  readonly logs: (address: Address, ranges: ReadonlyArray<Range>) => Effect.Effect<Column, CheckpointerError>
  /** At most `limit` checkpoints with a number below `before`, newest first, with their pending writes. */
  readonly page: (
    address: Address,
    before: number,
    limit: number
  ) => Effect.Effect<ReadonlyArray<EncodedRow>, CheckpointerError>
  /** Appends rows in their order, each atomically; says which ones were refused. */
  readonly append: (rows: ReadonlyArray<Append>) => Effect.Effect<ReadonlyArray<boolean>, CheckpointerError>
  /**
   * Saves pending writes of a checkpoint, with the thread's status where that changes, atomically; false if the
   * checkpoint does not exist or a newer fence was taken.
   */
  readonly putWrites: (
    address: Address,
    seq: number,
    writes: ReadonlyArray<EncodedWrite>,
    fence: number | undefined,
    status?: EncodedStatus | undefined
  ) => Effect.Effect<boolean, CheckpointerError>
  readonly dropWrites: (
    address: Address,
    seq: number,
    tasks: ReadonlyArray<string>
  ) => Effect.Effect<void, CheckpointerError>
  readonly thread: (thread: string) => Effect.Effect<EncodedThreadInfo | undefined, CheckpointerError>
  readonly namespaces: (thread: string) => Effect.Effect<ReadonlyArray<string>, CheckpointerError>
  /** At most `limit` threads after `after`, in an order of the driver's own; conditions may be ignored. */
  readonly threads: (
    after: string | undefined,
    limit: number,
    conditions: ThreadConditions
  ) => Effect.Effect<ReadonlyArray<EncodedThreadInfo>, CheckpointerError>
  /** Adds or replaces the description of a thread. */
  readonly putThread: (thread: string, to: EncodedThread, now: number) => Effect.Effect<void, CheckpointerError>
  /** `now` is in milliseconds since the epoch. */
  readonly setStatus: (thread: string, status: ThreadStatus, now: number) => Effect.Effect<void, CheckpointerError>
  readonly takeFence: (thread: string, now: number) => Effect.Effect<number, CheckpointerError>
  /** At most `limit` rows of any kind with a number above `after`, oldest first. */
  readonly raw: (
    address: Address,
    after: number,
    limit: number
  ) => Effect.Effect<ReadonlyArray<RawRow>, CheckpointerError>
  /** Replaces, adds and removes rows atomically; false, and nothing is changed, if the head is not the expected one. */
  readonly rewrite: (rewrite: Rewrite) => Effect.Effect<boolean, CheckpointerError>
  readonly deleteThread: (thread: string) => Effect.Effect<void, CheckpointerError>
}

/** A row of any kind: a checkpoint, a log without checkpoint, the number of a removed head. */
export interface RawRow {
  readonly seq: number
  readonly log: string | null
  readonly data: string
  readonly writes: ReadonlyArray<PendingWrite>
}

/** A change of rows that are there already, for housekeeping. */
export interface Rewrite {
  readonly address: Address
  readonly expectedHead: number
  /** Pending writes of a row stay as they are where `writes` is `undefined`. */
  readonly rows: ReadonlyArray<Omit<RawRow, "writes"> & { readonly writes: RawRow["writes"] | undefined }>
  /** Rows to remove together with their pending writes. */
  readonly remove: ReadonlyArray<number>
  /** Milliseconds since the epoch. */
  readonly now: number
}

/** A checkpoint as a driver returns it. */
export interface EncodedRow {
  readonly seq: number
  readonly data: string
  readonly writes: ReadonlyArray<PendingWrite>
}
