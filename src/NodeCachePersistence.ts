/**
 * Keeps results of nodes and activities in a store of `@effect/experimental`'s Persistence: Redis, LMDB, or through
 * `Persistence.layerKeyValueStore` any KeyValueStore.
 *
 * Entries are found by a hash of their key and hold the key itself, so that inputs of equal hashes share nothing. To
 * clear a node raises the generation of its entries: no other entry of the store is touched.
 */
import * as Persistence from "@effect/experimental/Persistence"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import { NodeCacheError } from "./GraphError.js"
import { hash } from "./internal/hash.js"
import { type Entry, type Key, NodeCache } from "./NodeCache.js"

/** Where entries are kept. */
export interface Options {
  /** Name of the store; `"effect-pregel"` by default. */
  readonly storeId?: string | undefined
}

const Kept = Schema.Struct({ generation: Schema.String, key: Schema.String, value: Schema.String })
const decodeKept = Schema.decodeUnknownOption(Kept)

const placeOf = (graph: string, node: string) => JSON.stringify([graph, node])

const failed = (operation: NodeCacheError["operation"]) => (cause: unknown) =>
  new NodeCacheError({ operation, detail: cause instanceof Error ? cause.message : String(cause), cause })

/** The service over the store in the environment. */
export const make = Effect.fnUntraced(function* (options: Options = {}) {
  const backing = yield* Persistence.BackingPersistence
  const store = yield* backing.make(options.storeId ?? "effect-pregel")

  const generationKey = (graph: string, node: string) => `generation:${placeOf(graph, node)}`
  const entryKey = ({ graph, key, node }: Key) => `entry:${placeOf(graph, node)}:${hash(key)}`
  const toGeneration = (found: Option.Option<unknown> | undefined) =>
    found !== undefined && Option.isSome(found) && typeof found.value === "string" ? found.value : ""

  const get = (keys: ReadonlyArray<Key>) =>
    Effect.map(
      store.getMany([...keys.map(entryKey), ...keys.map(({ graph, node }) => generationKey(graph, node))]),
      (found) =>
        keys.map(({ key }, i) => {
          const kept = Option.flatMap(found[i] ?? Option.none(), decodeKept)
          if (Option.isNone(kept) || kept.value.key !== key) return undefined
          return kept.value.generation === toGeneration(found[keys.length + i]) ? kept.value.value : undefined
        })
    )

  const set = (entry: Entry) =>
    Effect.flatMap(store.get(generationKey(entry.graph, entry.node)), (found) => {
      const { key, ttl, value } = entry
      const kept: typeof Kept.Type = { generation: toGeneration(found), key, value }
      return store.set(entryKey(entry), kept, Option.fromNullable(ttl))
    })

  const clear = Effect.fnUntraced(function* (graph: string, nodes: ReadonlyArray<string>) {
    const now = yield* Clock.currentTimeMillis
    const random = yield* Random.nextInt
    for (const node of nodes) yield* store.set(generationKey(graph, node), `${now}-${random}`, Option.none())
  })

  return NodeCache.of({
    get: (keys) => Effect.mapError(get(keys), failed("get")),
    set: (entry) => Effect.mapError(set(entry), failed("set")),
    clear: (graph, nodes) => Effect.mapError(clear(graph, nodes), failed("clear"))
  })
})

/** Keeps results in the store of the environment. */
export const layer = (options: Options = {}): Layer.Layer<NodeCache, never, Persistence.BackingPersistence> =>
  Layer.scoped(NodeCache, make(options))
