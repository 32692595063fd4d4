/** Makes a spec smaller while a property of it stays. */
import { END, type GraphSpec, type NodeSpec, type Route, type Spec, START } from "./Spec.js"

const without = <A>(items: ReadonlyArray<A>, index: number): ReadonlyArray<A> => items.filter((_, i) => i !== index)

const replaced = <A>(items: ReadonlyArray<A>, index: number, item: A): ReadonlyArray<A> =>
  items.map((old, i) => (i === index ? item : old))

const routeWithout = (route: Route, name: string): Route => ({
  ...route,
  to: route.to.filter((to) => to !== name),
  sends: route.sends.filter(({ to }) => to !== name)
})

const withoutNode = (graph: GraphSpec, name: string): GraphSpec => ({
  nodes: graph.nodes
    .filter((node) => node.name !== name)
    .map((node) => ({ ...node, goto: node.goto && routeWithout(node.goto, name) })),
  edges: graph.edges.filter(([from, to]) => from !== name && to !== name),
  joins: graph.joins
    .filter(({ to }) => to !== name)
    .map((join) => ({ ...join, from: join.from.filter((from) => from !== name) }))
    .filter(({ from }) => from.length > 0),
  branches: graph.branches
    .filter(({ from }) => from !== name)
    .map((branch) => ({
      ...branch,
      arms: branch.arms.map((arm) => routeWithout(arm, name)),
      otherwise: branch.otherwise === name ? END : branch.otherwise
    }))
})

const PLAIN: Partial<NodeSpec> = {
  form: "update",
  sum: undefined,
  last: undefined,
  mix: undefined,
  any: undefined,
  topic: undefined,
  flash: undefined,
  defer: false,
  asks: 0,
  failsUntil: 0,
  goto: undefined,
  child: undefined
}

function* smallerRoutes(route: Route): Iterable<Route> {
  for (let i = 0; i < route.to.length; i++) yield { ...route, to: without(route.to, i) }
  for (let i = 0; i < route.sends.length; i++) yield { ...route, sends: without(route.sends, i) }
  if (route.when._tag !== "Always") yield { ...route, when: { _tag: "Always" } }
}

function* smallerNodes(node: NodeSpec): Iterable<NodeSpec> {
  for (const [key, plain] of Object.entries(PLAIN)) {
    if (JSON.stringify(node[key as keyof NodeSpec]) !== JSON.stringify(plain)) yield { ...node, [key]: plain }
  }
  if (node.asks > 1) yield { ...node, asks: 1 }
  if (node.failsUntil > 1) yield { ...node, failsUntil: 1 }
  if (node.goto !== undefined) for (const goto of smallerRoutes(node.goto)) yield { ...node, goto }
  if (node.child !== undefined) {
    for (const graph of smallerGraphs(node.child.graph)) yield { ...node, child: { ...node.child, graph } }
    if (!node.child.mapped) yield { ...node, child: { ...node.child, mapped: true } }
  }
}

function* smallerGraphs(graph: GraphSpec): Iterable<GraphSpec> {
  for (const { name } of graph.nodes) if (graph.nodes.length > 1) yield withoutNode(graph, name)
  for (let i = 0; i < graph.branches.length; i++) {
    const branch = graph.branches[i]!
    yield { ...graph, branches: without(graph.branches, i) }
    const targets = [...branch.arms.flatMap(({ to }) => to), branch.otherwise].filter((to) => to !== END)
    for (const to of new Set(targets)) {
      yield { ...graph, branches: without(graph.branches, i), edges: [...graph.edges, [branch.from, to]] }
    }
    for (let j = 0; j < branch.arms.length; j++) {
      for (const arm of smallerRoutes(branch.arms[j]!)) {
        yield { ...graph, branches: replaced(graph.branches, i, { ...branch, arms: replaced(branch.arms, j, arm) }) }
      }
    }
    if (branch.otherwise !== END)
      yield { ...graph, branches: replaced(graph.branches, i, { ...branch, otherwise: END }) }
  }
  for (let i = 0; i < graph.joins.length; i++) {
    const join = graph.joins[i]!
    yield { ...graph, joins: without(graph.joins, i) }
    yield { ...graph, joins: without(graph.joins, i), edges: [...graph.edges, [join.from[0]!, join.to]] }
    if (join.from.length > 1) {
      for (let j = 0; j < join.from.length; j++) {
        yield { ...graph, joins: replaced(graph.joins, i, { ...join, from: without(join.from, j) }) }
      }
    }
    if (!join.optional) yield { ...graph, joins: replaced(graph.joins, i, { ...join, optional: true }) }
  }
  for (let i = 0; i < graph.edges.length; i++) yield { ...graph, edges: without(graph.edges, i) }
  for (let i = 0; i < graph.nodes.length; i++) {
    for (const node of smallerNodes(graph.nodes[i]!)) yield { ...graph, nodes: replaced(graph.nodes, i, node) }
  }
}

function* smallerSpecs(spec: Spec): Iterable<Spec> {
  for (let i = 0; i < spec.actions.length; i++) {
    yield { ...spec, actions: without(spec.actions, i) }
    const action = spec.actions[i]!
    if (action._tag === "Input" && action.abandon) {
      yield { ...spec, actions: replaced(spec.actions, i, { ...action, abandon: false }) }
    }
  }
  if (spec.before.length > 0) yield { ...spec, before: [] }
  if (spec.after.length > 0) yield { ...spec, after: [] }
  if (spec.limit !== 25) yield { ...spec, limit: 25 }
  for (const graph of smallerGraphs(spec.graph)) yield { ...spec, graph }
}

const enters = (graph: GraphSpec): boolean =>
  graph.edges.some(([from, to]) => from === START && to !== END) &&
  graph.nodes.every(({ child }) => child === undefined || enters(child.graph))

/** The smallest spec found that still has the property. */
export const shrink = async (spec: Spec, fails: (spec: Spec) => Promise<boolean>, budget = 1500): Promise<Spec> => {
  let current = spec
  let left = budget
  search: while (left > 0) {
    for (const smaller of smallerSpecs(current)) {
      if (smaller.actions.length === 0 || !enters(smaller.graph)) continue
      if (left-- <= 0) break
      if (await fails(smaller).catch(() => false)) {
        current = smaller
        continue search
      }
    }
    return current
  }
  return current
}
