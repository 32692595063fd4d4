/** Runs, threads, answers and events. */
// @effect-diagnostics floatingEffect:off
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { test } from "vitest"
import type * as Checkpointer from "../../src/Checkpointer.js"
import * as Command from "../../src/Command.js"
import * as Graph from "../../src/Graph.js"
import type * as Errors from "../../src/GraphError.js"
import type * as GraphEvent from "../../src/GraphEvent.js"
import * as Interrupt from "../../src/Interrupt.js"
import * as Thread from "../../src/Thread.js"
import { Approve, type ContextOf, channels, type ErrorOf, empty, exactly, type SuccessOf } from "./support.js"

const When = Interrupt.make("when", { request: Schema.Void, answer: Schema.Date })
const Progress = Schema.TaggedStruct("Progress", { done: Schema.Number })

const app = empty
  .addNode("ask", () => Effect.asVoid(Approve({ question: "?" })))
  .addNode("pay", () => Effect.void)
  .compile()
const thread = app.thread("order-42")
type Full = Graph.State<typeof app>
type Change = Graph.Update<typeof app>

declare const pending: ReadonlyArray<Errors.PendingInterrupt>
declare const byId: Record<string, unknown>

test("a run's result and outcome have the output's type", () => {
  const invoked = app.invoke({ count: 1 })
  exactly<SuccessOf<typeof invoked>, Full>(true)
  const outcome = app.run({ count: 1 })
  exactly<SuccessOf<typeof outcome>, Graph.Outcome<Full>>(true)
})

test("an outcome is told apart by its tag", () => {
  Effect.map(thread.run({}), (outcome) => {
    if (outcome._tag === "Completed") exactly<typeof outcome.state, Full>(true)
    else exactly<typeof outcome.interrupts, ReadonlyArray<Errors.PendingInterrupt>>(true)
  })
})

test("resume takes a typed answer, answers by id, options, or nothing", () => {
  const plain = thread.resume()
  exactly<SuccessOf<typeof plain>, Full>(true)
  const typed = thread.resume(Approve, true)
  const withOptions = thread.resume(When, new Date(0), { recursionLimit: 5, update: { count: 1 }, goto: "pay" })
  const ids = thread.resume({ [pending[0]!.id]: true })
  const idsWithOptions = thread.resume(byId as Thread.Answers, { multitask: "enqueue" })
  const all = thread.resume(Object.fromEntries(pending.map(({ id }) => [id, true])))
  const options = thread.resume({ recursionLimit: 5, interruptBefore: ["pay"] })
  exactly<typeof plain, typeof typed>(true)
  exactly<typeof plain, typeof withOptions>(true)
  exactly<typeof plain, typeof ids>(true)
  exactly<typeof plain, typeof idsWithOptions>(true)
  exactly<typeof plain, typeof all>(true)
  exactly<typeof plain, typeof options>(true)
  exactly<ContextOf<typeof plain>, Checkpointer.Checkpointer>(true)
})

test("a bare answer may be anything", () => {
  thread.answer(null)
  thread.answer(false, { update: { choice: "no" } })
})

test("answers are values for a stream", () => {
  thread.resumeStream(Thread.answerTo(When, new Date(0)), { modes: ["values"] })
  thread.resumeStream(Thread.answers({ [pending[0]!.id]: 1 }))
  thread.resumeStream(Thread.answer("yes"))
  thread.resumeStream(undefined)
})

test("an update of a thread's state counts as a node", () => {
  thread.update({ count: 1 }, { as: "pay" })
  thread.update(null, { as: Graph.END })
  thread.update({ count: 1 }, { as: Graph.START })
  thread.update(Command.make({ update: { choice: "no" }, goto: "pay" }))
})

test("snapshots carry the state and need the checkpointer only", () => {
  exactly<SuccessOf<typeof thread.state>, Thread.StateSnapshot<Full>>(true)
  exactly<ContextOf<typeof thread.state>, Checkpointer.Checkpointer>(true)
  const history = thread.history({ limit: 1 })
  exactly<SuccessOf<typeof history>, Thread.StateSnapshot<Full>>(true)
  exactly<ContextOf<typeof history>, Checkpointer.Checkpointer>(true)
})

test("a thread at a checkpoint is the same thread", () => {
  const forked = thread.at("1")
  exactly<typeof forked, typeof thread>(true)
})

test("a function may take a graph of any nodes", () => {
  const start = (graph: Graph.CompiledGraph<Full, Change, never, unknown, Errors.GraphInterrupt, never>) =>
    graph.thread("t").invoke({ count: 1 })
  const run = start(app)
  exactly<SuccessOf<typeof run>, Full>(true)
  // @ts-expect-error: a node whose name is not known
  const stop = (graph: typeof app) => graph.invoke({}, { interruptBefore: ["other"] })
  void stop
})

test("a stream has updates by default", () => {
  const events = app.stream({})
  type Expected = GraphEvent.Updates<GraphEvent.Written<Change>> | GraphEvent.ActivityEnded | GraphEvent.Interrupted
  exactly<SuccessOf<typeof events>, Expected>(true)
})

test("modes narrow a stream's events", () => {
  const values = app.stream({}, { modes: ["values"] })
  exactly<SuccessOf<typeof values>, GraphEvent.Values<Full>>(true)
  const custom = thread.stream({}, { modes: ["custom"] })
  exactly<SuccessOf<typeof custom>, GraphEvent.Custom<unknown>>(true)
  const two = thread.resumeStream(undefined, { modes: ["values", "custom"] })
  exactly<SuccessOf<typeof two>, GraphEvent.Values<Full> | GraphEvent.Custom<unknown>>(true)
})

test("events are told apart by their tag", () => {
  app.stream({}, { modes: ["values", "updates"] }).pipe(
    Stream.runForEach((event) => {
      switch (event._tag) {
        case "Values":
          exactly<typeof event.state, Full>(true)
          return Effect.void
        case "Updates":
          exactly<typeof event.update, Change | ReadonlyArray<Change> | null>(true)
          return Effect.void
        case "Interrupted":
          exactly<typeof event.interrupts, ReadonlyArray<Errors.PendingInterrupt>>(true)
          return Effect.void
        case "ActivityEnded":
          exactly<typeof event.value, unknown>(true)
          return Effect.void
      }
    })
  )
})

test("custom events have the type of the graph's schema", () => {
  const told = Graph.make("told", channels, { events: Progress }).compile()
  const events = told.stream({}, { modes: ["custom"] })
  exactly<SuccessOf<typeof events>, GraphEvent.Custom<{ readonly _tag: "Progress"; readonly done: number }>>(true)
})

test("values have the output's channels, updates and checkpoints all", () => {
  const narrow = Graph.make("narrow", channels, { output: ["count"] }).compile()
  const values = narrow.stream({}, { modes: ["values"] })
  exactly<SuccessOf<typeof values>, GraphEvent.Values<{ readonly count: number }>>(true)
  const updates = narrow.stream({}, { modes: ["updates"] })
  type Updates = Extract<SuccessOf<typeof updates>, { readonly _tag: "Updates" }>
  exactly<Updates["update"], GraphEvent.Written<Change>>(true)
  const checkpoints = narrow.stream({}, { modes: ["checkpoints"] })
  exactly<SuccessOf<typeof checkpoints>, GraphEvent.Checkpointed<Full>>(true)
})

test("states and updates of subgraphs are not those of the graph", () => {
  const events = app.stream({}, { modes: ["values"], subgraphs: true })
  exactly<SuccessOf<typeof events>, GraphEvent.Values<unknown>>(true)
})

test("a run's failures are told apart by their tags", () => {
  const run = thread.invoke({}).pipe(Effect.catchTag("GraphInterrupt", () => Effect.succeed("paused")))
  exactly<ErrorOf<typeof run>, Exclude<Errors.RunError | Errors.ThreadError, Errors.GraphInterrupt>>(true)
})

test("refused: a misspelt channel in an input", () => {
  // @ts-expect-error: no channel conut
  app.invoke({ conut: 1 })
  // @ts-expect-error: no channel conut
  thread.invoke({ count: 1, conut: 1 })
})

test("refused: an input of a wrong type", () => {
  // @ts-expect-error: string is no number
  thread.stream({ count: "1" })
})

test("refused: a wrong answer to a typed interrupt", () => {
  // @ts-expect-error: string is no boolean
  thread.resume(Approve, "yes")
  // @ts-expect-error: an answer is missing
  thread.resume(Approve)
  // @ts-expect-error: string is no Date
  Thread.answerTo(When, "2020-01-01")
})

test("refused: a misspelt option of resume", () => {
  // @ts-expect-error: neither an option nor an interrupt's id
  thread.resume({ recursionLimt: 5 })
  // @ts-expect-error: neither an option nor an interrupt's id
  thread.resume({ approve: true })
})

test("refused: answers and options in one object", () => {
  // @ts-expect-error: options go into the second argument
  thread.resume({ "task:0": true, recursionLimit: 5 })
})

test("refused: an update with an answer that has a misspelt channel", () => {
  // @ts-expect-error: no channel conut
  thread.resume(Approve, true, { update: { count: 1, conut: 1 } })
})

test("refused: a goto with an answer to a node that is not there", () => {
  // @ts-expect-error: no node apy
  thread.resume(Approve, true, { goto: "apy" })
})

test("refused: an update as a node that is not there", () => {
  // @ts-expect-error: no node apy
  thread.update({ count: 1 }, { as: "apy" })
})

test("refused: an update of a channel that is not there, or of a wrong type", () => {
  // @ts-expect-error: no channel conut
  thread.update({ count: 1, conut: 1 })
  // @ts-expect-error: "maybe" is neither "yes" nor "no"
  thread.update({ choice: "maybe" })
})

test("refused: a mode that is not there", () => {
  // @ts-expect-error: no mode updatse
  app.stream({}, { modes: ["updatse"] })
})

test("refused: a misspelt run option", () => {
  // @ts-expect-error: no option recursionLimt
  app.invoke({}, { recursionLimt: 5 })
  // @ts-expect-error: no option durabilty
  thread.invoke({}, { durabilty: "sync" })
})

test("refused: a run option of a wrong type", () => {
  // @ts-expect-error: no durability "later"
  thread.invoke({}, { durability: "later" })
})

test("refused: stream options in a run without events", () => {
  // @ts-expect-error: invoke has no events
  app.invoke({}, { modes: ["values"] })
})

test("refused: reading a channel that may be empty from a result", () => {
  // @ts-expect-error: note may be missing
  Effect.map(app.invoke({}), (state) => state.note.length)
})
