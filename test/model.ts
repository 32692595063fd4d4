/**
 * A reference model of one superstep, written from the rules alone and for clarity, not speed. It shares no code with the
 * engine; `modelAlgo.ts` lets it drive the engine in the place of `Algo`.
 */

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
