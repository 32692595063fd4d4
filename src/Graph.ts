/**
 * The builder of graphs and the compiled graph.
 *
 * A graph is made of channels (its state), nodes and the edges between them. The builder only collects; it is
 * immutable, each method returns a new one. Names are checked by the compiler; what types can't refuse, `compile`
 * refuses with one `InvalidGraph` that lists every problem. Errors and requirements of all nodes, routers and handlers
 * accumulate in the type; `Task`, which the engine provides, is subtracted.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Schema from "effect/Schema"
import type * as Builder from "./Builder.js"
import type * as Channel from "./Channel.js"
import { END, PARENT, START } from "./Command.js"
import { compile as compileData, type GraphData, type NodeData } from "./Compile.js"
import * as CompiledGraph from "./CompiledGraph.js"
import { InvalidGraph } from "./GraphError.js"
import * as Policy from "./internal/policy.js"
import * as Lint from "./Lint.js"
import * as Nested from "./Nested.js"
import * as Runs from "./Runs.js"
import type { Topology } from "./Topology.js"

export type {
  Any,
  Destination,
  Graph,
  GraphNodeOptions,
  Handled,
  JoinOptions,
  MakeOptions,
  NodeFailure,
  NodeOptions,
  Output,
  Returnable,
  WorkerOptions
} from "./Builder.js"
export type {
  Any as AnyCompiled,
  CommandInput,
  CompiledGraph,
  CompileOptions,
  Error,
  Input,
  NodeNames,
  Nodes,
  NodeType,
  Outcome,
  Requirements,
  Result,
  RunOptions,
  State,
  StreamOptions,
  ThreadOf,
  Update
} from "./CompiledGraph.js"
export { makeControl } from "./CompiledGraph.js"
export { END, PARENT, START }

const { TypeId } = CompiledGraph

type Op = (data: Collected) => void

interface Collected extends GraphData {
  readonly nodes: Array<NodeData>
  readonly drafts: Array<(defaults: Defaults) => NodeData>
  defaults: Defaults
  readonly edges: Array<GraphData["edges"][number]>
  readonly joins: Array<GraphData["joins"][number]>
  readonly branches: Array<GraphData["branches"][number]>
  readonly problems: Array<string>
}

/** A builder is a list of steps, newest first: adding one costs the same however many there are. */
class GraphImpl {
  readonly [TypeId] = TypeId
  constructor(
    readonly name: string,
    readonly channels: Channel.Fields,
    readonly options: Builder.MakeOptions<any, any, any, any>,
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
      events: this.options.events,
      nodes: [],
      drafts: [],
      defaults: {},
      edges: [],
      joins: [],
      branches: [],
      problems: []
    }
    for (let i = ops.length - 1; i >= 0; i--) ops[i]!(data)
    for (const draft of data.drafts) data.nodes.push(draft(data.defaults))
    return data
  }

  addNode(name: string, run: NodeData["run"], options: AnyNodeOptions = {}): GraphImpl {
    return this.with((data) => data.drafts.push((defaults) => nodeData(name, run, options, undefined, defaults)))
  }

  addWorker(name: string, input: Schema.Schema<any, any>, run: NodeData["run"], options: AnyNodeOptions = {}) {
    return this.with((data) => data.drafts.push((defaults) => nodeData(name, run, options, input, defaults)))
  }

  addGraph(name: string, child: CompiledGraph.Any, options: AnyGraphOptions = {}): GraphImpl {
    const run = graphNode(this.channels, child, options)
    const { goto } = options
    const graph = child.topology
    return this.with((data) =>
      data.drafts.push((defaults) => ({ ...nodeData(name, run, { goto }, undefined, defaults), graph }))
    )
  }

  defaults(options: Defaults): GraphImpl {
    return this.with((data) => {
      data.defaults = { ...data.defaults, ...given(options) }
    })
  }

  addEdge(from: string | ReadonlyArray<string>, to: string, options: { readonly optional?: boolean } = {}): GraphImpl {
    return this.with((data) => {
      if (typeof from === "string") data.edges.push({ from, to })
      else addJoin(data.joins, { from, to, optional: options.optional ?? false })
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
    if (steps.length === 0) return this.with((data) => data.problems.push("a sequence has no steps"))
    let graph: GraphImpl = this
    for (const [name, run] of steps) graph = graph.addNode(name, run)
    for (let i = 1; i < steps.length; i++) graph = graph.addEdge(steps[i - 1]![0], steps[i]![0])
    return graph
  }

  validate() {
    return compileData(this.collect())
  }

  compile(options: CompiledGraph.CompileOptions<string> = {}): CompiledGraph.Any {
    const checked = this.validate()
    const stops = Either.isRight(checked) ? Runs.unknownStops(checked.right, options) : []
    const metadata = Runs.metadataProblem(options.metadata)
    const problems = [
      ...(Either.isLeft(checked) ? checked.left.problems : []),
      ...stops.map((node) => `a breakpoint is set at "${node}", which is no node`),
      ...Runs.problemsOf(options),
      ...(metadata === undefined ? [] : [metadata])
    ]
    if (Either.isRight(checked) && problems.length === 0) return CompiledGraph.fromTopology(checked.right, options)
    throw new InvalidGraph({ graph: this.name, problems })
  }
}

/** A join that is added twice is one join, as an edge is; optional if it was so each time. */
const addJoin = (joins: Collected["joins"], join: GraphData["joins"][number]): void => {
  const same = ({ from, to }: typeof join) =>
    to === join.to && from.length === join.from.length && from.every((name, i) => name === join.from[i])
  const at = joins.findIndex(same)
  if (at < 0) joins.push(join)
  else joins[at] = { ...join, optional: join.optional && joins[at]!.optional }
}

type AnyHandler = (error: any, state: any) => Effect.Effect<unknown, unknown, any>

interface AnyNodeOptions extends Builder.NodeOptions<any, string, any, any> {
  readonly onError?: AnyHandler | undefined
}

interface Defaults extends Policy.PolicyOptions {
  readonly onError?: AnyHandler | undefined
}

/** The options that are given, so that absent ones replace no earlier ones. */
const given = (options: Defaults): Defaults =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))

interface AnyGraphOptions extends Builder.GraphNodeOptions<string> {
  readonly input?: ((state: any) => any) | undefined
  readonly output?: ((state: any) => any) | undefined
}

const nodeData = (
  name: string,
  run: NodeData["run"],
  options: AnyNodeOptions,
  input: Schema.Schema<any, any> | undefined,
  defaults: Defaults
): NodeData => {
  const onError = options.onError ?? defaults.onError
  return {
    name,
    run,
    input,
    reads: options.reads,
    subscribe: options.subscribe ?? [],
    writes: options.writes,
    targets: new Set(options.goto),
    defer: options.defer ?? false,
    policy: Policy.make(options, defaults),
    onError: onError && (({ error, state }) => onError(error, state)),
    handlerPolicy: Policy.make({ cache: false }, defaults),
    renamedFrom: options.renamedFrom
  }
}

/** Tells whether the state has the channel, without looking at others: names of inherited properties are checked apart. */
const has = (state: Record<string, unknown>, name: string): boolean =>
  name in Object.prototype ? Object.hasOwn(state, name) : name in state

/** Runs a compiled graph as a node, sharing channels of equal name and kind unless they are mapped. */
const graphNode = (channels: Channel.Fields, child: CompiledGraph.Any, options: AnyGraphOptions): NodeData["run"] => {
  const { topology } = child
  const shares = (ids: ReadonlyArray<number>) =>
    ids
      .map((id) => topology.channels[id]!)
      .filter(({ channel, name }) => channels[name]?.kind === channel.kind)
      .map(({ name }) => name)
  const pick = (names: ReadonlyArray<string>) => (state: Record<string, unknown>) =>
    Object.fromEntries(names.filter((name) => has(state, name)).map((name) => [name, state[name]]))
  const toInput = options.input ?? pick(shares(topology.input))
  const toOutput = options.output ?? pick(shares(topology.output))
  const stops = Runs.stopsOf(child.options)
  const nested = { ...child.options, ...options }
  return (state) => Effect.map(Nested.run(topology, { _tag: "Input", value: toInput(state) }, stops, nested), toOutput)
}

/**
 * Starts a graph: a name and a record of channels.
 *
 * A chain of calls is checked by the compiler in one piece: 100 nodes and edges take it well under a second, some
 * hundred more in one chain are too deep for compilers before TypeScript 7. Cut longer chains into constants of about
 * 50 calls each.
 *
 * @example
 * ```ts
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
 * ```
 */
export const make = <
  const C extends Channel.Fields,
  const In extends keyof C = keyof C,
  const Out extends keyof C = keyof C,
  Ev = unknown
>(
  name: string,
  channels: C,
  options: Builder.MakeOptions<C, In, Out, Ev> = {}
): Builder.Graph<C, never, In, Out, never, Ev, never, never> =>
  new GraphImpl(name, channels, options, undefined, undefined) as never

/**
 * Finds what is legal in a graph and probably a mistake: conflicting writes, nodes that nothing leads to, joins that
 * can't fire, cycles without exit, `goto` beside edges.
 *
 * @example
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Channel, Graph } from "effect-pregel"
 *
 * const graph = Graph.make("g", { answer: Channel.lastValue(Schema.String) })
 *   .addNode("a", () => Effect.succeed({ answer: "a" }), { writes: ["answer"] })
 *   .addNode("b", () => Effect.succeed({ answer: "b" }), { writes: ["answer"] })
 *   .addEdge(Graph.START, "a")
 *   .addEdge(Graph.START, "b")
 *   .compile()
 *
 * const messages = Graph.lint(graph).map(({ message }) => message)
 * ```
 */
export const lint = (graph: { readonly topology: Topology }): ReadonlyArray<Lint.Finding> => Lint.lint(graph.topology)

/** Tells whether a value is a graph under construction. */
export const isGraph = (value: unknown): value is Builder.Any => value instanceof GraphImpl
