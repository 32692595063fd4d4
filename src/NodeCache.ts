/**
 * Results of nodes and activities that are reused for equal inputs, beside threads and across them.
 *
 * What a node wrote is kept, not its new state: a hit writes the same to another state. Only successes are kept, never a
 * pause or a failure. Entries belong to a graph's and a node's name, so that nodes of different graphs share nothing. A
 * cache that fails counts as empty and is reported in the log: it never fails a run.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { NodeCacheError } from "./GraphError.js"

/** What an entry is found by. */
export interface Key {
  readonly graph: string
  /** A node's name, or `activity(name)`. */
  readonly node: string
  /** JSON text of the input, or of what the policy's key function made of it. */
  readonly key: string
}

/** An entry to be kept. */
export interface Entry extends Key {
  /** JSON text. */
  readonly value: string
  /** How long it is valid; for ever by default. */
  readonly ttl: Duration.Duration | undefined
}

/** Keeps results of nodes and activities. */
export class NodeCache extends Context.Tag("effect-pregel/NodeCache")<
  NodeCache,
  {
    /** The valid values of these keys, in their order; `undefined` for those that are not there. */
    readonly get: (keys: ReadonlyArray<Key>) => Effect.Effect<ReadonlyArray<string | undefined>, NodeCacheError>
    readonly set: (entry: Entry) => Effect.Effect<void, NodeCacheError>
    /** Forgets everything of these nodes of a graph. */
    readonly clear: (graph: string, nodes: ReadonlyArray<string>) => Effect.Effect<void, NodeCacheError>
  }
>() {}

/** The name under which results of an activity are kept: no node can have it. */
export const activity = (name: string): string => `activity:${name}`

/** Forgets everything that is kept of these nodes of a graph. */
export const clear = (graph: string, nodes: ReadonlyArray<string>): Effect.Effect<void, NodeCacheError, NodeCache> =>
  Effect.flatMap(NodeCache, (cache) => cache.clear(graph, nodes))

type Service = Context.Tag.Service<NodeCache>

/** What is kept under these keys; a cache that fails has nothing. @internal */
export const find = (cache: Service, keys: ReadonlyArray<Key>): Effect.Effect<ReadonlyArray<string | undefined>> =>
  Effect.catchAll(cache.get(keys), (error) =>
    Effect.as(
      Effect.logWarning(error.message),
      keys.map(() => undefined)
    )
  )

/** Keeps a result; a cache that fails does not. @internal */
export const keep = (cache: Service, entry: Entry): Effect.Effect<void> =>
  Effect.catchAll(cache.set(entry), (error) => Effect.logWarning(error.message))

interface Kept {
  readonly value: string
  /** Milliseconds since the epoch. */
  readonly expires: number
}

const DEFAULT_CAPACITY = 10_000

/** Entries in the order of their last use: the oldest one goes first. */
const makeMemory = (capacity: number): Service => {
  const nodes = new Map<string, Map<string, Kept>>()
  const order = new Map<string, readonly [place: string, key: string]>()
  const placeOf = (graph: string, node: string) => JSON.stringify([graph, node])

  const drop = (place: string, key: string) => {
    nodes.get(place)?.delete(key)
    order.delete(place + key)
  }
  const read = ({ graph, key, node }: Key, now: number): string | undefined => {
    const place = placeOf(graph, node)
    const kept = nodes.get(place)?.get(key)
    if (kept === undefined) return undefined
    order.delete(place + key)
    if (kept.expires > now) {
      order.set(place + key, [place, key])
      return kept.value
    }
    drop(place, key)
    return undefined
  }
  const put = ({ graph, key, node, ttl, value }: Entry, now: number) => {
    const place = placeOf(graph, node)
    let entries = nodes.get(place)
    if (entries === undefined) nodes.set(place, (entries = new Map()))
    drop(place, key)
    entries.set(key, { value, expires: ttl === undefined ? Number.POSITIVE_INFINITY : now + Duration.toMillis(ttl) })
    order.set(place + key, [place, key])
    if (order.size > capacity) drop(...order.values().next().value!)
  }
  return {
    get: (keys) => Effect.map(Clock.currentTimeMillis, (now) => keys.map((key) => read(key, now))),
    set: (entry) => Effect.map(Clock.currentTimeMillis, (now) => put(entry, now)),
    clear: (graph, names) =>
      Effect.sync(() => {
        for (const name of names) {
          const place = placeOf(graph, name)
          for (const key of nodes.get(place)?.keys() ?? []) order.delete(place + key)
          nodes.delete(place)
        }
      })
  }
}

/** Options of the cache in memory. */
export interface MemoryOptions {
  /** Most entries to keep, 10,000 by default: the one that was not used for the longest time goes first. */
  readonly capacity?: number | undefined
}

/** Keeps results in this process, until the layer is released. */
export const layerMemoryWith = (options: MemoryOptions): Layer.Layer<NodeCache> =>
  Layer.sync(NodeCache, () => makeMemory(options.capacity ?? DEFAULT_CAPACITY))

/** Keeps up to 10,000 results in this process, until the layer is released. */
export const layerMemory: Layer.Layer<NodeCache> = layerMemoryWith({})
