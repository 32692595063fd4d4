/**
 * One call of the demo: start the audit, go on with it, or answer what it asked.
 */
import { createHash } from "node:crypto"
import * as Path from "@effect/platform/Path"
import { Console, Effect, Schema, Stream } from "effect"
import { Thread } from "effect-pregel"
import { command, type Options } from "./cli.js"
import { type Audit, licenceAudit, Question, Review, type Verdict } from "./graph.js"
import type { Project } from "./project.js"
import { denied, packagesOf, table } from "./report.js"
import { makeProgress } from "./screen.js"

export class NothingAsked extends Schema.TaggedError<NothingAsked>()("NothingAsked", {
  detail: Schema.String,
  command: Schema.String
}) {
  override get message() {
    return `${this.detail}: ${this.command}`
  }
}

/** Every save names the one before it, so two audits of one project never mix. */
export class AlsoRunning extends Schema.TaggedError<AlsoRunning>()("AlsoRunning", {}) {
  override get message() {
    return "the same audit runs in another process, which goes on with it"
  }
}

/** An audit is of one list of packages: a changed lock file is another thread. */
const threadOf = ({ folder, lock }: Project) =>
  licenceAudit.thread(`${folder} ${createHash("sha256").update(lock).digest("hex").slice(0, 16)}`)

type AuditThread = ReturnType<typeof threadOf>
type Snapshot = Effect.Effect.Success<AuditThread["state"]>

const questionsIn = (snapshot: Snapshot) =>
  snapshot.interrupts.flatMap((pending) =>
    pending.name === Review.interruptName
      ? [{ id: pending.id, asker: pending.node, question: Schema.decodeUnknownSync(Question)(pending.value) }]
      : []
  )

/** Answers by the ids of the questions that they are for. */
const answersFor = (snapshot: Snapshot, options: Options, verdict: Verdict) =>
  Effect.gen(function* () {
    const waiting = questionsIn(snapshot)
    const meant = waiting.filter(
      ({ question }) => options.licence === undefined || options.licence === question.licence
    )
    if (meant.length > 0) return Object.fromEntries(meant.map(({ id }) => [id, verdict]))
    if (waiting.length > 0) {
      const licences = waiting.map(({ question }) => question.licence).join(", ")
      const detail = `nobody asks about ${options.licence}, the questions are about ${licences}\n  to answer them all`
      return yield* new NothingAsked({ detail, command: command(options, "--answer", verdict) })
    }
    if (snapshot.checkpoint === undefined) {
      return yield* new NothingAsked({
        detail: "nothing was asked yet\n  to start the audit",
        command: command(options)
      })
    }
    return yield* snapshot.next.length > 0
      ? new NothingAsked({ detail: "nothing was asked yet\n  to go on with the audit", command: command(options) })
      : new NothingAsked({
          detail: "the audit is finished, no question waits\n  to start again",
          command: command(options, "--fresh")
        })
  })

/** A path as a person in the current folder would write it. */
const shown = (path: Path.Path, file: string) => {
  const relative = path.relative(process.cwd(), file)
  return relative === "" ? "." : relative.startsWith("..") ? file : relative
}

/** What the audit says at its end; yields the exit code. */
const printEnd = (state: Audit, options: Options) =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    yield* Console.log(`\n${table(state)}\n`)
    yield* Console.log(`The report is in ${shown(path, state.report ?? state.reportFile)}`)
    const refused = denied(state)
    if (refused.length === 0) return 0
    yield* Console.log(`Denied: ${refused.map(({ licence }) => licence).join(", ")}`)
    yield* Console.log(`To decide again: ${command(options, "--fresh")}`)
    return 1
  })

/** Who asks what, and the commands that answer. */
const printQuestions = (questions: ReturnType<typeof questionsIn>, options: Options) =>
  Effect.gen(function* () {
    const [first] = questions
    const many = questions.length > 1
    yield* Console.log(`\nThe audit is paused: it needs ${many ? `${questions.length} decisions` : "a decision"}.\n`)
    for (const { asker, question } of questions) {
      yield* Console.log(`  ${asker} asks: may we use ${question.licence} (${question.family})?`)
      yield* Console.log(`    ${packagesOf(question)}`)
    }
    yield* Console.log(`\nAll that was found is saved. To ${many ? "answer them all" : "answer"}, now or in a week:`)
    yield* Console.log(`  ${command(options, "--answer", "allow")}`)
    yield* Console.log(`  ${command(options, "--answer", "deny")}`)
    if (!many || first === undefined) return
    yield* Console.log("or one at a time:")
    yield* Console.log(`  ${command(options, "--answer", "allow", "--for", first.question.licence)}`)
  })

/** Starts the audit, or goes on with it: with answers, or where it was stopped. */
const run = (
  thread: AuditThread,
  before: Snapshot,
  answers: Thread.Answers | undefined,
  input: { readonly folder: string; readonly reportFile: string },
  options: Options
) => {
  const runOptions = { concurrency: options.concurrency }
  if (before.checkpoint === undefined) return thread.stream(input, runOptions)
  return thread.resumeStream(answers && Thread.answers(answers), runOptions)
}

/** Takes the audit as far as it goes; yields the exit code. The report is written to the folder `state`. */
export const audit = (options: Options, project: Project, state: string) =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const thread = threadOf(project)
    if (options.fresh) yield* thread.delete
    const before = yield* thread.state
    const answers = options.answer === undefined ? undefined : yield* answersFor(before, options, options.answer)

    const total = project.packages.length
    const where = options.folder === undefined ? "" : ` in ${shown(path, project.folder)}`
    yield* Console.log(`Licence audit of ${project.name}${where}: ${total} packages`)
    if (before.checkpoint !== undefined && before.next.length === 0) {
      yield* Console.log(`It is finished already. To start again: ${command(options, "--fresh")}`)
      return yield* printEnd(before.values, options)
    }
    for (const { id, question } of questionsIn(before)) {
      if (answers?.[id] !== undefined) yield* Console.log(`Answered: ${options.answer} ${question.licence}`)
    }
    const found = before.values.findings.length
    if (found > 0 && found < total) {
      yield* Console.log(`Going on where it stopped: ${found} of ${total} packages were done.`)
    }

    const reportFile = path.join(state, `${project.name.replaceAll(/[^\w.-]+/g, "-")}-licences.md`)
    const progress = makeProgress(total)
    let done = 0
    yield* run(thread, before, answers, { folder: project.folder, reportFile }, options).pipe(
      Stream.filter((event) => event._tag === "Updates" && event.node === "inspect"),
      Stream.runForEach(() => progress.show(++done)),
      Effect.onExit(() => progress.end)
    )

    const after = yield* thread.state
    const questions = questionsIn(after)
    if (questions.length === 0) return yield* printEnd(after.values, options)
    yield* printQuestions(questions, options)
    return 0
  }).pipe(
    Effect.catchTag("ThreadConflict", () => new AlsoRunning()),
    Effect.onInterrupt(() => Console.log(`\nStopped. To go on: ${command(options)}`))
  )
