/**
 * What a saved checkpoint says about a thread: its state, what runs next, and how each task stands.
 */
import * as Either from "effect/Either"
import type * as Runtime from "effect/Runtime"
import { ChannelTable } from "./Channels.js"
import { type Checkpoint, ERROR, type Header, INTERRUPT, type Json, RESULT } from "./Checkpoint.js"
import type { Loaded } from "./Checkpointer.js"
import { resultOf } from "./Events.js"
import type { CheckpointDecodeError, GraphMismatch, InvalidUpdate, PendingInterrupt } from "./GraphError.js"
import { applySaved, decodePairs, decodeWrites, plan, type Request, restored, versionsOf } from "./Load.js"
import type { Run } from "./Run.js"
import { formerKey, handlerPlan, savedQuestions, TaskState } from "./TaskState.js"
import type { Topology } from "./Topology.js"

/** How one task of the coming superstep stands. */
export interface TaskSnapshot {
  readonly id: string
  readonly node: string
  /** What it wrote, if it has finished. */
  readonly result: Readonly<Record<string, unknown>> | undefined
  /** The message of its failure, if it has failed. */
  readonly error: string | undefined
  /** Questions that it asked; for a finished task, those that were answered. */
  readonly interrupts: ReadonlyArray<PendingInterrupt>
}

/** Where a subgraph of a task has its checkpoints. */
export interface SubgraphPlace {
  readonly namespace: string
  /** The node of the task that runs it. */
  readonly node: string
  /** The id of that task. */
  readonly task: string
}

/** The namespaces of subgraphs that these tasks of a checkpoint have run. */
export const subgraphsOf = (
  namespace: string,
  checkpoint: string,
  tasks: ReadonlyArray<TaskSnapshot>,
  namespaces: ReadonlyArray<string>
): ReadonlyArray<SubgraphPlace> => {
  const inside = (prefix: string, name: string) =>
    prefix === "" ? name : name.startsWith(`${prefix}|`) ? name.slice(prefix.length + 1) : undefined
  const stable = namespace
    .split("|")
    .map((segment) => segment.split(":")[0])
    .join("|")
  return namespaces.flatMap((name) => {
    const own = inside(namespace, name)
    const segment = own === undefined || own === "" ? inside(stable, name) : own
    if (segment === undefined || segment === "" || segment.includes("|")) return []
    const [node = "", run] = segment.split(":")
    const at = run?.split("/")[0]
    const task = tasks.find(({ id, node: name }) =>
      at === undefined ? name === node.split(/[#/]/)[0] : id === `${checkpoint}:${node}${at.slice(checkpoint.length)}`
    )
    if (task === undefined || (at !== undefined && !at.startsWith(checkpoint))) return []
    return [{ namespace: name, node: task.node, task: task.id }]
  })
}

/** A checkpoint as its readers see it. */
export interface StateSnapshot<out State> {
  readonly values: State
  /** Nodes that run next; at the head without those that have finished already. */
  readonly next: ReadonlyArray<string>
  readonly tasks: ReadonlyArray<TaskSnapshot>
  /** Questions that wait for an answer. */
  readonly interrupts: ReadonlyArray<PendingInterrupt>
  /** `undefined` for a thread that was never run. */
  readonly checkpoint:
    | Pick<Header, "id" | "step" | "source" | "created" | "parent" | "parents" | "graph" | "ran">
    | undefined
  readonly metadata: Readonly<Record<string, Json>>
}

/** The snapshot of a thread that has no checkpoint: its channels hold their initial values. */
export const empty = (topology: Topology): StateSnapshot<any> => ({
  values: new ChannelTable(topology.channels).read(topology.state),
  next: [],
  tasks: [],
  interrupts: [],
  checkpoint: undefined,
  metadata: {}
})

/** Results of tasks that were saved with the checkpoint which came of them. */
export type Results = Pick<Checkpoint, "results" | "metadata">

const NO_RESULTS: Results = { results: [], metadata: {} }

interface Options {
  readonly runtime: Runtime.Runtime<any>
  /** The next checkpoint, with the results of this one's tasks that were saved there. */
  readonly child?: Results | undefined
  /** Whether the values include what finished tasks of an unfinished superstep wrote. */
  readonly applyFinished: boolean
}

/** Why a loaded checkpoint can't be shown. */
type ReadFailure = CheckpointDecodeError | GraphMismatch | InvalidUpdate

/** The snapshot of a loaded checkpoint. */
export const make = (
  request: Request,
  loaded: Loaded,
  { applyFinished, child = NO_RESULTS, runtime }: Options
): Either.Either<StateSnapshot<any>, ReadFailure> => {
  const restoredRun = restored(request, { loaded, head: loaded.head }, runtime)
  if (Either.isLeft(restoredRun)) return Either.left(restoredRun.left)
  const run = restoredRun.right
  const applied = applySaved(run)
  if (Either.isLeft(applied)) return Either.left(applied.left)
  plan(run)
  const tasks: Array<TaskState> = []
  const handlers: Array<TaskState> = []
  const snapshots: Array<TaskSnapshot> = []
  for (const planned of run.next) {
    const task = new TaskState(run, planned, undefined)
    const told = snapshotOf(run, task, child)
    if (Either.isLeft(told)) return Either.left(told.left)
    const { handler, ...snapshot } = told.right
    snapshots.push(snapshot)
    tasks.push(task)
    if (handler !== undefined) handlers.push(handler)
  }
  const finished = [...tasks.filter((task) => task.status === "restored"), ...handlers]
  const waiting = applyFinished ? tasks.filter((task) => task.status !== "restored") : tasks
  const { checkpoint } = loaded
  return Either.right({
    values: valuesOf(run, applyFinished ? finished : []),
    next: waiting.map((task) => task.node.name),
    tasks: snapshots,
    interrupts: tasks.flatMap((task) =>
      task.status === "restored" ? [] : task.asked.filter(({ id }) => !run.tree.answers.has(id))
    ),
    checkpoint,
    metadata: checkpoint.metadata
  })
}

/** The state with what tasks wrote; without it where their writes conflict, which the superstep's end will tell. */
const valuesOf = (run: Run, tasks: ReadonlyArray<TaskState>): Record<string, unknown> => {
  const { algo, channels, seen, topology } = run
  const before = channels.copy(topology.state)
  if (tasks.length === 0) return before
  return Either.isRight(algo.applyWrites(topology, channels, seen, tasks)) ? channels.copy(topology.state) : before
}

/** Reads what was saved for a task; control rows do not count as results. Yields the message of its failure. */
const read = (run: Run, task: TaskState, child: Results): Either.Either<string | undefined, ReadFailure> => {
  let error: string | undefined
  for (const { channel, value } of run.saved.get(task.key)?.rows ?? []) {
    if (channel === INTERRUPT) task.asked = savedQuestions(value)
    if (channel === ERROR) error = (JSON.parse(value) as { message: string }).message
    if (channel === RESULT) {
      const writes = decodeWrites(run, value)
      if (Either.isLeft(writes)) return Either.left(writes.left)
      task.writes = writes.right
      task.status = "restored"
    }
  }
  const saved = child.results.find((result) => result.task === task.key || result.task === formerKey(task))
  if (saved === undefined || task.status === "restored") return Either.right(error)
  const writes = decodePairs(run, saved.writes, versionsOf(child))
  if (Either.isRight(writes)) task.writes = writes.right
  task.status = "restored"
  return Either.right(error)
}

interface Told extends TaskSnapshot {
  /** The error handler, if it has finished in the task's place. */
  readonly handler: TaskState | undefined
}

/** How a task stands; one that failed as its handler does, which is told where it has finished. */
const snapshotOf = (run: Run, task: TaskState, child: Results): Either.Either<Told, ReadFailure> => {
  const { id, node } = task
  const failure = read(run, task, child)
  if (Either.isLeft(failure)) return Either.left(failure.left)
  const own = failure.right
  const result = task.status === "restored" ? resultOf(run.topology, task) : undefined
  if (result !== undefined || own === undefined || node.errorHandler === undefined) {
    const error = result === undefined ? own : undefined
    return Either.right({ id, node: node.name, result, error, interrupts: task.asked, handler: undefined })
  }
  const handler = new TaskState(run, handlerPlan(run.topology, task), undefined)
  const handlers = read(run, handler, child)
  if (Either.isLeft(handlers)) return Either.left(handlers.left)
  const error = handlers.right ?? own
  task.asked = handler.asked
  if (handler.status !== "restored") {
    return Either.right({ id, node: node.name, result, error, interrupts: task.asked, handler: undefined })
  }
  task.status = "restored"
  const handled = resultOf(run.topology, handler)
  return Either.right({ id, node: node.name, result: handled, error, interrupts: task.asked, handler })
}
