/** Failures and requirements accumulate exactly. */
// @effect-diagnostics floatingEffect:off missingEffectContext:off
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { test } from "vitest"
import * as Activity from "../../src/Activity.js"
import type { Checkpointer } from "../../src/Checkpointer.js"
import * as Graph from "../../src/Graph.js"
import type * as Errors from "../../src/GraphError.js"
import * as Interrupt from "../../src/Interrupt.js"
import * as Task from "../../src/Task.js"
import {
  Approve,
  Clerk,
  ClerkError,
  type ContextOf,
  type ErrorOf,
  empty,
  exactly,
  Llm,
  type LlmError,
  type RouteError,
  Router,
  type RunError,
  type SuccessOf
} from "./support.js"

const chat = empty.addNode("chat", (state) =>
  Effect.gen(function* () {
    const llm = yield* Llm
    return { log: yield* llm.chat(state.log) }
  })
)

const file = Activity.make("file", {
  input: Schema.Number,
  success: Schema.Void,
  error: ClerkError,
  execute: () => Effect.flatMap(Clerk, (clerk) => clerk.file)
})

type E<G extends { readonly compile: any }> = Graph.Error<ReturnType<G["compile"]>>
type R<G extends { readonly compile: any }> = Graph.Requirements<ReturnType<G["compile"]>>

test("a graph without failing nodes fails with the engine's failures only", () => {
  const run = empty
    .addNode("a", () => Effect.void)
    .compile()
    .invoke({})
  exactly<ErrorOf<typeof run>, RunError>(true)
  exactly<ContextOf<typeof run>, never>(true)
})

test("a node's failures and services are the graph's", () => {
  exactly<E<typeof chat>, LlmError>(true)
  exactly<R<typeof chat>, Llm>(true)
  const run = chat.compile().invoke({ log: "hello" })
  exactly<ErrorOf<typeof run>, LlmError | RunError>(true)
  exactly<ContextOf<typeof run>, Llm>(true)
})

test("nodes accumulate", () => {
  const two = chat.addNode("file", () => Effect.flatMap(Clerk, (clerk) => clerk.file))
  exactly<E<typeof two>, LlmError | ClerkError>(true)
  exactly<R<typeof two>, Llm | Clerk>(true)
})

test("workers accumulate", () => {
  const two = chat.addWorker("file", Schema.Number, () => Effect.flatMap(Clerk, (clerk) => clerk.file))
  exactly<E<typeof two>, LlmError | ClerkError>(true)
  exactly<R<typeof two>, Llm | Clerk>(true)
})

test("a plain router adds nothing, an effectful one its own", () => {
  const plain = chat.addConditionalEdges("chat", (state) => (state.count > 1 ? "chat" : Graph.END), ["chat", Graph.END])
  exactly<E<typeof plain>, LlmError>(true)
  exactly<R<typeof plain>, Llm>(true)
  const routed = chat.addConditionalEdges(
    "chat",
    (state) => Effect.flatMap(Router, (router) => Effect.as(router.pick(state.count), "chat" as const)),
    ["chat"]
  )
  exactly<E<typeof routed>, LlmError | RouteError>(true)
  exactly<R<typeof routed>, Llm | Router>(true)
  const labelled = chat.addConditionalEdges(
    "chat",
    (state) => Effect.flatMap(Router, (router) => router.pick(state.count)),
    { yes: "chat", no: Graph.END }
  )
  exactly<E<typeof labelled>, LlmError | RouteError>(true)
  exactly<R<typeof labelled>, Llm | Router>(true)
})

test("sequences accumulate", () => {
  const sequence = empty.addSequence([
    ["a", (state) => Effect.flatMap(Llm, (llm) => Effect.map(llm.chat(state.log), (log) => ({ log })))],
    ["b", () => Effect.flatMap(Clerk, (clerk) => clerk.file)]
  ])
  exactly<E<typeof sequence>, LlmError | ClerkError>(true)
  exactly<R<typeof sequence>, Llm | Clerk>(true)
})

test("an activity adds its failures and those of saving, and its services", () => {
  const paid = empty.addNode("file", () => file(1))
  exactly<E<typeof paid>, ClerkError | Activity.Failure>(true)
  exactly<Activity.Failure, Errors.ActivityMismatch | Errors.InvalidUpdate | Errors.StorageError>(true)
  exactly<R<typeof paid>, Clerk>(true)
})

test("the idempotency key is provided to an activity", () => {
  const keyed = Activity.make("keyed", { input: Schema.Void, success: Schema.String, execute: () => Activity.key })
  exactly<ContextOf<ReturnType<typeof keyed>>, Task.Task>(true)
})

test("a pause is a failure of the node", () => {
  const asks = empty.addNode("ask", () => Approve({ question: "?" }).pipe(Effect.as({ choice: "yes" as const })))
  exactly<E<typeof asks>, Errors.GraphInterrupt>(true)
  exactly<R<typeof asks>, never>(true)
})

test("a typed interrupt answers with its schema's type", () => {
  const ask = Approve({ question: "?" })
  exactly<typeof ask, Effect.Effect<boolean, Errors.GraphInterrupt, Task.Task>>(true)
  const untyped = Interrupt.interrupt("?")
  exactly<SuccessOf<typeof untyped>, unknown>(true)
})

test("Task is subtracted, whatever asks for it", () => {
  const app = empty
    .addNode("a", () => Effect.as(Task.remainingSteps, { count: 1 }))
    .addNode("b", () => Effect.zipRight(Task.emit(1), Task.heartbeat))
    .addNode("c", () => Effect.flatMap(Llm, (llm) => Effect.flatMap(Task.current, () => Effect.asVoid(llm.chat([])))))
  exactly<R<typeof app>, Llm>(true)
})

test("an error handler replaces the node's failures by its own", () => {
  const handled = chat.addNode("file", () => Effect.flatMap(Clerk, (clerk) => clerk.file), {
    onError: (error, state) => {
      exactly<typeof error, ClerkError | Graph.NodeFailure>(true)
      exactly<typeof state.count, number>(true)
      return Effect.flatMap(Router, (router) => Effect.map(router.pick(1), (choice) => ({ choice })))
    }
  })
  exactly<E<typeof handled>, LlmError | RouteError>(true)
  exactly<R<typeof handled>, Llm | Clerk | Router>(true)
})

test("an error handler that can't fail leaves no failure of the node", () => {
  const handled = empty.addNode("file", () => Effect.flatMap(Clerk, (clerk) => clerk.file), {
    onError: () => Effect.succeed({ note: "not filed" })
  })
  exactly<E<typeof handled>, never>(true)
})

test("an error handler does not remove pauses and does not get them", () => {
  const handled = empty.addNode(
    "ask",
    () =>
      Effect.zipRight(
        Approve({ question: "?" }),
        Effect.flatMap(Clerk, (clerk) => clerk.file)
      ),
    {
      onError: (error) => {
        exactly<typeof error, ClerkError | Graph.NodeFailure>(true)
        return Effect.void
      }
    }
  )
  exactly<E<typeof handled>, Errors.GraphInterrupt>(true)
})

test("a worker's error handler gets the worker's input", () => {
  const handled = empty.addWorker("file", Schema.NumberFromString, () => Effect.flatMap(Clerk, (clerk) => clerk.file), {
    onError: (error, input) => {
      exactly<typeof error, ClerkError | Graph.NodeFailure>(true)
      exactly<typeof input, number>(true)
      return Effect.succeed({ count: input })
    }
  })
  exactly<E<typeof handled>, never>(true)
})

test("a retry schedule's services are needed", () => {
  const schedule = Schedule.mapEffect(Schedule.recurs(2), () => Clerk)
  const retried = empty
    .addNode("a", () => Effect.void, { retry: schedule })
    .addNode("b", () => Effect.void, { retry: { schedule: Schedule.recurs(3), while: (error) => error !== null } })
  exactly<R<typeof retried>, Clerk>(true)
})

test("a node that catches its failures has none", () => {
  const caught = empty.addNode("file", () =>
    Effect.flatMap(Clerk, (clerk) => clerk.file).pipe(Effect.catchTag("ClerkError", () => Effect.void))
  )
  exactly<E<typeof caught>, never>(true)
})

test("a thread adds the checkpointer and what it may fail with", () => {
  const run = chat.compile().thread("t").invoke({})
  exactly<ErrorOf<typeof run>, LlmError | RunError | Errors.ThreadError>(true)
  exactly<ContextOf<typeof run>, Llm | Checkpointer>(true)
})

test("without persistence no checkpointer is needed", () => {
  const run = chat.compile().run({})
  exactly<ContextOf<typeof run>, Llm>(true)
})

test("the failures of a run that pauses as a value have no pause", () => {
  const app = chat.addNode("ask", () => Effect.asVoid(Approve({ question: "?" }))).compile()
  type NoPause = LlmError | Exclude<RunError, Errors.GraphInterrupt>
  const run = app.run({})
  exactly<ErrorOf<typeof run>, NoPause>(true)
  const stream = app.stream({})
  exactly<ErrorOf<typeof stream>, NoPause>(true)
  const invoked = app.invoke({})
  exactly<ErrorOf<typeof invoked>, LlmError | RunError>(true)
})

test("refused: running an interrupt outside a node", () => {
  // @ts-expect-error: Task is missing
  Effect.runPromise(Approve({ question: "?" }))
  // @ts-expect-error: Task is missing
  Effect.runPromise(Interrupt.interrupt("?"))
})

test("refused: running an activity outside a node", () => {
  const call = file(1).pipe(Effect.provideService(Clerk, { file: Effect.void }))
  // @ts-expect-error: Task is missing
  Effect.runPromise(call)
})

test("refused: emitting outside a node", () => {
  // @ts-expect-error: Task is missing
  Effect.runPromise(Task.emit(1))
})

test("refused: running a graph whose services are missing", () => {
  // @ts-expect-error: Llm is missing
  Effect.runPromise(chat.compile().invoke({}))
})

test("refused: running a thread without a checkpointer", () => {
  const app = empty.addNode("a", () => Effect.void).compile()
  // @ts-expect-error: Checkpointer is missing
  Effect.runPromise(app.thread("t").invoke({}))
})

test("refused: a question or an activity's input of a wrong type", () => {
  // @ts-expect-error: question is missing
  Approve({ qestion: "?" })
  // @ts-expect-error: string is no number
  file("1")
})

test("refused: an activity that fails with something its error schema does not hold", () => {
  const execute = () => Effect.flatMap(Llm, (llm) => llm.chat([]))
  // @ts-expect-error: LlmError is no ClerkError
  Activity.make("a", { input: Schema.Void, success: Schema.String, error: ClerkError, execute })
})

test("refused: an activity whose result its schema does not hold", () => {
  // @ts-expect-error: number is no string
  Activity.make("a", { input: Schema.Void, success: Schema.String, execute: () => Effect.succeed(1) })
})

test("refused: an error handler's wrong update or undeclared goto", () => {
  // @ts-expect-error: the graph has no such channel
  chat.addNode("a", () => Effect.fail("no"), { onError: () => Effect.succeed({ count: 1, conut: 1 }) })
  // @ts-expect-error: string is no number
  chat.addNode("b", () => Effect.fail("no"), { onError: () => Effect.succeed({ count: "1" }) })
})

test("refused: an error handler for another failure", () => {
  // @ts-expect-error: the handler takes LlmError only
  chat.addNode("a", () => Effect.fail(new ClerkError()), { onError: (_: LlmError) => Effect.void })
})

test("refused: a service method that is not there", () => {
  // @ts-expect-error: no method chta
  empty.addNode("a", () => Effect.flatMap(Llm, (llm) => llm.chta([])))
})
