/**
 * The superstep loop.
 *
 *     load, enter -> { plan, restore, before-breakpoints, run tasks, apply, commit, after-breakpoints }* -> close
 *
 * A superstep's writes become visible together at its barrier, and every barrier is a checkpoint. The rule of who runs
 * is `Algo`'s; how tasks run is `Step`'s; when saves happen is `Persistence`'s. Here is only the order.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type { Applied } from "./Algo.js"
import { reuse } from "./Cached.js"
import * as Cell from "./Cell.js"
import { ACTIVITY, ERROR, INTERRUPT, RESULT, type ThreadStatus } from "./Checkpoint.js"
import type { Commit } from "./Checkpointer.js"
import { enter } from "./Entry.js"
import * as Events from "./Events.js"
import {
  type CheckpointDecodeError,
  GraphDrained,
  GraphInterrupt,
  type GraphMismatch,
  GraphRecursion,
  InvalidUpdate,
  JoinUnsatisfied,
  type PendingInterrupt,
  RunCancelled,
  UnknownNode
} from "./GraphError.js"
import { deepFreeze } from "./internal/freeze.js"
import { uninterruptibleMask } from "./internal/regions.js"
import { UNCHECKED, withoutStack } from "./internal/unchecked.js"
import { decodeWrites, open, plan, type Request } from "./Load.js"
import type { ParentCommand } from "./Output.js"
import type { SaveError } from "./Persistence.js"
import { type Breakpoints, NOTHING_SAVED, type Run, type SavedTask } from "./Run.js"
import { type SavedCall, SavedCalls } from "./SavedCalls.js"
import { driveInTime, handlerOf, Step } from "./Step.js"
import { savedQuestions, TaskState } from "./TaskState.js"
import type { Topology } from "./Topology.js"

/** How a run ended: with its output, or paused. */
export type Outcome =
  | { readonly _tag: "Completed"; readonly state: Record<string, unknown> }
  | {
      readonly _tag: "Paused"
      readonly state: Record<string, unknown>
      readonly interrupts: ReadonlyArray<PendingInterrupt>
      readonly next: ReadonlyArray<string>
    }

/** A pause as the failure that its caller sees. */
export const pauseOf = (
  { identity }: Topology,
  thread: string | undefined,
  { interrupts, next }: Extract<Outcome, { readonly _tag: "Paused" }>
): GraphInterrupt =>
  withoutStack(() => new GraphInterrupt({ graph: identity.name, thread, interrupts, next }, UNCHECKED))

/** Where a run stops. */
export interface Stops {
  readonly before: Breakpoints
  readonly after: Breakpoints
}

/** Runs a graph until it has nothing to do, pauses or fails. */
export const run = Effect.fnUntraced(function* (request: Request, stops: Stops): Generator<any, Outcome, any> {
  const runtime = yield* Effect.runtime<any>()
  const { loaded, run } = yield* open(request, runtime)
  return yield* guarded(
    run,
    Effect.flatMap(
      Effect.suspend(() => enter(run, request, loaded)),
      () => loop(run, stops)
    )
  )
}) as (request: Request, stops: Stops) => Effect.Effect<Outcome, unknown, any>

/** Whatever happens: no fiber is left behind, and what has to be saved is saved before the run returns. */
const guarded = (run: Run, body: Effect.Effect<Outcome, unknown, any>): Effect.Effect<Outcome, unknown, any> =>
  uninterruptibleMask((restore) => Effect.flatMap(Effect.exit(restore(body)), (exit) => ended(run, exit)))

const ended = (run: Run, exit: Exit.Exit<Outcome, unknown>): Effect.Effect<Outcome, unknown> => {
  if (Exit.isSuccess(exit) && run.persistence === undefined)
    return Effect.succeed(withFinishedSiblings(run, exit.value))
  const stopped = Exit.isFailure(exit) ? abandon(run, exit.cause) : Effect.void
  const closed = Effect.zipRight(stopped, Effect.exit(Effect.suspend(() => close(run, exit))))
  return Effect.flatMap(closed, (closed): Effect.Effect<Outcome, unknown> => {
    if (Exit.isFailure(exit)) return Effect.failCause(exit.cause)
    if (Exit.isFailure(closed)) return Effect.failCause(closed.cause)
    return Effect.succeed(withFinishedSiblings(run, exit.value))
  })
}

/** Stops what still runs of an unfinished superstep, and keeps what has finished. */
const abandon = (run: Run, cause: Cause.Cause<unknown>): Effect.Effect<void> => {
  const { current, persistence } = run
  if (current === undefined) return Effect.void
  current.cancel(cause)
  const keep = Effect.suspend(() => persistence?.put(current.unsavedRows()) ?? Effect.void)
  return Effect.zipRight(current.stop(), Effect.ignore(keep))
}

/** A run that was stopped, drained or cancelled has not failed: its thread can go on. */
const statusAfter = (exit: Exit.Exit<Outcome, unknown>): ThreadStatus => {
  if (Exit.isSuccess(exit)) return exit.value._tag === "Paused" ? "paused" : "idle"
  const failure = Option.getOrUndefined(Cause.failureOption(exit.cause))
  const stopped = failure instanceof GraphDrained || failure instanceof RunCancelled
  return stopped || Cause.isInterruptedOnly(exit.cause) ? "idle" : "failed"
}

const close = (run: Run, exit: Exit.Exit<Outcome, unknown>): Effect.Effect<void, SaveError> => {
  const { persistence, tree } = run
  if (persistence === undefined) return Effect.void
  const status = statusAfter(exit)
  const closed = persistence.close(status)
  // A run that ended well told so with its last checkpoint, one that paused with its question.
  const told = tree.durability === "exit" || (status === "idle" && Exit.isSuccess(exit)) || persistence.told === status
  if (run.namespace !== "" || told) return closed
  return Effect.zipRight(closed, tree.checkpointer!.setStatus(tree.thread!, status))
}

/** What a paused run shows: the state with the writes of finished siblings, which are not applied before all are done. */
const withFinishedSiblings = (run: Run, outcome: Outcome): Outcome => {
  if (outcome._tag === "Completed") return outcome
  const done = run.tasks.filter((task) => task.status === "done" || task.status === "restored")
  if (done.length === 0) return outcome
  const applied = run.algo.applyWrites(run.topology, run.channels, run.seen, done)
  return Either.isLeft(applied) ? outcome : { ...outcome, state: run.output() }
}

const loop = Effect.fnUntraced(function* (run: Run, stops: Stops): Generator<any, Outcome, any> {
  while (true) {
    Events.checkpointed(run, run.source)
    if (run.next.length === 0) break
    const refusal = refuse(run)
    if (refusal !== undefined) return yield* Effect.zipRight(run.room(), refusal)
    run.tasks = run.next.map((task) => new TaskState(run, task, seenBy(run, task)))
    const unreadable = run.saved.size > 0 ? restore(run) : undefined
    if (unreadable !== undefined) return yield* unreadable
    if (run.algo.shouldInterrupt(run.channels.version, run.resumedAt, stops.before, run.next)) return yield* stop(run)
    if (run.topology.caches && run.cache !== undefined) yield* reuse(run, run.cache)
    if (run.sink !== undefined) {
      announce(run)
      const room = run.sink.room()
      if (room !== undefined) yield* room
    }

    const step = new Step(run, run.tasks)
    run.current = step
    step.launch()
    if (step.busy) yield* driveInTime(step)
    run.tasks = step.tasks
    if (run.sink !== undefined && !step.succeeded) yield* run.room()
    if (step.failed !== undefined) return yield* failed(run, step, step.failed)
    if (step.drained !== undefined) return yield* failed(run, step, Cause.fail(step.drained))
    if (step.escaped !== undefined) return yield* leave(run, step.escaped)
    if (step.pauses) return yield* paused(run, step)

    const saved = barrier(run, step)
    if (saved !== undefined) yield* saved
    run.tasks = NO_TASKS
    // A stop after the last node would have nothing to go on with; in a subgraph the parent goes on.
    const goesOn = run.next.length > 0 || run.namespace !== ""
    if (goesOn && run.algo.shouldInterrupt(run.channels.version, run.resumedAt, stops.after, step.tasks)) {
      return yield* stop(run)
    }
  }
  if (run.sink !== undefined) yield* run.room()
  yield* joinsSatisfied(run)
  return { _tag: "Completed", state: run.output() }
}) as (run: Run, stops: Stops) => Effect.Effect<Outcome, unknown, any>

/** A command for an enclosing graph ends the run; there it is applied, but around the root there is none. */
const leave = (run: Run, escaped: ParentCommand): Effect.Effect<never, ParentCommand | UnknownNode> =>
  run.path.length > 0
    ? Effect.fail(escaped)
    : new UnknownNode({ node: escaped.command.graph!, from: escaped.from, reason: "NoParent", step: run.step })

/** Counts the superstep and refuses it past the limit, when a drain was requested, or when the run was cancelled. */
const refuse = (run: Run): Effect.Effect<never, unknown> | undefined => {
  const { topology, tree } = run
  if (run.cancelled !== undefined) return Effect.failCause(run.cancelled)
  const graph = topology.identity.name
  if (tree.control.drain !== undefined) {
    const next = run.next.map(({ node }) => node.name)
    return new GraphDrained({ graph, thread: tree.thread, reason: tree.control.drain, next })
  }
  if (run.next.every(({ node }) => node.hidden)) return undefined
  if (run.steps >= run.limit) {
    return new GraphRecursion({ graph, limit: run.limit, step: run.step, thread: tree.thread })
  }
  run.steps++
  return undefined
}

/** Tells which tasks start, and what was restored of them. */
const announce = (run: Run): void => {
  for (const task of run.tasks) Events.started(run, task)
  for (const task of run.tasks) if (task.status === "restored" || task.reused) Events.restored(run, task)
}

// ---------------------------------------------------------------------------------------------------------------------
// before: tasks as they were saved
// ---------------------------------------------------------------------------------------------------------------------

const seenBy = (run: Run, task: Run["next"][number]): unknown => {
  const input = inputOf(run, task)
  return run.tree.freeze ? deepFreeze(input) : input
}

const inputOf = (run: Run, task: Run["next"][number]): unknown => {
  if (task.send !== undefined) return task.send.arg
  const { entry, start } = run.topology
  const { id, reads } = task.node
  if (id !== entry) return run.channels.read(reads)
  const input = run.channels.get(start)
  return reads.length === 0 ? input : { ...run.channels.copy(reads), ...(input as object) }
}

/** Gives tasks what was saved for them: a finished one is not run, an unanswered one neither, nor one that failed. */
const restore = (run: Run): Unreadable | undefined => {
  const handlers: Array<TaskState> = []
  for (const task of run.tasks) {
    const unreadable = restoreTask(run, task)
    if (unreadable !== undefined) return unreadable
    if (task.status !== "handled") continue
    const handler = handlerOf(run, task)
    handlers.push(handler)
    const ofHandler = restoreTask(run, handler)
    if (ofHandler !== undefined) return ofHandler
  }
  if (handlers.length > 0) run.tasks = [...run.tasks, ...handlers]
  return undefined
}

/** Why what was saved for a task can't be used. */
type Unreadable = CheckpointDecodeError | GraphMismatch

const restoreTask = (run: Run, task: TaskState): Unreadable | undefined => {
  const { rows } = run.saved.get(task.key) ?? NO_ROWS
  const calls: Array<SavedCall> = []
  let failure: SavedFailure | undefined
  for (const { channel, value } of rows) {
    if (channel === RESULT) {
      const writes = decodeWrites(run, value)
      if (Either.isLeft(writes)) return writes.left
      task.writes = writes.right
      task.status = "restored"
    } else if (channel === INTERRUPT) {
      task.asked = savedQuestions(value)
    } else if (channel === ERROR) {
      failure = JSON.parse(value)
    } else if (channel.startsWith(ACTIVITY)) {
      calls.push(JSON.parse(value))
    }
  }
  if (calls.length > 0) task.saved = new SavedCalls(calls)
  if (task.status === "restored") return undefined
  if (failure !== undefined && task.node.errorHandler !== undefined && !failure.final) {
    task.handled(failure)
    return undefined
  }
  const { answers } = run.tree
  if (task.asked.length > 0 && !task.asked.some(({ id }) => answers.has(id))) task.status = "paused"
  else task.asked = []
  return undefined
}

const NO_ROWS: SavedTask = { rows: [] }

/** A saved failure; a final one was not the error handler's to handle. */
interface SavedFailure {
  readonly name: string
  readonly message: string
  readonly final?: boolean
}

// ---------------------------------------------------------------------------------------------------------------------
// after: pause, failure, barrier
// ---------------------------------------------------------------------------------------------------------------------

/** A static breakpoint: nothing is saved but what is. */
const stop = Effect.fnUntraced(function* (run: Run): Generator<any, Outcome, any> {
  Events.stopped(run)
  if (run.sink !== undefined) yield* run.room()
  return { _tag: "Paused", state: run.output(), interrupts: [], next: run.next.map(({ node }) => node.name) }
}) as (run: Run) => Effect.Effect<Outcome, unknown>

const paused = Effect.fnUntraced(function* (run: Run, step: Step): Generator<any, Outcome, any> {
  if (run.persistence !== undefined) {
    yield* run.persistence.put(step.unsavedRows(), run.namespace === "" ? "paused" : undefined)
  }
  const next = run.tasks
    .filter((task) => task.status === "paused")
    .map(({ handles, node }) => (handles?.node ?? node).name)
  const interrupts = run.pending()
  if (interrupts.length === 0 && run.sink !== undefined) {
    Events.stopped(run)
    yield* run.room()
  }
  return { _tag: "Paused", state: run.output(), interrupts, next }
}) as (run: Run, step: Step) => Effect.Effect<Outcome, unknown>

const failed = Effect.fnUntraced(function* (
  run: Run,
  step: Step,
  cause: Cause.Cause<unknown>
): Generator<any, never, any> {
  if (run.persistence !== undefined) {
    yield* run.persistence.put(step.unsavedRows())
    for (const task of step.tasks) {
      if (task.invalidAnswer !== undefined) yield* run.persistence.dropAnswer(task, task.invalidAnswer.id)
    }
  }
  return yield* Effect.failCause(cause)
}) as (run: Run, step: Step, cause: Cause.Cause<unknown>) => Effect.Effect<never, unknown>

/** Every task ended well: their writes become visible together. A function: the loop would hold what was applied. */
const barrier = (run: Run, step: Step): Effect.Effect<void, SaveError> | undefined => {
  const applied = run.algo.applyWrites(run.topology, run.channels, run.seen, run.tasks)
  if (Either.isLeft(applied)) return Effect.zipRight(run.room(), conflict(run, step, applied.left))
  run.journal?.record(applied.right)
  tell(run, applied.right)
  // Without a commit the next superstep waits for the reader.
  if (run.sink === undefined || run.persistence === undefined) return settle(run, step, applied.right)
  return Effect.flatMap(run.room(), () => settle(run, step, applied.right) ?? Effect.void)
}

/** Tells the new state, if a task wrote to the output. */
const tell = (run: Run, applied: Applied): void => {
  if (run.sink === undefined) return
  if (run.topology.output.some((id) => applied.changed.get(id)?.length)) Events.values(run)
}

/** All writes are applied: plans who runs next, and makes the new state a checkpoint. */
const settle = (run: Run, step: Step, applied: Applied): Effect.Effect<void, SaveError> | undefined => {
  run.updated = applied.updated
  plan(run)
  // From here on the superstep's results are the commit's.
  run.current = undefined
  run.source = "loop"
  run.saved = NOTHING_SAVED
  if (run.persistence === undefined) {
    run.seq++
    run.step++
    return undefined
  }
  const status = run.next.length === 0 && run.namespace === "" ? "idle" : undefined
  const refused = (error: InvalidUpdate) => conflict(run, step, error)
  return run.persistence.commit({ source: "loop", ran: ranOf(run), results: resultsOf(run, applied), status, refused })
}

const NO_TASKS: Run["tasks"] = []

const ranOf = (run: Run): ReadonlyArray<string> =>
  run.tasks.length === 1
    ? [run.tasks[0]!.node.name]
    : Array.from(new Set(run.tasks.filter(({ handles }) => handles === undefined).map(({ node }) => node.name)))

/** Results of tasks that were not saved before: they go into the barrier's transaction. */
const resultsOf = (run: Run, applied: Applied): Commit["results"] =>
  run.tasks
    .filter((task) => task.unsaved && task.status === "done")
    .map((task) => ({ task: task.key, writes: writesOf(run, task, applied) }))

/** State writes of a task; one that its channel's change tells already is not repeated. */
const writesOf = (run: Run, task: TaskState, applied: Applied) => {
  const writes: Array<readonly [string, string | undefined]> = []
  for (const write of task.writes) {
    const spec = run.topology.channels[write.channel]!
    if (!spec.isState || write.encoded === undefined) continue
    const { kind } = spec.channel.definition
    const told = (kind === "lastValue" || spec.append) && applied.changed.get(write.channel)?.length === 1
    writes.push([spec.name, told ? undefined : (write.encoded.text ?? "null")])
  }
  return writes
}

/**
 * A channel refused the step's writes, or its new value can't be saved: the step has failed, the head stays. Results of
 * the tasks that did not write the channel are kept for the resume; the others run again.
 */
const conflict = Effect.fnUntraced(function* (run: Run, step: Step, error: InvalidUpdate): Generator<any, never, any> {
  const channel = error.channel === undefined ? undefined : run.topology.channelIds.get(error.channel)
  const writers = run.tasks.filter((task) => task.writes.some((write) => write.channel === channel))
  if (run.persistence !== undefined) {
    for (const task of writers) task.unsaved = false
    yield* run.persistence.put(step.unsavedRows())
    yield* run.persistence.drop(writers.map(({ key }) => key))
  }
  const node = Array.from(new Set(writers.map((task) => task.node.name))).join(", ")
  const { cause } = error // not among an error's enumerable keys
  return yield* new InvalidUpdate({
    ...error,
    cause,
    node: error.node ?? node,
    step: run.step,
    thread: run.tree.thread
  })
}) as (run: Run, step: Step, error: InvalidUpdate) => Effect.Effect<never, SaveError>

/** A run must not end while a join that is not optional has met only some of its sources. */
const joinsSatisfied = (run: Run): Effect.Effect<void, JoinUnsatisfied> => {
  for (const join of run.topology.joins) {
    if (join.optional || !run.channels.live.has(join.channel)) continue
    const arrived = Cell.arrivedAt(run.channels.cell(join.channel))
    if (arrived.length === 0 || arrived.length === join.sources.length) continue
    return new JoinUnsatisfied({
      graph: run.topology.identity.name,
      thread: run.tree.thread,
      node: join.target,
      arrived,
      missing: join.sources.filter((source) => !arrived.includes(source))
    })
  }
  return Effect.void
}
