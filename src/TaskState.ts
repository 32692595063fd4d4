/**
 * A task of the running superstep: the engine's record of it (`TaskState`) and what its node sees (`TaskView`).
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type * as FiberId from "effect/FiberId"
import type { TaskPlan, TaskWrites, Write } from "./Algo.js"
import { ACTIVITY, type PendingWrite } from "./Checkpoint.js"
import { PendingInterrupt, type StorageError } from "./GraphError.js"
import type { Run } from "./Run.js"
import type { Send } from "./Send.js"
import type { Frame, SavedCall, TaskContext } from "./Task.js"
import type { Node } from "./Topology.js"

/**
 * How a task stands. `restored` and `done` have writes; `paused` waits for an answer; `handled` failed and its error
 * handler took over; `cancelled` was stopped because a sibling failed.
 */
export type Status = "planned" | "running" | "restored" | "done" | "paused" | "failed" | "handled" | "cancelled"

/** The name of a task within its checkpoint. */
export const taskKey = ({ index, node }: TaskPlan): string => (index < 0 ? node.name : `${node.name}#${index}`)

/** The sort key of a task: pull tasks by name, then push tasks by index. */
export const taskPath = ({ index, node }: TaskPlan): string =>
  index < 0 ? `0${node.name}` : `1${String(index).padStart(8, "0")}`

/** The questions of a saved pause. */
export const savedQuestions = (text: string): Array<PendingInterrupt> =>
  (JSON.parse(text) as ReadonlyArray<ConstructorParameters<typeof PendingInterrupt>[0]>).map(
    (question) => new PendingInterrupt(question)
  )

const NOTHING: ReadonlyArray<never> = []

/** The engine's record of a task. */
export class TaskState implements TaskWrites, Frame {
  readonly node: Node
  readonly send: Send | undefined
  readonly index: number
  readonly key: string
  readonly view: TaskView
  writes: Array<Write> = []
  status: Status = "planned"
  /** How the task failed: a `Cause`. */
  failure: Cause.Cause<unknown> | undefined = undefined
  fiber: Fiber.RuntimeFiber<unknown, unknown> | undefined = undefined
  /** Something of this task that is not saved yet. */
  unsaved = false
  /** The failed task that this one handles. */
  handles: TaskState | undefined = undefined
  attempt = 1
  firstAttempt = 0

  open = true
  paused = false
  readonly askers: Set<FiberId.FiberId> = new Set()
  interrupts = 0
  children = 0
  asked: Array<PendingInterrupt> = []
  invalidAnswer: unknown = undefined
  saved: ReadonlyArray<SavedCall> = NOTHING
  failures: Array<SavedCall> = []
  private counts: Map<string, number> | undefined
  private flights: Map<string, number> | undefined
  private claims: Set<SavedCall> | undefined
  /** Restarts the idle timeout, if there is one. */
  onProgress: (() => void) | undefined = undefined

  constructor(
    readonly run: Run,
    plan: TaskPlan,
    readonly input: unknown
  ) {
    this.node = plan.node
    this.send = plan.send
    this.index = plan.index
    this.key = taskKey(plan)
    this.view = new TaskView(this)
  }

  get id(): string {
    return `${this.run.checkpointId}:${this.key}`
  }
  get path(): string {
    return taskPath(this)
  }
  get calls(): Map<string, number> {
    return (this.counts ??= new Map())
  }
  get inFlight(): Map<string, number> {
    return (this.flights ??= new Map())
  }
  get claimed(): Set<SavedCall> {
    return (this.claims ??= new Set())
  }

  /** Forgets what an attempt did: counters restart, so that a replay meets the same interrupts and calls. */
  restart(): void {
    this.writes = []
    this.interrupts = 0
    this.children = 0
    this.counts = undefined
    this.claims = undefined
    this.failures = []
  }

  /** Takes over a failure that was saved: its error handler runs instead of the node. */
  handled(saved: { readonly name: string; readonly message: string }): void {
    this.status = "handled"
    this.failure = Cause.fail(Object.assign(new Error(saved.message), { _tag: saved.name }))
  }

  /** Results of activities that this attempt saved, in addition to those it found. */
  remember(call: SavedCall): void {
    this.saved = [...this.saved, call]
    this.claimed.add(call)
  }

  /** True when a saved call was not asked for again: a replay that took another way. */
  get unclaimed(): SavedCall | undefined {
    return this.saved.length === 0 ? undefined : this.saved.find((call) => !this.claimed.has(call))
  }

  interruptId(position: string): string {
    const { namespace } = this.run
    return `${namespace === "" ? "" : `${namespace}|`}${this.id}:${position}`
  }

  answerTo(id: string) {
    return this.run.tree.answers.get(id)
  }

  onPause(): void {
    this.paused = true
    // A node that swallows the pause and goes on working is stopped; one that ends by itself is left to its finalizers.
    queueMicrotask(() => {
      const { fiber } = this
      if (fiber !== undefined && fiber.unsafePoll() === null) fiber.unsafeInterruptAsFork(fiber.id())
    })
  }

  save(call: SavedCall): Effect.Effect<void, StorageError> {
    this.remember(call)
    this.heartbeat()
    const { persistence } = this.run
    return persistence === undefined ? Effect.void : persistence.putNow([this.callRow(call)])
  }

  callRow(call: SavedCall): PendingWrite {
    return this.row(`${ACTIVITY}${call.name}:${call.hash}`, call.occurrence, call)
  }

  row(channel: string, index: number, value: unknown): PendingWrite {
    return { task: this.key, path: this.path, channel, index, value: JSON.stringify(value) }
  }

  emit(value: unknown): Effect.Effect<void> {
    this.heartbeat()
    return this.run.emitCustom(this, value)
  }

  heartbeat(): void {
    this.onProgress?.()
  }
}

/** What a node sees of its task. */
export class TaskView implements TaskContext {
  constructor(readonly frame: TaskState) {}
  get id() {
    return this.frame.id
  }
  get node() {
    return this.frame.node.name
  }
  get graph() {
    return this.frame.run.topology.identity.name
  }
  get step() {
    return this.frame.run.step
  }
  get attempt() {
    return this.frame.attempt
  }
  get firstAttempt() {
    return this.frame.firstAttempt
  }
  get thread() {
    return this.frame.run.tree.thread
  }
  get checkpoint() {
    return this.frame.run.persistence === undefined ? undefined : this.frame.run.checkpointId
  }
  get namespace() {
    return this.frame.run.path
  }
  get remainingSteps() {
    return this.frame.run.limit - this.frame.run.steps
  }
  get isLastStep() {
    return this.remainingSteps === 0
  }
}
