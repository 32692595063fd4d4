/**
 * Documents in a key-value store that survive a crash at any moment: each is kept twice, and written over its older copy.
 */
import type { PlatformError } from "@effect/platform/Error"
import type { KeyValueStore } from "@effect/platform/KeyValueStore"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { CheckpointerError } from "../GraphError.js"
import { checksum } from "./record.js"

type Failing<A> = Effect.Effect<A, CheckpointerError>

/** Texts and documents under the keys that begin with a prefix. */
export const makeDocuments = (store: KeyValueStore, prefix: string) => {
  const failed = (cause: PlatformError) =>
    new CheckpointerError({ operation: "keyValueStore", reason: "Unavailable", detail: cause.message, cause })
  const damaged = (key: string, cause?: unknown) =>
    new CheckpointerError({
      operation: "keyValueStore",
      reason: "Corrupt",
      detail: `the key "${key}" is damaged`,
      cause
    })
  const get = (key: string): Failing<string | undefined> =>
    Effect.mapBoth(store.get(`${prefix}${key}`), { onFailure: failed, onSuccess: Option.getOrUndefined })
  const set = (key: string, text: string): Failing<void> => Effect.mapError(store.set(`${prefix}${key}`, text), failed)
  const remove = (key: string): Failing<void> => Effect.mapError(store.remove(`${prefix}${key}`), failed)

  const parse = <A>(key: string, text: string): Failing<A> =>
    Effect.try({ try: () => JSON.parse(text) as A, catch: (cause) => damaged(key, cause) })

  /** A copy of a document: its checksum, its version, itself. */
  const copyOf = (text: string | undefined): { readonly version: number; readonly body: string } | undefined => {
    const [sum, version, ...rest] = (text ?? "").split(" ")
    const body = rest.join(" ")
    return Number(sum) === checksum(body, Number(version)) && body !== ""
      ? { version: Number(version), body }
      : undefined
  }

  const copies = Effect.fnUntraced(function* (key: string) {
    const texts = [yield* get(`${key}.0`), yield* get(`${key}.1`)]
    const found = texts.map(copyOf)
    const newest = found.reduce((a, b) => (b !== undefined && (a === undefined || b.version > a.version) ? b : a))
    if (newest === undefined && texts.some((text) => text !== undefined && text !== "")) {
      // The first copy may have been cut short by a crash; then there is nothing yet. Two damaged ones are a loss.
      if (texts.every((text) => text !== undefined)) return yield* damaged(key)
    }
    return newest
  })

  return {
    get,
    set,
    remove,
    parse,
    read: <A>(key: string): Failing<A | undefined> =>
      Effect.flatMap(copies(key), (copy) =>
        copy === undefined ? Effect.succeed(undefined) : parse<A>(key, copy.body)
      ),
    /** Overwrites the older copy: the newer one stays whatever happens. */
    write: (key: string, document: unknown): Failing<void> =>
      Effect.flatMap(copies(key), (copy) => {
        const version = (copy?.version ?? 0) + 1
        const body = JSON.stringify(document)
        return set(`${key}.${version % 2}`, `${checksum(body, version)} ${version} ${body}`)
      }),
    forget: (key: string): Failing<void> => Effect.zipRight(remove(`${key}.0`), remove(`${key}.1`))
  }
}
