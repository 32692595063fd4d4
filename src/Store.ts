/**
 * Long-term memory beside threads: items under namespaces, shared by all runs.
 *
 * A namespace is a list of texts; whatever they contain, they are matched whole and literally. A store is a service like
 * any other: nodes, activities and graphs inside see the one of the environment. All layers share this module's rules;
 * a driver only keeps rows.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import { StoreError } from "./GraphError.js"
import { makeMemory } from "./internal/storeMemory.js"
import { makeStore } from "./internal/storeService.js"

/** Where an item lives: a list of texts that are not empty. */
export type Namespace = ReadonlyArray<string>

/** What an item holds: a record of JSON values. */
export type Value = { readonly [key: string]: unknown }

/** One item. */
export interface Item {
  readonly namespace: Namespace
  readonly key: string
  readonly value: Value
  /** When it was first put: milliseconds since the epoch. */
  readonly created: number
  /** When it was last put: milliseconds since the epoch. */
  readonly updated: number
}

/** An item that a search has found. */
export interface FoundItem extends Item {
  /** Similarity to the query, at most 1; absent where the item is not ranked. */
  readonly score: number | undefined
}

/**
 * Conditions on an item's value. A plain value must be equal; a record must hold for the fields that it names, at any
 * depth; `$eq`, `$ne`, `$gt`, `$gte`, `$lt` and `$lte` compare (an order have numbers and texts).
 */
export type Filter = { readonly [field: string]: unknown }

/** Options of `search`. */
export interface SearchOptions {
  readonly filter?: Filter | undefined
  /** Ranks items by similarity of meaning; without an index it is ignored. */
  readonly query?: string | undefined
  /** Most items to find; default 10. */
  readonly limit?: number | undefined
  /** Items to skip; default 0. */
  readonly offset?: number | undefined
  /** Whether finding an item restarts its time to live; default: as the layer says. */
  readonly refresh?: boolean | undefined
}

/** Options of `namespaces`. `"*"` in a prefix or suffix stands for any one segment. */
export interface NamespaceOptions {
  readonly prefix?: Namespace | undefined
  readonly suffix?: Namespace | undefined
  /** Longer namespaces are cut to this many segments. */
  readonly maxDepth?: number | undefined
  /** Default 100. */
  readonly limit?: number | undefined
  readonly offset?: number | undefined
}

/** Options of `put`. */
export interface PutOptions {
  /** How long the item lives; default: as the layer says. */
  readonly ttl?: Duration.DurationInput | undefined
  /** Paths of the texts by which a query finds it, or `false`; default: as the layer says. */
  readonly index?: ReadonlyArray<string> | false | undefined
}

/** One operation of a batch. A put without value removes the item. */
export type Op =
  | {
      readonly _tag: "Get"
      readonly namespace: Namespace
      readonly key: string
      readonly refresh?: boolean | undefined
    }
  | ({
      readonly _tag: "Put"
      readonly namespace: Namespace
      readonly key: string
      readonly value: Value | undefined
    } & PutOptions)
  | ({ readonly _tag: "Search"; readonly prefix: Namespace } & SearchOptions)
  | ({ readonly _tag: "Namespaces" } & NamespaceOptions)

/** What an operation gives. */
export type ResultOf<O> = O extends { readonly _tag: "Get" }
  ? Option.Option<Item>
  : O extends { readonly _tag: "Search" }
    ? ReadonlyArray<FoundItem>
    : O extends { readonly _tag: "Namespaces" }
      ? ReadonlyArray<Namespace>
      : void

/** Long-term memory. */
export class Store extends Context.Tag("effect-pregel/Store")<
  Store,
  {
    readonly get: (
      namespace: Namespace,
      key: string,
      options?: { readonly refresh?: boolean | undefined }
    ) => Effect.Effect<Option.Option<Item>, StoreError>
    /** Puts an item in the place of the one that is there. */
    readonly put: (
      namespace: Namespace,
      key: string,
      value: Value,
      options?: PutOptions
    ) => Effect.Effect<void, StoreError>
    readonly delete: (namespace: Namespace, key: string) => Effect.Effect<void, StoreError>
    /** Items in a namespace and below it: by similarity with a query, else the newest first. */
    readonly search: (prefix: Namespace, options?: SearchOptions) => Effect.Effect<ReadonlyArray<FoundItem>, StoreError>
    /** Namespaces that hold items, in order. */
    readonly namespaces: (options?: NamespaceOptions) => Effect.Effect<ReadonlyArray<Namespace>, StoreError>
    /**
     * Several operations: reads see the state before the batch, puts are made together, of several puts of one item the
     * last one counts.
     */
    readonly batch: <const Ops extends ReadonlyArray<Op>>(
      ops: Ops
    ) => Effect.Effect<{ readonly [I in keyof Ops]: ResultOf<Ops[I]> }, StoreError>
    /** Removes items whose time is over, which nobody sees any more; yields how many. */
    readonly sweep: Effect.Effect<number, StoreError>
  }
>() {}

/** How items are found by their meaning. */
export interface Index<E, R> {
  /** Vectors of texts, in their order. */
  readonly embed: (texts: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<ReadonlyArray<number>>, E, R>
  /** Paths of the texts of an item: `"$"` is the whole value, `"a.b[0]"` and `"a[*].b"` lead into it. Default `["$"]`. */
  readonly fields?: ReadonlyArray<string> | undefined
}

/** Options of every layer. */
export interface Options<E = never, R = never> {
  /** How long items live where a put says nothing; for ever by default. */
  readonly ttl?: Duration.DurationInput | undefined
  /** Whether reading an item restarts its time to live; default `true`. */
  readonly refreshOnRead?: boolean | undefined
  /** Lets searches rank by meaning; none by default. */
  readonly index?: Index<E, R> | undefined
}

/** A row as drivers keep it. Namespaces and keys are texts that every database takes, and compare by code point. */
export interface Row {
  readonly path: string
  readonly key: string
  /** JSON text. */
  readonly value: string
  readonly created: number
  readonly updated: number
  /** Milliseconds that it lives after it was put or read; `undefined` for ever. */
  readonly ttl: number | undefined
  /** When its time is over: milliseconds since the epoch. */
  readonly expires: number | undefined
  /** JSON text of its vectors. */
  readonly vectors: string | undefined
}

/** Where a page of rows ends. */
export type Position = Pick<Row, "updated" | "path" | "key">

/** Changes that are made together. */
export interface Changes {
  /** Rows to put; one that replaces a living row keeps its `created`. */
  readonly puts: ReadonlyArray<Row>
  readonly removes: ReadonlyArray<Pick<Row, "path" | "key">>
  /** New times at which rows end. */
  readonly touches: ReadonlyArray<Pick<Row, "path" | "key" | "expires">>
}

/** What a driver does. Rows whose time is over at `now` are not there. */
export interface Driver {
  readonly get: (
    keys: ReadonlyArray<Pick<Row, "path" | "key">>,
    now: number
  ) => Effect.Effect<ReadonlyArray<Row | undefined>, StoreError>
  /** Rows whose path lies in a range, by descending `updated`, then path and key, after a position. */
  readonly page: (
    range: readonly [from: string, to: string],
    after: Position | undefined,
    limit: number,
    now: number
  ) => Effect.Effect<ReadonlyArray<Row>, StoreError>
  /** Paths of a range that have rows. */
  readonly paths: (
    range: readonly [from: string, to: string],
    now: number
  ) => Effect.Effect<ReadonlyArray<string>, StoreError>
  readonly write: (changes: Changes, now: number) => Effect.Effect<void, StoreError>
  readonly sweep: (now: number) => Effect.Effect<number, StoreError>
}

/** The service over a driver. */
export const fromDriver = <E = never, R = never>(
  driver: Driver,
  options: Options<E, R> = {}
): Effect.Effect<Context.Tag.Service<Store>, never, R> =>
  Effect.map(Effect.context<R>(), (context) => {
    const { index } = options
    return makeStore(driver, {
      ttl: options.ttl === undefined ? undefined : millisOf(options.ttl),
      refreshOnRead: options.refreshOnRead ?? true,
      fields: index?.fields ?? ["$"],
      embed:
        index &&
        ((texts) =>
          Effect.mapError(
            Effect.provide(index.embed(texts), context),
            (cause) => new StoreError({ operation: "embed", reason: "Unavailable", detail: String(cause), cause })
          ))
    })
  })

const millisOf = (ttl: Duration.DurationInput): number | undefined => {
  const millis = Duration.toMillis(ttl)
  return millis === Number.POSITIVE_INFINITY ? undefined : millis
}

/** Keeps items in this process, as encoded texts, until the layer is released. */
export const layerMemoryWith = <E = never, R = never>(options: Options<E, R>): Layer.Layer<Store, never, R> =>
  Layer.effect(
    Store,
    Effect.suspend(() => fromDriver(makeMemory(), options))
  )

/** Keeps items in this process, as encoded texts, until the layer is released. */
export const layerMemory: Layer.Layer<Store> = layerMemoryWith({})

// ---------------------------------------------------------------------------------------------------------------------
// typed collections
// ---------------------------------------------------------------------------------------------------------------------

/** Items of one type. */
export interface Collection<A> {
  readonly get: (namespace: Namespace, key: string) => Effect.Effect<Option.Option<A>, StoreError, Store>
  readonly put: (
    namespace: Namespace,
    key: string,
    value: A,
    options?: PutOptions
  ) => Effect.Effect<void, StoreError, Store>
  readonly delete: (namespace: Namespace, key: string) => Effect.Effect<void, StoreError, Store>
  readonly search: (
    prefix: Namespace,
    options?: SearchOptions
  ) => Effect.Effect<ReadonlyArray<FoundItem & { readonly decoded: A }>, StoreError, Store>
}

/**
 * Items of one type: encoded by a schema when they are put, decoded when they are read. A value that does not encode
 * fails with reason `InvalidRequest`, one that does not decode with `Corrupt`.
 *
 * @example
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Store } from "effect-pregel"
 *
 * const memories = Store.collection(Schema.Struct({ text: Schema.String, at: Schema.Date }))
 *
 * const remember = (user: string, text: string) =>
 *   memories.put(["users", user, "memories"], text, { text, at: new Date(0) })
 *
 * const recall = (user: string) => memories.search(["users", user], { filter: { text: { $ne: "" } } })
 * ```
 */
export const collection = <A, I extends Value>(schema: Schema.Schema<A, I>): Collection<A> => {
  const encode = ParseResult.encodeEither(schema)
  const decode = ParseResult.decodeUnknownEither(schema)
  const or =
    (operation: string, reason: "InvalidRequest" | "Corrupt") =>
    (issue: ParseResult.ParseIssue): StoreError =>
      new StoreError({ operation, reason, detail: ParseResult.TreeFormatter.formatIssueSync(issue) })
  const read = (operation: string, value: unknown) => Effect.mapError(decode(value), or(operation, "Corrupt"))
  return {
    get: (namespace, key) =>
      Effect.flatMap(Store, (store) =>
        Effect.flatMap(
          store.get(namespace, key),
          Option.match({
            onNone: () => Effect.succeedNone,
            onSome: (item) => Effect.asSome(read("get", item.value))
          })
        )
      ),
    put: (namespace, key, value, options) =>
      Effect.flatMap(Store, (store) =>
        Effect.flatMap(Effect.mapError(encode(value), or("put", "InvalidRequest")), (encoded) =>
          store.put(namespace, key, encoded, options)
        )
      ),
    delete: (namespace, key) => Effect.flatMap(Store, (store) => store.delete(namespace, key)),
    search: (prefix, options) =>
      Effect.flatMap(Store, (store) =>
        Effect.flatMap(store.search(prefix, options), (items) =>
          Effect.all(items.map((item) => Effect.map(read("search", item.value), (decoded) => ({ ...item, decoded }))))
        )
      )
  }
}
