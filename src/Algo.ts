/**
 * The semantics of one superstep, as plain total functions over values: no IO, clock, random or Effect.
 *
 * A superstep: `prepareNextTasks` says who runs, the tasks run and leave writes, `applyWrites` applies all writes at
 * once. Invariants:
 *
 * 1. Writes are folded in (task order, write order): pull tasks by node name, then push tasks by packet index; so the
 *    result never depends on which task finished first.
 * 2. One version is given to every channel that an `applyWrites` changes, greater than all before.
 * 3. A node runs when one of its trigger channels is available and newer than what the node has seen. An empty trigger
 *    can't fire, and a rewritten one is always newer; so "seen" is kept only for triggers that stay available.
 * 4. What a step costs depends on what it touches, never on idle nodes, idle channels or earlier steps.
 */
import * as Context from "effect/Context"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import { MISSING } from "./Channel.js"
import type { ChannelTable } from "./Channels.js"
import type * as Codec from "./Codec.js"
import type { InvalidUpdate } from "./GraphError.js"
import { added } from "./internal/list.js"
import * as View from "./internal/view.js"
import type { Send } from "./Send.js"
import type { Node, Topology } from "./Topology.js"

/** One value written to one channel, with its encoded form where the run is saved. */
export interface Write {
  readonly channel: number
  readonly value: unknown
  readonly encoded: Codec.Encoded | undefined
}

/** A node that runs in the coming superstep: triggered by channels (`pull`) or by a `Send` (`push`). */
export interface TaskPlan {
  readonly node: Node
  readonly send: Send | undefined
  /** The packet's index for a push task, `-1` for a pull task. Only pull tasks see and consume triggers. */
  readonly index: number
}

/** What of a task matters when its writes are applied. */
export interface TaskWrites extends TaskPlan {
  readonly writes: ReadonlyArray<Write>
}

/** Versions of trigger channels that nodes have run on: node id to channel id to version. */
export type Seen = Map<number, Map<number, number>>

/** What an `applyWrites` did. */
export interface Applied {
  /** Channels that changed and are available: who runs next depends on them alone. */
  readonly updated: ReadonlyArray<number>
  /** Every channel that changed, with the writes it got in the order they were folded. */
  readonly changed: ReadonlyMap<number, ReadonlyArray<Write>>
}

const NO_WRITES: ReadonlyArray<Write> = []

/** The order in which tasks' writes are folded. */
export const taskOrder = (a: TaskPlan, b: TaskPlan): number =>
  a.index === b.index ? a.node.rank - b.node.rank : a.index - b.index

/** Tells whether a trigger of the node is available and newer than what the node has run on. */
export const isTriggered = (node: Node, channels: ChannelTable, seen: Seen): boolean => {
  const known = seen.get(node.id)
  for (const trigger of node.triggers) {
    if (!channels.isAvailable(trigger)) continue
    if (known === undefined || channels.versionOf(trigger) > (known.get(trigger) ?? 0)) return true
  }
  return false
}

/**
 * The tasks of the coming superstep (`semantics.md` 2.5): sends by index, then triggered nodes by name.
 *
 * `updated` are the channels that the last superstep updated; without it every channel that holds a value is looked at.
 */
export const prepareNextTasks = (
  topology: Topology,
  channels: ChannelTable,
  seen: Seen,
  updated: Iterable<number> | undefined
): ReadonlyArray<TaskPlan> => {
  const sends = channels.get(topology.sends)
  const pushed = sends === MISSING ? NO_TASKS : pushTasks(topology, sends as ReadonlyArray<Send>)
  const pulled = pullTasks(topology, channels, seen, subscribers(channels, updated ?? channels.live))
  return pushed.length === 0 ? pulled : pushed.concat(pulled)
}

const NO_TASKS: Array<TaskPlan> = []

const pushTasks = (topology: Topology, sends: ReadonlyArray<Send>): Array<TaskPlan> => {
  const tasks: Array<TaskPlan> = []
  for (let index = 0; index < sends.length; index++) {
    const send = sends[index]!
    const node = topology.nodeIds.get(send.node)
    if (node !== undefined) tasks.push({ node: topology.nodes[node]!, send, index })
  }
  return tasks
}

const pullTasks = (
  topology: Topology,
  channels: ChannelTable,
  seen: Seen,
  candidates: Iterable<number>
): Array<TaskPlan> => {
  let pulled = NO_TASKS
  for (const id of candidates) {
    const node = topology.nodes[id]!
    if (isTriggered(node, channels, seen)) pulled = added(pulled, { node, send: undefined, index: -1 })
  }
  if (pulled.length > 1) pulled.sort(taskOrder)
  return pulled
}

const NO_NODES: ReadonlyArray<number> = []

/** The nodes that subscribe to any of the channels, each once; mostly those of one channel. */
const subscribers = (channels: ChannelTable, updated: Iterable<number>): Iterable<number> => {
  let first = NO_NODES
  let all: Set<number> | undefined
  for (const channel of updated) {
    const nodes = channels.specs[channel]!.subscribers
    if (first.length === 0) {
      first = nodes
    } else if (nodes.length > 0) {
      all ??= new Set(first)
      for (const node of nodes) all.add(node)
    }
  }
  return all ?? first
}

/**
 * Applies all writes of a superstep at once, in the nine phases of `semantics.md` 2.4.
 *
 * Fails with `InvalidUpdate` when a channel can't take its writes; the table is then half changed and must be dropped.
 */
export const applyWrites = (
  topology: Topology,
  channels: ChannelTable,
  seen: Seen,
  tasks: ReadonlyArray<TaskWrites>,
  nullWrites: ReadonlyArray<Write> = NO_WRITES
): Either.Either<Applied, InvalidUpdate> => {
  // 1, 2: the order of folding; writes that are no node's own come first and alone never end a superstep.
  const sorted = tasks.length > 1 ? tasks.slice().sort(taskOrder) : tasks
  return fold(topology, channels, seen, sorted, nullWrites, tasks.length > 0)
}

/** Applies an update of the state: it ends a superstep, but no node has run and no trigger is consumed. */
export const applyUpdate = (
  topology: Topology,
  channels: ChannelTable,
  seen: Seen,
  writes: ReadonlyArray<Write>
): Either.Either<Applied, InvalidUpdate> => fold(topology, channels, seen, [], writes, true)

const fold = (
  topology: Topology,
  channels: ChannelTable,
  seen: Seen,
  tasks: ReadonlyArray<TaskWrites>,
  nullWrites: ReadonlyArray<Write>,
  bump: boolean
): Either.Either<Applied, InvalidUpdate> => {
  markSeen(channels, seen, tasks)
  const version = channels.version + 1
  const changed = new Map<number, ReadonlyArray<Write>>()
  let updated = NO_CHANNELS

  // 5: triggers that a task ran on are consumed.
  for (const task of tasks) {
    if (task.index >= 0) continue
    for (const trigger of task.node.triggers) {
      if (channels.cell(trigger).consume()) {
        channels.touch(trigger, version)
        changed.set(trigger, NO_WRITES)
      }
    }
  }

  // 6, 7: each written channel takes all of its values in one update.
  const groups = groupWrites(tasks, nullWrites)
  for (const [channel, writes] of groups) {
    const result = channels.update(channel, writes.length === 1 ? [writes[0]!.value] : writes.map(valueOf))
    if (Either.isLeft(result)) return Either.left(result.left)
    if (!result.right) continue
    channels.touch(channel, version)
    changed.set(channel, writes)
    if (channels.isAvailable(channel)) updated = added(updated, channel)
  }
  if (!bump) return Either.right({ updated, changed })

  // 8: what lives for one superstep and was not rewritten is cleared.
  for (const channel of channels.transients) {
    if (groups.has(channel)) continue
    const result = channels.update(channel, [])
    if (Either.isRight(result) && result.right) {
      channels.touch(channel, version)
      changed.set(channel, NO_WRITES)
    }
  }

  // 9: nothing would run next, so channels that wait for the end become available.
  if (channels.finishing.size > 0 && !updated.some((id) => triggersSomething(topology, channels, id))) {
    for (const channel of Array.from(channels.finishing)) {
      if (!channels.cell(channel).finish()) continue
      channels.touch(channel, version)
      changed.set(channel, changed.get(channel) ?? NO_WRITES)
      if (channels.isAvailable(channel)) updated = added(updated, channel)
    }
  }
  return Either.right({ updated, changed })
}

const NO_CHANNELS: Array<number> = []

const valueOf = (write: Write): unknown => write.value

const triggersSomething = (topology: Topology, channels: ChannelTable, id: number): boolean =>
  id === topology.sends || channels.specs[id]!.subscribers.length > 0

/** 3: a node has now seen its triggers; only those that stay available need remembering. */
const markSeen = (channels: ChannelTable, seen: Seen, tasks: ReadonlyArray<TaskWrites>): void => {
  for (const { index, node } of tasks) {
    if (index >= 0) continue
    for (const trigger of node.triggers) {
      const spec = channels.specs[trigger]!
      if (!spec.isState) continue
      let known = seen.get(node.id)
      if (known === undefined) seen.set(node.id, (known = new Map()))
      known.set(trigger, channels.versionOf(trigger))
    }
  }
}

const groupWrites = (
  tasks: ReadonlyArray<TaskWrites>,
  nullWrites: ReadonlyArray<Write>
): Map<number, ReadonlyArray<Write>> => {
  const groups = new Map<number, Array<Write>>()
  const add = (write: Write) => {
    const group = groups.get(write.channel)
    if (group === undefined) groups.set(write.channel, [write])
    else group.push(write)
  }
  for (const write of nullWrites) add(write)
  for (const task of tasks) for (const write of task.writes) add(write)
  return groups
}

/**
 * Tells whether a static breakpoint stops the run (`semantics.md` 2.2): something changed since the last resume, and
 * one of the tasks' nodes is listed. `"*"` lists every node but the engine's own.
 */
export const shouldInterrupt = (
  version: number,
  resumedAt: number,
  nodes: ReadonlySet<string> | "*",
  tasks: ReadonlyArray<TaskPlan>
): boolean => version > resumedAt && tasks.some(({ node }) => (nodes === "*" ? !node.hidden : nodes.has(node.name)))

/**
 * The state as a task sees it after its own writes (`semantics.md` 2.3): channels it wrote are read from clones with
 * only its writes applied, one-superstep channels it did not write are absent, siblings' writes never show.
 */
export const localRead = (
  channels: ChannelTable,
  reads: ReadonlyArray<number>,
  writes: ReadonlyArray<Write>
): Either.Either<Record<string, unknown>, InvalidUpdate> => {
  if (reads.length >= View.WIDE) return localView(channels, reads, writes)
  const state: Record<string, unknown> = {}
  for (const id of reads) {
    const spec = channels.specs[id]!
    let own = NO_VALUES
    for (const { channel, value } of writes) if (channel === id) own = added(own, value)
    let value: unknown
    if (own.length > 0) {
      const result = withOwn(channels, id, own)
      if (Either.isLeft(result)) return Either.left(result.left)
      value = result.right
    } else {
      value = spec.transient ? MISSING : channels.get(id)
    }
    if (value !== MISSING) state[spec.name] = value
  }
  return Either.right(state)
}

const NO_VALUES: Array<unknown> = []

/** The value that a channel would have after these updates alone. */
const withOwn = (
  channels: ChannelTable,
  id: number,
  own: ReadonlyArray<unknown>
): Either.Either<unknown, InvalidUpdate> => {
  const clone = channels.cell(id).clone()
  return Either.map(clone.update(own), () => clone.get())
}

/** `localRead` of many channels: only those that were written are looked at. */
const localView = (
  channels: ChannelTable,
  reads: ReadonlyArray<number>,
  writes: ReadonlyArray<Write>
): Either.Either<Record<string, unknown>, InvalidUpdate> => {
  const shape = channels.shapeOf(reads)
  const own = new Map<number, unknown>()
  for (const id of channels.transients) if (id < shape.length) own.set(id, MISSING)
  for (const [id, group] of groupWrites([], writes)) {
    if (id >= shape.length) continue
    const result = withOwn(channels, id, group.map(valueOf))
    if (Either.isLeft(result)) return Either.left(result.left)
    own.set(id, result.right)
  }
  return Either.right(View.make(shape, channels.valuesOf(shape), own))
}

/**
 * The algorithm as a service: the functions of this module by default, replaceable by a layer in a test harness (a
 * recording one, a reference model, a mutant).
 */
export class Algo extends Context.Reference<Algo>()("effect-pregel/Algo", {
  defaultValue: (): Algo.Service => ({ prepareNextTasks, applyWrites, applyUpdate, shouldInterrupt, localRead })
}) {}

export declare namespace Algo {
  /** The functions of one superstep. */
  export interface Service {
    readonly prepareNextTasks: typeof prepareNextTasks
    readonly applyWrites: typeof applyWrites
    readonly applyUpdate: typeof applyUpdate
    readonly shouldInterrupt: typeof shouldInterrupt
    readonly localRead: typeof localRead
  }
}

/** Runs graphs on another implementation of the algorithm. */
export const layer = (service: Algo.Service): Layer.Layer<never> => Layer.succeed(Algo, service) as Layer.Layer<never>
