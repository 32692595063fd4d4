/**
 * A handle on a thread: everything durable hangs off it.
 *
 * A handle holds no state of its own; two handles of one id are the same thread. `at(id)` is the same handle on an old
 * checkpoint: what runs or is updated there becomes a fork.
 */
import * as Chunk from "effect/Chunk"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { type Branch, type Links, treeOf } from "./Branches.js"
import type { Address } from "./Checkpoint.js"
import { Checkpointer, type ListOptions, type Loaded } from "./Checkpointer.js"
import { type Command, make as command } from "./Command.js"
import type {
  CommandInput,
  CompiledGraph,
  Nodes,
  Outcome,
  RunOptions,
  StreamOptions,
  WithoutPause
} from "./CompiledGraph.js"
import * as Delivery from "./Delivery.js"
import type * as Errors from "./GraphError.js"
import { EmptyInput, type GraphInterrupt, UnknownCheckpoint } from "./GraphError.js"
import type * as GraphEvent from "./GraphEvent.js"
import * as Interrupt from "./Interrupt.js"
import { type Answers, answer, answers, answerTo, encodeAnswer } from "./internal/answers.js"
import * as Busy from "./internal/busy.js"
import { type Answer, type Call, callOf, type Request } from "./Load.js"
import type { Outcome as LoopOutcome } from "./Loop.js"
import type { Run, Sink } from "./Run.js"
import * as Runs from "./Runs.js"
import * as Snapshot from "./Snapshot.js"
import type { Topology } from "./Topology.js"
import * as Updates from "./Update.js"

export { type Answers, answer, answers, answerTo } from "./internal/answers.js"
export type { StateSnapshot, TaskSnapshot } from "./Snapshot.js"

/**
 * What to do when a run of the thread is in progress in this process, or on the runner that hosts the thread:
 *
 * - `"reject"`: fail with `ThreadBusy`
 * - `"enqueue"`: wait for its end
 * - `"interrupt"`: stop it, and start from its last checkpoint
 * - `"rollback"`: stop it, and start from where it had started
 *
 * A run that is stopped so fails with `RunCancelled`.
 */
export type Multitask = Busy.Multitask

/** Options of a run on a thread. */
export interface ThreadRunOptions<N extends string = string> extends RunOptions<N> {
  /** Default `"reject"`: fail with `ThreadBusy`. */
  readonly multitask?: Multitask | undefined
}

/** Options of a resume: the state can be changed and the run sent elsewhere together with the answer. */
export interface ResumeOptions<N extends string, U> extends ThreadRunOptions<N> {
  /** Applied before anything runs, and once. */
  readonly update?: U | undefined
  /** Nodes that run besides those that are left. */
  readonly goto?: N | ReadonlyArray<N> | undefined
}

/** Options of `update`. */
export interface UpdateOptions<N extends string> {
  /**
   * The node that the update counts as. Default: the only node, else the one that ran last; where several ran last the
   * update fails with `AmbiguousUpdate`. On an empty thread of several nodes it counts as the input. `END` with a
   * `null` update clears what is pending; `"__input__"` takes the update as a run's input that nothing has run on yet.
   */
  readonly as?: N | "__start__" | "__end__" | "__input__" | undefined
}

/** One of the updates of a superstep; `as` may be left out where it is the only one. */
export interface UpdateItem<N extends string, U> extends UpdateOptions<N> {
  readonly update: U
}

/** Where a subgraph of a task has its checkpoints. */
export type SubgraphPlace = Snapshot.SubgraphPlace

/** The saved state of a subgraph: read and changed like a thread's; it runs with the thread. */
export interface Subgraph<out State, in out Full, in FullUpdate, out E, out R, out Host> {
  readonly state: Effect.Effect<Snapshot.StateSnapshot<Full>, ReadError, Host>
  readonly history: (options?: ListOptions) => Stream.Stream<Snapshot.StateSnapshot<Full>, ReadError, Host>
  /** Like `Thread.update`. Questions that the subgraph had asked are withdrawn: it runs again on the next resume. */
  readonly update: (
    update: FullUpdate | null,
    options?: UpdateOptions<string>
  ) => Effect.Effect<string, Failures<never> | Errors.AmbiguousUpdate, R>
  readonly at: (checkpoint: string) => Subgraph<State, Full, FullUpdate, E, R, Host>
  /**
   * Runs the thread again from where the subgraph is at this handle's checkpoint: the graphs around it fork at the
   * checkpoints that it belongs to, and it forks at this one. Only for subgraphs that remember (`persistence: "thread"`);
   * others start anew in a fork.
   */
  readonly resumeThread: (options?: ThreadRunOptions) => Effect.Effect<State, Failures<E> | GraphInterrupt, R>
  readonly subgraphs: Effect.Effect<ReadonlyArray<SubgraphPlace>, ReadError, Host>
}

type ReadError = Errors.StorageError | Errors.GraphMismatch | Errors.UnknownCheckpoint

type Failures<E> = WithoutPause<E | Errors.RunError> | Errors.ThreadError

/** A thread of a graph. */
export interface Thread<
  out State,
  in Update,
  in N extends Nodes,
  in out Ev,
  out E,
  out R,
  in out Full = State,
  in out FullUpdate = Update,
  out Host = Checkpointer
> {
  readonly id: string

  /** Runs with a new input; fails with `GraphInterrupt` when it pauses. */
  readonly invoke: (
    input: Update | CommandInput<N, FullUpdate, Full>,
    options?: ThreadRunOptions<N["name"]>
  ) => Effect.Effect<State, Failures<E> | GraphInterrupt, R>

  /** Like `invoke`, with a pause as a value. */
  readonly run: (
    input: Update | CommandInput<N, FullUpdate, Full>,
    options?: ThreadRunOptions<N["name"]>
  ) => Effect.Effect<Outcome<State>, Failures<E>, R>

  /** Runs with a new input and tells what happens. */
  readonly stream: <const M extends GraphEvent.Mode = "updates", const Sub extends boolean = false>(
    input: Update | CommandInput<N, FullUpdate, Full>,
    options?: StreamOptions<M, N["name"], Sub> & ThreadRunOptions<N["name"]>
  ) => Stream.Stream<GraphEvent.In<Sub, M, State, FullUpdate, Ev, Full>, Failures<E>, R>

  /**
   * Goes on with the saved run: after a pause with its answer (typed) or with answers by interrupt id; after a crash, a
   * failure or a breakpoint without an answer.
   */
  readonly resume: {
    (options?: ResumeOptions<N["name"], FullUpdate>): Effect.Effect<State, Failures<E> | GraphInterrupt, R>
    (
      answers: Answers,
      options?: ResumeOptions<N["name"], FullUpdate>
    ): Effect.Effect<State, Failures<E> | GraphInterrupt, R>
    <I extends Interrupt.Any>(
      interrupt: I,
      answer: Interrupt.Answer<I>,
      options?: ResumeOptions<N["name"], FullUpdate> & {
        /** The pause that the answer is for, where several of the interrupt wait. */
        readonly id?: string | undefined
      }
    ): Effect.Effect<State, Failures<E> | GraphInterrupt, R>
  }

  /** Answers the only pause that waits, whatever it is; several fail with `AmbiguousResume`. */
  readonly answer: (
    value: unknown,
    options?: ResumeOptions<N["name"], FullUpdate>
  ) => Effect.Effect<State, Failures<E> | GraphInterrupt, R>

  /** Like `resume` and `answer`, and tells what happens. */
  readonly resumeStream: <const M extends GraphEvent.Mode = "updates", const Sub extends boolean = false>(
    resume: Resume | undefined,
    options?: StreamOptions<M, N["name"], Sub> & ResumeOptions<N["name"], FullUpdate>
  ) => Stream.Stream<GraphEvent.In<Sub, M, State, FullUpdate, Ev, Full>, Failures<E>, R>

  /** The thread's newest checkpoint, or the one this handle is at. */
  readonly state: Effect.Effect<
    Snapshot.StateSnapshot<Full>,
    Errors.StorageError | Errors.GraphMismatch | Errors.UnknownCheckpoint,
    Host
  >

  /** Checkpoints, newest first, of all branches. */
  readonly history: (
    options?: ListOptions
  ) => Stream.Stream<
    Snapshot.StateSnapshot<Full>,
    Errors.StorageError | Errors.GraphMismatch | Errors.UnknownCheckpoint,
    Host
  >

  /** Writes to the state as if a node had returned the update; yields the new checkpoint's id. */
  readonly update: (
    update: FullUpdate | CommandInput<N, FullUpdate, Full> | null,
    options?: UpdateOptions<N["name"]>
  ) => Effect.Effect<string, Failures<E> | Errors.AmbiguousUpdate, R>

  /**
   * Applies supersteps of updates one after the other, each as one checkpoint: rebuilds what a run would have left.
   * Nothing is applied if any of them is malformed. Yields the last checkpoint's id.
   */
  readonly updateAll: (
    supersteps: ReadonlyArray<
      ReadonlyArray<UpdateItem<N["name"], FullUpdate | Update | CommandInput<N, FullUpdate, Full> | null>>
    >
  ) => Effect.Effect<string, Failures<E> | Errors.AmbiguousUpdate, R>

  /** Makes a sibling of the checkpoint: the same state, asked and run anew. Yields its id. */
  readonly copy: Effect.Effect<string, Failures<never>, R>

  /** All checkpoints as a tree of branches. */
  readonly branches: Effect.Effect<ReadonlyArray<Branch>, Errors.StorageError, Host>

  /** Copies everything saved of the thread to a new thread id, which must not be in use. */
  readonly copyTo: (thread: string) => Effect.Effect<void, Errors.CheckpointerError, Host>

  /** Where the subgraphs of the tasks that run next have their checkpoints. */
  readonly subgraphs: Effect.Effect<ReadonlyArray<SubgraphPlace>, ReadError, Host>

  /** The saved state of a subgraph; `namespace` is one that `subgraphs` yields. */
  readonly subgraph: <S, U, N1 extends Nodes, F, FU>(
    child: CompiledGraph<S, U, N1, any, any, any, F, FU>,
    namespace: string
  ) => Subgraph<State, F, FU, E, R, Host>

  /** The same thread at one of its checkpoints. */
  readonly at: (checkpoint: string) => Thread<State, Update, N, Ev, E, R, Full, FullUpdate, Host>

  /**
   * Stops the thread's runs in this process, or on the runner that hosts it: they fail with `RunCancelled`. Yields how
   * many there were.
   */
  readonly cancel: Effect.Effect<number, never, Host>

  /** Removes everything saved of the thread. */
  readonly delete: Effect.Effect<void, Errors.CheckpointerError, Host>
}

/** Answers to pauses, as a value for `resumeStream`. */
export type Resume = Answer

// ---------------------------------------------------------------------------------------------------------------------
// implementation
// ---------------------------------------------------------------------------------------------------------------------

type AnyThread = Thread<any, any, any, any, any, any, any, any, any>
type AnyOptions = Runs.StreamOptions & ResumeOptions<string, any>

interface Place {
  readonly checkpointer: Context.Tag.Service<Checkpointer>
  readonly address: Address
  readonly loaded: Loaded | undefined
}

/** Goes on with where a handle stands and what is saved there. */
const loadOf = <A, E, R>(
  { checkpoint, id, namespace }: ThreadImpl,
  use: (place: Place) => Effect.Effect<A, E, R>
): Effect.Effect<A, E | Errors.StorageError | UnknownCheckpoint, R | Checkpointer> =>
  Effect.flatMap(Checkpointer, (checkpointer) => {
    const address = { thread: id, namespace }
    const go = (loaded: Loaded | undefined): Effect.Effect<A, E | UnknownCheckpoint, R> =>
      loaded === undefined && (checkpoint !== undefined || namespace !== "")
        ? new UnknownCheckpoint({ thread: id, checkpoint: checkpoint ?? namespace })
        : use({ checkpointer, address, loaded })
    return Effect.flatMap(checkpointer.load(address, checkpoint), go)
  })

/** A handle is made for each call, so what it offers is made when it is asked for. */
class ThreadImpl {
  constructor(
    readonly topology: Topology,
    readonly defaults: Runs.Options,
    readonly id: string,
    readonly checkpoint: string | undefined,
    /** Of a subgraph; `""` for the thread's own graph. */
    readonly namespace = "",
    /** Of a subgraph: the thread's own graph, which runs it. */
    readonly root?: ThreadImpl,
    /** Checkpoints that subgraphs go back to, by namespace. */
    readonly pins?: ReadonlyMap<string, string>
  ) {}

  start(call: Call, options: AnyOptions, sink?: Sink) {
    const merged = Runs.merge(this.defaults, options)
    return Effect.flatMap(Checkpointer, (checkpointer) =>
      Busy.exclusive(checkpointer, this.id, merged.multitask ?? "reject", (holder, base) => {
        const onOpen = (run: Run) => {
          Busy.opened(holder, run.loadedSeq === 0 ? null : run.checkpointId, (error) => run.cancel(error))
        }
        // An id that is missing is refused as any that is no text: such a run would not be saved.
        const target = { call, thread: this.id ?? NO_ID, checkpointer, onOpen }
        const { checkpoint: at, pins } = this
        // Only a run from an old checkpoint can have forked before.
        if (at === undefined) return Runs.start(this.topology, merged, { at: base, ...target }, sink)
        return Effect.flatMap(Delivery.startOf(checkpointer, this.id, merged, call, { at, pins }), (start) =>
          Runs.start(this.topology, merged, { ...target, ...start }, sink)
        )
      })
    )
  }

  readonly run = (input: any, options: AnyOptions = {}): Effect.Effect<any, any, any> =>
    this.start(callOf(input), options)

  readonly invoke = (input: any, options: AnyOptions = {}): Effect.Effect<any, any, any> =>
    Effect.flatMap(this.run(input, options), Runs.orInterrupt(this.topology, this.id))

  readonly stream = (input: any, options: AnyOptions = {}) =>
    Runs.streamOf(options, (sink) => this.start(callOf(input), options, sink))

  private go(resume: Answer | undefined, options: AnyOptions, sink?: Sink) {
    return Effect.flatMap(encodeAnswer(resume), (answer) =>
      this.start({ _tag: "Resume", answer, command: commandOf(options) }, options, sink)
    )
  }

  readonly resume = (first?: any, second?: any, third?: any): Effect.Effect<any, any, any> => {
    const [resume, options] = resumeArguments(first, second, third)
    return Effect.flatMap(this.go(resume, options), Runs.orInterrupt(this.topology, this.id))
  }

  readonly answer = (value: unknown, options: AnyOptions = {}): Effect.Effect<any, any, any> =>
    Effect.flatMap(this.go(answer(value), options), Runs.orInterrupt(this.topology, this.id))

  readonly resumeStream = (resume: Answer | undefined, options: AnyOptions = {}) =>
    Runs.streamOf(options, (sink) => this.go(resume, options, sink))

  private request(
    checkpointer: Context.Tag.Service<Checkpointer>,
    at: string | undefined,
    loaded?: Loaded | undefined
  ): Request {
    const { namespace } = this
    return {
      ...Runs.requestOf(this.topology, this.defaults, { call: GO_ON, thread: this.id, checkpointer, at }),
      namespace,
      path: namespace === "" ? [] : namespace.split("|"),
      parents: loaded?.checkpoint.parents ?? {},
      saves: true
    }
  }

  get state() {
    return Effect.flatMap(Effect.runtime<any>(), (runtime) =>
      loadOf(this, ({ address, checkpointer, loaded }) => {
        if (loaded === undefined) return Effect.succeed(Snapshot.empty(this.topology))
        const isHead = loaded.head === loaded.checkpoint.seq
        const request = this.request(checkpointer, this.checkpoint)
        if (isHead) return Snapshot.make(request, loaded, { runtime, applyFinished: this.checkpoint === undefined })
        return Effect.flatMap(childOf(checkpointer, address, loaded), (child) =>
          Snapshot.make(request, loaded, { runtime, child, applyFinished: false })
        )
      })
    )
  }

  readonly history = (options: ListOptions = {}): Stream.Stream<any, any, any> =>
    Stream.unwrap(
      Effect.zipWith(Checkpointer, Effect.runtime<any>(), (checkpointer, runtime) => {
        const request = this.request(checkpointer, undefined)
        const children = new Map<number, Snapshot.Results>()
        const snapshotOf = (loaded: Loaded) => {
          const { parent, results, seq } = loaded.checkpoint
          if (parent !== undefined && results.length > 0) children.set(parent.seq, loaded.checkpoint)
          const child = children.get(seq)
          children.delete(seq)
          return Snapshot.make(request, loaded, { runtime, child, applyFinished: false })
        }
        const saved = checkpointer.list({ thread: this.id, namespace: this.namespace }, options)
        return Stream.flatMap(Stream.chunks(saved), (chunk) => untilLeft(chunk, snapshotOf))
      })
    )

  readonly update = (update: any, options: UpdateOptions<string> = {}): Effect.Effect<string, any, any> =>
    this.updateAll([[{ update, as: options.as }]])

  readonly updateAll = (supersteps: ReadonlyArray<ReadonlyArray<Updates.Update>>): Effect.Effect<string, any, any> =>
    this.changing(({ address, checkpointer, loaded }) =>
      Effect.gen(this, function* () {
        const problem = Updates.problemOf(this.request(checkpointer, undefined, loaded), supersteps)
        if (problem !== undefined) return yield* problem
        const done = yield* Delivery.applied(checkpointer, address, this.defaults, supersteps.length)
        let at = done[0]?.id ?? this.checkpoint
        for (const [i, updates] of supersteps.slice(done.length).entries()) {
          const from: Loaded | undefined = i === 0 && done.length === 0 ? loaded : yield* checkpointer.load(address, at)
          at = yield* Updates.apply(this.request(checkpointer, at, from), from, updates)
        }
        if (this.namespace !== "" && loaded !== undefined) {
          yield* Updates.withdraw(this.request(checkpointer, at, loaded), checkpointer, loaded, at!)
        }
        return at!
      })
    )

  get links() {
    return Effect.flatMap(Checkpointer, ({ list }) =>
      list({ thread: this.id, namespace: "" }).pipe(
        Stream.map(({ checkpoint }) => checkpoint),
        Stream.runCollect,
        Effect.map(Chunk.toReadonlyArray)
      )
    )
  }

  get branches() {
    return Effect.map(this.links, treeOf)
  }

  readonly copyTo = (thread: string) =>
    Effect.flatMap(Checkpointer, (storage) => Busy.copying(storage, thread, storage.copyThread(this.id, thread)))

  get copy() {
    return Effect.suspend(() =>
      this.changing(({ address, checkpointer, loaded }) => {
        const { name } = this.topology.identity
        if (loaded === undefined) {
          return new EmptyInput({ graph: name, thread: this.id, detail: "there is no checkpoint to copy" })
        }
        return Effect.flatMap(Delivery.applied(checkpointer, address, this.defaults, 1), ([done]) =>
          done === undefined
            ? Updates.copy(this.request(checkpointer, this.checkpoint, loaded), checkpointer, loaded)
            : Effect.succeed(done.id)
        )
      })
    )
  }

  /** Loads the checkpoint and changes the thread, while nobody else does. */
  private changing(change: (place: Place) => Effect.Effect<string, any, any>): Effect.Effect<string, any, any> {
    return Effect.flatMap(Checkpointer, (checkpointer) =>
      Busy.exclusive(checkpointer, this.id, "reject", () => loadOf(this, change))
    )
  }

  get subgraphs() {
    return Effect.suspend(() =>
      loadOf(this, ({ checkpointer, loaded }) =>
        loaded === undefined
          ? Effect.succeed([])
          : Effect.zipWith(this.state, checkpointer.namespaces(this.id), ({ tasks }, namespaces) =>
              Snapshot.subgraphsOf(this.namespace, loaded.checkpoint.id, tasks, namespaces)
            )
      )
    )
  }

  readonly subgraph = (child: { readonly topology: Topology }, namespace: string) => {
    const { fence, runId } = this.defaults
    const defaults = fence === undefined ? {} : { fence, runId }
    return new ThreadImpl(child.topology, defaults, this.id, undefined, namespace, this.root ?? this)
  }

  /** The thread from where its subgraph is at this handle's checkpoint. */
  readonly whole: Effect.Effect<ThreadImpl, any, any> = Effect.suspend(() => {
    if (this.root === undefined) return Effect.succeed(this)
    const { topology, defaults, id } = this.root
    return loadOf(this, ({ loaded }) => {
      const { "": at, ...around } = loaded!.checkpoint.parents
      const pins = new Map([...Object.entries(around), [this.namespace, loaded!.checkpoint.id]])
      return Effect.succeed(new ThreadImpl(topology, defaults, id, at, "", undefined, pins))
    })
  })

  readonly resumeThread = (options: AnyOptions = {}): Effect.Effect<any, any, any> =>
    Effect.flatMap(this.whole, (thread) => thread.resume(options))

  readonly at = (checkpoint: string) =>
    new ThreadImpl(this.topology, this.defaults, this.id, checkpoint, this.namespace, this.root) as unknown as AnyThread

  get cancel() {
    return Effect.map(Checkpointer, (checkpointer) => Busy.cancel(checkpointer, this.id))
  }

  get delete() {
    return Effect.flatMap(Checkpointer, (checkpointer) => checkpointer.deleteThread(this.id))
  }
}

const NO_ID = null as unknown as string

const GO_ON: Call = { _tag: "Resume", answer: undefined, command: undefined }

const commandOf = (options: AnyOptions): Command | undefined =>
  options.update === undefined && options.goto === undefined
    ? undefined
    : (command({ update: options.update, goto: options.goto }) as Command)

const isOptions = (value: Record<string, unknown>) => Object.keys(value).every((key) => Object.hasOwn(OPTIONS, key))

/** Every option of a resume: an object with other keys holds answers. */
const OPTIONS: Readonly<Record<keyof ResumeOptions<string, unknown>, true>> = {
  recursionLimit: true,
  stepTimeout: true,
  freeze: true,
  concurrency: true,
  durability: true,
  interruptBefore: true,
  interruptAfter: true,
  metadata: true,
  runId: true,
  persistence: true,
  key: true,
  control: true,
  multitask: true,
  update: true,
  goto: true
}

/** Tells the forms of `resume` apart. @internal */
export const resumeArguments = (first: any, second: any, third: any): readonly [Answer | undefined, AnyOptions] => {
  if (first === undefined) return [undefined, second ?? {}]
  if (Interrupt.isInterrupt(first)) {
    const { id, ...options } = third ?? {}
    return [answerTo(first, second as never, id), options]
  }
  return isOptions(first) ? [undefined, { ...first, ...second }] : [answers(first), second ?? {}]
}

/** Emits what `f` makes of a chunk's elements, up to the first failure. */
const untilLeft = <A, B, E>(chunk: Chunk.Chunk<A>, f: (a: A) => Either.Either<B, E>): Stream.Stream<B, E> => {
  const made: Array<B> = []
  for (const a of chunk) {
    const b = f(a)
    if (Either.isLeft(b)) return Stream.concat(Stream.fromIterable(made), Stream.fail(b.left))
    made.push(b.right)
  }
  return Stream.fromChunk(Chunk.unsafeFromArray(made))
}

/** Results that were saved with the checkpoint's first child. */
const childOf = (checkpointer: Context.Tag.Service<Checkpointer>, address: Address, loaded: Loaded) =>
  checkpointer.list(address).pipe(
    Stream.takeWhile((one) => one.checkpoint.seq > loaded.checkpoint.seq),
    Stream.filter((one) => one.checkpoint.parent?.seq === loaded.checkpoint.seq && one.checkpoint.results.length > 0),
    Stream.runLast,
    Effect.map(Option.match({ onNone: () => undefined, onSome: (one) => one.checkpoint }))
  )

/** Any handle on a thread or on a subgraph of it, for hosts. @internal */
export interface Handle extends AnyThread, Pick<Subgraph<any, any, any, any, any, any>, "resumeThread"> {
  readonly topology: Topology
  /** What the tree of branches is made of. */
  readonly links: Effect.Effect<ReadonlyArray<Links>, Errors.StorageError, Checkpointer>
  readonly subgraph: (child: { readonly topology: Topology }, namespace: string) => Handle
  readonly at: (checkpoint: string) => Handle
}

/** Starts a run of a thread, from where a handle stands, from a call as data, for hosts. @internal */
export const start = (handle: Handle, call: Call, sink?: Sink): Effect.Effect<LoopOutcome, unknown, any> =>
  Effect.flatMap((handle as unknown as ThreadImpl).whole, (thread) => thread.start(call, {}, sink))

/** A handle on a thread of a graph, for hosts. @internal */
export const handle = (topology: Topology, defaults: HostedOptions, id: string): Handle =>
  new ThreadImpl(topology, defaults, id, undefined) as unknown as Handle

/** What a host says of a call. @internal */
export interface HostedOptions extends Runs.Options, Pick<ThreadRunOptions, "multitask"> {}

/** A handle on a thread of a graph. */
export const make = (topology: Topology, defaults: Runs.Options, id: string): AnyThread =>
  handle(topology, defaults, id)
