/**
 * Writing to a saved state without running nodes (`semantics.md` 7.3): updates count as what nodes returned, and make a
 * checkpoint.
 */
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Runtime from "effect/Runtime"
import { type TaskPlan, taskOrder } from "./Algo.js"
import { finish } from "./Attempt.js"
import { type Change, type ChannelEntry, INTERRUPT, makeId, seqOfId } from "./Checkpoint.js"
import type { Checkpointer, Loaded } from "./Checkpointer.js"
import { END } from "./Command.js"
import { inputWrite } from "./Entry.js"
import { AmbiguousUpdate, EmptyInput, InvalidUpdate, UnknownNode } from "./GraphError.js"
import { Mirror } from "./Journal.js"
import { applySaved, finishedTasks, open, plan, type Request } from "./Load.js"
import type { Run } from "./Run.js"
import { savedQuestions, TaskState } from "./TaskState.js"
import type { Node, Topology } from "./Topology.js"

type Service = Context.Tag.Service<typeof Checkpointer>

/** What a node is taken to have returned; `as` is the node. */
export interface Update {
  readonly update: unknown
  readonly as?: string | undefined
}

/** Counts as a run's input instead of a node's result. */
export const INPUT = "__input__"

const isNothing = (update: unknown) => update === null || update === undefined

const refused = (detail: string) => new InvalidUpdate({ reason: "InvalidReturn", node: "update", detail })

/** What is wrong with a list of supersteps, before any of them is applied. */
export const problemOf = (
  { topology, tree }: Request,
  supersteps: ReadonlyArray<ReadonlyArray<Update>>
): InvalidUpdate | EmptyInput | AmbiguousUpdate | UnknownNode | undefined => {
  const empty = (detail: string) => new EmptyInput({ graph: topology.identity.name, thread: tree.thread, detail })
  if (supersteps.length === 0) return empty("there is no superstep to apply")
  for (const updates of supersteps) {
    if (updates.length === 0) return empty("a superstep has no updates")
    for (const { as, update } of updates) {
      const alone = as === INPUT || (as === END && isNothing(update))
      if (alone && updates.length > 1) return refused(`an update as "${as}" must be the only one of its superstep`)
      if (as === INPUT && isNothing(update)) return empty("the input is empty")
      if (as !== undefined && !alone && !topology.nodeIds.has(as)) {
        return new UnknownNode({ node: as, from: "update", reason: "NotInGraph" })
      }
    }
    if (updates.length > 1 && updates.some(({ as }) => as === undefined)) {
      return new AmbiguousUpdate({ thread: tree.thread!, candidates: nodesOf(topology) })
    }
  }
  return undefined
}

const nodesOf = ({ nodeIds, nodes }: Topology) =>
  Array.from(nodeIds)
    .filter(([, id]) => !nodes[id]!.hidden)
    .map(([name]) => name)

/** The node that an update counts as: the one that is named, the only one, or the last one that ran. */
const nodeOf = (run: Run, as: string | undefined): Either.Either<Node, AmbiguousUpdate | UnknownNode> => {
  const { topology, tree } = run
  const users = nodesOf(topology)
  const entry = topology.nodes[topology.entry]!.name
  const name = as ?? (users.length === 1 ? users[0]! : run.ran.length === 0 ? entry : run.ran[0]!)
  if (as === undefined && users.length > 1 && run.ran.length > 1) {
    return Either.left(new AmbiguousUpdate({ thread: tree.thread!, candidates: run.ran }))
  }
  const id = topology.nodeIds.get(name)
  return id === undefined
    ? Either.left(new UnknownNode({ node: name, from: "update", reason: "NotInGraph" }))
    : Either.right(topology.nodes[id]!)
}

/** Applies the updates of one superstep to a loaded checkpoint; yields the id of the new one. */
export const apply = Effect.fnUntraced(function* (
  request: Request,
  loaded: Loaded | undefined,
  updates: ReadonlyArray<Update>
) {
  const runtime = yield* Effect.runtime<any>() as Effect.Effect<Runtime.Runtime<any>>
  const { run } = yield* open({ ...request, loaded }, runtime)
  const first = updates[0]!
  if (loaded === undefined && first.as !== INPUT) run.step = 0
  yield* applySaved(run)
  plan(run)
  if (first.as === INPUT) yield* applyInput(run, first.update)
  else if (first.as === END) yield* clear(run)
  else yield* applyAs(run, updates, request.at === undefined)
  return run.checkpointId
})

const status = (run: Run) => (run.namespace === "" ? ("idle" as const) : undefined)

/** The run's input is written, and nothing runs; what was pending stays pending. */
const applyInput = Effect.fnUntraced(function* (run: Run, value: unknown) {
  const write = yield* inputWrite(run, value)
  run.journal!.record(yield* run.algo.applyWrites(run.topology, run.channels, run.seen, [], [write]))
  yield* run.persistence!.commit({ source: "input", ran: run.ran, results: [], status: status(run) })
})

/** Nothing is pending any more; what had finished of the superstep is applied. */
const clear = Effect.fnUntraced(function* (run: Run) {
  const finished = yield* finishedTasks(run)
  const same = (a: TaskPlan) => (b: TaskPlan) => a.node === b.node && a.index === b.index
  const waiting = run.next.filter((task) => !finished.some(same(task)))
  const done = [...finished, ...waiting.map((task) => ({ ...task, writes: [] }))]
  run.journal!.record(yield* run.algo.applyWrites(run.topology, run.channels, run.seen, done))
  yield* run.persistence!.commit({ source: "update", ran: run.ran, results: [], status: status(run) })
})

const applyAs = Effect.fnUntraced(function* (run: Run, updates: ReadonlyArray<Update>, atHead: boolean) {
  const finished = yield* finishedTasks(run)
  const waiting = run.next.slice()
  const tasks: Array<TaskState> = []
  for (const { as } of updates) {
    const node = yield* nodeOf(run, as)
    const at = waiting.findIndex((task) => task.node === node)
    const [planned] = at < 0 ? [] : waiting.splice(at, 1)
    tasks.push(new TaskState(run, planned ?? { node, send: undefined, index: -1 }, undefined))
  }
  // The state that the head shows, also to routers, contains what its finished tasks wrote; an old checkpoint's does not.
  if (atHead && finished.length > 0) {
    run.journal!.record(yield* run.algo.applyWrites(run.topology, run.channels, run.seen, finished))
  }
  for (let i = 0; i < tasks.length; i++) yield* finish(tasks[i]!, updates[i]!.update) as Effect.Effect<void, any>
  tasks.sort(taskOrder)
  run.journal!.record(yield* applyTasks(run, tasks))
  const ran = Array.from(new Set(tasks.map(({ node }) => node.name)))
  const results = tasks.map((task) => ({ task: task.key, writes: resultOf(run, task) }))
  yield* run.persistence!.commit({ source: "update", ran, results, status: status(run) })
})

/** Updates as tasks that wait have run those: their triggers are consumed. The others ran nothing. */
const applyTasks = (run: Run, tasks: ReadonlyArray<TaskState>) => {
  const { algo, channels, seen, topology } = run
  const waited = tasks.filter((task) => run.next.some(({ index, node }) => node === task.node && index === task.index))
  if (waited.length === 0) {
    return algo.applyUpdate(
      topology,
      channels,
      seen,
      tasks.flatMap((task) => task.writes)
    )
  }
  const others = tasks.filter((task) => !waited.includes(task)).flatMap((task) => task.writes)
  return algo.applyWrites(topology, channels, seen, waited, others)
}

/** What the history shows as the node's result. */
const resultOf = (run: Run, task: TaskState) =>
  task.writes.flatMap(({ channel, encoded }) => {
    const spec = run.topology.channels[channel]!
    return spec.isState && encoded !== undefined ? [[spec.name, encoded.text ?? "null"] as const] : []
  })

// ---------------------------------------------------------------------------------------------------------------------
// copies
// ---------------------------------------------------------------------------------------------------------------------

/** Makes a sibling of a checkpoint: the same state, no pending writes, the original's parent. Yields its id. */
export const copy = Effect.fnUntraced(function* (request: Request, storage: Service, loaded: Loaded) {
  const { checkpoint, head } = loaded
  const { fence, runId, thread } = request.tree
  const address = { thread: thread!, namespace: request.namespace }
  const parent = checkpoint.parent && (yield* storage.load(address, checkpoint.parent.id))
  const created = yield* Clock.currentTimeMillis
  const seq = head + 1
  const { channels, graph, metadata, parents, ran, resumedAt, seen, version } = checkpoint
  const mirror = new Mirror(channels)
  yield* storage.commit({
    address,
    expectedHead: head,
    seq,
    parent: parent && { seq: parent.checkpoint.seq, id: parent.checkpoint.id },
    lineage: parent?.lineage,
    step: checkpoint.step + 1,
    source: "fork",
    created,
    version,
    resumedAt,
    changes: changesBetween(parent?.checkpoint.channels ?? [], channels),
    whole: () => mirror.whole(),
    seen,
    ran,
    results: [],
    graph,
    parents,
    metadata: fence === undefined ? metadata : { ...metadata, run_id: runId },
    status: request.namespace === "" ? "idle" : undefined,
    fence
  })
  return makeId(seq, created)
})

const changesBetween = (
  before: ReadonlyArray<ChannelEntry>,
  after: ReadonlyArray<ChannelEntry>
): ReadonlyArray<Change> => {
  const known = new Map(before.map((entry) => [entry.name, entry]))
  const changes: Array<Change> = []
  for (const entry of new Mirror(after).whole()) {
    const { channel, version } = entry
    const old = known.get(channel)
    known.delete(channel)
    if (old?.version === version) continue
    if (!entry.append) {
      changes.push({ _tag: "Set", channel, version, text: entry.text })
      continue
    }
    const items = after.find(({ name }) => name === channel)!.value as ReadonlyArray<unknown>
    const texts = items.map((item) => JSON.stringify(item))
    changes.push({ _tag: "Append", channel, version, reset: old !== undefined, items: texts, length: texts.length })
  }
  for (const channel of known.keys()) changes.push({ _tag: "Drop", channel })
  return changes
}

// ---------------------------------------------------------------------------------------------------------------------
// subgraphs
// ---------------------------------------------------------------------------------------------------------------------

/**
 * Takes back the questions that a subgraph's tasks had asked, from the tasks around it: its state is another one now,
 * and it runs again on the next resume. What it has asked at the updated checkpoint stays.
 */
export const withdraw = Effect.fnUntraced(function* (
  { namespace, path, tree }: Request,
  storage: Service,
  loaded: Loaded,
  updated: string
) {
  const isOurs = ({ id, namespace: at }: { readonly id: string; readonly namespace: ReadonlyArray<string> }) =>
    (id.startsWith(`${namespace}|`) || path.every((segment, i) => at[i] === segment)) && !id.includes(updated)
  for (const [around, id] of Object.entries(loaded.checkpoint.parents)) {
    const address = { thread: tree.thread!, namespace: around }
    const parent = yield* storage.load(address, id)
    const rows = (parent?.writes ?? []).flatMap((row) => {
      if (row.channel !== INTERRUPT) return []
      const kept = savedQuestions(row.value).filter((question) => !isOurs(question))
      return [{ ...row, value: JSON.stringify(kept) }]
    })
    const isHead = parent?.head === parent?.checkpoint.seq
    if (isHead && rows.length > 0) yield* storage.putWrites(address, seqOfId(id)!, rows, tree.fence)
  }
})
