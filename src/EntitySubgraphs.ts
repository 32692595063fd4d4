/**
 * The graphs that run inside a hosted graph. A message names one of them; its code is the runner's own.
 */
import type { GraphIdentity } from "./Checkpoint.js"
import type { Topology } from "./Topology.js"

/** The graph that is the node which a namespace leads to. */
const atNamespace = (topology: Topology, namespace: string): Topology | undefined =>
  namespace.split("|").reduce<Topology | undefined>((around, segment) => {
    const name = segment.split(/[:#/]/)[0]!
    return around?.nodes[around.nodeIds.get(around.renamedNodes.get(name) ?? name) ?? -1]?.graph
  }, topology)

/** These graphs, those that are nodes of them, and so on. */
const withInner = (topologies: ReadonlyArray<Topology>): ReadonlySet<Topology> => {
  const found = new Set(topologies)
  // What is added meanwhile is visited too.
  for (const { nodes } of found) for (const { graph } of nodes) if (graph !== undefined) found.add(graph)
  return found
}

/**
 * The graph that a caller means: the one at that place, else one of that shape, else one of that name, among the nodes
 * that are graphs and the others that the host was told of.
 */
export const find = (
  topology: Topology,
  others: ReadonlyArray<Topology>,
  wanted: GraphIdentity & { readonly namespace: string }
): Topology | undefined => {
  const placed = atNamespace(topology, wanted.namespace)
  if (placed?.identity.name === wanted.name) return placed
  const named = Array.from(withInner([topology, ...others])).filter(({ identity }) => identity.name === wanted.name)
  return named.find(({ identity }) => identity.fingerprint === wanted.fingerprint) ?? named[0]
}
