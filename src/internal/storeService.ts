/** The rules of the store, over a driver's rows. */
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { StoreError } from "../GraphError.js"
import type {
  Changes,
  Driver,
  FoundItem,
  Item,
  Namespace,
  NamespaceOptions,
  Op,
  Position,
  Row,
  Store
} from "../Store.js"
import { NotJson, stringify } from "./json.js"
import { filterProblem, meets, similarity, textsAt } from "./storeFilter.js"
import { decodePath, decodeText, encodePath, encodeText, rangeOf } from "./storePath.js"

type Vectors = ReadonlyArray<ReadonlyArray<number>>

export interface Settings {
  readonly ttl: number | undefined
  readonly refreshOnRead: boolean
  readonly fields: ReadonlyArray<string>
  readonly embed: ((texts: ReadonlyArray<string>) => Effect.Effect<Vectors, StoreError>) | undefined
}

type Get = Extract<Op, { _tag: "Get" }>
type Put = Extract<Op, { _tag: "Put" }>
type Search = Extract<Op, { _tag: "Search" }>
type Touch = Changes["touches"][number]

/** Rows that a search reads at once. */
const PAGE = 500
const MAX_TEXT = 1000

const invalid = (operation: string, detail: string) => new StoreError({ operation, reason: "InvalidRequest", detail })

const isText = (text: unknown): text is string => typeof text === "string" && text !== "" && text.length <= MAX_TEXT

/** Ids may come from outside the types: anything but texts is refused. */
const placeProblem = (namespace: unknown, key?: unknown): string | undefined => {
  if (!Array.isArray(namespace)) return "a namespace is a list of texts"
  if (!namespace.every(isText)) return `a namespace is made of texts of 1 to ${MAX_TEXT} characters`
  if (key === undefined) return undefined
  if (namespace.length === 0) return "the namespace of an item must not be empty"
  return isText(key) ? undefined : `a key is a text of 1 to ${MAX_TEXT} characters`
}

const countProblem = (what: string, count: unknown): string | undefined =>
  count === undefined || (Number.isInteger(count) && (count as number) >= 0) ? undefined : `${what} must be 0 or more`

const problemOf = (op: Op): string | undefined => {
  switch (op._tag) {
    case "Get":
    case "Put":
      return placeProblem(op.namespace, op.key ?? "")
    case "Search":
      return (
        placeProblem(op.prefix) ??
        countProblem("limit", op.limit) ??
        countProblem("offset", op.offset) ??
        filterProblem(op.filter)
      )
    case "Namespaces":
      return (
        placeProblem(op.prefix ?? []) ??
        placeProblem(op.suffix ?? []) ??
        countProblem("limit", op.limit) ??
        countProblem("offset", op.offset) ??
        countProblem("maxDepth", op.maxDepth)
      )
  }
}

const toItem = ({ created, key, path, updated, value }: Row): Item => ({
  namespace: decodePath(path),
  key: decodeText(key),
  value: JSON.parse(value),
  created,
  updated
})

const keyOf = ({ key, namespace }: Get | Put) => ({ path: encodePath(namespace), key: encodeText(key) })

/** What a put's value is, or is not, as JSON text. */
const textOf = ({ value }: Put): Effect.Effect<string, StoreError> => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return invalid("put", "a value is a record")
  try {
    return Effect.succeed(stringify(value))
  } catch (error) {
    if (error instanceof NotJson) return invalid("put", error.message)
    throw error
  }
}

/** The operations of a store, as of one time. */
class Session {
  constructor(
    readonly driver: Driver,
    readonly settings: Settings,
    readonly now: number
  ) {}

  touched(op: { readonly refresh?: boolean | undefined }, rows: ReadonlyArray<Row>): ReadonlyArray<Touch> {
    if (!(op.refresh ?? this.settings.refreshOnRead)) return []
    return rows.flatMap(({ key, path, ttl }) => (ttl === undefined ? [] : [{ path, key, expires: this.now + ttl }]))
  }

  rowOf(put: Put, text: string, vectors: Vectors | undefined): Row {
    const { now, settings } = this
    const given = put.ttl === undefined ? settings.ttl : Duration.toMillis(put.ttl)
    const ttl = given === Number.POSITIVE_INFINITY ? undefined : given
    return {
      ...keyOf(put),
      value: text,
      created: now,
      updated: now,
      ttl,
      expires: ttl === undefined ? undefined : now + ttl,
      vectors: vectors === undefined ? undefined : JSON.stringify(vectors)
    }
  }

  /** Vectors of all texts of some puts, in one call. */
  readonly embedAll = Effect.fnUntraced(function* (this: Session, puts: ReadonlyArray<Put>) {
    const { embed, fields } = this.settings
    if (embed === undefined) return []
    const texts = puts.map(({ index, value }) =>
      index === false ? [] : (index ?? fields).flatMap((path) => textsAt(value, path))
    )
    const all = texts.flat()
    if (all.length === 0) return []
    const vectors = yield* embed(all)
    if (vectors.length !== all.length) {
      return yield* invalid("embed", `the embedding gave ${vectors.length} vectors for ${all.length} texts`)
    }
    let next = 0
    return texts.map((own) => (own.length === 0 ? undefined : vectors.slice(next, (next += own.length))))
  })

  /** Rows below a prefix that meet a filter, newest first, until there are enough of them. */
  readonly scan = Effect.fnUntraced(function* (this: Session, { filter, prefix }: Search, enough: number) {
    const found: Array<Row> = []
    let after: Position | undefined
    while (found.length < enough) {
      const limit = filter === undefined ? Math.min(PAGE, enough - found.length) : PAGE
      const page: ReadonlyArray<Row> = yield* this.driver.page(rangeOf(prefix), after, limit, this.now)
      for (const row of page) if (filter === undefined || meets(JSON.parse(row.value), filter)) found.push(row)
      if (page.length < limit) break
      after = page[page.length - 1]
    }
    return found.slice(0, enough)
  })

  readonly search = Effect.fnUntraced(function* (this: Session, op: Search) {
    const { limit = 10, offset = 0, query } = op
    const { embed } = this.settings
    if (query === undefined || embed === undefined) {
      const rows = (yield* this.scan(op, offset + limit)).slice(offset)
      return rows.map((row) => ({ row, score: undefined }))
    }
    const [vector = []] = yield* embed([query])
    const all = yield* this.scan(op, Number.POSITIVE_INFINITY)
    const ranked = all.map((row) => ({ row, score: scoreOf(row, vector) }))
    // Items without vectors come last, newest first as they were found.
    ranked.sort((a, b) => (b.score ?? -2) - (a.score ?? -2))
    return ranked.slice(offset, offset + limit)
  })

  readonly namespaces = Effect.fnUntraced(function* (this: Session, options: NamespaceOptions) {
    const { limit = 100, maxDepth, offset = 0, prefix = [], suffix = [] } = options
    const wild = prefix.indexOf("*")
    const paths = yield* this.driver.paths(rangeOf(wild < 0 ? prefix : prefix.slice(0, wild)), this.now)
    const found = new Map<string, Namespace>()
    for (const namespace of paths.map(decodePath)) {
      if (!startsWith(namespace, prefix) || !endsWith(namespace, suffix)) continue
      const cut = maxDepth === undefined ? namespace : namespace.slice(0, maxDepth)
      found.set(encodePath(cut), cut)
    }
    return Array.from(found.values()).slice(offset, offset + limit)
  })

  /** Reads in the order of the operations; what they touch is put to `touches`. */
  readonly read = Effect.fnUntraced(function* (this: Session, ops: ReadonlyArray<Op>, touches: Array<Touch>) {
    const gets = ops.filter((op) => op._tag === "Get")
    const rows = gets.length === 0 ? [] : yield* this.driver.get(gets.map(keyOf), this.now)
    const results: Array<unknown> = []
    let next = 0
    for (const op of ops) {
      if (op._tag === "Get") {
        const row = rows[next++]
        if (row !== undefined) touches.push(...this.touched(op, [row]))
        results.push(row === undefined ? Option.none() : Option.some(toItem(row)))
      } else if (op._tag === "Search") {
        const found = yield* this.search(op)
        for (const { row } of found) touches.push(...this.touched(op, [row]))
        results.push(found.map(({ row, score }): FoundItem => ({ ...toItem(row), score })))
      } else results.push(op._tag === "Namespaces" ? yield* this.namespaces(op) : undefined)
    }
    return results
  })

  readonly batch = Effect.fnUntraced(function* (this: Session, ops: ReadonlyArray<Op>) {
    for (const op of ops) {
      const problem = problemOf(op)
      if (problem !== undefined) return yield* invalid(op._tag.toLowerCase(), problem)
    }
    const puts = lastOf(ops.filter((op) => op._tag === "Put"))
    const kept = puts.filter(({ value }) => value !== undefined)
    const texts = yield* Effect.forEach(kept, textOf)
    const vectors = yield* this.embedAll(kept)
    const touches: Array<Touch> = []
    const results = yield* this.read(ops, touches)
    const changes: Changes = {
      puts: kept.map((put, i) => this.rowOf(put, texts[i]!, vectors[i])),
      removes: puts.filter(({ value }) => value === undefined).map(keyOf),
      touches
    }
    if (puts.length + touches.length > 0) yield* this.driver.write(changes, this.now)
    return results
  })
}

/** The store over a driver. */
export const makeStore = (driver: Driver, settings: Settings): Context.Tag.Service<typeof Store> => {
  const batch = (ops: ReadonlyArray<Op>) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => new Session(driver, settings, now).batch(ops))
  const one = (op: Op): Effect.Effect<any, StoreError> => Effect.map(batch([op]), ([result]) => result)
  return {
    get: (namespace, key, options) => one({ _tag: "Get", namespace, key, ...options }),
    put: (namespace, key, value, options) => one({ _tag: "Put", namespace, key, value, ...options }),
    delete: (namespace, key) => one({ _tag: "Put", namespace, key, value: undefined }),
    search: (prefix, options) => one({ _tag: "Search", prefix, ...options }),
    namespaces: (options) => one({ _tag: "Namespaces", ...options }),
    batch: (ops) => batch(ops) as Effect.Effect<any, StoreError>,
    sweep: Effect.flatMap(Clock.currentTimeMillis, driver.sweep)
  }
}

/** An item's best similarity over its vectors. */
const scoreOf = ({ vectors }: Row, query: ReadonlyArray<number>): number | undefined =>
  vectors === undefined
    ? undefined
    : Math.max(...(JSON.parse(vectors) as Vectors).map((vector) => similarity(query, vector)))

const startsWith = (namespace: Namespace, pattern: Namespace): boolean =>
  namespace.length >= pattern.length && pattern.every((segment, i) => segment === "*" || segment === namespace[i])

const endsWith = (namespace: Namespace, pattern: Namespace): boolean =>
  namespace.length >= pattern.length && startsWith(namespace.slice(namespace.length - pattern.length), pattern)

/** Of several puts of one item the last one. */
const lastOf = (puts: ReadonlyArray<Put>): ReadonlyArray<Put> => {
  const last = new Map<string, Put>()
  for (const put of puts) {
    const { key, path } = keyOf(put)
    last.delete(path + key)
    last.set(path + key, put)
  }
  return Array.from(last.values())
}
