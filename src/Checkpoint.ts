/**
 * What is saved: a checkpoint is the state of a graph between two supersteps.
 *
 * A thread has one namespace for the graph itself (`""`) and one for each subgraph. In a namespace checkpoints are
 * numbered by `seq`, which only grows: the head is the greatest one. `parent` links make the tree of forks.
 */

/** Where a sequence of checkpoints lives. `namespace` is `""` for the root graph. */
export interface Address {
  readonly thread: string
  readonly namespace: string
}

/** Why a checkpoint was written. */
export type Source = "input" | "loop" | "update" | "fork"

/** What a thread is doing, as its last run left it. */
export type ThreadStatus = "idle" | "running" | "paused" | "failed"

/** A value as it is stored: what `JSON.parse` can return, or `undefined` for a stored `undefined`. */
export type Json = unknown

/** Which graph wrote a checkpoint: its name and a hash of its structure. */
export interface GraphIdentity {
  readonly name: string
  readonly fingerprint: string
}

/** One channel of a checkpoint, encoded. `append` channels carry their items in order. */
export interface ChannelEntry {
  readonly name: string
  readonly version: number
  readonly value: Json
  readonly append: boolean
}

/** What one task of the parent's superstep wrote, encoded: pairs of channel name and update. */
export interface TaskResult {
  readonly task: string
  readonly writes: ReadonlyArray<readonly [channel: string, value: Json]>
}

/** A checkpoint without its channels: what history and planning need. */
export interface Header {
  readonly seq: number
  readonly id: string
  readonly parent: { readonly seq: number; readonly id: string } | undefined
  /** `-1` for the first input, `0` after the entry step, then one more for each superstep, update and fork. */
  readonly step: number
  readonly source: Source
  /** Milliseconds since the epoch. */
  readonly created: number
  /** The highest channel version: channels that have it were changed by the last superstep. */
  readonly version: number
  /** The highest version at the last resume; static breakpoints fire only on newer ones. */
  readonly resumedAt: number
  /** Trigger channels that still hold the value their node has already run on: node, channel, version. */
  readonly seen: ReadonlyArray<readonly [node: string, channel: string, version: number]>
  /** Nodes of the superstep that made this checkpoint. */
  readonly ran: ReadonlyArray<string>
  /** Results of that superstep's tasks that were not saved as pending writes of the parent. */
  readonly results: ReadonlyArray<TaskResult>
  readonly graph: GraphIdentity
  /** Ids of the enclosing graphs' checkpoints by namespace; empty at the root. */
  readonly parents: Readonly<Record<string, string>>
  readonly metadata: Readonly<Record<string, Json>>
}

/** A whole checkpoint, encoded. */
export interface Checkpoint extends Header {
  readonly channels: ReadonlyArray<ChannelEntry>
}

/** Metadata key of the schema versions of a checkpoint's channels, where they are not the first. */
export const CHANNEL_VERSIONS = "channel_versions"

/** Metadata key of a thread that is being made as a copy: which call makes it. */
export const COPYING = "__copying__"

/** Reserved channels of pending writes. */
export const RESULT = "__writes__"
export const INTERRUPT = "__interrupt__"
export const RESUME = "__resume__"
export const ERROR = "__error__"
/** Prefix of the channels of activity results. */
export const ACTIVITY = "__activity__:"

/**
 * Something saved for a task of a checkpoint before the superstep's barrier: its result, an interrupt, an answer, an
 * error, an activity's result. `(checkpoint, task, channel, index)` is unique.
 */
export interface PendingWrite {
  readonly task: string
  /** Sort key of the task: live and reloaded order are both (path, task, channel, index) by code unit. */
  readonly path: string
  readonly channel: string
  readonly index: number
  /** JSON text. */
  readonly value: string
}

/** The one order of pending writes. */
export const pendingWriteOrder = (a: PendingWrite, b: PendingWrite): number =>
  compare(a.path, b.path) || compare(a.task, b.task) || compare(a.channel, b.channel) || a.index - b.index

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** How one channel changed since the parent checkpoint. Texts are JSON; `undefined` stands for a stored `undefined`. */
export type Change =
  | { readonly _tag: "Set"; readonly channel: string; readonly version: number; readonly text: string | undefined }
  | {
      readonly _tag: "Append"
      readonly channel: string
      readonly version: number
      /** True when the items replace what the channel held. */
      readonly reset: boolean
      readonly items: ReadonlyArray<string>
      /** Items in the channel after this change. */
      readonly length: number
    }
  | { readonly _tag: "Drop"; readonly channel: string }

const ID_DIGITS = 8

/** The id of a checkpoint: its number and its time, so that ids sort as they were written. */
export const makeId = (seq: number, created: number): string => {
  const digits = seq.toString(36)
  return `${ZEROS.slice(digits.length)}${digits}-${timeText(created)}`
}

const ZEROS = "0".repeat(ID_DIGITS)

/** Ids of one time follow one another; its digits take longer than the rest. */
const timeText = (time: number): string => {
  if (time !== lastTime.time) lastTime = { time, text: time.toString(36) }
  return lastTime.text
}

let lastTime = { time: 0, text: "0" }

/** The number inside an id, or `undefined` for a text that is no checkpoint id. */
export const seqOfId = (id: string): number | undefined => {
  const text = /^([0-9a-z]{8})-[0-9a-z]+$/.exec(id)?.[1]
  return text === undefined ? undefined : Number.parseInt(text, 36)
}
