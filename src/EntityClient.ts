/**
 * The caller's side of a hosted thread: a handle like the local one.
 */
import type { AlreadyProcessingMessage, MailboxFull, PersistenceError } from "@effect/cluster/ClusterError"
import { Sharding } from "@effect/cluster/Sharding"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Mailbox from "effect/Mailbox"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import type { ListOptions } from "./Checkpointer.js"
import type { Refusal } from "./Codec.js"
import { type Command, isCommand } from "./Command.js"
import type * as Protocol from "./EntityProtocol.js"
import { CheckpointerError, GraphInterrupt, InvalidUpdate } from "./GraphError.js"
import type { GraphEvent, Mode } from "./GraphEvent.js"
import type { Answer } from "./Load.js"
import * as Thread from "./Thread.js"
import type { Topology } from "./Topology.js"
import * as Wire from "./Wire.js"

type ThreadEntity = ReturnType<typeof Protocol.make<any>>
type Client = Effect.Effect.Success<ThreadEntity["client"]>

/** One client for each cluster and graph. */
const clients = new WeakMap<object, WeakMap<object, Client>>()

const clientOf = (entity: ThreadEntity): Effect.Effect<Client, never, Sharding> =>
  Effect.flatMap(Sharding, (sharding) => {
    let known = clients.get(sharding)
    if (known === undefined) clients.set(sharding, (known = new WeakMap()))
    const client = known.get(entity)
    if (client !== undefined) return Effect.succeed(client)
    return Effect.tap(entity.client, (made) => Effect.sync(() => known.set(entity, made)))
  })

type ClusterError = MailboxFull | AlreadyProcessingMessage | PersistenceError

const CLUSTER_ERRORS = new Set(["MailboxFull", "AlreadyProcessingMessage", "PersistenceError"])

/** What the cluster itself fails with becomes a failure of the storage that the caller asked for. */
const outage = (thread: string, operation: string) => (error: unknown) => {
  const tag = (error as { _tag?: string } | null)?._tag
  if (tag === undefined || !CLUSTER_ERRORS.has(tag)) return error
  return new CheckpointerError({
    operation,
    thread,
    reason: tag === "MailboxFull" ? "Busy" : "Unavailable",
    detail: `the cluster answered ${tag}`,
    cause: error as ClusterError
  })
}

const refusing = <A>(result: Either.Either<A, Refusal>) =>
  Either.mapLeft(
    result,
    ({ detail, path, reason }) => new InvalidUpdate({ reason, path, channel: path.split(".")[0], detail })
  )

/** A run that its caller does not name gets a name, so that it is delivered as one run. */
const runIdOf = (options: { readonly runId?: string | undefined }): Effect.Effect<string> =>
  options.runId !== undefined
    ? Effect.succeed(options.runId)
    : Effect.map(Effect.all([Random.nextInt, Random.nextInt, Random.nextInt]), (parts) =>
        parts.map((part) => Math.abs(part).toString(36)).join("-")
      )

const optionsOf = (options: any): typeof Protocol.RunOptions.Type => ({
  recursionLimit: options.recursionLimit,
  concurrency: options.concurrency,
  durability: options.durability,
  interruptBefore: options.interruptBefore,
  interruptAfter: options.interruptAfter,
  metadata: options.metadata
})

const commandJson = (topology: Topology, command: Pick<Command, "update" | "goto">) => {
  const goto = command.goto.map((target) => {
    if (typeof target === "string") return target
    throw new TypeError("a Send can't be part of a command to a hosted thread")
  })
  const { update } = command
  const encoded =
    update === undefined ? Either.right(null) : Wire.encodeUpdate(topology, update as Record<string, unknown>)
  return Either.map(encoded, (update) => ({ update, goto }))
}

/** Turns what a reader of events gets into the events of one run, until it has ended. */
const eventsOf = (
  topology: Topology,
  notices: Stream.Stream<Protocol.Notice, any, any>,
  runId: string
): Stream.Stream<GraphEvent, any, any> =>
  notices.pipe(
    Stream.takeUntil((notice) => notice._tag === "Ended" && notice.runId === runId),
    Stream.filterMap((notice) => {
      if (notice._tag === "State") return Option.some(stateEvent(topology, notice.snapshot))
      if (notice._tag !== "Event" || notice.runId !== runId) return Option.none()
      return Either.getRight(Wire.decodeEvent(topology, notice.event))
    })
  )

/** After a takeover a reader goes on from the state. */
const stateEvent = (topology: Topology, snapshot: unknown): GraphEvent => {
  const decoded = Either.getOrThrow(Wire.decodeSnapshot(topology, snapshot))
  return { _tag: "Values", namespace: [], step: decoded.checkpoint?.step ?? -1, state: decoded.values }
}

const modeOf = (event: GraphEvent): ReadonlyArray<Mode> => {
  switch (event._tag) {
    case "Values":
      return ["values"]
    case "Updates":
    case "ActivityEnded":
    case "Interrupted":
      return ["updates"]
    case "Custom":
      return ["custom"]
    case "TaskStarted":
    case "TaskEnded":
      return ["tasks", "debug"]
    case "Checkpointed":
      return ["checkpoints", "debug"]
  }
}

const wanted = (options: {
  readonly modes?: ReadonlyArray<Mode> | undefined
  readonly subgraphs?: boolean | undefined
}) => {
  const modes = new Set<Mode>(options.modes ?? ["updates"])
  return (event: GraphEvent) =>
    (options.subgraphs === true || event.namespace.length === 0) && modeOf(event).some((mode) => modes.has(mode))
}

/**
 * Notices of a thread, from now on or after an id. When the runner that hosts the thread goes away the reader goes on
 * with the next one, after the last notice it has seen.
 */
export const notices = (
  entity: ThreadEntity,
  id: string,
  after: string | undefined
): Stream.Stream<Protocol.Notice, any, Sharding> => {
  let last = after ?? null
  return Stream.unwrap(
    Effect.map(clientOf(entity), (client) =>
      Stream.suspend(() => client(id).events({ after: last })).pipe(
        Stream.tap((notice) =>
          Effect.sync(() => {
            last = notice.id
          })
        )
      )
    )
  ).pipe(Stream.retry(Schedule.spaced("100 millis")))
}

class RemoteThread {
  constructor(
    readonly topology: Topology,
    readonly entity: ThreadEntity,
    readonly id: string,
    readonly checkpoint: string | undefined
  ) {}

  private call<A>(operation: string, send: (client: ReturnType<Client>) => Effect.Effect<A, any, any>) {
    return Effect.flatMap(clientOf(this.entity), (client) => send(client(this.id))).pipe(
      Effect.mapError(outage(this.id, operation))
    )
  }

  private outcome(outcome: Protocol.Outcome): Effect.Effect<any, any> {
    return Effect.map(refusing(Wire.decodeState(this.topology, outcome.state)), (state) => ({ ...outcome, state }))
  }

  private sendInput(runId: string, input: any, options: any): Effect.Effect<any, any, any> {
    const json: Either.Either<typeof Protocol.Input.Type, Refusal> = isCommand(input)
      ? Either.map(commandJson(this.topology, input), (command) => ({ _tag: "Command", command }))
      : Either.map(Wire.encodeUpdate(this.topology, input), (value) => ({ _tag: "Input", value }))
    return Effect.flatMap(refusing(json), (input) =>
      Effect.flatMap(
        this.call("invoke", (client) =>
          client.invoke({ runId, at: this.checkpoint ?? null, input, options: optionsOf(options) })
        ),
        (outcome) => this.outcome(outcome as Protocol.Outcome)
      )
    )
  }

  private sendAnswer(runId: string, answer: Answer | undefined, options: any): Effect.Effect<any, any, any> {
    const change = options.update === undefined && options.goto === undefined ? undefined : options
    const goto = change?.goto === undefined ? [] : Array.isArray(change.goto) ? change.goto : [change.goto]
    const json = change === undefined ? Either.right(null) : commandJson(this.topology, { update: change.update, goto })
    const payload = { runId, at: this.checkpoint ?? null, answer: (answer ?? null) as any, options: optionsOf(options) }
    return Effect.flatMap(refusing(json), (command) =>
      Effect.flatMap(
        this.call("resume", (client) => client.resume({ ...payload, command })),
        (outcome) => this.outcome(outcome as Protocol.Outcome)
      )
    )
  }

  readonly run = (input: any, options: any = {}) =>
    Effect.flatMap(runIdOf(options), (runId) => this.sendInput(runId, input, options))

  readonly invoke = (input: any, options: any = {}) => Effect.flatMap(this.run(input, options), this.orInterrupt)

  private readonly orInterrupt = (outcome: any): Effect.Effect<any, GraphInterrupt> =>
    outcome._tag === "Completed"
      ? Effect.succeed(outcome.state)
      : new GraphInterrupt({
          graph: this.topology.identity.name,
          thread: this.id,
          interrupts: outcome.interrupts,
          next: outcome.next
        })

  private go(resume: Answer | undefined, options: any) {
    return Effect.flatMap(Thread.encodeAnswer(resume), (answer) =>
      Effect.flatMap(runIdOf(options), (runId) => this.sendAnswer(runId, answer, options))
    )
  }

  readonly resume = (first?: any, second?: any, third?: any) => {
    const [resume, options] = Thread.resumeArguments(first, second, third)
    return Effect.flatMap(this.go(resume, options), this.orInterrupt)
  }

  readonly answer = (value: unknown, options: any = {}) =>
    Effect.flatMap(this.go(Thread.answer(value), options), this.orInterrupt)

  /** Reads the thread's events from before the run is sent until it has ended. */
  private streaming(options: any, send: (runId: string) => Effect.Effect<unknown, any, any>) {
    return Stream.unwrapScoped(
      Effect.gen(this, function* () {
        const runId = yield* runIdOf(options)
        const subscribed = yield* Deferred.make<void>()
        const mailbox = yield* Mailbox.make<GraphEvent, any>(options.bufferSize ?? 256)
        const seen = Stream.tap(notices(this.entity, this.id, undefined), () => Deferred.succeed(subscribed, undefined))
        const events = Stream.filter(eventsOf(this.topology, seen, runId), wanted(options))
        const reader = yield* Effect.forkScoped(Stream.runForEach(events, (event) => mailbox.offer(event)))
        const running = Effect.zipRight(Deferred.await(subscribed), send(runId))
        // A run that was answered from its stored result tells nothing any more.
        const told = Effect.timeoutOption(Effect.ignore(Fiber.join(reader)), "1 second")
        yield* Effect.forkScoped(
          Effect.flatMap(Effect.exit(Effect.zipLeft(running, told)), (exit) => mailbox.done(Exit.asVoid(exit)))
        )
        return Mailbox.toStream(mailbox)
      })
    )
  }

  readonly stream = (input: any, options: any = {}) =>
    this.streaming(options, (runId) => this.sendInput(runId, input, options))

  readonly resumeStream = (resume: Answer | undefined, options: any = {}) =>
    this.streaming(options, (runId) =>
      Effect.flatMap(Thread.encodeAnswer(resume), (answer) => this.sendAnswer(runId, answer, options))
    )

  readonly state = Effect.suspend(() =>
    Effect.flatMap(
      this.call("state", (client) => client.state({ at: this.checkpoint ?? null })),
      (json) => refusing(Wire.decodeSnapshot(this.topology, json))
    )
  )

  readonly history = (options: ListOptions = {}): Stream.Stream<any, any, any> =>
    Stream.unwrap(Effect.map(clientOf(this.entity), (client) => client(this.id).history(options))).pipe(
      Stream.mapError(outage(this.id, "history")),
      Stream.mapEffect((json) => refusing(Wire.decodeSnapshot(this.topology, json)))
    )

  readonly update = (update: any, options: { readonly as?: string; readonly runId?: string } = {}) =>
    Effect.gen(this, function* () {
      const runId = yield* runIdOf(options)
      const json = update === null ? null : yield* refusing(Wire.encodeUpdate(this.topology, update))
      return yield* this.call("update", (client) =>
        client.update({ runId, at: this.checkpoint ?? null, update: json, as: options.as ?? null })
      )
    })

  readonly at = (checkpoint: string) => remoteThread(this.topology, this.entity, this.id, checkpoint)

  readonly cancel = Effect.suspend(() => this.call("cancel", (client) => client.cancel()))

  readonly delete = Effect.suspend(() => this.call("delete", (client) => client.delete()))
}

/** A handle on a thread that a cluster hosts. */
export const remoteThread = (
  topology: Topology,
  entity: ThreadEntity,
  id: string,
  checkpoint: string | undefined
): unknown => new RemoteThread(topology, entity, id, checkpoint)
