/**
 * A graph that can run, and the options of its runs.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type * as Types from "effect/Types"
import type { Checkpointer } from "./Checkpointer.js"
import type { Command, END } from "./Command.js"
import type { GraphInterrupt, PendingInterrupt, RunError } from "./GraphError.js"
import type * as GraphEvent from "./GraphEvent.js"
import { type Call, callOf } from "./Load.js"
import * as Nested from "./Nested.js"
import type { Control, Durability, Sink } from "./Run.js"
import * as Runs from "./Runs.js"
import type { Send } from "./Send.js"
import { Task } from "./Task.js"
import * as Thread from "./Thread.js"
import type { Topology } from "./Topology.js"

/** Marks graphs and compiled graphs. */
export const TypeId: unique symbol = Symbol.for("effect-pregel/Graph")
/** The type of the mark of graphs. */
export type TypeId = typeof TypeId

/** A node of a graph as the compiler knows it: its name, and the input that it takes. */
export interface NodeType<out Name extends string, out Input> {
  readonly name: Name
  readonly input: Input
}

/** The nodes of a graph: a union. */
export type Nodes = NodeType<string, any>

/** Stands for the part of the state that these channels make: cheaper for the compiler than the type itself. */
export interface Reads<out Channels extends PropertyKey> {
  readonly [TypeId]: Channels
}

type InputFrom<Input, Full> = Input extends Reads<infer K> ? Pick<Full, K & keyof Full> : Input

/** The input that the node of this name takes; `Full` is the graph's whole state. */
export type InputOf<N extends Nodes, Name, Full> = InputFrom<Extract<N, { readonly name: Name }>["input"], Full>

/** The `Send`s that nodes take; `Full` is the graph's whole state. */
export type SendTo<N extends Nodes, Full> =
  N extends NodeType<infer Name, infer Input> ? Send<Name, InputFrom<Input, Full>> : never

/** Options of one run. Each has one home: here. */
export interface RunOptions<N extends string = string> {
  /** Most supersteps that the run may take before it fails with `GraphRecursion`; default 25. */
  readonly recursionLimit?: number | undefined
  /**
   * How long one superstep may take; no limit by default. What has not finished then is interrupted, what has is kept,
   * and the run fails with `TaskTimeout`; it can be resumed.
   */
  readonly stepTimeout?: Duration.DurationInput | undefined
  /**
   * For development: records and lists that nodes and routers see can't be changed, whoever tries fails. Default
   * `false`: they are not to be changed all the same.
   */
  readonly freeze?: boolean | undefined
  /** Most tasks of a superstep that run at once, in a nested graph counted anew; default `"unbounded"`. */
  readonly concurrency?: number | "unbounded" | undefined
  /** When checkpoints are saved; default `"sync"`: before the next superstep. */
  readonly durability?: Durability | undefined
  /** Nodes before which the run stops; none by default. */
  readonly interruptBefore?: ReadonlyArray<N> | "*" | undefined
  /** Nodes after which the run stops; none by default. */
  readonly interruptAfter?: ReadonlyArray<N> | "*" | undefined
  /** Kept with every checkpoint of the run; JSON values. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
  /**
   * Names this run. A run of the same name that is the thread's last one is gone on with, or its result returned: a
   * request can be delivered twice. Kept in the metadata as `run_id`.
   */
  readonly runId?: string | undefined
  /** What the graph remembers when it runs inside a node of another one; default `"call"`. */
  readonly persistence?: Nested.SubgraphPersistence | undefined
  /** Tells instances apart that run in parallel inside nodes with `"thread"` persistence. */
  readonly key?: string | undefined
  /** Lets another fiber ask the run to stop at the end of its superstep: see `makeControl`. */
  readonly control?: Control | undefined
}

/** Options of `compile`: defaults for every run. */
export interface CompileOptions<N extends string> extends RunOptions<N> {}

/** Options of a stream. */
export interface StreamOptions<M extends GraphEvent.Mode, N extends string = string, Sub extends boolean = boolean>
  extends RunOptions<N> {
  /** Kinds of events; default `["updates"]`. */
  readonly modes?: ReadonlyArray<M> | undefined
  /** Also events of subgraphs, told apart by `namespace`; default `false`. */
  readonly subgraphs?: Sub | undefined
  /** Events that wait for a slow reader before the run does; default 256. */
  readonly bufferSize?: number | undefined
}

/** A `Command` as input of a run: it writes to the state and goes to nodes instead of the graph's start. */
export type CommandInput<N extends Nodes, Update, Full> = Command<
  Update | ReadonlyArray<readonly [channel: string, update: unknown]>,
  N["name"] | END | SendTo<N, Full>,
  never
>

/** What a run's effect fails with when a pause is a value or an event instead of a failure. */
export type WithoutPause<E> = Exclude<E, GraphInterrupt>

/** How a run ended, as a value. */
export type Outcome<State> =
  | { readonly _tag: "Completed"; readonly state: State }
  | {
      readonly _tag: "Paused"
      readonly state: State
      /** The questions that wait; none for a breakpoint. */
      readonly interrupts: ReadonlyArray<PendingInterrupt>
      /** The nodes that run next. */
      readonly next: ReadonlyArray<string>
    }

/**
 * A graph that can run.
 *
 * `State` is its output and `Update` its input, `N` its nodes (`never` stands for any), `Ev` its custom events, `E` what
 * its nodes may fail with and `R` what they need; `Full` and `FullUpdate` are all of its state and an update of it.
 */
export interface CompiledGraph<
  out State,
  in Update,
  in N extends Nodes,
  in out Ev,
  out E,
  out R,
  in out Full = State,
  in out FullUpdate = Update
> {
  readonly [TypeId]: {
    readonly _State: Types.Covariant<State>
    readonly _Update: Types.Contravariant<Update>
    readonly _N: Types.Contravariant<N>
    readonly _Ev: Types.Invariant<Ev>
    readonly _E: Types.Covariant<E>
    readonly _R: Types.Covariant<R>
  }
  readonly name: string
  /** The compiled structure, for tools. */
  readonly topology: Topology
  readonly options: CompileOptions<string>

  /** Runs to the end without saving anything; fails with `GraphInterrupt` when it pauses. In a node it is a subgraph. */
  readonly invoke: (
    input: Update | CommandInput<N, FullUpdate, Full>,
    options?: RunOptions<N["name"]>
  ) => Effect.Effect<State, E | RunError, R>

  /** Like `invoke`, with a pause as a value. */
  readonly run: (
    input: Update | CommandInput<N, FullUpdate, Full>,
    options?: RunOptions<N["name"]>
  ) => Effect.Effect<Outcome<State>, WithoutPause<E | RunError>, R>

  /** Runs and tells what happens. A pause is an event, and the stream then ends; in a node it is a pause of the node. */
  readonly stream: <const M extends GraphEvent.Mode = "updates", const Sub extends boolean = false>(
    input: Update | CommandInput<N, FullUpdate, Full>,
    options?: StreamOptions<M, N["name"], Sub>
  ) => Stream.Stream<GraphEvent.In<Sub, M, State, FullUpdate, Ev, Full>, WithoutPause<E | RunError>, R>

  /** Everything durable hangs off a thread: its runs are saved, pause, and go on in another process. */
  readonly thread: (id: string) => Thread.Thread<State, Update, N, Ev, E, R | Checkpointer, Full, FullUpdate>
}

/** Any compiled graph. */
export type Any = CompiledGraph<any, never, any, any, any, any, any, any>

/** The type of a graph's whole state. */
export type State<G> = G extends CompiledGraph<any, any, any, any, any, any, infer S, any> ? S : never
/** The type of an update of a graph's state. */
export type Update<G> = G extends CompiledGraph<any, any, any, any, any, any, any, infer U> ? U : never
/** The type of a graph's input. */
export type Input<G> = G extends CompiledGraph<any, infer U, any, any, any, any, any, any> ? U : never
/** The type of a graph's output. */
export type Result<G> = G extends CompiledGraph<infer S, any, any, any, any, any, any, any> ? S : never
/** What a graph's nodes may fail with. */
export type Error<G> = G extends CompiledGraph<any, any, any, any, infer E, any, any, any> ? E : never
/** What a graph's nodes need. */
export type Requirements<G> = G extends CompiledGraph<any, any, any, any, any, infer R, any, any> ? R : never
/** The type of a handle on a graph's thread. */
export type ThreadOf<G> = G extends { readonly thread: (id: string) => infer T } ? T : never
/** The names of a graph's nodes. */
export type NodeNames<G> = G extends CompiledGraph<any, any, infer N, any, any, any, any, any> ? N["name"] : never

/** A handle that asks runs to stop at the end of their superstep: they fail with `GraphDrained` and can be continued. */
export const makeControl = (): Control & { readonly requestDrain: (reason?: string) => void } => {
  const control: Control & { requestDrain: (reason?: string) => void } = {
    drain: undefined,
    requestDrain: (reason = "shutdown") => {
      control.drain ??= reason
    }
  }
  return control
}

/** A graph that runs a topology; `options` are the defaults of its runs. */
export const fromTopology = (topology: Topology, options: CompileOptions<string>): Any => {
  /** A run of its own, or one inside the task that asks for it. */
  const begin = (context: Context.Context<never>, call: Call, merged: RunOptions, sink?: Sink) => {
    const task = Context.getOption(context as Context.Context<Task>, Task)
    if (task._tag === "None") return Runs.start(topology, merged, { call }, sink)
    return Effect.map(Nested.run(topology, call, Runs.stopsOf(merged), merged, sink), (state) => ({
      _tag: "Completed" as const,
      state
    }))
  }
  const run = (input: any, runOptions?: RunOptions): Effect.Effect<Outcome<any>, any, any> =>
    Effect.contextWithEffect((context: Context.Context<never>) =>
      begin(context, callOf(input), Runs.merge(options, runOptions))
    )
  const compiled = {
    [TypeId]: TypeId,
    name: topology.identity.name,
    topology,
    options,
    run,
    invoke: (input: any, runOptions?: RunOptions) =>
      Effect.flatMap(run(input, runOptions), Runs.orInterrupt(topology, undefined)),
    stream: (input: any, streamOptions: StreamOptions<any> = {}) => {
      const merged = Runs.merge(options, streamOptions)
      const call = callOf(input)
      return Runs.streamOf(merged, (sink) =>
        Effect.contextWithEffect((context: Context.Context<never>) => begin(context, call, merged, sink))
      )
    },
    thread: (id: string) => Thread.make(topology, options, id)
  }
  return compiled as unknown as Any
}
