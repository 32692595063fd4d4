/**
 * What the cases of the conformance suite share: exact comparison, expected failures, and a writer that follows the
 * model.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Address, Checkpoint, PendingWrite } from "../Checkpoint.js"
import type { Checkpointer, Commit, Lineage, Loaded } from "../Checkpointer.js"
import { type About, advance, type Node, type Step } from "./model.js"

export type Saver = Context.Tag.Service<typeof Checkpointer>

/** One promise that a saver makes. `thread` is an id that no other case uses; it may be extended. */
export interface Case {
  readonly name: string
  readonly run: (saver: Saver, thread: string) => Effect.Effect<void, unknown>
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null

/** Equality by value; an absent key differs from `undefined`. */
const isSame = (a: unknown, b: unknown): boolean => {
  if (Object.is(a, b)) return true
  if (!isObject(a) || !isObject(b) || Array.isArray(a) !== Array.isArray(b)) return false
  const keys = Object.keys(a)
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && isSame(a[key as never], b[key as never]))
  )
}

const show = (value: unknown): string => {
  const text = JSON.stringify(value, (_, inner) => (inner === undefined ? "undefined" : inner), 1) ?? "undefined"
  return text.length > 2000 ? `${text.slice(0, 2000)}...` : text
}

/** Throws unless both are equal by value. */
export const same = (actual: unknown, expected: unknown, what = "the result"): void => {
  if (!isSame(actual, expected)) {
    throw new Error(`${what} is\n${show(actual)}\nand should be\n${show(expected)}`)
  }
}

/** A checkpoint in a form that compares by value: channels sorted by name. */
export const sorted = (checkpoint: Checkpoint): Checkpoint => ({
  ...checkpoint,
  channels: [...checkpoint.channels].sort((a, b) => (a.name < b.name ? -1 : 1))
})

/** Throws unless a loaded checkpoint is the one that was written. */
export const sameCheckpoint = (loaded: Loaded | undefined, node: Node): void =>
  same(loaded && sorted(loaded.checkpoint), sorted(node.checkpoint), `checkpoint ${node.checkpoint.seq}`)

/** Values by channel. */
export const valuesOf = (loaded: Loaded | undefined): Readonly<Record<string, unknown>> | undefined =>
  loaded && Object.fromEntries(loaded.checkpoint.channels.map(({ name, value }) => [name, value]))

/** Throws unless the effect fails with that tag and, where it has one, that reason. */
export const fails = <A, E>(effect: Effect.Effect<A, E>, tag: string, reason?: string): Effect.Effect<void> =>
  Effect.matchCause(effect, {
    onSuccess: (value) => {
      throw new Error(`expected ${tag}, got ${show(value)}`)
    },
    onFailure: (cause) => {
      const found =
        cause._tag === "Fail" ? (cause.error as { readonly _tag?: string; readonly reason?: string }) : undefined
      if (found?._tag !== tag || (reason !== undefined && found.reason !== reason)) {
        throw new Error(`expected ${tag} ${reason ?? ""}, got ${String(cause)}`)
      }
    }
  })

/** A checkpoint that was written, to build on. */
export interface Written {
  readonly node: Node
  readonly lineage: Lineage
}

/** How to write a checkpoint. */
export interface Writing extends About {
  /** What it is built on: the last one by default, nothing where it is `null`. */
  readonly on?: Written | null
  readonly gap?: number
  readonly writes?: ReadonlyArray<PendingWrite>
  readonly status?: Commit["status"]
  readonly fence?: number
}

/** Writes checkpoints of one namespace, one after the other, as a run does. */
export class Writer {
  head = 0
  last: Written | undefined
  readonly all: Array<Node> = []
  readonly address: Address

  constructor(
    readonly saver: Saver,
    thread: string,
    namespace = ""
  ) {
    this.address = { thread, namespace }
  }

  /** The next commit, not yet written. */
  next(steps: ReadonlyArray<Step>, writing: Writing = {}): { readonly commit: Commit; readonly node: Node } {
    const { fence, gap = 1, on = this.last, status, writes, ...about } = writing
    const { commit, node } = advance(this.address, on?.node, this.head, this.head + gap, steps, about)
    return { commit: { ...commit, lineage: on?.lineage, fence, status, writes }, node }
  }

  /** Writes a checkpoint and makes it the last one. */
  write(steps: ReadonlyArray<Step>, writing: Writing = {}) {
    const { commit, node } = this.next(steps, writing)
    return Effect.map(this.saver.commit(commit), (lineage): Written => {
      this.head = commit.seq
      this.all.push(node)
      this.last = { node, lineage }
      return this.last
    })
  }
}

/** A pending write; `value` becomes JSON. */
export const pending = (task: string, channel: string, value: unknown, index = 0, path = task): PendingWrite => ({
  task,
  path,
  channel,
  index,
  value: JSON.stringify(value)
})
