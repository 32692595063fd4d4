/** The example of the design: it compiles as it stands there. */
// @effect-diagnostics floatingEffect:off

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type { GraphError, GraphEvent, Thread } from "effect-pregel"
import { Activity, Channel, type Checkpointer, Command, Graph, Interrupt } from "effect-pregel"
import { test } from "vitest"
import { exactly } from "./support.js"

class PaymentError extends Schema.TaggedError<PaymentError>()("PaymentError", {}) {}
class LlmError extends Schema.TaggedError<LlmError>()("LlmError", {}) {}
class Payments extends Context.Tag("Payments")<
  Payments,
  { readonly charge: (cents: number) => Effect.Effect<string, PaymentError> }
>() {}

class Message extends Schema.Class<Message>("Message")({
  id: Schema.String,
  role: Schema.Literal("user", "assistant", "tool"),
  content: Schema.String
}) {}
class Llm extends Context.Tag("Llm")<
  Llm,
  { readonly chat: (messages: ReadonlyArray<Message>) => Effect.Effect<Message, LlmError> }
>() {}

declare const wantsToPay: (state: { readonly total: number }) => boolean
declare const input: { readonly messages: ReadonlyArray<Message> }
declare const interruptId: string
declare const answer: boolean
declare const checkpointId: string

const Approve = Interrupt.make("approve", {
  request: Schema.Struct({ question: Schema.String }),
  answer: Schema.Boolean
})

const charge = Activity.make("charge", {
  input: Schema.Struct({ cents: Schema.Int }),
  success: Schema.String,
  error: PaymentError,
  execute: ({ cents }) => Payments.pipe(Effect.flatMap((p) => p.charge(cents)))
})

const agent = Graph.make("agent", {
  messages: Channel.append(Message),
  total: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b }),
  decision: Channel.lastValue(Schema.Literal("yes", "no"))
})
  .addNode(
    "plan",
    (state) =>
      Effect.gen(function* () {
        const llm = yield* Llm
        return { messages: [yield* llm.chat(state.messages)] }
      }),
    { retry: Schedule.exponential("200 millis"), timeout: "30 seconds" }
  )
  .addNode(
    "pay",
    () =>
      Effect.gen(function* () {
        const ok = yield* Approve({ question: "charge 5 EUR?" })
        if (!ok) return Command.make({ update: { decision: "no" }, goto: "plan" })
        yield* charge({ cents: 500 })
        return { decision: "yes" }
      }),
    { goto: ["plan"] }
  )
  .addEdge(Graph.START, "plan")
  .addConditionalEdges("plan", (state) => (wantsToPay(state) ? "pay" : Graph.END), ["pay", Graph.END])
  .addEdge("pay", Graph.END)
  .compile()

type State = {
  readonly messages: ReadonlyArray<Message>
  readonly total: number
  readonly decision?: "yes" | "no"
}
type NodeErrors = LlmError | PaymentError | GraphError.GraphInterrupt | Activity.Failure

test("the state is derived from the channels", () => {
  exactly<Graph.State<typeof agent>, State>(true)
})

test("failures and requirements are those of nodes, activities and pauses", () => {
  exactly<Graph.Error<typeof agent>, NodeErrors>(true)
  exactly<Graph.Requirements<typeof agent>, Llm | Payments>(true)
  const run = agent.invoke(input)
  exactly<typeof run, Effect.Effect<State, NodeErrors | GraphError.RunError, Llm | Payments>>(true)
})

test("everything durable hangs off a thread", () => {
  const thread = agent.thread("order-42")
  type Needs = Llm | Payments | Checkpointer.Checkpointer
  const invoked = thread.invoke(input)
  exactly<typeof invoked, Effect.Effect<State, NodeErrors | GraphError.RunError | GraphError.ThreadError, Needs>>(true)
  type Failures = Exclude<NodeErrors | GraphError.RunError | GraphError.ThreadError, GraphError.GraphInterrupt>
  const outcome = thread.run(input)
  exactly<typeof outcome, Effect.Effect<Graph.Outcome<State>, Failures, Needs>>(true)
  const typed = thread.resume(Approve, true)
  exactly<typeof typed, typeof invoked>(true)
  const byId = thread.resume({ [interruptId]: answer })
  exactly<typeof byId, typeof invoked>(true)
  const events = thread.stream(input, { modes: ["updates", "custom"] })
  type Event = GraphEvent.Of<"updates" | "custom", State, Graph.Update<typeof agent>, unknown>
  exactly<typeof events, Stream.Stream<Event, Failures, Needs>>(true)
  const state = thread.state
  exactly<Effect.Effect.Success<typeof state>, Thread.StateSnapshot<State>>(true)
  const history = thread.history({ limit: 20 })
  exactly<Stream.Stream.Success<typeof history>, Thread.StateSnapshot<State>>(true)
  const updated = thread.update({ decision: "no" }, { as: "pay" })
  exactly<Effect.Effect.Success<typeof updated>, string>(true)
  const forked = thread.at(checkpointId).invoke(input)
  exactly<typeof forked, typeof invoked>(true)
  const gone: Effect.Effect<void, GraphError.CheckpointerError, Checkpointer.Checkpointer> = thread.delete
  void gone
})
