/** Holds what the threads say against the ledger of what has really happened. */
import { availableParallelism, loadavg } from "node:os"
import * as SqlClient from "@effect/sql/SqlClient"
import { Effect } from "effect"
import { expected } from "./orders.js"

/** A runner that was lost, and when. */
export interface Loss {
  readonly runner: string
  readonly how: "killed" | "frozen" | "shut down"
  readonly at: number
}

/** A line of the log of a thread's final state. */
interface LogLine {
  readonly what: string
  readonly receipt: number
}

export interface LedgerLine {
  readonly id: number
  readonly call: string
  readonly thread: string
  readonly what: string
  readonly runner: string
  /** When the side effect began, and when it had happened. */
  readonly began: number
  readonly ended: number
}

export interface Proof {
  readonly threads: number
  readonly finished: number
  readonly steps: number
  /** Supersteps that are in a thread's state more than once, or not at all. */
  readonly twice: number
  readonly lost: number
  /** Side effects that happened again after their result was saved; and before it was, which no engine can avoid. */
  readonly repeated: number
  readonly again: number
  /** Threads that more than one runner worked on. */
  readonly moved: number
  /** Milliseconds from the loss of a runner to the next side effect of each of its threads, sorted. */
  readonly takeovers: ReadonlyArray<number>
}

export const linesOf = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(
    sql<Record<string, unknown>>`
      SELECT id, call, thread, what, runner, began, ended FROM ledger ORDER BY id`,
    (rows) => rows.map((row) => ({ ...row, id: Number(row.id) }) as unknown as LedgerLine)
  )
)

const group = <A>(items: ReadonlyArray<A>, keyOf: (item: A) => string): ReadonlyMap<string, ReadonlyArray<A>> => {
  const groups = new Map<string, Array<A>>()
  for (const item of items) {
    const key = keyOf(item)
    const known = groups.get(key)
    if (known === undefined) groups.set(key, [item])
    else known.push(item)
  }
  return groups
}

/** How long the threads of lost runners stood still. Those that shut down are not lost. */
const takeoversOf = (threads: Iterable<ReadonlyArray<LedgerLine>>, losses: ReadonlyArray<Loss>) => {
  const times: Array<number> = []
  for (const lines of threads) {
    for (const { at, how, runner } of losses) {
      if (how === "shut down") continue
      const next = lines.find((line) => line.began > at && line.runner !== runner)
      const before = lines.findLast((line) => line.began <= at)
      if (next === undefined || before?.runner !== runner) continue
      times.push(next.began - at)
    }
  }
  return times.sort((a, b) => a - b)
}

export const proof = (
  results: ReadonlyMap<string, ReadonlyArray<LogLine>>,
  threads: number,
  items: number,
  losses: ReadonlyArray<Loss>
): Effect.Effect<Proof, unknown, SqlClient.SqlClient> =>
  Effect.map(linesOf, (lines) => {
    const wanted = expected(items)
    const byThread = group(lines, ({ thread }) => thread)
    let [twice, lost, repeated, again] = [0, 0, 0, 0]
    for (const [thread, log] of results) {
      const receipts = new Map(log.map(({ receipt, what }) => [what, receipt]))
      twice += log.length - receipts.size
      lost += wanted.filter((what) => !receipts.has(what)).length
      const own = byThread.get(thread) ?? []
      const kept = new Map(own.filter(({ id, what }) => receipts.get(what) === id).map((line) => [line.what, line]))
      for (const line of own) {
        const saved = kept.get(line.what)
        if (saved === undefined || saved === line) continue
        // One that was in progress when its runner froze began before; it may have ended after.
        if (line.began > saved.ended) repeated++
        else again++
      }
    }
    return {
      threads,
      finished: results.size,
      steps: results.size * (items + 3),
      twice,
      lost,
      repeated,
      again,
      moved: Array.from(byThread.values()).filter((own) => new Set(own.map(({ runner }) => runner)).size > 1).length,
      takeovers: takeoversOf(byThread.values(), losses)
    }
  })

const seconds = (milliseconds: number) => `${(milliseconds / 1000).toFixed(1)} s`

/** The proof in one line. */
export const lineOf = (found: Proof, losses: ReadonlyArray<Loss>, expiry: number): string => {
  const count = (how: Loss["how"]) => losses.filter((loss) => loss.how === how).length
  const { again, finished, lost, moved, repeated, steps, takeovers, threads, twice } = found
  const longest = takeovers.at(-1)
  const busy = isOverloaded() ? ` (load average ${loadavg()[0]!.toFixed(0)} on ${availableParallelism()} cores)` : ""
  const middle = takeovers[Math.floor(takeovers.length / 2)]
  const took =
    longest === undefined
      ? "no takeover"
      : `takeover median ${seconds(middle!)}, longest ${seconds(longest)}, bound ${expiry + 1} s ${verdict(found, expiry)}${busy}`
  return (
    `${finished} of ${threads} threads finished, ${steps} supersteps, ${twice} applied twice, ${lost} lost, ` +
    `${repeated} side effects repeated after their result was saved (${again} before it was); ` +
    `${count("killed")} runners killed, ${count("frozen")} frozen, ${count("shut down")} shut down, ` +
    `${moved} threads moved, ${took}`
  )
}

/** Whether nothing was lost or done twice. */
export const isWhole = ({ finished, lost, repeated, threads, twice }: Proof): boolean =>
  finished === threads && twice === 0 && lost === 0 && repeated === 0

/** Whether takeovers were as fast as promised: the lock expiry and a second. Only a machine that has time can tell. */
export const verdict = ({ takeovers }: Proof, expiry: number): "held" | "exceeded" | "not judged" => {
  const longest = takeovers.at(-1)
  if (longest === undefined) return "not judged"
  if (longest <= (expiry + 1) * 1000) return "held"
  return isOverloaded() ? "not judged" : "exceeded"
}

const isOverloaded = () => loadavg()[0]! > 1.5 * availableParallelism()
