/**
 * Threads hosted by `@effect/cluster`: a thread is an entity, located by its id and run by one runner at a time.
 *
 * The cluster does the sharding and the delivery; the graph's state stays in the `Checkpointer`. Calls are persisted
 * messages whose key is the run's id: delivered again after a crash, a call goes on from the last checkpoint, or is
 * answered from it. A runner that lost its shard is fenced: its commits are refused, and it waits to be stopped instead
 * of answering. A paused thread holds nothing on any runner; sleeps (`Timer`) wake it by a delayed message.
 */
import type * as Entity from "@effect/cluster/Entity"
import type { Sharding } from "@effect/cluster/Sharding"
import type { ShardingConfig } from "@effect/cluster/ShardingConfig"
import * as SingleRunner from "@effect/cluster/SingleRunner"
import type { SqlClient } from "@effect/sql/SqlClient"
import type { ConfigError } from "effect/ConfigError"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type { Checkpointer } from "./Checkpointer.js"
import type { Any, CompiledGraph, Nodes } from "./CompiledGraph.js"
import * as EntityClient from "./EntityClient.js"
import * as EntityHost from "./EntityHost.js"
import * as Protocol from "./EntityProtocol.js"
import type { CheckpointerError } from "./GraphError.js"
import * as Watch from "./internal/watch.js"
import * as SqlCheckpointer from "./SqlCheckpointer.js"
import type { Thread } from "./Thread.js"
import * as Threads from "./Threads.js"

/** Options of a hosted graph. */
export interface Options<E> {
  /** Schema of what the graph's nodes may fail with; other failures reach the caller as defects. */
  readonly error?: Schema.Schema<E, any> | undefined
  /** How long an idle thread stays in memory; default the cluster's `entityMaxIdleTime`. */
  readonly maxIdleTime?: Duration.DurationInput | undefined
  /**
   * How long a runner whose save was refused waits to lose the thread before it takes it back; longer than the
   * cluster's `shardLockExpiration`. Default 1 minute.
   */
  readonly fencedFor?: Duration.DurationInput | undefined
  /**
   * Graphs that nodes run with `invoke`, for `thread.subgraph`: the runner needs their code, and knows by itself only
   * those that are nodes (`addGraph`).
   */
  readonly subgraphs?: ReadonlyArray<Any> | undefined
  /** Events kept for readers that come back; default 1,024. */
  readonly eventBuffer?: number | undefined
}

/** What a reader of a thread's events gets. */
export type Notice<State, FullUpdate = unknown, Ev = unknown> = EntityClient.Notice<State, FullUpdate, Ev>

/** A graph whose threads live in a cluster. */
export interface Hosted<
  in out State,
  in out Update,
  in out N extends Nodes,
  in out Ev,
  in out E,
  out R,
  in out Full,
  in out FullUpdate
> {
  /** The cluster's entity, for tools. */
  readonly entity: Entity.Any
  /** The hosting side: registers the graph's threads with this runner. */
  readonly layer: Layer.Layer<never, never, R | Checkpointer | Sharding>
  /** A handle like `graph.thread(id)`: what it does is done by the runner that hosts the thread. */
  readonly thread: (id: string) => Thread<State, Update, N, Ev, E, Sharding, Full, FullUpdate, Sharding>
  /** The graph's threads as a service, hosted by the cluster: takes the place of `Threads.layer`. */
  readonly threads: <I>(
    tag: Context.Tag<I, Threads.Threads<State, Update, N, Ev, E, Full, FullUpdate>>
  ) => Layer.Layer<I, never, Sharding>
  /**
   * Events of all runs of a thread, from now on or after the event of an id that was seen before. A reader that missed
   * events gets the state instead and goes on from there: after a takeover, or when it was away for too long.
   */
  readonly events: (
    id: string,
    after?: string | undefined
  ) => Stream.Stream<Notice<Full, FullUpdate, Ev>, CheckpointerError, Sharding>
}

/**
 * Makes the threads of a graph entities of a cluster.
 *
 * @example
 * ```ts
 * import { Effect, Layer, Schema } from "effect"
 * import { Channel, Graph } from "effect-pregel"
 * import * as GraphEntity from "effect-pregel/GraphEntity"
 *
 * const counter = Graph.make("counter", { count: Channel.lastValue(Schema.Number) })
 *   .addNode("add", ({ count = 0 }) => Effect.succeed({ count: count + 1 }))
 *   .addEdge(Graph.START, "add")
 *   .compile()
 *
 * const hosted = GraphEntity.make(counter)
 * const one = hosted.thread("thread-1").invoke({ count: 0 })
 * const runner = hosted.layer.pipe(Layer.provideMerge(GraphEntity.layerSingle()))
 * ```
 */
export const make = <State, Update, N extends Nodes, Ev, E, R, Full, FullUpdate, E1 extends E = never>(
  graph: CompiledGraph<State, Update, N, Ev, E, R, Full, FullUpdate>,
  options: Options<E1> = {}
): Hosted<State, Update, N, Ev, E, R, Full, FullUpdate> => {
  const Failure: Schema.Schema<any, any> =
    options.error === undefined ? Protocol.RunFailure : Schema.Union(Protocol.RunFailure, options.error)
  const { topology } = graph
  const entity = Protocol.make(graph.name, Failure)
  const setting: EntityHost.Setting = {
    topology,
    subgraphs: (options.subgraphs ?? []).map((inner) => inner.topology),
    defaults: graph.options,
    entity,
    Failure,
    fencedFor: options.fencedFor ?? "1 minute",
    eventBuffer: options.eventBuffer ?? 1024
  }
  const register = (watch: Watch.Watch) =>
    entity.toLayer(EntityHost.make(setting, watch), {
      // A thread has one run at a time, which `multitask` sees to; what only reads it must not wait for the run.
      concurrency: "unbounded",
      // A defect is the answer to its call: it must not restart the entity and be delivered for ever.
      disableFatalDefects: true,
      maxIdleTime: options.maxIdleTime
    })
  const thread = (id: string) => EntityClient.remoteThread(topology, entity, id, undefined)
  return {
    entity,
    layer: Layer.unwrapScoped(Effect.map(Watch.make, register)),
    thread,
    threads: (tag: Context.Tag<any, any>) =>
      Layer.effect(
        tag,
        Effect.map(Effect.context<Sharding>(), (context) => ({
          thread: (id: string) => Threads.provide(thread(id) as Thread<any, any, any, any, any, any>, context)
        }))
      ),
    events: (id: string, after?: string) => EntityClient.events(topology, entity, id, after)
  } as never
}

/** Options of `tuning`. */
export interface Tuning {
  /** How long after a runner's death its threads may stand still, at most; whole seconds, at least 2. Default 35. */
  readonly takeover?: Duration.DurationInput | undefined
  /** How long a superstep may go on when a runner shuts down; default 15 seconds. */
  readonly superstep?: Duration.DurationInput | undefined
}

/**
 * Settings of a cluster of several runners, for `NodeClusterSocket.layer({ shardingConfig })`: how fast threads are
 * taken over, at the price of more queries. Locks are rows, not connections: a runner that stands still or is cut off
 * loses them like one that is dead, and the fence keeps it from saving anything.
 */
export const tuning = (options: Tuning = {}): Partial<ShardingConfig["Type"]> => {
  const takeover = Duration.toMillis(options.takeover ?? "35 seconds")
  const part = (share: number, most: number) => Duration.millis(Math.min(takeover / share, most))
  return {
    shardLockDisableAdvisory: true,
    // A runner that has tried in vain to take a lock waits for a second before it tries again.
    shardLockExpiration: Duration.millis(Math.max(takeover - 1000, 1000)),
    // Also the time limit of every query about locks: one that takes longer makes the runner give up all its threads.
    shardLockRefreshInterval: Duration.millis(takeover / 4),
    refreshAssignmentsInterval: part(10, 3_000),
    entityMessagePollInterval: part(10, 3_000),
    runnerHealthCheckInterval: part(5, 60_000),
    entityTerminationTimeout: options.superstep ?? "15 seconds"
  }
}

/**
 * One process that hosts all threads: messages, timers and checkpoints in the database of the client in the
 * environment. Only one process at a time may use a database so; several need `NodeClusterSocket`.
 */
export const layerSingle = (
  options: { readonly shardingConfig?: Partial<ShardingConfig["Type"]> | undefined } = {}
): Layer.Layer<Sharding | Checkpointer, CheckpointerError | ConfigError, SqlClient> =>
  Layer.merge(
    SqlCheckpointer.layer(),
    SingleRunner.layer({ runnerStorage: "memory", shardingConfig: options.shardingConfig })
  )
