/**
 * Threads hosted by `@effect/cluster`: a thread is an entity, located by its id and run by one runner at a time.
 *
 * The cluster does the sharding and the delivery; the graph's state stays in the `Checkpointer`. Calls are persisted
 * messages whose key is the run's id: delivered again after a crash, a call goes on from the last checkpoint, or is
 * answered from it. A runner that lost its shard is fenced: its commits are refused, and it waits to be stopped instead
 * of answering. A paused thread holds nothing on any runner; sleeps (`Timer`) wake it by a delayed message.
 */
import * as Entity from "@effect/cluster/Entity"
import type { Sharding } from "@effect/cluster/Sharding"
import * as Rpc from "@effect/rpc/Rpc"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Checkpointer } from "./Checkpointer.js"
import { make as command } from "./Command.js"
import type { CompiledGraph, Nodes } from "./CompiledGraph.js"
import { remoteThread } from "./EntityClient.js"
import * as Protocol from "./EntityProtocol.js"
import { InvalidUpdate, type ThreadConflict } from "./GraphError.js"
import * as EventLog from "./internal/eventLog.js"
import type { Call } from "./Load.js"
import type { Outcome } from "./Loop.js"
import type { Sink } from "./Run.js"
import * as Thread from "./Thread.js"
import * as Timer from "./Timer.js"
import type { Topology } from "./Topology.js"
import * as Wire from "./Wire.js"

/** Options of a hosted graph. */
export interface Options<E> {
  /** Schema of what the graph's nodes may fail with; other failures reach the caller as defects. */
  readonly error?: Schema.Schema<E, any> | undefined
  /** How long an idle thread stays in memory; default the cluster's `entityMaxIdleTime`. */
  readonly maxIdleTime?: Duration.DurationInput | undefined
  /** How long a fenced runner waits to be stopped before it answers with `ThreadConflict`; default 1 minute. */
  readonly fencedFor?: Duration.DurationInput | undefined
  /** Events kept for readers that come back; default 1,024. */
  readonly eventBuffer?: number | undefined
}

/** A graph whose threads live in a cluster. */
export interface Hosted<
  out State,
  in Update,
  in N extends Nodes,
  in out Ev,
  out E,
  out R,
  in out Full,
  in out FullUpdate
> {
  /** The cluster's entity, for tools. */
  readonly entity: Entity.Any
  /** The hosting side: registers the graph's threads with this runner. */
  readonly layer: Layer.Layer<never, never, R | Checkpointer | Sharding>
  /** A handle like `graph.thread(id)`, whose runs happen on the runner that hosts the thread. */
  readonly thread: (id: string) => Thread.Thread<State, Update, N, Ev, E, Sharding, Full, FullUpdate, Sharding>
}

/**
 * Makes the threads of a graph entities of a cluster.
 *
 * @example
 * import { SingleRunner } from "@effect/cluster"
 * import { Effect, Layer, Schema } from "effect"
 * import { Channel, Graph } from "effect-pregel"
 * import * as GraphEntity from "effect-pregel/GraphEntity"
 *
 * const counter = Graph.make("counter", { count: Channel.lastValue(Schema.Number) })
 *   .addNode("add", ({ count = 0 }) => Effect.succeed({ count: count + 1 }))
 *   .addEdge(Graph.START, "add")
 *   .compile()
 *
 * const hosted = GraphEntity.make(counter)
 * const one = hosted.thread("thread-1").invoke({ count: 0 })
 * const runner = hosted.layer.pipe(Layer.provideMerge(SingleRunner.layer()))
 */
export const make = <State, Update, N extends Nodes, Ev, E, R, Full, FullUpdate, E1 extends E = never>(
  graph: CompiledGraph<State, Update, N, Ev, E, R, Full, FullUpdate>,
  options: Options<E1> = {}
): Hosted<State, Update, N, Ev, E, R, Full, FullUpdate> => {
  const Failure: Schema.Schema<any, any> =
    options.error === undefined ? Protocol.RunFailure : Schema.Union(Protocol.RunFailure, options.error)
  const entity = Protocol.make(graph.name, Failure)
  const layer = entity.toLayer(handlers(graph.topology, graph.options, entity, Failure, options), {
    // Calls of a thread run one after the other; what reads it is forked by its handler.
    concurrency: 1,
    // A defect is the answer to its call: it must not restart the entity and be delivered for ever.
    disableFatalDefects: true,
    maxIdleTime: options.maxIdleTime
  })
  return { entity, layer, thread: (id: string) => remoteThread(graph.topology, entity, id, undefined) } as never
}

type ThreadEntity = ReturnType<typeof Protocol.make<any>>

type Item = { readonly runId: string; readonly event: unknown } | { readonly runId: string; readonly ended: true }

const handlers = (
  topology: Topology,
  defaults: CompiledGraph<any, any, any, any, any, any>["options"],
  entity: ThreadEntity,
  Failure: Schema.Schema<any, any>,
  options: Options<any>
) =>
  Effect.gen(function* () {
    const { entityId: id } = yield* Entity.CurrentAddress
    const context = yield* Effect.context<any>()
    const checkpointer = yield* Checkpointer
    const fence = yield* Effect.orDie(checkpointer.takeFence(id))
    const makeClient = yield* entity.client
    const epoch = `${fence}.${yield* Clock.currentTimeMillis}`
    const log = EventLog.make<Item>(epoch, options.eventBuffer ?? 1024)
    const isFailure = Schema.is(Failure)

    /** Failures of the protocol are answers; everything else is a defect. A fenced runner does not answer. */
    const answering = <A>(effect: Effect.Effect<A, unknown, any>): Effect.Effect<A, any> =>
      effect.pipe(
        Effect.catchAllCause((cause) => {
          const failure = Option.getOrUndefined(Cause.failureOption(cause))
          if (failure === undefined) return Effect.failCause(cause as Cause.Cause<never>)
          if (isConflict(failure)) return Effect.zipRight(fenced(failure), Effect.fail(failure))
          return isFailure(failure) ? Effect.fail(failure) : Effect.die(failure)
        }),
        Effect.provide(context as Context.Context<any>)
      )

    const fenced = (conflict: ThreadConflict) =>
      Effect.zipRight(
        Effect.logWarning(`thread "${id}" was taken over; waiting to be stopped`, conflict),
        Effect.sleep(options.fencedFor ?? "1 minute")
      )

    const sleepers = (outcome: Outcome) =>
      Effect.forEach(outcome._tag === "Paused" ? outcome.interrupts : [], (pending) => {
        const until = Timer.dueAt(pending)
        return until === undefined
          ? Effect.void
          : makeClient(id).wake(new Protocol.Wake({ id: pending.id, until }), { discard: true })
      })

    const serve = (runId: string, at: string | null, call: Call, runOptions: object) =>
      answering(
        Effect.gen(function* () {
          const merged = { ...defaults, ...runOptions, runId, fence }
          const outcome = yield* Thread.start(
            topology,
            merged,
            id,
            at ?? undefined,
            call,
            sinkTo(topology, log, runId)
          ).pipe(Effect.ensuring(Effect.sync(() => log.push({ runId, ended: true }))))
          yield* sleepers(outcome)
          const state = yield* refusing(Wire.encodeState(topology, outcome.state))
          return outcome._tag === "Completed" ? { _tag: outcome._tag, state } : { ...outcome, state }
        })
      )

    const handle = (at: string | null) => {
      const thread = Thread.make(topology, { ...defaults, fence }, id)
      return at === null ? thread : thread.at(at)
    }

    return entity.of({
      invoke: ({ payload: { at, input, options, runId } }) =>
        Effect.flatMap(answering(refusing(callOf(topology, input))), (call) => serve(runId, at, call, options)),
      resume: ({ payload: { answer, at, command, options, runId } }) =>
        Effect.flatMap(answering(refusing(resumeOf(topology, answer, command))), (call) =>
          serve(runId, at, call, options)
        ),
      update: ({ payload: { as, at, runId, update } }) =>
        answering(
          Effect.gen(function* () {
            const { checkpoint, metadata } = yield* handle(at).state
            if (checkpoint !== undefined && metadata.run_id === runId) return checkpoint.id
            const decoded = update === null ? null : yield* refusing(Wire.decodeUpdate(topology, update))
            const thread = Thread.make(topology, { ...defaults, fence, runId }, id)
            return yield* (at === null ? thread : thread.at(at)).update(decoded, { as: (as ?? undefined) as never })
          })
        ),
      wake: ({ payload }) =>
        Effect.gen(function* () {
          const { interrupts } = yield* answering(handle(null).state)
          if (!interrupts.some((pending) => pending.id === payload.id)) return
          const answer = { _tag: "ById" as const, values: { [payload.id]: null } }
          yield* serve(`wake:${payload.id}`, null, { _tag: "Resume", answer, command: undefined }, {})
        }),
      state: ({ payload: { at } }) =>
        Rpc.fork(
          answering(Effect.flatMap(handle(at).state, (snapshot) => refusing(Wire.encodeSnapshot(topology, snapshot))))
        ),
      history: ({ payload }) =>
        Rpc.fork(
          handle(null)
            .history(payload)
            .pipe(
              Stream.mapEffect((snapshot) => refusing(Wire.encodeSnapshot(topology, snapshot))),
              Stream.provideContext(context as Context.Context<any>)
            )
        ),
      cancel: () => Rpc.fork(answering(handle(null).cancel)),
      delete: () => answering(Effect.zipRight(handle(null).cancel, handle(null).delete)),
      events: ({ payload: { after } }) => {
        const known = log.after(after ?? undefined)
        const state = answering(Effect.flatMap(handle(null).state, (s) => refusing(Wire.encodeSnapshot(topology, s))))
        const start: Stream.Stream<Protocol.Notice, any> =
          known === undefined
            ? Stream.fromEffect(Effect.map(state, (snapshot) => ({ _tag: "State", id: log.last(), snapshot }) as const))
            : Stream.succeed({ _tag: "Subscribed", id: after ?? log.last() } as const)
        return Rpc.fork(Stream.concat(start, Stream.map(known ?? log.after(undefined)!, noticeOf)))
      }
    })
  })

const isConflict = (failure: unknown): failure is ThreadConflict =>
  typeof failure === "object" && failure !== null && "_tag" in failure && failure._tag === "ThreadConflict"

const noticeOf = ({ id, value }: EventLog.Entry<Item>): Protocol.Notice =>
  "ended" in value ? { _tag: "Ended", id, runId: value.runId } : { _tag: "Event", id, ...value }

/** Every event of a run goes to the log, encoded; one that can't be encoded is left out. */
const sinkTo = (topology: Topology, log: EventLog.EventLog<Item>, runId: string): Sink => ({
  values: true,
  updates: true,
  custom: true,
  tasks: true,
  checkpoints: true,
  subgraphs: true,
  offer: (events) =>
    Effect.sync(() => {
      for (const event of events) {
        const encoded = Wire.encodeEvent(topology, event)
        if (Either.isRight(encoded)) log.push({ runId, event: encoded.right })
      }
    })
})

const refusing = <A>(
  result: Either.Either<
    A,
    { readonly detail: string; readonly path: string; readonly reason: "InvalidValue" | "NotEncodable" }
  >
) =>
  Either.mapLeft(
    result,
    ({ detail, path, reason }) => new InvalidUpdate({ reason, path, channel: path.split(".")[0], detail })
  )

type InputJson = typeof Protocol.Input.Type

const callOf = (topology: Topology, input: InputJson) => {
  if (input._tag === "Input") {
    return Either.map(Wire.decodeUpdate(topology, input.value), (value): Call => ({ _tag: "Input", value }))
  }
  return Either.map(commandOf(topology, input.command), (command): Call => ({ _tag: "Command", command }))
}

const commandOf = (topology: Topology, json: { readonly update: unknown; readonly goto: ReadonlyArray<string> }) => {
  const update =
    json.update === undefined || json.update === null
      ? Either.right(undefined)
      : Wire.decodeUpdate(topology, json.update)
  return Either.map(update, (update) => command({ update, goto: json.goto }))
}

const resumeOf = (
  topology: Topology,
  answer: Extract<Call, { _tag: "Resume" }>["answer"] | null,
  json: { readonly update: unknown; readonly goto: ReadonlyArray<string> } | null
) =>
  Either.map(
    json === null ? Either.right(undefined) : commandOf(topology, json),
    (command): Call => ({ _tag: "Resume", answer: answer ?? undefined, command })
  )
