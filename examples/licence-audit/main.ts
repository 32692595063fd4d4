/**
 * `npm run demo`: a licence audit that pauses for a person, survives kill -9 and finishes in another process.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Cause, Console, Effect, Layer, Option } from "effect"
import * as SqliteCheckpointer from "effect-pregel/SqliteCheckpointer"
import { audit } from "./audit.js"
import { help, parse } from "./cli.js"
import { inspectorLive, openProject } from "./project.js"
import { rehearsed } from "./rehearsal.js"

const FAILED = 1
const WRONG_ARGUMENTS = 2

const program = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const options = yield* parse(process.argv.slice(2))
  if (options.help) return yield* Effect.as(Console.log(help), 0)

  // npm runs scripts in the project's folder and tells where it was called itself.
  const typed = (folder: string) => path.resolve(process.env.INIT_CWD ?? process.cwd(), folder)
  const project = yield* openProject(options.folder === undefined ? process.cwd() : typed(options.folder))
  const state = options.state === undefined ? path.resolve(".demo") : typed(options.state)
  yield* fs.makeDirectory(state, { recursive: true })

  // Where the audit is kept is one layer: another one, and it runs on PostgreSQL or in memory.
  const storage = SqliteCheckpointer.layer({ filename: path.join(state, "audit.sqlite") })
  return yield* Effect.provide(audit(options, project, state), Layer.merge(storage, rehearsed(inspectorLive)))
})

program.pipe(
  Effect.catchAllCause((cause) => {
    if (Cause.isInterruptedOnly(cause)) return Effect.failCause(cause)
    const failure = Option.getOrUndefined(Cause.failureOption(cause))
    const text = failure === undefined ? Cause.pretty(cause) : failure.message
    return Effect.as(Console.error(`error: ${text}`), failure?._tag === "UsageError" ? WRONG_ARGUMENTS : FAILED)
  }),
  Effect.tap((code) => {
    process.exitCode = code
  }),
  Effect.provide(NodeContext.layer),
  NodeRuntime.runMain({ disableErrorReporting: true })
)
