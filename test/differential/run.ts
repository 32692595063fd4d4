/**
 * Compares this engine with LangGraph JS on random graphs:
 *
 *     npm run diff -- --graphs 5000 --seed 1
 *
 * `--seed N --graphs 1 --show` prints the graph and both traces.
 */
import { parseArgs } from "node:util"
import { check, checkSeeds, type Failure, type Report } from "./Check.js"
import { runOurs } from "./Ours.js"
import { QUIRKS, RULES } from "./Rules.js"
import { shrink } from "./Shrink.js"
import { generate, type Spec } from "./Spec.js"
import { runTheirs } from "./Theirs.js"

const { values: options } = parseArgs({
  options: {
    graphs: { type: "string", default: "500" },
    seed: { type: "string", default: "1" },
    show: { type: "boolean", default: false }
  }
})

const citations = new Map([...RULES, ...QUIRKS].map(({ cites, id }) => [id, cites]))

const bare = (_: string, value: unknown): unknown =>
  value === null || value === false || value === 0 || (Array.isArray(value) && value.length === 0) ? undefined : value

const show = async (spec: Spec): Promise<void> => {
  console.log(JSON.stringify(spec, bare))
  for (const [name, trace] of [
    ["here", await runOurs(spec)],
    ["LangGraph", await runTheirs(spec)]
  ] as const) {
    console.log(`  ${name}:`)
    for (const call of trace.calls) console.log(`    call ${JSON.stringify(call)}`)
    for (const entry of trace.history) console.log(`    checkpoint ${JSON.stringify(entry)}`)
    for (const step of trace.steps) console.log(`    ${step}`)
    for (const error of trace.errors) console.log(`    error ${error.split("\n")[0]}`)
  }
}

const explain = async ({ differences, spec }: Failure): Promise<void> => {
  console.log(`\nseed ${spec.seed}: ${differences.map(({ where }) => where).join(", ")}`)
  const where = differences[0]!.where.replace(/\d+/g, "")
  const small = await shrink(spec, async (smaller) =>
    (await check(smaller)).some((difference) => difference.where.replace(/\d+/g, "") === where)
  )
  await show(small)
}

const summary = ({ equal, failures, graphs, known, millis, supersteps }: Report): void => {
  console.log(`${graphs} graphs, ${supersteps} checkpoints: ${equal} equal, ${failures.length} unexplained`)
  for (const [id, { count, example }] of Array.from(known).sort(([, a], [, b]) => b.count - a.count)) {
    console.log(`  ${String(count).padStart(5)}  ${id} (seed ${example}): ${citations.get(id)}`)
  }
  console.log(`time: ${(millis.ours / 1000).toFixed(1)} s here, ${(millis.theirs / 1000).toFixed(1)} s LangGraph`)
}

const seed = Number(options.seed)
const graphs = Number(options.graphs)
if (options.show) await show(generate(seed))
const report = await checkSeeds(seed, graphs, (soFar, failure) => {
  if (failure !== undefined) console.error(`seed ${failure.spec.seed}: ${failure.differences[0]!.where}`)
  if (soFar.graphs % 500 === 0) console.error(`${soFar.graphs} graphs, ${soFar.failures.length} unexplained`)
})
summary(report)
for (const failure of report.failures.slice(0, 5)) await explain(failure)
process.exitCode = report.failures.length === 0 ? 0 : 1
