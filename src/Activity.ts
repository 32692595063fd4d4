/**
 * Side effects that replay never repeats.
 *
 * A call's result is saved before the node goes on, under the task, the activity's name, its input and how often that
 * input was passed before. When the node runs again the saved result is returned; so calls may run in parallel, in any
 * order. A replay that passes another input than before fails with `ActivityMismatch`: at once where the node's own
 * fiber calls, at the task's end where calls have fibers of their own.
 *
 * The body of a call may pause, call other activities and run graphs: what it asks and calls is counted apart, so that
 * nothing of it is asked for again once its result is saved.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import type * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import {
  ActivityMismatch,
  CheckpointDecodeError,
  CheckpointerError,
  GraphInterrupt,
  InvalidUpdate,
  type StorageError,
  TaskTimeout,
  ThreadConflict
} from "./GraphError.js"
import { hash } from "./internal/hash.js"
import { NotJson, stringify, textOrNone } from "./internal/json.js"
import * as NodeCache from "./NodeCache.js"
import { type Scope, stoppingAt, Task, type TaskContext, unlessPaused } from "./Task.js"
import type { CachePolicy } from "./Topology.js"

/** The running call of an activity. */
export interface Call {
  /**
   * The same for every attempt and replay of this call, different for every other: pass it as idempotency key to the
   * outside system, which covers a crash between the effect and the saving of its result.
   */
  readonly key: string
}

/** The running call, provided to `execute`. */
export class CurrentCall extends Context.Tag("effect-pregel/Activity/CurrentCall")<CurrentCall, Call>() {}

/** The idempotency key of the running call. */
export const key: Effect.Effect<string, never, CurrentCall> = Effect.map(CurrentCall, (call) => call.key)

/** What a call can fail with besides its own failures: `InvalidUpdate` where a value does not fit its schema. */
export type Failure = ActivityMismatch | InvalidUpdate | StorageError

/** A durable side effect; call it inside a node. */
export interface Activity<out Name extends string, in Input, out A, out E, out R> {
  (input: Input): Effect.Effect<A, E | Failure, R | Task>
  readonly activityName: Name
}

/** When a failed call is repeated. */
export interface Retry<in E, out R> {
  readonly schedule: Schedule.Schedule<unknown, E, R>
  readonly while?: ((error: E) => boolean) | undefined
}

/** What an activity is made of. */
export interface Options<Input, II, A, AI, E, EI, E1, R, R2> {
  readonly input: Schema.Schema<Input, II>
  readonly success: Schema.Schema<A, AI>
  /**
   * Schema of failures. With it a node that catches a failure and pauses later meets the same failure again on resume;
   * without it the call runs again.
   */
  readonly error?: Schema.Schema<E, EI> | undefined
  readonly execute: (input: Input) => Effect.Effect<A, E1, R>
  /** Repeats a failed call; none by default. Pauses are never repeated. */
  readonly retry?: Schedule.Schedule<unknown, NoInfer<E1>, R2> | Retry<NoInfer<E1>, R2> | undefined
  /** Reuses results for equal inputs, over all threads, where there is a `NodeCache` in the context; default `false`. */
  readonly cache?: boolean | CachePolicy | undefined
}

/** Options of an activity whose calls have a time limit. */
export interface TimeoutOptions<Input, II, A, AI, E, EI, E1, R, R2>
  extends Options<Input, II, A, AI, E, EI, E1, R, R2> {
  /** Time limit of one attempt: it then fails with `TaskTimeout`. */
  readonly timeout: Duration.DurationInput
}

/**
 * A side effect whose result is saved before the node goes on.
 *
 * A failed call runs again when its node is retried or resumed; only a node that pauses after it caught the failure
 * keeps it, with the option `error`. An activity is called inside nodes and entrypoints only. Its name can't contain
 * `|`, `:`, `#` or `/`.
 *
 * @example
 * ```ts
 * import { Effect, Schedule, Schema } from "effect"
 * import { Activity } from "effect-pregel"
 *
 * const weather = Activity.make("weather", {
 *   input: Schema.String,
 *   success: Schema.Struct({ celsius: Schema.Number }),
 *   execute: (city) => Effect.succeed({ celsius: city.length }),
 *   retry: Schedule.recurs(3)
 * })
 *
 * const both = Effect.all([weather("Oslo"), weather("Rome")], { concurrency: "unbounded" })
 * ```
 */
export const make: {
  <const Name extends string, Input, II, A, AI, E1 extends E, R = never, E = unknown, EI = never, R2 = never>(
    name: Name,
    options: TimeoutOptions<Input, II, A, AI, E, EI, E1, R, R2>
  ): Activity<Name, Input, A, E1 | TaskTimeout, Exclude<R, CurrentCall> | R2>
  <const Name extends string, Input, II, A, AI, E1 extends E, R = never, E = unknown, EI = never, R2 = never>(
    name: Name,
    options: Options<Input, II, A, AI, E, EI, E1, R, R2>
  ): Activity<Name, Input, A, E1, Exclude<R, CurrentCall> | R2>
} = (name: string, options: AnyOptions): any => {
  if (name === "" || RESERVED.test(name))
    throw new TypeError(`activity "${name}": a name can't contain "|", ":", "#" or "/"`)
  if (isGenerator(options.execute))
    throw new TypeError(`activity "${name}": execute must return an Effect, not a generator`)
  const definition = define(name, options)
  const call = (input: unknown) =>
    Effect.withFiberRuntime<unknown, unknown, any>((fiber) =>
      Effect.flatMap(Task, (task) => unlessPaused(task, () => run(task, definition, input, fiber)))
    )
  return Object.assign(call, { activityName: name })
}

const RESERVED = /[|:#/]/

const isGenerator = (value: unknown): boolean => Object.prototype.toString.call(value).endsWith("GeneratorFunction]")

type AnyOptions = Omit<Options<any, any, any, any, any, any, any, any, any>, "execute"> & {
  readonly execute: (input: any) => any
  readonly timeout?: Duration.DurationInput
}

type Body = Effect.Effect<unknown, unknown, CurrentCall | Task>
type Parse = (value: unknown) => Either.Either<unknown, ParseResult.ParseIssue>

interface Definition {
  readonly name: string
  readonly encodeInput: Parse
  readonly encode: Parse
  readonly decode: Parse
  readonly encodeError: Parse | undefined
  readonly decodeError: Parse | undefined
  readonly execute: (input: unknown) => Body
  readonly limited: (task: TaskContext, body: Body) => Body
  readonly cache: CachePolicy | undefined
}

const define = (name: string, options: AnyOptions): Definition => ({
  name,
  encodeInput: ParseResult.encodeUnknownEither(options.input),
  encode: ParseResult.encodeUnknownEither(options.success),
  decode: ParseResult.decodeUnknownEither(options.success),
  encodeError: options.error && ParseResult.encodeUnknownEither(options.error),
  decodeError: options.error && ParseResult.decodeUnknownEither(options.error),
  execute: options.execute,
  limited: limits(name, options),
  cache: options.cache === true ? {} : options.cache === false ? undefined : options.cache
})

/** Puts a time limit and repetitions around a call, where they are asked for. */
const limits = (name: string, { retry, timeout }: AnyOptions): Definition["limited"] => {
  const policy = retry === undefined || "schedule" in retry ? retry : { schedule: retry }
  const limit = timeout === undefined ? undefined : Duration.toMillis(timeout)
  return (task, body) => {
    const expired = () =>
      new TaskTimeout({
        node: `${task.node}/${name}`,
        kind: "run",
        limitMillis: limit!,
        elapsedMillis: limit!,
        step: task.step
      })
    const attempt = limit === undefined ? body : Effect.timeoutFail(body, { duration: limit, onTimeout: expired })
    if (policy === undefined) return attempt
    const { schedule, while: mayRepeat } = policy as Retry<unknown, never>
    return Effect.retry(attempt, { schedule, while: (error) => !task.frame.paused && (mayRepeat?.(error) ?? true) })
  }
}

const count = (scope: Scope, name: string): number => {
  const counts = (scope.calls ??= new Map())
  const before = counts.get(name) ?? 0
  counts.set(name, before + 1)
  return before
}

/** A value of a call as JSON text; refused where it does not fit its schema. */
const textOf = (
  task: TaskContext,
  name: string,
  what: string,
  parse: Parse,
  value: unknown
): Either.Either<string | undefined, InvalidUpdate> => {
  const refuse = (reason: "InvalidValue" | "NotEncodable", detail: string) =>
    Either.left(new InvalidUpdate({ reason, node: task.node, detail: `the ${what} of activity "${name}": ${detail}` }))
  const encoded = parse(value)
  if (Either.isLeft(encoded)) return refuse("InvalidValue", ParseResult.TreeFormatter.formatIssueSync(encoded.left))
  try {
    return Either.right(encoded.right === undefined ? undefined : stringify(encoded.right))
  } catch (error) {
    if (error instanceof NotJson) return refuse("NotEncodable", error.message)
    throw error
  }
}

const fromText = (text: string | undefined): unknown => (text === undefined ? undefined : JSON.parse(text))

const run = Effect.fnUntraced(function* (task: TaskContext, definition: Definition, input: unknown, fiber: unknown) {
  const { frame, scope } = task
  const { name } = definition
  const inputText = yield* textOf(task, name, "input", definition.encodeInput, input)
  const call: Place = placeOf(scope, name, hash(inputText ?? ""), fiber)
  const saved = frame.saved?.claim(scope.scope, name, call.hash, call.occurrence)
  if (saved !== undefined) {
    const parse = saved.failed ? (definition.decodeError ?? Either.right) : definition.decode
    const value = parse(saved.value)
    if (Either.isLeft(value)) return yield* undecodable(task, name, value.left)
    return yield* saved.failed ? Effect.fail(value.right) : Effect.succeed(value.right)
  }
  if (call.ordinal >= 0 && frame.saved?.diverges(scope.scope, name, call.ordinal)) {
    return yield* new ActivityMismatch({ activity: name, node: task.node, occurrence: call.ordinal })
  }
  const key = `${task.thread ?? ""}/${task.id}/${scope.scope}${name}/${call.hash}/${call.occurrence}`
  const cached = definition.cache === undefined ? undefined : yield* lookUp(task, definition, call, input, inputText)
  if (cached?.hit !== undefined) return yield* succeed(task, call, key, cached.hit, true)
  const certainty = frame.mayAct()
  if (certainty !== undefined) yield* stopping(frame, certainty)
  const exit = yield* Effect.exit(definition.limited(task, bodyOf(task, definition, input, call, key)))
  frame.progress()
  if (Exit.isSuccess(exit)) {
    const text = yield* textOf(task, name, "result", definition.encode, exit.value)
    if (cached !== undefined) yield* cached.keep(text)
    return yield* succeed(task, call, key, { text, value: exit.value }, false)
  }
  const failure = Cause.failureOption(exit.cause)
  if (Option.isSome(failure) && definition.encodeError !== undefined && !isEngines(failure.value)) {
    const text = yield* textOf(task, name, "failure", definition.encodeError, failure.value)
    frame.failures = [...frame.failures, { failed: true, value: fromText(text), ...call }]
  }
  return yield* Effect.failCause(exit.cause)
})

interface Place {
  readonly scope?: string
  readonly name: string
  readonly hash: string
  readonly occurrence: number
  readonly ordinal: number
}

const placeOf = (scope: Scope, name: string, inputHash: string, fiber: unknown): Place => {
  const place = {
    name,
    hash: inputHash,
    occurrence: count(scope, `${name}\u0000${inputHash}`),
    ordinal: scope.body === fiber ? count(scope, name) : -1
  }
  return scope.scope === "" ? place : { scope: scope.scope, ...place }
}

/** Where the body of a call asks and calls. */
const scopeOf = ({ hash, name, occurrence, scope }: Place): string => `${scope ?? ""}${name}@${hash}.${occurrence}/`

/** The body of a call, with counters of its own for each attempt. */
const bodyOf = (task: TaskContext, { execute }: Definition, input: unknown, call: Place, key: string): Body =>
  Effect.withFiberRuntime<unknown, unknown, any>((fiber) => {
    const inner = task.frame.within(scopeOf(call))
    inner.scope.body = fiber
    return Effect.provide(execute(input), Context.add(Context.make(CurrentCall, { key }), Task, inner)) as Body
  })

/** A result is durable and told before the node goes on. */
const succeed = (
  { frame }: TaskContext,
  call: Place,
  key: string,
  { text, value }: { readonly text: string | undefined; readonly value: unknown },
  cached: boolean
): Effect.Effect<unknown, StorageError> =>
  Effect.zipRight(
    stopping(frame, frame.save({ failed: false, value: fromText(text), ...call })),
    Effect.suspend(() => Effect.as(frame.told(call.name, key, value, cached), value))
  )

/** A save that failed ends the run, whatever the node makes of it. */
const stopping = stoppingAt(CheckpointerError, ThreadConflict)

/** The engine's own failures are no results of the activity. */
const isEngines = (error: unknown): boolean =>
  error instanceof GraphInterrupt ||
  error instanceof ActivityMismatch ||
  error instanceof InvalidUpdate ||
  error instanceof CheckpointerError ||
  error instanceof CheckpointDecodeError ||
  error instanceof ThreadConflict

const undecodable = (task: TaskContext, name: string, issue: ParseResult.ParseIssue) =>
  new CheckpointDecodeError({
    thread: task.thread ?? "",
    namespace: task.namespace.join("|"),
    checkpoint: task.checkpoint,
    detail: `the saved result of activity "${name}": ${ParseResult.TreeFormatter.formatIssueSync(issue)}`
  })

/** Looks for a result of another call with the same input; `undefined` where results are not shared. */
const lookUp = Effect.fnUntraced(function* (
  task: TaskContext,
  { cache: policy, decode, name }: Definition,
  call: Place,
  input: unknown,
  inputText: string | undefined
) {
  const cache = policy === undefined ? undefined : task.frame.cache()
  if (policy === undefined || cache === undefined) return undefined
  const text = policy.key === undefined ? (inputText ?? "") : textOrNone(policy.key(input))
  if (text === undefined) return undefined
  const entry = { graph: task.graph, node: NodeCache.activity(name), key: text }
  const [found] = yield* NodeCache.find(cache, [entry])
  const value = found === undefined ? undefined : decode((JSON.parse(found) as [unknown?])[0])
  const hit =
    value === undefined || Either.isLeft(value)
      ? undefined
      : { text: found!.slice(1, -1) || undefined, value: value.right }
  const ttl = policy.ttl === undefined ? undefined : Duration.decode(policy.ttl)
  const keep = (result: string | undefined) =>
    task.frame.paused || task.frame.wasAsked(scopeOf(call))
      ? Effect.void
      : NodeCache.keep(cache, { ...entry, value: `[${result ?? ""}]`, ttl })
  return { hit, keep }
})
