/**
 * The messages between a thread's callers and the runner that hosts it: JSON, with typed failures.
 */
import * as ClusterSchema from "@effect/cluster/ClusterSchema"
import * as DeliverAt from "@effect/cluster/DeliverAt"
import * as Entity from "@effect/cluster/Entity"
import * as Rpc from "@effect/rpc/Rpc"
import type * as RpcGroup from "@effect/rpc/RpcGroup"
import * as DateTime from "effect/DateTime"
import * as PrimaryKey from "effect/PrimaryKey"
import * as Schema from "effect/Schema"
import * as Errors from "./GraphError.js"

/** Failures of runs that cross to the caller as they are. */
export const RunFailure = Schema.Union(
  Errors.InvalidUpdate,
  Errors.EmptyInput,
  Errors.GraphRecursion,
  Errors.GraphDrained,
  Errors.JoinUnsatisfied,
  Errors.UnknownNode,
  Errors.NodeCancelled,
  Errors.TaskTimeout,
  Errors.ActivityMismatch,
  Errors.CheckpointerError,
  Errors.CheckpointDecodeError,
  Errors.ThreadConflict,
  Errors.ThreadBusy,
  Errors.RunCancelled,
  Errors.GraphMismatch,
  Errors.UnknownCheckpoint,
  Errors.AmbiguousResume,
  Errors.AmbiguousUpdate,
  Errors.UnknownInterrupt,
  Errors.InvalidAnswer
)

/** Options of a run that make sense on another machine. */
export const RunOptions = Schema.Struct({
  recursionLimit: Schema.optional(Schema.Number),
  concurrency: Schema.optional(Schema.Union(Schema.Number, Schema.Literal("unbounded"))),
  /** Milliseconds. */
  stepTimeout: Schema.optional(Schema.Number),
  freeze: Schema.optional(Schema.Boolean),
  durability: Schema.optional(Schema.Literal("sync", "async", "exit")),
  interruptBefore: Schema.optional(Schema.Union(Schema.Literal("*"), Schema.Array(Schema.String))),
  interruptAfter: Schema.optional(Schema.Union(Schema.Literal("*"), Schema.Array(Schema.String))),
  metadata: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
})

/** How a run ended; the state as its channels encode it. */
export const Outcome = Schema.Union(
  Schema.Struct({ _tag: Schema.Literal("Completed"), state: Schema.Unknown }),
  Schema.Struct({
    _tag: Schema.Literal("Paused"),
    state: Schema.Unknown,
    interrupts: Schema.Array(Errors.PendingInterrupt),
    next: Schema.Array(Schema.String)
  })
)
export type Outcome = typeof Outcome.Type

const Answer = Schema.Union(
  Schema.Struct({ _tag: Schema.Literal("Bare"), value: Schema.Unknown }),
  Schema.Struct({
    _tag: Schema.Literal("Named"),
    name: Schema.String,
    id: Schema.optional(Schema.String),
    value: Schema.Unknown
  }),
  Schema.Struct({ _tag: Schema.Literal("ById"), values: Schema.Record({ key: Schema.String, value: Schema.Unknown }) })
)

/** A command for the graph itself; a `Send` as its channel encodes it. */
const Command = Schema.Struct({
  update: Schema.Unknown,
  goto: Schema.Array(Schema.Union(Schema.String, Schema.Struct({ send: Schema.Unknown })))
})

/** What a call brings. */
export const Input = Schema.Union(
  Schema.Struct({ _tag: Schema.Literal("Input"), value: Schema.Unknown }),
  Schema.Struct({ _tag: Schema.Literal("Command"), command: Command })
)

/** Which part of a thread a message is about: its newest checkpoint or another one, of itself or of a subgraph. */
const place = {
  at: Schema.NullOr(Schema.String),
  subgraph: Schema.optional(
    Schema.Struct({ name: Schema.String, fingerprint: Schema.String, namespace: Schema.String })
  )
}
const Place = Schema.Struct(place)
export type Place = typeof Place.Type

/** What a task is taken to have returned. */
const Update = Schema.Struct({
  update: Schema.Unknown,
  command: Schema.NullOr(Command),
  as: Schema.NullOr(Schema.String)
})
export type Update = typeof Update.Type

/** A checkpoint as the tree of branches needs it. The tree itself can be too deep for a codec. */
const Point = Schema.Struct({
  seq: Schema.Int,
  id: Schema.String,
  parent: Schema.optional(Schema.Struct({ seq: Schema.Int, id: Schema.String })),
  step: Schema.Int,
  source: Schema.Literal("input", "loop", "update", "fork"),
  created: Schema.Number
})

const SubgraphPlace = Schema.Struct({ namespace: Schema.String, node: Schema.String, task: Schema.String })

const runPayload = {
  runId: Schema.String,
  ...place,
  multitask: Schema.optional(Schema.Literal("reject", "enqueue", "interrupt", "rollback")),
  options: RunOptions
}

/** Wakes a sleeping thread when the time has come. */
export class Wake extends Schema.Class<Wake>("effect-pregel/EntityProtocol/Wake")({
  id: Schema.String,
  until: Schema.Number
}) {
  [PrimaryKey.symbol]() {
    return this.id
  }
  [DeliverAt.symbol]() {
    return DateTime.unsafeMake(this.until)
  }
}

/** What a reader of a thread's events gets: where it starts, an event, the end of a run, or the state to go on from. */
export const Notice = Schema.Union(
  Schema.Struct({ _tag: Schema.Literal("Subscribed"), id: Schema.String }),
  Schema.Struct({ _tag: Schema.Literal("State"), id: Schema.String, snapshot: Schema.Unknown }),
  Schema.Struct({ _tag: Schema.Literal("Event"), id: Schema.String, runId: Schema.String, event: Schema.Unknown }),
  Schema.Struct({ _tag: Schema.Literal("Ended"), id: Schema.String, runId: Schema.String })
)
export type Notice = typeof Notice.Type

/** The messages of a graph's threads. `Failure` is the schema of what its runs may fail with. */
export const make = <E>(name: string, Failure: Schema.Schema<E, any>) =>
  Entity.make(`pregel/${name}`, [
    Rpc.make("invoke", {
      payload: { ...runPayload, input: Input },
      primaryKey: ({ runId }) => runId,
      success: Outcome,
      error: Failure
    }).annotate(ClusterSchema.Persisted, true),
    Rpc.make("resume", {
      payload: { ...runPayload, answer: Schema.NullOr(Answer), command: Schema.NullOr(Command) },
      primaryKey: ({ runId }) => runId,
      success: Outcome,
      error: Failure
    }).annotate(ClusterSchema.Persisted, true),
    Rpc.make("update", {
      payload: { runId: Schema.String, ...place, supersteps: Schema.Array(Schema.Array(Update)) },
      primaryKey: ({ runId }) => runId,
      success: Schema.String,
      error: Failure
    }).annotate(ClusterSchema.Persisted, true),
    Rpc.make("copy", {
      payload: { runId: Schema.String, at: Schema.NullOr(Schema.String) },
      primaryKey: ({ runId }) => runId,
      success: Schema.String,
      error: Failure
    }).annotate(ClusterSchema.Persisted, true),
    // Sent to the new thread: it is the one that is written.
    Rpc.make("copyFrom", {
      payload: { runId: Schema.String, thread: Schema.String },
      primaryKey: ({ runId }) => runId,
      success: Schema.Void,
      error: Failure
    }).annotate(ClusterSchema.Persisted, true),
    Rpc.make("wake", { payload: Wake, success: Schema.Void, error: Failure }).annotate(ClusterSchema.Persisted, true),
    Rpc.make("state", { payload: place, success: Schema.Unknown, error: Failure }),
    Rpc.make("subgraphs", { payload: place, success: Schema.Array(SubgraphPlace), error: Failure }),
    Rpc.make("branches", { success: Schema.Array(Point), error: Failure }),
    Rpc.make("history", {
      payload: {
        subgraph: place.subgraph,
        before: Schema.optional(Schema.String),
        limit: Schema.optional(Schema.Number),
        filter: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
      },
      success: Schema.Unknown,
      error: Failure,
      stream: true
    }),
    Rpc.make("cancel", { success: Schema.Number, error: Failure }),
    Rpc.make("delete", { success: Schema.Void, error: Failure }),
    // The id of the newest event.
    Rpc.make("position", { success: Schema.String }),
    Rpc.make("events", {
      payload: { after: Schema.NullOr(Schema.String) },
      success: Notice,
      error: Failure,
      stream: true
    })
  ])

/** The entity of a graph's threads. */
export type ThreadEntity = ReturnType<typeof make<any>>

type Rpcs = ThreadEntity["protocol"] extends RpcGroup.RpcGroup<infer R> ? R : never

/** What a message carries. */
export type Payload<Tag extends Rpcs["_tag"]> = Rpc.Payload<Extract<Rpcs, { readonly _tag: Tag }>>
