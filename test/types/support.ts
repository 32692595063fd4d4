/** What the type tests share: exact equality of types, a state, services and errors. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import * as Channel from "../../src/Channel.js"
import * as Graph from "../../src/Graph.js"
import type * as Errors from "../../src/GraphError.js"
import * as Interrupt from "../../src/Interrupt.js"

/** True when two types are the same, `any` and `never` included. */
export type Equals<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

/** Compiles for equal types only. */
export declare const exactly: <A, B>(equal: Equals<A, B>) => void

export type ErrorOf<T> =
  T extends Effect.Effect<any, infer E, any> ? E : T extends Stream.Stream<any, infer E, any> ? E : never
export type ContextOf<T> =
  T extends Effect.Effect<any, any, infer R> ? R : T extends Stream.Stream<any, any, infer R> ? R : never
export type SuccessOf<T> =
  T extends Effect.Effect<infer A, any, any> ? A : T extends Stream.Stream<infer A, any, any> ? A : never

export class LlmError extends Schema.TaggedError<LlmError>()("LlmError", {}) {}
export class RouteError extends Schema.TaggedError<RouteError>()("RouteError", {}) {}
export class ClerkError extends Schema.TaggedError<ClerkError>()("ClerkError", {}) {}

export class Llm extends Context.Tag("Llm")<
  Llm,
  { readonly chat: (log: ReadonlyArray<string>) => Effect.Effect<string, LlmError> }
>() {}
export class Router extends Context.Tag("Router")<
  Router,
  { readonly pick: (count: number) => Effect.Effect<"yes" | "no", RouteError> }
>() {}
export class Clerk extends Context.Tag("Clerk")<Clerk, { readonly file: Effect.Effect<void, ClerkError> }>() {}

export const Approve = Interrupt.make("approve", {
  request: Schema.Struct({ question: Schema.String }),
  answer: Schema.Boolean
})

/** A sum, a log, a choice without initial value, and a text without initial value. */
export const channels = {
  count: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b }),
  log: Channel.append(Schema.String),
  choice: Channel.lastValue(Schema.Literal("yes", "no")),
  note: Channel.lastValue(Schema.String)
}

/** A graph with these channels and no node. */
export const empty = Graph.make("empty", channels)

/** The failures that any run has. */
export type RunError = Errors.RunError
/** The failures of a run in which a pause is no failure. */
export type RunErrorOrPaused = Exclude<Errors.RunError, Errors.GraphInterrupt>
