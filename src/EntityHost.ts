/**
 * The hosting side of a thread in a cluster: what its runner does with the calls that are delivered to it.
 *
 * Two rules keep a thread whole while it moves between runners. Its fence is taken before its first run here, so that
 * whoever ran it before can save nothing more. And a runner that must let go of it answers nothing: the call stays in
 * the cluster's storage and is delivered to the next runner, which goes on from the last checkpoint.
 */
import * as Entity from "@effect/cluster/Entity"
import { Sharding } from "@effect/cluster/Sharding"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import { is } from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { COPYING } from "./Checkpoint.js"
import { Checkpointer } from "./Checkpointer.js"
import type { Refusal } from "./Codec.js"
import type { CompiledGraph } from "./CompiledGraph.js"
import * as Protocol from "./EntityProtocol.js"
import * as EntitySubgraphs from "./EntitySubgraphs.js"
import { CheckpointerError, InvalidUpdate } from "./GraphError.js"
import type { GraphEvent } from "./GraphEvent.js"
import * as Busy from "./internal/busy.js"
import * as EventLog from "./internal/eventLog.js"
import type * as Watch from "./internal/watch.js"
import type { Call } from "./Load.js"
import type { Outcome } from "./Loop.js"
import type { Control, Doubt, Sink } from "./Run.js"
import * as Runs from "./Runs.js"
import * as Thread from "./Thread.js"
import * as Timer from "./Timer.js"
import type { Topology } from "./Topology.js"
import * as Wire from "./Wire.js"

/** The graph that is hosted, and how. */
export interface Setting {
  readonly topology: Topology
  /** Graphs that run inside it without being nodes. */
  readonly subgraphs: ReadonlyArray<Topology>
  readonly defaults: CompiledGraph<any, any, any, any, any, any>["options"]
  readonly entity: Protocol.ThreadEntity
  readonly Failure: Schema.Schema<any, any>
  /** How long a runner whose save was refused waits to lose the thread, before it takes it back. */
  readonly fencedFor: Duration.DurationInput
  readonly eventBuffer: number
}

type Item = { readonly runId: string; readonly event: GraphEvent } | { readonly runId: string; readonly ended: true }

type Client = Effect.Effect.Success<Protocol.ThreadEntity["client"]>

/** A thread on its runner. */
export class Host implements Watch.Resident {
  private readonly log: EventLog.EventLog<Item>
  private readonly isFailure: (failure: unknown) => boolean
  private readonly fencing = Effect.unsafeMakeSemaphore(1)
  private readonly control: Control
  private fence: number | undefined
  /** A process that stood still may have lost its threads. */
  private readonly doubt: Doubt
  private running = 0
  /** Set by the first reader: before it nobody can come back for an event. */
  private watched = false
  private leaving = false

  constructor(
    private readonly setting: Setting,
    private readonly address: Entity.CurrentAddress["Type"],
    private readonly sharding: Sharding["Type"],
    watch: Watch.Watch,
    private readonly checkpointer: Context.Tag.Service<Checkpointer>,
    private readonly context: Context.Context<any>,
    private readonly scope: Scope.CloseableScope,
    private readonly makeClient: Client,
    epoch: string
  ) {
    this.log = EventLog.make(epoch, setting.eventBuffer)
    this.isFailure = is(setting.Failure)
    this.doubt = { reasons: watch.standstills, settled: watch.standstills() }
    const { defaults } = setting
    const drain = () => (this.isHeld() ? defaults.control?.drain : "the thread moves to another runner")
    this.control = {
      get drain() {
        return drain()
      },
      doubt: this.doubt
    }
  }

  private get id(): string {
    return this.address.entityId
  }

  readonly isHeld = (): boolean => this.sharding.hasShardId(this.address.shardId)

  /** Lets go of the thread at the end of the superstep that runs. */
  readonly leave = (): void => {
    this.leaving = true
    this.letGo()
  }

  /**
   * Ends the entity once no run is in progress. Its calls are not answered then; the cluster would wait for them until
   * its `entityTerminationTimeout`.
   */
  private letGo(): void {
    if (this.leaving && this.running === 0) Effect.runFork(Scope.close(this.scope, Exit.void))
  }

  private thread(options: Thread.HostedOptions = {}): Thread.Handle {
    return Thread.handle(this.setting.topology, Runs.merge(this.setting.defaults, options), this.id)
  }

  /** The handle that a message means. */
  private place(
    { at, subgraph }: Protocol.Place,
    options?: Thread.HostedOptions
  ): Effect.Effect<Thread.Handle, CheckpointerError> {
    const thread = this.thread(options)
    const standing = (handle: Thread.Handle) => (at === null ? handle : handle.at(at))
    if (subgraph === undefined) return Effect.succeed(standing(thread))
    const topology = EntitySubgraphs.find(this.setting.topology, this.setting.subgraphs, subgraph)
    if (topology !== undefined) return Effect.succeed(standing(thread.subgraph({ topology }, subgraph.namespace)))
    const detail = `no node is the graph "${subgraph.name}": name it in the option "subgraphs" of GraphEntity.make`
    return new CheckpointerError({ operation: "subgraph", thread: this.id, reason: "Unsupported", detail })
  }

  /** Failures of the protocol are answers, everything else is a defect. */
  private answering<A>(effect: Effect.Effect<A, unknown, any>): Effect.Effect<A, any> {
    return effect.pipe(
      Effect.catchAll((failure) => (this.isFailure(failure) ? Effect.fail(failure) : Effect.die(failure))),
      Effect.provide(this.context)
    )
  }

  private readonly fenced = Effect.suspend(() => {
    if (this.fence !== undefined) return Effect.succeed(this.fence)
    const reasons = this.doubt.reasons()
    return Effect.map(this.checkpointer.takeFence(this.id), (fence) => {
      this.fence = fence
      this.doubt.settled = reasons
      return fence
    })
  }).pipe(this.fencing.withPermits(1))

  /**
   * Does something that saves. It is left without an answer when the thread moves to another runner. A save that was
   * refused means that another runner has taken the thread over, or that somebody else has written to it: this runner
   * waits to be stopped, and if the cluster leaves the thread to it after all, it goes on where `goesOn` allows it.
   */
  private durable<A>(
    body: (fence: number) => Effect.Effect<A, unknown, any>,
    goesOn: Effect.Effect<boolean, unknown, any>
  ): Effect.Effect<A, unknown, any> {
    const attempt = Effect.suspend(() => {
      if (!this.isHeld()) return Effect.never
      this.running++
      return Effect.ensuring(
        Effect.flatMap(this.fenced, body),
        Effect.sync(() => {
          this.running--
          this.letGo()
        })
      )
    })
    return Effect.catchAll(attempt, (failure) => {
      const tag = tagOf(failure)
      if (tag === "GraphDrained" && !this.isHeld()) return Effect.never
      if (tag !== "ThreadConflict") return Effect.fail(failure)
      return Effect.logWarning(`a save of thread "${this.id}" was refused; waiting to lose it`, failure).pipe(
        Effect.zipRight(Effect.sleep(this.setting.fencedFor)),
        Effect.tap(() => {
          this.fence = undefined
        }),
        Effect.zipRight(goesOn),
        Effect.flatMap((again) => (again ? this.durable(body, goesOn) : Effect.fail(failure)))
      )
    })
  }

  /** Runs a call to its end. */
  run({ multitask, options, runId, ...place }: RunOf, call: Call) {
    const sink = this.sink(runId)
    const body = (fence: number) => {
      const handle = this.place(place, { ...options, runId, fence, control: this.control, multitask })
      const started = Effect.flatMap(handle, (handle) => Thread.start(handle, call, sink))
      return Effect.flatMap(started, this.outcome)
    }
    return this.answering(this.durable(body, this.isOpen(runId))).pipe(
      Effect.onExit((exit) =>
        Effect.sync(() => {
          if (this.isHeld() || !Exit.isInterrupted(exit)) this.log.push({ runId, ended: true })
        })
      )
    )
  }

  private readonly outcome = (outcome: Outcome) =>
    Effect.gen(this, function* () {
      if (outcome._tag === "Paused") yield* this.wakeLater(outcome.interrupts)
      const state = yield* refusing(Wire.encodeState(this.setting.topology, outcome.state))
      return outcome._tag === "Completed" ? { _tag: outcome._tag, state } : { ...outcome, state }
    })

  /** Sends a message to the thread itself for each sleep, delivered when it is over. */
  private wakeLater(pending: Extract<Outcome, { _tag: "Paused" }>["interrupts"]) {
    return Effect.forEach(pending, (asked) => {
      const until = Timer.dueAt(asked)
      if (until === undefined) return Effect.void
      const wake = new Protocol.Wake({ id: asked.id, until })
      return Effect.retry(this.makeClient(this.id).wake(wake, { discard: true }), Schedule.spaced("1 second"))
    })
  }

  /** Whether a run has not begun, or is the thread's last one: then it can go on. */
  private isOpen(runId: string): Effect.Effect<boolean, unknown, any> {
    const { history, state } = this.thread()
    return Effect.flatMap(state, ({ metadata }) =>
      metadata.run_id === runId
        ? Effect.succeed(true)
        : Effect.map(Stream.runHead(history({ filter: { run_id: runId }, limit: 1 })), Option.isNone)
    )
  }

  /** Every event of a run goes to the log, once somebody has asked for events. */
  private sink(runId: string): Sink {
    const isWatched = () => this.watched
    return {
      get values() {
        return isWatched()
      },
      get updates() {
        return isWatched()
      },
      get custom() {
        return isWatched()
      },
      get tasks() {
        return isWatched()
      },
      get checkpoints() {
        return isWatched()
      },
      get subgraphs() {
        return isWatched()
      },
      push: (event) => this.log.push({ runId, event }),
      room: () => undefined
    }
  }

  start({ input, ...run }: Protocol.Payload<"invoke">) {
    return Effect.flatMap(this.answering(refusing(callOf(this.setting.topology, input))), (call) => this.run(run, call))
  }

  resume({ answer, command, ...run }: Protocol.Payload<"resume">) {
    return Effect.flatMap(this.answering(refusing(resumeOf(this.setting.topology, answer, command))), (call) =>
      this.run(run, call)
    )
  }

  /** A sleep is over: wakes the thread, unless it has been woken already. */
  wake({ id }: Protocol.Payload<"wake">) {
    const answer = { _tag: "ById" as const, values: { [id]: null } }
    const call: Call = { _tag: "Resume", answer, command: undefined }
    return Effect.flatMap(this.answering(this.thread().state), ({ interrupts }) =>
      interrupts.some((pending) => pending.id === id)
        ? Effect.asVoid(this.run({ runId: `wake:${id}`, at: null, multitask: "enqueue", options: {} }, call))
        : Effect.void
    )
  }

  update({ runId, supersteps, ...place }: Protocol.Payload<"update">) {
    return this.change((fence) =>
      Effect.flatMap(this.place(place, { fence, runId }), ({ topology, updateAll }) =>
        Effect.flatMap(
          refusing(Either.all(supersteps.map((updates) => Either.all(updates.map((one) => changeOf(topology, one)))))),
          updateAll
        )
      )
    )
  }

  copy({ runId, ...place }: Protocol.Payload<"copy">) {
    return this.change((fence) => Effect.flatMap(this.place(place, { fence, runId }), ({ copy }) => copy))
  }

  /**
   * Makes the thread a copy of another one. What failed or was given up leaves nothing; what was begun elsewhere is gone
   * on with.
   */
  copyFrom({ runId, thread }: Protocol.Payload<"copyFrom">) {
    const undo = Effect.flatMap(this.checkpointer.thread(this.id), (info) =>
      this.isHeld() && info?.metadata[COPYING] === runId ? this.remove : Effect.void
    )
    const copy = this.checkpointer
      .copyThread(thread, this.id, runId)
      .pipe(Effect.onError(() => Effect.ignoreLogged(undo)))
    return this.change(() => Busy.copying(this.checkpointer, this.id, copy))
  }

  /** Changes the thread without a run of it. */
  private change<A>(body: (fence: number) => Effect.Effect<A, unknown, any>): Effect.Effect<A, any> {
    return this.answering(this.durable(body, Effect.succeed(true)))
  }

  private readonly remove = Effect.suspend(() =>
    Effect.tap(this.checkpointer.deleteThread(this.id), () => {
      this.fence = undefined
    })
  )

  /** Stops its runs, and removes it once they have ended. */
  readonly delete = Effect.suspend(() =>
    this.answering(Busy.exclusive(this.checkpointer, this.id, "interrupt", () => this.remove))
  )

  readonly cancel = Effect.suspend(() => this.answering(this.thread().cancel))

  state(place: Protocol.Place) {
    return this.answering(
      Effect.flatMap(this.place(place), ({ state, topology }) =>
        Effect.flatMap(state, (snapshot) => refusing(Wire.encodeSnapshot(topology, snapshot)))
      )
    )
  }

  history({ subgraph, ...options }: Protocol.Payload<"history">) {
    return Stream.unwrap(
      Effect.map(this.place({ at: null, subgraph }), ({ history, topology }) =>
        Stream.mapEffect(history(options), (snapshot) => refusing(Wire.encodeSnapshot(topology, snapshot)))
      )
    ).pipe(Stream.provideContext(this.context)) as Stream.Stream<unknown, any>
  }

  subgraphs(place: Protocol.Place) {
    return this.answering(Effect.flatMap(this.place(place), ({ subgraphs }) => subgraphs))
  }

  readonly branches = Effect.suspend(() => this.answering(this.thread().links))

  readonly position = Effect.sync(() => this.log.last())

  /** Events after one that the reader has seen; the state first where events are missing. */
  events(after: string | null): Stream.Stream<Protocol.Notice, any> {
    this.watched = true
    const known = this.log.after(after ?? undefined)
    const first: EventLog.Entry<Item> = { id: this.log.last(), value: undefined }
    const start =
      known === undefined
        ? Stream.mapEffect(Stream.succeed(first), this.notice)
        : Stream.succeed(Option.some<Protocol.Notice>({ _tag: "Subscribed", id: after ?? first.id }))
    const rest = known ?? this.log.after(undefined)!
    return Stream.filterMap(Stream.concat(start, Stream.mapEffect(rest, this.notice)), (notice) => notice)
  }

  /** An event that can't be encoded is left out. */
  private readonly notice = ({
    id,
    value
  }: EventLog.Entry<Item>): Effect.Effect<Option.Option<Protocol.Notice>, any> => {
    if (value === undefined)
      return Effect.map(this.state({ at: null }), (snapshot) => Option.some({ _tag: "State", id, snapshot }))
    if ("ended" in value) return Effect.succeedSome({ _tag: "Ended", id, runId: value.runId })
    const encoded = Either.getRight(Wire.encodeEvent(this.setting.topology, value.event))
    return Effect.succeed(Option.map(encoded, (event) => ({ _tag: "Event", id, runId: value.runId, event })))
  }
}

/** The handlers of one thread's messages. */
export const make = (setting: Setting, watch: Watch.Watch) =>
  Effect.gen(function* () {
    const epoch = `${(yield* Clock.currentTimeMillis).toString(36)}-${(yield* Random.nextInt).toString(36)}`
    const host = new Host(
      setting,
      yield* Entity.CurrentAddress,
      yield* Sharding,
      watch,
      yield* Checkpointer,
      yield* Effect.context<any>(),
      (yield* Effect.scope) as Scope.CloseableScope,
      yield* setting.entity.client,
      epoch
    )
    watch.add(host)
    yield* Effect.addFinalizer(() => Effect.sync(() => watch.remove(host)))
    return setting.entity.of({
      invoke: ({ payload }) => host.start(payload),
      resume: ({ payload }) => host.resume(payload),
      update: ({ payload }) => host.update(payload),
      copy: ({ payload }) => host.copy(payload),
      copyFrom: ({ payload }) => host.copyFrom(payload),
      wake: ({ payload }) => host.wake(payload),
      state: ({ payload }) => host.state(payload),
      subgraphs: ({ payload }) => host.subgraphs(payload),
      branches: () => host.branches,
      history: ({ payload }) => host.history(payload),
      cancel: () => host.cancel,
      delete: () => host.delete,
      position: () => host.position,
      events: ({ payload }) => host.events(payload.after)
    })
  })

const tagOf = (failure: unknown): unknown =>
  typeof failure === "object" && failure !== null && "_tag" in failure ? failure._tag : undefined

const refusing = <A>(result: Either.Either<A, Refusal>) =>
  Either.mapLeft(
    result,
    ({ detail, path, reason }) => new InvalidUpdate({ reason, path, channel: path.split(".")[0], detail })
  )

const callOf = (topology: Topology, input: Protocol.Payload<"invoke">["input"]) =>
  input._tag === "Input"
    ? Either.map(Wire.decodeUpdate(topology, input.value), (value): Call => ({ _tag: "Input", value }))
    : Either.map(Wire.decodeCommand(topology, input.command), (command): Call => ({ _tag: "Command", command }))

/** A run without what it brings. */
type RunOf = Omit<Protocol.Payload<"invoke">, "input">

const changeOf = (topology: Topology, { as, command, update }: Protocol.Update) => {
  const decoded: Either.Either<unknown, Refusal> =
    command !== null
      ? Wire.decodeCommand(topology, command)
      : update === null
        ? Either.right(null)
        : Wire.decodeUpdate(topology, update)
  return Either.map(decoded, (update) => ({ update, as: as ?? undefined }))
}

const resumeOf = (
  topology: Topology,
  answer: Protocol.Payload<"resume">["answer"],
  json: Protocol.Payload<"resume">["command"]
) =>
  Either.map(
    json === null ? Either.right(undefined) : Wire.decodeCommand(topology, json),
    (command): Call => ({ _tag: "Resume", answer: answer ?? undefined, command })
  )
