/**
 * Saves that a run's tree has not written yet: those that are written in the background (`async`), in the order they
 * were made over all of its namespaces, and those of subgraphs that wait for the root's (`exit`).
 *
 * The order matters: a subgraph's rows belong to a checkpoint of its parent, so they are never durable before it is.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Runtime from "effect/Runtime"
import type { Address, PendingWrite, ThreadStatus } from "./Checkpoint.js"
import type { Checkpointer, Staged } from "./Checkpointer.js"
import type { CheckpointerError, ThreadConflict } from "./GraphError.js"

type Service = Context.Tag.Service<typeof Checkpointer>

/** What can go wrong with a write. */
export type WriteError = CheckpointerError | ThreadConflict

/** Pending writes of a checkpoint. */
export interface Rows {
  readonly address: Address
  readonly seq: number
  readonly writes: ReadonlyArray<PendingWrite>
  /** What the thread does from now on, if that changes. */
  readonly status: ThreadStatus | undefined
}

const MAX_QUEUED = 64

/** The saves of one run and of its subgraphs' runs. */
export class SaveQueue {
  private queue: Array<Staged | Rows> = []
  private draining = false
  private failure: Exit.Exit<void, WriteError> | undefined
  private waiters: Array<() => void> = []
  private readonly held = new Map<string, Staged>()
  private heldFor: string | undefined

  constructor(
    private readonly storage: Service,
    private readonly fence: number | undefined
  ) {}

  /** Writes it in the background, after everything before; waits only while very much is queued. */
  add(item: Staged | Rows, runtime: Runtime.Runtime<any>): Effect.Effect<void, WriteError> {
    if (this.failure !== undefined) return this.failure
    this.queue.push(item)
    if (!this.draining) this.startDrain(runtime)
    return this.queue.length < MAX_QUEUED ? Effect.void : this.settled
  }

  private startDrain(runtime: Runtime.Runtime<any>): void {
    this.draining = true
    const fiber = Runtime.runFork(runtime, Effect.zipRight(Effect.yieldNow(), this.drain()))
    fiber.addObserver((exit) => {
      if (Exit.isFailure(exit)) this.failure = exit
      this.draining = false
      const waiters = this.waiters
      this.waiters = []
      for (const wake of waiters) wake()
    })
  }

  private drain(): Effect.Effect<void, WriteError> {
    return Effect.gen(this, function* () {
      while (this.queue.length > 0) {
        const batch = this.queue
        this.queue = []
        let commits: Array<Staged> = []
        for (const item of batch) {
          if ("append" in item) {
            commits.push(item)
            continue
          }
          if (commits.length > 0) yield* this.storage.write(commits)
          commits = []
          yield* this.storage.putWrites(item.address, item.seq, item.writes, this.fence, item.status)
        }
        if (commits.length > 0) yield* this.storage.write(commits)
      }
    })
  }

  private readonly drained = Effect.async<void>((resume) => {
    this.waiters.push(() => resume(Effect.void))
  })

  /** Waits until all background saves are written; fails as they did. */
  readonly settled: Effect.Effect<void, WriteError> = Effect.suspend(() =>
    this.draining ? Effect.flatMap(this.drained, () => this.failure ?? Effect.void) : (this.failure ?? Effect.void)
  )

  /** Writes once all background saves are written. `write` makes its effect when that runs, which may be again. */
  after<E>(write: () => Effect.Effect<void, E>): Effect.Effect<void, E | WriteError> {
    return Effect.suspend(() =>
      this.draining || this.failure !== undefined ? Effect.zipRight(this.settled, Effect.suspend(write)) : write()
    )
  }

  /**
   * Keeps a subgraph's checkpoint until the root's is written. Those of the root's earlier supersteps are needed no
   * more: their tasks have ended.
   */
  hold(staged: Staged): void {
    const root = staged.commit.parents[""]!
    if (root !== this.heldFor) this.forgetAllBut(root)
    this.heldFor = root
    this.held.set(staged.commit.address.namespace, staged)
  }

  /** Writes what is held of a namespace, because it is about to be read. */
  release(namespace: string): Effect.Effect<void, WriteError> {
    const staged = this.held.get(namespace)
    if (staged === undefined) return Effect.void
    this.held.delete(namespace)
    return this.storage.write([staged])
  }

  /**
   * Checkpoints of subgraphs that the root's current one needs: those of its unfinished tasks, and of subgraphs that
   * remember. They are no longer held.
   */
  take(rootCheckpoint: string): ReadonlyArray<Staged> {
    this.forgetAllBut(rootCheckpoint)
    const needed = Array.from(this.held.values())
    this.held.clear()
    return needed
  }

  private forgetAllBut(rootCheckpoint: string): void {
    for (const [namespace, { commit }] of this.held) {
      const remembers = !namespace.includes(":")
      if (!remembers && commit.parents[""] !== rootCheckpoint) this.held.delete(namespace)
    }
  }
}
