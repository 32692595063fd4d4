/**
 * Differences from LangGraph that are known: each has a rule that recognises it, and cites the point of the design that
 * wants it or the defect of the reference behind it. What no rule recognises is unexplained.
 */
import type { Quirks } from "../model.js"
import { compare, type Difference } from "./Compare.js"
import { runModel } from "./Ours.js"
import type { GraphSpec, NodeSpec, Spec } from "./Spec.js"
import type { Call, Status, Trace } from "./Trace.js"

export interface Case {
  readonly spec: Spec
  readonly ours: Trace
  readonly theirs: Trace
  /** The peculiarities that `ours` was run with. */
  readonly quirks?: Quirks | undefined
}

export interface Rule {
  readonly id: string
  readonly cites: string
  /** The differences that stay unexplained; the same list when the rule does not apply. */
  readonly explain: (found: ReadonlyArray<Difference>, it: Case) => ReadonlyArray<Difference>
}

const indexIn = (where: string, list: string): number | undefined => {
  const match = new RegExp(`^${list}\\[(\\d+)\\]`).exec(where)
  return match === null ? undefined : Number(match[1])
}

/** Drops differences that come after the point where the engines parted for a known reason. */
const upTo = (found: ReadonlyArray<Difference>, call: number, entries: number): ReadonlyArray<Difference> =>
  found.filter(({ where }) => {
    const i = indexIn(where, "calls")
    const j = indexIn(where, "history")
    return i !== undefined ? i < call : j !== undefined ? j < entries : false
  })

const firstStatus = (found: ReadonlyArray<Difference>): number | undefined => {
  for (const { where } of found) {
    const i = indexIn(where, "calls")
    if (i !== undefined && (where.endsWith(".status") || where.endsWith("]"))) return i
  }
  return undefined
}

/** Where both engines parted, if they did with these statuses. */
const parted = (
  found: ReadonlyArray<Difference>,
  { ours, theirs }: Case,
  ourStatus: ReadonlyArray<Status>,
  theirStatus: ReadonlyArray<Status>
): number | undefined => {
  const i = firstStatus(found)
  if (i === undefined) return undefined
  const [a, b] = [ours.calls[i], theirs.calls[i]]
  return a !== undefined && b !== undefined && ourStatus.includes(a.status) && theirStatus.includes(b.status)
    ? i
    : undefined
}

const nodesOf = (graph: GraphSpec): ReadonlyArray<NodeSpec> =>
  graph.nodes.flatMap((node) => (node.child === undefined ? [node] : [node, ...nodesOf(node.child.graph)]))

const mayAsk = (node: NodeSpec): boolean =>
  node.asks > 0 || (node.child !== undefined && nodesOf(node.child.graph).some(mayAsk))

/** `longer` without the items of `shorter`, or `undefined` when it does not contain them. */
const minus = (longer: ReadonlyArray<string>, shorter: ReadonlyArray<string>): ReadonlyArray<string> | undefined => {
  const rest = longer.slice()
  for (const item of shorter) {
    const i = rest.indexOf(item)
    if (i < 0) return undefined
    rest.splice(i, 1)
  }
  return rest
}

const ONE_STEP = new Set(["any", "topic", "flash"])

const lasting = (values: Call["values"]) =>
  JSON.stringify(
    Object.entries(values)
      .filter(([name]) => !ONE_STEP.has(name))
      .sort()
  )

/** A task that was answered once and waits again counts as finished there: it is not in `next`, its triggers are gone. */
const answeredTaskCountsAsDone: Rule = {
  id: "answered-task-counts-as-done",
  cites: "defect of the reference: a saved answer counts as a result (semantics.md 7.1, trap 4); design.md 4.3",
  explain: (found, { ours, spec, theirs }) => {
    const asking = new Set(spec.graph.nodes.filter(mayAsk).map(({ name }) => name))
    return found.filter(({ where }) => {
      const i = indexIn(where, "calls")
      const [a, b] = i === undefined ? [] : [ours.calls[i], theirs.calls[i]]
      if (a === undefined || b === undefined || a.status !== b.status || a.what === "input") return true
      if (a.status !== "paused" && a.status !== "failed") return true
      if (where.endsWith(".next")) {
        const missing = minus(a.next, b.next)
        return missing === undefined || !missing.every((name) => asking.has(name))
      }
      return true
    })
  }
}

const unsatisfiedJoin: Rule = {
  id: "unsatisfied-join",
  cites: "design.md 4.14: a run must not end while a join that is not optional is half full",
  explain: (found, it) => {
    const i = parted(found, it, ["join"], ["completed", "failed", "paused", "stopped", "conflict", "recursion"])
    if (i === undefined) return found
    // Of the graph itself: there the run has ended with the same history. Of a subgraph: there its parent has gone on.
    return upTo(found, i, it.ours.history.length)
  }
}

const recursionLimit: Rule = {
  id: "recursion-limit",
  cites:
    "design.md 4.1: the limit counts supersteps that ran (the reference: n+1 for a fresh run, n-1 for a resumed one)",
  explain: (found, it) => {
    const any: ReadonlyArray<Status> = ["completed", "paused", "stopped", "failed", "join", "conflict"]
    const i = parted(found, it, ["recursion"], any) ?? parted(found, it, any, ["recursion"])
    const both = it.ours.calls.findIndex(
      ({ status }, k) => status === "recursion" && it.theirs.calls[k]?.status === status
    )
    const at = i ?? (both < 0 ? undefined : both)
    if (at === undefined) return found
    return upTo(found, at, Math.min(it.ours.history.length, it.theirs.history.length))
  }
}

const conflictPoisons: Rule = {
  id: "conflict-poisons-the-thread",
  cites:
    "defect of the reference: finished siblings that conflict make every later call fail (trap 13); design.md 4.12",
  explain: (found, it) => {
    const i = parted(found, it, ["paused", "stopped", "failed", "recursion"], ["conflict"])
    return i === undefined ? found : upTo(found, i, Math.min(it.ours.history.length, it.theirs.history.length))
  }
}

const stopAfterTheEnd: Rule = {
  id: "stop-after-the-end",
  cites: "a breakpoint after the last superstep has nothing to stop; the reference stops and needs one more call",
  explain: (found, it) => {
    const rest = found.filter(({ ours, theirs, where }) => {
      const i = indexIn(where, "calls")
      const ended = i !== undefined && it.theirs.calls[i]?.next.length === 0
      return !(ended && where.endsWith(".status") && ours === "completed" && theirs === "stopped")
    })
    // A join that was not consumed is found again once the thread is loaded: then there is something left after all.
    const i = it.quirks?.firstTriggerOnly === true ? parted(rest, it, ["completed", "join"], ["stopped"]) : undefined
    return i === undefined ? rest : upTo(rest, i, 0)
  }
}

/** A pause or a failure shows what finished siblings wrote; there, what they wrote for one superstep is lost. */
const snapshotLosesOneStepValues: Rule = {
  id: "snapshot-loses-one-step-values",
  cites: "defect of the reference: without versions a snapshot clears channels that were just written (trap 57)",
  explain: (found, { ours, theirs }) =>
    found.filter(({ where }) => {
      const i = indexIn(where, "calls")
      const [a, b] = i === undefined ? [] : [ours.calls[i], theirs.calls[i]]
      if (a === undefined || b === undefined || a.status !== b.status || !where.endsWith(".values")) return true
      if (a.status !== "paused" && a.status !== "failed" && a.status !== "recursion") return true
      return lasting(a.values) !== lasting(b.values) || Object.keys(b.values).some((name) => !(name in a.values))
    })
}

/** An update as a node that waits counts as its run here; there its joins stay met, and it runs once more. */
const updateConsumesNothing: Rule = {
  id: "update-consumes-nothing",
  cites: "defect of the reference: a node behind a join runs although an update stood for its run (trap 22)",
  explain: (found, { ours, spec, theirs }) => {
    const update = spec.actions.find((action) => action._tag === "Update")
    const entry = ours.history.findIndex(({ source }) => source === "update")
    const [a, b] = [ours.history[entry], theirs.history[entry]]
    if (update?._tag !== "Update" || a === undefined || b === undefined || b.source !== "update") return found
    const waiting = minus(b.next, a.next)
    if (waiting === undefined || waiting.length === 0 || !waiting.every((name) => name === update.as)) return found
    const call = ours.calls.findIndex(({ what }) => what === "after update")
    const rest = found.filter(({ where }) => where !== `history[${entry}].next`)
    return upTo(rest, call, entry + 1)
  }
}

/** Rules that look at the traces alone. */
export const RULES: ReadonlyArray<Rule> = [
  answeredTaskCountsAsDone,
  snapshotLosesOneStepValues,
  unsatisfiedJoin,
  stopAfterTheEnd,
  updateConsumesNothing,
  recursionLimit,
  conflictPoisons
]

interface Quirk {
  readonly id: string
  readonly cites: string
  readonly quirks: Quirks
}

/** Peculiarities of the reference's algorithm: with them in the reference model the traces must agree. */
export const QUIRKS: ReadonlyArray<Quirk> = [
  {
    id: "first-trigger-only",
    cites:
      "defect of the reference: of several triggers that fired only the first is seen and consumed (semantics.md 2.4)",
    quirks: { firstTriggerOnly: true }
  },
  {
    id: "defer-ignores-packets",
    cites: "defect of the reference: a deferred node does not wait for tasks that a Send has started",
    quirks: { packetsDoNotCount: true }
  },
  {
    id: "first-trigger-only + defer-ignores-packets",
    cites: "both of the above",
    quirks: { firstTriggerOnly: true, packetsDoNotCount: true }
  }
]

export interface Verdict {
  readonly unexplained: ReadonlyArray<Difference>
  readonly rules: ReadonlyArray<string>
}

const applyRules = (it: Case): Verdict => {
  let left = compare(it.ours, it.theirs)
  const rules: Array<string> = []
  for (const { explain, id } of RULES) {
    if (left.length === 0) break
    const rest = explain(left, it)
    if (rest.length < left.length) rules.push(id)
    left = rest
  }
  return { unexplained: left, rules }
}

/** What is left unexplained of the differences of two traces, and which rules explained the others. */
export const judge = async (it: Case): Promise<Verdict> => {
  const plain = applyRules(it)
  if (plain.unexplained.length === 0) return plain
  for (const { id, quirks } of QUIRKS) {
    const verdict = applyRules({ ...it, quirks, ours: await runModel(it.spec, quirks) })
    if (verdict.unexplained.length === 0) return { unexplained: [], rules: [id, ...verdict.rules] }
  }
  return plain
}
