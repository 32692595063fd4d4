/**
 * What a running node may ask of the engine.
 *
 * `Task` is one tag in a node's requirements; the engine provides it and subtracts it from the graph's. It is never a
 * FiberRef: bounded `forEach` reuses fibers and would leak it from task to task.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FiberId from "effect/FiberId"
import type * as Schema from "effect/Schema"
import type { Json } from "./Checkpoint.js"
import type {
  GraphDrained,
  GraphMismatch,
  InvalidAnswer,
  InvalidUpdate,
  PendingInterrupt,
  StorageError,
  UnknownCheckpoint
} from "./GraphError.js"
import type { NodeCache } from "./NodeCache.js"
import type { SavedCall, SavedCalls } from "./SavedCalls.js"

/** The task a node runs as. */
export interface TaskContext {
  /** Stable over replays of the same checkpoint. */
  readonly id: string
  readonly node: string
  readonly graph: string
  readonly step: number
  /** Counts from 1; greater when a retry policy repeats the node. */
  readonly attempt: number
  /** When the first attempt began: milliseconds since the epoch. */
  readonly firstAttempt: number
  readonly thread: string | undefined
  readonly checkpoint: string | undefined
  /** Namespaces of the enclosing subgraphs' tasks, outermost first; empty at the root. */
  readonly namespace: ReadonlyArray<string>
  /** Supersteps that may still run after this one. */
  readonly remainingSteps: number
  /** True in the last superstep that `recursionLimit` allows. */
  readonly isLastStep: boolean
  /** @internal */
  readonly frame: Frame
  /** @internal */
  readonly scope: Scope
  /** True once another attempt runs: what is left of this one has no say any more. @internal */
  readonly stale: boolean
}

/** The running task, provided by the engine. */
export class Task extends Context.Tag("effect-pregel/Task")<Task, TaskContext>() {}

/**
 * Where pauses, calls and subgraph runs are counted: the task itself, or a running activity, whose own ones are not
 * made again once its result is saved. Counters restart at each attempt.
 *
 * @internal
 */
export interface Scope {
  /** The calls that lead to it; empty for the task itself. */
  readonly scope: string
  /** Interrupts asked so far: their positions identify them over replays. */
  interrupts: number
  /** Subgraph runs started so far. */
  children: number
  /** Calls of activities so far: by name, and by name and input. */
  calls: Map<string, number> | undefined
  /** The fiber that runs the body: its calls come in the same order at each replay. */
  body: unknown
}

/**
 * The mutable part of a task: counters of this attempt, answers, pauses, saved activity results. Only the engine's own
 * modules touch it.
 *
 * @internal
 */
export interface Frame {
  /** False once the task has ended: late events and writes of stray fibers are dropped. */
  open: boolean
  /** Set by a pause: the task ends as paused, whatever its effect does. */
  paused: boolean
  /** The fibers that have paused: whoever asks again has swallowed the pause and goes no further. */
  readonly askers: Set<FiberId.FiberId>
  /** Questions without answer; none for a static breakpoint of a nested run. */
  asked: ReadonlyArray<PendingInterrupt>
  /** Set by an answer that does not decode: the run fails with it and the pause stays. */
  invalidAnswer: InvalidAnswer | undefined
  /** Set by a failure that is the run's, not the node's: a drain, or a save that failed. */
  stopped: Stopping | undefined
  /** Results of activities, once there are any. */
  readonly saved: SavedCalls | undefined
  /** Failures of activities in this attempt: saved only if the task pauses after all. */
  failures: ReadonlyArray<SavedCall>
  /** The id of the interrupt at a position. */
  readonly interruptId: (position: string) => string
  readonly answerTo: (id: string) => { readonly value: Json } | undefined
  /** Called when the task pauses: the engine makes sure that its effect ends. */
  readonly onPause: () => void
  /** The task as the body of a call sees it. */
  readonly within: (scope: string) => TaskContext
  /** Makes sure that the thread is still this process's, where that is in doubt. */
  readonly mayAct: () => Effect.Effect<void, StorageError> | undefined
  /** Makes an activity's result durable. */
  readonly save: (call: SavedCall) => Effect.Effect<void, StorageError>
  /** Tells that a call has ended. */
  readonly told: (activity: string, call: string, value: unknown, cached: boolean) => Effect.Effect<void>
  /** Whether the task, or a call in it, has paused before: what it does now depends on answers. */
  readonly wasAsked: (scope: string) => boolean
  /** Where results are kept for equal inputs, if anywhere. */
  readonly cache: () => Context.Tag.Service<NodeCache> | undefined
  readonly emit: (value: unknown) => Effect.Effect<void, InvalidUpdate>
  readonly heartbeat: () => void
  /** Tells of anything else that the task does. */
  readonly progress: () => void
  /** The run the task belongs to; a nested run inherits from it. */
  readonly run: unknown
}

/** The context of the running task. */
export const current: Effect.Effect<TaskContext, never, Task> = Task

/**
 * Emits a custom event to the run's stream; it is delivered at once and waits while the stream's buffer is full.
 *
 * Does nothing when nobody listens to custom events, or after the task has ended. Fails with `InvalidUpdate` for a value
 * that is none of the graph's declared events.
 */
export const emit = (value: unknown): Effect.Effect<void, InvalidUpdate, Task> =>
  Effect.flatMap(Task, ({ frame, stale }) => (frame.open && !stale ? frame.emit(value) : Effect.void))

/**
 * `emit` for the events of one schema: declare it once beside the graph's option `events`.
 *
 * @example
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Channel, Graph, Task } from "effect-pregel"
 *
 * const Progress = Schema.Struct({ done: Schema.Int, of: Schema.Int })
 * const report = Task.emitter(Progress)
 *
 * const graph = Graph.make("copy", { files: Channel.append(Schema.String) }, { events: Progress })
 *   .addNode("copy", () => Effect.as(report({ done: 1, of: 2 }), { files: "a" }))
 *   .addEdge(Graph.START, "copy")
 *   .compile()
 *
 * const events = graph.stream({}, { modes: ["custom"] }) // of values like Progress
 * ```
 */
export const emitter =
  <A, I>(_schema: Schema.Schema<A, I>) =>
  (value: A): Effect.Effect<void, InvalidUpdate, Task> =>
    emit(value)

/** Tells the engine that the task makes progress: restarts its idle timeout. */
export const heartbeat: Effect.Effect<void, never, Task> = Effect.map(Task, ({ frame, stale }) => {
  if (!stale) frame.heartbeat()
})

/** Supersteps that may still run after this one. */
export const remainingSteps: Effect.Effect<number, never, Task> = Effect.map(Task, (task) => task.remainingSteps)

/**
 * Runs an effect that may pause, unless its fiber has paused already: then it swallowed that pause, and ends here. So
 * does one that an earlier attempt has left behind.
 *
 * @internal
 */
export const unlessPaused = <A, E, R>(
  { frame, stale }: TaskContext,
  effect: (asker: FiberId.FiberId) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.fiberIdWith((asker) => (stale || (frame.paused && frame.askers.has(asker)) ? Effect.interrupt : effect(asker)))

/** Failures of what a node calls that end the run: no node can handle them, however it is written. @internal */
export type Stopping = GraphDrained | GraphMismatch | StorageError | UnknownCheckpoint

/** Lets failures of these classes end the run. @internal */
export const stoppingAt =
  (...failures: ReadonlyArray<new (...parameters: any) => Stopping>) =>
  <A, E, R>(frame: Frame, body: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.tapError(body, (error) =>
      failures.some((failure) => error instanceof failure)
        ? Effect.fiberIdWith((asker) => {
            frame.stopped ??= error as Stopping
            pause(frame, asker, [])
            return Effect.void
          })
        : Effect.void
    )

/** Records a pause of the task, asked by a fiber of it. @internal */
export const pause = (frame: Frame, asker: FiberId.FiberId, questions: ReadonlyArray<PendingInterrupt>): void => {
  frame.asked = [...frame.asked, ...questions]
  frame.askers.add(asker)
  frame.onPause()
}
