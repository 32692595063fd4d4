/**
 * The mutable state of one run of one graph: where it stands, what it holds, who it tells.
 *
 * A run belongs to a tree: the root run and the runs of its subgraphs share a thread, answers, options and a stream.
 */

import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Runtime from "effect/Runtime"
import type { Algo, Seen, TaskPlan } from "./Algo.js"
import { ChannelTable, type Snapshot } from "./Channels.js"
import { type Json, makeId, type PendingWrite, type Source } from "./Checkpoint.js"
import { type Checkpointer, isOnBranch, type Lineage } from "./Checkpointer.js"
import { InvalidUpdate, type PendingInterrupt } from "./GraphError.js"
import type { ActivityEnded, GraphEvent } from "./GraphEvent.js"
import { type Fork, makeFork } from "./internal/fork.js"
import type { Journal } from "./Journal.js"
import { NodeCache } from "./NodeCache.js"
import type { Persistence } from "./Persistence.js"
import type { SaveQueue } from "./SaveQueue.js"
import type { Step } from "./Step.js"
import { Task, type TaskContext } from "./Task.js"
import type { TaskState } from "./TaskState.js"
import type { Topology } from "./Topology.js"

/** When saves happen: before the next superstep, in the background, or once at the end. */
export type Durability = "sync" | "async" | "exit"

/** Where events go, at once and in the order in which they happen. */
export interface Sink {
  readonly values: boolean
  readonly updates: boolean
  readonly custom: boolean
  readonly tasks: boolean
  readonly checkpoints: boolean
  /** Whether events of nested runs are wanted. */
  readonly subgraphs: boolean
  readonly push: (event: GraphEvent) => void
  /** Waits for room in the reader's buffer, if that is full. */
  readonly room: () => Effect.Effect<unknown> | undefined
}

/** A request to stop at the end of the running superstep. */
export interface Control {
  drain: string | undefined
  readonly doubt?: Doubt | undefined
}

/** Whether another process may have taken the thread over without this one noticing; asked before a side effect. */
export interface Doubt {
  /** How many reasons there were so far. */
  readonly reasons: () => number
  /** How many of them are settled: after these the thread was found to be this process's own. */
  settled: number
}

/** What all runs of one call share. */
export interface Tree {
  readonly thread: string | undefined
  readonly checkpointer: Context.Tag.Service<Checkpointer> | undefined
  /** What is not written yet; there is one where there is a checkpointer. */
  readonly saves: SaveQueue | undefined
  readonly durability: Durability
  readonly recursionLimit: number
  /** Milliseconds that one superstep may take. */
  readonly stepTimeout: number | undefined
  /** Whether what nodes see is frozen. */
  readonly freeze: boolean
  readonly concurrency: number
  readonly metadata: Readonly<Record<string, Json>>
  /** Names the call: delivered again, it goes on instead of starting anew. */
  readonly runId: string | undefined
  readonly fence: number | undefined
  readonly control: Control
  readonly sink: Sink | undefined
  /** Checkpoints that subgraphs go back to when they are next run, by namespace. */
  readonly pins: Map<string, string> | undefined
  /** Subgraphs that remember and the tasks that run them, by namespace. */
  readonly remembering: Map<string, Run["place"]>
  /** Answers by interrupt id: saved ones and those that this call brings. */
  readonly answers: Map<string, { readonly value: Json }>
}

/** What was saved for the tasks of the current checkpoint, by task. */
export interface SavedTask {
  readonly rows: ReadonlyArray<PendingWrite>
}

export const NOTHING_SAVED: ReadonlyMap<string, SavedTask> = new Map()

/** Where a run stops before or after nodes. */
export type Breakpoints = ReadonlySet<string> | "*"

export class Run {
  readonly channels: ChannelTable
  /** Starts a task's effect. */
  readonly fork: Fork<TaskContext>
  seen: Seen = new Map()
  /** The number that the next checkpoint gets. */
  step = -1
  /** Supersteps that this call has run. */
  steps = 0
  /** The checkpoint that the coming superstep starts from. */
  seq = 0
  created = 0
  resumedAt = 0
  /** Channels updated by the last superstep; unknown after a load. */
  updated: ReadonlyArray<number> | undefined = undefined
  /** Tasks of the coming superstep, as far as they are planned. */
  next: ReadonlyArray<TaskPlan> = []
  tasks: ReadonlyArray<TaskState> = []
  /** The superstep that runs, or ran last. */
  current: Step | undefined = undefined
  saved: ReadonlyMap<string, SavedTask> = NOTHING_SAVED
  /** Nodes of the superstep that made the current checkpoint. */
  ran: ReadonlyArray<string> = []
  /** Why the current checkpoint was made. */
  source: Source = "input"
  /** The checkpoint this run was loaded from: its tasks may have saved subgraph runs. */
  loadedSeq = 0
  /** The namespace's greatest number when the run was loaded: what it writes itself is greater. */
  headAtLoad = 0
  lineageAtLoad: Lineage | undefined = undefined
  /** Set when the run left the checkpoint it was loaded from for a fork of it. */
  forked = false
  /** The tasks that it is run by, from the outermost, each with its superstep. */
  place: ReadonlyArray<{ readonly seq: number; readonly task: string }> = []
  /** The run of the graph that encloses all others. */
  root: Run = this
  /** Set when the run must not go on. */
  cancelled: Cause.Cause<unknown> | undefined = undefined
  /** Of a run inside a task: told that one of its own tasks made progress. */
  onProgress: (() => void) | undefined = undefined
  persistence: Persistence | undefined = undefined
  journal: Journal | undefined = undefined
  /** `null` before it is looked for. */
  private cacheOf: Context.Tag.Service<NodeCache> | undefined | null = null
  private idOf: { seq: number; created: number; id: string } | undefined

  constructor(
    readonly tree: Tree,
    readonly topology: Topology,
    readonly algo: Algo.Service,
    readonly runtime: Runtime.Runtime<any>,
    /** Where its checkpoints are kept; `""` at the root. */
    readonly namespace: string,
    /** The subgraph tasks that lead to it. */
    readonly path: ReadonlyArray<string>,
    readonly parents: Readonly<Record<string, string>>,
    snapshots: Iterable<Snapshot>
  ) {
    this.channels = new ChannelTable(topology.channels, snapshots)
    this.fork = makeFork(runtime, Task)
  }

  get limit(): number {
    return this.tree.recursionLimit
  }

  /** The id of the checkpoint that the coming superstep starts from. */
  get checkpointId(): string {
    if (this.idOf === undefined || this.idOf.seq !== this.seq || this.idOf.created !== this.created) {
      this.idOf = { seq: this.seq, created: this.created, id: makeId(this.seq, this.created) }
    }
    return this.idOf.id
  }

  /** Tells whether the superstep that started from a checkpoint of this run's namespace is part of the run's past. */
  isPast(seq: number): boolean {
    if (seq > this.headAtLoad) return true
    if (this.lineageAtLoad === undefined || (seq === this.loadedSeq && this.forked)) return false
    return isOnBranch(this.lineageAtLoad, seq)
  }

  /** Ends the run with a failure as soon as its tasks are interrupted; between supersteps at once. */
  cancel(error: unknown): void {
    this.cancelled ??= Cause.fail(error)
    this.current?.cancel(this.cancelled)
  }

  /** Where this run's events go, if anybody wants them. */
  get sink(): Sink | undefined {
    const { sink } = this.tree
    return sink === undefined || (this.path.length > 0 && !sink.subgraphs) ? undefined : sink
  }

  /** Tells an event; there must be a sink. */
  push(event: GraphEvent): void {
    this.tree.sink!.push(event)
  }

  /** Waits while the reader's buffer is full. */
  room(): Effect.Effect<unknown> {
    return this.sink?.room() ?? Effect.void
  }

  /** A node's own event: delivered at once, after what happened before it. */
  emitCustom(task: TaskState, value: unknown): Effect.Effect<void, InvalidUpdate> {
    const { sink, topology } = this
    const refusal = topology.checkEvent?.(value)
    if (refusal !== undefined) {
      const { detail, path, reason } = refusal
      return new InvalidUpdate({
        reason,
        path,
        node: task.node.name,
        step: this.step,
        detail: `a custom event: ${detail}`
      })
    }
    if (sink === undefined || !sink.custom) return Effect.void
    this.push({ _tag: "Custom", namespace: this.path, step: this.step, node: task.node.name, task: task.id, value })
    return this.room()
  }

  /** An activity has ended: delivered at once, before the node goes on. */
  emitActivity(
    task: TaskState,
    ended: Pick<ActivityEnded, "activity" | "call" | "value" | "cached">
  ): Effect.Effect<void> {
    const { sink } = this
    if (sink === undefined || !sink.updates) return Effect.void
    this.push({
      _tag: "ActivityEnded",
      namespace: this.path,
      step: this.step,
      node: task.node.name,
      task: task.id,
      ...ended
    })
    return this.room()
  }

  /** Where results are kept for equal inputs, if anywhere. */
  get cache(): Context.Tag.Service<NodeCache> | undefined {
    if (this.cacheOf === null) {
      const found = Context.getOption(this.runtime.context as Context.Context<NodeCache>, NodeCache)
      this.cacheOf = found._tag === "Some" ? found.value : undefined
    }
    return this.cacheOf
  }

  /** The values of the graph's output channels. */
  output(): Record<string, unknown> {
    return this.channels.copy(this.topology.output)
  }

  /** Questions that wait at the current superstep. */
  pending(): ReadonlyArray<PendingInterrupt> {
    return this.tasks.flatMap((task) => (task.status === "paused" ? task.asked : []))
  }
}
