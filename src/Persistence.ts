/**
 * How a run's checkpoints and pending writes become durable (`semantics.md` 3.8).
 *
 * - `sync`: a checkpoint is saved before the next superstep starts.
 * - `async`: saves are encoded at once and written in the background, in order; several may share a transaction. A
 *   failure ends the run at the next save, at the latest at its end.
 * - `exit`: one checkpoint is saved when the run ends, for whatever reason.
 *
 * Answers and results of activities are durable before the node goes on (`putNow`), except with `exit`, where a crash
 * loses the whole run and repeats it.
 */
import type * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import {
  type Address,
  CHANNEL_VERSIONS,
  INTERRUPT,
  type PendingWrite,
  RESUME,
  type Source,
  type ThreadStatus
} from "./Checkpoint.js"
import type { Checkpointer, Commit, Lineage } from "./Checkpointer.js"
import type { CheckpointerError, InvalidUpdate, ThreadConflict } from "./GraphError.js"
import { uninterruptible } from "./internal/regions.js"
import type { Journal, Mirror } from "./Journal.js"
import type { Run } from "./Run.js"
import type { SaveQueue } from "./SaveQueue.js"
import type { TaskState } from "./TaskState.js"

type Service = Context.Tag.Service<typeof Checkpointer>

/** What can go wrong with a save. */
export type SaveError = CheckpointerError | ThreadConflict | InvalidUpdate

/** A checkpoint to be saved. */
export interface Save {
  readonly source: Source
  readonly ran: ReadonlyArray<string>
  readonly results: Commit["results"]
  readonly status?: ThreadStatus | undefined
  /** What to do where a value can't be saved; the current checkpoint is still the one before. Default: fail. */
  readonly refused?: ((error: InvalidUpdate) => Effect.Effect<never, SaveError>) | undefined
}

/** Where a run's branch ends in storage. */
export interface Position {
  readonly head: number
  readonly parent: Commit["parent"]
  readonly grandparent: Commit["parent"]
  readonly lineage: Lineage | undefined
}

const NO_RESULTS: Commit["results"] = []

/** The saves of one run, in one namespace. */
export class Persistence {
  private head: number
  private parent: Commit["parent"]
  private lineage: Lineage | undefined
  /** With `exit`: the newest checkpoint and the pending writes of its tasks, saved when the run ends. */
  private held: { readonly save: Save; readonly seq: number } | undefined
  private heldWrites: Array<PendingWrite> = []
  /** What was last told of the thread together with pending writes. */
  told: ThreadStatus | undefined
  /** The parent of the newest checkpoint. */
  parentOfCurrent: Commit["parent"]

  constructor(
    private readonly run: Run,
    private readonly storage: Service,
    private readonly address: Address,
    private readonly journal: Journal,
    private readonly mirror: Mirror,
    private readonly clock: Clock.Clock,
    position: Position
  ) {
    this.head = position.head
    this.parent = position.parent
    this.lineage = position.lineage
    this.parentOfCurrent = position.grandparent
  }

  private get metadata(): Commit["metadata"] {
    const { topology, tree } = this.run
    return topology.versions === undefined ? tree.metadata : { ...tree.metadata, [CHANNEL_VERSIONS]: topology.versions }
  }

  private get saves(): SaveQueue {
    return this.run.tree.saves!
  }

  /** The greatest number given to a checkpoint of the namespace. */
  get last(): number {
    return Math.max(this.head, this.run.seq)
  }

  /** Makes the run's current state its newest checkpoint, at once; the effect saves it. */
  commit(save: Save): Effect.Effect<void, SaveError> {
    const { run } = this
    const { created, ran, seq } = run
    run.seq = this.last + 1
    run.created = this.clock.unsafeCurrentTimeMillis()
    run.ran = save.ran
    if (run.tree.durability === "exit") {
      this.held = { save, seq: run.seq }
      this.heldWrites = []
      run.step++
      return Effect.void
    }
    const commit = this.build(save)
    if (Either.isLeft(commit)) {
      Object.assign(run, { created, ran, seq })
      return save.refused === undefined ? Effect.fail(commit.left) : save.refused(commit.left)
    }
    run.step++
    if (run.tree.durability === "async") return this.enqueueCommit(commit.right)
    return this.write(commit.right)
  }

  /** A save in progress is not interrupted: whoever stops the run waits for it. */
  private write(commit: Commit): Effect.Effect<void, CheckpointerError | ThreadConflict> {
    return uninterruptible(Effect.map(this.storage.commit(commit), (lineage) => this.moved(commit, lineage)))
  }

  private writeRows(
    seq: number,
    writes: ReadonlyArray<PendingWrite>,
    status?: ThreadStatus
  ): Effect.Effect<void, CheckpointerError | ThreadConflict> {
    return uninterruptible(this.storage.putWrites(this.address, seq, writes, this.run.tree.fence, status))
  }

  private build(save: Save): Either.Either<Commit, InvalidUpdate> {
    const { mirror, run } = this
    const changes = this.journal.drain()
    if (Either.isLeft(changes)) return Either.left(changes.left)
    mirror.apply(changes.right)
    return Either.right({
      address: this.address,
      expectedHead: this.head,
      seq: run.seq,
      parent: this.parent,
      lineage: this.lineage,
      step: run.step,
      source: save.source,
      created: run.created,
      version: run.channels.version,
      resumedAt: run.resumedAt,
      changes: changes.right,
      whole: () => mirror.whole(),
      seen: seenOf(run),
      ran: save.ran,
      results: save.results,
      graph: run.topology.identity,
      parents: run.parents,
      metadata: this.metadata,
      status: save.status,
      fence: run.tree.fence
    })
  }

  private moved(commit: Commit, lineage: Lineage): void {
    this.head = commit.seq
    this.parentOfCurrent = this.parent
    this.parent = { seq: commit.seq, id: this.run.checkpointId }
    this.lineage = lineage
  }

  /** Saves pending writes of the current checkpoint as the durability says, and what they mean for the thread. */
  put(writes: ReadonlyArray<PendingWrite>, status?: ThreadStatus): Effect.Effect<void, SaveError> {
    if (writes.length === 0) return Effect.void
    switch (this.run.tree.durability) {
      case "exit":
        this.hold(writes)
        return Effect.void
      case "async":
        this.told = status
        return this.saves.add({ address: this.address, seq: this.run.seq, writes, status }, this.run.runtime)
      case "sync":
        return Effect.map(this.writeRows(this.run.seq, writes, status), () => void (this.told = status))
    }
  }

  private hold(writes: ReadonlyArray<PendingWrite>): void {
    for (const write of writes) {
      const same = (held: PendingWrite) =>
        held.task === write.task && held.channel === write.channel && held.index === write.index
      this.heldWrites = this.heldWrites.filter((held) => !same(held))
      this.heldWrites.push(write)
    }
  }

  /** Saves pending writes of the current checkpoint before it returns. */
  putNow(writes: ReadonlyArray<PendingWrite>): Effect.Effect<void, CheckpointerError | ThreadConflict> {
    if (this.run.tree.durability === "exit" && this.run.seq !== this.head) {
      this.hold(writes)
      return Effect.void
    }
    return this.saves.after(() => this.writeRows(this.run.seq, writes))
  }

  /** Forgets pending writes of tasks of the current checkpoint. */
  drop(tasks: ReadonlyArray<string>): Effect.Effect<void, SaveError> {
    this.heldWrites = this.heldWrites.filter((write) => !tasks.includes(write.task))
    if (this.run.seq !== this.head) return Effect.void
    return this.saves.after(() => this.storage.dropWrites(this.address, this.run.seq, tasks))
  }

  /** Takes the answer back that turned out to be invalid: its question stays open, other answers stay given. */
  dropAnswer(task: TaskState, id: string): Effect.Effect<void, SaveError> {
    this.run.tree.answers.delete(id)
    const saved = this.run.saved.get(task.key)?.rows ?? []
    const kept = [
      ...Array.from(task.saved?.all() ?? [], (call) => task.callRow(call)),
      ...(task.asked.length > 0
        ? [task.row(INTERRUPT, 0, task.asked)]
        : saved.filter(({ channel }) => channel === INTERRUPT)),
      ...saved.filter(({ channel, value }) => channel === RESUME && (JSON.parse(value) as { id: string }).id !== id)
    ]
    return Effect.zipRight(
      this.drop([task.key]),
      Effect.suspend(() => this.put(kept))
    )
  }

  // -------------------------------------------------------------------------------------------------------------------
  // async
  // -------------------------------------------------------------------------------------------------------------------

  private enqueueCommit(commit: Commit): Effect.Effect<void, SaveError> {
    return Effect.flatMap(this.storage.stage(commit), (staged) => {
      this.moved(commit, staged.lineage)
      return this.saves.add(staged, this.run.runtime)
    })
  }

  // -------------------------------------------------------------------------------------------------------------------
  // the end of the run
  // -------------------------------------------------------------------------------------------------------------------

  /** Writes what is not written yet; runs when the run ends, for whatever reason. */
  close(status: ThreadStatus): Effect.Effect<void, SaveError> {
    if (this.run.tree.durability !== "exit") return this.saves.settled
    const { held, heldWrites } = this
    this.held = undefined
    if (held === undefined) return this.closeRows(heldWrites)
    this.run.step--
    const commit = this.build({ ...held.save, results: NO_RESULTS, status })
    this.run.step++
    if (Either.isLeft(commit)) return Effect.fail(commit.left)
    return Effect.flatMap(this.storage.stage({ ...commit.right, writes: heldWrites }), (staged) => {
      this.moved(commit.right, staged.lineage)
      if (this.address.namespace === "") return this.storage.write([...this.saves.take(this.run.checkpointId), staged])
      this.saves.hold(staged)
      return Effect.void
    })
  }

  /** The run made no checkpoint of its own: rows of the one it was loaded from. */
  private closeRows(rows: ReadonlyArray<PendingWrite>): Effect.Effect<void, SaveError> {
    const staged = this.address.namespace === "" ? this.saves.take(this.run.checkpointId) : []
    const written = staged.length === 0 ? Effect.void : this.storage.write(staged)
    return rows.length === 0 ? written : Effect.zipRight(written, this.writeRows(this.run.seq, rows))
  }
}

const seenOf = (run: Run): Commit["seen"] => {
  if (run.seen.size === 0) return NO_SEEN
  const seen: Array<readonly [string, string, number]> = []
  for (const [node, channels] of run.seen) {
    for (const [channel, version] of channels) {
      if (!run.channels.live.has(channel) || run.channels.versionOf(channel) > version) continue
      seen.push([run.topology.nodes[node]!.name, run.channels.specs[channel]!.name, version])
    }
  }
  return seen
}

const NO_SEEN: Commit["seen"] = []
