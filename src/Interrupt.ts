/**
 * Pauses: a node asks a question, the run stops, and an answer lets it go on.
 *
 * `interrupt` fails with the typed `GraphInterrupt`. The engine keeps its own record of the pause, so that a node that
 * catches, retries or races the failure is paused all the same. On resume the node runs again from its start and each
 * `interrupt` that has an answer returns it.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import { GraphInterrupt, InvalidAnswer, PendingInterrupt } from "./GraphError.js"
import { UNCHECKED, withoutStack } from "./internal/unchecked.js"
import { pause, type Scope, Task, type TaskContext, unlessPaused } from "./Task.js"

/** Marks typed interrupts. */
export const TypeId: unique symbol = Symbol.for("effect-pregel/Interrupt")
/** The type of the mark of typed interrupts. */
export type TypeId = typeof TypeId

/** A pause with a typed question and a typed answer; call it inside a node. */
export interface Interrupt<out Name extends string, in out Request, in out Answer> {
  (request: Request, options?: InterruptOptions): Effect.Effect<Answer, GraphInterrupt, Task>
  readonly [TypeId]: TypeId
  readonly interruptName: Name
  readonly request: Schema.Schema<Request, any>
  readonly answer: Schema.Schema<Answer, any>
}

/** Any typed interrupt. */
export interface Any {
  readonly [TypeId]: TypeId
  readonly interruptName: string
  readonly request: Schema.Schema<any, any>
  readonly answer: Schema.Schema<any, any>
}

/** The type of an interrupt's answer. */
export type Answer<I> = I extends { readonly answer: Schema.Schema<infer A, any> } ? A : never

/** Options of one pause. */
export interface InterruptOptions {
  /**
   * Identifies this pause among those of the task. Default: its position, counted from 0. Give a key where a node may
   * ask several questions at once; questions with the same key are told apart by their order.
   */
  readonly key?: string | undefined
}

interface Form {
  readonly name: string | undefined
  readonly encode: (request: unknown) => Either.Either<unknown, ParseResult.ParseIssue>
  readonly decode: (answer: unknown) => Either.Either<unknown, ParseResult.ParseIssue>
}

/** The place of a question with a key: never that of another one, also where the key is a number or used again. */
const keyed = (scope: Scope, key: string): string => {
  const counts = (scope.calls ??= new Map())
  const name = `?${key}`
  const before = counts.get(name) ?? 0
  counts.set(name, before + 1)
  return before === 0 ? `=${key}` : `${before}=${key}`
}

const ask = (
  task: TaskContext,
  asker: FiberId.FiberId,
  form: Form,
  request: unknown,
  key: string | undefined
): Effect.Effect<unknown, GraphInterrupt> => {
  const { frame } = task
  const { scope } = task
  const id = frame.interruptId(`${scope.scope}${key === undefined ? scope.interrupts++ : keyed(scope, key)}`)
  const answer = frame.answerTo(id)
  if (answer !== undefined) {
    const decoded = form.decode(answer.value)
    if (Either.isRight(decoded)) return Effect.succeed(decoded.right)
    frame.invalidAnswer = new InvalidAnswer({
      id,
      interrupt: form.name,
      detail: ParseResult.TreeFormatter.formatIssueSync(decoded.left)
    })
  }
  const encoded = form.encode(request)
  if (Either.isLeft(encoded)) {
    return Effect.die(new Error(`interrupt "${form.name}": ${ParseResult.TreeFormatter.formatIssueSync(encoded.left)}`))
  }
  const { graph, namespace, node, thread } = task
  const interrupt = new PendingInterrupt({ id, node, name: form.name, namespace, value: encoded.right }, UNCHECKED)
  pause(frame, asker, [interrupt])
  return withoutStack(() => new GraphInterrupt({ graph, thread, interrupts: [interrupt], next: [node] }, UNCHECKED))
}

/** Asks within the running task. */
const asking = (form: Form, request: unknown, key: string | undefined) =>
  Effect.flatMap(Task, (task) => unlessPaused(task, (asker) => ask(task, asker, form, request, key)))

const untyped: Form = { name: undefined, encode: Either.right, decode: Either.right }

/**
 * Pauses the run with a question and returns the answer once it is given.
 *
 * Everything the node does before runs again on resume: put side effects into an `Activity`. `null`, `0`, `""` and
 * `false` are answers.
 */
export const interrupt = <A = unknown>(
  value: unknown,
  options?: InterruptOptions
): Effect.Effect<A, GraphInterrupt, Task> =>
  asking(untyped, value, options?.key) as Effect.Effect<A, GraphInterrupt, Task>

/**
 * A pause with a typed question and a typed answer.
 *
 * The question is encoded by `request` and shown to whoever answers; an answer that `answer` can't decode fails the
 * resume with `InvalidAnswer` and leaves the pause pending.
 *
 * @example
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Channel, Graph, Interrupt } from "effect-pregel"
 *
 * const Approve = Interrupt.make("approve", {
 *   request: Schema.Struct({ question: Schema.String }),
 *   answer: Schema.Boolean
 * })
 *
 * const graph = Graph.make("order", { approved: Channel.lastValue(Schema.Boolean) })
 *   .addNode("ask", () => Effect.map(Approve({ question: "charge 5 EUR?" }), (approved) => ({ approved })))
 *   .addEdge(Graph.START, "ask")
 *   .compile()
 *
 * const thread = graph.thread("order-42")
 * const paused = thread.run({})
 * const done = thread.resume(Approve, true)
 * ```
 */
export const make = <const Name extends string, Request, RI, Answer, AI>(
  name: Name,
  options: { readonly request: Schema.Schema<Request, RI>; readonly answer: Schema.Schema<Answer, AI> }
): Interrupt<Name, Request, Answer> => {
  const form: Form = {
    name,
    encode: ParseResult.encodeUnknownEither(options.request),
    decode: ParseResult.decodeUnknownEither(options.answer)
  }
  const call = (request: Request, callOptions?: InterruptOptions) => asking(form, request, callOptions?.key)
  return Object.assign(call, {
    [TypeId]: TypeId,
    interruptName: name,
    request: options.request,
    answer: options.answer
  }) as unknown as Interrupt<Name, Request, Answer>
}

/** A pause of a typed interrupt with its question decoded. */
export interface Pending<out Request> {
  /** What to answer it by: `thread.resume({ [id]: answer })`. */
  readonly id: string
  readonly node: string
  readonly namespace: ReadonlyArray<string>
  readonly request: Request
}

/**
 * The pauses of one typed interrupt among those that wait, with their questions decoded. A question that does not
 * decode, because it was asked by another version, is left out.
 *
 * @example
 * ```ts
 * import { Schema } from "effect"
 * import { type Graph, Interrupt } from "effect-pregel"
 *
 * const Approve = Interrupt.make("approve", { request: Schema.String, answer: Schema.Boolean })
 *
 * const questions = (outcome: Graph.Outcome<unknown>) =>
 *   outcome._tag === "Paused" ? Interrupt.pending(Approve, outcome.interrupts).map(({ request }) => request) : []
 * ```
 */
export const pending = <Name extends string, Request, Answer>(
  interrupt: Interrupt<Name, Request, Answer>,
  waiting: ReadonlyArray<PendingInterrupt>
): ReadonlyArray<Pending<Request>> => {
  const decode = ParseResult.decodeUnknownOption(interrupt.request)
  return waiting.flatMap(({ id, name, namespace, node, value }) => {
    const request = name === interrupt.interruptName ? decode(value) : Option.none()
    return Option.isSome(request) ? [{ id, node, namespace, request: request.value }] : []
  })
}

/** Tells whether a value is a typed interrupt. */
export const isInterrupt = (value: unknown): value is Any => typeof value === "function" && TypeId in value
