/**
 * From what a builder collected to a topology: every problem that types can't refuse is found here, and all of them are
 * reported together.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Channel from "./Channel.js"
import { makeSpec } from "./Channels.js"
import * as Codec from "./Codec.js"
import { END, START } from "./Command.js"
import { argumentCodec, inputCodec, joinCodec, type Names, sendsCodec } from "./EngineCodec.js"
import { InvalidGraph } from "./GraphError.js"
import { hash } from "./internal/hash.js"
import { timeoutProblem } from "./internal/timeout.js"
import type { Branch, ChannelSpec, Join, Node, NodePolicy, Topology } from "./Topology.js"

/** A node as the builder collected it. */
export interface NodeData {
  readonly name: string
  readonly run: (input: any) => Effect.Effect<unknown, unknown, any>
  readonly reads: ReadonlyArray<string> | undefined
  readonly subscribe: ReadonlyArray<string>
  readonly writes?: ReadonlyArray<string> | undefined
  readonly targets: ReadonlySet<string>
  readonly defer: boolean
  readonly input: Schema.Schema<any, any> | undefined
  readonly policy: NodePolicy
  readonly onError: ((failure: any) => Effect.Effect<unknown, unknown, any>) | undefined
  readonly handlerPolicy: NodePolicy
  readonly renamedFrom: string | undefined
  /** The graph that the node is. */
  readonly graph?: Topology | undefined
}

/** A graph as the builder collected it. */
export interface GraphData {
  readonly name: string
  readonly channels: Channel.Fields
  readonly input: ReadonlyArray<string> | undefined
  readonly output: ReadonlyArray<string> | undefined
  /** Schema of custom events. */
  readonly events: Schema.Schema<any, any> | undefined
  readonly nodes: ReadonlyArray<NodeData>
  readonly edges: ReadonlyArray<{ readonly from: string; readonly to: string }>
  readonly joins: ReadonlyArray<{
    readonly from: ReadonlyArray<string>
    readonly to: string
    readonly optional: boolean
  }>
  readonly branches: ReadonlyArray<{
    readonly from: string
    readonly route: (state: any) => unknown
    readonly targets: ReadonlyMap<string, string>
  }>
  /** What was wrong already when it was collected. */
  readonly problems?: ReadonlyArray<string>
}

/** Channels of the engine; names that no state channel may have. */
const SENDS = "__pregel_tasks"
const INPUT = "__start__"

const triggerName = (node: string) => `branch:to:${node}`
const joinName = (from: ReadonlyArray<string>, to: string) => `join:${from.join("+")}:${to}`
const handlerName = (node: string) => `__error_handler__${node}`

const RESERVED_IN_NAMES = /[|:#/]/

const nameProblem = (what: string, name: string): string | undefined => {
  if (typeof name !== "string" || name === "") return `${what} needs a name`
  if (name === START || name === END) return `${what} can't be named "${name}": that is a virtual node`
  if (name.startsWith("__")) return `${what} "${name}": names that start with "__" are the engine's own`
  if (RESERVED_IN_NAMES.test(name)) return `${what} "${name}": a name can't contain "|", ":", "#" or "/"`
  return undefined
}

// ---------------------------------------------------------------------------------------------------------------------
// validation
// ---------------------------------------------------------------------------------------------------------------------

/** Everything that is wrong with a graph. */
export const problemsOf = (data: GraphData): ReadonlyArray<string> => {
  const problems: Array<string> = [...(data.problems ?? [])]
  const channels = new Set(Object.keys(data.channels))
  for (const name of channels) {
    if (name === "" || name.startsWith("__") || name.startsWith("branch:") || name.startsWith("join:")) {
      problems.push(`channel "${name}": the name is reserved`)
    }
    const channel = data.channels[name]
    if (!Channel.isChannel(channel)) problems.push(`channel "${name}" is not a Channel`)
    else if (channels.has(channel.definition.renamedFrom ?? "")) {
      problems.push(`channel "${name}" is renamed from "${channel.definition.renamedFrom}", which the graph still has`)
    }
  }
  for (const name of [...(data.input ?? []), ...(data.output ?? [])]) {
    if (!channels.has(name)) problems.push(`input or output names channel "${name}", which the graph does not have`)
  }
  const nodes = new Set<string>()
  for (const node of data.nodes) {
    const problem = nameProblem("a node", node.name)
    if (problem !== undefined) problems.push(problem)
    if (nodes.has(node.name)) problems.push(`node "${node.name}" is added twice`)
    nodes.add(node.name)
    if (typeof node.run !== "function") problems.push(`node "${node.name}" is no function`)
  }
  const formerly = new Set<string>()
  for (const node of data.nodes) problems.push(...nodeProblems(node, nodes, channels))
  for (const { name, renamedFrom } of data.nodes) {
    if (renamedFrom !== undefined && nodes.has(renamedFrom)) {
      problems.push(`node "${name}" is renamed from "${renamedFrom}", which the graph still has`)
    }
    if (renamedFrom === undefined) continue
    if (formerly.has(renamedFrom)) problems.push(`two nodes are renamed from "${renamedFrom}"`)
    formerly.add(renamedFrom)
  }
  problems.push(...edgeProblems(data, nodes))
  return problems
}

const nodeProblems = (node: NodeData, nodes: ReadonlySet<string>, channels: ReadonlySet<string>) => {
  const problems: Array<string> = []
  for (const name of [...(node.reads ?? []), ...node.subscribe]) {
    if (!channels.has(name)) problems.push(`node "${node.name}" reads channel "${name}", which the graph does not have`)
  }
  for (const name of node.writes ?? []) {
    if (!channels.has(name))
      problems.push(`node "${node.name}" writes channel "${name}", which the graph does not have`)
  }
  for (const target of node.targets) {
    if (target !== END && !nodes.has(target)) problems.push(`node "${node.name}" goes to "${target}", which is no node`)
  }
  const limits = timeoutProblem(node.policy.timeout)
  if (limits !== undefined) problems.push(`node "${node.name}": ${limits}`)
  return problems
}

/** Joins of one name would take each other's arrivals. */
const alike = (joins: ReadonlyArray<string>): ReadonlyArray<string> =>
  joins
    .filter((name, i) => joins.indexOf(name) < i)
    .map((name) => `two joins can't be told apart: "${name.slice("join:".length)}"`)

const edgeProblems = (data: GraphData, nodes: ReadonlySet<string>) => {
  const problems: Array<string> = []
  const workers = new Set(data.nodes.filter(({ input }) => input !== undefined).map(({ name }) => name))
  const checkFrom = (from: string) => {
    if (from === END) problems.push("an edge can't start at END")
    else if (from !== START && !nodes.has(from)) problems.push(`an edge starts at "${from}", which is no node`)
  }
  const checkTo = (from: string, to: string) => {
    if (to === START) problems.push(`an edge from "${from}" can't lead to START`)
    else if (to !== END && !nodes.has(to)) problems.push(`an edge from "${from}" leads to "${to}", which is no node`)
  }
  const checkIsRun = (from: string, to: string) => {
    if (workers.has(to)) problems.push(`an edge from "${from}" leads to worker "${to}", which only a Send can run`)
  }
  for (const { from, to } of data.edges) {
    checkFrom(from)
    checkTo(from, to)
    checkIsRun(from, to)
    if (from === START && to === END) problems.push("an edge from START to END runs nothing")
  }
  for (const { from, to } of data.joins) {
    if (from.length === 0) problems.push(`a join into "${to}" has no sources`)
    if (new Set(from).size < from.length) problems.push(`a join into "${to}" names a source twice`)
    for (const source of from) {
      if (source === START) problems.push(`a join into "${to}" can't wait for START`)
      else checkFrom(source)
    }
    checkTo(from.join("+"), to)
    checkIsRun(from.join("+"), to)
  }
  problems.push(...alike(data.joins.map(({ from, to }) => joinName(from, to))))
  for (const { from, route, targets } of data.branches) {
    checkFrom(from)
    if (typeof route !== "function") problems.push(`a router of "${from}" is no function`)
    for (const to of targets.values()) checkTo(from, to)
  }
  const enters =
    data.edges.some(({ from }) => from === START) ||
    data.branches.some(({ from }) => from === START) ||
    data.nodes.some(({ subscribe }) => subscribe.length > 0)
  if (!enters) problems.push("nothing runs: add an edge from START")
  return problems
}

// ---------------------------------------------------------------------------------------------------------------------
// channels
// ---------------------------------------------------------------------------------------------------------------------

const trigger = Channel.ephemeral(Schema.Null, { guard: false })
const deferredTrigger = Channel.lastValueAfterFinish(Schema.Null)
const inputChannel = Channel.ephemeral(Schema.Unknown)
const sendsChannel = Channel.topic(Schema.Unknown)

interface Draft extends Names {
  readonly specs: Array<ChannelSpec & { readonly subscribers: Array<number> }>
  readonly ids: Map<string, number>
  readonly renamed: Map<string, number>
}

const addChannel = (draft: Draft, name: string, channel: Channel.Any, codec: Codec.Codec, isState: boolean): number => {
  const id = draft.specs.length
  draft.specs.push(makeSpec(id, name, channel, codec, isState))
  draft.ids.set(name, id)
  return id
}

// ---------------------------------------------------------------------------------------------------------------------
// topology
// ---------------------------------------------------------------------------------------------------------------------

/** Compiles a graph, or says what is wrong with it. */
export const compile = (data: GraphData): Either.Either<Topology, InvalidGraph> => {
  const problems = problemsOf(data)
  if (problems.length > 0) return Either.left(new InvalidGraph({ graph: data.name, problems }))
  return Either.right(build(data))
}

const build = (data: GraphData): Topology => {
  const draft: Draft = { specs: [], ids: new Map(), renamed: new Map(), renamedNodes: renamedNodesOf(data) }
  const names = Object.keys(data.channels)
  for (const name of names) addChannel(draft, name, data.channels[name]!, Codec.make(data.channels[name]!), true)
  const state = names.map((_, id) => id)
  const records = argumentCodec(draft, undefined)
  const argumentCodecs = new Map(
    data.nodes.map(({ input, name }) => [name, input === undefined ? records : argumentCodec(draft, input)])
  )
  const sends = addChannel(
    draft,
    SENDS,
    sendsChannel,
    sendsCodec(draft, (node) => argumentCodecs.get(node)),
    false
  )
  const start = addChannel(draft, INPUT, inputChannel, inputCodec(draft), false)

  const edges = new Map<string, Outgoing>()
  const outgoing = (name: string): Outgoing => {
    let found = edges.get(name)
    if (found === undefined) edges.set(name, (found = { edges: [], joins: [], branches: [] }))
    return found
  }
  const triggers = new Map<string, Array<number>>()
  const codecs = new Map([trigger, deferredTrigger].map((channel) => [channel, Codec.make(channel)] as const))
  for (const { defer, name, subscribe } of data.nodes) {
    const channel = defer ? deferredTrigger : trigger
    const own = addChannel(draft, triggerName(name), channel, codecs.get(channel)!, false)
    triggers.set(name, [own, ...subscribe.map((channel) => draft.ids.get(channel)!)])
  }
  for (const { from, to } of data.edges) if (to !== END) outgoing(from).edges.push(draft.ids.get(triggerName(to))!)
  const joins = addJoins(data, draft, triggers, outgoing)
  for (const { from, route, targets } of data.branches) {
    outgoing(from).branches.push({ name: from, route, targets })
  }
  addFormerNames(data, draft)
  const nodes = makeNodes(data, draft, triggers, argumentCodecs, outgoing, start)
  return {
    identity: { name: data.name, fingerprint: fingerprintOf(data) },
    channels: draft.specs,
    channelIds: draft.ids,
    renamed: draft.renamed,
    renamedNodes: draft.renamedNodes,
    versions: versionsOf(data),
    caches: data.nodes.some(({ policy }) => policy.cache !== undefined),
    waitsFor,
    nodes,
    // Handlers are addressed by nobody but the engine.
    nodeIds: new Map(nodes.slice(0, data.nodes.length + 1).map(({ id, name }) => [name, id])),
    state,
    input: (data.input ?? names).map((name) => draft.ids.get(name)!),
    output: (data.output ?? names).map((name) => draft.ids.get(name)!),
    sends,
    start,
    entry: 0,
    triggerOf: nodes.map(({ triggers }) => triggers[0] ?? -1),
    joins,
    checkEvent: data.events && checkEvent(Codec.make(Channel.lastValue(data.events)))
  }
}

/** What is wrong with a custom event. */
const checkEvent = (codec: Codec.Codec) => (value: unknown) =>
  codec.isExact(value) ? undefined : Option.getOrUndefined(Either.getLeft(codec.encodeUpdate(value)))

interface Outgoing {
  readonly edges: Array<number>
  readonly joins: Array<number>
  readonly branches: Array<Branch>
}

const addJoins = (
  data: GraphData,
  draft: Draft,
  triggers: ReadonlyMap<string, Array<number>>,
  outgoing: (name: string) => Outgoing
): ReadonlyArray<Join> => {
  const deferred = new Set(data.nodes.filter(({ defer }) => defer).map(({ name }) => name))
  const joins: Array<Join> = []
  for (const { from, optional, to } of data.joins) {
    if (to === END) continue
    const channel = deferred.has(to) ? Channel.barrierAfterFinish(from) : Channel.barrier(from)
    const id = addChannel(draft, joinName(from, to), channel, joinCodec(draft), false)
    triggers.get(to)!.push(id)
    for (const source of from) outgoing(source).joins.push(id)
    joins.push({ channel: id, sources: from, target: to, optional })
  }
  return joins
}

const makeNodes = (
  data: GraphData,
  draft: Draft,
  triggers: ReadonlyMap<string, Array<number>>,
  argumentCodecs: ReadonlyMap<string, Codec.Codec>,
  outgoing: (name: string) => Outgoing,
  start: number
): ReadonlyArray<Node> => {
  const state = Object.keys(data.channels).map((_, id) => id)
  const handled = data.nodes.filter(({ onError }) => onError !== undefined)
  const names = [START, ...data.nodes.map(({ name }) => name), ...handled.map(({ name }) => handlerName(name))]
  const rank = new Map(
    names
      .slice()
      .sort()
      .map((name, i) => [name, i])
  )
  const nodes: Array<Node> = []
  const add = (name: string, node: Omit<Node, "id" | "name" | "rank" | "edges" | "joins" | "branches">) => {
    const id = nodes.length
    const { branches, edges, joins } = outgoing(name)
    // A spread that only follows own keys is cheap, two are not.
    nodes.push({ id, name, rank: rank.get(name)!, edges, joins, branches, ...node })
    for (const channel of node.triggers) draft.specs[channel]!.subscribers.push(id)
  }
  add(START, { ...bare, triggers: [start], reads: [], hidden: true, input: Codec.plain, run: passOn })
  for (const node of data.nodes) {
    add(node.name, {
      triggers: triggers.get(node.name)!,
      reads: node.reads?.map((name) => draft.ids.get(name)!) ?? state,
      hidden: false,
      input: argumentCodecs.get(node.name)!,
      run: node.run,
      writes: node.writes && new Set(node.writes.map((name) => draft.ids.get(name)!)),
      worker: node.input !== undefined,
      renamedFrom: node.renamedFrom,
      graph: node.graph,
      targets: node.targets,
      policy: node.policy,
      errorHandler: node.onError === undefined ? undefined : data.nodes.length + 1 + handled.indexOf(node)
    })
  }
  for (const node of handled) {
    add(handlerName(node.name), {
      ...bare,
      triggers: [],
      reads: [],
      hidden: false,
      input: Codec.plain,
      run: node.onError!,
      targets: node.targets,
      policy: node.handlerPolicy,
      renamedFrom: node.renamedFrom && handlerName(node.renamedFrom)
    })
  }
  return nodes
}

const bare = {
  targets: undefined,
  policy: {},
  errorHandler: undefined,
  renamedFrom: undefined,
  writes: undefined,
  worker: false
} as const

/** The entry node: its result is the run's input. */
const passOn = (input: unknown) => Effect.succeed(input)

const renamedNodesOf = (data: GraphData): ReadonlyMap<string, string> =>
  new Map(data.nodes.flatMap(({ name, renamedFrom }) => (renamedFrom === undefined ? [] : [[renamedFrom, name]])))

/** The names under which channels may be saved that were called otherwise, or belong to nodes that were. */
const addFormerNames = (data: GraphData, draft: Draft): void => {
  const former = new Map(Array.from(draft.renamedNodes, ([before, name]) => [name, before]))
  const add = (before: string, now: string) => {
    if (before !== now) draft.renamed.set(before, draft.ids.get(now)!)
  }
  for (const [name, { definition }] of Object.entries(data.channels)) {
    if (definition.renamedFrom !== undefined) add(definition.renamedFrom, name)
  }
  for (const { name, renamedFrom } of data.nodes) {
    if (renamedFrom !== undefined) add(triggerName(renamedFrom), triggerName(name))
  }
  for (const { from, to } of data.joins) {
    if (to === END) continue
    for (const names of formerLists([...from, to], former)) {
      add(joinName(names.slice(0, -1), names.at(-1)!), joinName(from, to))
    }
  }
}

/** Every way in which some of these names may have been their former ones. */
const formerLists = (
  names: ReadonlyArray<string>,
  former: ReadonlyMap<string, string | undefined>
): ReadonlyArray<ReadonlyArray<string>> =>
  names.reduce<ReadonlyArray<ReadonlyArray<string>>>(
    (lists, name) => {
      const before = former.get(name)
      const withPresent = lists.map((list) => [...list, name])
      return before === undefined ? withPresent : [...withPresent, ...lists.map((list) => [...list, before])]
    },
    [[]]
  )

/** Schema versions of channels, where they are not the first. */
const versionsOf = (data: GraphData): Codec.Versions | undefined => {
  const versions = Object.entries(data.channels).flatMap(([name, { definition }]) =>
    definition.version === undefined ? [] : [[name, definition.version] as const]
  )
  return versions.length === 0 ? undefined : Object.fromEntries(versions)
}

const waitsFor = (channel: string): string | undefined => {
  if (channel.startsWith("branch:to:")) return channel.slice("branch:to:".length)
  return channel.startsWith("join:") ? channel.slice(channel.lastIndexOf(":") + 1) : undefined
}

/** A hash of what a saved run depends on: channels with their kinds and versions, nodes, and what triggers them. */
const fingerprintOf = (data: GraphData): string =>
  hash(
    JSON.stringify([
      Object.entries(data.channels).map(([name, { definition }]) => [name, definition.kind, definition.version ?? 1]),
      data.nodes.map(({ defer, name, subscribe }) => [name, defer, subscribe]),
      data.edges.map(({ from, to }) => [from, to]),
      data.joins.map(({ from, to }) => [from, to]),
      data.branches.map(({ from, targets }) => [from, Array.from(targets)])
    ])
  )
