/**
 * The saved form of a channel: checks and encodes what is written, decodes what is loaded, with the channel's schema.
 *
 * Codecs are built once for a graph. What can't be encoded is refused when it is written, with its path
 * (`internal/json.ts`); what can't be decoded is refused when it is loaded.
 */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Channel from "./Channel.js"
import { NotJson, stringify } from "./internal/json.js"

/** Why a value was refused. */
export interface Refusal {
  readonly detail: string
  readonly path: string
  readonly reason: "InvalidValue" | "NotEncodable"
}

/**
 * An encoded update: one JSON text, or for logs one text an item. `text` is `undefined` for the value `undefined`.
 */
export interface Encoded {
  readonly text: string | undefined
  readonly items: ReadonlyArray<string> | undefined
  readonly overwrite: boolean
  /** The value has keys that its schema does not name: they are not in the text. */
  readonly excess: boolean
}

/** The engine's own values: one text that says all. */
export const encodedAs = (text: string | undefined): Encoded => ({
  text,
  items: undefined,
  overwrite: false,
  excess: false
})

/** Versions of channels by name, where they are not the first. */
export type Versions = Readonly<Record<string, number>>

/** The version of a channel among saved ones. */
export const versionOf = (versions: Versions | undefined, name: string): number =>
  versions !== undefined && Object.hasOwn(versions, name) ? versions[name]! : 1

export interface Codec {
  /** Whether an update is what its schema says, with no key that the schema does not name. */
  readonly isExact: (update: unknown) => boolean
  /** Checks and encodes an update. */
  readonly encodeUpdate: (update: unknown) => Either.Either<Encoded, Refusal>
  /** Reads an update back; one of an older version is migrated first, where updates have the form of values. */
  readonly decodeUpdate: (json: unknown, version?: number, versions?: Versions) => Either.Either<unknown, Refusal>
  /** Encodes what a cell's `snapshot` gave. */
  readonly encodeState: (snapshot: unknown) => Either.Either<string | undefined, Refusal>
  /** Reads a snapshot back, after migrations from the channel version it was saved with (1 by default). */
  readonly decodeState: (json: unknown, version?: number, versions?: Versions) => Either.Either<unknown, Refusal>
  /** Encodes a value as nodes see it. */
  readonly encodeValue: (value: unknown) => Either.Either<string | undefined, Refusal>
  /** Reads such a value back; one of an older version is migrated first. */
  readonly decodeValue: (json: unknown, version?: number) => Either.Either<unknown, Refusal>
  /** True when the schema takes `undefined`, so that a key with `undefined` is a write and not an absence. */
  readonly takesUndefined: boolean
}

const refusalOf = (issue: ParseResult.ParseIssue): Refusal => {
  const first = ParseResult.ArrayFormatter.formatIssueSync(issue)[0]
  const path = (first?.path ?? []).map((part) => String(part)).join(".")
  return { detail: first?.message ?? ParseResult.TreeFormatter.formatIssueSync(issue), path, reason: "InvalidValue" }
}

const OPTIONS = { errors: "first", onExcessProperty: "ignore" } as const
const EXACT = { errors: "first", onExcessProperty: "error" } as const

interface Coder {
  readonly isExact: (value: unknown) => boolean
  readonly text: (value: unknown) => string | undefined
  /** Its text, and whether that leaves keys out. */
  readonly exactText: (value: unknown) => readonly [text: string | undefined, excess: boolean]
  readonly decode: (json: unknown) => unknown
}

/** Thrown inside this module only; turned into an `Either` at its border. */
class Refused {
  constructor(readonly refusal: Refusal) {}
}

const orRefuse = <A>(result: Either.Either<A, ParseResult.ParseIssue>): A => {
  if (Either.isRight(result)) return result.right
  throw new Refused(refusalOf(result.left))
}

const makeCoder = (schema: Schema.Schema<any, any>): Coder => {
  const validate = ParseResult.validateEither(schema, EXACT)
  const encode = ParseResult.encodeUnknownEither(schema, OPTIONS)
  const encodeExact = ParseResult.encodeUnknownEither(schema, EXACT)
  const decode = ParseResult.decodeUnknownEither(schema, OPTIONS)
  const textOf = (json: unknown) => (json === undefined ? undefined : stringify(json))
  const text = (value: unknown) => textOf(orRefuse(encode(value)))
  return {
    isExact: (value) => Either.isRight(validate(value)),
    text,
    exactText: (value) => {
      const exact = encodeExact(value)
      return Either.isRight(exact) ? [textOf(exact.right), false] : [text(value), true]
    },
    decode: (json) => orRefuse(decode(json))
  }
}

const attempt = <A>(body: () => A): Either.Either<A, Refusal> => {
  try {
    return Either.right(body())
  } catch (error) {
    if (error instanceof Refused) return Either.left(error.refusal)
    if (error instanceof NotJson) {
      return Either.left({ detail: error.message, path: error.path, reason: "NotEncodable" })
    }
    return Either.left({ detail: String(error), path: "", reason: "NotEncodable" })
  }
}

const listOf = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [value])

const required = (text: string | undefined): string => {
  if (text !== undefined) return text
  throw new NotJson("", "undefined is no JSON value")
}

/** A version that no migration is needed from. */
const CURRENT = Number.POSITIVE_INFINITY

const migrated = (definition: Channel.Definition, json: unknown, version: number): unknown => {
  let value = json
  for (const migration of definition.migrations ?? []) {
    if (migration.from >= version) value = migration.migrate(value)
  }
  return value
}

/** The codec of a channel. */
export const make = (channel: Channel.Any): Codec => {
  const definition = channel.definition
  switch (definition.kind) {
    case "topic":
    case "append":
      return makeList(definition)
    case "barrier":
    case "barrierAfterFinish":
      return plain
    case "lastValueAfterFinish":
      return makeAfterFinish(definition)
    default:
      return makeValue(definition)
  }
}

const makeValue = (definition: Channel.Definition): Codec => {
  const state = makeCoder(definition.schema)
  const update = definition.updateSchema === undefined ? state : makeCoder(definition.updateSchema)
  const reduces = definition.kind === "reduce"
  const encodeUpdate = (value: unknown): Encoded => {
    const replacement = reduces ? Channel.overwriteValue(value) : Channel.MISSING
    const overwrite = replacement !== Channel.MISSING
    const [text, excess] = overwrite ? state.exactText(replacement) : update.exactText(value)
    return { text: overwrite ? `{"__overwrite__":${required(text)}}` : text, items: undefined, overwrite, excess }
  }
  const encode = (value: unknown) => attempt(() => state.text(value))
  const decode = (json: unknown, version: number) => attempt(() => state.decode(migrated(definition, json, version)))
  return {
    isExact: (value) => {
      const replacement = reduces ? Channel.overwriteValue(value) : Channel.MISSING
      return replacement === Channel.MISSING ? update.isExact(value) : state.isExact(replacement)
    },
    encodeUpdate: (value) => attempt(() => encodeUpdate(value)),
    decodeUpdate: (json, version = CURRENT) =>
      attempt(() => {
        const replacement = reduces ? Channel.overwriteValue(json) : Channel.MISSING
        if (replacement !== Channel.MISSING) {
          return Channel.overwrite(state.decode(migrated(definition, replacement, version)))
        }
        return update.decode(update === state ? migrated(definition, json, version) : json)
      }),
    encodeState: encode,
    decodeState: (json, version = 1) => decode(json, version),
    encodeValue: encode,
    decodeValue: (json, version = CURRENT) => decode(json, version),
    takesUndefined: Schema.is(definition.updateSchema ?? definition.schema)(undefined)
  }
}

/** Logs and topics: lists of items; a unique topic also keeps the keys it has seen. */
const makeList = (definition: Channel.Definition): Codec => {
  const item = makeCoder(definition.schema)
  const texts = (value: unknown) => listOf(value).map((one) => required(item.text(one)))
  const encodeUpdate = (value: unknown): Encoded => {
    const replacement = definition.kind === "append" ? Channel.overwriteValue(value) : Channel.MISSING
    const overwrite = replacement !== Channel.MISSING
    let excess = false
    const items = listOf(overwrite ? replacement : value).map((one) => {
      const [text, hasMore] = item.exactText(one)
      excess ||= hasMore
      return required(text)
    })
    const list = `[${items.join(",")}]`
    return { text: overwrite ? `{"__overwrite__":${list}}` : list, items, overwrite, excess }
  }
  const decodeItems = (json: unknown) => listOf(json).map(item.decode)
  return {
    isExact: (value) => {
      const replacement = definition.kind === "append" ? Channel.overwriteValue(value) : Channel.MISSING
      return listOf(replacement === Channel.MISSING ? value : replacement).every(item.isExact)
    },
    encodeUpdate: (value) => attempt(() => encodeUpdate(value)),
    decodeUpdate: (json, version = CURRENT) =>
      attempt(() => {
        const replacement = definition.kind === "append" ? Channel.overwriteValue(json) : Channel.MISSING
        const items = decodeItems(migrated(definition, replacement === Channel.MISSING ? json : replacement, version))
        return replacement === Channel.MISSING ? items : Channel.overwrite(items)
      }),
    encodeState: (snapshot) =>
      attempt(() => {
        if (!definition.unique) return `[${texts(snapshot).join(",")}]`
        const [seen, items] = snapshot as [ReadonlyArray<unknown>, ReadonlyArray<unknown>]
        return `[${stringify(seen)},[${texts(items).join(",")}]]`
      }),
    decodeState: (json, version = 1) =>
      attempt(() => {
        if (!definition.unique) return decodeItems(migrated(definition, json, version))
        const [seen, items] = json as [ReadonlyArray<unknown>, unknown]
        return [seen, decodeItems(migrated(definition, items, version))]
      }),
    encodeValue: (value) => attempt(() => `[${texts(value).join(",")}]`),
    decodeValue: (json, version = CURRENT) => attempt(() => decodeItems(migrated(definition, json, version))),
    takesUndefined: false
  }
}

const makeAfterFinish = (definition: Channel.Definition): Codec => {
  const value = makeValue(definition)
  return {
    ...value,
    encodeState: (snapshot) => {
      const [held, finished] = snapshot as [unknown, boolean]
      return Either.map(value.encodeState(held), (text) => `[${text ?? "null"},${finished}]`)
    },
    decodeState: (json, version) => {
      const [held, finished] = json as [unknown, boolean]
      return Either.map(value.decodeState(held, version), (decoded) => [decoded, finished])
    }
  }
}

/** The engine's own channels hold JSON. */
export const plain: Codec = {
  isExact: () => true,
  encodeUpdate: (value) => attempt(() => encodedAs(stringify(value))),
  decodeUpdate: (json) => Either.right(json),
  encodeState: (snapshot) => attempt(() => stringify(snapshot)),
  decodeState: (json) => Either.right(json),
  encodeValue: (value) => attempt(() => stringify(value)),
  decodeValue: (json) => Either.right(json),
  takesUndefined: false
}
