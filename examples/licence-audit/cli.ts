/**
 * The command line: arguments to options, and options back to the command that a text suggests.
 */
import { Effect, Schema } from "effect"
import { Verdict } from "./graph.js"

export interface Options {
  /** The project to audit, as it was typed; the current folder by default. */
  readonly folder: string | undefined
  readonly answer: Verdict | undefined
  /** Answer only the question about this licence. */
  readonly licence: string | undefined
  readonly fresh: boolean
  readonly concurrency: number
  /** Where the audit and its report are kept, as it was typed. */
  readonly state: string | undefined
  readonly help: boolean
}

export const help = `Audits the licences of a project's packages: those that its package-lock.json lists.

Usage
  npm run demo -- [folder] [options]

  folder                 the project to audit, with node_modules (default: this project)

Options
  --answer allow|deny    answer the questions that wait, and finish the audit
  --for <licence>        answer only the question about this licence
  --fresh                forget what is saved and start again
  --concurrency <n>      packages that are looked at at the same time (default: 8)
  --state <folder>       where the audit and its report are kept (default: .demo)
  --help                 show this text

The audit is saved after every step and every package. When it has a question it stops; stopped in any other way,
by Ctrl-C, kill -9 or a power cut, it goes on where it was when it is started again.

Exit code: 0 finished or waiting for an answer, 1 a licence was denied or the audit failed, 2 wrong arguments`

export class UsageError extends Schema.TaggedError<UsageError>()("UsageError", { detail: Schema.String }) {
  override get message() {
    return `${this.detail}\n  see npm run demo -- --help`
  }
}

const initial: Options = {
  folder: undefined,
  answer: undefined,
  licence: undefined,
  fresh: false,
  concurrency: 8,
  state: undefined,
  help: false
}

const isVerdict = Schema.is(Verdict)

/** Options that are followed by a value: what they make of it, or what it should have been. */
const withValue: Record<string, (value: string) => Partial<Options> | string> = {
  "--answer": (answer) => (isVerdict(answer) ? { answer } : Verdict.literals.join(" or ")),
  "--for": (licence) => ({ licence }),
  "--concurrency": (text) => (/^[1-9]\d{0,3}$/.test(text) ? { concurrency: Number(text) } : "a number from 1 to 9999"),
  "--state": (state) => ({ state })
}

const flags: Record<string, Partial<Options>> = {
  "--fresh": { fresh: true },
  "--help": { help: true },
  "-h": { help: true }
}

/** Reads the arguments. */
export const parse = (words: ReadonlyArray<string>): Effect.Effect<Options, UsageError> =>
  Effect.gen(function* () {
    let options = initial
    for (let at = 0; at < words.length; at++) {
      const [word, ...rest] = words[at]!.startsWith("--") ? words[at]!.split("=") : [words[at]!]
      const flag = flags[word!]
      const read = withValue[word!]
      if (flag !== undefined && rest.length === 0) {
        options = { ...options, ...flag }
      } else if (read !== undefined) {
        const value = rest.length > 0 ? rest.join("=") : words[++at]
        const result = value === undefined || value === "" ? "a value" : read(value)
        if (typeof result === "string") return yield* new UsageError({ detail: `${word} needs ${result}` })
        options = { ...options, ...result }
      } else if (word!.startsWith("-")) {
        return yield* new UsageError({ detail: `there is no option ${word}` })
      } else if (options.folder !== undefined) {
        return yield* new UsageError({ detail: `one folder at a time: ${options.folder} or ${word}` })
      } else {
        options = { ...options, folder: word }
      }
    }
    if (options.licence !== undefined && options.answer === undefined) {
      return yield* new UsageError({ detail: "--for goes with --answer" })
    }
    if (options.fresh && options.answer !== undefined) {
      return yield* new UsageError({ detail: "--fresh forgets the questions that --answer is for" })
    }
    return options
  })

const quoted = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)

/** The command that goes on with the same audit, with some more arguments. */
export const command = ({ folder, state }: Options, ...more: ReadonlyArray<string>): string => {
  const words = [...(folder === undefined ? [] : [folder]), ...(state === undefined ? [] : ["--state", state]), ...more]
  return words.length === 0 ? "npm run demo" : `npm run demo -- ${words.map(quoted).join(" ")}`
}
