/**
 * The builder of graphs and the compiled graph.
 *
 * A graph is made of channels (its state), nodes and the edges between them. The builder only collects; it is
 * immutable, each method returns a new one. Names are checked by the compiler; what types can't refuse, `compile`
 * refuses with one `InvalidGraph` that lists every problem. Errors and requirements of all nodes, routers and handlers
 * accumulate in the type; `Task`, which the engine provides, is subtracted.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type * as Types from "effect/Types"
import type * as Channel from "./Channel.js"
import type { Checkpointer } from "./Checkpointer.js"
import { type Command, END, isCommand, PARENT, START } from "./Command.js"
import { compile as compileData, type GraphData, type NodeData } from "./Compile.js"
import type * as Errors from "./GraphError.js"
import type { GraphInterrupt } from "./GraphError.js"
import type * as GraphEvent from "./GraphEvent.js"
import * as Nested from "./Nested.js"
import type { Breakpoints, Control, Durability } from "./Run.js"
import * as Runs from "./Runs.js"
import type { Send } from "./Send.js"
import { Task } from "./Task.js"
import * as Thread from "./Thread.js"
import type { CachePolicy, RetryPolicy, TimeoutPolicy, Topology } from "./Topology.js"

export { END, PARENT, START }

export const TypeId: unique symbol = Symbol.for("effect-pregel/Graph")
export type TypeId = typeof TypeId

/** Nodes by name, with the type of input that a `Send` to them carries. */
export type Nodes = { readonly [name: string]: any }

// ---------------------------------------------------------------------------------------------------------------------
// what the compiler says about mistakes: the names of these types are the text of the error
// ---------------------------------------------------------------------------------------------------------------------

/** The name is taken by another node of the graph. */
export interface NodeAlreadyAdded<out Name extends string> {
  readonly "a node of this name is already added": Name
}

/** The name belongs to a virtual node. */
export interface ReservedNodeName<out Name extends string> {
  readonly "this name is reserved": Name
}

/** A node goes to a name that its option `goto` does not declare. */
export interface GotoNotDeclared<out Name> {
  readonly "declare this target in the node's option goto": Name
}

/** A channel is written that the graph does not have. */
export interface NoSuchChannel<out Name> {
  readonly "the graph has no such channel": Name
}

/** `goto` options name nodes that were never added. */
export interface NodesNeverAdded<out Name extends string> {
  readonly "these goto targets are no nodes of the graph": Name
}

type NodeName<Name extends string, N extends Nodes> = string extends Name
  ? unknown
  : Name extends keyof N
    ? NodeAlreadyAdded<Name>
    : Name extends START | END | PARENT | `__${string}`
      ? ReservedNodeName<Name>
      : unknown

// ---------------------------------------------------------------------------------------------------------------------
// what a node may return
// ---------------------------------------------------------------------------------------------------------------------

type ExactUpdate<C extends Channel.Fields, A> = {
  readonly [K in keyof A]: K extends keyof C ? Channel.Update<C[K]> | undefined : NoSuchChannel<K>
}

type PairUpdate<C extends Channel.Fields> = {
  readonly [K in keyof C]: readonly [K, Channel.Update<C[K]>]
}[keyof C]

type CommandUpdate<C extends Channel.Fields, U> = [U] extends [never]
  ? U
  : U extends ReadonlyArray<unknown>
    ? ReadonlyArray<PairUpdate<C>>
    : ExactUpdate<C, U>

/** The outer form of what a node may return; `Output` checks the details. */
export type Returnable<C extends Channel.Fields> =
  | void
  | null
  | undefined
  | Channel.StateUpdate<C>
  | Command<any, string, string>
  | Send
  | ReadonlyArray<Channel.StateUpdate<C> | Command<any, string, string> | Send>

/** Checks what a node returns: an update, a `Command`, a `Send`, a list of these, or nothing. */
export type Output<C extends Channel.Fields, G extends string, A> = A extends undefined | null | void
  ? A
  : A extends Command<infer U, infer T, infer P>
    ? [P] extends [never]
      ? [T] extends [G | END]
        ? Command<CommandUpdate<C, U>, T, P>
        : GotoNotDeclared<Exclude<T, G | END>>
      : A
    : A extends Send<infer T, unknown>
      ? T extends G
        ? A
        : GotoNotDeclared<T>
      : A extends ReadonlyArray<infer I>
        ? ReadonlyArray<Output<C, G, I>>
        : ExactUpdate<C, A>

/** One result of a router: a declared target, or a `Send` to one with the input that it takes. */
export type Destination<N extends Nodes, To extends string> =
  | To
  | { readonly [K in To & keyof N & string]: Send<K, N[K]> }[To & keyof N & string]

// ---------------------------------------------------------------------------------------------------------------------
// options
// ---------------------------------------------------------------------------------------------------------------------

/** Failures that a node's error handler may get besides the node's own. */
export type NodeFailure = Errors.InvalidUpdate | Errors.UnknownNode | Errors.TaskTimeout | Errors.NodeCancelled

/** Options that any node has. */
export interface NodeOptions<C extends Channel.Fields, G extends string, K extends keyof C & string> {
  /** Nodes that the result may go to by `Command` or `Send`. */
  readonly goto?: ReadonlyArray<G> | undefined
  /** Channels that the node sees; all by default. */
  readonly reads?: ReadonlyArray<K> | undefined
  /** State channels whose updates run the node, besides edges. */
  readonly subscribe?: ReadonlyArray<keyof C & string> | undefined
  /** Wait until nothing else can run. */
  readonly defer?: boolean | undefined
  /** Repeat a failed attempt; none by default. Pauses are never repeated. */
  readonly retry?: Schedule.Schedule<unknown, any, any> | RetryPolicy | undefined
  /** Time limit of one attempt; none by default. */
  readonly timeout?: import("effect/Duration").DurationInput | TimeoutPolicy | undefined
  /** Reuse results for equal inputs; needs a `NodeCache`. */
  readonly cache?: boolean | CachePolicy | undefined
  /** The name under which paused threads may know this node. */
  readonly renamedFrom?: string | undefined
}

/** Options of `make`. */
export interface MakeOptions<C extends Channel.Fields, In extends keyof C, Out extends keyof C, Ev> {
  /** Channels that a run's input may write; all by default. */
  readonly input?: ReadonlyArray<In> | undefined
  /** Channels that make a run's result and its `Values` events; all by default. */
  readonly output?: ReadonlyArray<Out> | undefined
  /** The type of custom events. */
  readonly events?: Schema.Schema<Ev, any> | undefined
}

/** Options of `compile`: defaults for every run. */
export interface CompileOptions<N extends string> extends RunOptions<N> {}

/** Options of one run. Each has one home: here. */
export interface RunOptions<N extends string = string> {
  /** Most supersteps that the run may take; default 25. */
  readonly recursionLimit?: number | undefined
  /** Most tasks of a superstep that run at once; default `"unbounded"`. */
  readonly concurrency?: number | "unbounded" | undefined
  /** When checkpoints are saved; default `"sync"`: before the next superstep. */
  readonly durability?: Durability | undefined
  /** Nodes before which the run stops. */
  readonly interruptBefore?: ReadonlyArray<N> | "*" | undefined
  /** Nodes after which the run stops. */
  readonly interruptAfter?: ReadonlyArray<N> | "*" | undefined
  /** Kept with every checkpoint of the run; JSON values. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
  /** Lets another fiber ask the run to stop at the end of its superstep: see `makeControl`. */
  readonly control?: Control | undefined
}

/** Options of a stream. */
export interface StreamOptions<M extends GraphEvent.Mode, N extends string = string> extends RunOptions<N> {
  /** Kinds of events; default `["updates"]`. */
  readonly modes?: ReadonlyArray<M> | undefined
  /** Also events of subgraphs; default `false`. */
  readonly subgraphs?: boolean | undefined
  /** Events that wait for a slow reader before the run does; default 256. */
  readonly bufferSize?: number | undefined
}

// ---------------------------------------------------------------------------------------------------------------------
// builder
// ---------------------------------------------------------------------------------------------------------------------

interface Variance<in out C, in out N, out E, out R> {
  readonly _C: Types.Invariant<C>
  readonly _N: Types.Invariant<N>
  readonly _E: Types.Covariant<E>
  readonly _R: Types.Covariant<R>
}

/**
 * A graph being built. `C` are its channels, `N` its nodes, `In` and `Out` the channels of its input and output, `Ref`
 * the nodes that `goto` options mention, `Ev` its custom events, `E` and `R` what its nodes may fail with and need.
 */
export interface Graph<
  in out C extends Channel.Fields,
  in out N extends Nodes,
  in out In extends keyof C,
  in out Out extends keyof C,
  in out Ref extends string,
  in out Ev,
  out E,
  out R
> {
  readonly [TypeId]: Variance<C, N, E, R>
  readonly name: string

  /**
   * Adds a node: an effect of the state. It returns an update, a `Command`, a `Send`, a list of these, or nothing.
   *
   * With `onError` a failure of the node (after retries) is handed to a handler that runs in the same superstep in its
   * place; the node's edges do not fire then.
   */
  addNode<
    const Name extends string,
    A extends Returnable<C>,
    E1 = never,
    R1 = never,
    const G extends string = never,
    const K extends keyof C & string = keyof C & string
  >(
    name: Name & NodeName<Name, N>,
    run: (state: Channel.State<C, K>) => Effect.Effect<A & NoInfer<Output<C, G, A>>, E1, R1>,
    options?: NodeOptions<C, G, K>
  ): Graph<C, N & { readonly [P in Name]: Channel.State<C, K> }, In, Out, Ref | G, Ev, E | E1, R | R1>
  addNode<
    const Name extends string,
    A extends Returnable<C>,
    E1,
    R1,
    B extends Returnable<C>,
    E2 = never,
    R2 = never,
    const G extends string = never,
    const K extends keyof C & string = keyof C & string
  >(
    name: Name & NodeName<Name, N>,
    run: (state: Channel.State<C, K>) => Effect.Effect<A & NoInfer<Output<C, G, A>>, E1, R1>,
    options: NodeOptions<C, G, K> & {
      readonly onError: (
        error: E1 | NodeFailure,
        state: Channel.State<C, K>
      ) => Effect.Effect<B & NoInfer<Output<C, G, B>>, E2, R2>
    }
  ): Graph<C, N & { readonly [P in Name]: Channel.State<C, K> }, In, Out, Ref | G, Ev, E | E2, R | R1 | R2>

  /** Adds a node that is run by `Send`s only: `input` is the schema of what they carry. */
  addWorker<
    const Name extends string,
    I,
    II,
    A extends Returnable<C>,
    E1 = never,
    R1 = never,
    const G extends string = never
  >(
    name: Name & NodeName<Name, N>,
    input: Schema.Schema<I, II>,
    run: (input: I) => Effect.Effect<A & NoInfer<Output<C, G, A>>, E1, R1>,
    options?: Omit<NodeOptions<C, G, never>, "reads" | "subscribe">
  ): Graph<C, N & { readonly [P in Name]: I }, In, Out, Ref | G, Ev, E | E1, R | R1>

  /**
   * Adds a compiled graph as a node. Without mappings they share the channels of equal name and kind: the child's input
   * is what the parent's hold, its whole output is written back. `input` and `output` map them instead.
   */
  addGraph<const Name extends string, S, U, N1 extends Nodes, Ev1, E1, R1>(
    name: Name & NodeName<Name, N>,
    child: CompiledGraph<S, U, N1, Ev1, E1, R1>,
    options?: Nested.NestedOptions & {
      readonly input?: ((state: Channel.State<C>) => NoInfer<U>) | undefined
      readonly output?: ((state: S) => Channel.StateUpdate<C>) | undefined
      readonly goto?: ReadonlyArray<string> | undefined
    }
  ): Graph<C, N & { readonly [P in Name]: Channel.State<C> }, In, Out, Ref, Ev, E | E1, R | R1>

  /** Runs `to` after `from`; with a list of sources, once all of them have run (a join). */
  addEdge(from: (keyof N & string) | START, to: (keyof N & string) | END): this
  addEdge(
    from: ReadonlyArray<keyof N & string>,
    to: (keyof N & string) | END,
    options?: {
      /** The run may end while some sources have not run; default `false`: that fails with `JoinUnsatisfied`. */
      readonly optional?: boolean | undefined
    }
  ): this

  /**
   * Lets a router choose what runs after `from`: targets, `Send`s to them, or a list. It sees the state with the node's
   * own writes. `targets` lists the nodes it may choose, or names them by labels.
   */
  addConditionalEdges<const To extends (keyof N & string) | END, E1 = never, R1 = never>(
    from: (keyof N & string) | START,
    route: (
      state: Channel.State<C>
    ) =>
      | Destination<N, NoInfer<To>>
      | ReadonlyArray<Destination<N, NoInfer<To>>>
      | Effect.Effect<Destination<N, NoInfer<To>> | ReadonlyArray<Destination<N, NoInfer<To>>>, E1, R1>,
    targets: ReadonlyArray<To>
  ): Graph<C, N, In, Out, Ref, Ev, E | E1, R | R1>
  addConditionalEdges<const T extends { readonly [label: string]: (keyof N & string) | END }, E1 = never, R1 = never>(
    from: (keyof N & string) | START,
    route: (
      state: Channel.State<C>
    ) =>
      | NoInfer<keyof T & string>
      | ReadonlyArray<NoInfer<keyof T & string>>
      | Effect.Effect<NoInfer<keyof T & string> | ReadonlyArray<NoInfer<keyof T & string>>, E1, R1>,
    targets: T
  ): Graph<C, N, In, Out, Ref, Ev, E | E1, R | R1>

  /** Adds nodes that run one after the other. */
  addSequence<
    const Steps extends ReadonlyArray<readonly [string, (state: Channel.State<C>) => Effect.Effect<any, any, any>]>
  >(
    steps: Steps & {
      readonly [I in keyof Steps]: Steps[I] extends readonly [
        infer Name extends string,
        (state: any) => Effect.Effect<infer A, any, any>
      ]
        ? readonly [Name & NodeName<Name, N>, (state: any) => Effect.Effect<Output<C, never, A>, any, any>]
        : never
    }
  ): Graph<
    C,
    N & { readonly [P in Steps[number][0]]: Channel.State<C> },
    In,
    Out,
    Ref,
    Ev,
    E | Effect.Effect.Error<ReturnType<Steps[number][1]>>,
    R | Effect.Effect.Context<ReturnType<Steps[number][1]>>
  >

  /** Checks the graph and makes it ready to run. Throws `InvalidGraph`. */
  compile(
    this: [Exclude<Ref, keyof N | END>] extends [never]
      ? Graph<C, N, In, Out, Ref, Ev, E, R>
      : NodesNeverAdded<Exclude<Ref, keyof N | END>>,
    options?: CompileOptions<keyof N & string>
  ): CompiledGraph<
    Channel.State<C, Out>,
    Channel.StateUpdate<C, In>,
    N,
    Ev,
    E,
    Exclude<R, Task>,
    Channel.State<C>,
    Channel.StateUpdate<C>
  >

  /** Like `compile`, with the problems as a value. */
  validate(): Either.Either<Topology, Errors.InvalidGraph>
}

/** Any graph under construction. */
export type Any = { readonly name: string; validate(): Either.Either<Topology, Errors.InvalidGraph> }

// ---------------------------------------------------------------------------------------------------------------------
// compiled graph
// ---------------------------------------------------------------------------------------------------------------------

/** How a run ended, as a value. */
export type Outcome<State> =
  | { readonly _tag: "Completed"; readonly state: State }
  | {
      readonly _tag: "Paused"
      readonly state: State
      readonly interrupts: ReadonlyArray<Errors.PendingInterrupt>
      readonly next: ReadonlyArray<string>
    }

/**
 * A graph that can run. `State` is its output and `Update` its input; `Full` and `FullUpdate` are all of its state.
 */
export interface CompiledGraph<
  out State,
  in Update,
  in out N extends Nodes,
  in out Ev,
  out E,
  out R,
  out Full = State,
  in FullUpdate = Update
> {
  readonly [TypeId]: {
    readonly _State: Types.Covariant<State>
    readonly _Update: Types.Contravariant<Update>
    readonly _N: Types.Invariant<N>
    readonly _Ev: Types.Invariant<Ev>
    readonly _E: Types.Covariant<E>
    readonly _R: Types.Covariant<R>
  }
  readonly name: string
  /** The compiled structure, for tools. */
  readonly topology: Topology
  readonly options: CompileOptions<keyof N & string>

  /** Runs to the end without saving anything; fails with `GraphInterrupt` when it pauses. In a node it is a subgraph. */
  readonly invoke: (
    input: Update | Command<any, keyof N & string, never>,
    options?: RunOptions<keyof N & string>
  ) => Effect.Effect<State, E | Errors.RunError, R>

  /** Like `invoke`, with a pause as a value. */
  readonly run: (
    input: Update | Command<any, keyof N & string, never>,
    options?: RunOptions<keyof N & string>
  ) => Effect.Effect<Outcome<State>, E | Exclude<Errors.RunError, GraphInterrupt>, R>

  /** Runs and tells what happens. A pause is an event, and the stream then ends. */
  readonly stream: <const M extends GraphEvent.Mode = "updates">(
    input: Update | Command<any, keyof N & string, never>,
    options?: StreamOptions<M, keyof N & string>
  ) => Stream.Stream<GraphEvent.Of<M, State, FullUpdate, Ev>, E | Exclude<Errors.RunError, GraphInterrupt>, R>

  /** Everything durable hangs off a thread: its runs are saved, pause, and go on in another process. */
  readonly thread: (id: string) => Thread.Thread<State, Update, N, Ev, E, R | Checkpointer, Full, FullUpdate>
}

/** Any compiled graph. */
export type AnyCompiled = CompiledGraph<any, never, any, any, any, any, any, never>

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
/** The names of a graph's nodes. */
export type NodeNames<G> =
  G extends CompiledGraph<any, any, infer N, any, any, any, any, any> ? keyof N & string : never

// ---------------------------------------------------------------------------------------------------------------------
// implementation
// ---------------------------------------------------------------------------------------------------------------------

type Op = (data: Collected) => void

interface Collected extends GraphData {
  readonly nodes: Array<NodeData>
  readonly edges: Array<GraphData["edges"][number]>
  readonly joins: Array<GraphData["joins"][number]>
  readonly branches: Array<GraphData["branches"][number]>
}

/** A builder is a list of steps, newest first: adding one costs the same however many there are. */
class GraphImpl {
  readonly [TypeId] = TypeId
  constructor(
    readonly name: string,
    readonly channels: Channel.Fields,
    readonly options: MakeOptions<any, any, any, any>,
    readonly before: GraphImpl | undefined,
    readonly op: Op | undefined
  ) {}

  with(op: Op): GraphImpl {
    return new GraphImpl(this.name, this.channels, this.options, this, op)
  }

  collect(): GraphData {
    const ops: Array<Op> = []
    for (let graph: GraphImpl | undefined = this; graph !== undefined; graph = graph.before) {
      if (graph.op !== undefined) ops.push(graph.op)
    }
    const data: Collected = {
      name: this.name,
      channels: this.channels,
      input: this.options.input as ReadonlyArray<string> | undefined,
      output: this.options.output as ReadonlyArray<string> | undefined,
      nodes: [],
      edges: [],
      joins: [],
      branches: []
    }
    for (let i = ops.length - 1; i >= 0; i--) ops[i]!(data)
    return data
  }

  addNode(name: string, run: NodeData["run"], options: AnyNodeOptions = {}): GraphImpl {
    return this.with((data) => data.nodes.push(nodeData(name, run, options, undefined)))
  }

  addWorker(name: string, input: Schema.Schema<any, any>, run: NodeData["run"], options: AnyNodeOptions = {}) {
    return this.with((data) => data.nodes.push(nodeData(name, run, options, input)))
  }

  addGraph(name: string, child: AnyCompiled, options: GraphNodeOptions = {}): GraphImpl {
    const run = graphNode(this.channels, child, options)
    return this.with((data) => data.nodes.push(nodeData(name, run, { goto: options.goto }, undefined)))
  }

  addEdge(from: string | ReadonlyArray<string>, to: string, options: { readonly optional?: boolean } = {}): GraphImpl {
    return this.with((data) => {
      if (typeof from === "string") data.edges.push({ from, to })
      else data.joins.push({ from, to, optional: options.optional ?? false })
    })
  }

  addConditionalEdges(
    from: string,
    route: (state: any) => unknown,
    targets: ReadonlyArray<string> | Readonly<Record<string, string>>
  ): GraphImpl {
    const pairs = Array.isArray(targets) ? targets.map((name) => [name, name] as const) : Object.entries(targets)
    return this.with((data) => data.branches.push({ from, route, targets: new Map(pairs) }))
  }

  addSequence(steps: ReadonlyArray<readonly [string, NodeData["run"]]>): GraphImpl {
    let graph: GraphImpl = this
    for (const [name, run] of steps) graph = graph.addNode(name, run)
    for (let i = 1; i < steps.length; i++) graph = graph.addEdge(steps[i - 1]![0], steps[i]![0])
    return graph
  }

  validate() {
    return compileData(this.collect())
  }

  compile(options: CompileOptions<string> = {}): AnyCompiled {
    const topology = Either.getOrThrowWith(this.validate(), (error) => error)
    return makeCompiled(topology, options)
  }
}

interface AnyNodeOptions extends NodeOptions<any, string, any> {
  readonly onError?: ((error: any, state: any) => Effect.Effect<unknown, unknown, any>) | undefined
}

interface GraphNodeOptions extends Nested.NestedOptions {
  readonly input?: ((state: any) => any) | undefined
  readonly output?: ((state: any) => any) | undefined
  readonly goto?: ReadonlyArray<string> | undefined
}

const nodeData = (
  name: string,
  run: NodeData["run"],
  options: AnyNodeOptions,
  input: Schema.Schema<any, any> | undefined
): NodeData => {
  const { onError } = options
  return {
    name,
    run,
    input,
    reads: options.reads,
    subscribe: options.subscribe ?? [],
    targets: new Set(options.goto),
    defer: options.defer ?? false,
    policy: { retry: retryOf(options.retry), timeout: timeoutOf(options.timeout), cache: cacheOf(options.cache) },
    onError: onError && (({ error, state }) => onError(error, state)),
    renamedFrom: options.renamedFrom
  }
}

const retryOf = (retry: AnyNodeOptions["retry"]): RetryPolicy | undefined =>
  retry === undefined ? undefined : "schedule" in retry ? retry : { schedule: retry }

const timeoutOf = (timeout: AnyNodeOptions["timeout"]): TimeoutPolicy | undefined => {
  if (timeout === undefined) return undefined
  const isPolicy = typeof timeout === "object" && ("run" in timeout || "idle" in timeout)
  return isPolicy ? (timeout as TimeoutPolicy) : { run: timeout as never }
}

const cacheOf = (cache: AnyNodeOptions["cache"]): CachePolicy | undefined =>
  cache === true ? {} : cache === false ? undefined : cache

/** Runs a compiled graph as a node, sharing channels of equal name and kind unless they are mapped. */
const graphNode = (channels: Channel.Fields, child: AnyCompiled, options: GraphNodeOptions): NodeData["run"] => {
  const { topology } = child
  const shares = (ids: ReadonlyArray<number>) =>
    ids
      .map((id) => topology.channels[id]!)
      .filter(({ channel, name }) => channels[name]?.kind === channel.kind)
      .map(({ name }) => name)
  const pick = (names: ReadonlyArray<string>) => (state: Record<string, unknown>) =>
    Object.fromEntries(names.filter((name) => name in state).map((name) => [name, state[name]]))
  const toInput = options.input ?? pick(shares(topology.input))
  const toOutput = options.output ?? pick(shares(topology.output))
  const stops = Runs.stopsOf(child.options)
  return (state) => Effect.map(Nested.run(topology, toInput(state), stops, options), toOutput)
}

/**
 * Starts a graph: a name and a record of channels.
 *
 * @example
 * import { Effect, Schema } from "effect"
 * import { Channel, Graph } from "effect-pregel"
 *
 * const counter = Graph.make("counter", {
 *   count: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
 * })
 *   .addNode("add", () => Effect.succeed({ count: 1 }))
 *   .addEdge(Graph.START, "add")
 *   .addConditionalEdges("add", (state) => (state.count < 3 ? "add" : Graph.END), ["add", Graph.END])
 *   .compile()
 *
 * const three = counter.invoke({ count: 0 })
 */
export const make = <
  const C extends Channel.Fields,
  const In extends keyof C = keyof C,
  const Out extends keyof C = keyof C,
  Ev = unknown
>(
  name: string,
  channels: C,
  options: MakeOptions<C, In, Out, Ev> = {}
): Graph<C, {}, In, Out, never, Ev, never, never> =>
  new GraphImpl(name, channels, options, undefined, undefined) as never

/** Tells whether a value is a graph under construction. */
export const isGraph = (value: unknown): value is Any => value instanceof GraphImpl

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

const makeCompiled = (topology: Topology, options: CompileOptions<string>): AnyCompiled => {
  const run = (input: any, runOptions?: RunOptions): Effect.Effect<Outcome<any>, any, any> =>
    Effect.contextWithEffect((context: Context.Context<never>) => {
      const task = Context.getOption(context as Context.Context<Task>, Task)
      const merged = { ...options, ...runOptions }
      if (task._tag === "None") return Runs.start(topology, merged, { call: callOf(input) })
      const record = isCommand(input) ? {} : input
      return Effect.map(Nested.run(topology, record, Runs.stopsOf(merged), {}), (state) => ({
        _tag: "Completed" as const,
        state
      }))
    })
  const compiled = {
    [TypeId]: TypeId,
    name: topology.identity.name,
    topology,
    options,
    run,
    invoke: (input: any, runOptions?: RunOptions) =>
      Effect.flatMap(run(input, runOptions), Runs.orInterrupt(topology, undefined)),
    stream: (input: any, streamOptions: StreamOptions<any> = {}) =>
      Runs.stream(topology, { ...options, ...streamOptions }, { call: callOf(input) }),
    thread: (id: string) => Thread.make(topology, options, id)
  }
  return compiled as unknown as AnyCompiled
}

const callOf = (input: any) =>
  isCommand(input) ? ({ _tag: "Command", command: input } as const) : ({ _tag: "Input", value: input } as const)

export type { Breakpoints, GraphInterrupt }
