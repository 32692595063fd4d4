/**
 * Inputs, states, snapshots and events of a graph as JSON, encoded with the schemas of its channels: what crosses a
 * process boundary.
 *
 * Encoding fails with a `Refusal` that names the channel; decoding one's own encoding never does.
 */
import * as Either from "effect/Either"
import type { Json } from "./Checkpoint.js"
import * as Codec from "./Codec.js"
import { type Command, make as makeCommand, type Target } from "./Command.js"
import { PendingInterrupt } from "./GraphError.js"
import type { GraphEvent } from "./GraphEvent.js"
import { NotJson, stringify } from "./internal/json.js"
import { UNCHECKED } from "./internal/unchecked.js"
import type { Send } from "./Send.js"
import type { StateSnapshot } from "./Snapshot.js"
import type { Topology } from "./Topology.js"

type Result<A> = Either.Either<A, Codec.Refusal>

const parse = (text: string | undefined): Json => (text === undefined ? undefined : JSON.parse(text))

const codecOf = (topology: Topology, name: string): Codec.Codec => {
  const id = topology.channelIds.get(name)
  const spec = id === undefined ? undefined : topology.channels[id]
  return spec?.isState ? spec.codec : Codec.plain
}

const mapRecord = (
  record: Readonly<Record<string, unknown>>,
  map: (name: string, value: unknown) => Result<unknown>
): Result<Record<string, unknown>> => {
  const mapped: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(record)) {
    const result = map(name, value)
    if (Either.isLeft(result))
      return Either.left({ ...result.left, path: `${name}${result.left.path && `.${result.left.path}`}` })
    Object.defineProperty(mapped, name, { value: result.right, enumerable: true, configurable: true, writable: true })
  }
  return Either.right(mapped)
}

/** A state, or a part of it. */
export const encodeState = (topology: Topology, state: Readonly<Record<string, unknown>>): Result<Json> =>
  mapRecord(state, (name, value) => Either.map(codecOf(topology, name).encodeValue(value), parse))

export const decodeState = (topology: Topology, json: Json): Result<Record<string, unknown>> =>
  mapRecord(json as Record<string, unknown>, (name, value) => codecOf(topology, name).decodeValue(value))

/** An update or an input: one update a channel. */
export const encodeUpdate = (topology: Topology, update: Readonly<Record<string, unknown>>): Result<Json> =>
  mapRecord(update, (name, value) =>
    value === undefined
      ? Either.right(undefined)
      : Either.map(codecOf(topology, name).encodeUpdate(value), ({ text }) => parse(text))
  )

export const decodeUpdate = (topology: Topology, json: Json): Result<Record<string, unknown>> =>
  mapRecord(json as Record<string, unknown>, (name, value) => codecOf(topology, name).decodeUpdate(value))

/** A command for the graph itself. */
export interface CommandJson {
  readonly update: Json
  readonly goto: ReadonlyArray<string | { readonly send: Json }>
}

/** Updates of a command: a record, or pairs where a channel is written more than once. */
const mapPairs = (
  update: unknown,
  map: (record: Record<string, unknown>) => Result<Record<string, unknown>>
): Result<unknown> => {
  if (update === undefined || update === null) return Either.right(null)
  if (!Array.isArray(update)) return map(update as Record<string, unknown>)
  return Either.all(
    update.map(([name, value]) => Either.map(map({ [name]: value }), (record) => [name, record[name]] as const))
  )
}

export const encodeCommand = (topology: Topology, command: Pick<Command, "update" | "goto">): Result<CommandJson> =>
  Either.gen(function* () {
    const update = yield* mapPairs(command.update, (record) => encodeUpdate(topology, record) as Result<any>)
    const goto: Array<CommandJson["goto"][number]> = []
    for (const target of command.goto) {
      if (typeof target === "string") goto.push(target)
      else goto.push({ send: parse(yield* topology.channels[topology.sends]!.codec.encodeState([target])) })
    }
    return { update, goto }
  })

export const decodeCommand = (topology: Topology, json: CommandJson): Result<Command> =>
  Either.gen(function* () {
    const update = yield* mapPairs(json.update, (record) => decodeUpdate(topology, record))
    const goto: Array<Target> = []
    for (const target of json.goto) {
      if (typeof target === "string") goto.push(target)
      else goto.push(...((yield* topology.channels[topology.sends]!.codec.decodeState(target.send)) as Array<Send>))
    }
    return makeCommand({ update: update ?? undefined, goto }) as Command
  })

/** What a task wrote: a record, a list of records, or nothing. */
const mapUpdates = (update: unknown, map: (record: Record<string, unknown>) => Result<unknown>): Result<unknown> => {
  if (update === null || update === undefined) return Either.right(null)
  return Array.isArray(update) ? Either.all(update.map(map)) : map(update as Record<string, unknown>)
}

/** Results may hold `{ $writes }` where a channel was written more than once. */
const mapResult = (
  result: Readonly<Record<string, unknown>> | undefined,
  map: (name: string, value: unknown) => Result<unknown>
): Result<unknown> => {
  if (result === undefined) return Either.right(undefined)
  return mapRecord(result, (name, value) => {
    const writes = (value as { $writes?: ReadonlyArray<unknown> } | null)?.$writes
    if (!Array.isArray(writes)) return map(name, value)
    return Either.map(Either.all(writes.map((one) => map(name, one))), ($writes) => ({ $writes }))
  })
}

const plainJson = (value: unknown): Result<Json> => {
  try {
    return Either.right(value === undefined ? undefined : JSON.parse(stringify(value)))
  } catch (error) {
    if (!(error instanceof NotJson)) throw error
    return Either.left({ detail: error.message, path: error.path, reason: "NotEncodable" })
  }
}

const replaced = <K extends string>(event: object, key: K, result: Result<unknown>): Result<Json> =>
  Either.map(result, (value) => ({ ...event, [key]: value }))

/** An event. Inputs of tasks and results of activities that are no JSON are left out. */
export const encodeEvent = (topology: Topology, event: GraphEvent): Result<Json> => {
  switch (event._tag) {
    case "Values":
    case "Checkpointed":
      return replaced(event, "state", encodeState(topology, event.state as Record<string, unknown>))
    case "Updates":
      return replaced(
        event,
        "update",
        mapUpdates(event.update, (record) => encodeUpdate(topology, record))
      )
    case "Custom":
      return replaced(event, "value", plainJson(event.value))
    case "ActivityEnded":
      return Either.right({ ...event, value: Either.getOrElse(plainJson(event.value), () => undefined) })
    case "TaskStarted":
      return Either.right({ ...event, input: Either.getOrElse(plainJson(event.input), () => undefined) })
    case "TaskEnded":
      return replaced(
        event,
        "result",
        mapResult(event.result, (name, value) =>
          Either.map(codecOf(topology, name).encodeUpdate(value), ({ text }) => parse(text))
        )
      )
    case "Interrupted":
      return Either.right(event)
  }
}

export const decodeEvent = (topology: Topology, json: Json): Result<GraphEvent> => {
  const event = json as GraphEvent
  switch (event._tag) {
    case "Values":
    case "Checkpointed":
      return replaced(event, "state", decodeState(topology, event.state)) as Result<GraphEvent>
    case "Updates":
      return replaced(
        event,
        "update",
        mapUpdates(event.update, (record) => decodeUpdate(topology, record))
      ) as Result<GraphEvent>
    case "TaskEnded":
      return replaced(
        event,
        "result",
        mapResult(event.result, (name, value) => codecOf(topology, name).decodeUpdate(value))
      ) as Result<GraphEvent>
    case "Interrupted":
      return Either.right({ ...event, interrupts: questions(event.interrupts) })
    default:
      return Either.right(event)
  }
}

/** A snapshot of a thread. */
export const encodeSnapshot = (topology: Topology, snapshot: StateSnapshot<any>): Result<Json> =>
  Either.gen(function* () {
    const values = yield* encodeState(topology, snapshot.values)
    const tasks: Array<unknown> = []
    for (const task of snapshot.tasks) {
      const result = yield* mapResult(task.result, (name, value) =>
        Either.map(codecOf(topology, name).encodeUpdate(value), ({ text }) => parse(text))
      )
      tasks.push({ ...task, result })
    }
    const { checkpoint } = snapshot
    const header = checkpoint && {
      id: checkpoint.id,
      step: checkpoint.step,
      source: checkpoint.source,
      created: checkpoint.created,
      parent: checkpoint.parent,
      parents: checkpoint.parents,
      graph: checkpoint.graph,
      ran: checkpoint.ran
    }
    return { ...snapshot, values, tasks, checkpoint: header }
  })

export const decodeSnapshot = (topology: Topology, json: Json): Result<StateSnapshot<any>> =>
  Either.gen(function* () {
    const snapshot = json as StateSnapshot<any>
    const values = yield* decodeState(topology, snapshot.values)
    const tasks: Array<any> = []
    for (const task of snapshot.tasks) {
      const result = yield* mapResult(task.result, (name, value) => codecOf(topology, name).decodeUpdate(value))
      tasks.push({ ...task, result, interrupts: questions(task.interrupts) })
    }
    return { ...snapshot, values, tasks, interrupts: questions(snapshot.interrupts) }
  })

const questions = (asked: ReadonlyArray<PendingInterrupt>) => asked.map((one) => new PendingInterrupt(one, UNCHECKED))
