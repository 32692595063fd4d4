/**
 * The caller's side of a hosted thread: a handle like the local one.
 */
import type { AlreadyProcessingMessage, MailboxFull, PersistenceError } from "@effect/cluster/ClusterError"
import { Sharding } from "@effect/cluster/Sharding"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Mailbox from "effect/Mailbox"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import * as Branches from "./Branches.js"
import type { ListOptions } from "./Checkpointer.js"
import type { Refusal } from "./Codec.js"
import { isCommand } from "./Command.js"
import type * as Protocol from "./EntityProtocol.js"
import type { ThreadEntity } from "./EntityProtocol.js"
import { CheckpointerError, GraphInterrupt, InvalidUpdate, RunCancelled } from "./GraphError.js"
import type { GraphEvent, Mode } from "./GraphEvent.js"
import { encodeAnswer } from "./internal/answers.js"
import * as EventLog from "./internal/eventLog.js"
import type { Answer } from "./Load.js"
import * as Thread from "./Thread.js"
import type { Topology } from "./Topology.js"
import * as Wire from "./Wire.js"

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

const tagOf = (error: unknown): string | undefined => (error as { _tag?: string } | null | undefined)?._tag

/** What the cluster itself fails with becomes a failure of the storage that the caller asked for. */
const outage = (thread: string, operation: string) => (error: unknown) => {
  const tag = tagOf(error)
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
  stepTimeout: options.stepTimeout === undefined ? undefined : Duration.toMillis(options.stepTimeout),
  freeze: options.freeze,
  durability: options.durability,
  interruptBefore: options.interruptBefore,
  interruptAfter: options.interruptAfter,
  metadata: options.metadata
})

/** What a task is taken to have returned, as JSON. */
const encodeChange = (
  topology: Topology,
  { as = null, update }: { readonly update: any; readonly as?: string | null | undefined }
): Either.Either<Protocol.Update, Refusal> => {
  if (isCommand(update)) {
    return Either.map(Wire.encodeCommand(topology, update), (command) => ({ update: null, command, as }))
  }
  if (update === undefined || update === null) return Either.right({ update: null, command: null, as })
  return Either.map(Wire.encodeUpdate(topology, update), (update) => ({ update, command: null, as }))
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

/** An interruption that is not the caller's own: the runner that was asked goes away, or somebody else gave up. */
const isForeign = (cause: Cause.Cause<unknown>): boolean => Cause.isInterruptedOnly(cause)

/** A question that changes nothing is asked again when its runner goes away. */
const asking = <A, E, R>(question: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.catchSomeCause(question, (cause) =>
    isForeign(cause) ? Option.some(Effect.delay(asking(question), "100 millis")) : Option.none()
  )

/**
 * Notices of a thread, from now on or after an id. When the runner that hosts the thread goes away the reader goes on
 * with the next one, after the last notice it has seen; it then gets the state first.
 */
const notices = (
  entity: ThreadEntity,
  id: string,
  after: string | undefined
): Stream.Stream<Protocol.Notice, any, Sharding> => {
  let last = after ?? null
  const follow = (client: ReturnType<Client>): Stream.Stream<Protocol.Notice, any, any> => {
    const again = Stream.unwrap(
      Effect.as(
        Effect.sleep("100 millis"),
        Stream.suspend(() => follow(client))
      )
    )
    return Stream.suspend(() => client.events({ after: last })).pipe(
      // The cluster itself asks the next runner, which does not know what was seen of the one before it.
      Stream.mapEffect((notice): Effect.Effect<Protocol.Notice, any, any> => {
        if (notice._tag !== "Subscribed" || last === null || EventLog.sameLog(notice.id, last)) {
          return Effect.succeed(notice)
        }
        return Effect.map(asking(client.state({ at: null })), (snapshot) => ({
          _tag: "State",
          id: notice.id,
          snapshot
        }))
      }),
      Stream.tap((notice) =>
        Effect.sync(() => {
          last = notice.id
        })
      ),
      Stream.catchAllCause((cause) => {
        const failure = Option.getOrUndefined(Cause.failureOption(cause))
        const transient = isForeign(cause) || CLUSTER_ERRORS.has(tagOf(failure) ?? "")
        return transient ? Stream.empty : Stream.failCause(cause)
      }),
      Stream.concat(again)
    )
  }
  return Stream.unwrap(Effect.map(clientOf(entity), (client) => follow(client(id)))) as Stream.Stream<
    any,
    any,
    Sharding
  >
}

/** What a reader of a thread's events gets. An id is what to come back with. */
export type Notice<State, FullUpdate, Ev> =
  | {
      readonly _tag: "Event"
      readonly id: string
      readonly runId: string
      readonly event: GraphEvent<State, FullUpdate, Ev>
    }
  | { readonly _tag: "State"; readonly id: string; readonly snapshot: Thread.StateSnapshot<State> }
  | { readonly _tag: "Subscribed"; readonly id: string }
  | { readonly _tag: "Ended"; readonly id: string; readonly runId: string }

/** Events of all runs of a thread. */
export const events = (
  topology: Topology,
  entity: ThreadEntity,
  id: string,
  after: string | undefined
): Stream.Stream<Notice<any, any, any>, any, Sharding> =>
  Stream.mapEffect(notices(entity, id, after), (notice): Effect.Effect<Notice<any, any, any>, InvalidUpdate> => {
    if (notice._tag === "State") {
      return refusing(
        Either.map(Wire.decodeSnapshot(topology, notice.snapshot), (snapshot) => ({ ...notice, snapshot }))
      )
    }
    if (notice._tag !== "Event") return Effect.succeed(notice)
    return refusing(Either.map(Wire.decodeEvent(topology, notice.event), (event) => ({ ...notice, event })))
  })

/** Follows the notices of a thread for the events of one run. */
class Reader {
  readonly subscribed = Effect.unsafeMakeLatch()
  ended = false
  private seen = ""
  private readonly moved = Effect.unsafeMakeLatch()

  constructor(
    readonly runId: string,
    readonly wanted: (event: GraphEvent) => boolean,
    readonly offer: (event: GraphEvent) => Effect.Effect<unknown>
  ) {}

  private event(notice: Notice<any, any, any>): GraphEvent | undefined {
    if (notice._tag === "Event") return notice.runId === this.runId ? notice.event : undefined
    if (notice._tag !== "State") return undefined
    const { checkpoint, values } = notice.snapshot
    return { _tag: "Values", namespace: [], step: checkpoint?.step ?? -1, state: values }
  }

  take(notice: Notice<any, any, any>): Effect.Effect<void> {
    const event = this.event(notice)
    const offered = event !== undefined && this.wanted(event) ? this.offer(event) : Effect.void
    return Effect.map(offered, () => {
      this.seen = notice.id
      this.ended = notice._tag === "Ended" && notice.runId === this.runId
      this.subscribed.unsafeOpen()
      this.moved.unsafeOpen()
    })
  }

  /** Waits until what was told before now is read; a runner that has gone away tells nothing any more. */
  caughtUp<E, R>(position: Effect.Effect<string, E, R>): Effect.Effect<void, E, R> {
    return Effect.flatMap(position, (newest) => {
      const reached = () =>
        EventLog.sameLog(this.seen, newest) && EventLog.numberOf(this.seen) >= EventLog.numberOf(newest)
      const wait: Effect.Effect<void, E, R> = Effect.suspend(() => {
        if (this.ended || reached()) return Effect.void
        this.moved.unsafeClose()
        const next = Effect.timeoutOption(this.moved.await, "1 second")
        return Effect.flatMap(next, () => (EventLog.sameLog(this.seen, newest) ? wait : this.caughtUp(position)))
      })
      return wait
    })
  }
}

class RemoteThread {
  constructor(
    readonly topology: Topology,
    readonly entity: ThreadEntity,
    readonly id: string,
    readonly checkpoint: string | undefined,
    /** Of a subgraph; `""` for the thread's own graph. */
    readonly namespace = "",
    /** Of a subgraph: the thread's own graph, which runs it. */
    readonly root?: RemoteThread
  ) {}

  private get place(): Protocol.Place {
    const { checkpoint = null, namespace, root, topology } = this
    return { at: checkpoint, subgraph: root && { ...topology.identity, namespace } }
  }

  /** The graph that runs. */
  private get whole(): Topology {
    return (this.root ?? this).topology
  }

  private call<A>(
    operation: string,
    send: (client: ReturnType<Client>) => Effect.Effect<A, any, any>,
    thread = this.id
  ) {
    return Effect.flatMap(clientOf(this.entity), (client) => send(client(thread))).pipe(
      Effect.mapError(outage(thread, operation))
    )
  }

  private outcome(outcome: Protocol.Outcome): Effect.Effect<any, any> {
    return Effect.map(refusing(Wire.decodeState(this.whole, outcome.state)), (state) => ({ ...outcome, state }))
  }

  /** Sends a durable call. One that somebody else's interruption has stopped was cancelled. */
  private order<A>(operation: string, request: (client: ReturnType<Client>) => Effect.Effect<A, any, any>) {
    return Effect.catchSomeCause(this.call(operation, request), (cause) =>
      isForeign(cause)
        ? Option.some(Effect.fail(new RunCancelled({ thread: this.id, reason: "cancel" })))
        : Option.none()
    )
  }

  private send(operation: string, request: (client: ReturnType<Client>) => Effect.Effect<any, any, any>) {
    return Effect.flatMap(this.order(operation, request), (outcome) => this.outcome(outcome as Protocol.Outcome))
  }

  private payload(runId: string, options: any) {
    return { runId, ...this.place, options: optionsOf(options), multitask: options.multitask }
  }

  private sendInput(runId: string, input: any, options: any): Effect.Effect<any, any, any> {
    const json: Either.Either<typeof Protocol.Input.Type, Refusal> = isCommand(input)
      ? Either.map(Wire.encodeCommand(this.topology, input), (command) => ({ _tag: "Command", command }))
      : Either.map(Wire.encodeUpdate(this.topology, input ?? {}), (value) => ({ _tag: "Input", value }))
    return Effect.flatMap(refusing(json), (input) =>
      this.send("invoke", (client) => client.invoke({ ...this.payload(runId, options), input }))
    )
  }

  private sendAnswer(runId: string, answer: Answer | undefined, options: any): Effect.Effect<any, any, any> {
    const change = options.update === undefined && options.goto === undefined ? undefined : options
    const goto = change?.goto === undefined ? [] : Array.isArray(change.goto) ? change.goto : [change.goto]
    const json =
      change === undefined ? Either.right(null) : Wire.encodeCommand(this.topology, { update: change.update, goto })
    return Effect.flatMap(refusing(json), (command) =>
      this.send("resume", (client) =>
        client.resume({ ...this.payload(runId, options), answer: (answer ?? null) as any, command })
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
          graph: this.whole.identity.name,
          thread: this.id,
          interrupts: outcome.interrupts,
          next: outcome.next
        })

  private go(resume: Answer | undefined, options: any) {
    return Effect.flatMap(encodeAnswer(resume), (answer) =>
      Effect.flatMap(runIdOf(options), (runId) => this.sendAnswer(runId, answer, options))
    )
  }

  readonly resume = (first?: any, second?: any, third?: any) => {
    const [resume, options] = Thread.resumeArguments(first, second, third)
    return Effect.flatMap(this.go(resume, options), this.orInterrupt)
  }

  readonly answer = (value: unknown, options: any = {}) =>
    Effect.flatMap(this.go(Thread.answer(value), options), this.orInterrupt)

  /** Reads the thread's events from before the run is sent until all that it told are read. */
  private streaming(options: any, send: (runId: string) => Effect.Effect<unknown, any, any>) {
    return Stream.unwrapScoped(
      Effect.gen(this, function* () {
        const runId = yield* runIdOf(options)
        const mailbox = yield* Mailbox.make<GraphEvent, any>(options.bufferSize ?? 256)
        const reader = new Reader(runId, wanted(options), (event) => mailbox.offer(event))
        const reading = yield* Effect.forkScoped(
          events(this.topology, this.entity, this.id, undefined).pipe(
            Stream.mapEffect((notice) => reader.take(notice)),
            Stream.takeUntil(() => reader.ended),
            Stream.runDrain
          )
        )
        const position = asking(this.call("position", (client) => client.position()))
        const running = Effect.gen(this, function* () {
          yield* Effect.raceFirst(reader.subscribed.await, Fiber.join(reading))
          const exit = yield* Effect.exit(send(runId))
          yield* Effect.raceFirst(reader.caughtUp(position), Fiber.join(reading))
          return yield* exit
        })
        yield* Effect.forkScoped(Effect.flatMap(Effect.exit(running), (exit) => mailbox.done(Exit.asVoid(exit))))
        return Mailbox.toStream(mailbox)
      })
    )
  }

  readonly stream = (input: any, options: any = {}) =>
    this.streaming(options, (runId) => this.sendInput(runId, input, options))

  readonly resumeStream = (resume: Answer | undefined, options: any = {}) =>
    this.streaming(options, (runId) =>
      Effect.flatMap(encodeAnswer(resume), (answer) => this.sendAnswer(runId, answer, options))
    )

  readonly state = Effect.suspend(() =>
    Effect.flatMap(asking(this.call("state", (client) => client.state(this.place))), (json) =>
      refusing(Wire.decodeSnapshot(this.topology, json))
    )
  )

  readonly history = (options: ListOptions = {}): Stream.Stream<any, any, any> =>
    Stream.unwrap(
      Effect.map(clientOf(this.entity), (client) =>
        client(this.id).history({ ...options, subgraph: this.place.subgraph })
      )
    ).pipe(
      Stream.mapError(outage(this.id, "history")),
      Stream.mapEffect((json) => refusing(Wire.decodeSnapshot(this.topology, json)))
    )

  readonly update = (update: any, options: { readonly as?: string; readonly runId?: string } = {}) =>
    this.updateAll([[{ update, as: options.as }]], options)

  readonly updateAll = (
    supersteps: ReadonlyArray<ReadonlyArray<{ readonly update: any; readonly as?: string | undefined }>>,
    options: { readonly runId?: string } = {}
  ) =>
    Effect.gen(this, function* () {
      const runId = yield* runIdOf(options)
      const json = yield* refusing(
        Either.all(supersteps.map((updates) => Either.all(updates.map((one) => encodeChange(this.topology, one)))))
      )
      return yield* this.order("update", (client) => client.update({ runId, ...this.place, supersteps: json }))
    })

  readonly copy = Effect.suspend(() =>
    Effect.flatMap(runIdOf({}), (runId) =>
      this.order("copy", (client) => client.copy({ runId, at: this.checkpoint ?? null }))
    )
  )

  readonly copyTo = (thread: string) =>
    Effect.flatMap(runIdOf({}), (runId) =>
      this.call("copyThread", (client) => client.copyFrom({ runId, thread: this.id }), thread)
    )

  readonly branches = Effect.suspend(() =>
    Effect.map(asking(this.call("branches", (client) => client.branches())), Branches.treeOf)
  )

  readonly subgraphs = Effect.suspend(() => asking(this.call("subgraphs", (client) => client.subgraphs(this.place))))

  readonly subgraph = (child: { readonly topology: Topology }, namespace: string) =>
    new RemoteThread(child.topology, this.entity, this.id, undefined, namespace, this.root ?? this)

  readonly resumeThread = (options: any = {}) => Effect.flatMap(this.go(undefined, options), this.orInterrupt)

  readonly at = (checkpoint: string) =>
    new RemoteThread(this.topology, this.entity, this.id, checkpoint, this.namespace, this.root)

  readonly cancel = Effect.suspend(() => asking(this.call("cancel", (client) => client.cancel())))

  readonly delete = Effect.suspend(() => asking(this.call("delete", (client) => client.delete())))
}

/** A handle on a thread that a cluster hosts. */
export const remoteThread = (
  topology: Topology,
  entity: ThreadEntity,
  id: string,
  checkpoint: string | undefined
): unknown => new RemoteThread(topology, entity, id, checkpoint)
