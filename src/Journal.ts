/**
 * What changed since the last save: turns applied writes into the changes of a commit.
 *
 * A channel that was written once carries the text the write was encoded to; only reducers are encoded again, after
 * folding. Nothing is looked at that did not change. The mirror of what is saved lets a saver write a whole checkpoint
 * without asking the live channels, which may have moved on by then.
 */
import * as Either from "effect/Either"
import type { Applied, Write } from "./Algo.js"
import type { AppendCell } from "./Cell.js"
import type { ChannelTable } from "./Channels.js"
import type { Change, ChannelEntry } from "./Checkpoint.js"
import type { WholeEntry } from "./Checkpointer.js"
import { InvalidUpdate } from "./GraphError.js"
import type { ChannelSpec } from "./Topology.js"

interface Log {
  reset: boolean
  readonly items: Array<string>
}

/** Of a channel whose new value has no text yet. */
const FOLDED = Symbol("folded")

type Text = string | undefined | typeof FOLDED

/** Collects changes between saves. */
export class Journal {
  /** Channels with their new text, where one write tells it. */
  private changed = new Map<number, Text>()
  private logs = new Map<number, Log>()
  private readonly former: Array<string> = []

  constructor(private readonly channels: ChannelTable) {}

  /** Takes over what an `applyWrites` did. */
  record(applied: Applied): void {
    for (const [id, writes] of applied.changed) {
      const spec = this.channels.specs[id]!
      if (!spec.tracked) continue
      this.changed.set(id, spec.append ? FOLDED : textOf(spec, writes))
      if (spec.append) this.recordLog(id, writes)
    }
  }

  /** Saves a channel again as it is, because it was loaded in an older form, or under the name that it had then. */
  again(id: number, former?: string): void {
    if (former !== undefined) this.former.push(former)
    const spec = this.channels.specs[id]!
    this.changed.set(id, FOLDED)
    if (!spec.append) return
    const encoded = spec.codec.encodeUpdate(this.channels.get(id))
    this.logs.set(id, { reset: true, items: Either.isRight(encoded) ? encoded.right.items!.slice() : [] })
  }

  private recordLog(id: number, writes: ReadonlyArray<Write>): void {
    let log = this.logs.get(id)
    if (log === undefined) this.logs.set(id, (log = { reset: false, items: [] }))
    const overwrite = writes.find((write) => write.encoded?.overwrite)
    if (overwrite !== undefined) {
      this.logs.set(id, { reset: true, items: overwrite.encoded!.items!.slice() })
      return
    }
    for (const write of writes) for (const item of write.encoded?.items ?? []) log.items.push(item)
  }

  /** The changes since the last drain; fails when a reducer made a value that its schema can't encode. */
  drain(): Either.Either<ReadonlyArray<Change>, InvalidUpdate> {
    const changes: Array<Change> = this.former.map((channel) => ({ _tag: "Drop", channel }))
    for (const [id, text] of this.changed) {
      const change = this.changeOf(id, text)
      if (Either.isLeft(change)) return Either.left(change.left)
      changes.push(change.right)
    }
    // Not cleared but new: V8 lets a table that was cleared point to the next one, so that one which has grown old keeps
    // all later ones, and what they hold, from being collected cheaply.
    this.changed = new Map()
    if (this.logs.size > 0) this.logs = new Map()
    this.former.length = 0
    return Either.right(changes)
  }

  private changeOf(id: number, known: Text): Either.Either<Change, InvalidUpdate> {
    const spec = this.channels.specs[id]!
    const channel = spec.name
    const version = this.channels.versionOf(id)
    const log = this.logs.get(id)
    if (log !== undefined) {
      const { length } = this.channels.cell(id) as AppendCell
      return Either.right({ _tag: "Append", channel, version, reset: log.reset, items: log.items, length })
    }
    if (!this.channels.live.has(id)) return Either.right({ _tag: "Drop", channel })
    if (known !== FOLDED) return Either.right({ _tag: "Set", channel, version, text: known })
    const text = spec.codec.encodeState(this.channels.cell(id).snapshot())
    if (Either.isRight(text)) return Either.right({ _tag: "Set", channel, version, text: text.right })
    const { detail, path, reason } = text.left
    return Either.left(new InvalidUpdate({ reason, channel, path, detail: `its new value can't be saved: ${detail}` }))
  }
}

const textOf = ({ channel }: ChannelSpec, writes: ReadonlyArray<Write>): Text => {
  const { kind } = channel.definition
  const last = writes[writes.length - 1]?.encoded
  return last !== undefined && (kind === "lastValue" || kind === "ephemeral" || kind === "anyValue")
    ? last.text
    : FOLDED
}

/** The encoded state as it was last saved, kept by the changes that saved it. */
export class Mirror {
  private readonly entries = new Map<string, WholeEntry | ChannelEntry>()

  constructor(saved: ReadonlyArray<ChannelEntry>) {
    for (const entry of saved) this.entries.set(entry.name, entry)
  }

  apply(changes: ReadonlyArray<Change>): void {
    for (const change of changes) {
      const { channel } = change
      if (change._tag === "Drop") this.entries.delete(channel)
      else if (change._tag === "Set") {
        this.entries.set(channel, { append: false, channel, version: change.version, text: change.text })
      } else {
        this.entries.set(channel, { append: true, channel, version: change.version, length: change.length })
      }
    }
  }

  /** Everything that has a value, encoded. */
  whole(): ReadonlyArray<WholeEntry> {
    return Array.from(this.entries.values(), (entry) => ("name" in entry ? wholeEntry(entry) : entry))
  }
}

const wholeEntry = ({ append, name, value, version }: ChannelEntry): WholeEntry =>
  append
    ? { append, channel: name, version, length: (value as ReadonlyArray<unknown>).length }
    : { append, channel: name, version, text: value === undefined ? undefined : exactText(value) }

/** Values that were read from JSON text contain nothing that `JSON.stringify` changes, except `-0`. */
const exactText = (value: unknown): string => (Object.is(value, -0) ? "-0" : JSON.stringify(value))
