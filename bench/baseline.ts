/** The guard: ratios must not fall far under the committed ones. */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import type { Row } from "./measure.js"
import { short } from "./stats.js"
import { OURS } from "./workload.js"

/** How far a ratio may fall: runs on shared machines differ. */
const TOLERANCE = 0.75

// From `.tsbuild/bench` to the sources.
const FILE = new URL("../../bench/baseline.json", import.meta.url)

type Baseline = Record<string, { readonly langgraph?: number; readonly raw?: number }>

const keyOf = (row: Row) => `${row.workload} ${row.n}`

const load = (): Baseline => (existsSync(FILE) ? JSON.parse(readFileSync(FILE, "utf8")) : {})

const round = (value: number) => Number(value.toPrecision(3))

/** Commits these rows' ratios; others stay as they are. */
export const save = (rows: ReadonlyArray<Row>): void => {
  const baseline = load()
  for (const row of rows) {
    if (row.engine !== OURS) continue
    baseline[keyOf(row)] = {
      ...(row.ratioToLangGraph === undefined ? {} : { langgraph: round(row.ratioToLangGraph) }),
      ...(row.ratioToRaw === undefined ? {} : { raw: round(row.ratioToRaw) })
    }
  }
  writeFileSync(FILE, `${JSON.stringify(baseline, null, 2)}\n`)
}

/** Compares with the committed ratios to LangGraph; false when one fell under three quarters. */
export const check = (rows: ReadonlyArray<Row>, silent: boolean): boolean => {
  const baseline = load()
  let good = true
  for (const row of rows) {
    const before = row.engine === OURS ? baseline[keyOf(row)]?.langgraph : undefined
    if (before === undefined || row.ratioToLangGraph === undefined) continue
    // A disturbed round spoils a median less than all medians spoil each other: the better of both counts.
    const now = Math.max(row.ratioToLangGraph, row.roundRatioToLangGraph ?? 0)
    if (now >= before * TOLERANCE) continue
    good = false
    console.error(`${keyOf(row)}: ${short(now)}x LangGraph, committed are ${short(before)}x`)
  }
  if (good && !silent) console.log("\nno ratio is under three quarters of the committed one")
  return good
}
