/**
 * Encryption at rest: AES-GCM through Web Crypto around any saver.
 *
 * Values, logs, pending writes and metadata are encrypted. Ids stay readable, as they are looked up: threads,
 * namespaces, numbers, names of graphs, tasks and channels of pending writes, and the thread's status. Each text is
 * bound to its place, so that one moved to another row does not decrypt; plain text is never accepted.
 */
import * as Effect from "effect/Effect"
import * as Encoding from "effect/Encoding"
import type * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type { Address, PendingWrite } from "./Checkpoint.js"
import type { Append, Column, Encoded, EncodedThread, EncodedThreadInfo } from "./CheckpointDriver.js"
import { type Checkpointer, mapEncoded } from "./Checkpointer.js"
import { CheckpointerError } from "./GraphError.js"

/** The keys. To rotate, add a key and make it the current one; keep old keys as long as texts need them. */
export interface Options {
  /** AES keys of 16 or 32 bytes by id; an id is made of letters, digits, `-` and `_`. */
  readonly keys: Readonly<Record<string, Redacted.Redacted<Uint8Array>>>
  /** Id of the key that new texts are encrypted with. */
  readonly current: string
}

/** Format of an encrypted text: version, id of the key, then nonce and ciphertext in base64url. */
const PREFIX = "e1"

const NONCE = 12

/** Where a text belongs; what is authenticated with it. */
type Place = ReadonlyArray<string | number>

interface Cipher {
  readonly encrypt: (text: string, place: Place) => Effect.Effect<string, CheckpointerError>
  readonly decrypt: (text: string, place: Place) => Effect.Effect<string, CheckpointerError>
}

const failure = (reason: CheckpointerError["reason"], detail: string, cause?: unknown) =>
  new CheckpointerError({ operation: "encryption", reason, detail, cause })

const bytesOf = (text: string) => new TextEncoder().encode(text)

const makeCipher = Effect.fnUntraced(function* (options: Options) {
  const keys = new Map<string, Awaited<ReturnType<typeof crypto.subtle.importKey>>>()
  for (const [id, key] of Object.entries(options.keys)) {
    if (!/^[\w-]+$/.test(id)) return yield* failure("InvalidRequest", `"${id}" is no id of a key`)
    const bytes = new Uint8Array(Redacted.value(key))
    const imported = yield* Effect.tryPromise({
      try: () => crypto.subtle.importKey("raw", bytes, "AES-GCM", false, ["encrypt", "decrypt"]),
      catch: (cause) => failure("InvalidRequest", `the key "${id}" is no AES key`, cause)
    })
    keys.set(id, imported)
  }
  const current = keys.get(options.current)
  if (current === undefined) return yield* failure("InvalidRequest", `there is no key "${options.current}"`)

  const cipher: Cipher = {
    encrypt: (text, place) =>
      Effect.tryPromise({
        try: async () => {
          const iv = crypto.getRandomValues(new Uint8Array(NONCE))
          const additionalData = bytesOf(JSON.stringify(place))
          const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv, additionalData }, current, bytesOf(text))
          const all = new Uint8Array(NONCE + sealed.byteLength)
          all.set(iv)
          all.set(new Uint8Array(sealed), NONCE)
          return `${PREFIX}:${options.current}:${Encoding.encodeBase64Url(all)}`
        },
        catch: (cause) => failure("Unavailable", "a text can't be encrypted", cause)
      }),
    decrypt: Effect.fnUntraced(function* (text: string, place: Place) {
      const [prefix, id = "", body = "", ...rest] = text.split(":")
      const at = place.join(", ")
      if (prefix !== PREFIX || rest.length > 0) return yield* failure("Corrupt", `a text is not encrypted (${at})`)
      const key = keys.get(id)
      if (key === undefined)
        return yield* failure("Corrupt", `a text is encrypted with the unknown key "${id}" (${at})`)
      const all = yield* Effect.mapError(Encoding.decodeBase64Url(body), (cause) =>
        failure("Corrupt", `an encrypted text is damaged (${at})`, cause)
      )
      return yield* Effect.tryPromise({
        try: async () => {
          const bytes = new Uint8Array(all)
          const iv = bytes.subarray(0, NONCE)
          const additionalData = bytesOf(JSON.stringify(place))
          const open = await crypto.subtle.decrypt({ name: "AES-GCM", iv, additionalData }, key, bytes.subarray(NONCE))
          return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(open)
        },
        catch: () => failure("Corrupt", `a text was changed, or belongs elsewhere (${at})`)
      })
    })
  }
  return cipher
})

const placeOf = (kind: string, { namespace, thread }: Address, seq: number): Place => [kind, thread, namespace, seq]

const writePlace = (address: Address, seq: number, { channel, index, path, task }: PendingWrite): Place => [
  ...placeOf("write", address, seq),
  task,
  channel,
  index,
  path
]

/** A log or data that may be missing; an empty text stands for itself. */
const optional = <A extends string | null>(
  text: A,
  run: (text: string) => Effect.Effect<string, CheckpointerError>
): Effect.Effect<A, CheckpointerError> =>
  text === null || text === "" ? Effect.succeed(text) : (run(text) as Effect.Effect<A, CheckpointerError>)

/** Both directions for what the driver's operations carry. */
const makeCodec = ({ decrypt, encrypt }: Cipher) => {
  const onWrites =
    (run: Cipher["encrypt"]) =>
    <W extends PendingWrite>(address: Address, seq: number, writes: ReadonlyArray<W>) =>
      Effect.forEach(writes, (write) =>
        Effect.map(run(write.value, writePlace(address, seq, write)), (value): W => ({ ...write, value }))
      )
  const onTexts =
    (run: Cipher["encrypt"]) =>
    <Row extends { readonly seq: number; readonly log: string | null; readonly data: string }>(
      address: Address,
      row: Row
    ) =>
      Effect.zipWith(
        optional(row.log, (text) => run(text, placeOf("log", address, row.seq))),
        optional(row.data, (text) => run(text, placeOf("data", address, row.seq))),
        (log, data): Row => ({ ...row, log, data })
      )
  return {
    encryptWrites: onWrites(encrypt),
    decryptWrites: onWrites(decrypt),
    encryptTexts: onTexts(encrypt),
    decryptTexts: onTexts(decrypt),
    encryptThread: (thread: string, info: EncodedThread) =>
      Effect.map(encrypt(info.metadata, ["thread", thread]), (metadata): EncodedThread => ({ ...info, metadata })),
    decryptThread: (info: EncodedThreadInfo) =>
      Effect.map(
        decrypt(info.metadata, ["thread", info.thread]),
        (metadata): EncodedThreadInfo => ({ ...info, metadata })
      )
  }
}

type Codec = ReturnType<typeof makeCodec>

const encryptAppends = (codec: Codec) =>
  Effect.fnUntraced(function* (rows: ReadonlyArray<Append>) {
    const done = new Map<Append, Append>()
    for (const row of rows) {
      const { log, data } = yield* codec.encryptTexts(row.address, row)
      const writes = yield* codec.encryptWrites(row.address, row.seq, row.writes)
      const thread = row.thread && (yield* codec.encryptThread(row.address.thread, row.thread))
      done.set(row, { ...row, log, data, writes, thread, follows: row.follows && done.get(row.follows) })
    }
    return Array.from(done.values())
  })

const writing = (encoded: Encoded, codec: Codec): Pick<Encoded, "append" | "putWrites" | "rewrite" | "putThread"> => ({
  append: (rows) => Effect.flatMap(encryptAppends(codec)(rows), encoded.append),
  putWrites: (address, seq, writes, fence, status) =>
    Effect.flatMap(codec.encryptWrites(address, seq, writes), (sealed) =>
      encoded.putWrites(address, seq, sealed, fence, status)
    ),
  rewrite: (change) =>
    Effect.flatMap(
      Effect.forEach(change.rows, (row) =>
        Effect.zipWith(
          codec.encryptTexts(change.address, row),
          row.writes === undefined
            ? Effect.succeed(undefined)
            : codec.encryptWrites(change.address, row.seq, row.writes),
          (texts, writes) => ({ ...texts, writes })
        )
      ),
      (rows) => encoded.rewrite({ ...change, rows })
    ),
  putThread: (thread, info, now) =>
    Effect.flatMap(codec.encryptThread(thread, info), (sealed) => encoded.putThread(thread, sealed, now))
})

type Reads = "read" | "data" | "logs" | "page" | "raw" | "thread" | "threads"

const reading = (encoded: Encoded, cipher: Cipher, codec: Codec): Pick<Encoded, Reads> => {
  const column =
    (kind: string, read: Encoded["data"]): Encoded["data"] =>
    (address, ranges) =>
      Effect.flatMap(read(address, ranges), (rows: Column) =>
        Effect.forEach(rows, ({ seq, text }) =>
          Effect.map(cipher.decrypt(text, placeOf(kind, address, seq)), (text) => ({ seq, text }))
        )
      )
  const openRow = <
    Row extends { readonly seq: number; readonly data: string; readonly writes: ReadonlyArray<PendingWrite> }
  >(
    address: Address,
    row: Row
  ) =>
    Effect.zipWith(
      optional(row.data, (text) => cipher.decrypt(text, placeOf("data", address, row.seq))),
      codec.decryptWrites(address, row.seq, row.writes),
      (data, writes): Row => ({ ...row, data, writes })
    )
  return {
    read: (address, seq) =>
      Effect.flatMap(encoded.read(address, seq), (found) =>
        found.row === undefined
          ? Effect.succeed(found)
          : Effect.map(openRow(address, found.row), (row): typeof found => ({ ...found, row }))
      ),
    data: column("data", encoded.data),
    logs: column("log", encoded.logs),
    page: (address, before, limit) =>
      Effect.flatMap(encoded.page(address, before, limit), (rows) =>
        Effect.forEach(rows, (row) => openRow(address, row))
      ),
    raw: (address, after, limit) =>
      Effect.flatMap(encoded.raw(address, after, limit), (rows) =>
        Effect.forEach(rows, (row) =>
          Effect.zipWith(
            codec.decryptTexts(address, row),
            codec.decryptWrites(address, row.seq, row.writes),
            (texts, writes) => ({ ...texts, writes })
          )
        )
      ),
    thread: (thread) =>
      Effect.flatMap(encoded.thread(thread), (info) =>
        // A thread that was only fenced has no description yet, and so nothing that was encrypted.
        info === undefined || info.graph === 0 ? Effect.succeed(info) : codec.decryptThread(info)
      ),
    threads: (after, limit, conditions) =>
      Effect.flatMap(encoded.threads(after, limit, conditions), (infos) =>
        Effect.forEach(infos, (info) => (info.graph === 0 ? Effect.succeed(info) : codec.decryptThread(info)))
      )
  }
}

/** Encrypts what a saver stores. Random nonces allow 2^32 texts for a key; rotate before. */
export const encrypted = (
  options: Options
): (<E, R>(layer: Layer.Layer<Checkpointer, E, R>) => Layer.Layer<Checkpointer, E | CheckpointerError, R>) =>
  mapEncoded((encoded) =>
    Effect.map(makeCipher(options), (cipher): Encoded => {
      const codec = makeCodec(cipher)
      return { ...encoded, ...writing(encoded, codec), ...reading(encoded, cipher, codec) }
    })
  )
