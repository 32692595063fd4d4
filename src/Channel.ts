/**
 * Channels: named cells of state with an update rule.
 *
 * A `Channel` is a description: its kind, its schema, its initial value, its reducer. `Cell.make` gives the live cell of
 * one run, `Codec.make` what writes and reads its saved form.
 */
import { type Pipeable, pipeArguments } from "effect/Pipeable"
import * as Schema from "effect/Schema"
import type * as Types from "effect/Types"

/** Marks channels. */
export const TypeId: unique symbol = Symbol.for("effect-pregel/Channel")
/** The type of the mark of channels. */
export type TypeId = typeof TypeId

/** Stands for "no value": `null`, `undefined`, `0`, `""` and `false` are values. */
export const MISSING: unique symbol = Symbol.for("effect-pregel/MISSING")
/** The type of `MISSING`. */
export type MISSING = typeof MISSING

/** The kinds of channels. */
export type Kind =
  | "lastValue"
  | "anyValue"
  | "ephemeral"
  | "untracked"
  | "topic"
  | "reduce"
  | "append"
  | "barrier"
  | "barrierAfterFinish"
  | "lastValueAfterFinish"

/**
 * A description of a channel that holds `Value`s and takes `Update`s. `Always` is true when it has a value before it
 * is first written.
 */
export interface Channel<in out Value, in Update = Value, out Always extends boolean = boolean> extends Pipeable {
  readonly [TypeId]: {
    readonly _Value: Types.Invariant<Value>
    readonly _Update: Types.Contravariant<Update>
    readonly _Always: Types.Covariant<Always>
  }
  readonly kind: Kind
  readonly definition: Definition
}

/** What a channel is made of, without types. */
export interface Definition {
  readonly kind: Kind
  /** Schema of the value, or of one item for `topic` and `append`. */
  readonly schema: Schema.Schema<any, any>
  /** Schema of one update where it differs from the value's. */
  readonly updateSchema?: Schema.Schema<any, any> | undefined
  readonly initial?: (() => unknown) | undefined
  readonly reducer?: ((value: any, update: any) => unknown) | undefined
  readonly guard?: boolean | undefined
  readonly accumulate?: boolean | undefined
  readonly unique?: boolean | undefined
  readonly names?: ReadonlyArray<string> | undefined
  readonly renamedFrom?: string | undefined
  readonly version?: number | undefined
  readonly migrations?: ReadonlyArray<Migration> | undefined
}

/** Turns an encoded value of an older version of a channel into the next version's. */
export interface Migration {
  readonly from: number
  readonly migrate: (encoded: any) => unknown
}

/** Any channel. */
export type Any = Channel<any, any, boolean>
/** A record of channels: what a graph's state is made of. */
export type Fields = { readonly [name: string]: Any }
/** The type a channel holds. */
export type Value<C> = C extends Channel<infer V, any, any> ? V : never
/** The type a channel takes as update. */
export type Update<C> = C extends Channel<any, infer U, any> ? U : never

/** The names of the channels that have a value before they are first written. */
export type AlwaysKeys<C extends Fields> = {
  [K in keyof C]: C[K] extends Channel<any, any, true> ? K : never
}[keyof C]

/** What nodes see: a readonly record; channels without initial value are optional. */
export type State<C extends Fields, K extends keyof C = keyof C> = Types.Simplify<
  { readonly [P in K & AlwaysKeys<C>]: Value<C[P]> } & { readonly [P in Exclude<K, AlwaysKeys<C>>]?: Value<C[P]> }
>

/** What nodes return: an update for some of the channels. */
export type StateUpdate<C extends Fields, K extends keyof C = keyof C> = {
  readonly [P in K]?: Update<C[P]> | undefined
}

const Proto = {
  [TypeId]: {
    _Value: (_: never) => _,
    _Update: (_: never) => _,
    _Always: (_: never) => _
  },
  get kind(): Kind {
    return (this as unknown as Channel<unknown>).definition.kind
  },
  pipe() {
    return pipeArguments(this, arguments)
  }
}

/** A channel from its definition. */
export const fromDefinition = <Value, Update = Value, Always extends boolean = boolean>(
  definition: Definition
): Channel<Value, Update, Always> => {
  const self = Object.create(Proto)
  self.definition = definition
  return self
}

/** Tells whether a value is a channel. */
export const isChannel = (value: unknown): value is Any =>
  typeof value === "object" && value !== null && TypeId in value

// ---------------------------------------------------------------------------------------------------------------------
// Overwrite
// ---------------------------------------------------------------------------------------------------------------------

/** An update that replaces the value instead of going through the reducer; at most one a superstep. */
export class Overwrite<out A> {
  readonly __overwrite__: A
  constructor(value: A) {
    this.__overwrite__ = value
  }
}

/** Replaces a reducer's or log's value: the other updates of the superstep are dropped. */
export const overwrite = <A>(value: A): Overwrite<A> => new Overwrite(value)

const OVERWRITE = "__overwrite__"

/** The value inside an overwrite, in any of its forms (also after a JSON round trip), or `MISSING`. */
export const overwriteValue = (update: unknown): unknown => {
  if (typeof update !== "object" || update === null) return MISSING
  if (update instanceof Overwrite) return update.__overwrite__
  const record = update as Record<string, unknown>
  if (Object.hasOwn(record, OVERWRITE)) return Object.keys(record).length === 1 ? record[OVERWRITE] : MISSING
  return record.type === OVERWRITE && Object.hasOwn(record, "value") ? record.value : MISSING
}

// ---------------------------------------------------------------------------------------------------------------------
// constructors
// ---------------------------------------------------------------------------------------------------------------------

/** Holds the last value written; two writes in one superstep fail with `InvalidUpdate`. */
export const lastValue: {
  <A, I>(schema: Schema.Schema<A, I>, options: { readonly initial: () => NoInfer<A> }): Channel<A, A, true>
  <A, I>(schema: Schema.Schema<A, I>): Channel<A, A, false>
} = <A, I>(schema: Schema.Schema<A, I>, options?: { readonly initial?: () => A }): Channel<A, A, any> =>
  fromDefinition({ kind: "lastValue", schema, initial: options?.initial })

/** Holds one of the values written in the last superstep, for that superstep's successors only; never conflicts. */
export const anyValue = <A, I>(schema: Schema.Schema<A, I>): Channel<A, A, false> =>
  fromDefinition({ kind: "anyValue", schema })

/**
 * Holds a value for one superstep. With `guard` (default `true`) two writes in one superstep fail with
 * `InvalidUpdate`; without it the last one wins.
 */
export const ephemeral = <A, I>(
  schema: Schema.Schema<A, I>,
  options?: { readonly guard?: boolean | undefined }
): Channel<A, A, false> => fromDefinition({ kind: "ephemeral", schema, guard: options?.guard ?? true })

/** Holds a value during the run and is never saved: not in checkpoints, pending writes, or sends. */
export const untracked: {
  <A, I>(
    schema: Schema.Schema<A, I>,
    options: { readonly guard?: boolean | undefined; readonly initial: () => NoInfer<A> }
  ): Channel<A, A, true>
  <A, I>(schema: Schema.Schema<A, I>, options?: { readonly guard?: boolean | undefined }): Channel<A, A, false>
} = <A, I>(
  schema: Schema.Schema<A, I>,
  options?: { readonly guard?: boolean | undefined; readonly initial?: () => A }
): Channel<A, A, any> =>
  fromDefinition({ kind: "untracked", schema, guard: options?.guard ?? true, initial: options?.initial })

/**
 * Holds the list of values written in the last superstep; with `accumulate` all values ever written. Arrays are spread
 * one level. With `unique` a value that was seen before is dropped (compared as encoded).
 */
export const topic = <A, I>(
  schema: Schema.Schema<A, I>,
  options?: { readonly accumulate?: boolean | undefined; readonly unique?: boolean | undefined }
): Channel<ReadonlyArray<A>, A | ReadonlyArray<A>, false> =>
  fromDefinition({
    kind: "topic",
    schema,
    accumulate: options?.accumulate ?? false,
    unique: options?.unique ?? false
  })

/**
 * Folds updates into a value with a reducer, in the order of `semantics.md` 2.4. Without `initial` the first update
 * becomes the value as it is. `update` is the schema of one update where it differs from the value's. A reducer is a
 * pure function; one that throws fails the superstep with `InvalidUpdate`, and may throw one of its own.
 *
 * @example
 * ```ts
 * import { Schema } from "effect"
 * import { Channel } from "effect-pregel"
 *
 * const total = Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
 *
 * const votes = Channel.reduce(Schema.Record({ key: Schema.String, value: Schema.Int }), {
 *   initial: () => ({}),
 *   update: Schema.String,
 *   reducer: (count, name) => ({ ...count, [name]: (count[name] ?? 0) + 1 })
 * })
 * ```
 */
export const reduce: {
  <A, I, U, UI>(
    schema: Schema.Schema<A, I>,
    options: {
      readonly initial: () => NoInfer<A>
      readonly reducer: (value: A, update: U) => NoInfer<A>
      readonly update: Schema.Schema<U, UI>
    }
  ): Channel<A, U | Overwrite<A>, true>
  <A, I>(
    schema: Schema.Schema<A, I>,
    options: { readonly initial: () => NoInfer<A>; readonly reducer: (value: A, update: A) => NoInfer<A> }
  ): Channel<A, A | Overwrite<A>, true>
  <A, I>(
    schema: Schema.Schema<A, I>,
    options: { readonly reducer: (value: A, update: A) => NoInfer<A> }
  ): Channel<A, A | Overwrite<A>, false>
} = (
  schema: Schema.Schema<any, any>,
  options: {
    readonly initial?: () => unknown
    readonly reducer: (value: any, update: any) => unknown
    readonly update?: Schema.Schema<any, any>
  }
): any =>
  fromDefinition({
    kind: "reduce",
    schema,
    initial: options.initial,
    reducer: options.reducer,
    updateSchema: options.update
  })

/**
 * A log: updates are appended, each item is stored once, and a step costs what it adds. Arrays are spread one level.
 * It starts empty (or with `initial`).
 */
export const append = <A, I>(
  schema: Schema.Schema<A, I>,
  options?: { readonly initial?: () => ReadonlyArray<NoInfer<A>> }
): Channel<ReadonlyArray<A>, A | ReadonlyArray<A> | Overwrite<ReadonlyArray<A>>, true> =>
  fromDefinition({ kind: "append", schema, initial: options?.initial ?? (() => []) })

/** Becomes available when every one of `names` was written; consumed by the node it triggers. */
export const barrier = (names: ReadonlyArray<string>): Channel<null, string, false> =>
  fromDefinition({ kind: "barrier", schema: Schema.String, names })

/** A barrier that becomes available only when the run would otherwise end. */
export const barrierAfterFinish = (names: ReadonlyArray<string>): Channel<null, string, false> =>
  fromDefinition({ kind: "barrierAfterFinish", schema: Schema.String, names })

/** Holds the last value written and makes it available only when the run would otherwise end. */
export const lastValueAfterFinish = <A, I>(schema: Schema.Schema<A, I>): Channel<A, A, false> =>
  fromDefinition({ kind: "lastValueAfterFinish", schema })

/** Reads values that were saved under another channel name. */
export const renamedFrom =
  (name: string) =>
  <V, U, P extends boolean>(self: Channel<V, U, P>): Channel<V, U, P> =>
    fromDefinition({ ...self.definition, renamedFrom: name })

/**
 * Raises a channel's version: values saved by version `n` go through the migrations from `n` on before they are
 * decoded. Versions count from 1; `evolve` adds one.
 */
export const evolve =
  (migrate: (encoded: any) => unknown) =>
  <V, U, P extends boolean>(self: Channel<V, U, P>): Channel<V, U, P> => {
    const version = self.definition.version ?? 1
    return fromDefinition({
      ...self.definition,
      version: version + 1,
      migrations: [...(self.definition.migrations ?? []), { from: version, migrate }]
    })
  }

/** Kinds that an empty update clears: they live for one superstep. */
export const isTransient = (definition: Definition): boolean =>
  definition.kind === "anyValue" ||
  definition.kind === "ephemeral" ||
  (definition.kind === "topic" && definition.accumulate !== true)

/** Kinds that `finish` can make available. */
export const isAfterFinish = (definition: Definition): boolean =>
  definition.kind === "barrierAfterFinish" || definition.kind === "lastValueAfterFinish"
