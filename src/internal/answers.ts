/**
 * Answers to pauses, as values.
 */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import { InvalidAnswer } from "../GraphError.js"
import type * as Interrupt from "../Interrupt.js"
import type { Answer } from "../Load.js"

/** Answers by interrupt id. Every id has a colon, which no option's name has: the two can't be confused. */
export type Answers = { readonly [id: `${string}:${string}`]: unknown }

/** The answer to the only pause that waits. */
export const answer = (value: unknown): Answer => ({ _tag: "Bare", value })
/** Answers by interrupt id. */
export const answers = (values: Answers): Answer => ({ _tag: "ById", values })
/** The answer to the only pause of a typed interrupt, or to the one with that id. */
export const answerTo = <I extends Interrupt.Any>(interrupt: I, value: Interrupt.Answer<I>, id?: string): Answer => ({
  _tag: "Named",
  name: interrupt.interruptName,
  id,
  value: new Typed(interrupt, value)
})

/** An answer that is still to be encoded with its interrupt's schema. */
class Typed {
  constructor(
    readonly interrupt: Interrupt.Any,
    readonly value: unknown
  ) {}
}

/** Encodes an answer with its interrupt's schema. */
export const encodeAnswer = (resume: Answer | undefined): Either.Either<Answer | undefined, InvalidAnswer> => {
  if (resume === undefined || resume._tag !== "Named" || !(resume.value instanceof Typed)) return Either.right(resume)
  const { interrupt, value } = resume.value
  const encoded = ParseResult.encodeUnknownEither(interrupt.answer)(value)
  if (Either.isRight(encoded)) return Either.right({ ...resume, value: encoded.right })
  return Either.left(
    new InvalidAnswer({
      id: interrupt.interruptName,
      interrupt: interrupt.interruptName,
      detail: ParseResult.TreeFormatter.formatIssueSync(encoded.left)
    })
  )
}
