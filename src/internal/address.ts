/**
 * Addresses as storage takes them, and exact matching.
 */
import * as Effect from "effect/Effect"
import type { Address, Json } from "../Checkpoint.js"
import { CheckpointerError } from "../GraphError.js"
import { encodeName } from "./record.js"

/** Most bytes of a thread id, namespace, task or channel name in UTF-8. */
const MAX_NAME = 1200

const isLong = (text: string): boolean => text.length > MAX_NAME / 3 && new TextEncoder().encode(text).length > MAX_NAME

/** Whether a name can be stored; callers without types may pass anything. */
export const nameProblem = (what: string, name: unknown): string | undefined => {
  if (typeof name !== "string") return `${what} must be a text`
  if (isLong(encodeName(name))) return `${what} is longer than ${MAX_NAME} bytes`
  return undefined
}

/** A request that no storage can carry out. */
export const invalid = (operation: string, thread: string, detail: string) =>
  new CheckpointerError({ operation, reason: "InvalidRequest", detail, thread: String(thread) })

/** What is wrong with an address, if anything. */
export const addressProblem = ({ namespace, thread }: Address): string | undefined =>
  thread === ""
    ? "the thread id is empty"
    : (nameProblem("the thread id", thread) ?? nameProblem("the namespace", namespace))

/** An address in names that every storage takes. */
export const encodeAddress = ({ namespace, thread }: Address): Address => ({
  thread: encodeName(thread),
  namespace: encodeName(namespace)
})

/** Equality of JSON values. */
const equalJson = (a: Json, b: Json): boolean => {
  if (a === b) return true
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const keys = Object.keys(a)
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && equalJson((a as any)[key], (b as any)[key]))
  )
}

/** Whether a record has every field of a filter, with an equal value. */
export const matches = (record: Readonly<Record<string, Json>>, filter: Readonly<Record<string, Json>>): boolean =>
  Object.keys(filter).every((key) => Object.hasOwn(record, key) && equalJson(record[key], filter[key]))

/** Runs an operation on a thread whose name can be stored. */
export const onThread = <A, E>(
  operation: string,
  thread: string,
  run: (thread: string) => Effect.Effect<A, E>
): Effect.Effect<A, E | CheckpointerError> =>
  Effect.suspend((): Effect.Effect<A, E | CheckpointerError> => {
    const problem = addressProblem({ thread, namespace: "" })
    return problem === undefined ? run(encodeName(thread)) : Effect.fail(invalid(operation, thread, problem))
  })

/** Milliseconds since the epoch. */
export const now: Effect.Effect<number> = Effect.clockWith((clock) => clock.currentTimeMillis)
