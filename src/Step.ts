/**
 * The tasks of one superstep, from their launch to the last one's end.
 *
 * Every task has a fiber of its own, started at once: one that needs no waiting has ended when the launch returns, and
 * nothing is awaited. A pause lets siblings finish; a failure interrupts them and waits for their finalizers. What has
 * finished while others run is saved as it finishes; what is left at the end goes into the barrier's own transaction.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { attempt, finish } from "./Attempt.js"
import { ERROR, INTERRUPT, type PendingWrite, RESULT } from "./Checkpoint.js"
import { make as command } from "./Command.js"
import * as Events from "./Events.js"
import { ActivityMismatch, GraphDrained, InvalidUpdate, NodeCancelled, TaskTimeout } from "./GraphError.js"
import { NotJson, stringify } from "./internal/json.js"
import { encodeWrites } from "./Load.js"
import { addresses, commandIn, ParentCommand } from "./Output.js"
import type { SaveError } from "./Persistence.js"
import type { Run } from "./Run.js"
import { handlerPlan, NO_WRITES, TaskState, TaskView } from "./TaskState.js"

export class Step {
  readonly tasks: Array<TaskState>
  /** Position of the first task that was not started yet. */
  private next = 0
  private running = 0
  private readonly toHandle: Array<TaskState> = []
  private wake: ((ended: Effect.Effect<void>) => void) | undefined
  /** Tasks that have ended since they were last asked for. */
  private ended: Array<TaskState> = []
  /** Why the superstep failed: the first task's failure, or a cancellation. */
  failed: Cause.Cause<unknown> | undefined
  /** A command that leaves the graph. */
  escaped: ParentCommand | undefined
  /** A subgraph was drained: its task has not ended, the others have. */
  drained: GraphDrained | undefined

  constructor(
    readonly run: Run,
    tasks: ReadonlyArray<TaskState>
  ) {
    this.tasks = tasks.slice()
    for (const task of tasks) if (task.unsaved) this.ended.push(task)
  }

  /**
   * Starts tasks as far as the concurrency limit allows. Tasks of a superstep start together: one that fails at once
   * keeps no other from starting, so that what a sibling does never depends on its name.
   */
  launch(): void {
    if (this.failed !== undefined) return
    const limit = this.run.tree.concurrency
    while (this.next < this.tasks.length && this.running < limit) {
      const task = this.tasks[this.next++]!
      if (task.status === "planned") this.start(task, undefined)
    }
    if (this.failed !== undefined) this.interruptRunning()
  }

  private start(task: TaskState, effect: Effect.Effect<void, unknown, any> | undefined): void {
    task.status = "running"
    this.running++
    const fiber = this.run.fork(effect ?? attempt(task), new TaskView(task))
    task.fiber = fiber
    const exit = fiber.unsafePoll()
    if (exit !== null) this.settle(task, exit)
    else fiber.addObserver((exit) => this.settle(task, exit))
  }

  private settle(task: TaskState, exit: Exit.Exit<unknown, unknown>): void {
    this.running--
    task.fiber = undefined
    const left = Exit.isFailure(exit) && !task.paused ? commandIn(exit.cause) : undefined
    if (left?.escaped && addresses(left.command, this.run.topology.identity.name)) {
      const { goto, update } = left.command
      this.start(task, finish(task, command({ update, goto })))
      return
    }
    task.open = false
    // Tasks live until the barrier; their fibers, which are larger, need not.
    task.body = undefined
    // A list that has grown holds room to grow on.
    if (task.index >= 0 && task.writes.length > 1) task.writes = task.writes.slice()
    this.run.onProgress?.()
    this.classify(task, exit)
    task.unsaved = true
    this.ended.push(task)
    Events.ended(this.run, task)
    const { wake } = this
    if (wake === undefined || (this.busy && !this.tells)) return
    this.wake = undefined
    wake(Effect.void)
  }

  /** True when there is something to do after each task that ends. */
  private get tells(): boolean {
    const { persistence, sink } = this.run
    return this.queues || persistence !== undefined || sink !== undefined
  }

  /** True when a task or a handler waits to be started. */
  private get queues(): boolean {
    return this.next < this.tasks.length || this.toHandle.length > 0
  }

  private classify(task: TaskState, exit: Exit.Exit<unknown, unknown>): void {
    if (task.paused) {
      task.writes = NO_WRITES
      if (task.stopped instanceof GraphDrained) {
        this.drained ??= task.stopped
        if (task.asked.length === 0) {
          task.status = "cancelled"
          return
        }
      } else if (task.stopped !== undefined) {
        this.fail(task, Cause.fail(task.stopped))
        return
      }
      const refusal = task.invalidAnswer ?? (this.run.persistence === undefined ? undefined : unsayable(task))
      if (refusal === undefined) task.status = "paused"
      else this.fail(task, Cause.fail(refusal))
      return
    }
    if (Exit.isSuccess(exit)) {
      const replaced = task.saved?.replaced
      if (replaced === undefined) {
        task.status = "done"
        return
      }
      const { name: activity, occurrence } = replaced
      task.writes = NO_WRITES
      this.fail(task, Cause.fail(new ActivityMismatch({ activity, node: task.node.name, occurrence })))
      return
    }
    task.writes = NO_WRITES
    if (this.failed !== undefined && Cause.isInterrupted(exit.cause)) {
      task.status = "cancelled"
      return
    }
    const left = commandIn(exit.cause)
    if (left !== undefined) {
      task.status = "cancelled"
      this.escaped ??= new ParentCommand(left.command, left.from, true)
      return
    }
    const cause = Cause.isInterruptedOnly(exit.cause)
      ? Cause.fail(new NodeCancelled({ node: task.node.name, step: this.run.step }))
      : exit.cause
    if (task.node.errorHandler === undefined) {
      this.fail(task, cause)
      return
    }
    task.status = "handled"
    task.failure = cause
    this.toHandle.push(task)
  }

  private fail(task: TaskState, cause: Cause.Cause<unknown>): void {
    task.status = "failed"
    task.failure = cause
    if (this.failed === undefined) this.end(cause)
  }

  /** Stops the superstep from outside the tasks: what runs is interrupted, what has finished is kept. */
  cancel(cause: Cause.Cause<unknown>): void {
    if (this.busy && this.failed === undefined) this.end(cause)
  }

  private end(cause: Cause.Cause<unknown>): void {
    this.failed = cause
    this.interruptRunning()
  }

  private interruptRunning(): void {
    for (const { fiber } of this.tasks) fiber?.unsafeInterruptAsFork(fiber.id())
  }

  /** True while something runs or waits to run. */
  get busy(): boolean {
    return this.running > 0 || (this.failed === undefined && this.queues)
  }

  /** True when there is nothing to do until a task ends. */
  get waits(): boolean {
    return this.running > 0 && this.toHandle.length === 0 && this.ended.length === 0
  }

  /** True when a task waits for an answer. */
  get pauses(): boolean {
    return this.tasks.some((task) => task.status === "paused")
  }

  /** True when every task ended well: its writes can be applied. */
  get succeeded(): boolean {
    return this.failed === undefined && this.escaped === undefined && this.drained === undefined && !this.pauses
  }

  /** Waits until a task ends. */
  wait(): Effect.Effect<void> {
    return Effect.async<void>((resume) => {
      this.wake = resume
    })
  }

  /** Nodes of the tasks that have not ended. */
  get unfinished(): ReadonlyArray<string> {
    const ended = (task: TaskState) => task.status !== "running" && task.status !== "planned"
    return this.tasks.filter((task) => !ended(task)).map(({ node }) => node.name)
  }

  /** Failures whose handlers are not queued yet. */
  get unhandled(): ReadonlyArray<TaskState> {
    return this.toHandle
  }

  /** Queues the handlers of failures. */
  queueHandlers(): void {
    for (const task of this.toHandle.splice(0)) {
      const handler = handlerOf(this.run, task)
      this.tasks.push(handler)
      Events.started(this.run, handler)
    }
  }

  /** Tasks that have ended since this was last asked. */
  takeEnded(): ReadonlyArray<TaskState> {
    const { ended } = this
    this.ended = []
    return ended
  }

  /** Rows of what has ended and is not saved yet. */
  unsavedRows(): Array<PendingWrite> {
    const rows: Array<PendingWrite> = []
    for (const task of this.takeEnded()) {
      if (!task.unsaved) continue
      task.unsaved = false
      for (const row of rowsOf(task)) rows.push(row)
    }
    return rows
  }

  /** Interrupts what still runs; for a run that is stopped from outside. */
  stop(): Effect.Effect<void> {
    return Effect.asVoid(Fiber.interruptAll(this.tasks.flatMap(({ fiber }) => fiber ?? [])))
  }
}

/** The task that handles a failure. */
export const handlerOf = (run: Run, failed: TaskState): TaskState => {
  const error = Cause.squash(failed.failure!)
  const input = { error, state: failed.input, node: failed.node.name }
  const handler = new TaskState(run, handlerPlan(run.topology, failed), input)
  handler.handles = failed
  return handler
}

/** Drives a launched superstep until all of its tasks have ended; mostly there is nothing to do but wait for them. */
const drive = (step: Step): Effect.Effect<void, SaveError> =>
  step.waits && step.run.sink === undefined
    ? Effect.flatMap(step.wait(), () => (step.busy ? driveOn(step) : Effect.void))
    : driveOn(step)

/** Saves what has ended while others run, and starts tasks as others end. */
const driveOn = Effect.fnUntraced(function* (step: Step): Generator<any, void, any> {
  const { run } = step
  while (step.busy) {
    if (run.sink !== undefined) yield* run.room()
    const { persistence } = run
    if (step.unhandled.length > 0) {
      // A failure is durable before its handler starts.
      if (persistence !== undefined) yield* persistence.putNow(step.unhandled.map(errorRow))
      step.queueHandlers()
    }
    if (persistence === undefined) step.takeEnded()
    else yield* persistence.put(step.unsavedRows())
    step.launch()
    if (step.waits) yield* step.wait()
  }
}) as (step: Step) => Effect.Effect<void, SaveError>

/** Drives a superstep within the run's time limit for one, if it has one. */
export const driveInTime = (step: Step): Effect.Effect<void, SaveError> => {
  const { stepTimeout: limitMillis } = step.run.tree
  if (limitMillis === undefined) return drive(step)
  const expire = Effect.sync(() => {
    const node = step.unfinished.join(", ")
    const { step: number } = step.run
    const timeout = { node, kind: "step", limitMillis, elapsedMillis: limitMillis, step: number } as const
    step.cancel(Cause.fail(new TaskTimeout(timeout)))
  })
  return Effect.scoped(Effect.zipRight(Effect.forkScoped(Effect.delay(expire, limitMillis)), drive(step)))
}

const rowsOf = (task: TaskState): ReadonlyArray<PendingWrite> => {
  switch (task.status) {
    case "done":
      return [{ ...task.row(RESULT, 0, null), value: encodeWrites(task.run, task.writes) }]
    case "paused":
      return [...task.failures.map((call) => task.callRow(call)), ...interruptRow(task)]
    case "failed":
    case "handled":
      return [errorRow(task)]
    default:
      return []
  }
}

const interruptRow = (task: TaskState): ReadonlyArray<PendingWrite> =>
  task.asked.length === 0 ? [] : [task.row(INTERRUPT, 0, task.asked)]

const errorRow = (task: TaskState): PendingWrite => {
  const error = Cause.squash(task.failure!)
  const name = typeof error === "object" && error !== null && "_tag" in error ? String(error._tag) : undefined
  const message = error instanceof Error ? error.message : String(error)
  const final = task.status === "failed" && task.node.errorHandler !== undefined ? true : undefined
  return task.row(ERROR, 0, { name: name ?? (error instanceof Error ? error.name : "Error"), message, final })
}

/** What keeps a pause's question from being saved, if anything. */
const unsayable = (task: TaskState): InvalidUpdate | undefined => {
  try {
    for (const { value } of task.asked) stringify(value)
    return undefined
  } catch (error) {
    if (!(error instanceof NotJson)) throw error
    task.asked = []
    return new InvalidUpdate({
      reason: "NotEncodable",
      node: task.node.name,
      path: error.path,
      detail: `the question of an interrupt can't be saved: ${error.message}`
    })
  }
}
