/**
 * Tools for tests of graphs and of what they run on.
 */
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { type Checkpointer, mapEncoded } from "./Checkpointer.js"
import { type Call, type Fault, injectFaults, type RecordedCall, recordCalls } from "./internal/faults.js"

export { type Case, cases, checkpointerSuite, type Options, type Runner } from "./CheckpointerSuite.js"
export type { Call, Fault, Operation, RecordedCall } from "./internal/faults.js"

/** Adds every call of a saver's driver to `calls` when it ends. */
export const recording = (
  calls: Array<RecordedCall>
): (<E, R>(layer: Layer.Layer<Checkpointer, E, R>) => Layer.Layer<Checkpointer, E, R>) =>
  mapEncoded((encoded) => Effect.succeed(recordCalls(encoded, calls)))

/** Does to each call of a saver's driver what `plan` says; `undefined` lets it pass. */
export const faults = (
  plan: (call: Call) => Fault | undefined
): (<E, R>(layer: Layer.Layer<Checkpointer, E, R>) => Layer.Layer<Checkpointer, E, R>) =>
  mapEncoded((encoded) => Effect.succeed(injectFaults(encoded, plan)))
