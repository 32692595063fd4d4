/**
 * The live channels of one run.
 *
 * Cells are made when they are first touched, so a run costs nothing for channels that stay idle. A channel has a
 * version once it was updated: the run-wide number of the last update that changed it. Versions alone say which nodes
 * run next.
 */
import * as Context from "effect/Context"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Cell from "./Cell.js"
import * as Channel from "./Channel.js"
import * as Codec from "./Codec.js"
import { EmptyChannel, type InvalidUpdate } from "./GraphError.js"
import * as View from "./internal/view.js"
import type { ChannelSpec } from "./Topology.js"

/** A saved channel, decoded: what `make` restores a cell from. */
export interface Snapshot {
  readonly id: number
  readonly version: number
  readonly value: unknown
}

const NONE: ReadonlySet<number> = new Set()

/** The live channels of one run, by number. */
export class ChannelTable {
  private readonly cells: Array<Cell.Cell | undefined>
  private readonly versions: Array<number>
  /** The highest version given so far. */
  version = 0
  /** Channels that hold something worth saving. */
  readonly live = new Set<number>()
  /** Available channels that an empty update would clear. */
  readonly transients = new Set<number>()
  private unfinished: Set<number> | undefined
  /** Values by number as they were when a wide record was last read, and the channels that changed since then. */
  private values: ReadonlyArray<unknown> | undefined
  private readonly stale = new Set<number>()

  constructor(
    readonly specs: ReadonlyArray<ChannelSpec>,
    snapshots: Iterable<Snapshot> = []
  ) {
    this.cells = new Array(specs.length)
    this.versions = new Array(specs.length)
    for (const { id, version, value } of snapshots) {
      this.cells[id] = Cell.make(specs[id]!.name, specs[id]!.channel, value)
      this.versions[id] = version
      if (version > this.version) this.version = version
      this.track(id)
    }
  }

  /** Channels that `finish` may make available. */
  get finishing(): ReadonlySet<number> {
    return this.unfinished ?? NONE
  }

  cell(id: number): Cell.Cell {
    const cell = this.cells[id]
    if (cell !== undefined) return cell
    const spec = this.specs[id]!
    return (this.cells[id] = Cell.make(spec.name, spec.channel, Channel.MISSING))
  }

  /** The value, or `MISSING`. */
  get(id: number): unknown {
    return this.cell(id).get()
  }

  isAvailable(id: number): boolean {
    return this.cell(id).isAvailable()
  }

  /** The version of the last change, `0` for a channel that was never updated. */
  versionOf(id: number): number {
    return this.versions[id] ?? 0
  }

  update(id: number, values: ReadonlyArray<unknown>): Either.Either<boolean, InvalidUpdate> {
    return this.cell(id).update(values)
  }

  /** Records that a channel changed at a version, and what that means for later supersteps. */
  touch(id: number, version: number): void {
    this.versions[id] = version
    if (version > this.version) this.version = version
    if (this.values !== undefined) this.stale.add(id)
    this.track(id)
  }

  private track(id: number): void {
    const spec = this.specs[id]!
    const cell = this.cell(id)
    const holds = cell.holds()
    if (holds) this.live.add(id)
    else this.live.delete(id)
    if (spec.transient) {
      if (cell.isAvailable()) this.transients.add(id)
      else this.transients.delete(id)
    }
    if (spec.afterFinish) {
      if (holds && !cell.isAvailable()) (this.unfinished ??= new Set()).add(id)
      else this.unfinished?.delete(id)
    }
  }

  /** The values of the available ones of these channels, by name. */
  read(ids: ReadonlyArray<number>): Record<string, unknown> {
    if (ids.length >= View.WIDE) {
      const shape = this.shapeOf(ids)
      return View.make(shape, this.valuesOf(shape))
    }
    return this.copy(ids)
  }

  /** The same as a record that is filled at once. */
  copy(ids: ReadonlyArray<number>): Record<string, unknown> {
    const state: Record<string, unknown> = {}
    for (const id of ids) {
      const value = this.get(id)
      if (value !== Channel.MISSING) state[this.specs[id]!.name] = value
    }
    return state
  }

  /** The names of these channels. */
  shapeOf(ids: ReadonlyArray<number>): View.Shape {
    let shape = shapes.get(ids)
    if (shape === undefined) {
      const positions = new Map(ids.map((id) => [this.specs[id]!.name, id]))
      shapes.set(ids, (shape = { positions, length: Math.max(...ids) + 1 }))
    }
    return shape
  }

  /** The values of these channels by number; the array is not changed any more. */
  valuesOf(shape: View.Shape): ReadonlyArray<unknown> {
    const { stale, values: last = [] } = this
    if (stale.size === 0 && last.length >= shape.length) return last
    const values = last.slice()
    for (let id = values.length; id < shape.length; id++) values.push(this.get(id))
    for (const id of stale) if (id < values.length) values[id] = this.get(id)
    stale.clear()
    this.values = values
    return values
  }
}

/** Lists of channels belong to compiled graphs and are the same for all of their runs. */
const shapes = new WeakMap<ReadonlyArray<number>, View.Shape>()

/** The live channel table by name, for harnesses that drive channels or `Algo` themselves. */
export class Channels extends Context.Tag("effect-pregel/Channels")<
  Channels,
  {
    /** The table itself. */
    readonly table: ChannelTable
    readonly get: (name: string) => Either.Either<unknown, EmptyChannel>
    readonly isAvailable: (name: string) => boolean
    readonly update: (name: string, values: ReadonlyArray<unknown>) => Either.Either<boolean, InvalidUpdate>
    readonly consume: (name: string) => boolean
    readonly finish: (name: string) => boolean
    /** What would be saved of each channel that holds something. */
    readonly snapshot: () => ReadonlyMap<string, unknown>
  }
>() {}

/** One numbered channel, before it triggers anything. */
export const makeSpec = (
  id: number,
  name: string,
  channel: Channel.Any,
  codec: Codec.Codec,
  isState: boolean
): ChannelSpec & { readonly subscribers: Array<number> } => ({
  id,
  name,
  channel,
  codec,
  isState,
  transient: Channel.isTransient(channel.definition),
  afterFinish: Channel.isAfterFinish(channel.definition),
  tracked: channel.kind !== "untracked",
  append: channel.kind === "append",
  subscribers: []
})

/** The live channels of these definitions, restored from what `snapshot()` gave. */
export const make = (
  definitions: Channel.Fields,
  snapshot: ReadonlyMap<string, unknown> = new Map()
): Context.Tag.Service<Channels> => {
  const names = Object.keys(definitions)
  const ids = new Map(names.map((name, id) => [name, id]))
  const idOf = (name: string): number => {
    const id = ids.get(name)
    if (id === undefined) throw new Error(`no channel "${name}"`)
    return id
  }
  const table = new ChannelTable(
    names.map((name, id) => makeSpec(id, name, definitions[name]!, Codec.make(definitions[name]!), true)),
    Array.from(snapshot, ([name, value]) => ({ id: idOf(name), version: 1, value }))
  )
  const cell = (name: string): Cell.Cell => table.cell(idOf(name))
  return {
    table,
    get: (name) => {
      const value = cell(name).get()
      return value === Channel.MISSING ? Either.left(new EmptyChannel({ channel: name })) : Either.right(value)
    },
    isAvailable: (name) => cell(name).isAvailable(),
    update: (name, values) => cell(name).update(values),
    consume: (name) => cell(name).consume(),
    finish: (name) => cell(name).finish(),
    snapshot: () => {
      const saved = new Map<string, unknown>()
      for (const name of names) {
        const value = cell(name).snapshot()
        if (value !== Channel.MISSING) saved.set(name, value)
      }
      return saved
    }
  }
}

/** The live channels of these definitions as a layer. */
export const layer = (definitions: Channel.Fields, snapshot?: ReadonlyMap<string, unknown>): Layer.Layer<Channels> =>
  Layer.sync(Channels, () => make(definitions, snapshot))
