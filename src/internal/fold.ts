/**
 * Reading the written format: rows fold to the state they describe. Pure functions that throw `RecordError` where a row
 * is damaged, misplaced or newer than this version.
 */
import type { Json, Source, TaskResult } from "../Checkpoint.js"
import { type Ancestry, FORMAT, type Line, type Range, RecordError, SOURCES, seal, unseal } from "./record.js"

/** The fields of a stored row. */
interface Fields {
  readonly p?: number
  readonly s?: number
  readonly k?: number
  readonly v?: number
  readonly z?: number
  readonly a?: ReadonlyArray<number>
  readonly r?: number
  readonly b?: number
  readonly w?: ReadonlyArray<string | ReadonlyArray<string | ReadonlyArray<Json>>>
  readonly n?: ReadonlyArray<string>
  readonly g?: number
  readonly c?: ReadonlyArray<Json>
  readonly o?: ReadonlyArray<ReadonlyArray<Json>>
  readonly u?: ReadonlyArray<Json>
  readonly l?: ReadonlyArray<readonly [name: string, start: number, length: number, version?: number]>
  readonly x?: ReadonlyArray<string>
  readonly e?: ReadonlyArray<Json>
  readonly q?: ReadonlyArray<Json>
  readonly m?: ReadonlyArray<Json>
}

/** A row, parsed and checked. */
export interface Row {
  readonly seq: number
  readonly created: number
  readonly parent: { readonly seq: number; readonly created: number } | undefined
  readonly step: number
  readonly source: Source
  readonly version: number
  readonly resumedAt: number
  readonly run: number
  /** Present where the row begins a run. */
  readonly before: Ancestry | undefined
  /** The last whole row; the row itself if it is whole. */
  readonly base: number
  readonly length: number
  readonly fields: Fields
}

const wrong = (seq: number, what: string): never => {
  throw new RecordError(`row ${seq} has ${what}`)
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value)

const ancestryOf = (seq: number, flat: unknown): Ancestry => {
  if (!Array.isArray(flat) || !flat.every(isCount) || flat.length % 2 !== 1) return wrong(seq, "a wrong list of runs")
  const ranges: Array<Range> = []
  for (let i = 1; i < flat.length; i += 2) ranges.push([flat[i]!, flat[i + 1]!])
  return { block: flat[0]!, ranges }
}

const LISTS = ["c", "o", "u", "l", "x", "w", "n", "e", "q", "m"]

/** Parses the data of a row. */
export const parse = (seq: number, data: string): Row => {
  const [, format, created, elapsed, fields, ...rest] = unseal(data, seq)
  if (format !== FORMAT) {
    throw new RecordError(`row ${seq} has format ${format}; this version reads format ${FORMAT}`)
  }
  if (!isCount(created) || typeof fields !== "object" || fields === null || rest.length > 0) wrong(seq, "no fields")
  for (const name of LISTS) if (name in fields && !Array.isArray(fields[name])) wrong(seq, "a field that is no list")
  const { p = seq - 1, s = seq - 2, k = 0, v = seq, z = 0, b = seq, r = 0, a } = fields as Fields
  if (![p, s, v, z, b, r].every(isCount) || b > seq || r > seq || p >= seq) wrong(seq, "a wrong number")
  if (elapsed !== null && !isCount(elapsed)) wrong(seq, "no time of its parent")
  return {
    seq,
    created,
    parent: elapsed === null ? undefined : { seq: p, created: created - elapsed },
    step: s,
    source: SOURCES[k] ?? wrong(seq, "an unknown source"),
    version: v,
    resumedAt: z,
    run: a === undefined ? r : seq,
    before: a === undefined ? undefined : ancestryOf(seq, a),
    base: b,
    length: data.length,
    fields
  }
}

/** A channel's value after a row. */
export type Cell =
  | { readonly append: false; readonly version: number; readonly value: Json }
  | { readonly append: true; readonly version: number; readonly start: number; readonly length: number }

/** The state after a row. Cells are shared between states, never changed. */
export interface State {
  readonly row: Row
  /** The whole row it was folded from. */
  readonly base: number
  readonly cells: ReadonlyMap<string, Cell>
  readonly graph: number
  readonly seen: ReadonlyArray<Json>
  readonly parents: ReadonlyArray<Json>
  readonly metadata: ReadonlyArray<Json>
  readonly size: number
  readonly since: number
}

const setCells = (row: Row, cells: Map<string, Cell>): void => {
  const { c = [], o = [], u = [], l = [], x = [] } = row.fields
  const set = (flat: ReadonlyArray<Json>, from: number, version: number) => {
    for (let i = from; i < flat.length; i += 2) {
      const name = flat[i]
      if (typeof name !== "string" || i + 1 >= flat.length) wrong(row.seq, "a channel without value")
      cells.set(name as string, { append: false, version, value: flat[i + 1] })
    }
  }
  set(c, 0, row.version)
  for (const group of o) set(group, 1, group[0] as number)
  for (let i = 0; i < u.length; i += 2) {
    cells.set(u[i] as string, { append: false, version: u[i + 1] as number, value: undefined })
  }
  for (const [name, start, length, version = row.version] of l) {
    if (!isCount(start) || !isCount(length) || start > row.seq) wrong(row.seq, "a wrong append channel")
    cells.set(name, { append: true, version, start, length })
  }
  for (const name of x) cells.delete(name)
}

/** The state after `row`; `parent` is the state before it, needed unless the row is whole. */
export const fold = (row: Row, parent: State | undefined): State => {
  const { g, e, q, m } = row.fields
  if (row.base === row.seq) {
    const cells = new Map<string, Cell>()
    setCells(row, cells)
    const inherited = { graph: g ?? 1, seen: e ?? [], parents: q ?? [], metadata: m ?? [] }
    return { row, base: row.seq, cells, ...inherited, size: row.length, since: 0 }
  }
  if (parent === undefined || parent.row.seq !== row.parent?.seq) {
    throw new RecordError(`row ${row.seq} builds on row ${row.parent?.seq}, which is missing`)
  }
  const cells = new Map(parent.cells)
  setCells(row, cells)
  return {
    row,
    base: parent.base,
    cells,
    graph: g ?? parent.graph,
    seen: e ?? parent.seen,
    parents: q ?? parent.parents,
    metadata: m ?? parent.metadata,
    size: parent.size,
    since: parent.since + row.length
  }
}

/** The parts of a branch between two numbers, both inclusive. */
export const between = (branch: ReadonlyArray<Range>, from: number, to: number): ReadonlyArray<Range> => {
  const parts: Array<Range> = []
  for (const range of branch) {
    const part: Range = [Math.max(range[0], from), Math.min(range[1], to)]
    if (part[0] <= part[1]) parts.push(part)
  }
  return parts
}

/** The first row that a state's values are spread over. */
export const firstOf = (state: State): number => {
  let first = state.row.seq
  for (const cell of state.cells.values()) if (cell.append && cell.length > 0) first = Math.min(first, cell.start)
  return first
}

const textOf = (flat: ReadonlyArray<Json>): string => (flat.length === 0 ? "" : JSON.stringify(flat))

/** What a writer needs to go on from a state. */
export const lineOf = (state: State, before: Ancestry): Line => {
  const starts = new Map<string, number>()
  for (const [name, cell] of state.cells) if (cell.append) starts.set(name, cell.start)
  const { row, size, since } = state
  return {
    seq: row.seq,
    created: row.created,
    run: row.run,
    before,
    base: state.base,
    size,
    since,
    starts,
    graph: state.graph,
    seen: textOf(state.seen),
    parents: textOf(state.parents),
    metadata: textOf(state.metadata)
  }
}

/** One row's items by channel. */
export type Items = ReadonlyMap<string, ReadonlyArray<Json>>

/** The log of a row: its items and, once its checkpoint is removed, the runs before the one that it begins. */
export interface Log {
  readonly items: Items
  readonly before: Ancestry | undefined
}

/** Parses the log of a row. */
export const parseLog = (seq: number, log: string): Log => {
  const flat = unseal(log, seq)
  const items = new Map<string, ReadonlyArray<Json>>()
  for (let i = 1; i + 1 < flat.length; i += 2) {
    if (typeof flat[i] !== "string" || !Array.isArray(flat[i + 1])) wrong(seq, "a wrong log")
    items.set(flat[i], flat[i + 1])
  }
  return { items, before: flat.length % 2 === 0 ? ancestryOf(seq, flat.at(-1)) : undefined }
}

/** The log that remains of a removed checkpoint, if it is needed: by its items, or by the run that it begins. */
export const stubLog = (seq: number, log: string | null, before: Ancestry | undefined): string | null => {
  if (before === undefined) return log
  const { items } = log === null ? { items: new Map<string, Json>() } : parseLog(seq, log)
  return seal([...Array.from(items).flat(), [before.block, ...before.ranges.flat()]].map(toText).join(","), seq)
}

const toText = (value: Json): string => JSON.stringify(value)

/** A state as a whole row, for a row whose parent is removed. */
export const wholeData = ({ cells, graph, metadata, parents, row, seen }: State): string => {
  const { b: _b, x: _x, w, c: own = [], ...kept } = row.fields
  const names = own.filter((_, i) => i % 2 === 0)
  const c: Array<Json> = []
  const u: Array<Json> = []
  const l: Array<Json> = []
  const groups = new Map<number, Array<Json>>()
  for (const [name, cell] of cells) {
    if (cell.append) l.push([name, cell.start, cell.length, cell.version])
    else if (cell.value === undefined) u.push(name, cell.version)
    else if (cell.version === row.version) c.push(name, cell.value)
    else groups.set(cell.version, [...(groups.get(cell.version) ?? [cell.version]), name, cell.value])
  }
  const fields = {
    ...kept,
    g: graph,
    c,
    o: Array.from(groups.values()),
    u,
    l,
    e: seen,
    q: parents,
    m: metadata,
    w: (w ?? []).map((entry) => (typeof entry === "string" ? [entry, ...names] : entry))
  }
  const elapsed = row.parent === undefined ? null : row.created - row.parent.created
  return seal(`${FORMAT},${row.created},${elapsed},${JSON.stringify(fields)}`, row.seq)
}

/** The items of an append channel, from the logs of its branch in order. */
export const itemsOf = (
  name: string,
  cell: Cell & { readonly append: true },
  logs: ReadonlyArray<{ readonly seq: number; readonly items: Items }>,
  to: number
): ReadonlyArray<Json> => {
  const found: Array<Json> = []
  for (const { seq, items } of logs) {
    if (seq < cell.start || seq > to) continue
    for (const item of items.get(name) ?? []) found.push(item)
  }
  if (found.length !== cell.length) {
    throw new RecordError(`row ${to} tells of ${cell.length} items, ${found.length} were found`, name)
  }
  return found
}

/** The results of the superstep that made a state; `own` are the items its row appended. */
export const resultsOf = (state: State, own: Items | undefined): ReadonlyArray<TaskResult> => {
  const { c = [], w = [] } = state.row.fields
  const valueOf = (name: string): Json => {
    const cell = state.cells.get(name)
    if (cell === undefined) throw new RecordError(`row ${state.row.seq} has a result without its value`, name)
    return cell.append ? (own?.get(name) ?? []) : cell.value
  }
  return w.map((entry) => {
    const [task, ...writes] = typeof entry === "string" ? [entry, ...c.filter((_, i) => i % 2 === 0)] : entry
    return {
      task: task as string,
      writes: writes.map((write) =>
        typeof write === "string"
          ? ([write, valueOf(write)] as const)
          : ([(write as ReadonlyArray<Json>)[0] as string, (write as ReadonlyArray<Json>)[1]] as const)
      )
    }
  })
}

/** A flat list of keys and values as a record that holds nothing else, whatever the keys are. */
export const recordOf = (flat: ReadonlyArray<Json>): Readonly<Record<string, Json>> => {
  const entries: Array<[string, Json]> = []
  for (let i = 0; i < flat.length; i += 2) entries.push([flat[i] as string, flat[i + 1]])
  return Object.fromEntries(entries)
}

/** A flat list in groups of three. */
export const seenOf = (flat: ReadonlyArray<Json>): ReadonlyArray<readonly [string, string, number]> => {
  const seen: Array<readonly [string, string, number]> = []
  for (let i = 0; i < flat.length; i += 3) seen.push([flat[i] as string, flat[i + 1] as string, flat[i + 2] as number])
  return seen
}
