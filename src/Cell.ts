/**
 * The live state of a channel in one run.
 *
 * In a superstep a cell's `update` is called once with all values written to it, in a deterministic order; its result
 * tells whether the channel changed. The rules of each kind are those of `semantics.md` section 1.
 */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import { type Any, type Definition, MISSING, overwriteValue } from "./Channel.js"
import { InvalidUpdate } from "./GraphError.js"

/** The live state of a channel in one run. */
export interface Cell {
  /** Takes all values written in a superstep; right: whether the channel changed. */
  readonly update: (values: ReadonlyArray<unknown>) => Either.Either<boolean, InvalidUpdate>
  /** The value, or `MISSING`. */
  readonly get: () => unknown
  readonly isAvailable: () => boolean
  /** A task that this channel triggered has run. */
  readonly consume: () => boolean
  /** The run looks finished. */
  readonly finish: () => boolean
  /** There is something to save: it differs from a fresh cell that was never written. */
  readonly holds: () => boolean
  /** What is saved, or `MISSING`; shares nothing that the cell will change. */
  readonly snapshot: () => unknown
  readonly clone: () => Cell
}

const CHANGED: Either.Either<boolean, InvalidUpdate> = Either.right(true)
const UNCHANGED: Either.Either<boolean, InvalidUpdate> = Either.right(false)

const refuse = (reason: InvalidUpdate["reason"], channel: string, detail: string, cause?: unknown) =>
  Either.left(new InvalidUpdate({ reason, channel, detail, ...(cause === undefined ? {} : { cause }) }))

const concurrent = (channel: string, count: number) =>
  refuse(
    "ConcurrentUpdate",
    channel,
    `got ${count} values in one superstep but holds one; use a reducer (Channel.reduce) or a log (Channel.append)`
  )

const secondOverwrite = (channel: string) =>
  refuse("ConcurrentOverwrite", channel, "only one overwrite is allowed in a superstep")

/** Holds one value: `lastValue`, `anyValue`, `ephemeral` and `untracked` differ in what an empty update does. */
class ValueCell implements Cell {
  constructor(
    readonly name: string,
    readonly guard: boolean,
    readonly clears: boolean,
    readonly tracked: boolean,
    public value: unknown
  ) {}
  update(values: ReadonlyArray<unknown>) {
    if (values.length === 0) {
      if (!this.clears || this.value === MISSING) return UNCHANGED
      this.value = MISSING
      return CHANGED
    }
    if (this.guard && values.length > 1) return concurrent(this.name, values.length)
    this.value = values[values.length - 1]
    return CHANGED
  }
  get() {
    return this.value
  }
  isAvailable() {
    return this.value !== MISSING
  }
  consume() {
    return false
  }
  finish() {
    return false
  }
  holds() {
    return this.tracked && this.value !== MISSING
  }
  snapshot() {
    return this.tracked ? this.value : MISSING
  }
  clone() {
    return new ValueCell(this.name, this.guard, this.clears, this.tracked, this.value)
  }
}

/** Spreads array updates one level. */
const flatten = (values: ReadonlyArray<unknown>): Array<unknown> => {
  const items: Array<unknown> = []
  for (const value of values) {
    if (Array.isArray(value)) for (const item of value) items.push(item)
    else items.push(value)
  }
  return items
}

class TopicCell implements Cell {
  constructor(
    readonly definition: Definition,
    public items: ReadonlyArray<unknown>,
    /** Keys of all values ever seen, for `unique`. */
    public seen: Set<unknown> | undefined,
    readonly keyOf: (item: unknown) => unknown
  ) {}
  update(values: ReadonlyArray<unknown>) {
    const kept = this.definition.accumulate ? this.items : []
    const cleared = !this.definition.accumulate && this.items.length > 0
    let added = flatten(values)
    if (this.seen !== undefined) {
      const seen = this.seen
      added = added.filter((item) => {
        const key = this.keyOf(item)
        if (seen.has(key)) return false
        seen.add(key)
        return true
      })
    }
    if (!cleared && added.length === 0) return UNCHANGED
    this.items = kept.length === 0 ? added : [...kept, ...added]
    return CHANGED
  }
  get() {
    return this.items.length === 0 ? MISSING : this.items
  }
  isAvailable() {
    return this.items.length > 0
  }
  consume() {
    return false
  }
  finish() {
    return false
  }
  holds() {
    return this.items.length > 0 || (this.seen !== undefined && this.seen.size > 0)
  }
  snapshot() {
    return this.seen === undefined ? this.items : [Array.from(this.seen), this.items]
  }
  clone() {
    return new TopicCell(this.definition, this.items, this.seen && new Set(this.seen), this.keyOf)
  }
}

/** Values are compared as they are encoded, so that a reloaded topic knows what it has seen. */
const uniqueKey = (schema: Definition["schema"]): ((item: unknown) => unknown) => {
  const encode = ParseResult.encodeUnknownEither(schema)
  return (item) => {
    const encoded = Either.getOrElse(encode(item), () => item)
    return typeof encoded === "object" && encoded !== null ? JSON.stringify(encoded) : encoded
  }
}

const sameKey = (item: unknown): unknown => item

class ReduceCell implements Cell {
  constructor(
    readonly name: string,
    readonly reducer: (value: any, update: any) => unknown,
    public value: unknown
  ) {}
  update(values: ReadonlyArray<unknown>) {
    if (values.length === 0) return UNCHANGED
    let value = this.value
    let overwritten = false
    try {
      for (const update of values) {
        const replacement = overwriteValue(update)
        if (replacement !== MISSING) {
          if (overwritten) return secondOverwrite(this.name)
          overwritten = true
          value = replacement
        } else if (!overwritten) {
          value = value === MISSING ? update : this.reducer(value, update)
        }
      }
    } catch (cause) {
      if (cause instanceof InvalidUpdate) return refuse(cause.reason, this.name, cause.detail)
      return refuse("ReducerFailed", this.name, `the reducer threw: ${String(cause)}`, cause)
    }
    this.value = value
    return CHANGED
  }
  get() {
    return this.value
  }
  isAvailable() {
    return this.value !== MISSING
  }
  consume() {
    return false
  }
  finish() {
    return false
  }
  holds() {
    return this.value !== MISSING
  }
  snapshot() {
    return this.value
  }
  clone() {
    return new ReduceCell(this.name, this.reducer, this.value)
  }
}

const CHANGED_IN_PLACE =
  "a node has changed the list in place instead of returning an update; run with { freeze: true } to see which"

/** A log: what was appended since the value was last read is kept apart, so that a step costs what it adds. */
export class AppendCell implements Cell {
  private tail: Array<unknown> = []
  /** Of `items`, as long as nobody has changed it in place. */
  private size: number
  constructor(
    readonly name: string,
    private items: ReadonlyArray<unknown>
  ) {
    this.size = items.length
  }
  get length() {
    return this.size + this.tail.length
  }
  update(values: ReadonlyArray<unknown>) {
    if (values.length === 0) return UNCHANGED
    if (this.items.length !== this.size) return refuse("InvalidValue", this.name, CHANGED_IN_PLACE)
    let replaced: unknown = MISSING
    for (const update of values) {
      const replacement = overwriteValue(update)
      if (replacement === MISSING) continue
      if (replaced !== MISSING) return secondOverwrite(this.name)
      replaced = replacement
    }
    if (replaced !== MISSING) {
      this.items = Array.isArray(replaced) ? replaced.slice() : [replaced]
      this.size = this.items.length
      this.tail = []
      return CHANGED
    }
    const added = flatten(values)
    if (added.length === 0) return UNCHANGED
    for (const item of added) this.tail.push(item)
    return CHANGED
  }
  get() {
    if (this.tail.length > 0) {
      this.size += this.tail.length
      this.items = this.items.concat(this.tail)
      this.tail = []
    }
    return this.items
  }
  isAvailable() {
    return true
  }
  consume() {
    return false
  }
  finish() {
    return false
  }
  holds() {
    return true
  }
  snapshot() {
    return this.get()
  }
  clone() {
    return new AppendCell(this.name, this.get() as ReadonlyArray<unknown>)
  }
}

/** Counts which of its names have been written. */
class BarrierCell implements Cell {
  constructor(
    readonly name: string,
    readonly names: ReadonlyArray<string>,
    readonly afterFinish: boolean,
    public seen: ReadonlySet<string>,
    public finished: boolean
  ) {}
  update(values: ReadonlyArray<unknown>) {
    let next: Set<string> | undefined
    for (const value of values) {
      if (typeof value !== "string" || !this.names.includes(value)) {
        return refuse("UnknownBarrierName", this.name, `"${String(value)}" is none of [${this.names.join(", ")}]`)
      }
      if (this.seen.has(value) || next?.has(value)) continue
      next ??= new Set(this.seen)
      next.add(value)
    }
    if (next === undefined) return UNCHANGED
    this.seen = next
    return CHANGED
  }
  private get complete() {
    return this.seen.size === this.names.length
  }
  get() {
    return this.isAvailable() ? null : MISSING
  }
  isAvailable() {
    return this.complete && (!this.afterFinish || this.finished)
  }
  consume() {
    if (!this.isAvailable()) return false
    this.seen = new Set()
    this.finished = false
    return true
  }
  finish() {
    if (!this.afterFinish || this.finished || !this.complete) return false
    this.finished = true
    return true
  }
  holds() {
    return this.seen.size > 0
  }
  snapshot() {
    const seen = this.names.filter((name) => this.seen.has(name))
    return this.afterFinish ? [seen, this.finished] : seen
  }
  clone() {
    return new BarrierCell(this.name, this.names, this.afterFinish, this.seen, this.finished)
  }
}

class AfterFinishCell implements Cell {
  constructor(
    public value: unknown,
    public finished: boolean
  ) {}
  update(values: ReadonlyArray<unknown>) {
    if (values.length === 0) return UNCHANGED
    this.finished = false
    this.value = values[values.length - 1]
    return CHANGED
  }
  get() {
    return this.finished ? this.value : MISSING
  }
  isAvailable() {
    return this.finished && this.value !== MISSING
  }
  consume() {
    if (!this.finished) return false
    this.finished = false
    this.value = MISSING
    return true
  }
  finish() {
    if (this.finished || this.value === MISSING) return false
    this.finished = true
    return true
  }
  holds() {
    return this.value !== MISSING
  }
  snapshot() {
    return this.value === MISSING ? MISSING : [this.value, this.finished]
  }
  clone() {
    return new AfterFinishCell(this.value, this.finished)
  }
}

const initialValue = (definition: Definition) => (definition.initial === undefined ? MISSING : definition.initial())

/**
 * The live cell of a channel: fresh, or restored from a snapshot (`semantics.md` 1.0). `MISSING` restores a fresh one.
 */
export const make = (name: string, channel: Any, snapshot: unknown): Cell => {
  const definition = channel.definition
  const saved = snapshot !== MISSING
  switch (definition.kind) {
    case "lastValue":
      return new ValueCell(name, true, false, true, saved ? snapshot : initialValue(definition))
    case "anyValue":
      return new ValueCell(name, false, true, true, snapshot)
    case "ephemeral":
      return new ValueCell(name, definition.guard ?? true, true, true, snapshot)
    case "untracked":
      return new ValueCell(name, definition.guard ?? true, false, false, initialValue(definition))
    case "topic":
      return restoreTopic(definition, saved ? (snapshot as ReadonlyArray<unknown>) : [])
    case "reduce":
      return new ReduceCell(name, definition.reducer!, saved ? snapshot : initialValue(definition))
    case "append":
      return new AppendCell(name, (saved ? snapshot : initialValue(definition)) as ReadonlyArray<unknown>)
    case "barrier":
      return new BarrierCell(name, definition.names!, false, new Set(saved ? (snapshot as Array<string>) : []), false)
    case "barrierAfterFinish": {
      const [seen, finished] = (saved ? snapshot : [[], false]) as [Array<string>, boolean]
      return new BarrierCell(name, definition.names!, true, new Set(seen), finished)
    }
    case "lastValueAfterFinish": {
      const [value, finished] = (saved ? snapshot : [MISSING, false]) as [unknown, boolean]
      return new AfterFinishCell(value, finished)
    }
  }
}

const restoreTopic = (definition: Definition, snapshot: ReadonlyArray<unknown>) => {
  if (!definition.unique) return new TopicCell(definition, snapshot, undefined, sameKey)
  const keyOf = uniqueKey(definition.schema)
  const pair = snapshot.length === 2 && Array.isArray(snapshot[0]) && Array.isArray(snapshot[1])
  const [seen, items] = pair ? (snapshot as [Array<unknown>, Array<unknown>]) : [snapshot.map(keyOf), snapshot]
  return new TopicCell(definition, items, new Set(seen), keyOf)
}

/** The names that have arrived at a barrier. */
export const arrivedAt = (cell: Cell): ReadonlyArray<string> => {
  const seen = cell instanceof BarrierCell ? cell.seen : new Set<string>()
  return Array.from(seen)
}
