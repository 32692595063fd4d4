/**
 * How a run begins: take in what the call brings and plan the first superstep (`semantics.md` 3.3).
 *
 * Everything that a call can get wrong fails here, before anything is written.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { Write } from "./Algo.js"
import { INTERRUPT, type Json, type PendingWrite, RESULT, RESUME } from "./Checkpoint.js"
import type { Loaded } from "./Checkpointer.js"
import type { Command } from "./Command.js"
import * as Events from "./Events.js"
import {
  AmbiguousResume,
  type CheckpointerError,
  EmptyInput,
  type GraphMismatch,
  InvalidAnswer,
  type PendingInterrupt,
  type ThreadConflict,
  UnknownInterrupt,
  UnknownNode
} from "./GraphError.js"
import { stringify } from "./internal/json.js"
import {
  type Answer,
  applyNull,
  applySaved,
  type Call,
  encodeWrites,
  mismatch,
  NULL_TASK,
  plan,
  type Request,
  savedTasks
} from "./Load.js"
import { collect, collectInput, type OutputError, type Sink } from "./Output.js"
import { NOTHING_SAVED, type Run, type SavedTask } from "./Run.js"
import { savedKey, savedQuestions } from "./TaskState.js"

/** Applies what the call brings and plans the first superstep. */
export const enter = (run: Run, request: Request, loaded: Loaded | undefined): Effect.Effect<void, unknown> => {
  const { call } = request
  if (loaded !== undefined && request.continues(loaded)) return resume(run, request, loaded, undefined)
  if (call._tag === "Resume") return resume(run, request, loaded, call)
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
const enterInput = (run: Run, value: unknown): Effect.Effect<void, unknown> => {
  const write = inputWrite(run, value)
  return Either.isLeft(write) ? Effect.fail(write.left) : take(run, [write.right], true)
}

/** What a run's input writes. */
export const inputWrite = (run: Run, value: unknown): Either.Either<Write, EmptyInput | OutputError> => {
  const { topology } = run
  if (value === undefined || value === null) return Either.left(nothing(run, `the input is ${value}`))
  const sink = sinkFor(run, topology.nodes[topology.entry]!.name)
  return Either.map(collectInput(sink, value), (input) => {
    const start = topology.channels[topology.start]!
    const encoded = run.persistence === undefined ? undefined : Either.getOrUndefined(start.codec.encodeUpdate(input))
    return { channel: topology.start, value: input, encoded }
  })
}

const nothing = (run: Run, detail: string) =>
  new EmptyInput({ graph: run.topology.identity.name, thread: run.tree.thread, detail })

/** A command as input: its update and goto are applied as they are; pending tasks stay pending. */
const enterCommand = Effect.fnUntraced(function* (run: Run, input: Command) {
  const writes = yield* commandWrites(run, input)
  if (writes.length === 0) return yield* nothing(run, "the command has no update and no goto")
  yield* take(run, writes, false)
})

const commandWrites = (run: Run, input: Command): Effect.Effect<ReadonlyArray<Write>, unknown> => {
  const sink = sinkFor(run, "__input__")
  if (input.graph !== undefined) {
    return new UnknownNode({ node: input.graph, from: "__input__", reason: "NoParent", step: run.step })
  }
  const error = collect(sink, input)
  return error === undefined ? Effect.succeed(sink.writes) : Effect.fail(error)
}

const take = (run: Run, writes: ReadonlyArray<Write>, discard: boolean): Effect.Effect<void, unknown> => {
  plan(run)
  const discarded = discard ? run.next.map((task) => ({ writes: [], ...task })) : []
  const applied = run.algo.applyWrites(run.topology, run.channels, run.seen, discarded, writes)
  if (Either.isLeft(applied)) return Effect.fail(applied.left)
  const { updated } = applied.right
  run.journal?.record(applied.right)
  run.saved = NOTHING_SAVED
  // Tasks of the old checkpoint that a command leaves pending are found among all channels that hold something.
  run.updated = discard ? updated : [...run.channels.live, ...updated]
  return Effect.map(save(run, "input"), () => {
    plan(run)
    if (!discard) Events.values(run)
    run.source = "input"
  })
}

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
  // A subgraph that goes back to a checkpoint of its own is part of a fork of its parent.
  const forks = request.at !== undefined && (loaded.head !== loaded.checkpoint.seq || run.namespace !== "")
  const answers = call?.answer === undefined ? [] : yield* matchAnswers(run, call.answer)
  if (forks) yield* fork(run, answers)
  else if (answers.length > 0) yield* accept(run, answers)
  if (run.saved.has(NULL_TASK)) yield* applySaved(run)
  if (call?.command !== undefined) yield* applyWithAnswer(run, call.command)
  run.resumedAt = run.channels.version
  plan(run)
  const gone = missing(run, request, loaded)
  if (gone !== undefined) return yield* gone
  Events.values(run)
})

interface Accepted {
  readonly task: string
  readonly path: string
  readonly id: string
  readonly value: Json
}

/** A question and the task of this graph that waits for its answer. */
interface Waiting {
  readonly asked: PendingInterrupt
  readonly task: string
  readonly path: string
}

/** Interrupts of the current checkpoint that wait for an answer, with the tasks they belong to. */
const pendingInterrupts = (
  saved: ReadonlyMap<string, SavedTask>,
  answered: (id: string) => boolean
): ReadonlyArray<Waiting> => {
  const pending: Array<Waiting> = []
  for (const [task, { rows }] of saved) {
    if (rows.some((row) => row.channel === RESULT)) continue
    for (const row of rows) {
      if (row.channel !== INTERRUPT) continue
      for (const asked of savedQuestions(row.value)) {
        if (!answered(asked.id)) pending.push({ asked, task, path: row.path })
      }
    }
  }
  return pending
}

/** Finds the pauses that a call's answers are for. */
const matchAnswers = (
  run: Run,
  answer: Answer
): Either.Either<ReadonlyArray<Accepted>, UnknownInterrupt | AmbiguousResume> => {
  const thread = run.tree.thread!
  if (wasDelivered(run)) return Either.right([])
  const pending = pendingInterrupts(run.saved, (id) => run.tree.answers.has(id))
  const ids = pending.map(({ asked }) => asked.id)
  if (answer._tag === "ById") {
    const accepted: Array<Accepted> = []
    for (const id of Object.keys(answer.values)) {
      const found = pending.find(({ asked }) => asked.id === id)
      if (found === undefined) return Either.left(new UnknownInterrupt({ thread, id, pending: ids }))
      accepted.push({ task: found.task, path: found.path, id, value: answer.values[id] })
    }
    return Either.right(accepted)
  }
  const matching =
    answer._tag === "Bare"
      ? pending
      : pending.filter(({ asked: { id, name } }) => name === answer.name && id === (answer.id ?? id))
  const only = matching[0]
  if (only === undefined) {
    const id = answer._tag === "Named" ? (answer.id ?? answer.name) : ""
    return Either.left(new UnknownInterrupt({ thread, id, pending: ids }))
  }
  if (matching.length > 1) {
    return Either.left(new AmbiguousResume({ thread, pending: matching.map(({ asked }) => asked.id) }))
  }
  return Either.right([{ task: only.task, path: only.path, id: only.asked.id, value: answer.value }])
}

/** A call that is delivered again has its answers saved already. */
const wasDelivered = (run: Run): boolean => {
  const { runId } = run.tree
  if (runId === undefined) return false
  for (const { rows } of run.saved.values()) {
    if (rows.some((row) => row.channel === RESUME && (JSON.parse(row.value) as { run?: string }).run === runId))
      return true
  }
  return false
}

/** Saves answers before any node sees them. */
const accept = (
  run: Run,
  answers: ReadonlyArray<Accepted>
): Effect.Effect<void, InvalidAnswer | CheckpointerError | ThreadConflict> => {
  const rows: Array<PendingWrite> = []
  for (const { id, path, task, value } of answers) {
    const index = nextAnswer([...(run.saved.get(task)?.rows ?? []), ...rows.filter((row) => row.task === task)])
    const text = answerText(id, { id, value, run: run.tree.runId })
    if (Either.isLeft(text)) return Effect.fail(text.left)
    rows.push({ task, path, channel: RESUME, index, value: text.right })
  }
  for (const { id, value } of answers) run.tree.answers.set(id, { value })
  const all = Array.from(run.saved.values(), (saved) => saved.rows).flat()
  run.saved = savedTasks([...all, ...rows])
  return run.persistence!.putNow(rows)
}

/** Answers of a task are numbered over all of its resumes: one that is written under a taken number is lost. */
const nextAnswer = (rows: ReadonlyArray<PendingWrite>): number =>
  rows.reduce((next, { channel, index }) => (channel === RESUME && index >= next ? index + 1 : next), 0)

const answerText = (id: string, saved: unknown): Either.Either<string, InvalidAnswer> =>
  Either.try({
    try: () => stringify(saved),
    catch: (error) => new InvalidAnswer({ id, detail: `it can't be saved: ${(error as Error).message}` })
  })

/**
 * Goes on from an old checkpoint: a fork of it that remembers no answers. Answers that the call brings are for the old
 * checkpoint's pauses; with them finished siblings of the paused tasks are kept as well.
 */
const fork = Effect.fnUntraced(function* (run: Run, answers: ReadonlyArray<Accepted>) {
  const from = run.checkpointId
  const kept = answers.length === 0 ? [] : results(run.saved)
  if (run.namespace === "") run.tree.answers.clear()
  run.saved = NOTHING_SAVED
  run.forked = true
  yield* save(run, "fork")
  if (answers.length === 0) return
  const translated = answers.map((answer) => ({ ...answer, id: answer.id.replace(from, run.checkpointId) }))
  run.saved = savedTasks(kept)
  if (kept.length > 0) yield* run.persistence!.putNow(kept)
  yield* accept(run, translated)
})

const results = (saved: ReadonlyMap<string, SavedTask>): ReadonlyArray<PendingWrite> =>
  Array.from(saved.values()).flatMap(({ rows }) => rows.filter(({ channel }) => channel === RESULT))

/** Applies the update that comes with an answer, and keeps it beside the checkpoint. */
const applyWithAnswer = Effect.fnUntraced(function* (run: Run, input: Command) {
  const writes = yield* commandWrites(run, input)
  const index = run.saved.get(NULL_TASK)?.rows.length ?? 0
  const value = encodeWrites(run, writes)
  yield* run.persistence!.putNow([{ task: NULL_TASK, path: "", channel: RESULT, index, value }])
  yield* applyNull(run, writes)
})

/** A task that waits for an answer must still be a task of the graph. */
const missing = (run: Run, request: Request, loaded: Loaded): GraphMismatch | undefined => {
  if (loaded.checkpoint.graph.fingerprint === run.topology.identity.fingerprint) return undefined
  const planned = new Set(run.next.map((task) => savedKey(run, task)))
  for (const { asked, task } of pendingInterrupts(run.saved, () => false)) {
    if (planned.has(task)) continue
    return mismatch(
      request,
      loaded.checkpoint,
      `it is paused at node "${asked.node}", which the graph would not run now`
    )
  }
  return undefined
}
