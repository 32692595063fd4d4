/**
 * Ready-made reducers for `Channel.reduce`, and a list whose items have ids.
 *
 * A reducer must be a pure function: routers, snapshots and replays fold the same updates again.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Channel from "./Channel.js"
import { InvalidUpdate } from "./GraphError.js"

/** Joins two lists; for logs that only grow `Channel.append` is cheaper. */
export const concat = <A>(self: ReadonlyArray<A>, that: ReadonlyArray<A>): ReadonlyArray<A> => [...self, ...that]

/** Adds numbers. */
export const sum = (self: number, that: number): number => self + that

/** Keeps the greater number. */
export const max = (self: number, that: number): number => Math.max(that, self)

/** Keeps the smaller number. */
export const min = (self: number, that: number): number => Math.min(that, self)

/** Joins two sets. */
export const union = <A>(self: ReadonlySet<A>, that: ReadonlySet<A>): ReadonlySet<A> => new Set([...self, ...that])

/** The later of two values: for a channel that several tasks may write in one superstep. */
export const last = <A>(_self: A, that: A): A => that

/** Merges records: keys of the update replace those of the value. */
export const merge = <A extends object>(self: A, that: A): A => ({ ...self, ...that })

const isRecord = (value: unknown): value is Record<string, unknown> => {
  if (typeof value !== "object" || value === null) return false
  const proto = Object.getPrototypeOf(value)
  return proto === Object.prototype || proto === null
}

/** Merges records and the records inside them; everything else, lists too, is replaced. */
export const mergeDeep = <A extends object>(self: A, that: A): A => deep(self, that) as A

const deep = (self: unknown, that: unknown): unknown => {
  if (!isRecord(self) || !isRecord(that)) return that
  const merged = new Map(Object.entries(self))
  for (const [key, value] of Object.entries(that)) {
    merged.set(key, merged.has(key) ? deep(merged.get(key), value) : value)
  }
  return Object.fromEntries(merged)
}

// ---------------------------------------------------------------------------------------------------------------------
// lists of items with ids
// ---------------------------------------------------------------------------------------------------------------------

const REMOVE = "effect-pregel/Remove"
const REMOVE_ALL = "effect-pregel/RemoveAll"

/** Takes the item of this id out of the list. */
export interface Remove {
  readonly _tag: typeof REMOVE
  readonly id: string
}

/** Empties the list: what stands before it in the same update is dropped as well. */
export interface RemoveAll {
  readonly _tag: typeof REMOVE_ALL
}

/** Takes the item of this id out of the list; an id that the list does not have is refused. */
export const remove = (id: string): Remove => ({ _tag: REMOVE, id })

/** Empties the list: what stands before it in the same update is dropped as well. */
export const removeAll: RemoveAll = { _tag: REMOVE_ALL }

const RemoveSchema: Schema.Schema<Remove> = Schema.Struct({ _tag: Schema.Literal(REMOVE), id: Schema.String })
const RemoveAllSchema: Schema.Schema<RemoveAll> = Schema.Struct({ _tag: Schema.Literal(REMOVE_ALL) })

/** One change of a list: an item to add or to put in the place of the one that has its id, or a removal. */
export type Change<A> = A | Remove | RemoveAll

/** An update of a list: one change or several, made in order. */
export type Changes<A> = Change<A> | ReadonlyArray<Change<A>>

/** How items are told apart. */
export interface ByIdOptions<A> {
  /** The id of an item; `undefined` for one that has none yet. */
  readonly id: (item: A) => string | undefined
  /** Gives an item that has none an id; without it such an item is refused. */
  readonly withId?: ((item: A, id: string) => A) | undefined
  /**
   * A new id: asked with a growing number, from the length of the list on, until no item has it. Default: the number.
   * It must be a pure function, as reducers are; ids that have to be unique beyond the list are given by the node that
   * makes the item.
   */
  readonly generate?: ((n: number) => string) | undefined
}

const refused = (reason: InvalidUpdate["reason"], detail: string) => Either.left(new InvalidUpdate({ reason, detail }))

const isTagged = (change: unknown, tag: string): boolean =>
  typeof change === "object" && change !== null && (change as { readonly _tag?: unknown })._tag === tag

const isRemove = (change: unknown): change is Remove => isTagged(change, REMOVE)
const isRemoveAll = (change: unknown): change is RemoveAll => isTagged(change, REMOVE_ALL)

/** The items by id, in the order of the list; a removed one keeps its place until the end, so that it may come back. */
class Draft<A> {
  private readonly items = new Map<string, A>()
  private readonly removed = new Set<string>()
  constructor(
    readonly options: ByIdOptions<A>,
    private next: number
  ) {}

  add(item: A): Either.Either<void, InvalidUpdate> {
    const id = this.options.id(item)
    if (id !== undefined && id !== "") {
      this.items.set(id, item)
      this.removed.delete(id)
      return Either.void
    }
    if (this.options.withId === undefined) return refused("InvalidValue", "an item has no id")
    const fresh = this.fresh()
    this.items.set(fresh, this.options.withId(item, fresh))
    return Either.void
  }

  private fresh(): string {
    const generate = this.options.generate ?? String
    let id = generate(this.next++)
    while (this.items.has(id)) id = generate(this.next++)
    return id
  }

  remove(id: string): Either.Either<void, InvalidUpdate> {
    if (!this.items.has(id)) return refused("UnknownItem", `there is no item "${id}" to remove`)
    this.removed.add(id)
    return Either.void
  }

  result(): ReadonlyArray<A> {
    for (const id of this.removed) this.items.delete(id)
    return Array.from(this.items.values())
  }
}

/** Applies changes to a list of items with ids: the total form of what the channel `byId` does. */
export const applyById =
  <A>(options: ByIdOptions<A>) =>
  (self: ReadonlyArray<A>, update: Changes<A>): Either.Either<ReadonlyArray<A>, InvalidUpdate> => {
    const changes: ReadonlyArray<Change<A>> = Array.isArray(update) ? update : [update as Change<A>]
    const clear = changes.findLastIndex(isRemoveAll)
    const kept = clear < 0 ? self : []
    const draft = new Draft(options, kept.length)
    for (const item of kept) {
      const added = draft.add(item)
      if (Either.isLeft(added)) return Either.left(added.left)
    }
    for (const change of changes.slice(clear + 1)) {
      const done = isRemove(change) ? draft.remove(change.id) : draft.add(change as A)
      if (Either.isLeft(done)) return Either.left(done.left)
    }
    return Either.right(draft.result())
  }

/**
 * A list of items with ids, as for the messages of a conversation: an update adds items, puts one in the place of the
 * item that has its id, or removes some.
 *
 * @example
 * ```ts
 * import { Schema } from "effect"
 * import { Graph, Reducers } from "effect-pregel"
 *
 * const Message = Schema.Struct({ id: Schema.optional(Schema.String), content: Schema.String })
 *
 * const chat = Graph.make("chat", {
 *   messages: Reducers.byId(Message, { id: (message) => message.id, withId: (message, id) => ({ ...message, id }) })
 * })
 * ```
 */
export const byId = <A, I>(
  item: Schema.Schema<A, I>,
  options: ByIdOptions<NoInfer<A>>
): Channel.Channel<ReadonlyArray<A>, Changes<A> | Channel.Overwrite<ReadonlyArray<A>>, true> => {
  const change = Schema.Union(RemoveSchema, RemoveAllSchema, item)
  const apply = applyById<A>(options)
  return Channel.reduce(Schema.Array(item), {
    initial: () => [],
    update: Schema.Union(change, Schema.Array(change)) as Schema.Schema<Changes<A>, any>,
    reducer: (self, update) => Either.getOrThrowWith(apply(self, update), (refusal) => refusal)
  })
}
