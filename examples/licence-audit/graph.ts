/**
 * The audit as a graph.
 *
 *     list --> inspect, once a package --> triage --> review, once a question --> report
 *
 * Channels are its state, nodes are effects of that state, edges say what runs next. Everything between two supersteps
 * is saved, so the audit may stop anywhere: for an answer, by a crash, on another machine.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import { DateTime, Effect, Schema } from "effect"
import { Activity, Channel, Graph, Interrupt, Send } from "effect-pregel"
import { Family, needsDecision } from "./licences.js"
import { Finding, Inspector, openProject, Package } from "./project.js"
import { markdown } from "./report.js"

// ---------------------------------------------------------------------------------------------------------------------
// what a person is asked, and what they may answer
// ---------------------------------------------------------------------------------------------------------------------

/** One licence that is on no list, with the packages that are under it. */
export const Question = Schema.Struct({
  licence: Schema.String,
  family: Family,
  packages: Schema.Array(Schema.String)
})
export type Question = typeof Question.Type

export const Verdict = Schema.Literal("allow", "deny")
export type Verdict = typeof Verdict.Type

/** A pause with a typed question and a typed answer. */
export const Review = Interrupt.make("review", { request: Question, answer: Verdict })

/** A question with its answer. */
export const Decision = Schema.Struct({ ...Question.fields, verdict: Verdict })
export type Decision = typeof Decision.Type

// ---------------------------------------------------------------------------------------------------------------------
// the side effect that must happen once
// ---------------------------------------------------------------------------------------------------------------------

/** The result is saved before the node goes on, so a run that is continued never writes the report a second time. */
const writeReport = Activity.make("write report", {
  input: Schema.Struct({ file: Schema.String, text: Schema.String }),
  success: Schema.String,
  execute: ({ file, text }) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const now = yield* DateTime.now
      yield* fs.makeDirectory(path.dirname(file), { recursive: true })
      yield* fs.writeFileString(file, `${text}\nWritten ${DateTime.formatIso(now)}\n`)
      return file
    })
})

// ---------------------------------------------------------------------------------------------------------------------
// the graph
// ---------------------------------------------------------------------------------------------------------------------

const Tally = Schema.Record({ key: Schema.String, value: Schema.Int })
type Tally = typeof Tally.Type

const addUp = (total: Tally, more: Tally): Tally => {
  const sum: Record<string, number> = { ...total }
  for (const [family, count] of Object.entries(more)) sum[family] = (sum[family] ?? 0) + count
  return sum
}

/** One question for each licence that needs a decision. */
const questionsOf = (findings: ReadonlyArray<Finding>): ReadonlyArray<Question> => {
  const questions = new Map<string, { licence: string; family: Family; packages: Array<string> }>()
  for (const { family, licence, package: id } of findings) {
    if (!needsDecision(family)) continue
    const question = questions.get(licence)
    if (question === undefined) questions.set(licence, { licence, family, packages: [id] })
    else question.packages.push(id)
  }
  return Array.from(questions.values()).sort((a, b) => (a.licence < b.licence ? -1 : 1))
}

export const licenceAudit = Graph.make(
  "licence-audit",
  {
    folder: Channel.lastValue(Schema.String, { initial: () => "." }), // the project to audit
    reportFile: Channel.lastValue(Schema.String, { initial: () => "licences.md" }),
    project: Channel.lastValue(Schema.String, { initial: () => "" }), // its name
    packages: Channel.append(Package), // what its lock file lists
    findings: Channel.append(Finding), // what the audit found out, a package at a time
    tally: Channel.reduce(Tally, { initial: () => ({}), reducer: addUp }), // packages by family
    decisions: Channel.append(Decision), // what was asked and answered
    report: Channel.lastValue(Schema.String) // the written report
  },
  { input: ["folder", "reportFile"] }
)
  .addNode("list", ({ folder }) =>
    Effect.map(openProject(folder), ({ name, packages }) => ({ project: name, packages }))
  )
  .addWorker("inspect", Schema.Struct({ folder: Schema.String, package: Package }), (task) =>
    Effect.gen(function* () {
      const inspector = yield* Inspector
      const finding = yield* inspector.inspect(task.folder, task.package)
      return { findings: finding, tally: { [finding.family]: 1 } }
    })
  )
  .addNode("triage", () => Effect.void)
  .addWorker("review", Question, (question) =>
    Effect.gen(function* () {
      const verdict = yield* Review(question) // the run pauses here until somebody answers
      return { decisions: { ...question, verdict } }
    })
  )
  .addNode("report", (state) =>
    Effect.gen(function* () {
      return { report: yield* writeReport({ file: state.reportFile, text: markdown(state) }) }
    })
  )
  .addEdge(Graph.START, "list")
  .addConditionalEdges(
    "list",
    ({ folder, packages }) =>
      packages.length === 0 ? "report" : packages.map((one) => Send.make("inspect", { folder, package: one })),
    ["inspect", "report"]
  )
  .addEdge("inspect", "triage")
  .addConditionalEdges(
    "triage",
    ({ findings }) => {
      const questions = questionsOf(findings)
      return questions.length === 0 ? "report" : questions.map((question) => Send.make("review", question))
    },
    ["review", "report"]
  )
  .addEdge("review", "report")
  .addEdge("report", Graph.END)
  .compile()

/** The audit's whole state. */
export type Audit = Graph.State<typeof licenceAudit>
