/**
 * The saved form of the engine's own channels: a run's input, the packets of `Send`s, and who has arrived at a join.
 *
 * They hold values of the graph's channels, encoded as those channels say, and names of nodes. What was saved under
 * former names or by older versions of channels is read as the present ones.
 */
import * as Either from "effect/Either"
import type * as Schema from "effect/Schema"
import * as Channel from "./Channel.js"
import * as Codec from "./Codec.js"
import { stringify } from "./internal/json.js"
import { isSend, type Send, make as send } from "./Send.js"
import type { ChannelSpec } from "./Topology.js"

/** The channels of a graph, and what nodes and channels were called before. */
export interface Names {
  readonly specs: ReadonlyArray<ChannelSpec>
  readonly ids: ReadonlyMap<string, number>
  /** Former names of channels. */
  readonly renamed: ReadonlyMap<string, number>
  /** Former names of nodes, to the present ones. */
  readonly renamedNodes: ReadonlyMap<string, string>
}

/** The input record is saved as the updates it stands for. */
export const inputCodec = (names: Names): Codec.Codec => ({
  ...Codec.plain,
  encodeUpdate: (value) => recordText(names, value, encodeUpdate),
  encodeState: (value) => Either.map(recordText(names, value, encodeUpdate), ({ text }) => text),
  decodeState: (json, _, versions) => decodeRecord(names, json, "decodeUpdate", versions)
})

/** A `Send`'s argument: the target's own schema, or a record in which channels' values have the channels' schemas. */
export const argumentCodec = (names: Names, schema: Schema.Schema<any, any> | undefined): Codec.Codec => {
  if (schema !== undefined) return Codec.make(Channel.lastValue(schema))
  return {
    ...Codec.plain,
    encodeUpdate: (value) =>
      isPlainRecord(value) ? recordText(names, value, encodeValue) : Codec.plain.encodeUpdate(value),
    decodeUpdate: (json, _, versions) =>
      isPlainRecord(json) ? decodeRecord(names, json, "decodeValue", versions) : Either.right(json)
  }
}

const isPlainRecord = (value: unknown): value is Record<string, unknown> => {
  if (typeof value !== "object" || value === null) return false
  const proto = Object.getPrototypeOf(value)
  return proto === Object.prototype || proto === null
}

type Encode = (codec: Codec.Codec, item: unknown) => Either.Either<string | undefined, Codec.Refusal>
const encodeUpdate: Encode = (codec, item) => Either.map(codec.encodeUpdate(item), ({ text }) => text)
const encodeValue: Encode = (codec, item) => codec.encodeValue(item)

/** Encodes a record key by key with the codecs of the channels of those names; untracked channels are left out. */
const recordText = (names: Names, value: unknown, encode: Encode): Either.Either<Codec.Encoded, Codec.Refusal> => {
  const members: Array<string> = []
  for (const [name, item] of Object.entries(value as Record<string, unknown>)) {
    if (item === undefined) continue
    const spec = names.specs[names.ids.get(name) ?? -1]
    if (spec?.isState && !spec.tracked) continue
    const encoded = encode(spec?.isState ? spec.codec : Codec.plain, item)
    if (Either.isLeft(encoded)) return Either.left({ ...encoded.left, path: joinPath(name, encoded.left.path) })
    members.push(`${JSON.stringify(name)}:${encoded.right ?? "null"}`)
  }
  return Either.right(Codec.encodedAs(`{${members.join(",")}}`))
}

const joinPath = (name: string, rest: string) => (rest === "" ? name : `${name}.${rest}`)

const decodeRecord = (
  names: Names,
  json: unknown,
  by: "decodeUpdate" | "decodeValue",
  versions: Codec.Versions | undefined
): Either.Either<Record<string, unknown>, Codec.Refusal> => {
  const record: Record<string, unknown> = {}
  for (const [savedName, item] of Object.entries(json as Record<string, unknown>)) {
    const id = names.ids.get(savedName) ?? names.renamed.get(savedName)
    const spec = id === undefined ? undefined : names.specs[id]
    const name = spec?.isState ? spec.name : savedName
    const version = versions === undefined ? undefined : Codec.versionOf(versions, savedName)
    const decoded = (spec?.isState ? spec.codec : Codec.plain)[by](item, version)
    if (Either.isLeft(decoded)) return Either.left({ ...decoded.left, path: joinPath(name, decoded.left.path) })
    // A key "__proto__" is a key like any other.
    Object.defineProperty(record, name, { value: decoded.right, enumerable: true, configurable: true, writable: true })
  }
  return Either.right(record)
}

/** Packets name their target and carry their argument as its codec encodes it. */
export const sendsCodec = (names: Names, argumentOf: (node: string) => Codec.Codec | undefined): Codec.Codec => {
  const encodeOne = ({ arg, node, options }: Send) =>
    Either.map((argumentOf(node) ?? Codec.plain).encodeUpdate(arg), ({ excess, text }) => {
      const rest = options === undefined ? "" : `,${stringify({ key: options.key, timeout: options.timeout })}`
      return { text: `[${JSON.stringify(node)},${text ?? "null"}${rest}]`, excess }
    })
  const encodeAll = (packets: ReadonlyArray<Send>): Either.Either<Codec.Encoded, Codec.Refusal> =>
    Either.map(Either.all(packets.map(encodeOne)), (all) => ({
      text: `[${all.map(({ text }) => text).join(",")}]`,
      items: undefined,
      overwrite: false,
      excess: all.some(({ excess }) => excess)
    }))
  const decode = (json: unknown, versions: Codec.Versions | undefined): Either.Either<Send, Codec.Refusal> => {
    const [saved, arg, options] = json as [string, unknown, Send["options"]?]
    const node = names.renamedNodes.get(saved) ?? saved
    const decoded = (argumentOf(node) ?? Codec.plain).decodeUpdate(arg, undefined, versions)
    return Either.map(decoded, (value) => send(node, value, options))
  }
  const decodeAll = (json: unknown, _?: number, versions?: Codec.Versions) =>
    Either.all((json as ReadonlyArray<unknown>).map((packet) => decode(packet, versions)))
  return {
    ...Codec.plain,
    encodeUpdate: (value) => encodeAll(isSend(value) ? [value] : (value as ReadonlyArray<Send>)),
    decodeUpdate: decodeAll,
    encodeState: (value) => Either.map(encodeAll(value as ReadonlyArray<Send>), ({ text }) => text),
    decodeState: decodeAll
  }
}

/** The sources that have arrived at a join, by name. */
export const joinCodec = ({ renamedNodes }: Names): Codec.Codec => {
  const present = (name: unknown) => renamedNodes.get(name as string) ?? name
  return {
    ...Codec.plain,
    decodeUpdate: (json) => Either.right(present(json)),
    decodeState: (json) => {
      const [first, second] = json as ReadonlyArray<unknown>
      const deferred = Array.isArray(first) && typeof second === "boolean"
      return Either.right(deferred ? [first.map(present), second] : (json as ReadonlyArray<unknown>).map(present))
    }
  }
}
