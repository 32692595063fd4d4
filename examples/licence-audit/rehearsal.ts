/**
 * For tests: makes the audit slow enough to be killed in the middle, and writes down what it looked at.
 *
 * Services are layers, so nothing else of the audit knows.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import { Config, Effect, Layer, Option } from "effect"
import { Inspector } from "./project.js"

export const rehearsed = <E, R>(live: Layer.Layer<Inspector, E, R>) =>
  Layer.effect(
    Inspector,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { inspect } = yield* Inspector
      const ledger = yield* Config.option(Config.string("LICENCE_AUDIT_LEDGER"))
      const delay = yield* Config.withDefault(Config.duration("LICENCE_AUDIT_DELAY"), 0)
      if (Option.isNone(ledger)) return { inspect }
      return {
        inspect: (project, pkg) =>
          Effect.delay(inspect(project, pkg), delay).pipe(
            Effect.zipLeft(Effect.orDie(fs.writeFileString(ledger.value, `${pkg.folder}\n`, { flag: "a" })))
          )
      }
    })
  ).pipe(Layer.provide(live))
