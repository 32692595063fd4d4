/**
 * A task of the running superstep: the engine's record of it (`TaskState`) and what its node sees (`TaskView`).
 */
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type * as FiberId from "effect/FiberId"
import type { TaskPlan, TaskWrites, Write } from "./Algo.js"
import { ACTIVITY, INTERRUPT, type PendingWrite } from "./Checkpoint.js"
import { type InvalidAnswer, type InvalidUpdate, PendingInterrupt, type StorageError } from "./GraphError.js"
import { UNCHECKED } from "./internal/unchecked.js"
import type { NodeCache } from "./NodeCache.js"
import type { Doubt, Run } from "./Run.js"
import { type SavedCall, SavedCalls } from "./SavedCalls.js"
import type { Send } from "./Send.js"
import type { Frame, Scope, Stopping, TaskContext } from "./Task.js"
import type { Node, Topology } from "./Topology.js"

/**
 * How a task stands. `restored` and `done` have writes; `paused` waits for an answer; `handled` failed and its error
 * handler took over; `cancelled` was stopped because a sibling failed.
 */
export type Status = "planned" | "running" | "restored" | "done" | "paused" | "failed" | "handled" | "cancelled"

/** Index of the first error handler among a superstep's push tasks: handlers are folded after them. */
const HANDLERS = 90_000_000
/** Index of the first handler of a push task. */
const HANDLERS_OF_SENDS = 95_000_000

/** The task that handles a failure of this one: the same one whenever it fails, and however often. */
export const handlerPlan = ({ nodes }: Topology, { index, node }: TaskPlan): TaskPlan => ({
  node: nodes[node.errorHandler!]!,
  send: undefined,
  index: index < 0 ? HANDLERS + node.rank : HANDLERS_OF_SENDS + index
})

/** Tells tasks of one node in a superstep apart: the packet's index, of a handler that of the failed task. */
export const instanceOf = (index: number): string => {
  if (index < 0) return ""
  if (index < HANDLERS) return `#${index}`
  return index < HANDLERS_OF_SENDS ? "" : `#${index - HANDLERS_OF_SENDS}`
}

/** The name of a task within its checkpoint. */
const taskKey = ({ index, node }: TaskPlan): string => (index < 0 ? node.name : node.name + instanceOf(index))

/**
 * The name that a task is saved under: its key, or the one it had before its node was renamed, where something is saved
 * under that.
 */
export const savedKey = (run: Pick<Run, "saved">, plan: TaskPlan): string => {
  const key = taskKey(plan)
  const { renamedFrom } = plan.node
  if (renamedFrom === undefined || run.saved.size === 0 || run.saved.has(key)) return key
  const former = formerKey(plan)!
  return run.saved.has(former) ? former : key
}

/** The name of a task before its node was renamed. */
export const formerKey = ({ index, node }: TaskPlan): string | undefined =>
  node.renamedFrom === undefined ? undefined : node.renamedFrom + instanceOf(index)

/** The sort key of a task: pull tasks by name, then push tasks by index. */
export const taskPath = ({ index, node }: TaskPlan): string =>
  index < 0 ? `0${node.name}` : `1${String(index).padStart(8, "0")}`

/** The questions of a saved pause. */
export const savedQuestions = (text: string): Array<PendingInterrupt> =>
  (JSON.parse(text) as ReadonlyArray<ConstructorParameters<typeof PendingInterrupt>[0]>).map(
    (question) => new PendingInterrupt(question, UNCHECKED)
  )

export const NO_WRITES: ReadonlyArray<Write> = []
const NO_QUESTIONS: ReadonlyArray<PendingInterrupt> = []
const NO_FAILURES: ReadonlyArray<SavedCall> = []

/** The engine's record of a task. Thousands of them live until a barrier: what most don't have is not made for them. */
export class TaskState implements TaskWrites, Frame, Scope {
  readonly node: Node
  readonly send: Send | undefined
  readonly index: number
  /** Made when it is first asked for. */
  private ownKey: string | undefined
  writes: ReadonlyArray<Write> = NO_WRITES
  status: Status = "planned"
  /** How the task failed: a `Cause`. */
  failure: Cause.Cause<unknown> | undefined = undefined
  fiber: Fiber.RuntimeFiber<unknown, unknown> | undefined = undefined
  /** Something of this task that is not saved yet. */
  unsaved = false
  /** Its writes are those of an earlier task with an equal input. */
  reused = false
  /** The failed task that this one handles. */
  handles: TaskState | undefined = undefined
  attempt = 1
  firstAttempt = 0

  open = true
  paused = false
  private askersOnce: Set<FiberId.FiberId> | undefined = undefined
  interrupts = 0
  children = 0
  asked: ReadonlyArray<PendingInterrupt> = NO_QUESTIONS
  invalidAnswer: InvalidAnswer | undefined = undefined
  stopped: Stopping | undefined = undefined
  calls: Map<string, number> | undefined = undefined
  body: unknown = undefined
  saved: SavedCalls | undefined = undefined
  failures: ReadonlyArray<SavedCall> = NO_FAILURES
  /** Restarts the idle timeout, if there is one; some count heartbeats alone. */
  onProgress: ((heartbeat: boolean) => void) | undefined = undefined

  constructor(
    readonly run: Run,
    plan: TaskPlan,
    readonly input: unknown
  ) {
    this.node = plan.node
    this.send = plan.send
    this.index = plan.index
    this.ownKey = run.saved.size === 0 ? undefined : savedKey(run, plan)
  }

  /** The name it is saved under. */
  get key(): string {
    return (this.ownKey ??= taskKey(this))
  }
  get scope(): string {
    return ""
  }

  get askers(): Set<FiberId.FiberId> {
    return (this.askersOnce ??= new Set())
  }
  get id(): string {
    return `${this.run.checkpointId}:${this.key}`
  }
  get path(): string {
    return taskPath(this)
  }
  /** The node's name, or the one it had when the task was saved. */
  get name(): string {
    const { renamedFrom } = this.node
    return renamedFrom !== undefined && this.key === formerKey(this) ? renamedFrom : this.node.name
  }

  /** Forgets what an attempt did: counters restart, so that a replay meets the same interrupts and calls. */
  restart(): void {
    this.writes = NO_WRITES
    this.interrupts = 0
    this.children = 0
    this.calls = undefined
    this.saved?.restart()
    this.failures = NO_FAILURES
  }

  /** Takes over a failure that was saved: its error handler runs instead of the node. */
  handled(saved: { readonly name: string; readonly message: string }): void {
    this.status = "handled"
    this.failure = Cause.fail(Object.assign(new Error(saved.message), { _tag: saved.name }))
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

  within(scope: string): TaskContext {
    return new TaskView(this, { scope, interrupts: 0, children: 0, calls: undefined, body: undefined })
  }

  save(call: SavedCall): Effect.Effect<void, StorageError> {
    if (!this.open) return Effect.void
    this.saved ??= new SavedCalls([])
    this.saved.remember(call)
    this.progress()
    const { persistence } = this.run
    return persistence === undefined ? Effect.void : persistence.putNow([this.callRow(call)])
  }

  mayAct(): Effect.Effect<void, StorageError> | undefined {
    const { persistence, tree } = this.run
    const { doubt } = tree.control
    if (persistence === undefined || doubt === undefined || doubt.settled === doubt.reasons()) return undefined
    // Nothing is written, but a newer fence refuses it.
    return settle(doubt, persistence.putNow([]))
  }

  callRow(call: SavedCall): PendingWrite {
    return this.row(`${ACTIVITY}${call.scope ?? ""}${call.name}:${call.hash}`, call.occurrence, call)
  }

  told(activity: string, call: string, value: unknown, cached: boolean): Effect.Effect<void> {
    return this.open ? this.run.emitActivity(this, { activity, call, value, cached }) : Effect.void
  }

  wasAsked(scope: string): boolean {
    const asked = this.run.saved.get(this.key)?.rows.filter(({ channel }) => channel === INTERRUPT) ?? []
    if (scope === "" || asked.length === 0) return asked.length > 0
    const direct = this.interruptId(scope)
    return asked
      .flatMap(({ value }) => savedQuestions(value))
      .some(({ id, namespace }) => id.startsWith(direct) || namespace.some((name) => name.includes(`/${scope}`)))
  }

  cache(): Context.Tag.Service<NodeCache> | undefined {
    return this.run.cache
  }

  row(channel: string, index: number, value: unknown): PendingWrite {
    return { task: this.key, path: this.path, channel, index, value: JSON.stringify(value) }
  }

  emit(value: unknown): Effect.Effect<void, InvalidUpdate> {
    this.progress()
    return this.run.emitCustom(this, value)
  }

  heartbeat(): void {
    this.onProgress?.(true)
    this.run.onProgress?.()
  }

  progress(): void {
    this.onProgress?.(false)
    this.run.onProgress?.()
  }
}

/** Asks until there was no new reason to doubt while the answer was on its way. */
const settle = <E>(doubt: Doubt, ask: Effect.Effect<void, E>): Effect.Effect<void, E> =>
  Effect.suspend(() => {
    const reasons = doubt.reasons()
    if (doubt.settled === reasons) return Effect.void
    const settled = Effect.suspend(() => {
      doubt.settled = Math.max(doubt.settled, reasons)
      return settle(doubt, ask)
    })
    return Effect.zipRight(ask, settled)
  })

/** What a node sees of its task. */
export class TaskView implements TaskContext {
  private readonly number: number
  constructor(
    readonly frame: TaskState,
    readonly scope: Scope = frame
  ) {
    this.number = frame.attempt
  }
  get stale() {
    return this.number !== this.frame.attempt
  }
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
