/** `npm run bench`: measures workloads side by side. */
import { writeFileSync } from "node:fs"
import { fallen, save } from "./baseline.js"
import { page } from "./html.js"
import { INSTALL, isInstalled } from "./mastra.js"
import { type Effort, measure, type Row } from "./measure.js"
import { HELP, type Options, parse } from "./options.js"
import { printRows } from "./report.js"
import { MASTRA, OURS, THEIRS, type Workload } from "./workload.js"
import { workloads } from "./workloads.js"

const chosen = (options: Options): ReadonlyArray<Workload> => {
  const matches = (name: string, filter: string) => (options.exact ? name === filter : name.startsWith(filter))
  for (const filter of options.names) {
    if (!workloads.some(({ name }) => matches(name, filter))) {
      throw new Error(`no workload "${filter}"; there are ${workloads.map(({ name }) => name).join(", ")}`)
    }
  }
  return options.names.length === 0
    ? workloads
    : workloads.filter(({ name }) => options.names.some((filter) => matches(name, filter)))
}

const effortOf = (options: Options): Effort => ({
  repetitions: options.repetitions ?? (options.quick ? 3 : 7),
  together: options.quick,
  warmUpMs: options.quick ? 800 : 2500,
  warmUpRuns: options.quick ? 1 : 3,
  againMs: options.quick ? 50 : 250,
  slowMs: options.quick ? 2000 : 4000
})

const isCompared = (engine: string) => engine === OURS || engine === THEIRS

/** Which engines are measured; says how to install one that is missing. */
const wantedBy = (options: Options, measured: ReadonlyArray<Workload>): ((engine: string) => boolean) => {
  const isWanted = (engine: string) =>
    options.engines.length === 0 ? !options.quick || isCompared(engine) : options.engines.includes(engine)
  if (isInstalled() || !isWanted(MASTRA)) return isWanted
  if (!options.json && measured.some(({ engines }) => MASTRA in engines)) {
    console.log(`Mastra is left out: ${INSTALL} would install it`)
  }
  return (engine) => engine !== MASTRA && isWanted(engine)
}

/** Looks for ratios that have fallen. A machine that was disturbed gets two more chances. */
const check = async (rows: ReadonlyArray<Row>, options: Options): Promise<void> => {
  let suspects = fallen(rows)
  for (let chances = 2; chances > 0 && suspects.length > 0; chances--) {
    const again: Array<Row> = []
    for (const { n, workload } of suspects) {
      const same = workloads.find(({ name }) => name === workload)!
      again.push(...(await measure(same, n, effortOf(options), isCompared)))
    }
    suspects = fallen(again)
  }
  if (suspects.length > 0) process.exitCode = 1
  else if (!options.json) console.log("\nno ratio is under three quarters of the committed one")
}

const main = async (): Promise<void> => {
  const options = parse(process.argv.slice(2))
  if (options.help) return void process.stdout.write(HELP)
  // Not a race of engines but a law of our own storage.
  if (options.names.length === 1 && options.names[0] === "growth") return await (await import("./growth.js")).report()
  const rows: Array<Row> = []
  const asked = chosen(options)
  const wanted = wantedBy(options, asked)
  for (const workload of asked) {
    const sizes = options.sizes.length > 0 ? options.sizes : options.quick ? workload.quick : workload.sizes
    const own: Array<Row> = []
    for (const n of sizes) {
      const measured = await measure(workload, n, effortOf(options), wanted)
      if (options.json) for (const row of measured) console.log(JSON.stringify(row))
      own.push(...measured)
    }
    if (!options.json && own.length > 0) printRows(workload.title, own)
    rows.push(...own)
  }
  if (options.html !== undefined) writeFileSync(options.html, page(workloads, rows))
  if (options.save) save(rows)
  if (options.check) await check(rows, options)
}

main().catch((error) => {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 2
})
