/** Runs specs on both engines and collects the verdicts. */
import { compare, type Difference } from "./Compare.js"
import { runOurs } from "./Ours.js"
import { judge } from "./Rules.js"
import { generate, type Spec } from "./Spec.js"
import { runTheirs } from "./Theirs.js"
import type { Trace } from "./Trace.js"

export interface Failure {
  readonly spec: Spec
  readonly differences: ReadonlyArray<Difference>
}

export interface Report {
  graphs: number
  /** Graphs without any difference. */
  equal: number
  /** Graphs by the rules that explain their differences, each with the seed of an example. */
  readonly known: Map<string, { count: number; readonly example: number }>
  readonly failures: Array<Failure>
  supersteps: number
  millis: { ours: number; theirs: number }
}

export const emptyReport = (): Report => ({
  graphs: 0,
  equal: 0,
  known: new Map(),
  failures: [],
  supersteps: 0,
  millis: { ours: 0, theirs: 0 }
})

/** Tasks that finished twice although nothing had failed or conflicted: never here. */
const ranAgain = (spec: Spec, trace: Trace): ReadonlyArray<Difference> =>
  trace.repeated.length > 0 && !spec.actions.some(({ _tag }) => _tag === "Replay")
    ? [{ where: "repeated", ours: trace.repeated, theirs: [] }]
    : []

/** What is unexplained about a spec. */
export const check = async (spec: Spec, report: Report = emptyReport()): Promise<ReadonlyArray<Difference>> => {
  const began = performance.now()
  const ours = await runOurs(spec)
  const between = performance.now()
  const theirs = await runTheirs(spec)
  report.millis.ours += between - began
  report.millis.theirs += performance.now() - between
  report.graphs++
  report.supersteps += ours.history.length
  if (compare(ours, theirs).length === 0) {
    report.equal++
    return ranAgain(spec, ours)
  }
  const { rules, unexplained } = await judge({ spec, ours, theirs })
  const all = [...unexplained, ...ranAgain(spec, ours)]
  if (all.length > 0) return all
  for (const id of rules) {
    const known = report.known.get(id)
    if (known === undefined) report.known.set(id, { count: 1, example: spec.seed })
    else known.count++
  }
  return all
}

/** Checks the graphs of some seeds. */
export const checkSeeds = async (
  from: number,
  count: number,
  onProgress: (report: Report, failure: Failure | undefined) => void = () => {}
): Promise<Report> => {
  const report = emptyReport()
  for (let seed = from; seed < from + count; seed++) {
    const spec = generate(seed)
    try {
      const differences = await check(spec, report)
      if (differences.length > 0) report.failures.push({ spec, differences })
    } catch (error) {
      report.failures.push({ spec, differences: [{ where: "threw", ours: String(error), theirs: undefined }] })
    }
    onProgress(
      report,
      report.failures.find((failure) => failure.spec === spec)
    )
  }
  return report
}
