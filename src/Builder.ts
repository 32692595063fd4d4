/**
 * The types of a graph under construction: what each step of the builder takes, what it adds to the graph's type, and
 * what the compiler says about mistakes.
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Either from "effect/Either"
import type * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import type * as Types from "effect/Types"
import type * as Channel from "./Channel.js"
import type { Command, END, PARENT, START, Target } from "./Command.js"
import type { CompiledGraph, CompileOptions, InputOf, Nodes, NodeType, Reads, SendTo, TypeId } from "./CompiledGraph.js"
import type * as Errors from "./GraphError.js"
import type { NestedOptions } from "./Nested.js"
import type { Send } from "./Send.js"
import type { Task } from "./Task.js"
import type { CachePolicy, RetryPolicy, TimeoutPolicy, Topology } from "./Topology.js"

// ---------------------------------------------------------------------------------------------------------------------
// what the compiler says about mistakes: the names of these types are the text of the error
// ---------------------------------------------------------------------------------------------------------------------

/** The name is taken by another node of the graph. */
export interface NodeAlreadyAdded<out Name extends string> {
  readonly "a node of this name is already added": Name
}

/** The name belongs to a virtual node or to the engine. */
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

/** A node's result is none of those that the engine knows. */
export interface NotAResult {
  readonly "return an update, a Command, a Send, a list of these, or nothing": never
}

/** A list without `Command` or `Send` is no result: merge its updates, or name them in a `Command`'s list of pairs. */
export interface ListOfUpdates {
  readonly "a list needs a Command or a Send; return one update instead": never
}

/** A `Send` carries something that its target does not take. */
export interface SendArgumentMismatch<out Name, out Arg> {
  readonly "this node takes another argument": Name
  readonly argument: Arg
}

/** `goto` options name nodes that were never added. */
export interface NodesNeverAdded<out Name extends string> {
  readonly "these goto targets are no nodes of the graph": Name
}

/** A subgraph shares channels of equal name whose types do not fit: map them with `input`. */
export interface SharedInputMismatch<out Name> {
  readonly "the subgraph reads these channels with another type; map them with the option input": Name
}

/** A subgraph shares channels of equal name whose types do not fit: map them with `output`. */
export interface SharedOutputMismatch<out Name> {
  readonly "the subgraph writes these channels with another type; map them with the option output": Name
}

/** Refuses a node's name that is taken or reserved; a name that is only known at run time is left to `compile`. */
export type NodeName<Name extends string, N extends Nodes> = string extends Name
  ? unknown
  : Name extends N["name"]
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

type Callable = (...parameters: any) => any
type Primitive = string | number | bigint | boolean | symbol
type AnyCommand = Command<any, Target, string>

/**
 * The outer form of what a node may return: it lets literals keep their types. It refuses nothing, so that `Output` can
 * say what is wrong.
 */
export type Returnable<C extends Channel.Fields> =
  | Primitive
  | object
  | void
  | null
  | undefined
  | Channel.StateUpdate<C>
  | AnyCommand
  | Send
  | ReadonlyArray<Channel.StateUpdate<C> | AnyCommand | Send>

/** A place to go to: declared in `goto`, and a `Send` carries what its target takes, as far as that is added yet. */
type Allowed<C extends Channel.Fields, N extends Nodes, G extends string, T> =
  T extends Send<infer Name, infer Arg>
    ? Name extends G
      ? Name extends N["name"]
        ? [Arg] extends [InputOf<N, Name, Channel.State<C>>]
          ? T
          : SendArgumentMismatch<Name, InputOf<N, Name, Channel.State<C>>>
        : T
      : GotoNotDeclared<Name>
    : T extends G | END
      ? T
      : GotoNotDeclared<T>

/** Checks what a node returns: an update, a `Command`, a `Send`, a list of these, or nothing. */
export type Output<C extends Channel.Fields, N extends Nodes, G extends string, A> = A extends undefined | null | void
  ? A
  : A extends Command<infer U, infer T, infer P>
    ? [P] extends [never]
      ? [T] extends [Allowed<C, N, G, T>]
        ? Command<CommandUpdate<C, U>, T, P>
        : Exclude<Allowed<C, N, G, T>, Target>
      : A
    : A extends Send
      ? Allowed<C, N, G, A>
      : A extends ReadonlyArray<infer I>
        ? [Extract<I, AnyCommand | Send>] extends [never]
          ? ListOfUpdates
          : ReadonlyArray<Output<C, N, G, I>>
        : A extends Callable
          ? NotAResult
          : A extends object
            ? ExactUpdate<C, A>
            : NotAResult

/** The `Send`s among a node's results that go to nodes which are not added yet: `compile` checks what they carry. */
export type LaterSends<N extends Nodes, A> = 0 extends 1 & A
  ? never
  : A extends Send<infer Name, unknown>
    ? Name extends N["name"]
      ? never
      : A
    : A extends Command<any, infer T, infer P>
      ? [P] extends [never]
        ? LaterSends<N, Extract<T, Send>>
        : never
      : A extends ReadonlyArray<infer I>
        ? LaterSends<N, Extract<I, AnyCommand | Send>>
        : never

/** One result of a router: a declared target, or a `Send` to one with the input that it takes. */
export type Destination<C extends Channel.Fields, N extends Nodes, To extends string> =
  | To
  | SendTo<Extract<N, { readonly name: To }>, Channel.State<C>>

/** What a router may return: a destination, a list of them, or an effect of either. */
export type Route<D, E, R> = D | ReadonlyArray<D> | Effect.Effect<D | ReadonlyArray<D>, E, R>

type SendMismatch<C extends Channel.Fields, N extends Nodes, S> =
  S extends Send<infer Name, infer Arg>
    ? Name extends N["name"]
      ? [Arg] extends [InputOf<N, Name, Channel.State<C>>]
        ? never
        : SendArgumentMismatch<Name, InputOf<N, Name, Channel.State<C>>>
      : never
    : never

type Unknown<N extends Nodes, Ref> = Exclude<Extract<Ref, string>, N["name"] | END>

/** What a complete graph is: every `goto` names a node, every `Send` carries what its target takes. */
export type Complete<C extends Channel.Fields, N extends Nodes, Ref, Self> = [Unknown<N, Ref>] extends [never]
  ? [SendMismatch<C, N, Ref>] extends [never]
    ? Self
    : SendMismatch<C, N, Ref>
  : NodesNeverAdded<Unknown<N, Ref>>

// ---------------------------------------------------------------------------------------------------------------------
// subgraphs
// ---------------------------------------------------------------------------------------------------------------------

type InputMismatch<C extends Channel.Fields, U> = {
  readonly [K in keyof U & keyof C]: [Channel.Value<C[K]>] extends [U[K]] ? never : K
}[keyof U & keyof C]

type OutputMismatch<C extends Channel.Fields, S> = {
  readonly [K in keyof S & keyof C]-?: [Exclude<S[K], undefined>] extends [Channel.Update<C[K]>] ? never : K
}[keyof S & keyof C]

/** Refuses a subgraph whose input can't take what the parent's channels of the same names hold. */
export type TakesFrom<C extends Channel.Fields, U> = [InputMismatch<C, Required<U>>] extends [never]
  ? unknown
  : SharedInputMismatch<InputMismatch<C, Required<U>>>

/** Refuses a subgraph whose output the parent's channels of the same names can't take. */
export type GivesTo<C extends Channel.Fields, S> = [OutputMismatch<C, S>] extends [never]
  ? unknown
  : SharedOutputMismatch<OutputMismatch<C, S>>

/** Options of `addGraph` besides the mappings. */
export interface GraphNodeOptions<G extends string> extends NestedOptions {
  /** Nodes of this graph that the subgraph may go to by a `Command` to `PARENT`. */
  readonly goto?: ReadonlyArray<G> | undefined
}

type ExactInput<U, A> = { readonly [K in keyof A]: K extends keyof U ? U[K] : NoSuchChannel<K> }

/** Makes the subgraph's input from this graph's state. */
export interface MapsInput<C extends Channel.Fields, U, A> {
  readonly input: (state: Channel.State<C>) => A & NoInfer<ExactInput<U, A>>
}

/** Makes an update of this graph from the subgraph's output. */
export interface MapsOutput<C extends Channel.Fields, S, B> {
  readonly output: (state: S) => B & NoInfer<ExactUpdate<C, B>>
}

// ---------------------------------------------------------------------------------------------------------------------
// options
// ---------------------------------------------------------------------------------------------------------------------

/** Failures that a node's error handler may get besides the node's own. */
export type NodeFailure = Errors.InvalidUpdate | Errors.UnknownNode | Errors.TaskTimeout | Errors.NodeCancelled

/** What a node's error handler gets: the node's failures and the engine's; a pause is none. */
export type Handled<E> = Exclude<E, Errors.GraphInterrupt> | NodeFailure

/** Options of `addWorker`. */
export interface WorkerOptions<G extends string, R> {
  /** Nodes that the result may go to by `Command` or `Send`; none by default. */
  readonly goto?: ReadonlyArray<G> | undefined
  /** Wait until nothing else can run; default `false`. */
  readonly defer?: boolean | undefined
  /** Repeat a failed attempt by a schedule; none by default, `false` against the graph's default. Pauses are never repeated. */
  readonly retry?: Schedule.Schedule<unknown, any, R> | RetryPolicy<R> | false | undefined
  /** Time limit of one attempt, in total or without progress; none by default. Exceeding it fails with `TaskTimeout`. */
  readonly timeout?: Duration.DurationInput | TimeoutPolicy | false | undefined
  /** Reuse results for equal inputs, where there is a `NodeCache` in the context. Default `false`. */
  readonly cache?: boolean | CachePolicy | undefined
  /** The name under which paused threads may know this node. */
  readonly renamedFrom?: string | undefined
}

/** Options of `defaults`. */
export type NodeDefaults<R> = Pick<WorkerOptions<never, R>, "retry" | "timeout" | "cache">

/** What a node writes. */
export interface Writes<C extends Channel.Fields> {
  /** The only channels that it writes, which lets `Graph.lint` find conflicts; all by default. */
  readonly writes?: ReadonlyArray<keyof C & string> | undefined
}

/** Options of `addNode`. */
export interface NodeOptions<C extends Channel.Fields, G extends string, K extends keyof C & string, R>
  extends WorkerOptions<G, R>,
    Writes<C> {
  /** Channels that the node sees; all by default. */
  readonly reads?: ReadonlyArray<K> | undefined
  /** Channels whose updates run the node, besides edges; none by default. */
  readonly subscribe?: ReadonlyArray<keyof C & string> | undefined
}

/** Handles failures of a node, after its retries. */
export interface ErrorHandler<I, E, B, E2, R2> {
  /** Runs in the node's place, in the same superstep; the node's edges do not fire then. */
  readonly onError?: ((error: E, input: I) => Effect.Effect<B, E2, R2>) | undefined
}

/** Options of `make`. */
export interface MakeOptions<C extends Channel.Fields, In extends keyof C, Out extends keyof C, Ev> {
  /** Channels that a run's input may write; all by default. */
  readonly input?: ReadonlyArray<In> | undefined
  /** Channels that make a run's result and its `Values` events; all by default. */
  readonly output?: ReadonlyArray<Out> | undefined
  /** The type of custom events; `unknown` by default. */
  readonly events?: Schema.Schema<Ev, any> | undefined
}

/** Options of a join edge. */
export interface JoinOptions {
  /** The run may end while some sources have not run; default `false`: that fails with `JoinUnsatisfied`. */
  readonly optional?: boolean | undefined
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

/** One step of `addSequence`. */
export type SequenceStep<C extends Channel.Fields> = readonly [
  name: string,
  run: (state: Channel.State<C>) => Effect.Effect<Returnable<C>, any, any>
]

type CheckedSteps<C extends Channel.Fields, N extends Nodes, Steps> = {
  readonly [I in keyof Steps]: Steps[I] extends readonly [
    infer Name extends string,
    (state: any) => Effect.Effect<infer A, any, any>
  ]
    ? readonly [Name & NodeName<Name, N>, (state: any) => Effect.Effect<Output<C, N, never, A>, any, any>]
    : never
}

/**
 * A graph being built. `C` are its channels, `N` its nodes, `In` and `Out` the channels of its input and output, `Ref`
 * the nodes and `Send`s that results go to before they are added, `Ev` its custom events, `E` and `R` what its nodes may
 * fail with and need.
 */
export interface Graph<
  in out C extends Channel.Fields,
  in out N extends Nodes,
  in out In extends keyof C,
  in out Out extends keyof C,
  in out Ref extends Target,
  in out Ev,
  out E,
  out R
> {
  readonly [TypeId]: Variance<C, N, E, R>
  readonly name: string

  /**
   * Adds a node: an effect of the state. It returns an update, a `Command`, a `Send`, a list of these, or nothing.
   *
   * Targets of `Command` and `Send` are declared with the option `goto`. With `onError` a failure of the node (after
   * retries) is handed to a handler that runs in the same superstep in its place: the node's own failures leave the
   * graph's type, the handler's enter it. A pause is no failure and is never handled.
   */
  addNode<
    const Name extends string,
    A extends Returnable<C>,
    E1 = never,
    R1 = never,
    const G extends string = never,
    const K extends keyof C & string = keyof C & string,
    B extends Returnable<C> = void,
    E2 = E1,
    R2 = never,
    R3 = never
  >(
    name: Name & NodeName<Name, N>,
    run: (state: Channel.State<C, K>) => Effect.Effect<A & NoInfer<Output<C, N, G, A>>, E1, R1>,
    options?: NodeOptions<C, G, K, R3> &
      ErrorHandler<Channel.State<C, K>, NoInfer<Handled<E1>>, B & NoInfer<Output<C, N, G, B>>, E2, R2>
  ): Graph<
    C,
    N | NodeType<Name, Reads<K>>,
    In,
    Out,
    Ref | G | LaterSends<N, A | B>,
    Ev,
    E | E2 | Extract<E1, Errors.GraphInterrupt>,
    R | R1 | R2 | R3
  >

  /**
   * Policies of every node that says nothing itself, added before or after; of several calls the last one counts for
   * each policy. `onError` handles what nodes without a handler of their own fail with, whose failures stay in the
   * graph's type. Handlers are repeated and limited in time as nodes are, and never cached. Graphs inside keep their
   * own.
   */
  defaults<B extends Returnable<C> = void, E2 = never, R2 = never, R3 = never>(
    options: NodeDefaults<R3> & ErrorHandler<unknown, unknown, B & NoInfer<Output<C, N, never, B>>, E2, R2>
  ): Graph<C, N, In, Out, Ref | LaterSends<N, B>, Ev, E | E2, R | R2 | R3>

  /**
   * Adds a node that is run by `Send`s only: `input` is the schema of what they carry.
   *
   * @example
   * ```ts
   * import { Effect, Schema } from "effect"
   * import { Channel, Graph, Send } from "effect-pregel"
   *
   * const graph = Graph.make("lengths", { words: Channel.append(Schema.String), total: Channel.append(Schema.Int) })
   *   .addWorker("measure", Schema.String, (word) => Effect.succeed({ total: word.length }))
   *   .addConditionalEdges(Graph.START, ({ words }) => words.map((word) => Send.make("measure", word)), ["measure"])
   *   .compile()
   * ```
   */
  addWorker<
    const Name extends string,
    I,
    II,
    A extends Returnable<C>,
    E1 = never,
    R1 = never,
    const G extends string = never,
    B extends Returnable<C> = void,
    E2 = E1,
    R2 = never,
    R3 = never
  >(
    name: Name & NodeName<Name, N>,
    input: Schema.Schema<I, II>,
    run: (input: NoInfer<I>) => Effect.Effect<A & NoInfer<Output<C, N, G, A>>, E1, R1>,
    options?: WorkerOptions<G, R3> &
      Writes<C> &
      ErrorHandler<NoInfer<I>, NoInfer<Handled<E1>>, B & NoInfer<Output<C, N, G, B>>, E2, R2>
  ): Graph<
    C,
    N | NodeType<Name, I>,
    In,
    Out,
    Ref | G | LaterSends<N, A | B>,
    Ev,
    E | E2 | Extract<E1, Errors.GraphInterrupt>,
    R | R1 | R2 | R3
  >

  /**
   * Adds a compiled graph as a node. They share the channels of equal name and kind: the subgraph's input is what this
   * graph's hold, its whole output is written back. `input` and `output` map them instead. Channels of equal name whose
   * types do not fit are refused unless they are mapped.
   *
   * @example
   * ```ts
   * import { Effect, Schema } from "effect"
   * import { Channel, Graph } from "effect-pregel"
   *
   * const child = Graph.make("child", { text: Channel.lastValue(Schema.String) })
   *   .addNode("shout", ({ text }) => Effect.succeed({ text: `${text}!` }))
   *   .addEdge(Graph.START, "shout")
   *   .compile()
   *
   * const parent = Graph.make("parent", { log: Channel.append(Schema.String) })
   *   .addGraph("child", child, {
   *     input: ({ log }) => ({ text: log.join(" ") }),
   *     output: ({ text }) => ({ log: text ?? [] })
   *   })
   *   .addEdge(Graph.START, "child")
   *   .compile()
   * ```
   */
  addGraph<const Name extends string, S, U, N1 extends Nodes, Ev1, E1, R1, S1, U1, const G extends string = never>(
    name: Name & NodeName<Name, N>,
    child: CompiledGraph<S, U, N1, Ev1, E1, R1, S1, U1> & TakesFrom<C, NoInfer<U>> & GivesTo<C, NoInfer<S>>,
    options?: GraphNodeOptions<G> & { readonly input?: undefined; readonly output?: undefined }
  ): Graph<C, N | NodeType<Name, Reads<keyof C>>, In, Out, Ref | G, Ev, E | E1, R | R1>
  addGraph<
    const Name extends string,
    S,
    U,
    N1 extends Nodes,
    Ev1,
    E1,
    R1,
    S1,
    U1,
    A extends U | object,
    const G extends string = never
  >(
    name: Name & NodeName<Name, N>,
    child: CompiledGraph<S, U, N1, Ev1, E1, R1, S1, U1> & GivesTo<C, NoInfer<S>>,
    options: GraphNodeOptions<G> & MapsInput<C, NoInfer<U>, A> & { readonly output?: undefined }
  ): Graph<C, N | NodeType<Name, Reads<keyof C>>, In, Out, Ref | G, Ev, E | E1, R | R1>
  addGraph<
    const Name extends string,
    S,
    U,
    N1 extends Nodes,
    Ev1,
    E1,
    R1,
    S1,
    U1,
    B extends Channel.StateUpdate<C> | object,
    const G extends string = never
  >(
    name: Name & NodeName<Name, N>,
    child: CompiledGraph<S, U, N1, Ev1, E1, R1, S1, U1> & TakesFrom<C, NoInfer<U>>,
    options: GraphNodeOptions<G> & MapsOutput<C, NoInfer<S>, B> & { readonly input?: undefined }
  ): Graph<C, N | NodeType<Name, Reads<keyof C>>, In, Out, Ref | G, Ev, E | E1, R | R1>
  addGraph<
    const Name extends string,
    S,
    U,
    N1 extends Nodes,
    Ev1,
    E1,
    R1,
    S1,
    U1,
    A extends U | object,
    B extends Channel.StateUpdate<C> | object,
    const G extends string = never
  >(
    name: Name & NodeName<Name, N>,
    child: CompiledGraph<S, U, N1, Ev1, E1, R1, S1, U1>,
    options: GraphNodeOptions<G> & MapsInput<C, NoInfer<U>, A> & MapsOutput<C, NoInfer<S>, B>
  ): Graph<C, N | NodeType<Name, Reads<keyof C>>, In, Out, Ref | G, Ev, E | E1, R | R1>

  /** Runs `to` after `from`; with a list of sources, once all of them have run (a join). */
  addEdge<const From extends N["name"] | START | ReadonlyArray<N["name"]>>(
    from: From,
    to: N["name"] | END,
    ...options: From extends string ? [] : [options?: JoinOptions]
  ): this

  /**
   * Lets a router choose what runs after `from`: targets, `Send`s to them, or a list. It sees the state with the node's
   * own writes. `targets` lists the nodes it may choose, or names them by labels.
   */
  addConditionalEdges<const To extends N["name"] | END, E1 = never, R1 = never>(
    from: N["name"] | START,
    route: (state: Channel.State<C>) => Route<Destination<C, N, NoInfer<To>>, E1, R1>,
    targets: ReadonlyArray<To>
  ): Graph<C, N, In, Out, Ref, Ev, E | E1, R | R1>
  addConditionalEdges<const T extends { readonly [label: string]: N["name"] | END }, E1 = never, R1 = never>(
    from: N["name"] | START,
    route: (state: Channel.State<C>) => Route<NoInfer<keyof T & string>, E1, R1>,
    targets: T
  ): Graph<C, N, In, Out, Ref, Ev, E | E1, R | R1>

  /** Adds nodes that run one after the other; the first needs an edge that leads to it. */
  addSequence<const Steps extends ReadonlyArray<SequenceStep<C>>>(
    steps: Steps & CheckedSteps<C, N, Steps>
  ): Graph<
    C,
    N | NodeType<Steps[number][0], Reads<keyof C>>,
    In,
    Out,
    Ref,
    Ev,
    E | Effect.Effect.Error<ReturnType<Steps[number][1]>>,
    R | Effect.Effect.Context<ReturnType<Steps[number][1]>>
  >

  /** Checks the graph and makes it ready to run. Throws `InvalidGraph`; `validate` gives the same as a value. */
  compile(
    this: Complete<C, N, Ref, Graph<C, N, In, Out, Ref, Ev, E, R>>,
    options?: CompileOptions<N["name"]>
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

  /** Checks the graph: its compiled structure, or every problem found. */
  validate(): Either.Either<Topology, Errors.InvalidGraph>
}

/** Any graph under construction. */
export type Any = { readonly name: string; validate(): Either.Either<Topology, Errors.InvalidGraph> }
