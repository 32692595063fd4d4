/** The result as a table for people. */
import type { Row } from "./measure.js"
import { short } from "./stats.js"

const COLUMNS = [
  "engine",
  "n",
  "median ms",
  "µs a unit",
  "LangGraph / it",
  "by CPU",
  "it / raw",
  "by CPU",
  "RSS MB",
  "bytes a unit"
]

const times = (ratio: number | undefined) => (ratio === undefined ? "" : `${short(ratio)}x`)

const cells = (row: Row): ReadonlyArray<string> => [
  row.engine,
  short(row.n),
  short(row.medianMs),
  short(row.perUnitMicros),
  times(row.ratioToLangGraph),
  times(row.cpuRatioToLangGraph),
  times(row.ratioToRaw),
  times(row.cpuRatioToRaw),
  short(Math.round(row.peakRssMb)),
  row.fileBytes === undefined ? "" : short(Math.round((row.fileBytes * row.perUnitMicros) / (row.medianMs * 1000)))
]

const WIDTHS = [16, 7, 10, 10, 15, 9, 9, 9, 7, 13]

const line = (texts: ReadonlyArray<string>) =>
  texts.map((text, i) => (i === 0 ? text.padEnd(WIDTHS[i]!) : text.padStart(WIDTHS[i]!))).join(" ")

/** Prints the rows of one workload. */
export const printRows = (title: string, rows: ReadonlyArray<Row>): void => {
  console.log(`\n${rows[0]!.workload}: ${title} (unit: ${rows[0]!.unit})`)
  console.log(line(COLUMNS))
  for (const row of rows) console.log(line(cells(row)))
}
