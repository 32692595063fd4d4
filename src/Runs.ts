/**
 * Starting a run: from options to the tree that its graphs share, and from its events to a stream.
 */
import * as Channel from "effect/Channel"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import type { Checkpointer } from "./Checkpointer.js"
import { CheckpointerError, type GraphInterrupt, UnknownNode } from "./GraphError.js"
import type { GraphEvent, Mode } from "./GraphEvent.js"
import { NotJson, stringify } from "./internal/json.js"
import { Outbox } from "./internal/outbox.js"
import { timeoutProblem } from "./internal/timeout.js"
import type { Call, Request } from "./Load.js"
import * as Loop from "./Loop.js"
import type { Breakpoints, Control, Durability, Run, Sink, Tree } from "./Run.js"
import { SaveQueue } from "./SaveQueue.js"
import type { Topology } from "./Topology.js"

/** Options of a run, without types. */
export interface Options {
  readonly recursionLimit?: number | undefined
  readonly stepTimeout?: Duration.DurationInput | undefined
  readonly freeze?: boolean | undefined
  readonly concurrency?: number | "unbounded" | undefined
  readonly durability?: Durability | undefined
  readonly interruptBefore?: ReadonlyArray<string> | "*" | undefined
  readonly interruptAfter?: ReadonlyArray<string> | "*" | undefined
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
  readonly runId?: string | undefined
  readonly control?: Control | undefined
  /** The thread's fence that the caller took: commits are refused once a newer one is taken. */
  readonly fence?: number | undefined
}

/** Options of a stream, without types. */
export interface StreamOptions extends Options {
  readonly modes?: ReadonlyArray<Mode> | undefined
  readonly subgraphs?: boolean | undefined
  readonly bufferSize?: number | undefined
}

/** What is run, and where it is saved. */
export interface Target {
  readonly call: Call
  readonly thread?: string | undefined
  readonly checkpointer?: Context.Tag.Service<Checkpointer> | undefined
  readonly at?: string | undefined | null
  readonly pins?: ReadonlyMap<string, string> | undefined
  readonly onOpen?: ((run: Run) => void) | undefined
}

/** A run's options over its graph's: what is `undefined` says nothing, and metadata is merged key by key. */
export const merge = <O extends Options>(defaults: Options, options: O | undefined): O => {
  const said = saidIn(options ?? {})
  if (said.length === 0) return defaults as O
  const merged = Object.fromEntries([...saidIn(defaults), ...said])
  const both = defaults.metadata !== undefined && options?.metadata !== undefined
  return (both ? { ...merged, metadata: { ...defaults.metadata, ...options.metadata } } : merged) as O
}

const saidIn = (options: Options) => Object.entries(options).filter(([, value]) => value !== undefined)

const DEFAULT_RECURSION_LIMIT = 25
const DEFAULT_BUFFER = 256

const breakpoints = (nodes: ReadonlyArray<string> | "*" | undefined): Breakpoints =>
  nodes === "*" ? nodes : nodes === undefined || nodes.length === 0 ? NOWHERE : new Set(nodes)

const NOWHERE: Breakpoints = new Set()

/** Where a run with these options stops. */
export const stopsOf = (options: Options): Loop.Stops => ({
  before: breakpoints(options.interruptBefore),
  after: breakpoints(options.interruptAfter)
})

/** Nodes that these options would stop at and the graph does not have. */
export const unknownStops = (topology: Topology, options: Options): ReadonlyArray<string> =>
  [options.interruptBefore, options.interruptAfter].flatMap((nodes) =>
    typeof nodes === "object"
      ? nodes.filter((node) => topology.nodes[topology.nodeIds.get(node) ?? -1]?.hidden !== false)
      : []
  )

/** What is wrong with options, as far as types can't refuse it. */
export const problemsOf = (options: Options): ReadonlyArray<string> => {
  const { concurrency = "unbounded", durability = "sync", recursionLimit = 1, stepTimeout } = options
  const problems: Array<string> = []
  if (!(typeof recursionLimit === "number" && recursionLimit >= 0)) {
    problems.push(`recursionLimit must be a number that is not negative, but is ${recursionLimit}`)
  }
  if (concurrency !== "unbounded" && !(typeof concurrency === "number" && concurrency >= 1)) {
    problems.push(`concurrency must be at least 1, but is ${concurrency}`)
  }
  if (stepTimeout !== undefined && timeoutProblem({ run: stepTimeout }) !== undefined) {
    problems.push("stepTimeout must be a duration greater than 0")
  }
  if (!DURABILITIES.has(durability)) problems.push(`durability is "sync", "async" or "exit", not "${durability}"`)
  return problems
}

const DURABILITIES: ReadonlySet<unknown> = new Set(["sync", "async", "exit"])

/** What keeps metadata from being saved, if anything. */
export const metadataProblem = (metadata: Options["metadata"]): string | undefined => {
  if (metadata === undefined) return undefined
  try {
    stringify(metadata)
    return undefined
  } catch (error) {
    if (error instanceof NotJson) return `the metadata is not JSON: ${error.message}`
    throw error
  }
}

const treeOf = (options: Options, target: Target, sink: Sink | undefined): Tree => ({
  thread: target.thread,
  checkpointer: target.checkpointer,
  saves: target.checkpointer && new SaveQueue(target.checkpointer, options.fence),
  durability: options.durability ?? "sync",
  recursionLimit: options.recursionLimit ?? DEFAULT_RECURSION_LIMIT,
  freeze: options.freeze ?? false,
  stepTimeout: options.stepTimeout === undefined ? undefined : Duration.toMillis(options.stepTimeout),
  concurrency: concurrencyOf(options.concurrency),
  metadata: metadataOf(options),
  runId: options.runId,
  fence: options.fence,
  control: options.control ?? { drain: undefined },
  sink,
  pins: target.pins === undefined ? undefined : new Map(target.pins),
  remembering: new Map(),
  answers: new Map()
})

const concurrencyOf = (limit: Options["concurrency"]): number =>
  limit === undefined || limit === "unbounded" ? Number.POSITIVE_INFINITY : limit

/** Metadata key of the run that wrote a checkpoint. */
const RUN_ID = "run_id"

/** The run's own copy: its caller may go on changing what it passed. */
const metadataOf = ({ metadata, runId }: Options): Tree["metadata"] => {
  if (metadata === undefined && runId === undefined) return NO_METADATA
  const own = metadata === undefined ? {} : (plainCopy(metadata) as Record<string, unknown>)
  return runId === undefined ? own : { ...own, [RUN_ID]: runId }
}

const plainCopy = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(plainCopy)
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plainCopy(item)]))
}

const NO_METADATA: Readonly<Record<string, unknown>> = {}

/** The request to run a graph as a root. */
export const requestOf = (topology: Topology, options: Options, target: Target, sink?: Sink): Request => ({
  topology,
  tree: treeOf(options, target, sink),
  namespace: "",
  path: [],
  parents: {},
  saves: target.checkpointer !== undefined,
  mayBeSaved: true,
  at: target.at,
  onOpen: target.onOpen,
  call: target.call,
  continues: ({ checkpoint }) => options.runId !== undefined && checkpoint.metadata[RUN_ID] === options.runId
})

/** Runs a graph as a root. */
export const start = (
  topology: Topology,
  options: Options,
  target: Target,
  sink?: Sink
): Effect.Effect<Loop.Outcome, unknown, any> => {
  const [problem] = problemsOf(options)
  if (problem !== undefined) return Effect.die(new RangeError(problem))
  const detail = target.checkpointer === undefined ? undefined : metadataProblem(options.metadata)
  if (detail !== undefined) {
    return new CheckpointerError({ operation: "commit", reason: "InvalidRequest", detail, thread: target.thread })
  }
  const [unknown] = unknownStops(topology, options)
  return unknown === undefined
    ? Loop.run(requestOf(topology, options, target, sink), stopsOf(options))
    : new UnknownNode({ node: unknown, from: "a breakpoint", reason: "NotInGraph" })
}

/** A completed run's state; a paused run fails with `GraphInterrupt`. */
export const orInterrupt =
  (topology: Topology, thread: string | undefined) =>
  (outcome: Loop.Outcome): Effect.Effect<any, GraphInterrupt> =>
    outcome._tag === "Completed" ? Effect.succeed(outcome.state) : Loop.pauseOf(topology, thread, outcome)

const MODES: ReadonlySet<Mode> = new Set(["values", "updates", "custom", "tasks", "checkpoints", "debug"])

const sinkOf = (options: StreamOptions, outbox: Outbox<GraphEvent, unknown>): Sink => {
  const { modes: wanted = ["updates"] } = options
  if (!(Array.isArray(wanted) && wanted.every((mode) => MODES.has(mode)))) {
    throw new RangeError(`modes is a list of ${Array.from(MODES).join(", ")}, not ${JSON.stringify(wanted)}`)
  }
  const modes = new Set<Mode>(wanted)
  return {
    values: modes.has("values"),
    updates: modes.has("updates"),
    custom: modes.has("custom"),
    tasks: modes.has("tasks") || modes.has("debug"),
    checkpoints: modes.has("checkpoints") || modes.has("debug"),
    subgraphs: options.subgraphs ?? false,
    push: (event) => outbox.push(event),
    room: () => outbox.room()
  }
}

/**
 * Runs a graph and tells what happens: the run waits while `bufferSize` events wait for the reader, and is stopped when
 * the reader leaves.
 */
export const streamOf = (
  options: StreamOptions,
  run: (sink: Sink) => Effect.Effect<unknown, unknown, any>
): Stream.Stream<any, any, any> =>
  Stream.fromChannel(
    Channel.suspend(() => {
      const outbox = new Outbox<GraphEvent, unknown>(options.bufferSize ?? DEFAULT_BUFFER)
      let running: Fiber.RuntimeFiber<unknown, unknown> | undefined
      const begin = Effect.uninterruptibleMask((restore) =>
        Effect.map(Effect.forkDaemon(restore(Effect.suspend(() => run(sinkOf(options, outbox))))), (fiber) => {
          running = fiber
          fiber.addObserver((exit) => outbox.end(exit))
        })
      )
      const stop = Effect.suspend(() => {
        outbox.end(Exit.void)
        return running === undefined || running.unsafePoll() !== null ? Effect.void : Fiber.interrupt(running)
      })
      return Channel.ensuring(Channel.zipRight(Channel.fromEffect(begin), outbox.channel), stop)
    })
  )
