/**
 * Decorators of drivers for tests: a recording one, and one that fails on demand.
 */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type { Encoded } from "../CheckpointDriver.js"
import { CheckpointerError } from "../GraphError.js"

/** Names of a driver's operations. */
export type Operation = keyof Encoded

/** One call of a driver's operation. */
export interface Call {
  readonly operation: Operation
  readonly args: ReadonlyArray<unknown>
  /** Position among all calls, from 0. */
  readonly index: number
  /** Position among the calls of this operation, from 0. */
  readonly nth: number
}

/** A call with its outcome. */
export interface RecordedCall extends Call {
  readonly exit: Exit.Exit<unknown, CheckpointerError>
  /** Milliseconds since the epoch. */
  readonly started: number
  readonly ended: number
}

/** What goes wrong with a call. */
export type Fault =
  /** Nothing is carried out. */
  | { readonly _tag: "Fail"; readonly error?: CheckpointerError | undefined }
  /** Everything is carried out, but the answer is lost. */
  | { readonly _tag: "Lose" }
  /** Of several rows or writes only the first half is carried out, then the storage fails. */
  | { readonly _tag: "Tear" }
  /** The call arrives twice; the second answer is lost. */
  | { readonly _tag: "Duplicate" }
  | { readonly _tag: "Delay"; readonly duration: Duration.DurationInput }

type Around = (
  call: Call,
  run: (args: ReadonlyArray<any>) => Effect.Effect<any, CheckpointerError>
) => Effect.Effect<any, CheckpointerError>

/** A driver each of whose operations goes through `around`. */
const wrap = (encoded: Encoded, around: Around): Encoded => {
  let index = 0
  const counts = new Map<Operation, number>()
  const wrapped = Object.keys(encoded).map((name) => {
    const operation = name as Operation
    const original = encoded[operation] as (...args: ReadonlyArray<any>) => Effect.Effect<any, CheckpointerError>
    return [
      operation,
      (...args: ReadonlyArray<any>) =>
        Effect.suspend(() => {
          const nth = counts.get(operation) ?? 0
          counts.set(operation, nth + 1)
          return around({ operation, args, index: index++, nth }, (args) => original(...args))
        })
    ] as const
  })
  return Object.fromEntries(wrapped) as unknown as Encoded
}

/** Adds every call to `calls` when it ends. */
export const recordCalls = (encoded: Encoded, calls: Array<RecordedCall>): Encoded =>
  wrap(encoded, (call, run) =>
    Effect.flatMap(Clock.currentTimeMillis, (started) =>
      Effect.onExit(run(call.args), (exit) =>
        Effect.map(Clock.currentTimeMillis, (ended) => void calls.push({ ...call, exit, started, ended }))
      )
    )
  )

const lost = (call: Call, detail: string) =>
  new CheckpointerError({ operation: call.operation, reason: "Unavailable", detail: `${detail} (call ${call.index})` })

/** Arguments with the first half of the rows or writes that a call brings. */
const half = ({ args, operation }: Call): ReadonlyArray<unknown> => {
  const cut = (list: unknown) => (list as ReadonlyArray<unknown>).slice(0, (list as ReadonlyArray<unknown>).length >> 1)
  if (operation === "append") return [cut(args[0])]
  if (operation === "putWrites") return [args[0], args[1], cut(args[2]), args[3], args[4]]
  return args
}

/** Does to each call what `plan` says. */
export const injectFaults = (encoded: Encoded, plan: (call: Call) => Fault | undefined): Encoded =>
  wrap(encoded, (call, run) => {
    const fault = plan(call)
    switch (fault?._tag) {
      case undefined:
        return run(call.args)
      case "Fail":
        return Effect.fail(fault.error ?? lost(call, "the storage is gone"))
      case "Lose":
        return Effect.zipRight(run(call.args), Effect.fail(lost(call, "the answer is lost")))
      case "Tear":
        return Effect.zipRight(run(half(call)), Effect.fail(lost(call, "the storage died half-way")))
      case "Duplicate":
        return Effect.zipLeft(run(call.args), Effect.ignore(run(call.args)))
      case "Delay":
        return Effect.delay(run(call.args), fault.duration)
    }
  })
