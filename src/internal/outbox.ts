/** What a run has told and its reader has not taken yet. A `Mailbox` would do, but its events cost more than the run's. */
import * as Channel from "effect/Channel"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

type Resume<A, E = never> = (effect: Effect.Effect<A, E>) => void

/** Takes everything at once and loses nothing; its writers wait while more than `capacity` items wait for the reader. */
export class Outbox<A, E> {
  private items: Array<A> = []
  private exit: Exit.Exit<unknown, E> | undefined = undefined
  private reader: Resume<Chunk.Chunk<A> | undefined, E> | undefined = undefined
  private writers: Array<Resume<void>> = []

  constructor(private readonly capacity: number) {}

  push(item: A): void {
    if (this.exit !== undefined) return
    this.items.push(item)
    this.wakeReader()
  }

  /** Waits until what is too much is taken. */
  room(): Effect.Effect<void> | undefined {
    return this.isFull() ? this.taken : undefined
  }

  /** Nothing is added any more: once all is taken, the reader ends as `exit` says. */
  end(exit: Exit.Exit<unknown, E>): void {
    this.exit ??= exit
    this.wakeReader()
    this.wakeWriters()
  }

  /** Everything that is added, as it comes. */
  get channel(): Channel.Channel<Chunk.Chunk<A>, unknown, E> {
    const loop: Channel.Channel<Chunk.Chunk<A>, unknown, E> = Channel.flatMap(Channel.fromEffect(this.next), (items) =>
      items === undefined ? Channel.void : Channel.zipRight(Channel.write(items), loop)
    )
    return loop
  }

  private isFull(): boolean {
    return this.items.length > this.capacity && this.exit === undefined
  }

  private readonly next: Effect.Effect<Chunk.Chunk<A> | undefined, E> = Effect.suspend(() => {
    if (this.items.length > 0) {
      const items = Chunk.unsafeFromArray(this.items)
      this.items = []
      this.wakeWriters()
      return Effect.succeed(items)
    }
    return this.exit === undefined ? this.added : Exit.as(this.exit, undefined)
  })

  private readonly added = Effect.async<Chunk.Chunk<A> | undefined, E>((resume) => {
    this.reader = resume
    return Effect.sync(() => {
      this.reader = undefined
    })
  })

  private readonly taken = Effect.async<void>((resume) => {
    if (!this.isFull()) return resume(Effect.void)
    this.writers.push(resume)
    return Effect.sync(() => {
      this.writers = this.writers.filter((other) => other !== resume)
    })
  })

  /** The reader takes what there is when its turn comes: until then more is added. */
  private wakeReader(): void {
    const { reader } = this
    if (reader === undefined) return
    this.reader = undefined
    reader(this.next)
  }

  private wakeWriters(): void {
    const { writers } = this
    if (writers.length === 0) return
    this.writers = []
    for (const resume of writers) resume(Effect.void)
  }
}
