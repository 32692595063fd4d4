/**
 * Random graphs as plain data: what both engines interpret.
 *
 * Every graph has the same channels, so that a spec only says who runs when and what it writes. Loops are bounded by
 * counters in the state, so that a graph ends or meets the recursion limit.
 */

/** When something happens, decided from the state that a node or a router sees. */
export type When =
  | { readonly _tag: "Always" }
  /** Fewer than `count` entries of the node are in the log. */
  | { readonly _tag: "Below"; readonly node: string; readonly count: number }
  | { readonly _tag: "Parity"; readonly rest: 0 | 1 }
  | { readonly _tag: "SumAbove"; readonly than: number }

/** A packet: the target and the value of `last` it carries. */
export interface Packet {
  readonly to: string
  readonly last: number
}

/** Where a result leads. */
export interface Route {
  readonly when: When
  readonly to: ReadonlyArray<string>
  readonly sends: ReadonlyArray<Packet>
}

/** How a node says what it writes. */
export type Form = "update" | "command" | "pairs" | "list" | "none"

export interface NodeSpec {
  readonly name: string
  readonly form: Form
  readonly sum: number | undefined
  readonly last: number | undefined
  readonly mix: number | undefined
  readonly any: number | undefined
  readonly topic: ReadonlyArray<number> | undefined
  readonly flash: number | undefined
  readonly defer: boolean
  /** Questions it asks, one after the other. */
  readonly asks: number
  /** It fails in calls before this one. */
  readonly failsUntil: number
  /** By `Command`, in addition to its edges. */
  readonly goto: Route | undefined
  readonly child: ChildSpec | undefined
}

export interface ChildSpec {
  readonly graph: GraphSpec
  /** Shares the channels of its parent, or takes `sum` and gives back its log. */
  readonly mapped: boolean
}

export interface BranchSpec {
  readonly from: string
  readonly arms: ReadonlyArray<Route>
  readonly otherwise: string
}

export interface GraphSpec {
  readonly nodes: ReadonlyArray<NodeSpec>
  readonly edges: ReadonlyArray<readonly [from: string, to: string]>
  readonly joins: ReadonlyArray<{
    readonly from: ReadonlyArray<string>
    readonly to: string
    readonly optional: boolean
  }>
  readonly branches: ReadonlyArray<BranchSpec>
}

/** What is done with the thread, besides going on until nothing is left to do. */
export type Action =
  | { readonly _tag: "Input"; readonly sum: number; readonly log: string; readonly abandon: boolean }
  | { readonly _tag: "Update"; readonly as: string; readonly sum: number }
  /** Goes on from the checkpoint that is `back` before the newest. */
  | { readonly _tag: "Replay"; readonly back: number }

export interface Spec {
  readonly seed: number
  readonly graph: GraphSpec
  readonly limit: number
  readonly answers: "all" | "first"
  readonly before: ReadonlyArray<string>
  readonly after: ReadonlyArray<string>
  readonly actions: ReadonlyArray<Action>
}

export const START = "__start__"
export const END = "__end__"

/**
 * What a subgraph gives back. The reference's subgraphs return the last state that they have shown; a channel that lives
 * for one superstep may be gone by then.
 */
export const LASTING = ["log", "sum", "mix", "last"]

/** Calls that a thread gets at most to come to an end after one action. */
export const MAX_CALLS = 10

// ---------------------------------------------------------------------------------------------------------------------
// random numbers
// ---------------------------------------------------------------------------------------------------------------------

export class Random {
  constructor(private state: number) {}
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
  chance(probability: number): boolean {
    return this.next() < probability
  }
  int(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1))
  }
  pick<A>(items: ReadonlyArray<A>): A {
    return items[this.int(0, items.length - 1)]!
  }
  some<A>(items: ReadonlyArray<A>, count: number): ReadonlyArray<A> {
    const rest = items.slice()
    const picked: Array<A> = []
    while (picked.length < count && rest.length > 0) picked.push(rest.splice(this.int(0, rest.length - 1), 1)[0]!)
    return picked
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// generator
// ---------------------------------------------------------------------------------------------------------------------

/** What a graph may contain; each graph gets a random selection, so that features meet alone and together. */
interface Features {
  readonly defer: boolean
  readonly asks: boolean
  readonly fails: boolean
  readonly children: boolean
  readonly loops: boolean
  readonly sends: boolean
  readonly joins: boolean
  readonly gotos: boolean
  readonly last: boolean
  readonly oneStep: boolean
}

const featuresOf = (random: Random): Features => ({
  defer: random.chance(0.25),
  asks: random.chance(0.35),
  fails: random.chance(0.25),
  children: random.chance(0.3),
  loops: random.chance(0.45),
  sends: random.chance(0.45),
  joins: random.chance(0.5),
  gotos: random.chance(0.4),
  last: random.chance(0.35),
  oneStep: random.chance(0.4)
})

const LETTERS = "abcdefghijkl".split("")

const whenOf = (random: Random, names: ReadonlyArray<string>): When =>
  random.chance(0.4)
    ? { _tag: "Parity", rest: random.chance(0.5) ? 0 : 1 }
    : random.chance(0.3)
      ? { _tag: "SumAbove", than: random.int(-1, 6) }
      : { _tag: "Below", node: random.pick(names), count: random.int(1, 3) }

const packetsOf = (random: Random, targets: ReadonlyArray<string>): ReadonlyArray<Packet> =>
  Array.from({ length: random.int(1, 3) }, () => ({ to: random.pick(targets), last: random.int(0, 9) }))

const formOf = (random: Random): Form =>
  random.chance(0.6) ? "update" : random.pick<Form>(["command", "pairs", "list", "none"])

const nodeOf = (random: Random, name: string, later: ReadonlyArray<string>, has: Features, depth: number): NodeSpec => {
  const isChild = has.children && random.chance(0.3)
  const goto: Route | undefined =
    has.gotos && !isChild && later.length > 0 && random.chance(0.35)
      ? {
          when: whenOf(random, [name]),
          to: random.some(later, random.int(0, 2)),
          sends: has.sends && random.chance(0.4) ? packetsOf(random, later) : []
        }
      : undefined
  return {
    name,
    form: formOf(random),
    sum: random.chance(0.5) ? random.int(-2, 5) : undefined,
    last: has.last && random.chance(0.3) ? random.int(0, 9) : undefined,
    mix: random.chance(0.3) ? random.int(0, 99) : undefined,
    any: has.oneStep && random.chance(0.3) ? random.int(0, 9) : undefined,
    topic: has.oneStep && random.chance(0.3) ? [random.int(0, 9), random.int(0, 9)].slice(random.int(0, 2)) : undefined,
    flash: has.oneStep && random.chance(0.3) ? random.int(0, 9) : undefined,
    defer: has.defer && !isChild && random.chance(0.3),
    asks: has.asks && !isChild && random.chance(0.3) ? random.int(1, 2) : 0,
    failsUntil: has.fails && !isChild && random.chance(0.2) ? random.int(1, 2) : 0,
    goto,
    child: isChild ? childOf(random, name, depth) : undefined
  }
}

const childOf = (random: Random, name: string, depth: number): ChildSpec => {
  const size = random.int(1, 3)
  const names = LETTERS.slice(0, size).map((letter) => `${name}${letter.toUpperCase()}`)
  const has = { ...featuresOf(random), children: depth < 1 && random.chance(0.2) }
  return { graph: graphOf(random, random.some(names, size), has, depth + 1), mapped: depth > 0 || random.chance(0.6) }
}

type Draft = {
  readonly edges: Array<readonly [string, string]>
  readonly joins: Array<GraphSpec["joins"][number]>
  readonly branches: Array<BranchSpec>
}

/** Leads to each node from some that come before it in `names`, and from some later ones where loops are allowed. */
const graphOf = (random: Random, names: ReadonlyArray<string>, has: Features, depth: number): GraphSpec => {
  const draft: Draft = { edges: [], joins: [], branches: [] }
  const nodes = names.map((name, i) => nodeOf(random, name, names.slice(i + 1), has, depth))
  names.forEach((name, i) => {
    if (i === 0) enter(random, names, draft)
    else lead(random, names, i, has, draft)
    if (has.loops && random.chance(0.3)) loopBack(random, names, i, draft)
    if (has.sends && i < names.length - 1 && random.chance(0.3)) {
      const arm = { when: whenOf(random, names), to: [], sends: packetsOf(random, names.slice(i + 1)) }
      draft.branches.push({ from: name, arms: [arm], otherwise: END })
    }
    if (random.chance(0.15)) draft.edges.push([name, END])
  })
  return { nodes, edges: unique(draft.edges), joins: unique(draft.joins), branches: draft.branches }
}

const unique = <A>(items: ReadonlyArray<A>): ReadonlyArray<A> =>
  Array.from(new Map(items.map((item) => [JSON.stringify(item), item])).values())

const enter = (random: Random, names: ReadonlyArray<string>, draft: Draft): void => {
  draft.edges.push([START, names[0]!])
  if (names.length > 1 && random.chance(0.3)) draft.edges.push([START, random.pick(names.slice(1))])
  if (names.length > 1 && random.chance(0.15)) {
    const arm = { when: whenOf(random, names), to: random.some(names, 2), sends: [] }
    draft.branches.push({ from: START, arms: [arm], otherwise: names[0]! })
  }
}

const lead = (random: Random, names: ReadonlyArray<string>, i: number, has: Features, draft: Draft): void => {
  const name = names[i]!
  const before = names.slice(0, i)
  if (has.joins && before.length > 1 && random.chance(0.4)) {
    draft.joins.push({ from: random.some(before, random.int(2, 3)), to: name, optional: random.chance(0.8) })
    if (random.chance(0.7)) return
  }
  for (const from of random.some(before, random.chance(0.75) ? 1 : 2)) {
    if (random.chance(0.65)) draft.edges.push([from, name])
    else {
      const also = random.chance(0.4) ? [random.pick(names.slice(i))] : []
      const arm = { when: whenOf(random, names), to: Array.from(new Set([name, ...also])), sends: [] }
      draft.branches.push({ from, arms: [arm], otherwise: random.chance(0.5) ? END : name })
    }
  }
}

const loopBack = (random: Random, names: ReadonlyArray<string>, i: number, draft: Draft): void => {
  const from = names[i]!
  const when: When = { _tag: "Below", node: from, count: random.int(1, 3) }
  const to = [random.pick(names.slice(0, i + 1))]
  draft.branches.push({ from, arms: [{ when, to, sends: [] }], otherwise: END })
}

const actionsOf = (random: Random, names: ReadonlyArray<string>): ReadonlyArray<Action> => {
  const input = (): Action => ({
    _tag: "Input",
    sum: random.int(0, 3),
    log: random.pick(["in", "go"]),
    abandon: random.chance(0.15)
  })
  const actions: Array<Action> = [input()]
  if (random.chance(0.3)) actions.push(input())
  if (random.chance(0.15)) actions.push({ _tag: "Update", as: random.pick(names), sum: random.int(1, 9) })
  if (random.chance(0.2)) actions.push({ _tag: "Replay", back: random.int(1, 5) })
  return actions
}

/** The graph of a seed. */
export const generate = (seed: number): Spec => {
  const random = new Random(seed)
  const has = featuresOf(random)
  const size = random.int(3, 12)
  const names = random.some(LETTERS.slice(0, size), size)
  const stops = random.chance(0.15)
  return {
    seed,
    graph: graphOf(random, names, has, 0),
    limit: random.chance(0.1) ? random.int(2, 6) : 25,
    answers: random.chance(0.5) ? "all" : "first",
    before: stops ? random.some(names, random.int(0, 2)) : [],
    after: stops ? random.some(names, random.int(0, 2)) : [],
    actions: actionsOf(random, names)
  }
}
