/**
 * Side effects that replay never repeats.
 *
 * A call's result is saved before the node goes on, under the task, the activity's name, its input and how often that
 * input was passed before. When the node runs again the saved result is returned; so calls may run in parallel, in any
 * order. A replay that calls with another input than before fails with `ActivityMismatch`.
 */

import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ActivityMismatch, type StorageError } from "./GraphError.js"
import { hash } from "./internal/hash.js"
import { stringify } from "./internal/json.js"
import { type SavedCall, Task, type TaskContext } from "./Task.js"

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

/** A durable side effect; call it inside a node. */
export interface Activity<out Name extends string, in Input, out A, out E, out R> {
  (input: Input): Effect.Effect<A, E | ActivityMismatch | StorageError, R | Task>
  readonly activityName: Name
}

export interface Options<Input, II, A, AI, E, EI, E1, R> {
  readonly input: Schema.Schema<Input, II>
  readonly success: Schema.Schema<A, AI>
  /** Needed for failures to be remembered by a node that catches them and pauses later. */
  readonly error?: Schema.Schema<E, EI> | undefined
  readonly execute: (input: Input) => Effect.Effect<A, E1, R>
}

/**
 * A side effect whose result is saved before the node goes on.
 *
 * Failures are not saved while the node may still be retried or resumed: they run again. An activity is called inside
 * nodes and entrypoints only.
 */
export const make = <const Name extends string, Input, II, A, AI, E1 extends E, R = never, E = unknown, EI = never>(
  name: Name,
  options: Options<Input, II, A, AI, E, EI, E1, R>
): Activity<Name, Input, A, E1, Exclude<R, CurrentCall>> => {
  const codec: Codec = {
    encodeInput: Schema.encodeSync(options.input),
    encode: Schema.encodeSync(options.success),
    decode: Schema.decodeUnknownSync(options.success),
    encodeError: options.error && Schema.encodeSync(options.error as Schema.Schema<unknown, unknown>),
    decodeError: options.error && Schema.decodeUnknownSync(options.error as Schema.Schema<unknown, unknown>)
  }
  const call = (input: Input) =>
    Effect.flatMap(Task, (task) => run(task, name, codec, input, options.execute as (input: unknown) => never))
  return Object.assign(call, { activityName: name }) as unknown as Activity<Name, Input, A, E1, Exclude<R, CurrentCall>>
}

interface Codec {
  readonly encodeInput: (input: any) => unknown
  readonly encode: (value: any) => unknown
  readonly decode: (json: unknown) => unknown
  readonly encodeError: ((error: unknown) => unknown) | undefined
  readonly decodeError: ((json: unknown) => unknown) | undefined
}

const count = (counts: Map<string, number>, name: string): number => {
  const before = counts.get(name) ?? 0
  counts.set(name, before + 1)
  return before
}

const run = Effect.fnUntraced(function* (
  task: TaskContext,
  name: string,
  codec: Codec,
  input: unknown,
  execute: (input: unknown) => Effect.Effect<unknown, unknown, CurrentCall>
) {
  const { frame } = task
  const inputHash = hash(stringify(codec.encodeInput(input) ?? null))
  const ordinal = count(frame.calls, name)
  const occurrence = count(frame.calls, `${name}\u0000${inputHash}`)
  const saved = frame.saved.find(
    (call) => call.name === name && call.hash === inputHash && call.occurrence === occurrence
  )
  if (saved !== undefined) {
    frame.claimed.add(saved)
    return yield* saved.failed
      ? Effect.fail(codec.decodeError!(saved.value))
      : Effect.succeed(codec.decode(saved.value))
  }
  if (diverged(task, name, ordinal)) {
    return yield* new ActivityMismatch({ activity: name, node: task.node, occurrence: ordinal })
  }
  const outcome = { name, hash: inputHash, occurrence, ordinal }
  const key = `${task.thread ?? ""}/${task.id}/${name}/${inputHash}/${occurrence}`
  frame.inFlight.set(name, (frame.inFlight.get(name) ?? 0) + 1)
  const exit = yield* Effect.exit(Effect.provideService(execute(input), CurrentCall, { key }))
  frame.inFlight.set(name, frame.inFlight.get(name)! - 1)
  frame.heartbeat()
  if (Exit.isSuccess(exit)) {
    yield* frame.save({ ...outcome, failed: false, value: codec.encode(exit.value) })
    return exit.value
  }
  const failure = Cause.failureOption(exit.cause)
  if (Option.isSome(failure) && codec.encodeError !== undefined) {
    frame.failures.push({ ...outcome, failed: true, value: codec.encodeError(failure.value) })
  }
  return yield* Effect.failCause(exit.cause)
})

/**
 * A call at a position where another input was saved, with no other call of the activity under way that could own that
 * position: the replay took another way. Among parallel calls the divergence shows at the task's end (`unclaimed`).
 */
const diverged = ({ frame }: TaskContext, name: string, ordinal: number): boolean => {
  if ((frame.inFlight.get(name) ?? 0) > 0) return false
  return frame.saved.some(
    (call: SavedCall) => call.name === name && call.ordinal === ordinal && !frame.claimed.has(call)
  )
}
