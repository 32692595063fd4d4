/** What the nodes and routers of a spec do: the same pure code on both engines. */
import { END, type GraphSpec, type NodeSpec, type Packet, type Route, type When } from "./Spec.js"

/** The state as a node or a router sees it: absent channels are absent. */
export interface State {
  readonly log?: ReadonlyArray<string>
  readonly sum?: number
  readonly last?: number
  readonly mix?: number
  readonly any?: number
  readonly topic?: ReadonlyArray<number>
  readonly flash?: number
}

/** Reducers of the channels. */
export const add = (a: number, b: number): number => a + b
/** Not commutative, so that its value tells the order of its inputs. */
export const mix = (a: number, b: number): number => (a * 31 + b + 7) % 9973

const MAX_LOG = 30

const entriesOf = (log: ReadonlyArray<string>, node: string): number =>
  log.filter((entry) => entry.startsWith(`${node}<`)).length

/** Graphs grow no further once their log is long: a spec must not explode. */
export const holds = (when: When, state: State): boolean => {
  const { log } = state
  if (log === undefined || log.length > MAX_LOG) return false
  switch (when._tag) {
    case "Always":
      return true
    case "Below":
      return entriesOf(log, when.node) < when.count
    case "Parity":
      return log.length % 2 === when.rest
    case "SumAbove":
      return (state.sum ?? 0) > when.than
  }
}

const shown = (value: unknown): string =>
  value === undefined ? "_" : Array.isArray(value) ? value.join(";") : String(value)

/** The log entry of a node: its name, what it saw, the answers it got. */
export const entryOf = (node: NodeSpec, state: State, answers: ReadonlyArray<string>): string => {
  const { any, flash, last, log, mix, sum, topic } = state
  const seen = [sum, last, mix, any, flash, topic, log?.length].map(shown).join(",")
  return `${node.name}<${seen}>${answers.join("")}`
}

export const questionOf = (node: NodeSpec, state: State, index: number): string =>
  `${node.name}(${shown(state.last)})?${index}`

export const answerTo = (question: string): string => question.replace("?", "!")

export interface Output {
  readonly update: Readonly<Record<string, unknown>>
  readonly goto: ReadonlyArray<string>
  readonly sends: ReadonlyArray<Packet>
}

/** What a node writes and where it goes. */
export const outputOf = (node: NodeSpec, state: State, answers: ReadonlyArray<string>): Output => {
  const update: Record<string, unknown> = { log: [entryOf(node, state, answers)] }
  for (const channel of ["sum", "last", "mix", "any", "topic", "flash"] as const) {
    if (node[channel] !== undefined) update[channel] = node[channel]
  }
  const goes = node.goto !== undefined && holds(node.goto.when, state)
  return { update, goto: goes ? node.goto!.to : [], sends: goes ? node.goto!.sends : [] }
}

/** Where a branch leads. */
export const destinationsOf = (
  arms: ReadonlyArray<Route>,
  otherwise: string,
  state: State
): { readonly to: ReadonlyArray<string>; readonly sends: ReadonlyArray<Packet> } => {
  const arm = arms.find(({ when }) => holds(when, state))
  if (arm !== undefined && arm.to.length + arm.sends.length > 0) return { to: arm.to, sends: arm.sends }
  return { to: [otherwise], sends: [] }
}

/** Every node that a branch may lead to. */
export const targetsOf = (branch: GraphSpec["branches"][number]): ReadonlyArray<string> =>
  Array.from(
    new Set([...branch.arms.flatMap(({ sends, to }) => [...to, ...sends.map((packet) => packet.to)]), branch.otherwise])
  )

/** Every node that a node's command may go to. */
export const gotoTargets = (node: NodeSpec): ReadonlyArray<string> =>
  Array.from(new Set([...(node.goto?.to ?? []), ...(node.goto?.sends ?? []).map(({ to }) => to)]))

export { END }
