/** What the tests of threads share: counted nodes, readable histories, questions and answers. */
import { assert } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Channel from "../../src/Channel.js"
import type { Checkpointer } from "../../src/Checkpointer.js"
import type { Outcome } from "../../src/Graph.js"
import type { PendingInterrupt } from "../../src/GraphError.js"
import type { StateSnapshot } from "../../src/Thread.js"

/** A log of texts. */
export const log = Channel.append(Schema.String)

/** Texts that are joined. */
export const concat = Channel.reduce(Schema.String, { initial: () => "", reducer: (a, b) => a + b })

/** A sum that starts at 0. */
export const sum = Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })

/** Notes what runs, in order. */
export const makeTrace = () => {
  const entries: Array<string> = []
  return {
    entries,
    note: (entry: string) => Effect.sync(() => void entries.push(entry)),
    count: (entry: string) => entries.filter((other) => other === entry).length,
    /** What was noted since it was last asked. */
    take: () => entries.splice(0)
  }
}

/** One readable row of a history: source, step, next nodes, state. */
export type Row = readonly [source: string, step: number, next: ReadonlyArray<string>, values: unknown]

interface Historic<S, E> {
  readonly history: () => Stream.Stream<StateSnapshot<S>, E, Checkpointer>
}

/** All snapshots of a thread, newest first. */
export const snapshots = <S, E>(
  thread: Historic<S, E>
): Effect.Effect<ReadonlyArray<StateSnapshot<S>>, E, Checkpointer> =>
  Effect.map(Stream.runCollect(thread.history()), Chunk.toReadonlyArray)

export const rowOf = (snapshot: StateSnapshot<unknown>): Row => [
  snapshot.checkpoint!.source,
  snapshot.checkpoint!.step,
  snapshot.next,
  snapshot.values
]

/** The history of a thread as rows, newest first. */
export const rows = <S, E>(thread: Historic<S, E>) =>
  Effect.map(snapshots(thread), (all) => all.map((snapshot) => rowOf(snapshot)))

/** The newest snapshot from which exactly these nodes run next. */
export const before = <S, E>(thread: Historic<S, E>, ...next: ReadonlyArray<string>) =>
  Effect.map(snapshots(thread), (all) => {
    const found = all.find((snapshot) => snapshot.next.join() === next.join())
    assert.isDefined(found, `no checkpoint before [${next.join()}]`)
    return found!
  })

/** The id of the newest checkpoint from which exactly these nodes run next. */
export const idBefore = <S, E>(thread: Historic<S, E>, ...next: ReadonlyArray<string>) =>
  Effect.map(before(thread, ...next), (snapshot) => snapshot.checkpoint!.id)

/** The questions of a paused run. */
export const asked = <S>(outcome: Outcome<S>): ReadonlyArray<PendingInterrupt> => {
  assert.strictEqual(outcome._tag, "Paused")
  return outcome._tag === "Paused" ? outcome.interrupts : []
}

/** The values of the questions of a paused run. */
export const questions = <S>(outcome: Outcome<S>): ReadonlyArray<unknown> => asked(outcome).map(({ value }) => value)

/** The elements of a stream. */
export const collect = <A, E, R>(stream: Stream.Stream<A, E, R>): Effect.Effect<ReadonlyArray<A>, E, R> =>
  Effect.map(Stream.runCollect(stream), Chunk.toReadonlyArray)

/** The failure of an effect that must fail. */
export const failure = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<E, never, R> =>
  Effect.flatMap(Effect.either(effect), (result) =>
    result._tag === "Left"
      ? Effect.succeed(result.left)
      : Effect.die(new Error(`it succeeded with ${JSON.stringify(result.right)}`))
  )

/** Asserts that an effect fails with the error of that tag, and yields it. */
export const failsWith = <A, E extends { readonly _tag: string }, R, const T extends E["_tag"]>(
  effect: Effect.Effect<A, E, R>,
  tag: T
): Effect.Effect<Extract<E, { readonly _tag: T }>, never, R> =>
  Effect.map(failure(effect), (error) => {
    assert.strictEqual(error._tag, tag)
    return error as Extract<E, { readonly _tag: T }>
  })

/** A number that goes up by one each time it is read, from 1. */
export const counter = Effect.map(Ref.make(0), (ref) => Ref.updateAndGet(ref, (n) => n + 1))
