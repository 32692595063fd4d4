import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { GraphEvent } from "effect-pregel"
import { collect } from "./thread.js"

type Event = GraphEvent.GraphEvent<any, any, any>

/** What an event says, in few words: its mode, and what a reader of that mode looks at. */
export const brief = (event: Event): ReadonlyArray<unknown> => {
  switch (event._tag) {
    case "Values":
      return ["values", event.state]
    case "Updates":
      return ["updates", event.node, event.update, ...(event.cached ? ["cached"] : [])]
    case "ActivityEnded":
      return ["activity", event.activity, event.value, ...(event.cached ? ["cached"] : [])]
    case "Interrupted":
      return ["interrupted", event.interrupts.map(({ value }) => value)]
    case "Custom":
      return ["custom", event.value]
    case "TaskStarted":
      return ["start", event.node]
    case "TaskEnded":
      return ["end", event.node]
    case "Checkpointed":
      return ["checkpoint", event.metadata, event.step, event.next]
  }
}

/** All events of a run, in few words. */
export const briefly = <A extends Event, E, R>(
  stream: Stream.Stream<A, E, R>
): Effect.Effect<ReadonlyArray<ReadonlyArray<unknown>>, E, R> =>
  Effect.map(collect(stream), (events) => events.map(brief))

/** All events of a run in few words, and of tasks what they take, are triggered by, and give. */
export const withTasks = <A extends Event, E, R>(stream: Stream.Stream<A, E, R>) =>
  Effect.map(collect(stream), (events) =>
    events.map((event: Event) => {
      if (event._tag === "TaskStarted") return [...brief(event), event.input, event.triggers]
      return event._tag === "TaskEnded" ? [...brief(event), event.result] : brief(event)
    })
  )

/** The events of a run that may fail, and how it ended. */
export const untilEnd = <A, E, R>(
  stream: Stream.Stream<A, E, R>
): Effect.Effect<readonly [ReadonlyArray<A>, Exit.Exit<void, E>], never, R> => {
  const seen: Array<A> = []
  return Stream.runForEach(stream, (event) => Effect.sync(() => seen.push(event))).pipe(
    Effect.exit,
    Effect.map((exit) => [seen, Exit.asVoid(exit)] as const)
  )
}
