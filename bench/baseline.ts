/** The guard: ratios must not fall far under the committed ones. */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import type { Row } from "./measure.js"
import { short } from "./stats.js"
import { OURS } from "./workload.js"

/** How far a ratio may fall: runs on shared machines differ. */
const TOLERANCE = 0.75

// From `.tsbuild/bench` to the sources.
const FILE = new URL("../../bench/baseline.json", import.meta.url)

/** How many times faster than LangGraph, by workload and size. */
type Baseline = Record<string, number>

const keyOf = (row: Row) => `${row.workload} ${row.n}`

const load = (): Baseline => (existsSync(FILE) ? JSON.parse(readFileSync(FILE, "utf8")) : {})

const round = (value: number) => Number(value.toPrecision(3))

/** The ratio by medians, by rounds and by CPU time: a disturbed machine spoils them differently. */
const ratios = (row: Row): ReadonlyArray<number> =>
  [row.ratioToLangGraph, row.roundRatioToLangGraph, row.cpuRatioToLangGraph].filter((ratio) => ratio !== undefined)

/** Commits these rows' ratios, each the least of the three; others stay as they are. */
export const save = (rows: ReadonlyArray<Row>): void => {
  const baseline = load()
  for (const row of rows) {
    if (row.engine === OURS && row.ratioToLangGraph !== undefined)
      baseline[keyOf(row)] = round(Math.min(...ratios(row)))
  }
  writeFileSync(FILE, `${JSON.stringify(baseline, null, 2)}\n`)
}

/** The rows whose ratio to LangGraph is under three quarters of the committed one by every measure. */
export const fallen = (rows: ReadonlyArray<Row>): ReadonlyArray<Row> => {
  const baseline = load()
  return rows.filter((row) => {
    const before = row.engine === OURS ? baseline[keyOf(row)] : undefined
    if (before === undefined || row.ratioToLangGraph === undefined) return false
    const now = Math.max(...ratios(row))
    if (now >= before * TOLERANCE) return false
    console.error(`${keyOf(row)}: ${short(now)}x LangGraph, committed are ${short(before)}x`)
    return true
  })
}
