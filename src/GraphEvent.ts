/**
 * What happens in a run, as one tagged union. Stream modes are filters on it.
 *
 * `namespace` is the path of subgraph tasks that leads to the emitting graph, outermost first; empty at the root.
 */
import type { Header, Json } from "./Checkpoint.js"
import type { PendingInterrupt } from "./GraphError.js"

interface Base {
  readonly namespace: ReadonlyArray<string>
  readonly step: number
}

/** The state after a superstep that wrote an output channel, or at the start of a resumed run. */
export interface Values<out State = unknown> extends Base {
  readonly _tag: "Values"
  readonly state: State
}

/**
 * A task finished. `update` is what it wrote: a record, a list of one-channel records where a channel was written more
 * than once, or `null` for nothing. `cached` marks results that were restored or reused instead of run.
 */
export interface Updates<out Update = unknown> extends Base {
  readonly _tag: "Updates"
  readonly node: string
  readonly task: string
  readonly update: Update
  readonly cached: boolean
}

/**
 * An activity ended within a task that still runs: its result is saved. Results that a replay finds saved are not told
 * again; `cached` marks those that a `NodeCache` had.
 */
export interface ActivityEnded extends Base {
  readonly _tag: "ActivityEnded"
  readonly activity: string
  /** Identifies the call: the idempotency key that its body sees. */
  readonly call: string
  /** The node and the task that called it. */
  readonly node: string
  readonly task: string
  readonly value: unknown
  readonly cached: boolean
}

/** The run paused: the questions that wait, or none for a static breakpoint. */
export interface Interrupted extends Base {
  readonly _tag: "Interrupted"
  readonly interrupts: ReadonlyArray<PendingInterrupt>
}

/** What a node emitted. */
export interface Custom<out A = unknown> extends Base {
  readonly _tag: "Custom"
  readonly node: string
  readonly task: string
  readonly value: A
}

/** A task starts. */
export interface TaskStarted extends Base {
  readonly _tag: "TaskStarted"
  readonly id: string
  readonly node: string
  readonly input: unknown
  readonly triggers: ReadonlyArray<string>
}

/** A task ended. `result` has a `{ $writes }` list where a channel was written more than once. */
export interface TaskEnded extends Base {
  readonly _tag: "TaskEnded"
  readonly id: string
  readonly node: string
  readonly result: Readonly<Record<string, unknown>> | undefined
  readonly error: string | undefined
  readonly interrupts: ReadonlyArray<PendingInterrupt>
}

/** The checkpoint that a superstep starts from; the last one of a run has an empty `next`. */
export interface Checkpointed<out State = unknown> extends Base {
  readonly _tag: "Checkpointed"
  readonly checkpoint: Pick<Header, "id" | "parent" | "source" | "created">
  readonly metadata: Readonly<Record<string, Json>>
  readonly state: State
  readonly next: ReadonlyArray<string>
}

/** Anything that happens in a run. */
export type GraphEvent<State = unknown, Update = unknown, A = unknown> =
  | Values<State>
  | Updates<Update>
  | ActivityEnded
  | Interrupted
  | Custom<A>
  | TaskStarted
  | TaskEnded
  | Checkpointed<State>

/** The modes a stream can be asked for; `debug` is checkpoints and tasks together. */
export type Mode = "values" | "updates" | "custom" | "tasks" | "checkpoints" | "debug"

/** What a task wrote: one update, one for each write where a channel was written more than once, or nothing. */
export type Written<Update> = Update | ReadonlyArray<Update> | null

interface ByMode<State, Update, A, Full> {
  readonly values: Values<State>
  readonly updates: Updates<Written<Update>> | ActivityEnded | Interrupted
  readonly custom: Custom<A>
  readonly tasks: TaskStarted | TaskEnded
  readonly checkpoints: Checkpointed<Full>
  readonly debug: TaskStarted | TaskEnded | Checkpointed<Full>
}

/** The events that a list of modes lets through. `Full` is the whole state where `State` is the output. */
export type Of<M extends Mode, State = unknown, Update = unknown, A = unknown, Full = State> = ByMode<
  State,
  Update,
  A,
  Full
>[M]

/** The events of a stream; states and updates of subgraphs (`Sub`) have types of their own. */
export type In<Sub extends boolean, M extends Mode, State, Update, A, Full> = [Sub] extends [false]
  ? Of<M, State, Update, A, Full>
  : Of<M>
