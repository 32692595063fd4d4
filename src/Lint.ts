/**
 * Finds what is legal in a graph and probably a mistake: a finding is a value with a message, nothing fails.
 *
 * Only the structure is looked at. What nodes write is known where the option `writes` says it; nodes without it are
 * never part of a conflict. The targets of one router count as alternatives, as do those of one `goto`.
 */
import type { Kind } from "./Channel.js"
import type { Node, Topology } from "./Topology.js"

/** Two nodes of one superstep, or two tasks of one worker, write a channel that holds one value. */
export interface WriteConflict {
  readonly _tag: "WriteConflict"
  readonly channel: string
  readonly nodes: ReadonlyArray<string>
  readonly message: string
}

/** Nothing leads to the node. */
export interface UnreachableNode {
  readonly _tag: "UnreachableNode"
  readonly node: string
  readonly message: string
}

/** Some sources of a join never run, so that it never fires. */
export interface JoinNeverFires {
  readonly _tag: "JoinNeverFires"
  readonly node: string
  readonly sources: ReadonlyArray<string>
  readonly missing: ReadonlyArray<string>
  readonly message: string
}

/** A router may skip some sources of a join that has to fire: the run then fails with `JoinUnsatisfied`. */
export interface JoinMayStall {
  readonly _tag: "JoinMayStall"
  readonly node: string
  readonly arrived: ReadonlyArray<string>
  readonly missing: ReadonlyArray<string>
  readonly message: string
}

/** A run that enters the cycle never ends. */
export interface EndlessCycle {
  readonly _tag: "EndlessCycle"
  readonly nodes: ReadonlyArray<string>
  readonly message: string
}

/** A node goes to nodes by `goto` and by edges: a `goto` adds to edges, it does not replace them. */
export interface GotoBesideEdges {
  readonly _tag: "GotoBesideEdges"
  readonly node: string
  readonly goto: ReadonlyArray<string>
  readonly edges: ReadonlyArray<string>
  readonly message: string
}

/** Something that is probably a mistake. */
export type Finding = WriteConflict | UnreachableNode | JoinNeverFires | JoinMayStall | EndlessCycle | GotoBesideEdges

type Ids = ReadonlyArray<number>

/** Where a node leads, by node number; `undefined` in a list of alternatives is the end. */
interface Ways {
  readonly always: Ids
  readonly choices: ReadonlyArray<ReadonlyArray<number | undefined>>
}

interface Shape {
  readonly topology: Topology
  readonly ways: ReadonlyArray<Ways>
  readonly joins: ReadonlyArray<{ readonly sources: Ids; readonly target: number; readonly optional: boolean }>
  readonly reached: ReadonlySet<number>
}

const quoted = (names: ReadonlyArray<string>) => names.map((name) => `"${name}"`).join(", ")

/** All findings of a compiled structure, in a stable order. */
export const lint = (topology: Topology): ReadonlyArray<Finding> => {
  const shape = shapeOf(topology)
  return [
    ...unreachable(shape),
    ...deadJoins(shape),
    ...stallingJoins(shape),
    ...endlessCycles(shape),
    ...writeConflicts(shape),
    ...gotoBesideEdges(shape)
  ]
}

// ---------------------------------------------------------------------------------------------------------------------
// shape
// ---------------------------------------------------------------------------------------------------------------------

const waysOf = (topology: Topology, node: Node): Ways => {
  const idOf = (name: string) => topology.nodeIds.get(name)
  const choices = node.branches.map(({ targets }) =>
    targets === undefined ? topology.nodes.map(({ id }) => id) : Array.from(new Set(targets.values()), idOf)
  )
  const goto = node.targets === undefined ? [] : Array.from(node.targets, idOf)
  return {
    always: node.edges.flatMap((channel) => topology.channels[channel]!.subscribers),
    choices: goto.length === 0 ? choices : [...choices, [undefined, ...goto]]
  }
}

const shapeOf = (topology: Topology): Shape => {
  const ways = topology.nodes.map((node) => waysOf(topology, node))
  const joins = topology.joins.map(({ optional, sources, target }) => ({
    optional,
    sources: sources.map((name) => topology.nodeIds.get(name)!),
    target: topology.nodeIds.get(target)!
  }))
  return { topology, ways, joins, reached: reachedFrom(topology, ways, joins) }
}

const reachedFrom = (topology: Topology, ways: ReadonlyArray<Ways>, joins: Shape["joins"]): ReadonlySet<number> => {
  const reached = new Set([topology.entry])
  const add = (id: number | undefined) => {
    if (id !== undefined) reached.add(id)
  }
  const mayWrite = (channel: number) =>
    topology.input.includes(channel) ||
    Array.from(reached).some((id) => topology.nodes[id]!.writes?.has(channel) ?? !topology.nodes[id]!.hidden)
  for (let before = 0; before < reached.size; ) {
    before = reached.size
    for (const id of Array.from(reached)) {
      ways[id]!.always.forEach(add)
      for (const choice of ways[id]!.choices) choice.forEach(add)
      add(topology.nodes[id]!.errorHandler)
    }
    for (const { sources, target } of joins) if (sources.every((id) => reached.has(id))) add(target)
    for (const { id, triggers } of topology.nodes) {
      if (triggers.some((channel) => topology.channels[channel]!.isState && mayWrite(channel))) add(id)
    }
  }
  return reached
}

const nameOf =
  ({ topology }: Shape) =>
  (id: number) =>
    topology.nodes[id]!.name

// ---------------------------------------------------------------------------------------------------------------------
// nodes and joins
// ---------------------------------------------------------------------------------------------------------------------

const unreachable = ({ reached, topology }: Shape): ReadonlyArray<Finding> =>
  topology.nodes
    .filter(({ errorHandler: _, hidden, id, name }) => !hidden && !reached.has(id) && !name.startsWith("__"))
    .map(({ name: node }) => ({ _tag: "UnreachableNode", node, message: `nothing leads to node "${node}"` }))

const deadJoins = (shape: Shape): ReadonlyArray<Finding> =>
  shape.joins.flatMap(({ sources: ids, target }) => {
    const missing = ids.filter((id) => !shape.reached.has(id)).map(nameOf(shape))
    if (missing.length === 0) return []
    const node = nameOf(shape)(target)
    const sources = ids.map(nameOf(shape))
    const message = `the join of [${quoted(sources)}] into "${node}" never fires: nothing leads to ${quoted(missing)}`
    return [{ _tag: "JoinNeverFires" as const, node, sources, missing, message }]
  })

/** Combinations of routers' choices that are tried; where there are more, joins behind them are not judged. */
const MAX_SCENARIOS = 4096

interface Choice {
  readonly node: number
  readonly index: number
  readonly options: ReadonlyArray<number | undefined>
}

/** Every run in which each router always chooses the same: does a join stay half full? */
const stallingJoins = (shape: Shape): ReadonlyArray<Finding> => {
  const found = new Map<number, Finding>()
  shape.joins.forEach((join, index) => {
    if (join.optional || !join.sources.every((id) => shape.reached.has(id))) return
    const choices = choicesBefore(shape, join.sources)
    const count = choices.reduce((product, { options }) => product * options.length, 1)
    if (count > MAX_SCENARIOS) return
    for (let number = 0; number < count && !found.has(index); number++) {
      const active = run(shape, scenario(choices, number))
      if (active === undefined) continue
      const missing = join.sources.filter((id) => !active.has(id)).map(nameOf(shape))
      if (missing.length === 0 || missing.length === join.sources.length) continue
      const arrived = join.sources.filter((id) => active.has(id)).map(nameOf(shape))
      const node = nameOf(shape)(join.target)
      const message = `the join into "${node}" can be left with ${quoted(arrived)} arrived while ${quoted(missing)} never runs: declare it { optional: true } or let every way lead to it`
      found.set(index, { _tag: "JoinMayStall", node, arrived, missing, message })
    }
  })
  return Array.from(found.values())
}

/** Choices of nodes from which a source can be reached. */
const choicesBefore = (shape: Shape, sources: Ids): ReadonlyArray<Choice> => {
  const before = new Set(sources)
  for (let size = 0; size < before.size; ) {
    size = before.size
    for (const id of shape.reached) if (leadsTo(shape, id).some((next) => before.has(next))) before.add(id)
  }
  return Array.from(before).flatMap((node) =>
    shape.ways[node]!.choices.map((options, index) => ({ node, index, options }))
  )
}

const leadsTo = ({ joins, ways }: Shape, id: number): Ids => [
  ...ways[id]!.always,
  ...ways[id]!.choices.flat().filter((next) => next !== undefined),
  ...joins.filter(({ sources }) => sources.includes(id)).map(({ target }) => target)
]

type Chosen = ReadonlyMap<string, number | undefined>

const scenario = (choices: ReadonlyArray<Choice>, number: number): Chosen => {
  const chosen = new Map<string, number | undefined>()
  let rest = number
  for (const { index, node, options } of choices) {
    chosen.set(`${node}.${index}`, options[rest % options.length])
    rest = Math.floor(rest / options.length)
  }
  return chosen
}

/** The nodes that run, if the run ends. */
const run = ({ joins, topology, ways }: Shape, chosen: Chosen): ReadonlySet<number> | undefined => {
  const next = (id: number): Ids => {
    const { always, choices } = ways[id]!
    const picked = choices.map((_, index) => chosen.get(`${id}.${index}`)).filter((target) => target !== undefined)
    return [...always, ...picked]
  }
  const active = new Set([topology.entry])
  const edges = new Map<number, Ids>()
  for (let size = 0; size < active.size; ) {
    size = active.size
    for (const id of Array.from(active)) {
      edges.set(id, next(id))
      for (const target of edges.get(id)!) active.add(target)
    }
    for (const { sources, target } of joins) if (sources.every((id) => active.has(id))) active.add(target)
  }
  return cyclesIn(Array.from(active), (id) => edges.get(id) ?? []).length > 0 ? undefined : active
}

// ---------------------------------------------------------------------------------------------------------------------
// cycles
// ---------------------------------------------------------------------------------------------------------------------

/** Sets of nodes that lead to each other (Tarjan's strongly connected components), without single nodes. */
const cyclesIn = (nodes: Ids, next: (id: number) => Ids): ReadonlyArray<Ids> => {
  const index = new Map<number, number>()
  const low = new Map<number, number>()
  const stack: Array<number> = []
  const found: Array<Ids> = []
  const visit = (id: number): void => {
    index.set(id, index.size)
    low.set(id, index.get(id)!)
    stack.push(id)
    for (const target of next(id)) {
      if (!index.has(target)) visit(target)
      if (stack.includes(target)) low.set(id, Math.min(low.get(id)!, low.get(target)!))
    }
    if (low.get(id) !== index.get(id)) return
    const members = stack.splice(stack.indexOf(id))
    if (members.length > 1 || next(id).includes(id)) found.push(members)
  }
  for (const id of nodes) if (!index.has(id)) visit(id)
  return found
}

const endlessCycles = (shape: Shape): ReadonlyArray<Finding> => {
  const { joins, reached, ways } = shape
  const single = (id: number) => joins.filter(({ sources }) => sources.length === 1 && sources[0] === id)
  const forced = cyclesIn(Array.from(reached), (id) => [...ways[id]!.always, ...single(id).map(({ target }) => target)])
  const closed = cyclesIn(Array.from(reached), (id) => leadsTo(shape, id)).filter(
    (cycle) =>
      !forced.some((other) => other.some((id) => cycle.includes(id))) &&
      cycle.every((id) => leadsTo(shape, id).every((next) => cycle.includes(next))) &&
      cycle.every((id) => ways[id]!.choices.every((options) => !options.includes(undefined)))
  )
  const report = (why: string) => (cycle: Ids) => {
    const nodes = cycle.map(nameOf(shape)).sort()
    return { _tag: "EndlessCycle" as const, nodes, message: `a run that enters [${quoted(nodes)}] never ends: ${why}` }
  }
  return [
    ...forced.map(report("static edges lead around, and they are always followed")),
    ...closed.map(report("no router among them may choose another node or END"))
  ]
}

// ---------------------------------------------------------------------------------------------------------------------
// conflicts
// ---------------------------------------------------------------------------------------------------------------------

const SINGLE: ReadonlySet<Kind> = new Set(["lastValue", "ephemeral", "untracked"])

const writeConflicts = (shape: Shape): ReadonlyArray<Finding> => {
  const { topology } = shape
  const holdsOne = (id: number) => {
    const { definition } = topology.channels[id]!.channel
    return SINGLE.has(definition.kind) && definition.guard !== false
  }
  const conflict = (channel: number, nodes: ReadonlyArray<string>, who: string): Finding => {
    const name = topology.channels[channel]!.name
    const message = `${who} write channel "${name}", which holds one value: give it a reducer, or make it a log`
    return { _tag: "WriteConflict", channel: name, nodes, message }
  }
  const single = (node: Node) => Array.from(node.writes ?? []).filter(holdsOne)
  const own = topology.nodes
    .filter(({ id, worker }) => worker && shape.reached.has(id))
    .flatMap((node) =>
      single(node).map((channel) => conflict(channel, [node.name, node.name], `several sends to "${node.name}"`))
    )
  const pairs = Array.from(together(shape), (pair) => pair.split(",").map((id) => topology.nodes[Number(id)]!))
  const between = pairs.flatMap(([a, b]) =>
    single(a!)
      .filter((channel) => b!.writes?.has(channel))
      .map((channel) => {
        const names = [a!.name, b!.name].sort()
        return conflict(channel, names, `nodes ${quoted(names)} can run in one superstep and both`)
      })
  )
  return [...own, ...between]
}

/** Pairs of nodes that can run in one superstep: those that one node leads to at once, and what pairs lead to. */
const together = (shape: Shape): ReadonlySet<string> => {
  const { reached, topology, ways } = shape
  const defers = (id: number) => topology.nodes[id]!.triggers.some((channel) => topology.channels[channel]!.afterFinish)
  const pairs = new Set<string>()
  const queue: Array<readonly [number, number]> = []
  const add = (a: number, b: number) => {
    const pair = a < b ? `${a},${b}` : `${b},${a}`
    // A deferred node waits until nothing else can run.
    if (a === b || pairs.has(pair) || defers(a) !== defers(b)) return
    pairs.add(pair)
    queue.push([a, b])
  }
  const present = (options: ReadonlyArray<number | undefined>) => options.filter((id) => id !== undefined)
  for (const id of reached) {
    const joined = shape.joins.filter(({ sources }) => sources.includes(id)).map(({ target }) => [target])
    const groups = [...ways[id]!.always.map((target) => [target]), ...joined, ...ways[id]!.choices.map(present)]
    groups.forEach((group, i) => {
      for (const other of groups.slice(i + 1)) for (const a of group) for (const b of other) add(a, b)
    })
  }
  for (let pair = queue.pop(); pair !== undefined; pair = queue.pop()) {
    for (const a of leadsTo(shape, pair[0])) for (const b of leadsTo(shape, pair[1])) add(a, b)
  }
  return pairs
}

const gotoBesideEdges = (shape: Shape): ReadonlyArray<Finding> =>
  shape.topology.nodes.flatMap((node) => {
    const goto = Array.from(node.targets ?? [])
    const { always, choices } = shape.ways[node.id]!
    const routed = choices.slice(0, node.branches.length).flat()
    const joined = shape.joins.filter(({ sources }) => sources.includes(node.id)).map(({ target }) => target)
    const beside = [...always, ...joined, ...routed].filter((id) => id !== undefined)
    if (goto.length === 0 || beside.length === 0) return []
    const edges = Array.from(new Set(beside.map(nameOf(shape))))
    const message = `node "${node.name}" goes to [${quoted(goto)}] by goto and to [${quoted(edges)}] by edges: a goto adds to edges, it does not replace them`
    return [{ _tag: "GotoBesideEdges" as const, node: node.name, goto, edges, message }]
  })
