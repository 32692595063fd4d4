/**
 * A plain in-memory model of checkpoints, to compare savers with: it keeps every state whole.
 */
import type { Change, Checkpoint, Header, Json } from "../Checkpoint.js"
import { makeId } from "../Checkpoint.js"
import type { Commit, WholeEntry } from "../Checkpointer.js"

/** What a step does to one channel. */
export type Step =
  | { readonly set: string; readonly value: Json }
  | { readonly append: string; readonly items: ReadonlyArray<Json>; readonly reset?: boolean }
  | { readonly drop: string }

/** A checkpoint of the model. */
export interface Node {
  readonly checkpoint: Checkpoint
}

const text = (value: Json): string | undefined => JSON.stringify(value)

const itemsIn = (cell: Checkpoint["channels"][number] | undefined): ReadonlyArray<Json> =>
  cell?.append === true ? (cell.value as ReadonlyArray<Json>) : []

/** Everything a commit says besides its channels. */
export type About = Partial<
  Pick<Commit, "source" | "created" | "resumedAt" | "seen" | "ran" | "graph" | "parents" | "metadata" | "step">
>

const GRAPH = { name: "graph", fingerprint: "1" }

/** What the steps make of the channels: the new ones, told as changes and as the result of a task. */
const applySteps = (before: Checkpoint | undefined, version: number, steps: ReadonlyArray<Step>) => {
  const channels = new Map(before?.channels.map((channel) => [channel.name, channel]))
  const changes: Array<Change> = []
  const writes: Array<readonly [string, string | undefined]> = []
  const results: Array<readonly [string, Json]> = []
  for (const step of steps) {
    if ("set" in step) {
      channels.set(step.set, { name: step.set, version, value: step.value, append: false })
      changes.push({ _tag: "Set", channel: step.set, version, text: text(step.value) })
      writes.push([step.set, undefined])
      results.push([step.set, step.value])
    } else if ("drop" in step) {
      if (channels.delete(step.drop)) changes.push({ _tag: "Drop", channel: step.drop })
    } else {
      const old = step.reset === true ? [] : itemsIn(channels.get(step.append))
      const reset = step.reset === true || channels.get(step.append)?.append !== true
      const value = [...old, ...step.items]
      channels.set(step.append, { name: step.append, version, value, append: true })
      const items = step.items.map((item) => String(text(item)))
      changes.push({ _tag: "Append", channel: step.append, version, reset, items, length: value.length })
      writes.push([step.append, undefined])
      results.push([step.append, step.items])
    }
  }
  return { channels: Array.from(channels.values()), changes, writes, results }
}

/** The commit of `steps` on `parent`, and the checkpoint that must be read back. */
export const advance = (
  address: Commit["address"],
  parent: Node | undefined,
  expectedHead: number,
  seq: number,
  steps: ReadonlyArray<Step>,
  about: About = {}
): { readonly commit: Omit<Commit, "lineage">; readonly node: Node } => {
  const before = parent?.checkpoint
  const version = (before?.version ?? 0) + 1
  const { changes, channels, results, writes } = applySteps(before, version, steps)
  const header: Omit<Header, "id" | "results" | "parent"> = {
    seq,
    step: (before?.step ?? -2) + 1,
    source: "loop",
    created: 1_764_000_000_000 + seq * 7,
    version,
    resumedAt: 0,
    seen: [],
    ran: ["node"],
    graph: GRAPH,
    parents: {},
    metadata: {},
    ...about
  }
  const link = before && { seq: before.seq, id: before.id }
  const entries = channels.map((channel): WholeEntry => {
    const { name, version } = channel
    return channel.append
      ? { append: true, channel: name, version, length: itemsIn(channel).length }
      : { append: false, channel: name, version, text: text(channel.value) }
  })
  return {
    commit: {
      ...header,
      address,
      expectedHead,
      parent: link,
      changes,
      whole: () => entries,
      results: writes.length === 0 ? [] : [{ task: `task-${seq}`, writes }]
    },
    node: {
      checkpoint: {
        ...header,
        id: makeId(seq, header.created),
        parent: link,
        results: results.length === 0 ? [] : [{ task: `task-${seq}`, writes: results }],
        channels
      }
    }
  }
}
