/**
 * A graph that runs inside a node of another one: as that node, or invoked by it.
 *
 * It has a namespace of its own under the task that runs it. Its pauses are the task's pauses; when the task is
 * replayed, it goes on where it was.
 */
import * as Effect from "effect/Effect"
import type * as FiberId from "effect/FiberId"
import { ERROR, seqOfId } from "./Checkpoint.js"
import type { Loaded } from "./Checkpointer.js"
import {
  CheckpointDecodeError,
  CheckpointerError,
  GraphDrained,
  GraphMismatch,
  InvalidAnswer,
  InvalidUpdate,
  ThreadConflict,
  UnknownCheckpoint
} from "./GraphError.js"
import type { GraphEvent } from "./GraphEvent.js"
import type { Call, Request } from "./Load.js"
import * as Loop from "./Loop.js"
import { ParentCommand } from "./Output.js"
import type { Run, Sink, Tree } from "./Run.js"
import { pause, type Scope, stoppingAt, Task, unlessPaused } from "./Task.js"
import { instanceOf, type TaskState } from "./TaskState.js"
import type { Topology } from "./Topology.js"

/**
 * What a subgraph remembers: nothing after its task has ended (`call`, the default), everything over all runs of the
 * thread (`thread`), or nothing at all: a resume runs it again from its start (`none`).
 */
export type SubgraphPersistence = "call" | "thread" | "none"

/** Options of a graph that runs inside a node. */
export interface NestedOptions {
  readonly persistence?: SubgraphPersistence | undefined
  /** Tells instances apart that run in parallel with `thread` persistence. */
  readonly key?: string | undefined
}

/** The namespace segment of a subgraph run: unique for the task and the order of its subgraph runs. */
const segmentOf = (task: TaskState, ordinal: string): string => {
  return `${task.name}:${task.run.checkpointId}${instanceOf(task.index)}${ordinal}`
}

/** The namespace segment of a subgraph that remembers: the same in all runs of the thread. */
const stableSegmentOf = (task: TaskState, ordinal: string, key: string | undefined): string => {
  const instance = key ?? task.send?.options?.key
  return `${task.node.renamedFrom ?? task.node.name}${instance === undefined ? "" : `#${literal(instance)}`}${ordinal}`
}

/** A key as part of a segment: what separates the parts of namespaces is written otherwise. */
const literal = (key: string): string =>
  key.replace(/[%|:#/]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`)

const within = (namespace: string, segment: string) => (namespace === "" ? segment : `${namespace}|${segment}`)

/** Runs a graph as part of the running task; yields its output. */
export const run = (
  topology: Topology,
  call: Call,
  stops: Loop.Stops,
  options: NestedOptions,
  reader?: Sink
): Effect.Effect<Record<string, unknown>, unknown, Task> =>
  Effect.flatMap(Task, (task) => {
    const frame = task.frame as TaskState
    return unlessPaused(task, (asker) => {
      const request = requestOf(frame, ordinalOf(task.scope), topology, call, options, reader)
      if (request === undefined) return claimed(frame)
      return Effect.flatMap(leavable(refusing(frame, asker, stopping(frame, Loop.run(request, stops)))), (outcome) => {
        if (outcome._tag === "Completed") return Effect.succeed(outcome.state)
        pause(frame, asker, outcome.interrupts)
        return Loop.pauseOf(topology, task.thread, outcome)
      })
    })
  })

/** What stops the run stops the graphs around as well: no node takes it for a failure of its own. */
const stopping = stoppingAt(
  GraphDrained,
  GraphMismatch,
  CheckpointerError,
  CheckpointDecodeError,
  ThreadConflict,
  UnknownCheckpoint
)

/** An invalid answer to a question of the subgraph: no node around it may handle that, its question stays open. */
const refusing = <A>(frame: TaskState, asker: FiberId.FiberId, body: Effect.Effect<A, unknown, any>) =>
  Effect.tapError(body, (error) =>
    Effect.sync(() => {
      if (!(error instanceof InvalidAnswer)) return
      frame.invalidAnswer = error
      pause(frame, asker, [])
    })
  )

/** A command that leaves the graph is no failure that the node around it could handle by mistake. */
const leavable = <A>(body: Effect.Effect<A, unknown, any>): Effect.Effect<A, unknown, any> =>
  Effect.catchAll(body, (error) => (error instanceof ParentCommand ? Effect.die(error) : Effect.fail(error)))

/** The how manieth subgraph run of the task, or of the activity that runs it; the first one of a task has no mark. */
const ordinalOf = (scope: Scope): string => {
  const ordinal = scope.children++
  return ordinal === 0 && scope.scope === "" ? "" : `/${scope.scope}${ordinal}`
}

const requestOf = (
  task: TaskState,
  ordinal: string,
  topology: Topology,
  call: Call,
  options: NestedOptions,
  reader: Sink | undefined
): Request | undefined => {
  const { run } = task
  const persistence = options.persistence ?? "call"
  const stable = persistence === "thread"
  const segment = stable ? stableSegmentOf(task, ordinal, options.key) : segmentOf(task, ordinal)
  const namespace = within(stable ? stableNamespace(run.path) : run.namespace, segment)
  const place = [...run.place, { seq: run.seq, task: task.key }]
  const saves = persistence !== "none" && run.persistence !== undefined
  if (stable && saves && !claims(run.tree.remembering, namespace, place)) return undefined
  const progress = () => task.progress()
  const pin = run.tree.pins?.get(namespace)
  run.tree.pins?.delete(namespace)
  return {
    topology,
    tree: reader === undefined ? run.tree : { ...run.tree, sink: beside(run.tree.sink, reader, run.path.length + 1) },
    namespace,
    path: [...run.path, segment],
    parents: { ...run.parents, [run.namespace]: run.checkpointId },
    within: run,
    belongs:
      stable && pin === undefined
        ? ({ checkpoint }) => run.root.isPast(seqOfId(checkpoint.parents[""] ?? "") ?? 0)
        : undefined,
    saves,
    place,
    at: pin,
    call,
    onOpen: (nested) => {
      nested.onProgress = progress
    },
    // A task that runs for the first time has no saved subgraph runs of its own.
    mayBeSaved: stable || task.attempt > 1 || run.seq === run.loadedSeq,
    continues: (loaded: Loaded) =>
      pin !== undefined ||
      !stable ||
      (loaded.checkpoint.parents[run.namespace] === run.checkpointId && !mayBeOfAnother(task))
  }
}

/** Takes a namespace for a task; refused where another task of the same superstep, here or further out, has it. */
const claims = (remembering: Tree["remembering"], namespace: string, place: Run["place"]): boolean => {
  const holder = remembering.get(namespace) ?? place
  const i = place.findIndex(({ seq, task }, i) => holder[i]?.seq !== seq || holder[i].task !== task)
  if (i >= 0 && holder[i]?.seq === place[i]!.seq) return false
  remembering.set(namespace, place)
  return true
}

const claimed = ({ node, run: { step } }: TaskState) =>
  new InvalidUpdate({
    reason: "ConcurrentUpdate",
    node: node.name,
    step,
    detail:
      "two tasks of one superstep run the same subgraph that remembers; give each instance a key of its own, by the option key of the run or of the Send"
  })

/** Tells whether what was saved in this superstep may be of another task of the node, because nothing tells them apart. */
const mayBeOfAnother = (task: TaskState): boolean =>
  task.attempt === 1 &&
  !task.run.saved.get(task.key)?.rows.some(({ channel }) => channel !== ERROR) &&
  task.run.tasks.some(
    (other) => other !== task && other.node === task.node && other.send?.options?.key === task.send?.options?.key
  )

const MODES: Readonly<Record<GraphEvent["_tag"], "values" | "updates" | "custom" | "tasks" | "checkpoints">> = {
  Values: "values",
  Updates: "updates",
  ActivityEnded: "updates",
  Interrupted: "updates",
  Custom: "custom",
  TaskStarted: "tasks",
  TaskEnded: "tasks",
  Checkpointed: "checkpoints"
}

/** Tells a reader inside the node, as if the graph ran alone, what it asks for, and the run's own reader the rest. */
const beside = (outer: Sink | undefined, inner: Sink, depth: number): Sink => {
  const around = outer?.subgraphs ? outer : undefined
  const either = (mode: (typeof MODES)[GraphEvent["_tag"]]) => inner[mode] || (around?.[mode] ?? false)
  return {
    values: either("values"),
    updates: either("updates"),
    custom: either("custom"),
    tasks: either("tasks"),
    checkpoints: either("checkpoints"),
    subgraphs: true,
    push: (event) => {
      const { _tag, namespace } = event
      if (inner[MODES[_tag]] && (inner.subgraphs || namespace.length === depth)) {
        inner.push({ ...event, namespace: namespace.slice(depth) })
      }
      if (around?.[MODES[_tag]]) around.push(event)
    },
    room: () => {
      const [first, second] = [inner.room(), around?.room()]
      return first && second ? Effect.zipRight(first, second) : (first ?? second)
    }
  }
}

/** Names of the tasks that lead to a run, without what changes from run to run. */
const stableNamespace = (path: ReadonlyArray<string>) => path.map((segment) => segment.split(":")[0]).join("|")
