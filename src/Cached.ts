/**
 * Nodes whose results are reused: before a superstep runs its tasks are looked up in the `NodeCache`, after a task has
 * succeeded its writes are kept there.
 *
 * What is kept are writes as they are saved, signals to other nodes included. A result that can't be saved is not kept:
 * one that writes an untracked channel or that a codec refuses; neither is one whose input can't be told from others.
 */
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { Write } from "./Algo.js"
import { textOrNone } from "./internal/json.js"
import { decodeWrites, encodeWrites } from "./Load.js"
import * as NodeCache from "./NodeCache.js"
import type { Run } from "./Run.js"
import type { TaskState } from "./TaskState.js"
import type { CachePolicy } from "./Topology.js"

type Service = Context.Tag.Service<NodeCache.NodeCache>

/** Gives tasks the results of earlier ones with equal inputs: they are done. */
export const reuse = Effect.fnUntraced(function* (run: Run, cache: Service) {
  const tasks: Array<TaskState> = []
  const keys: Array<NodeCache.Key> = []
  for (const task of run.tasks) {
    const key = task.status === "planned" && !isReplayed(task) ? keyOf(task) : undefined
    if (key === undefined) continue
    tasks.push(task)
    keys.push(key)
  }
  if (keys.length === 0) return
  const found = yield* NodeCache.find(cache, keys)
  found.forEach((value, i) => {
    const writes = value === undefined ? undefined : decodeWrites(run, value)
    if (writes === undefined || Either.isLeft(writes)) return
    const task = tasks[i]!
    task.writes = writes.right
    task.status = "done"
    task.reused = true
    task.unsaved = true
  })
})

/** A task that has begun goes on: it has asked or called something. */
const isReplayed = (task: TaskState): boolean => task.saved !== undefined || task.run.saved.has(task.key)

/** Keeps what a task has written, unless it paused: an answer is given to one question. */
export const keeping = <E, R>(
  task: TaskState,
  policy: CachePolicy,
  body: Effect.Effect<void, E, R>
): Effect.Effect<void, E, R> => {
  const { cache } = task.run
  if (cache === undefined) return body
  const keep = Effect.suspend(() => {
    const key = task.paused || task.wasAsked("") ? undefined : keyOf(task)
    const writes = key === undefined ? undefined : textOf(task)
    if (key === undefined || writes === undefined) return Effect.void
    const ttl = policy.ttl === undefined ? undefined : Duration.decode(policy.ttl)
    return NodeCache.keep(cache, { ...key, value: writes, ttl })
  })
  return Effect.zipLeft(body, keep)
}

const textOf = ({ run, writes }: TaskState): string | undefined => {
  const encoded: Array<Write> = []
  for (const write of writes) {
    const spec = run.topology.channels[write.channel]!
    if (!spec.tracked) return undefined
    const text = write.encoded === undefined ? spec.codec.encodeUpdate(write.value) : Either.right(write.encoded)
    if (Either.isLeft(text)) return undefined
    encoded.push({ ...write, encoded: text.right })
  }
  return encodeWrites(run, encoded)
}

const keyOf = (task: TaskState): NodeCache.Key | undefined => {
  const { input, node, run } = task
  const policy = node.policy.cache
  if (policy === undefined) return undefined
  const key = policy.key === undefined ? inputText(task) : textOrNone(policy.key(input))
  return key === undefined ? undefined : { graph: run.topology.identity.name, node: node.name, key }
}

/** The input as JSON text; none if it holds something that is never saved. */
const inputText = ({ input, node, run, send }: TaskState): string | undefined => {
  const { channelIds, channels } = run.topology
  const specOf = (name: string) => channels[channelIds.get(name) ?? -1]
  if (send !== undefined) {
    const names = typeof send.arg === "object" && send.arg !== null ? Object.keys(send.arg) : []
    if (names.some((name) => specOf(name)?.tracked === false)) return undefined
    const encoded = node.input.encodeUpdate(send.arg)
    return Either.isRight(encoded) ? `[${encoded.right.text ?? ""}]` : undefined
  }
  const members: Array<string> = []
  for (const [name, value] of Object.entries(input as Record<string, unknown>)) {
    const spec = specOf(name)
    if (spec === undefined || !spec.tracked) return undefined
    const text = spec.codec.encodeValue(value)
    if (Either.isLeft(text)) return undefined
    members.push(`${JSON.stringify(name)}:${text.right ?? ""}`)
  }
  return `{${members.join(",")}}`
}
