/**
 * How a thread grows: a log of n items of 1 KiB in a SQLite file, its size after a WAL checkpoint, and the time to load
 * its head.
 */
import { mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import Database from "better-sqlite3"
import { Effect, Schema } from "effect"
import { Channel, Graph } from "effect-pregel"
import * as SqliteCheckpointer from "effect-pregel/SqliteCheckpointer"

const SIZES = [200, 250, 500, 1000, 2000]
const ITEM = 1024
const LOADS = 9

const graph = Graph.make("growth", { log: Channel.append(Schema.String) })
  .addNode("say", () => Effect.succeed({ log: "x".repeat(ITEM) }))
  .addEdge(Graph.START, "say")
  .addConditionalEdges("say", ({ log }) => (log.length < size ? "say" : Graph.END), ["say", Graph.END])
  .compile({ recursionLimit: 1_000_000 })

let size = 0

interface Growth {
  readonly n: number
  readonly bytes: number
  readonly loadMillis: number
}

const median = (values: ReadonlyArray<number>) => values.slice().sort((a, b) => a - b)[Math.floor(values.length / 2)]!

const measure = async (n: number, directory: string): Promise<Growth> => {
  size = n
  const filename = join(directory, `${n}.db`)
  const layer = SqliteCheckpointer.layer({ filename })
  await Effect.runPromise(Effect.provide(graph.thread("t").invoke({}), layer))
  const database = new Database(filename)
  database.pragma("wal_checkpoint(TRUNCATE)")
  database.close()
  const load = Effect.gen(function* () {
    const times: Array<number> = []
    for (let i = 0; i < LOADS; i++) {
      const begin = performance.now()
      const { values } = yield* graph.thread("t").state
      times.push(performance.now() - begin)
      if (values.log.length !== n) throw new Error(`loaded ${values.log.length} items of ${n}`)
    }
    return median(times)
  })
  return { n, bytes: statSync(filename).size, loadMillis: await Effect.runPromise(Effect.provide(load, layer)) }
}

/** The exponent of a power of n that fits the points, by least squares of logarithms. */
const exponent = (points: ReadonlyArray<readonly [number, number]>): number => {
  const logs = points.map(([x, y]) => [Math.log(x), Math.log(y)] as const)
  const meanX = logs.reduce((sum, [x]) => sum + x, 0) / logs.length
  const meanY = logs.reduce((sum, [, y]) => sum + y, 0) / logs.length
  const over = logs.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0)
  return over / logs.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0)
}

/** Measures and prints; the exponent is that of the sizes from 250 on. */
export const report = async (): Promise<void> => {
  const directory = mkdtempSync(join(tmpdir(), "pregel-growth-"))
  try {
    const all: Array<Growth> = []
    await measure(50, directory)
    for (const n of SIZES) all.push(await measure(n, directory))
    console.log("supersteps        bytes  x payload  load ms  ms per 1,000 items")
    for (const { bytes, loadMillis, n } of all) {
      const cells = [String(n).padStart(10), String(bytes).padStart(12), (bytes / (n * ITEM)).toFixed(2).padStart(10)]
      console.log(
        [...cells, loadMillis.toFixed(2).padStart(8), ((loadMillis / n) * 1000).toFixed(2).padStart(19)].join(" ")
      )
    }
    const first = all[0]!
    const last = all.at(-1)!
    const fitted = exponent(all.slice(1).map(({ bytes, n }) => [n, bytes]))
    const perItem = last.loadMillis / last.n / (first.loadMillis / first.n)
    console.log(`bytes grow with exponent ${fitted.toFixed(3)}`)
    console.log(`loading an item of ${last.n} takes ${perItem.toFixed(2)} times what one of ${first.n} takes`)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}
