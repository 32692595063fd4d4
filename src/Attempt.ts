/**
 * One task's effect: run the node, collect its writes, follow its edges and branches, under the node's policy.
 *
 * Wrappers exist only where a policy asks for them. Each attempt starts from nothing: writes, counters and events of a
 * failed one do not count.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { keeping } from "./Cached.js"
import { InvalidUpdate, TaskTimeout } from "./GraphError.js"
import { deepFreeze } from "./internal/freeze.js"
import { timeoutPolicy } from "./internal/timeout.js"
import { addRoute, collect, follow, ParentCommand, type Sink } from "./Output.js"
import { Task } from "./Task.js"
import { type TaskState, TaskView } from "./TaskState.js"
import type { Branch, NodePolicy, RetryPolicy, TimeoutPolicy } from "./Topology.js"

type TaskEffect = Effect.Effect<void, unknown, any>

/** Turns a node's result into the task's writes. */
export const finish = (task: TaskState, output: unknown): TaskEffect => {
  const { node, run } = task
  const sink: Sink = {
    topology: run.topology,
    encode: run.persistence !== undefined,
    from: node.name,
    targets: node.targets,
    writes: [],
    declared: node.writes
  }
  const error = collect(sink, output)
  if (error !== undefined) return Effect.fail(error)
  follow(sink, node)
  return route(task, sink, 0)
}

/** Runs the routers from the `index`-th on; each sees the state with the task's own writes. */
const route = (task: TaskState, sink: Sink, index: number): TaskEffect => {
  const { node, run } = task
  for (let i = index; i < node.branches.length; i++) {
    const branch = node.branches[i]!
    const state = run.algo.localRead(run.channels, run.topology.state, sink.writes)
    if (Either.isLeft(state)) return Effect.fail(state.left)
    const result = branch.route(run.tree.freeze ? deepFreeze(state.right) : state.right)
    if (Effect.isEffect(result)) {
      return Effect.flatMap(result as TaskEffect, (value) => routed(task, sink, branch, value, i + 1))
    }
    const error = addRoute(sink, branch.targets, result)
    if (error !== undefined) return Effect.fail(error)
  }
  task.writes = sink.writes
  return Effect.void
}

const routed = (task: TaskState, sink: Sink, branch: Branch, value: unknown, next: number): TaskEffect => {
  const error = addRoute(sink, branch.targets, value)
  return error === undefined ? route(task, sink, next) : Effect.fail(error)
}

const once = (task: TaskState): TaskEffect =>
  Effect.flatMap(
    Effect.withFiberRuntime<unknown, unknown, any>((fiber) => {
      task.body = fiber
      const body: unknown = task.node.run(task.input)
      return Effect.isEffect(body) ? (body as Effect.Effect<unknown, unknown, any>) : noEffect(task, body)
    }),
    (output) => finish(task, output)
  )

/** Only untyped callers get here. */
const noEffect = ({ node, run }: TaskState, got: unknown) => {
  const what = typeof got === "object" ? Object.prototype.toString.call(got).slice("[object ".length, -1) : String(got)
  const detail = `expected the node to return an Effect, but got ${what}`
  return new InvalidUpdate({ reason: "InvalidReturn", node: node.name, step: run.step, detail })
}

/** The effect of a task. */
export const attempt = (task: TaskState): TaskEffect => {
  const { policy } = task.node
  return policy.cache === undefined ? limited(task, policy) : keeping(task, policy.cache, limited(task, policy))
}

const limited = (task: TaskState, policy: NodePolicy): TaskEffect => {
  const given = task.send?.options?.timeout
  const timeout = given === undefined ? policy.timeout : timeoutPolicy(given)
  if (timeout === undefined && policy.retry === undefined) return once(task)
  const body = timeout === undefined ? once(task) : withTimeout(task, timeout, once(task))
  return policy.retry === undefined ? body : withRetry(task, policy.retry, body)
}

const withRetry = (task: TaskState, policy: RetryPolicy, body: TaskEffect): TaskEffect => {
  const again = Effect.suspend(() => {
    task.attempt++
    if (task.attempt === 1) return body
    task.restart()
    return Effect.provideService(body, Task, new TaskView(task))
  })
  return Effect.flatMap(Clock.currentTimeMillis, (now) => {
    task.firstAttempt = now
    task.attempt = 0
    return Effect.retry(again, {
      schedule: policy.schedule,
      while: (error) => !task.paused && !(error instanceof ParentCommand) && (policy.while?.(error) ?? true)
    })
  })
}

const withTimeout = (task: TaskState, policy: TimeoutPolicy, body: TaskEffect): TaskEffect => {
  let effect = body
  if (policy.run !== undefined) {
    const limitMillis = Duration.toMillis(policy.run)
    effect = Effect.timeoutFail(effect, {
      duration: policy.run,
      onTimeout: () => expired(task, "run", limitMillis, limitMillis)
    })
  }
  if (policy.idle !== undefined) effect = withIdleTimeout(task, policy, Duration.toMillis(policy.idle), effect)
  return effect
}

const expired = (task: TaskState, kind: "run" | "idle", limitMillis: number, elapsedMillis: number) => {
  task.restart()
  return new TaskTimeout({ node: task.node.name, kind, limitMillis, elapsedMillis, step: task.run.step })
}

/** One watchdog a task: it sleeps for what is left since the last progress. */
const withIdleTimeout = (task: TaskState, policy: TimeoutPolicy, limit: number, body: TaskEffect): TaskEffect =>
  Effect.flatMap(Effect.clock, (clock) => {
    const began = clock.unsafeCurrentTimeMillis()
    let progress = began
    task.onProgress = (heartbeat) => {
      if (heartbeat || policy.refreshOn !== "heartbeat") progress = clock.unsafeCurrentTimeMillis()
    }
    const watch: Effect.Effect<never, TaskTimeout> = Effect.suspend(() => {
      const now = clock.unsafeCurrentTimeMillis()
      const left = progress + limit - now
      return left <= 0
        ? Effect.fail(expired(task, "idle", limit, now - began))
        : Effect.zipRight(Effect.sleep(left), watch)
    })
    return Effect.raceFirst(body, watch)
  })
