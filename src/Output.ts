/**
 * From what a node returns to the writes it stands for (`semantics.md` 5.3, 5.4).
 *
 * A result is an update, a `Command`, a `Send`, a list of these, or nothing. Every mistake is a typed failure here,
 * before anything is applied: an undeclared channel, a value outside its schema, a target that does not exist.
 */
import * as Cause from "effect/Cause"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { Write } from "./Algo.js"
import { type Codec, type Encoded, encodedAs } from "./Codec.js"
import { type Command, END, isCommand, PARENT } from "./Command.js"
import { InvalidUpdate, UnknownNode } from "./GraphError.js"
import { added } from "./internal/list.js"
import { timeoutPolicy, timeoutProblem } from "./internal/timeout.js"
import { isSend, make as makeSend, type Send } from "./Send.js"
import type { ChannelSpec, Node, Topology } from "./Topology.js"

/** A command that leaves the graph it was returned in (`escaped` once it has): an enclosing graph applies it. */
export class ParentCommand {
  readonly _tag = "ParentCommand"
  constructor(
    readonly command: Command,
    /** The node that returned it. */
    readonly from: string,
    readonly escaped: boolean
  ) {}
}

/**
 * The command that leaves a graph, if that is how something ended: a failure of the node that returned it, a defect of
 * the nodes around, which can't handle it as a failure of theirs.
 */
export const commandIn = (cause: Cause.Cause<unknown>): ParentCommand | undefined =>
  Option.getOrUndefined(
    Cause.find(cause, (part) => {
      const error = part._tag === "Fail" ? part.error : part._tag === "Die" ? part.defect : undefined
      return error instanceof ParentCommand ? Option.some(error) : Option.none()
    })
  )

/** What can be wrong with a node's result. */
export type OutputError = InvalidUpdate | UnknownNode | ParentCommand

/** Where writes are collected: they are encoded as they come when the run is saved. */
export interface Sink {
  readonly topology: Topology
  readonly encode: boolean
  readonly from: string
  readonly targets: ReadonlySet<string> | undefined
  writes: Array<Write>
  /** The only state channels that may be written, where the node says so. */
  readonly declared?: ReadonlySet<number> | undefined
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Why a record is no record of updates: it has nothing to read, as a `Promise`, an `Error` or a `Map`. */
const nothingIn = (value: object): string | undefined => {
  if (Object.keys(value).length > 0) return undefined
  const proto = Object.getPrototypeOf(value)
  return proto === Object.prototype || proto === null
    ? undefined
    : `an instance of ${proto.constructor?.name ?? "a class"}`
}

/** Collects the writes of a node's result. Throws an `OutputError`; `collect` is the total form. */
const add = (sink: Sink, output: unknown): void => {
  if (output === undefined || output === null) return
  if (isCommand(output)) addCommand(sink, output)
  else if (isSend(output)) addSend(sink, output, sink.targets)
  else if (Array.isArray(output)) {
    if (!output.some((item) => isCommand(item) || isSend(item)))
      throw invalidReturn(sink, "a list without Command or Send")
    for (const item of output) add(sink, item)
  } else if (isRecord(output)) {
    const nothing = nothingIn(output)
    if (nothing !== undefined) throw invalidReturn(sink, nothing)
    addUpdate(sink, output)
  } else throw invalidReturn(sink, `a ${typeof output}`)
}

const invalidReturn = (sink: Sink, what: string) =>
  new InvalidUpdate({
    reason: "InvalidReturn",
    node: sink.from,
    detail: `expected an update, a Command, a Send, a list of these or nothing, but got ${what}`
  })

const addUpdate = (sink: Sink, update: Record<string, unknown>): void => {
  for (const name in update) {
    if (Object.hasOwn(update, name)) addValue(sink, name, update[name])
  }
}

/** Writes one value to a state channel. */
const addValue = (sink: Sink, name: string, value: unknown): void => {
  const id = sink.topology.channelIds.get(name)
  const spec = id === undefined ? undefined : sink.topology.channels[id]
  if (spec === undefined || !spec.isState) {
    throw new InvalidUpdate({
      reason: "UnknownChannel",
      node: sink.from,
      channel: name,
      detail: `no such channel; the graph has [${sink.topology.state.map((s) => sink.topology.channels[s]!.name).join(", ")}]`
    })
  }
  if (value === undefined && !spec.codec.takesUndefined) return
  if (sink.declared !== undefined && !sink.declared.has(spec.id)) throw undeclared(sink, spec)
  push(sink, spec, value)
}

const undeclared = (sink: Sink, spec: ChannelSpec) =>
  new InvalidUpdate({
    reason: "UnknownChannel",
    node: sink.from,
    channel: spec.name,
    detail: `the node's option writes does not name it; it names [${Array.from(
      sink.declared!,
      (id) => sink.topology.channels[id]!.name
    ).join(", ")}]`
  })

const push = (sink: Sink, spec: ChannelSpec, value: unknown): void => {
  const saves = sink.encode && spec.tracked
  if (!saves && spec.codec.isExact(value)) {
    sink.writes = added(sink.writes, { channel: spec.id, value, encoded: undefined })
    return
  }
  const encoded = spec.codec.encodeUpdate(value)
  if (Either.isLeft(encoded)) throw refused(sink, spec, encoded.left)
  const live = encoded.right.excess ? Either.getOrElse(readBack(spec.codec, encoded.right), () => value) : value
  sink.writes = added(sink.writes, { channel: spec.id, value: live, encoded: saves ? encoded.right : undefined })
}

/** A value as it would be loaded: keys that its schema does not name are in no state, live or saved. */
const readBack = (codec: Codec, { text }: Encoded) =>
  codec.decodeUpdate(text === undefined ? undefined : JSON.parse(text))

const refused = (
  sink: Sink,
  spec: ChannelSpec,
  refusal: { detail: string; path: string; reason: "InvalidValue" | "NotEncodable" }
) =>
  new InvalidUpdate({
    reason: refusal.reason,
    node: sink.from,
    channel: spec.name,
    path: refusal.path,
    detail: refusal.path === "" ? refusal.detail : `${refusal.detail} (at ${refusal.path})`
  })

/** The engine's own write that a node was triggered or has arrived at a join. */
const pushSignal = (sink: Sink, channel: number, value: null | string): void => {
  const text = value === null ? "null" : JSON.stringify(value)
  sink.writes = added(sink.writes, { channel, value, encoded: sink.encode ? encodedAs(text) : undefined })
}

const addCommand = (sink: Sink, command: Command): void => {
  if (command.graph !== undefined) throw new ParentCommand(command, sink.from, false)
  const { update } = command
  if (Array.isArray(update)) {
    for (const pair of update) {
      if (!Array.isArray(pair) || pair.length !== 2)
        throw invalidReturn(sink, "a Command whose update is no list of pairs")
      addValue(sink, pair[0], pair[1])
    }
  } else if (isRecord(update)) {
    const nothing = nothingIn(update)
    if (nothing !== undefined) throw invalidReturn(sink, `a Command whose update is ${nothing}`)
    addUpdate(sink, update)
  } else if (update !== undefined && update !== null)
    throw invalidReturn(sink, `a Command whose update is a ${typeof update}`)
  for (const target of command.goto) {
    if (isSend(target)) addSend(sink, target, sink.targets)
    else addGoto(sink, target, sink.targets)
  }
}

const targetNode = (sink: Sink, name: string, allowed: ReadonlySet<string> | undefined): Node => {
  const id = sink.topology.nodeIds.get(name)
  const node = id === undefined ? undefined : sink.topology.nodes[id]
  if (node === undefined || node.hidden)
    throw new UnknownNode({ node: String(name), from: sink.from, reason: "NotInGraph" })
  if (allowed !== undefined && !allowed.has(name)) {
    throw new UnknownNode({ node: name, from: sink.from, reason: "NotATarget" })
  }
  return node
}

const addGoto = (sink: Sink, name: string, allowed: ReadonlySet<string> | undefined): void => {
  if (name === END) return
  const node = targetNode(sink, name, allowed)
  if (node.worker) throw new UnknownNode({ node: name, from: sink.from, reason: "OnlyBySend" })
  pushSignal(sink, sink.topology.triggerOf[node.id]!, null)
}

const addSend = (sink: Sink, send: Send, allowed: ReadonlySet<string> | undefined): void => {
  const node = targetNode(sink, send.node, allowed)
  const spec = sink.topology.channels[sink.topology.sends]!
  const problem = timeoutProblem(timeoutPolicy(send.options?.timeout))
  if (problem !== undefined) throw badPacket(sink, send, { detail: problem, path: "", reason: "InvalidValue" })
  const encoded = sink.encode ? spec.codec.encodeUpdate(send) : undefined
  if (encoded !== undefined && Either.isLeft(encoded)) throw badPacket(sink, send, encoded.left)
  const isExact = encoded === undefined ? node.input.isExact(send.arg) : !encoded.right.excess
  const packet = isExact ? send : exactly(sink, node, send)
  sink.writes = added(sink.writes, {
    channel: spec.id,
    value: packet,
    encoded: encoded === undefined ? undefined : encoded.right
  })
}

/** The packet without what the target's schema does not name. */
const exactly = (sink: Sink, node: Node, send: Send): Send => {
  const arg = Either.flatMap(node.input.encodeUpdate(send.arg), (encoded) => readBack(node.input, encoded))
  if (Either.isLeft(arg)) throw badPacket(sink, send, arg.left)
  return makeSend(send.node, arg.right, send.options)
}

const badPacket = (
  sink: Sink,
  send: Send,
  refusal: { detail: string; path: string; reason: "InvalidValue" | "NotEncodable" }
) =>
  new InvalidUpdate({
    reason: refusal.reason,
    node: sink.from,
    path: refusal.path,
    detail: `a Send to "${send.node}" is invalid: ${refusal.detail}`
  })

const total = (body: () => void): OutputError | undefined => {
  try {
    body()
    return undefined
  } catch (error) {
    if (error instanceof InvalidUpdate || error instanceof UnknownNode || error instanceof ParentCommand) return error
    throw error
  }
}

/** Collects the writes of a node's result; returns what is wrong with it. */
export const collect = (sink: Sink, output: unknown): OutputError | undefined => total(() => add(sink, output))

/** Adds what a node's static edges and joins write when it ends. */
export const follow = (sink: Sink, node: Node): void => {
  for (const channel of node.edges) pushSignal(sink, channel, null)
  for (const channel of node.joins) pushSignal(sink, channel, node.name)
}

/** Adds what a router's result leads to: node names, labels of its target map, sends, or a list of these. */
export const addRoute = (
  sink: Sink,
  targets: ReadonlyMap<string, string> | undefined,
  result: unknown
): OutputError | undefined =>
  total(() => {
    for (const item of Array.isArray(result) ? result : [result]) {
      if (isSend(item)) {
        if (targets !== undefined && !hasValue(targets, item.node)) {
          throw new UnknownNode({ node: item.node, from: sink.from, reason: "NotATarget" })
        }
        addSend(sink, item, undefined)
        continue
      }
      if (typeof item !== "string")
        throw new UnknownNode({ node: String(item), from: sink.from, reason: "NoDestination" })
      const name = targets === undefined ? item : targets.get(item)
      if (name === undefined) throw new UnknownNode({ node: item, from: sink.from, reason: "NotATarget" })
      addGoto(sink, name, undefined)
    }
  })

const hasValue = (targets: ReadonlyMap<string, string>, node: string) => {
  for (const name of targets.values()) if (name === node) return true
  return false
}

/** Checks a run's input, and picks what it has of the input channels: other keys are left out. */
export const collectInput = (sink: Sink, value: unknown): Either.Either<Record<string, unknown>, OutputError> => {
  const input: Record<string, unknown> = {}
  const error = total(() => {
    if (!isRecord(value)) throw invalidInput(sink, Array.isArray(value) ? "a list" : `a ${typeof value}`)
    const nothing = nothingIn(value)
    if (nothing !== undefined) throw invalidInput(sink, nothing)
    for (const id of sink.topology.input) {
      const { name } = sink.topology.channels[id]!
      if (Object.hasOwn(value, name)) input[name] = value[name]
    }
    addUpdate(sink, input)
  })
  return error === undefined ? Either.right(input) : Either.left(error)
}

const invalidInput = (sink: Sink, what: string) =>
  new InvalidUpdate({
    reason: "InvalidValue",
    node: sink.from,
    detail: `the input must be a record of channel updates, but is ${what}`
  })

/** Tells whether a command that left a subgraph is meant for the graph of this name. */
export const addresses = (command: Command, graph: string): boolean =>
  command.graph === PARENT || command.graph === graph
