/**
 * The events of a run, built only when somebody listens (`semantics.md` 8.1, 8.2).
 */
import * as Cause from "effect/Cause"
import type { Source } from "./Checkpoint.js"
import type { Run } from "./Run.js"
import type { TaskState } from "./TaskState.js"
import type { Topology } from "./Topology.js"

const SENDS_TRIGGER = "__pregel_push"

/** The state channels a task wrote: one record, or a list of one-channel records where a channel repeats. */
const updateOf = (topology: Topology, task: TaskState): unknown => {
  const update: Record<string, unknown> = {}
  let empty = true
  for (const { channel, value } of task.writes) {
    const { isState, name } = topology.channels[channel]!
    if (!isState) continue
    if (Object.hasOwn(update, name)) return updatesOf(topology, task)
    update[name] = value
    empty = false
  }
  return empty ? null : update
}

const updatesOf = (topology: Topology, task: TaskState): ReadonlyArray<unknown> =>
  task.writes
    .filter(({ channel }) => topology.channels[channel]!.isState)
    .map(({ channel, value }) => ({ [topology.channels[channel]!.name]: value }))

/** What a task wrote by channel; several writes to one channel become `{ $writes }`. */
export const resultOf = (topology: Topology, task: Pick<TaskState, "writes">): Record<string, unknown> => {
  const byName = new Map<string, Array<unknown>>()
  for (const { channel, value } of task.writes) {
    const spec = topology.channels[channel]!
    if (!spec.isState) continue
    const values = byName.get(spec.name)
    if (values === undefined) byName.set(spec.name, [value])
    else values.push(value)
  }
  return Object.fromEntries(
    Array.from(byName, ([name, values]) => [name, values.length === 1 ? values[0] : { $writes: values }])
  )
}

const updates = (run: Run, task: TaskState, cached: boolean): void =>
  run.push({
    _tag: "Updates",
    namespace: run.path,
    step: run.step,
    node: task.node.name,
    task: task.id,
    update: updateOf(run.topology, task),
    cached
  })

/** A task is about to run, or was restored. */
export const started = (run: Run, task: TaskState): void => {
  if (run.sink === undefined || !run.sink.tasks || task.node.hidden) return
  run.push({
    _tag: "TaskStarted",
    namespace: run.path,
    step: run.step,
    id: task.id,
    node: task.node.name,
    input: task.input,
    triggers:
      task.index >= 0 ? [SENDS_TRIGGER] : task.node.triggers.map((trigger) => run.topology.channels[trigger]!.name)
  })
}

/** A task's writes were restored from an earlier attempt, or reused. */
export const restored = (run: Run, task: TaskState): void => {
  if (run.sink?.updates && !task.node.hidden) updates(run, task, true)
}

/** A task ended. */
export const ended = (run: Run, task: TaskState): void => {
  const { sink } = run
  if (sink === undefined || task.node.hidden) return
  if (sink.updates && task.status === "done") updates(run, task, false)
  if (task.status === "paused" && task.asked.length > 0) paused(run, task)
  if (!sink.tasks) return
  run.push({
    _tag: "TaskEnded",
    namespace: run.path,
    step: run.step,
    id: task.id,
    node: task.node.name,
    result: task.status === "done" ? resultOf(run.topology, task) : undefined,
    error: task.failure === undefined ? undefined : Cause.pretty(task.failure),
    interrupts: task.asked
  })
}

const paused = (run: Run, task: TaskState): void => {
  const { sink } = run
  if (sink!.updates) {
    run.push({ _tag: "Interrupted", namespace: run.path, step: run.step, interrupts: task.asked })
  }
  values(run)
}

/** A static breakpoint stopped the run: told by the root, wherever in its subgraphs the breakpoint is. */
export const stopped = (run: Run): void => {
  if (run.path.length === 0 && run.sink?.updates)
    run.push({ _tag: "Interrupted", namespace: run.path, step: run.step, interrupts: [] })
}

/** The state as it is now. */
export const values = (run: Run): void => {
  if (run.sink?.values) run.push({ _tag: "Values", namespace: run.path, step: run.step, state: run.output() })
}

/** The checkpoint that the coming superstep starts from. */
export const checkpointed = (run: Run, source: Source): void => {
  if (!run.sink?.checkpoints || run.persistence === undefined) return
  run.push({
    _tag: "Checkpointed",
    namespace: run.path,
    step: run.step - 1,
    checkpoint: { id: run.checkpointId, parent: run.persistence.parentOfCurrent, source, created: run.created },
    metadata: run.tree.metadata,
    state: run.channels.copy(run.topology.state),
    next: run.next.map(({ node }) => node.name)
  })
}
