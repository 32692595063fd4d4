/**
 * From a saved checkpoint to a run that stands where it was saved (`semantics.md` 3.2).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as Runtime from "effect/Runtime"
import * as Stream from "effect/Stream"
import { Algo, type Seen, type TaskPlan, type TaskWrites, type Write } from "./Algo.js"
import type { Snapshot } from "./Channels.js"
import { CHANNEL_VERSIONS, type Checkpoint, type Json, type PendingWrite, RESULT, RESUME } from "./Checkpoint.js"
import type { Loaded } from "./Checkpointer.js"
import * as Codec from "./Codec.js"
import { type Command, isCommand } from "./Command.js"
import { CheckpointDecodeError, GraphMismatch, type InvalidUpdate, UnknownCheckpoint } from "./GraphError.js"
import { Journal, Mirror } from "./Journal.js"
import { Persistence } from "./Persistence.js"
import { Run, type SavedTask, type Tree } from "./Run.js"
import type { WriteError } from "./SaveQueue.js"
import type { Send } from "./Send.js"
import { handlerPlan, savedKey } from "./TaskState.js"
import type { Topology } from "./Topology.js"

/** An answer that a call brings: for the only pause, for the pauses of a typed interrupt, or by id. */
export type Answer =
  | { readonly _tag: "Bare"; readonly value: Json }
  | { readonly _tag: "Named"; readonly name: string; readonly id?: string | undefined; readonly value: Json }
  | { readonly _tag: "ById"; readonly values: Readonly<Record<string, Json>> }

/** What a call brings. */
export type Call =
  | { readonly _tag: "Input"; readonly value: Record<string, unknown> }
  | { readonly _tag: "Command"; readonly command: Command }
  | { readonly _tag: "Resume"; readonly answer: Answer | undefined; readonly command: Command | undefined }

/** What an input of a graph stands for. */
export const callOf = (input: unknown): Call =>
  isCommand(input) ? { _tag: "Command", command: input } : { _tag: "Input", value: input as Record<string, unknown> }

/** A run to be begun. */
export interface Request {
  readonly topology: Topology
  readonly tree: Tree
  readonly namespace: string
  readonly path: ReadonlyArray<string>
  readonly parents: Readonly<Record<string, string>>
  /** False for a run that saves nothing. */
  readonly saves: boolean
  /** The checkpoint to start from; the head by default, `null` for a fork that starts from nothing. */
  readonly at: string | undefined | null
  /** Told when the run is loaded. */
  readonly onOpen?: ((run: Run) => void) | undefined
  readonly call: Call
  /** False where nothing can be saved yet, so that no load is needed. */
  readonly mayBeSaved: boolean
  /** The checkpoint to start from, where it is loaded already. */
  readonly loaded?: Loaded | undefined
  /** The run whose task this run is part of. */
  readonly within?: Run | undefined
  /** The tasks that lead to it. */
  readonly place?: Run["place"] | undefined
  /** Whether a saved checkpoint lies on the branch of the thread that is run; older ones are looked at until one does. */
  readonly belongs?: ((loaded: Loaded) => boolean) | undefined
  /** Whether an input is ignored because the saved run is the same one: a nested run goes on when its task is replayed. */
  readonly continues: (loaded: Loaded) => boolean
}

/** What a run starts from. */
interface Start {
  readonly loaded: Loaded | undefined
  readonly head: number
}

type LoadError = CheckpointDecodeError | UnknownCheckpoint | WriteError

/** Reads the checkpoint that a run starts from, unless there is none to be read. */
const load = (request: Request): Effect.Effect<Start, LoadError> => {
  const { checkpointer, saves, thread } = request.tree
  if (request.loaded !== undefined) return Effect.succeed({ loaded: request.loaded, head: request.loaded.head })
  if (!request.saves || !request.mayBeSaved || checkpointer === undefined || thread === undefined) return NOTHING
  const address = { thread, namespace: request.namespace }
  const read = Effect.flatMap(
    checkpointer.load(address, request.at ?? undefined),
    (loaded): Effect.Effect<Start, LoadError> => {
      if (request.at === null) return Effect.succeed({ loaded: undefined, head: loaded?.head ?? 0 })
      if (loaded === undefined && request.at !== undefined) {
        return new UnknownCheckpoint({ thread, checkpoint: request.at })
      }
      if (loaded === undefined || request.belongs === undefined || request.belongs(loaded)) {
        return Effect.succeed({ loaded, head: loaded?.head ?? 0 })
      }
      const older = checkpointer.list(address).pipe(Stream.filter(request.belongs))
      return Effect.map(Stream.runHead(older), (found) => ({ loaded: Option.getOrUndefined(found), head: loaded.head }))
    }
  )
  return request.namespace === "" ? read : Effect.zipRight(saves!.release(request.namespace), read)
}

const NOTHING = Effect.succeed<Start>({ loaded: undefined, head: 0 })

/** Names that saved channels and nodes may have had before. */
const currentId = (topology: Topology, name: string): number | undefined =>
  topology.channelIds.get(name) ?? topology.renamed.get(name)

const decodeChannels = (
  request: Request,
  checkpoint: Checkpoint
): Either.Either<ReadonlyArray<Snapshot>, CheckpointDecodeError | GraphMismatch> => {
  const { topology } = request
  const thread = request.tree.thread!
  const versions = versionsOf(checkpoint)
  const snapshots: Array<Snapshot> = []
  for (const { name, value, version } of checkpoint.channels) {
    const id = currentId(topology, name)
    if (id !== undefined && topology.channels[id]!.name !== name && isSaved(checkpoint, topology.channels[id]!.name))
      continue
    if (id === undefined) {
      const node = topology.waitsFor(name)
      if (node === undefined) continue
      return Either.left(mismatch(request, checkpoint, waitsForGone(node)))
    }
    const saved = Codec.versionOf(versions, name)
    const current = topology.channels[id]!.channel.definition.version ?? 1
    if (saved > current) {
      const detail = `channel "${name}" was saved by version ${saved} of it, the graph has version ${current}`
      return Either.left(mismatch(request, checkpoint, detail))
    }
    const decoded = topology.channels[id]!.codec.decodeState(value, saved, versions)
    if (Either.isLeft(decoded)) {
      const { detail, path } = decoded.left
      return Either.left(
        new CheckpointDecodeError({
          thread,
          namespace: request.namespace,
          checkpoint: checkpoint.id,
          channel: name,
          detail: path === "" ? detail : `${detail} (at ${path})`
        })
      )
    }
    snapshots.push({ id, version, value: decoded.right })
    const lost = id === topology.sends ? lostTarget(topology, decoded.right as ReadonlyArray<Send>) : undefined
    if (lost !== undefined) return Either.left(mismatch(request, checkpoint, waitsForGone(lost)))
  }
  return Either.right(snapshots)
}

const isSaved = ({ channels }: Checkpoint, name: string): boolean => channels.some((channel) => channel.name === name)

const waitsForGone = (node: string) => `it waits for node "${node}", which the graph no longer has`

const lostTarget = (topology: Topology, sends: ReadonlyArray<Send>): string | undefined =>
  sends.find(({ node }) => !topology.nodeIds.has(node))?.node

/** Schema versions of the channels of a checkpoint; absent ones are the first. */
export const versionsOf = ({ metadata }: Pick<Checkpoint, "metadata">): Codec.Versions =>
  (metadata[CHANNEL_VERSIONS] ?? {}) as Codec.Versions

/**
 * Saves channels again with the next checkpoint that were loaded in an older form, as another kind or under a former
 * name, and what holds values of them.
 */
const saveMigrated = (run: Run, checkpoint: Checkpoint): void => {
  const { channelIds, channels, identity, sends, start, versions = {} } = run.topology
  if (checkpoint.graph.fingerprint === identity.fingerprint) return
  for (const { append, name } of checkpoint.channels) {
    const id = currentId(run.topology, name)
    if (id === undefined) continue
    if (!channelIds.has(name)) run.journal!.again(id, name)
    else if (channels[id]!.append !== append) run.journal!.again(id)
  }
  const saved = versionsOf(checkpoint)
  const stale = Object.keys(versions).filter((name) => Codec.versionOf(saved, name) < versions[name]!)
  if (stale.length === 0) return
  for (const id of [...stale.map((name) => channelIds.get(name)!), sends, start]) {
    if (run.channels.live.has(id)) run.journal!.again(id)
  }
}

export const mismatch = (request: Request, checkpoint: Checkpoint, detail: string) =>
  new GraphMismatch({
    thread: request.tree.thread!,
    graph: request.topology.identity.name,
    found: checkpoint.graph.name,
    detail
  })

const seenOf = (topology: Topology, checkpoint: Checkpoint): Seen => {
  const seen: Seen = new Map()
  for (const [nodeName, channelName, version] of checkpoint.seen) {
    const node = topology.nodeIds.get(topology.renamedNodes.get(nodeName) ?? nodeName)
    const channel = currentId(topology, channelName)
    if (node === undefined || channel === undefined) continue
    const known = seen.get(node) ?? new Map<number, number>()
    seen.set(node, known.set(channel, version))
  }
  return seen
}

/** Pending writes by task. */
export const savedTasks = (writes: ReadonlyArray<PendingWrite>): ReadonlyMap<string, SavedTask> => {
  const tasks = new Map<string, { rows: Array<PendingWrite> }>()
  for (const write of writes) {
    const task = tasks.get(write.task)
    if (task === undefined) tasks.set(write.task, { rows: [write] })
    else task.rows.push(write)
  }
  return tasks
}

/** The run of a request, standing where its checkpoint was saved; it saves nothing itself. */
export const restored = (
  request: Request,
  { head, loaded }: Start,
  runtime: Runtime.Runtime<any>
): Either.Either<Run, CheckpointDecodeError | GraphMismatch> => {
  const { namespace, parents, path, topology, tree } = request
  const checkpoint = loaded?.checkpoint
  if (checkpoint !== undefined && checkpoint.graph.name !== topology.identity.name) {
    const detail = `it belongs to graph "${checkpoint.graph.name}", not to "${topology.identity.name}"`
    return Either.left(mismatch(request, checkpoint, detail))
  }
  const algo = Context.get(runtime.context as Context.Context<never>, Algo) as Algo.Service
  const snapshots = checkpoint === undefined ? NO_SNAPSHOTS : decodeChannels(request, checkpoint)
  return Either.map(snapshots, (channels) => {
    const run = new Run(tree, topology, algo, runtime, namespace, path, parents, channels)
    run.root = request.within?.root ?? run
    run.place = request.place ?? run.place
    run.headAtLoad = head
    if (loaded !== undefined) adopt(run, loaded)
    return run
  })
}

const NO_SNAPSHOTS = Either.right<ReadonlyArray<Snapshot>>([])

/** Makes the run that a request asks for, as it was saved. */
export const open = Effect.fnUntraced(function* (request: Request, runtime: Runtime.Runtime<any>) {
  const { tree } = request
  const found = yield* load(request)
  const run = yield* restored(request, found, runtime)
  request.onOpen?.(run)
  const { head, loaded } = found
  const checkpoint = loaded?.checkpoint
  if (request.saves && tree.checkpointer !== undefined && tree.thread !== undefined) {
    run.persistence = new Persistence(
      run,
      tree.checkpointer,
      { thread: tree.thread, namespace: request.namespace },
      (run.journal = new Journal(run.channels)),
      new Mirror(checkpoint?.channels ?? []),
      yield* Effect.clock,
      {
        head,
        parent: checkpoint && { seq: checkpoint.seq, id: checkpoint.id },
        grandparent: checkpoint?.parent,
        lineage: loaded?.lineage
      }
    )
    if (checkpoint !== undefined) saveMigrated(run, checkpoint)
  }
  return { run, loaded }
})

const adopt = (run: Run, { checkpoint, lineage, writes }: Loaded): void => {
  run.step = checkpoint.step + 1
  run.seq = checkpoint.seq
  run.created = checkpoint.created
  run.loadedSeq = checkpoint.seq
  run.lineageAtLoad = lineage
  run.resumedAt = checkpoint.resumedAt
  run.ran = checkpoint.ran.map((name) => run.topology.renamedNodes.get(name) ?? name)
  run.seen = seenOf(run.topology, checkpoint)
  run.saved = savedTasks(writes)
  run.channels.version = Math.max(run.channels.version, checkpoint.version)
  for (const write of writes) {
    if (write.channel !== RESUME) continue
    const { id, value } = JSON.parse(write.value) as { id: string; value?: Json }
    run.tree.answers.set(id, { value })
  }
}

/** Plans the coming superstep. */
export const plan = (run: Run): void => {
  run.next = run.algo.prepareNextTasks(run.topology, run.channels, run.seen, run.updated)
}

/** The task that updates given with an answer are saved under. */
export const NULL_TASK = ""

type Decoded<A> = Either.Either<A, CheckpointDecodeError | GraphMismatch>

/** Applies updates that came with answers to the loaded checkpoint; they are kept beside it until the next one. */
export const applySaved = (run: Run): Either.Either<void, CheckpointDecodeError | GraphMismatch | InvalidUpdate> => {
  const rows = run.saved.get(NULL_TASK)?.rows
  if (rows === undefined) return Either.void
  return Either.gen(function* () {
    for (const row of rows) yield* applyNull(run, yield* decodeWrites(run, row.value))
  })
}

export const applyNull = (run: Run, writes: ReadonlyArray<Write>): Either.Either<void, InvalidUpdate> =>
  Either.map(run.algo.applyWrites(run.topology, run.channels, run.seen, [], writes), (applied) =>
    run.journal?.record(applied)
  )

/** The tasks of the coming superstep that have finished already, with what they wrote. */
export const finishedTasks = (run: Run): Decoded<ReadonlyArray<TaskWrites>> =>
  Either.gen(function* () {
    const finished: Array<TaskWrites> = []
    const resultOf = (task: TaskPlan) =>
      run.saved.get(savedKey(run, task))?.rows.find(({ channel }) => channel === RESULT)
    for (const task of run.next) {
      const saved = resultOf(task)
      if (saved !== undefined) finished.push({ writes: yield* decodeWrites(run, saved.value), ...task })
      if (saved !== undefined || task.node.errorHandler === undefined) continue
      const handler = handlerPlan(run.topology, task)
      const handled = resultOf(handler)
      if (handled === undefined) continue
      finished.push({ writes: [], ...task }, { writes: yield* decodeWrites(run, handled.value), ...handler })
    }
    return finished
  })

/**
 * Writes as they are saved: pairs of channel name and encoded update; untracked channels are left out. Where channels
 * have evolved their versions are told beside them.
 */
export const encodeWrites = (run: Run, writes: ReadonlyArray<Write>): string => {
  const pairs: Array<string> = []
  for (const { channel, encoded } of writes) {
    if (encoded === undefined) continue
    const name = JSON.stringify(run.topology.channels[channel]!.name)
    pairs.push(encoded.text === undefined ? `[${name}]` : `[${name},${encoded.text}]`)
  }
  const { versions } = run.topology
  const list = `[${pairs.join(",")}]`
  return versions === undefined ? list : `{"versions":${JSON.stringify(versions)},"writes":${list}}`
}

type Pairs = ReadonlyArray<readonly [channel: string, json?: Json]>

/** Reads saved writes back. */
export const decodeWrites = (run: Run, text: string): Decoded<Array<Write>> => {
  const saved = JSON.parse(text) as Pairs | { readonly versions: Codec.Versions; readonly writes: Pairs }
  return "writes" in saved ? decodePairs(run, saved.writes, saved.versions) : decodePairs(run, saved, {})
}

/** Reads writes back that were saved with these versions of their channels. */
export const decodePairs = (run: Run, pairs: Pairs, versions: Codec.Versions): Decoded<Array<Write>> => {
  const writes: Array<Write> = []
  for (const [name, json] of pairs) {
    const spec = run.topology.channels[currentId(run.topology, name) ?? -1]
    if (spec === undefined) return Either.left(goneChannel(run, name))
    const value = spec.codec.decodeUpdate(json, Codec.versionOf(versions, name), versions)
    if (Either.isLeft(value)) return Either.left(undecodable(run, name, value.left.detail))
    const encoded = spec.codec.encodeUpdate(value.right)
    if (Either.isLeft(encoded)) return Either.left(undecodable(run, name, encoded.left.detail))
    writes.push({ channel: spec.id, value: value.right, encoded: encoded.right })
  }
  return Either.right(writes)
}

const goneChannel = (run: Run, channel: string) => {
  const { identity, waitsFor } = run.topology
  const node = waitsFor(channel)
  return new GraphMismatch({
    thread: run.tree.thread ?? "",
    graph: identity.name,
    found: identity.name,
    detail:
      node === undefined
        ? `a finished task has written to channel "${channel}", which the graph no longer has`
        : waitsForGone(node)
  })
}

const undecodable = (run: Run, channel: string, detail: string) =>
  new CheckpointDecodeError({
    thread: run.tree.thread ?? "",
    namespace: run.namespace,
    checkpoint: run.checkpointId,
    channel,
    detail
  })
