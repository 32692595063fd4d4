/**
 * Durable functions: an effect of an input that pauses, calls activities and goes on in another process.
 *
 * An entrypoint is a graph of one node. A run of it is one superstep and one checkpoint after its input's; what happens
 * inside is made durable by activities and interrupts: on resume the body runs again from its start, finished calls
 * return their results, and answered questions their answers. What a run saves is the next run's `previous`.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Channel from "./Channel.js"
import type { Checkpointer, ListOptions } from "./Checkpointer.js"
import { START } from "./Command.js"
import { compile as compileData, type GraphData, type NodeData } from "./Compile.js"
import * as CompiledGraph from "./CompiledGraph.js"
import type * as Errors from "./GraphError.js"
import type * as GraphEvent from "./GraphEvent.js"
import type * as Interrupt from "./Interrupt.js"
import * as Policy from "./internal/policy.js"
import type { StateSnapshot } from "./Snapshot.js"
import type { Task } from "./Task.js"
import type * as Thread from "./Thread.js"
import type { CachePolicy, RetryPolicy, TimeoutPolicy, Topology } from "./Topology.js"

const FinalTypeId: unique symbol = Symbol.for("effect-pregel/Entrypoint/Final")

/** A result that differs from what the next run gets as `previous`. */
export interface Final<out A, out S> {
  readonly [FinalTypeId]: typeof FinalTypeId
  readonly value: A
  readonly save: S
}

class FinalImpl {
  readonly [FinalTypeId] = FinalTypeId
  constructor(
    readonly value: unknown,
    readonly save: unknown
  ) {}
}

/** Returns `value` to the caller and keeps `save` for the next run on the thread. */
export const final = <A, S>(options: { readonly value: A; readonly save: S }): Final<A, S> =>
  new FinalImpl(options.value, options.save) as unknown as Final<A, S>

/** What the body gets besides its input. */
export interface Context<out S> {
  /** What the thread's last finished run saved; none in its first run, and without a thread. */
  readonly previous: Option.Option<S>
}

/** Options of `make`. */
export interface Options<I, II, A, AI, S, SI, Ev, E, R> {
  readonly input: Schema.Schema<I, II>
  readonly output: Schema.Schema<A, AI>
  /** What is kept for the next run, where it differs from the result: return `final` then. Default: `output`. */
  readonly saved?: Schema.Schema<S, SI> | undefined
  readonly execute: (
    input: I,
    context: Context<NoInfer<S>>
  ) => Effect.Effect<NoInfer<A> | Final<NoInfer<A>, NoInfer<S>>, E, R>
  /** The type of custom events; `unknown` by default. */
  readonly events?: Schema.Schema<Ev, any> | undefined
  /** Repeat a failed attempt; none by default. Pauses are never repeated, finished activities neither. */
  readonly retry?: RetryPolicy["schedule"] | RetryPolicy<never> | undefined
  /** Time limit of one attempt; none by default. */
  readonly timeout?: TimeoutPolicy["run"] | TimeoutPolicy
  /** Reuse results for equal inputs, where there is a `NodeCache` in the context. Default `false`. */
  readonly cache?: boolean | CachePolicy | undefined
  /** Defaults of every run. */
  readonly options?: CompiledGraph.RunOptions | undefined
}

/** How a run ended, as a value. */
export type Outcome<A> =
  | { readonly _tag: "Completed"; readonly value: A }
  | { readonly _tag: "Paused"; readonly interrupts: ReadonlyArray<Errors.PendingInterrupt> }

type Events<M extends GraphEvent.Mode, A, Ev> = GraphEvent.Of<M, A, A, Ev>
type RunFailures<E> = CompiledGraph.WithoutPause<E | Errors.RunError>
type ThreadFailures<E> = RunFailures<E> | Errors.ThreadError
type ReadFailures = Errors.StorageError | Errors.GraphMismatch | Errors.UnknownCheckpoint

/** A durable function. `I` is its input, `A` its result, `S` what it saves, `Ev` its custom events. */
export interface Entrypoint<in I, in out A, in out S, in out Ev, out E, out R> {
  readonly name: string
  /** The graph that it is: for tools, and to be a node of another graph. */
  readonly graph: CompiledGraph.Any
  /** Runs to the end without saving anything; fails with `GraphInterrupt` when it pauses. */
  readonly invoke: (input: I, options?: CompiledGraph.RunOptions) => Effect.Effect<A, E | Errors.RunError, R>
  /** Like `invoke`, with a pause as a value. */
  readonly run: (input: I, options?: CompiledGraph.RunOptions) => Effect.Effect<Outcome<A>, RunFailures<E>, R>
  /** Runs and tells what happens: the ends of activities, then the result. A pause is an event, and the stream ends. */
  readonly stream: <const M extends GraphEvent.Mode = "updates">(
    input: I,
    options?: CompiledGraph.StreamOptions<M>
  ) => Stream.Stream<Events<M, A, Ev>, RunFailures<E>, R>
  /** Runs on a thread are saved, pause, and go on in another process. */
  readonly thread: (id: string) => EntrypointThread<I, A, S, Ev, E, R | Checkpointer>
}

/** A thread of an entrypoint. */
export interface EntrypointThread<in I, in out A, in out S, in out Ev, out E, out R> {
  readonly id: string
  /** Runs with a new input; fails with `GraphInterrupt` when it pauses. */
  readonly invoke: (
    input: I,
    options?: Thread.ThreadRunOptions
  ) => Effect.Effect<A, ThreadFailures<E> | Errors.GraphInterrupt, R>
  /** Like `invoke`, with a pause as a value. */
  readonly run: (input: I, options?: Thread.ThreadRunOptions) => Effect.Effect<Outcome<A>, ThreadFailures<E>, R>
  /** Runs with a new input and tells what happens. */
  readonly stream: <const M extends GraphEvent.Mode = "updates">(
    input: I,
    options?: CompiledGraph.StreamOptions<M> & Thread.ThreadRunOptions
  ) => Stream.Stream<Events<M, A, Ev>, ThreadFailures<E>, R>
  /** Goes on with the saved run: with the answer to a typed pause, with answers by id, or after a crash or a failure. */
  readonly resume: {
    <Q extends Interrupt.Any>(
      interrupt: Q,
      answer: Interrupt.Answer<Q>,
      options?: Thread.ThreadRunOptions
    ): Effect.Effect<A, ThreadFailures<E> | Errors.GraphInterrupt, R>
    (
      answers: Thread.Answers,
      options?: Thread.ThreadRunOptions
    ): Effect.Effect<A, ThreadFailures<E> | Errors.GraphInterrupt, R>
    (options?: Thread.ThreadRunOptions): Effect.Effect<A, ThreadFailures<E> | Errors.GraphInterrupt, R>
  }
  /** Answers the only pause that waits, whatever it is; several fail with `AmbiguousResume`. */
  readonly answer: (
    value: unknown,
    options?: Thread.ThreadRunOptions
  ) => Effect.Effect<A, ThreadFailures<E> | Errors.GraphInterrupt, R>
  /** Like `resume` and `answer`, and tells what happens. */
  readonly resumeStream: <const M extends GraphEvent.Mode = "updates">(
    resume: Thread.Resume | undefined,
    options?: CompiledGraph.StreamOptions<M> & Thread.ThreadRunOptions
  ) => Stream.Stream<Events<M, A, Ev>, ThreadFailures<E>, R>
  /** The thread as it stands: `values` is the last result, if any. */
  readonly state: Effect.Effect<StateSnapshot<A | undefined>, ReadFailures, Checkpointer>
  /** Checkpoints, newest first. */
  readonly history: (options?: ListOptions) => Stream.Stream<StateSnapshot<A | undefined>, ReadFailures, Checkpointer>
  /** What the next run gets as `previous`. */
  readonly previous: Effect.Effect<Option.Option<S>, ReadFailures, Checkpointer>
  /** Sets the result, and what the next run gets as `previous`, as if the body had returned it. */
  readonly update: (value: A | Final<A, S>) => Effect.Effect<string, ThreadFailures<E> | Errors.AmbiguousUpdate, R>
  /** The same thread at one of its checkpoints. */
  readonly at: (checkpoint: string) => EntrypointThread<I, A, S, Ev, E, R>
  /** Removes everything saved of the thread. */
  readonly delete: Effect.Effect<void, Errors.CheckpointerError, Checkpointer>
}

/**
 * A durable function of activities and interrupts. Throws `InvalidGraph` where the name is no name for a node.
 *
 * @example
 * ```ts
 * import { Effect, Option, Schema } from "effect"
 * import { Activity, Entrypoint, Interrupt } from "effect-pregel"
 *
 * const draft = Activity.make("draft", {
 *   input: Schema.String,
 *   success: Schema.String,
 *   execute: (topic) => Effect.succeed(`about ${topic}`)
 * })
 *
 * const essay = Entrypoint.make("essay", {
 *   input: Schema.String,
 *   output: Schema.String,
 *   execute: (topic, { previous }) =>
 *     Effect.gen(function* () {
 *       const text = yield* draft(topic)
 *       const title = yield* Interrupt.interrupt<string>("Which title?")
 *       return `${title}: ${text}, after ${Option.getOrElse(previous, () => "nothing")}`
 *     })
 * })
 *
 * const thread = essay.thread("essay-1")
 * const asks = thread.run("ants")
 * const text = thread.answer("Ants")
 * ```
 */
export const make = <I, II, A, AI, S = A, SI = unknown, Ev = unknown, E = never, R = never>(
  name: string,
  options: Options<I, II, A, AI, S, SI, Ev, E, R>
): Entrypoint<I, A, S, Ev, E, Exclude<R, Task>> => {
  if (Object.prototype.toString.call(options.execute).endsWith("GeneratorFunction]")) {
    throw new TypeError(`entrypoint "${name}": execute must return an Effect, not a generator`)
  }
  const topology = topologyOf(dataOf(name, options as Options<any, any, any, any, any, any, any, any, any>))
  return new EntrypointImpl(name, CompiledGraph.fromTopology(topology, options.options ?? {})) as never
}

// ---------------------------------------------------------------------------------------------------------------------
// the graph beneath
// ---------------------------------------------------------------------------------------------------------------------

/** The channels of every entrypoint. */
interface State {
  readonly input?: unknown
  readonly output?: unknown
  readonly saved?: unknown
}

const toUpdate = (result: unknown): State =>
  result instanceof FinalImpl ? { output: result.value, saved: result.save } : { output: result, saved: result }

const previousOf = (state: State): Option.Option<any> =>
  Object.hasOwn(state, "saved") ? Option.some(state.saved) : Option.none()

const dataOf = (name: string, options: Options<any, any, any, any, any, any, any, any, any>): GraphData => {
  const run: NodeData["run"] = (state: State) =>
    Effect.map(options.execute(state.input, { previous: previousOf(state) }), toUpdate)
  const node: NodeData = {
    name,
    run,
    input: undefined,
    reads: ["saved"],
    subscribe: [],
    targets: new Set(),
    defer: false,
    policy: Policy.make(options),
    onError: undefined,
    handlerPolicy: {},
    renamedFrom: undefined
  }
  return {
    name,
    channels: {
      input: Channel.lastValue(options.input),
      output: Channel.lastValue(options.output),
      saved: Channel.lastValue(options.saved ?? options.output)
    },
    input: ["input"],
    output: ["output"],
    events: options.events,
    nodes: [node],
    edges: [{ from: START, to: name }],
    joins: [],
    branches: []
  }
}

/** The node takes the run's input itself, so that a run is one superstep. */
const topologyOf = (data: GraphData): Topology => {
  const compiled = Either.getOrThrowWith(compileData(data), (error) => error)
  const node = { ...compiled.nodes[1]!, id: 0, rank: 0, triggers: [compiled.start] }
  return {
    ...compiled,
    channels: compiled.channels.map((spec) => ({
      ...spec,
      // A function has an input and a result, if only `undefined`.
      codec: spec.isState ? { ...spec.codec, takesUndefined: true } : spec.codec,
      subscribers: spec.id === compiled.start ? [0] : []
    })),
    nodes: [node],
    nodeIds: new Map([[node.name, 0]]),
    triggerOf: [compiled.start]
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// from the graph's records to the function's values
// ---------------------------------------------------------------------------------------------------------------------

const toOutcome = (outcome: CompiledGraph.Outcome<State>): Outcome<any> =>
  outcome._tag === "Completed"
    ? { _tag: "Completed", value: outcome.state.output }
    : { _tag: "Paused", interrupts: outcome.interrupts }

const toSnapshot = (snapshot: StateSnapshot<State>): StateSnapshot<any> => ({
  ...snapshot,
  values: snapshot.values.output
})

const outputOf = (state: State): unknown => state.output

const UPDATES = new Set(["Updates", "ActivityEnded", "Interrupted"])

type AnyStreamOptions = CompiledGraph.StreamOptions<any>

/** Asks for updates too: they tell whether a `Values` event shows this run's result or the one of the run before. */
const inward = (options: AnyStreamOptions): AnyStreamOptions => ({
  ...options,
  modes: Array.from(new Set([...(options.modes ?? []), "updates"]))
})

const outward =
  (name: string, options: AnyStreamOptions) =>
  (events: Stream.Stream<any, any, any>): Stream.Stream<any, any, any> =>
    Stream.suspend(() => {
      const updates = options.modes === undefined || options.modes.includes("updates")
      let finished = false
      const outwardOf = (event: GraphEvent.GraphEvent<State, State>): Option.Option<unknown> => {
        if (event.namespace.length > 0) return updates || !UPDATES.has(event._tag) ? Option.some(event) : Option.none()
        switch (event._tag) {
          case "Updates":
            finished = event.node === name
            return updates ? Option.some({ ...event, update: outputOf(event.update) }) : Option.none()
          case "Values":
            return finished ? Option.some({ ...event, state: outputOf(event.state) }) : Option.none()
          case "Checkpointed":
            return Option.some({ ...event, state: outputOf(event.state) })
          case "TaskStarted":
            return Option.some({ ...event, input: (event.input as State).input })
          default:
            return updates || !UPDATES.has(event._tag) ? Option.some(event) : Option.none()
        }
      }
      return Stream.filterMap(events, outwardOf)
    })

class EntrypointImpl {
  constructor(
    readonly name: string,
    readonly graph: CompiledGraph.Any
  ) {}

  readonly invoke = (input: unknown, options?: CompiledGraph.RunOptions) =>
    Effect.map(this.graph.invoke({ input } as never, options), outputOf)

  readonly run = (input: unknown, options?: CompiledGraph.RunOptions) =>
    Effect.map(this.graph.run({ input } as never, options), toOutcome)

  readonly stream = (input: unknown, options: AnyStreamOptions = {}) =>
    outward(this.name, options)(this.graph.stream({ input } as never, inward(options)))

  readonly thread = (id: string) => new ThreadImpl(this.name, this.graph.thread(id) as unknown as AnyThread)
}

type AnyThread = Thread.Thread<any, any, any, any, any, any, any, any>

class ThreadImpl {
  readonly id: string
  constructor(
    readonly name: string,
    readonly inner: AnyThread
  ) {
    this.id = inner.id
  }

  readonly invoke = (input: unknown, options?: Thread.ThreadRunOptions) =>
    Effect.map(this.inner.invoke({ input }, options), outputOf)

  readonly run = (input: unknown, options?: Thread.ThreadRunOptions) =>
    Effect.map(this.inner.run({ input }, options), toOutcome)

  readonly stream = (input: unknown, options: AnyStreamOptions = {}) =>
    outward(this.name, options)(this.inner.stream({ input }, inward(options)))

  readonly resume = (...args: ReadonlyArray<any>) =>
    Effect.map((this.inner.resume as (...args: ReadonlyArray<any>) => Effect.Effect<State>)(...args), outputOf)

  readonly answer = (value: unknown, options?: Thread.ThreadRunOptions) =>
    Effect.map(this.inner.answer(value, options), outputOf)

  readonly resumeStream = (resume: Thread.Resume | undefined, options: AnyStreamOptions = {}) =>
    outward(this.name, options)(this.inner.resumeStream(resume, inward(options)))

  get state() {
    return Effect.map(this.inner.state, toSnapshot)
  }

  readonly history = (options?: ListOptions) => Stream.map(this.inner.history(options), toSnapshot)

  get previous() {
    return Effect.map(this.inner.state, ({ values }) => previousOf(values))
  }

  readonly update = (value: unknown) => this.inner.update(toUpdate(value), { as: this.name })

  readonly at = (checkpoint: string) => new ThreadImpl(this.name, this.inner.at(checkpoint))

  get delete() {
    return this.inner.delete
  }
}
