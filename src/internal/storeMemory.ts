/** The driver of the store in memory. */
import * as Effect from "effect/Effect"
import type { Driver, Position, Row } from "../Store.js"

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** Newest first, then by place. */
const order = (a: Position, b: Position): number =>
  b.updated - a.updated || compare(a.path, b.path) || compare(a.key, b.key)

const lives = (row: Row | undefined, now: number): row is Row =>
  row !== undefined && (row.expires === undefined || row.expires > now)

/** Rows by path and key. */
export const makeMemory = (): Driver => {
  const paths = new Map<string, Map<string, Row>>()
  const find = (path: string, key: string): Row | undefined => paths.get(path)?.get(key)
  const set = (row: Row) => {
    let rows = paths.get(row.path)
    if (rows === undefined) paths.set(row.path, (rows = new Map()))
    rows.set(row.key, row)
  }
  const remove = ({ key, path }: Pick<Row, "path" | "key">) => {
    const rows = paths.get(path)
    rows?.delete(key)
    if (rows?.size === 0) paths.delete(path)
  }
  const living = ([from, to]: readonly [string, string], now: number): Array<Row> => {
    const found: Array<Row> = []
    for (const [path, rows] of paths) {
      if (path < from || path >= to) continue
      for (const row of rows.values()) if (lives(row, now)) found.push(row)
    }
    return found
  }
  return {
    get: (keys, now) =>
      Effect.sync(() =>
        keys.map(({ key, path }) => {
          const row = find(path, key)
          return lives(row, now) ? row : undefined
        })
      ),
    page: (range, after, limit, now) =>
      Effect.sync(() =>
        living(range, now)
          .filter((row) => after === undefined || order(after, row) < 0)
          .sort(order)
          .slice(0, limit)
      ),
    paths: (range, now) => Effect.sync(() => Array.from(new Set(living(range, now).map(({ path }) => path))).sort()),
    write: ({ puts, removes, touches }, now) =>
      Effect.sync(() => {
        for (const row of puts) {
          const before = find(row.path, row.key)
          set(lives(before, now) ? { ...row, created: before.created } : row)
        }
        for (const row of removes) remove(row)
        for (const { expires, key, path } of touches) {
          const row = find(path, key)
          if (lives(row, now)) set({ ...row, expires })
        }
      }),
    sweep: (now) =>
      Effect.sync(() => {
        const over = Array.from(paths.values()).flatMap((rows) =>
          Array.from(rows.values()).filter((r) => !lives(r, now))
        )
        over.forEach(remove)
        return over.length
      })
  }
}
