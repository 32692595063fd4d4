/**
 * Every typed failure of the engine.
 *
 * All of them are `Schema.TaggedError`s, so they cross HTTP and cluster boundaries intact. Fields name the node,
 * channel, thread and step as they apply; `message` says what to fix.
 */
import * as Schema from "effect/Schema"

const Optional = <A, I>(schema: Schema.Schema<A, I>) => Schema.optional(schema)

/** A defect or foreign error that travels with one of ours. */
const Cause = Schema.optional(Schema.Defect)

/** A graph that the types could not refuse: `problems` lists every mistake that `compile` found. */
export class InvalidGraph extends Schema.TaggedError<InvalidGraph>("effect-pregel/InvalidGraph")("InvalidGraph", {
  graph: Schema.String,
  problems: Schema.Array(Schema.String)
}) {
  override get message() {
    return `graph "${this.graph}" is invalid:\n${this.problems.map((problem) => `- ${problem}`).join("\n")}`
  }
}

/**
 * A write that a channel can't take: two values for a single-value channel, a value outside its schema, an undeclared
 * channel, a reducer that threw or refused, a node result that is no update.
 */
export class InvalidUpdate extends Schema.TaggedError<InvalidUpdate>("effect-pregel/InvalidUpdate")("InvalidUpdate", {
  reason: Schema.Literal(
    "ConcurrentUpdate",
    "ConcurrentOverwrite",
    "UnknownChannel",
    "InvalidValue",
    "InvalidReturn",
    "ReducerFailed",
    "UnknownItem",
    "UnknownBarrierName",
    "NotEncodable"
  ),
  detail: Schema.String,
  channel: Optional(Schema.String),
  node: Optional(Schema.String),
  path: Optional(Schema.String),
  step: Optional(Schema.Int),
  thread: Optional(Schema.String),
  cause: Cause
}) {
  override get message() {
    const at = [this.node && `node "${this.node}"`, this.channel && `channel "${this.channel}"`]
    const where = at.filter(Boolean).join(", ")
    return where === "" ? this.detail : `${where}: ${this.detail}`
  }
}

/** A run was started with nothing to do: no input, no update, no answer, and no saved state to go on from. */
export class EmptyInput extends Schema.TaggedError<EmptyInput>("effect-pregel/EmptyInput")("EmptyInput", {
  graph: Schema.String,
  thread: Optional(Schema.String),
  detail: Schema.String
}) {
  override get message() {
    return this.detail
  }
}

/** A channel was read that holds no value: only the `Channels` service fails so, which nodes do not use. */
export class EmptyChannel extends Schema.TaggedError<EmptyChannel>("effect-pregel/EmptyChannel")("EmptyChannel", {
  channel: Schema.String
}) {
  override get message() {
    return `channel "${this.channel}" is empty`
  }
}

/** The run needed more supersteps than `recursionLimit` allows; the thread stays at its last checkpoint. */
export class GraphRecursion extends Schema.TaggedError<GraphRecursion>("effect-pregel/GraphRecursion")(
  "GraphRecursion",
  { graph: Schema.String, limit: Schema.Int, step: Schema.Int, thread: Optional(Schema.String) }
) {
  override get message() {
    return `graph "${this.graph}" ran ${this.limit} supersteps without finishing; raise recursionLimit or add an exit`
  }
}

/** One pause that waits for an answer: who asks, where, and what. */
export class PendingInterrupt extends Schema.Class<PendingInterrupt>("effect-pregel/PendingInterrupt")({
  id: Schema.String,
  node: Schema.String,
  name: Optional(Schema.String),
  namespace: Schema.Array(Schema.String),
  value: Schema.Unknown
}) {}

/**
 * The run is paused. `interrupts` are the questions that wait; it is empty for a static breakpoint, where `next` names
 * the nodes that would run.
 */
export class GraphInterrupt extends Schema.TaggedError<GraphInterrupt>("effect-pregel/GraphInterrupt")(
  "GraphInterrupt",
  {
    graph: Schema.String,
    thread: Optional(Schema.String),
    interrupts: Schema.Array(PendingInterrupt),
    next: Schema.Array(Schema.String)
  }
) {
  override get message() {
    return this.interrupts.length === 0
      ? `graph "${this.graph}" stopped at a breakpoint before [${this.next.join(", ")}]`
      : `graph "${this.graph}" waits for ${this.interrupts.length} answer(s): ${this.interrupts
          .map((pending) => `${pending.node} (${pending.id})`)
          .join(", ")}`
  }
}

/** A drain was requested: the run stopped at the end of a superstep and can be continued. */
export class GraphDrained extends Schema.TaggedError<GraphDrained>("effect-pregel/GraphDrained")("GraphDrained", {
  graph: Schema.String,
  thread: Optional(Schema.String),
  reason: Schema.String,
  next: Schema.Array(Schema.String)
}) {
  override get message() {
    return `graph "${this.graph}" was drained (${this.reason}) before [${this.next.join(", ")}]`
  }
}

/**
 * An attempt of a node or of an activity (`node/activity`) took longer than its limit (`run`), went on for too long
 * without progress (`idle`), or a superstep took longer than `stepTimeout` (`step`, with the nodes that had not
 * finished).
 */
export class TaskTimeout extends Schema.TaggedError<TaskTimeout>("effect-pregel/TaskTimeout")("TaskTimeout", {
  node: Schema.String,
  kind: Schema.Literal("run", "idle", "step"),
  limitMillis: Schema.Number,
  elapsedMillis: Schema.Number,
  step: Optional(Schema.Int)
}) {
  override get message() {
    return `node "${this.node}" exceeded its ${this.kind} timeout of ${this.limitMillis} ms`
  }
}

/** A node ended by interrupting itself although nobody asked the run to stop. */
export class NodeCancelled extends Schema.TaggedError<NodeCancelled>("effect-pregel/NodeCancelled")("NodeCancelled", {
  node: Schema.String,
  step: Optional(Schema.Int)
}) {
  override get message() {
    return `node "${this.node}" interrupted itself`
  }
}

/** The run ended while a join still waited for some of its sources. */
export class JoinUnsatisfied extends Schema.TaggedError<JoinUnsatisfied>("effect-pregel/JoinUnsatisfied")(
  "JoinUnsatisfied",
  {
    graph: Schema.String,
    thread: Optional(Schema.String),
    node: Schema.String,
    arrived: Schema.Array(Schema.String),
    missing: Schema.Array(Schema.String)
  }
) {
  override get message() {
    return `node "${this.node}" waits for [${this.missing.join(", ")}] after [${this.arrived.join(
      ", "
    )}] arrived, but the run ended; declare the join { optional: true } if that may happen`
  }
}

/** A `goto`, `Send` or router result names a node that does not exist or was not declared as a target. */
export class UnknownNode extends Schema.TaggedError<UnknownNode>("effect-pregel/UnknownNode")("UnknownNode", {
  node: Schema.String,
  from: Schema.String,
  reason: Schema.Literal("NotInGraph", "NotATarget", "NoDestination", "NoParent", "OnlyBySend"),
  step: Optional(Schema.Int)
}) {
  override get message() {
    const says = {
      NotInGraph: `"${this.from}" leads to "${this.node}", which is no node of the graph`,
      NotATarget: `"${this.from}" leads to "${this.node}", which is not among its declared targets`,
      NoDestination: `the router of "${this.from}" returned no destination`,
      NoParent: `"${this.from}" addresses the graph "${this.node}", but no enclosing graph has that name`,
      OnlyBySend: `"${this.from}" leads to the worker "${this.node}", which only a Send can run`
    }
    return says[this.reason]
  }
}

/** Several pauses wait and a bare answer does not say which one it is for. */
export class AmbiguousResume extends Schema.TaggedError<AmbiguousResume>("effect-pregel/AmbiguousResume")(
  "AmbiguousResume",
  { thread: Schema.String, pending: Schema.Array(Schema.String) }
) {
  override get message() {
    return `${this.pending.length} interrupts wait; answer by id: ${this.pending.join(", ")}`
  }
}

/** The answer is for an interrupt that does not wait (any more). */
export class UnknownInterrupt extends Schema.TaggedError<UnknownInterrupt>("effect-pregel/UnknownInterrupt")(
  "UnknownInterrupt",
  { thread: Schema.String, id: Schema.String, pending: Schema.Array(Schema.String) }
) {
  override get message() {
    return `no interrupt "${this.id}" waits on thread "${this.thread}"; waiting: [${this.pending.join(", ")}]`
  }
}

/** The answer does not decode with the interrupt's schema; the pause stays pending. */
export class InvalidAnswer extends Schema.TaggedError<InvalidAnswer>("effect-pregel/InvalidAnswer")("InvalidAnswer", {
  id: Schema.String,
  /** The name of the typed interrupt. Not `name`: that is the error's own. */
  interrupt: Optional(Schema.String),
  detail: Schema.String
}) {
  override get message() {
    return `the answer to "${this.interrupt ?? this.id}" is invalid: ${this.detail}`
  }
}

/** A replayed node called an activity with another input than the one whose result is saved. */
export class ActivityMismatch extends Schema.TaggedError<ActivityMismatch>("effect-pregel/ActivityMismatch")(
  "ActivityMismatch",
  { activity: Schema.String, node: Schema.String, occurrence: Schema.Int }
) {
  override get message() {
    return `call ${this.occurrence} of activity "${this.activity}" in node "${this.node}" has another input than the saved one`
  }
}

/** The storage failed. `operation` is what the engine asked for. */
export class CheckpointerError extends Schema.TaggedError<CheckpointerError>("effect-pregel/CheckpointerError")(
  "CheckpointerError",
  {
    operation: Schema.String,
    reason: Schema.Literal("Unavailable", "Busy", "Corrupt", "Unsupported", "InvalidRequest", "LimitExceeded"),
    detail: Schema.String,
    thread: Optional(Schema.String),
    cause: Cause
  }
) {
  override get message() {
    return `checkpointer: ${this.operation} failed (${this.reason}): ${this.detail}`
  }
}

/** Saved data does not decode: the row is damaged or was written by an incompatible graph. */
export class CheckpointDecodeError extends Schema.TaggedError<CheckpointDecodeError>(
  "effect-pregel/CheckpointDecodeError"
)("CheckpointDecodeError", {
  thread: Schema.String,
  namespace: Schema.String,
  checkpoint: Optional(Schema.String),
  channel: Optional(Schema.String),
  detail: Schema.String,
  cause: Cause
}) {
  override get message() {
    const channel = this.channel === undefined ? "" : `, channel "${this.channel}"`
    return `thread "${this.thread}", checkpoint ${this.checkpoint ?? "?"}${channel} does not decode: ${this.detail}`
  }
}

/** Another writer moved the thread's head; nothing was written. */
export class ThreadConflict extends Schema.TaggedError<ThreadConflict>("effect-pregel/ThreadConflict")(
  "ThreadConflict",
  { thread: Schema.String, namespace: Schema.String, expected: Schema.Int }
) {
  override get message() {
    return `thread "${this.thread}" was changed by another writer after checkpoint ${this.expected}`
  }
}

/** A run is in progress on the thread, and `multitask` is `"reject"`. Nothing was changed. */
export class ThreadBusy extends Schema.TaggedError<ThreadBusy>("effect-pregel/ThreadBusy")("ThreadBusy", {
  thread: Schema.String
}) {
  override get message() {
    return `a run is in progress on thread "${this.thread}"`
  }
}

/**
 * The run was stopped from outside: a newer call took its place (`multitask`), or somebody cancelled it. The thread
 * stays at the run's last checkpoint.
 */
export class RunCancelled extends Schema.TaggedError<RunCancelled>("effect-pregel/RunCancelled")("RunCancelled", {
  thread: Schema.String,
  reason: Schema.Literal("interrupt", "rollback", "cancel")
}) {
  override get message() {
    return this.reason === "cancel"
      ? `the run on thread "${this.thread}" was cancelled`
      : `a newer run took over thread "${this.thread}" (${this.reason})`
  }
}

/** The thread belongs to another graph, or to a shape of this graph that can't go on. */
export class GraphMismatch extends Schema.TaggedError<GraphMismatch>("effect-pregel/GraphMismatch")("GraphMismatch", {
  thread: Schema.String,
  graph: Schema.String,
  found: Schema.String,
  detail: Schema.String
}) {
  override get message() {
    return `thread "${this.thread}": ${this.detail}`
  }
}

/** The thread has no checkpoint of that id. */
export class UnknownCheckpoint extends Schema.TaggedError<UnknownCheckpoint>("effect-pregel/UnknownCheckpoint")(
  "UnknownCheckpoint",
  { thread: Schema.String, checkpoint: Schema.String }
) {
  override get message() {
    return `thread "${this.thread}" has no checkpoint "${this.checkpoint}"`
  }
}

/** `thread.update` can't tell which node the update is from. */
export class AmbiguousUpdate extends Schema.TaggedError<AmbiguousUpdate>("effect-pregel/AmbiguousUpdate")(
  "AmbiguousUpdate",
  { thread: Schema.String, candidates: Schema.Array(Schema.String) }
) {
  override get message() {
    return `name the node this update is from ({ as }): candidates are [${this.candidates.join(", ")}]`
  }
}

/** The cache of results failed. Runs go on without it; only `NodeCache.clear` shows it. */
export class NodeCacheError extends Schema.TaggedError<NodeCacheError>("effect-pregel/NodeCacheError")(
  "NodeCacheError",
  { operation: Schema.Literal("get", "set", "clear"), detail: Schema.String, cause: Cause }
) {
  override get message() {
    return `node cache: ${this.operation} failed: ${this.detail}`
  }
}

/** The long-term store failed, or was asked for something that no store can do. */
export class StoreError extends Schema.TaggedError<StoreError>("effect-pregel/StoreError")("StoreError", {
  operation: Schema.String,
  reason: Schema.Literal("Unavailable", "Busy", "Corrupt", "Unsupported", "InvalidRequest", "LimitExceeded"),
  detail: Schema.String,
  cause: Cause
}) {
  override get message() {
    return `store: ${this.operation} failed (${this.reason}): ${this.detail}`
  }
}

/** Failures of the saved state and its storage. */
export type StorageError = CheckpointerError | CheckpointDecodeError | ThreadConflict

/** Failures that any run can end with, besides those of its nodes. */
export type RunError =
  | InvalidUpdate
  | EmptyInput
  | GraphRecursion
  | GraphInterrupt
  | GraphDrained
  | JoinUnsatisfied
  | UnknownNode
  | TaskTimeout
  | NodeCancelled

/** Failures that a run on a thread adds. */
export type ThreadError =
  | StorageError
  | ThreadBusy
  | RunCancelled
  | GraphMismatch
  | UnknownCheckpoint
  | AmbiguousResume
  | UnknownInterrupt
  | InvalidAnswer
