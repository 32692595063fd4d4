import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Channel } from "effect-pregel"
import { log } from "./thread.js"

/** The state of most test graphs: a log that nodes add their names to. */
export const names = { foo: log }

/** A node that adds words to the log. */
export const says =
  (...words: ReadonlyArray<string>) =>
  () =>
    Effect.succeed({ foo: words })

/** A text that is replaced. */
export const word = Channel.lastValue(Schema.String)
