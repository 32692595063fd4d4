/**
 * How a run begins: load what is saved, take in what the call brings, plan the first superstep (`semantics.md` 3.2,
 * 3.3).
 *
 * Everything that a call can get wrong fails here, before anything is written.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Runtime from "effect/Runtime"
import { Algo, type Seen, type Write } from "./Algo.js"
import type { Snapshot } from "./Channels.js"
import { type Checkpoint, INTERRUPT, type Json, type PendingWrite, RESULT, RESUME } from "./Checkpoint.js"
import type { Loaded } from "./Checkpointer.js"
import { type Command, make as command } from "./Command.js"
import * as Events from "./Events.js"
import {
  AmbiguousResume,
  CheckpointDecodeError,
  EmptyInput,
  GraphMismatch,
  type InvalidUpdate,
  type PendingInterrupt,
  UnknownCheckpoint,
  UnknownInterrupt
} from "./GraphError.js"
import { Journal, Mirror } from "./Journal.js"
import { collect, collectInput, type Sink } from "./Output.js"
import { Persistence } from "./Persistence.js"
import { Run, type SavedTask, type Tree } from "./Run.js"
import { taskKey } from "./TaskState.js"
import type { Topology } from "./Topology.js"

/** An answer that a call brings: for the only pause, for the pauses of a typed interrupt, or by id. */
export type Answer =
  | { readonly _tag: "Bare"; readonly value: Json }
  | { readonly _tag: "Named"; readonly name: string; readonly value: Json }
  | { readonly _tag: "ById"; readonly values: Readonly<Record<string, Json>> }

/** What a call brings. */
export type Call =
  | { readonly _tag: "Input"; readonly value: Record<string, unknown> }
  | { readonly _tag: "Command"; readonly command: Command }
  | { readonly _tag: "Resume"; readonly answer: Answer | undefined; readonly command: Command | undefined }

/** A run to be begun. */
export interface Request {
  readonly topology: Topology
  readonly tree: Tree
  readonly namespace: string
  readonly path: ReadonlyArray<string>
  readonly parents: Readonly<Record<string, string>>
  /** False for a run that saves nothing. */
  readonly saves: boolean
  /** The checkpoint to start from; the head by default. */
  readonly at: string | undefined
  readonly call: Call
  /** False where nothing can be saved yet, so that no load is needed. */
  readonly mayBeSaved: boolean
  /** The checkpoint to start from, where it is loaded already. */
  readonly loaded?: Loaded | undefined
  /** Whether an input is ignored because the saved run is the same one: a nested run goes on when its task is replayed. */
  readonly continues: (loaded: Loaded) => boolean
}

/** Reads the checkpoint that a run starts from. */
const load = Effect.fnUntraced(function* (request: Request) {
  const { checkpointer, thread } = request.tree
  if (request.loaded !== undefined) return request.loaded
  if (!request.saves || !request.mayBeSaved || checkpointer === undefined || thread === undefined) return undefined
  const loaded = yield* checkpointer.load({ thread, namespace: request.namespace }, request.at)
  if (loaded === undefined && request.at !== undefined) {
    return yield* new UnknownCheckpoint({ thread, checkpoint: request.at })
  }
  return loaded
})

/** Names that saved channels and nodes may have had before. */
const currentId = (topology: Topology, name: string): number | undefined =>
  topology.channelIds.get(name) ?? topology.renamed.get(name)

const decodeChannels = (
  request: Request,
  checkpoint: Checkpoint
): Either.Either<ReadonlyArray<Snapshot>, CheckpointDecodeError | GraphMismatch> => {
  const { topology } = request
  const thread = request.tree.thread!
  const versions = (checkpoint.metadata[CHANNEL_VERSIONS] ?? {}) as Record<string, number>
  const snapshots: Array<Snapshot> = []
  for (const { name, value, version } of checkpoint.channels) {
    const id = currentId(topology, name)
    if (id === undefined) {
      const node = topology.waitsFor(name)
      if (node === undefined) continue
      return Either.left(mismatch(request, checkpoint, `it waits for node "${node}", which the graph no longer has`))
    }
    const decoded = topology.channels[id]!.codec.decodeState(value, versions[name])
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
  }
  return Either.right(snapshots)
}

/** Metadata key of the schema versions that a checkpoint's channels were saved with. */
export const CHANNEL_VERSIONS = "channel_versions"

const mismatch = (request: Request, checkpoint: Checkpoint, detail: string) =>
  new GraphMismatch({
    thread: request.tree.thread!,
    graph: request.topology.identity.name,
    found: checkpoint.graph.name,
    detail
  })

const seenOf = (topology: Topology, checkpoint: Checkpoint): Seen => {
  const seen: Seen = new Map()
  for (const [nodeName, channelName, version] of checkpoint.seen) {
    const node = topology.nodeIds.get(nodeName)
    const channel = topology.channelIds.get(channelName)
    if (node === undefined || channel === undefined) continue
    const known = seen.get(node) ?? new Map<number, number>()
    seen.set(node, known.set(channel, version))
  }
  return seen
}

/** Pending writes by task. */
const savedTasks = (writes: ReadonlyArray<PendingWrite>): ReadonlyMap<string, SavedTask> => {
  const tasks = new Map<string, { rows: Array<PendingWrite> }>()
  for (const write of writes) {
    const task = tasks.get(write.task)
    if (task === undefined) tasks.set(write.task, { rows: [write] })
    else task.rows.push(write)
  }
  return tasks
}

/** Makes the run that a request asks for, as it was saved. */
export const open = Effect.fnUntraced(function* (request: Request, runtime: Runtime.Runtime<any>) {
  const { topology, tree } = request
  const algo = Context.get(runtime.context as Context.Context<never>, Algo) as Algo.Service
  const loaded: Loaded | undefined = yield* load(request)
  const checkpoint = loaded?.checkpoint
  if (checkpoint !== undefined && checkpoint.graph.name !== topology.identity.name) {
    return yield* mismatch(
      request,
      checkpoint,
      `it belongs to graph "${checkpoint.graph.name}", not to "${topology.identity.name}"`
    )
  }
  const snapshots = checkpoint === undefined ? [] : yield* decodeChannels(request, checkpoint)
  const run = new Run(tree, topology, algo, runtime, request.namespace, request.path, request.parents, snapshots)
  if (loaded !== undefined) adopt(run, loaded)
  if (request.saves && tree.checkpointer !== undefined && tree.thread !== undefined) {
    run.persistence = new Persistence(
      run,
      tree.checkpointer,
      { thread: tree.thread, namespace: request.namespace },
      (run.journal = new Journal(run.channels)),
      new Mirror(checkpoint?.channels ?? []),
      {
        head: loaded?.head ?? 0,
        parent: checkpoint && { seq: checkpoint.seq, id: checkpoint.id },
        grandparent: checkpoint?.parent,
        lineage: loaded?.lineage
      }
    )
  }
  return { run, loaded }
})

const adopt = (run: Run, { checkpoint, writes }: Loaded): void => {
  run.step = checkpoint.step + 1
  run.seq = checkpoint.seq
  run.created = checkpoint.created
  run.loadedSeq = checkpoint.seq
  run.resumedAt = checkpoint.resumedAt
  run.ran = checkpoint.ran
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

// ---------------------------------------------------------------------------------------------------------------------
// entering
// ---------------------------------------------------------------------------------------------------------------------

/** Applies what the call brings and plans the first superstep. */
export const enter = (run: Run, request: Request, loaded: Loaded | undefined): Effect.Effect<void, unknown> => {
  const { call } = request
  if (call._tag === "Resume") return resume(run, request, loaded, call)
  if (loaded !== undefined && request.continues(loaded)) return resume(run, request, loaded, undefined)
  if (call._tag === "Command") return enterCommand(run, call.command)
  return enterInput(run, call.value)
}

const sinkFor = (run: Run, from: string): Sink => ({
  topology: run.topology,
  encode: run.persistence !== undefined,
  from,
  targets: undefined,
  writes: []
})

/** A new input: unfinished tasks of the old checkpoint count as run, and the entry node takes the input. */
const enterInput = Effect.fnUntraced(function* (run: Run, value: Record<string, unknown>) {
  const { topology } = run
  const input: Record<string, unknown> = {}
  for (const id of topology.input) {
    const { name } = topology.channels[id]!
    if (Object.hasOwn(value, name)) input[name] = value[name]
  }
  const sink = sinkFor(run, topology.nodes[topology.entry]!.name)
  const error = collectInput(sink, input)
  if (error !== undefined) return yield* Effect.fail(error)
  const start = topology.channels[topology.start]!
  const encoded = run.persistence === undefined ? undefined : Either.getOrUndefined(start.codec.encodeUpdate(input))
  const write: Write = { channel: topology.start, value: input, encoded }
  yield* take(run, [write], true)
})

/** A command as input: its update and goto are applied as they are; pending tasks stay pending. */
const enterCommand = Effect.fnUntraced(function* (run: Run, input: Command) {
  const writes = yield* commandWrites(run, input)
  if (writes.length === 0) {
    return yield* new EmptyInput({
      graph: run.topology.identity.name,
      thread: run.tree.thread,
      detail: "the command has no update and no goto"
    })
  }
  yield* take(run, writes, false)
})

const commandWrites = (run: Run, input: Command): Effect.Effect<ReadonlyArray<Write>, unknown> => {
  const sink = sinkFor(run, "__input__")
  const error = collect(sink, input.graph === undefined ? input : command({ update: input.update, goto: input.goto }))
  return error === undefined ? Effect.succeed(sink.writes) : Effect.fail(error)
}

const take = Effect.fnUntraced(function* (run: Run, writes: ReadonlyArray<Write>, discard: boolean) {
  plan(run)
  const discarded = discard ? run.next.map((task) => ({ ...task, writes: [] })) : []
  const applied = yield* run.algo.applyWrites(run.topology, run.channels, run.seen, discarded, writes)
  run.journal?.record(applied)
  run.saved = new Map()
  run.updated = discard ? applied.updated : undefined
  yield* save(run, "input")
  plan(run)
  if (!discard) Events.values(run)
  run.source = "input"
})

/** Makes the current state a checkpoint, saved or not. */
const save = (run: Run, source: "input" | "fork"): Effect.Effect<void, unknown> => {
  run.source = source
  if (run.persistence !== undefined) {
    return run.persistence.commit({ source, ran: source === "fork" ? run.ran : [], results: [], status: "running" })
  }
  run.seq++
  run.step++
  return Effect.void
}

const resume = Effect.fnUntraced(function* (
  run: Run,
  request: Request,
  loaded: Loaded | undefined,
  call: Extract<Call, { _tag: "Resume" }> | undefined
) {
  if (loaded === undefined) {
    return yield* new EmptyInput({
      graph: run.topology.identity.name,
      thread: run.tree.thread,
      detail: "there is no saved run to go on with; start one with an input"
    })
  }
  run.source = loaded.checkpoint.source
  const forks = request.at !== undefined && loaded.head !== loaded.checkpoint.seq
  const answers = call?.answer === undefined ? [] : yield* matchAnswers(run, call.answer)
  if (forks) yield* fork(run, answers)
  else yield* accept(run, answers)
  yield* applySaved(run)
  yield* applyWithAnswer(run, call?.command)
  run.resumedAt = run.channels.version
  plan(run)
  yield* stillThere(run, request, loaded)
  Events.values(run)
})

interface Accepted {
  readonly task: string
  readonly path: string
  readonly id: string
  readonly value: Json
}

/** Interrupts of the current checkpoint that wait for an answer, with the tasks they belong to. */
export const pendingInterrupts = (
  saved: ReadonlyMap<string, SavedTask>,
  answered: (id: string) => boolean
): ReadonlyArray<PendingInterrupt & { readonly task: string; readonly path: string }> => {
  const pending: Array<PendingInterrupt & { readonly task: string; readonly path: string }> = []
  for (const [task, { rows }] of saved) {
    if (rows.some((row) => row.channel === RESULT)) continue
    for (const row of rows) {
      if (row.channel !== INTERRUPT) continue
      for (const asked of JSON.parse(row.value) as ReadonlyArray<PendingInterrupt>) {
        if (!answered(asked.id)) pending.push({ ...asked, task, path: row.path })
      }
    }
  }
  return pending
}

/** Finds the pauses that a call's answers are for. */
const matchAnswers = Effect.fnUntraced(function* (run: Run, answer: Answer) {
  const thread = run.tree.thread!
  const pending = pendingInterrupts(run.saved, (id) => run.tree.answers.has(id))
  const ids = pending.map(({ id }) => id)
  if (answer._tag === "ById") {
    const accepted: Array<Accepted> = []
    for (const id of Object.keys(answer.values)) {
      const found = pending.find((one) => one.id === id)
      if (found === undefined) return yield* new UnknownInterrupt({ thread, id, pending: ids })
      accepted.push({ task: found.task, path: found.path, id, value: answer.values[id] })
    }
    return accepted
  }
  const matching = answer._tag === "Bare" ? pending : pending.filter(({ name }) => name === answer.name)
  const only = matching[0]
  if (only === undefined) {
    return yield* new UnknownInterrupt({ thread, id: answer._tag === "Named" ? answer.name : "", pending: ids })
  }
  if (matching.length > 1) return yield* new AmbiguousResume({ thread, pending: matching.map(({ id }) => id) })
  return [{ task: only.task, path: only.path, id: only.id, value: answer.value }]
})

/** Saves answers before any node sees them. */
const accept = (run: Run, answers: ReadonlyArray<Accepted>): Effect.Effect<void, unknown> => {
  if (answers.length === 0) return Effect.void
  const rows = answers.map(({ id, path, task, value }, i): PendingWrite => {
    const before = run.saved.get(task)?.rows.filter((row) => row.channel === RESUME).length ?? 0
    return { task, path, channel: RESUME, index: before + i, value: JSON.stringify({ id, value }) }
  })
  for (const { id, value } of answers) run.tree.answers.set(id, { value })
  return run.persistence!.putNow(rows)
}

/**
 * Goes on from an old checkpoint: a fork of it that remembers no answers. Answers that the call brings are for the old
 * checkpoint's pauses; with them finished siblings of the paused tasks are kept as well.
 */
const fork = Effect.fnUntraced(function* (run: Run, answers: ReadonlyArray<Accepted>) {
  const from = run.checkpointId
  const kept = answers.length === 0 ? [] : results(run.saved)
  run.tree.answers.clear()
  run.saved = new Map()
  yield* save(run, "fork")
  if (answers.length === 0) return
  const translated = answers.map((answer) => ({ ...answer, id: answer.id.replace(from, run.checkpointId) }))
  run.saved = savedTasks(kept)
  if (kept.length > 0) yield* run.persistence!.putNow(kept)
  yield* accept(run, translated)
})

const results = (saved: ReadonlyMap<string, SavedTask>): ReadonlyArray<PendingWrite> =>
  Array.from(saved.values()).flatMap(({ rows }) => rows.filter(({ channel }) => channel === RESULT))

/** The task that updates given with an answer are saved under. */
const NULL_TASK = ""

/** Applies updates that came with answers to the loaded checkpoint; they are kept beside it until the next one. */
export const applySaved = Effect.fnUntraced(function* (run: Run) {
  for (const row of run.saved.get(NULL_TASK)?.rows ?? []) yield* applyNull(run, yield* decodeWrites(run, row.value))
})

const applyNull = (run: Run, writes: ReadonlyArray<Write>): Effect.Effect<void, InvalidUpdate> =>
  Effect.map(run.algo.applyWrites(run.topology, run.channels, run.seen, [], writes), (applied) =>
    run.journal?.record(applied)
  )

/** Applies the update that comes with an answer, and keeps it beside the checkpoint. */
const applyWithAnswer = Effect.fnUntraced(function* (run: Run, input: Command | undefined) {
  if (input === undefined) return
  const writes = yield* commandWrites(run, input)
  const index = run.saved.get(NULL_TASK)?.rows.length ?? 0
  const value = encodeWrites(run, writes)
  yield* run.persistence!.putNow([{ task: NULL_TASK, path: "", channel: RESULT, index, value }])
  yield* applyNull(run, writes)
})

/** Writes as they are saved: pairs of channel name and encoded update; untracked channels are left out. */
export const encodeWrites = (run: Run, writes: ReadonlyArray<Write>): string => {
  const pairs: Array<string> = []
  for (const { channel, encoded } of writes) {
    if (encoded === undefined) continue
    const name = JSON.stringify(run.topology.channels[channel]!.name)
    pairs.push(encoded.text === undefined ? `[${name}]` : `[${name},${encoded.text}]`)
  }
  return `[${pairs.join(",")}]`
}

/** Reads saved writes back. */
export const decodeWrites = (run: Run, text: string): Either.Either<Array<Write>, CheckpointDecodeError> => {
  const writes: Array<Write> = []
  for (const [name, json] of JSON.parse(text) as Array<[string, Json?]>) {
    const id = currentId(run.topology, name)
    const spec = id === undefined ? undefined : run.topology.channels[id]
    const value = spec?.codec.decodeUpdate(json)
    const encoded = value === undefined || Either.isLeft(value) ? undefined : spec!.codec.encodeUpdate(value.right)
    if (value === undefined || Either.isLeft(value) || encoded === undefined || Either.isLeft(encoded)) {
      return Either.left(
        new CheckpointDecodeError({
          thread: run.tree.thread ?? "",
          namespace: run.namespace,
          checkpoint: run.checkpointId,
          channel: name,
          detail: value !== undefined && Either.isLeft(value) ? value.left.detail : "a saved write has no channel"
        })
      )
    }
    writes.push({ channel: spec!.id, value: value.right, encoded: encoded.right })
  }
  return Either.right(writes)
}

/** A task that waits for an answer must still be a task of the graph. */
const stillThere = (run: Run, request: Request, loaded: Loaded): Effect.Effect<void, GraphMismatch> => {
  if (loaded.checkpoint.graph.fingerprint === run.topology.identity.fingerprint) return Effect.void
  const planned = new Set(run.next.map(taskKey))
  for (const { node, task } of pendingInterrupts(run.saved, () => false)) {
    if (planned.has(task)) continue
    return mismatch(request, loaded.checkpoint, `it is paused at node "${node}", which the graph would not run now`)
  }
  return Effect.void
}
