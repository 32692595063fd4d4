/** One runner of the cluster, as a process of its own. SIGTERM makes it hand its threads over. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Cause, Console, Effect, Layer, Logger, LogLevel } from "effect"
import { runnerLive, type Settings } from "./layers.js"

const [port, settings] = process.argv.slice(2) as [string, string]

Layer.build(runnerLive(JSON.parse(settings) as Settings, Number(port))).pipe(
  Effect.zipRight(Console.log("ready")),
  Effect.zipRight(Effect.never),
  Effect.scoped,
  Effect.tapErrorCause((cause) =>
    Cause.isInterruptedOnly(cause) ? Effect.void : Console.error(`runner ${port}: ${Cause.pretty(cause)}`)
  ),
  Effect.provide(Logger.minimumLogLevel(process.env.VERBOSE ? LogLevel.Info : LogLevel.Fatal)),
  NodeRuntime.runMain
)
