/**
 * A reference model of one superstep, written from the rules alone and for clarity, not speed. It shares no code with the
 * engine; `modelAlgo` lets it drive the engine in the place of `Algo`.
 */
import * as Either from "effect/Either"
import type { Algo, Applied, TaskPlan, TaskWrites, Write } from "effect-pregel/Algo"
import type { ChannelTable } from "effect-pregel/Channels"
import type { InvalidUpdate } from "effect-pregel/GraphError"
import type { Topology } from "effect-pregel/Topology"

// ---------------------------------------------------------------------------------------------------------------------
// channels
// ---------------------------------------------------------------------------------------------------------------------

export const NONE: unique symbol = Symbol("no value")

/** A channel: a state and what happens to it. */
export interface Cell {
  readonly kind: Kind
  value: unknown
  finished: boolean
}

export type Kind =
  | { readonly _tag: "last" }
  | { readonly _tag: "any" }
  | { readonly _tag: "flash"; readonly guard: boolean }
  | { readonly _tag: "topic" }
  | { readonly _tag: "fold"; readonly start: unknown; readonly step: (value: any, update: any) => unknown }
  | { readonly _tag: "barrier"; readonly names: ReadonlyArray<string>; readonly late: boolean }
  | { readonly _tag: "late" }

export const fresh = (kind: Kind): Cell => ({
  kind,
  value: kind._tag === "fold" ? kind.start : kind._tag === "topic" || kind._tag === "barrier" ? [] : NONE,
  finished: false
})

export const available = ({ finished, kind, value }: Cell): boolean => {
  switch (kind._tag) {
    case "topic":
      return (value as Array<unknown>).length > 0
    case "barrier":
      return kind.names.every((name) => (value as Array<unknown>).includes(name)) && (!kind.late || finished)
    case "late":
      return finished && value !== NONE
    default:
      return value !== NONE
  }
}

export class Refused extends Error {}

/** All writes of a superstep to one channel; true when it changed. */
export const update = (cell: Cell, values: ReadonlyArray<any>): boolean => {
  const { kind } = cell
  const before = cell.value
  const last = values[values.length - 1]
  switch (kind._tag) {
    case "topic":
      cell.value = values.flat(1)
      return (before as Array<unknown>).length > 0 || (cell.value as Array<unknown>).length > 0
    case "barrier": {
      const old = before as Array<string>
      const added = Array.from(new Set(values as ReadonlyArray<string>)).filter((name) => !old.includes(name))
      if (!values.every((name) => kind.names.includes(name))) throw new Refused()
      cell.value = [...old, ...added]
      return added.length > 0
    }
    case "any":
    case "flash":
      if (kind._tag === "flash" && kind.guard && values.length > 1) throw new Refused()
      cell.value = values.length === 0 ? NONE : last
      return values.length > 0 || before !== NONE
    default:
      if (values.length === 0) return false
  }
  if (kind._tag === "last" && values.length > 1) throw new Refused()
  if (kind._tag === "late") cell.finished = false
  cell.value =
    kind._tag === "fold" ? values.reduce((sum, next) => (sum === NONE ? next : kind.step(sum, next)), before) : last
  return true
}

/** A task that the channel triggered has run. */
export const consume = (cell: Cell): boolean => {
  if (cell.kind._tag !== "barrier" && cell.kind._tag !== "late") return false
  if (!available(cell)) return false
  cell.value = cell.kind._tag === "late" ? NONE : []
  cell.finished = false
  return true
}

/** Nothing else would run. */
export const finish = (cell: Cell): boolean => {
  const waits = cell.kind._tag === "late" || (cell.kind._tag === "barrier" && cell.kind.late)
  if (!waits || cell.finished || !available({ ...cell, finished: true })) return false
  cell.finished = true
  return true
}

// ---------------------------------------------------------------------------------------------------------------------
// the algorithm
// ---------------------------------------------------------------------------------------------------------------------

/** What the algorithm needs of a channel. */
export interface Port {
  readonly available: () => boolean
  readonly update: (values: ReadonlyArray<unknown>) => boolean
  readonly consume: () => boolean
  readonly finish: () => boolean
}

export interface Model {
  readonly channels: ReadonlyMap<string, Port>
  readonly versions: Map<string, number>
  readonly seen: Map<string, Map<string, number>>
  /** Trigger channels of each node. */
  readonly nodes: ReadonlyMap<string, ReadonlyArray<string>>
  /** The targets of packets that wait, in order. */
  readonly packets: () => ReadonlyArray<string>
  readonly quirks: Quirks
}

/** What LangGraph JS does otherwise. */
export interface Quirks {
  /** A task sees and consumes only the first of the triggers that fired. */
  readonly firstTriggerOnly?: boolean | undefined
  /** Deferred nodes do not wait for packets. */
  readonly packetsDoNotCount?: boolean | undefined
}

export const PACKETS = "__pregel_tasks"

export interface ModelTask {
  readonly node: string
  /** The packet's index, or `undefined` for a node that its triggers run. */
  readonly packet: number | undefined
  readonly writes: ReadonlyArray<readonly [channel: string, value: unknown]>
}

const versionOf = (model: Model, channel: string) => model.versions.get(channel) ?? 0

/** The triggers of a node that fire now. */
const firing = (model: Model, node: string): ReadonlyArray<string> => {
  const seen = model.seen.get(node)
  const fired = model.nodes
    .get(node)!
    .filter((channel) => model.channels.get(channel)!.available())
    .filter((channel) => versionOf(model, channel) > (seen?.get(channel) ?? 0))
  return model.quirks.firstTriggerOnly ? fired.slice(0, 1) : fired
}

/** Packets by index, then nodes by name; `updated` limits who is looked at. */
export const next = (
  model: Model,
  updated: ReadonlySet<string> | undefined
): ReadonlyArray<Pick<ModelTask, "node" | "packet">> => {
  const candidates = Array.from(model.nodes.keys())
    .filter((node) => updated === undefined || model.nodes.get(node)!.some((channel) => updated.has(channel)))
    .filter((node) => firing(model, node).length > 0)
  return [
    ...model.packets().map((node, packet) => ({ node, packet })),
    ...candidates.sort().map((node) => ({ node, packet: undefined }))
  ]
}

/** All writes of a superstep; the channels that changed and hold something. Throws `Refused`. */
export const apply = (
  model: Model,
  tasks: ReadonlyArray<ModelTask>,
  extra: ModelTask["writes"] = [],
  bump = tasks.length > 0
): { readonly updated: ReadonlySet<string>; readonly changed: ReadonlySet<string> } => {
  const version = Math.max(0, ...model.versions.values()) + 1
  const changed = new Set<string>()
  const updated = new Set<string>()
  const note = (name: string, has: boolean) => {
    if (!has) return
    changed.add(name)
    model.versions.set(name, version)
    if (model.channels.get(name)!.available()) updated.add(name)
  }
  const sorted = tasks.slice().sort((a, b) => {
    const [i, j] = [a.packet ?? -1, b.packet ?? -1]
    return i !== j ? i - j : a.node < b.node ? -1 : a.node > b.node ? 1 : 0
  })
  const triggers = new Set<string>()
  for (const { node, packet } of sorted) {
    const mine =
      packet !== undefined ? [] : model.quirks.firstTriggerOnly ? firing(model, node) : model.nodes.get(node)!
    const seen = model.seen.get(node) ?? new Map<string, number>()
    if (mine.length > 0) model.seen.set(node, seen)
    for (const channel of mine) {
      if (model.versions.has(channel)) seen.set(channel, versionOf(model, channel))
      triggers.add(channel)
    }
  }
  for (const channel of triggers) {
    if (!model.channels.get(channel)!.consume()) continue
    changed.add(channel)
    model.versions.set(channel, version)
  }
  const writes = [...extra, ...sorted.flatMap((task) => task.writes)]
  const written = new Map<string, Array<unknown>>()
  for (const [channel, value] of writes) written.set(channel, [...(written.get(channel) ?? []), value])
  for (const [channel, values] of written) note(channel, model.channels.get(channel)!.update(values))
  if (bump) {
    for (const [name, channel] of model.channels) {
      if (channel.available() && !updated.has(name)) note(name, channel.update([]))
    }
    const leads = (name: string) =>
      name === PACKETS
        ? !model.quirks.packetsDoNotCount
        : Array.from(model.nodes.values()).some((t) => t.includes(name))
    if (!Array.from(updated).some(leads)) for (const [name, channel] of model.channels) note(name, channel.finish())
  }
  return { updated, changed }
}

// ---------------------------------------------------------------------------------------------------------------------
// in the engine
// ---------------------------------------------------------------------------------------------------------------------

const modelOf = (topology: Topology, table: ChannelTable, seen: Map<number, Map<number, number>>, quirks: Quirks) => {
  const name = (id: number) => table.specs[id]!.name
  let refusal: InvalidUpdate | undefined
  const port = (id: number): Port => ({
    available: () => table.isAvailable(id),
    update: (values) => {
      const result = table.update(id, values)
      if (Either.isRight(result)) return result.right
      refusal ??= result.left
      throw new Refused()
    },
    consume: () => table.cell(id).consume(),
    finish: () => table.cell(id).finish()
  })
  const known = Array.from(seen, ([node, channels]) => {
    const versions = Array.from(channels, ([channel, version]) => [name(channel), version] as const)
    return [topology.nodes[node]!.name, new Map(versions)] as const
  })
  const versions = table.specs.map(({ id }) => [name(id), table.versionOf(id)] as const)
  const model: Model = {
    channels: new Map(table.specs.map(({ id }) => [name(id), port(id)])),
    versions: new Map([...versions.filter(([, version]) => version > 0), ["", table.version]]),
    seen: new Map(known),
    nodes: new Map(topology.nodes.map((node) => [node.name, node.triggers.map(name)])),
    packets: () => {
      const packets = table.get(topology.sends)
      return Array.isArray(packets) ? packets.map((send) => send.node) : []
    },
    quirks
  }
  return { model, refusal: () => refusal }
}

const applyInEngine =
  (quirks: Quirks) =>
  (
    topology: Topology,
    table: ChannelTable,
    seen: Map<number, Map<number, number>>,
    tasks: ReadonlyArray<TaskWrites>,
    extra: ReadonlyArray<Write> = [],
    bump = tasks.length > 0
  ): Either.Either<Applied, InvalidUpdate> => {
    const { model, refusal } = modelOf(topology, table, seen, quirks)
    const pairs = (writes: ReadonlyArray<Write>) => writes.map((w) => [table.specs[w.channel]!.name, w.value] as const)
    const modelTasks = tasks.map(({ index, node, writes }) => ({
      node: node.name,
      packet: index < 0 ? undefined : index,
      writes: pairs(writes)
    }))
    try {
      const { changed, updated } = apply(model, modelTasks, pairs(extra), bump)
      const id = (channel: string) => topology.channelIds.get(channel)!
      for (const channel of changed) table.touch(id(channel), model.versions.get(channel)!)
      for (const [node, channels] of model.seen) {
        seen.set(topology.nodeIds.get(node)!, new Map(Array.from(channels, ([c, version]) => [id(c), version])))
      }
      const order = tasks.slice().sort((a, b) => a.index - b.index || (a.node.name < b.node.name ? -1 : 1))
      const all = [...extra, ...order.flatMap(({ writes }) => writes)]
      const writesTo = (channel: number) => all.filter((write) => write.channel === channel)
      return Either.right({
        updated: Array.from(updated, id),
        changed: new Map(Array.from(changed, (channel) => [id(channel), writesTo(id(channel))]))
      })
    } catch (error) {
      if (error instanceof Refused) return Either.left(refusal()!)
      throw error
    }
  }

/** The model in the place of the engine's algorithm; what the model does not speak of is the given one's. */
export const modelAlgo = (base: Algo.Service, quirks: Quirks = {}): Algo.Service => {
  const applyWrites = applyInEngine(quirks)
  return {
    ...base,
    prepareNextTasks: (topology, table, seen, updated): ReadonlyArray<TaskPlan> => {
      const { model } = modelOf(topology, table, seen, quirks)
      const names = updated && new Set(Array.from(updated, (id) => table.specs[id]!.name))
      const sends = table.get(topology.sends) as ReadonlyArray<any>
      return next(model, names).map(({ node, packet }) => ({
        node: topology.nodes[topology.nodeIds.get(node)!]!,
        send: packet === undefined ? undefined : sends[packet],
        index: packet ?? -1
      }))
    },
    applyWrites: (topology, table, seen, tasks, extra) => applyWrites(topology, table, seen, tasks, extra),
    applyUpdate: (topology, table, seen, writes) => applyWrites(topology, table, seen, [], writes, true)
  }
}
