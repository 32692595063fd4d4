/**
 * LangGraph's saver interface over a `Checkpointer`, to run LangGraph's own tests, and LangGraph itself, on our storage.
 *
 * Each of its checkpoints is one of ours: channels by what `newVersions` says, everything else in the metadata. Its ids
 * are looked up by listing the thread, which is good enough for tests.
 */
import type { RunnableConfig } from "@langchain/core/runnables"
import {
  BaseCheckpointSaver,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  compareWritesSortKeys,
  maxChannelVersion,
  type PendingWrite,
  WRITES_IDX_MAP,
  writesSortKey
} from "@langchain/langgraph-checkpoint"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import type * as ManagedRuntime from "effect/ManagedRuntime"
import * as Stream from "effect/Stream"
import { type Address, INTERRUPT, type PendingWrite as OurWrite } from "../../src/Checkpoint.js"
import { Checkpointer, type Loaded } from "../../src/Checkpointer.js"
import type { Saver } from "../../src/internal/suite.js"

const TASKS = "__pregel_tasks"

type Typed = readonly [type: string, base64: string]

const threadOf = (config: RunnableConfig): string => {
  const thread = config.configurable?.thread_id
  if (thread === undefined) throw new Error("configurable.thread_id is missing")
  return String(thread)
}

const addressOf = (config: RunnableConfig): Address => ({
  thread: threadOf(config),
  namespace: config.configurable?.checkpoint_ns ?? ""
})

const configOf = ({ namespace, thread }: Address, id: string): RunnableConfig => ({
  configurable: { thread_id: thread, checkpoint_ns: namespace, checkpoint_id: id }
})

/** What is kept of a checkpoint besides its channels. */
interface Kept {
  readonly id: string
  readonly parent: string | null
  readonly checkpoint: Typed
  readonly metadata: Typed
}

const keptOf = ({ checkpoint }: Loaded) => checkpoint.metadata as unknown as Kept

/** Reserved writes are replaced, as our interrupts are; their own name travels with the value. */
const slotOf = (channel: string, position: number) => {
  const reserved = WRITES_IDX_MAP[channel]
  return reserved === undefined ? { channel, index: position } : { channel: INTERRUPT, index: reserved }
}

export class LangGraphSaver extends BaseCheckpointSaver {
  private last: Promise<unknown> = Promise.resolve()
  /** Writes that came before their checkpoint: with its default durability LangGraph saves them in any order. */
  private readonly early = new Map<string, ReadonlyArray<OurWrite>>()

  constructor(private readonly runtime: ManagedRuntime.ManagedRuntime<Checkpointer, unknown>) {
    super()
  }

  private run<A>(use: (saver: Saver) => Effect.Effect<A, unknown>): Promise<A> {
    return this.runtime.runPromise(Effect.flatMap(Checkpointer, use))
  }

  /** One change after the other: LangGraph sends writes while their checkpoint is still being saved. */
  private inTurn<A>(change: () => Promise<A>): Promise<A> {
    const next = this.last.then(change)
    this.last = next.catch(() => undefined)
    return next
  }

  private async dump(value: unknown): Promise<Typed> {
    const [type, bytes] = await this.serde.dumpsTyped(value)
    return [type, Buffer.from(bytes).toString("base64")]
  }

  private parse([type, base64]: Typed): Promise<any> {
    return this.serde.loadsTyped(type, Buffer.from(base64, "base64"))
  }

  private async all(address: Address): Promise<ReadonlyArray<Loaded>> {
    const found = await this.run((saver) => Effect.map(Stream.runCollect(saver.list(address)), Chunk.toReadonlyArray))
    return [...found].sort((a, b) => (keptOf(a).id < keptOf(b).id ? 1 : -1))
  }

  private async find(address: Address, id: string | undefined): Promise<Loaded | undefined> {
    const found = await this.all(address)
    return id === undefined ? found[0] : found.find((one) => keptOf(one).id === id)
  }

  private async writesOf(loaded: Loaded): Promise<ReadonlyArray<{ task: string; channel: string; value: unknown }>> {
    const sorted = [...loaded.writes].sort((a, b) =>
      compareWritesSortKeys(writesSortKey(a.path, a.task, a.index), writesSortKey(b.path, b.task, b.index))
    )
    return Promise.all(
      sorted.map(async ({ task, value }) => {
        const [channel, typed] = JSON.parse(value) as readonly [string, Typed]
        return { task, channel, value: await this.parse(typed) }
      })
    )
  }

  /** Checkpoints older than version 4 keep the tasks that they send in their parent's writes. */
  private async migrate(address: Address, checkpoint: Checkpoint, parent: string | null): Promise<void> {
    const loaded = checkpoint.v < 4 && parent !== null ? await this.find(address, parent) : undefined
    if (loaded === undefined) return
    const writes = await this.writesOf(loaded)
    checkpoint.channel_values[TASKS] = writes.filter(({ channel }) => channel === TASKS).map(({ value }) => value)
    const versions = Object.values(checkpoint.channel_versions)
    checkpoint.channel_versions[TASKS] =
      versions.length > 0 ? maxChannelVersion(...versions) : this.getNextVersion(undefined)
  }

  private async tupleOf(address: Address, loaded: Loaded): Promise<CheckpointTuple> {
    const kept = keptOf(loaded)
    const checkpoint: Checkpoint = await this.parse(kept.checkpoint)
    checkpoint.channel_values = {}
    for (const { name, value } of loaded.checkpoint.channels) {
      if (Object.hasOwn(checkpoint.channel_versions, name))
        checkpoint.channel_values[name] = await this.parse(value as Typed)
    }
    await this.migrate(address, checkpoint, kept.parent)
    const writes = await this.writesOf(loaded)
    return {
      config: configOf(address, kept.id),
      checkpoint,
      metadata: await this.parse(kept.metadata),
      pendingWrites: writes.map(({ channel, task, value }) => [task, channel, value]),
      ...(kept.parent === null ? {} : { parentConfig: configOf(address, kept.parent) })
    }
  }

  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    if (config.configurable?.thread_id === undefined) return undefined
    const address = addressOf(config)
    const loaded = await this.find(address, config.configurable.checkpoint_id)
    return loaded && this.tupleOf(address, loaded)
  }

  async *list(config: RunnableConfig, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const { checkpoint_id: id, checkpoint_ns: namespace, thread_id: thread } = config.configurable ?? {}
    const before = options.before?.configurable?.checkpoint_id
    const threads: ReadonlyArray<string> =
      thread === undefined
        ? await this.run((saver) =>
            Effect.map(Stream.runCollect(saver.threads()), (found) => Array.from(found, (info) => info.thread))
          )
        : [String(thread)]
    let left = options.limit ?? Number.POSITIVE_INFINITY
    for (const thread of threads) {
      for (const name of await this.run((saver) => saver.namespaces(thread))) {
        if (namespace !== undefined && namespace !== name) continue
        const address = { thread, namespace: name }
        for (const loaded of await this.all(address)) {
          const kept = keptOf(loaded)
          if ((id !== undefined && kept.id !== id) || (before !== undefined && kept.id >= before)) continue
          const tuple = await this.tupleOf(address, loaded)
          const metadata = tuple.metadata as Record<string, unknown> | undefined
          if (!Object.entries(options.filter ?? {}).every(([key, value]) => metadata?.[key] === value)) continue
          if (left-- <= 0) return
          yield tuple
        }
      }
    }
  }

  put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: Record<string, number | string>
  ): Promise<RunnableConfig> {
    return this.inTurn(() => this.putNow(config, checkpoint, metadata, newVersions))
  }

  putWrites(config: RunnableConfig, writes: Array<PendingWrite>, taskId: string, taskPath = ""): Promise<void> {
    return this.inTurn(() => this.putWritesNow(config, writes, taskId, taskPath))
  }

  private async putNow(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: Record<string, number | string>
  ): Promise<RunnableConfig> {
    const address = addressOf(config)
    const parentId: string | undefined = config.configurable?.checkpoint_id
    const { channel_values, ...rest } = checkpoint
    const texts = new Map<string, string>()
    for (const name of Object.keys(newVersions)) {
      if (Object.hasOwn(channel_values, name)) texts.set(name, JSON.stringify(await this.dump(channel_values[name])))
    }
    const kept: Kept = {
      id: checkpoint.id,
      parent: parentId ?? null,
      checkpoint: await this.dump(rest),
      metadata: await this.dump(metadata)
    }
    const parent = parentId === undefined ? undefined : await this.find(address, parentId)
    await this.run((saver) =>
      Effect.flatMap(saver.load(address), (newest) => {
        const head = newest?.head ?? 0
        const version = (parent?.checkpoint.version ?? 0) + 1
        const inherited = (parent?.checkpoint.channels ?? []).filter(({ name }) => !Object.hasOwn(newVersions, name))
        return saver.commit({
          address,
          expectedHead: head,
          seq: head + 1,
          parent: parent && { seq: parent.checkpoint.seq, id: parent.checkpoint.id },
          lineage: parent?.lineage,
          step: metadata.step ?? 0,
          source: metadata.source ?? "loop",
          created: Date.now(),
          version,
          resumedAt: 0,
          changes: [
            ...Array.from(texts, ([channel, text]) => ({ _tag: "Set", channel, version, text }) as const),
            ...Object.keys(newVersions)
              .filter((channel) => !texts.has(channel))
              .map((channel) => ({ _tag: "Drop", channel }) as const)
          ],
          whole: () => [
            ...inherited.map(({ name, value, version }) => ({
              append: false as const,
              channel: name,
              version,
              text: JSON.stringify(value)
            })),
            ...Array.from(texts, ([channel, text]) => ({ append: false as const, channel, version, text }))
          ],
          seen: [],
          ran: [],
          results: [],
          graph: { name: "langgraph", fingerprint: "1" },
          parents: {},
          metadata: kept as unknown as Record<string, unknown>
        })
      })
    )
    const key = JSON.stringify([address, checkpoint.id])
    const early = this.early.get(key)
    this.early.delete(key)
    if (early !== undefined) {
      const loaded = await this.find(address, checkpoint.id)
      await this.run((saver) => saver.putWrites(address, loaded!.checkpoint.seq, early))
    }
    return configOf(address, checkpoint.id)
  }

  private async putWritesNow(
    config: RunnableConfig,
    writes: Array<PendingWrite>,
    taskId: string,
    taskPath: string
  ): Promise<void> {
    const address = addressOf(config)
    const id: string | undefined = config.configurable?.checkpoint_id
    if (id === undefined) throw new Error("configurable.checkpoint_id is missing")
    const rows = await Promise.all(
      writes.map(async ([channel, value], position) => ({
        task: taskId,
        path: taskPath,
        ...slotOf(String(channel), position),
        value: JSON.stringify([channel, await this.dump(value)])
      }))
    )
    const loaded = await this.find(address, id)
    if (loaded === undefined) {
      const key = JSON.stringify([address, id])
      this.early.set(key, [...(this.early.get(key) ?? []), ...rows])
      return
    }
    await this.run((saver) => saver.putWrites(address, loaded.checkpoint.seq, rows))
  }

  deleteThread(threadId: string): Promise<void> {
    return this.inTurn(() => this.run((saver) => saver.deleteThread(threadId)))
  }
}
