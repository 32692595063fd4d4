/** Plots of cost against size as one page that needs nothing else. */
import type { Row } from "./measure.js"
import { exponent, short } from "./stats.js"
import type { Workload } from "./workload.js"

const WIDTH = 460
const HEIGHT = 300
const LEFT = 62
const RIGHT = 14
const TOP = 14
const BOTTOM = 40

const COLORS: Record<string, string> = {
  "effect-pregel": "#0b6bcb",
  langgraph: "#c4412c",
  "langgraph-delta": "#e08a1e",
  raw: "#777",
  xstate: "#3a8a4d",
  mastra: "#8a4fb5"
}

const escape = (text: string) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;")

/** Maps values to pixels on a logarithmic axis. */
const axis = (values: ReadonlyArray<number>, from: number, to: number) => {
  const low = Math.log10(Math.min(...values))
  const high = Math.log10(Math.max(...values))
  const span = high - low || 1
  return (value: number) => from + ((Math.log10(value) - low) / span) * (to - from)
}

/** Powers of ten between the least and the greatest value. */
const ticks = (values: ReadonlyArray<number>) => {
  const low = Math.ceil(Math.log10(Math.min(...values)) - 1e-9)
  const high = Math.floor(Math.log10(Math.max(...values)) + 1e-9)
  return Array.from({ length: Math.max(0, high - low + 1) }, (_, i) => 10 ** (low + i))
}

const byEngine = (rows: ReadonlyArray<Row>) => {
  const groups = new Map<string, Array<Row>>()
  for (const row of rows) groups.set(row.engine, [...(groups.get(row.engine) ?? []), row])
  return groups
}

const plot = (rows: ReadonlyArray<Row>): string => {
  const sizes = [...new Set(rows.map((row) => row.n))]
  const times = rows.map((row) => row.medianMs)
  const x = axis(sizes, LEFT, WIDTH - RIGHT)
  const y = axis(times, HEIGHT - BOTTOM, TOP)
  const parts: Array<string> = []
  for (const size of sizes) {
    parts.push(`<text x="${x(size)}" y="${HEIGHT - BOTTOM + 16}" text-anchor="middle">${short(size)}</text>`)
  }
  for (const time of ticks(times)) {
    parts.push(`<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(time)}" y2="${y(time)}"/>`)
    parts.push(`<text x="${LEFT - 6}" y="${y(time) + 4}" text-anchor="end">${short(time)} ms</text>`)
  }
  for (const [engine, group] of byEngine(rows)) {
    const color = COLORS[engine] ?? "#000"
    const points = group.map((row) => `${x(row.n)},${y(row.medianMs)}`)
    parts.push(`<polyline points="${points.join(" ")}" fill="none" stroke="${color}" stroke-width="2"/>`)
    for (const row of group) {
      const title = `${engine}, n = ${short(row.n)}: ${short(row.medianMs)} ms, ${short(row.perUnitMicros)} µs a ${row.unit}`
      parts.push(
        `<circle cx="${x(row.n)}" cy="${y(row.medianMs)}" r="3.5" fill="${color}"><title>${title}</title></circle>`
      )
    }
  }
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}">${parts.join("")}</svg>`
}

const legend = (rows: ReadonlyArray<Row>): string =>
  Array.from(byEngine(rows), ([engine, group]) => {
    const power = exponent(group.map((row) => [row.n, row.medianMs]))
    const growth = power === undefined ? "" : `: n<sup>${power.toFixed(2)}</sup>`
    return `<li><span style="background:${COLORS[engine] ?? "#000"}"></span>${escape(engine)}${growth}</li>`
  }).join("")

const figure = (workload: Workload, rows: ReadonlyArray<Row>): string =>
  `<figure><figcaption><b>${escape(workload.name)}</b> ${escape(workload.title)}</figcaption>${plot(rows)}<ul>${legend(rows)}</ul></figure>`

const STYLE = `body{font:14px/1.4 system-ui,sans-serif;margin:24px;color:#222;background:#fff}
main{display:flex;flex-wrap:wrap;gap:24px}figure{margin:0;width:${WIDTH}px}text{font-size:11px;fill:#555}
.grid{stroke:#e4e4e4}ul{list-style:none;padding:0;margin:0;display:flex;flex-wrap:wrap;gap:4px 16px}
li span{display:inline-block;width:12px;height:12px;margin-right:6px;border-radius:2px}`

/** A page with one plot for each workload that was measured. */
export const page = (workloads: ReadonlyArray<Workload>, rows: ReadonlyArray<Row>): string => {
  const figures = workloads.flatMap((workload) => {
    const own = rows.filter((row) => row.workload === workload.name)
    return own.length === 0 ? [] : [figure(workload, own)]
  })
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>effect-pregel benchmarks</title>
<style>${STYLE}</style></head><body><h1>Cost against size</h1>
<p>Median time of a run against n, both logarithmic. The exponent is that of the best fit: 0 is flat, 1 linear, 2 quadratic.</p>
<main>${figures.join("\n")}</main></body></html>
`
}
