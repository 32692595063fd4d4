/** Runners of a cluster within one process, over one database. */

import type { Sharding } from "@effect/cluster"
import { RunnerAddress, type ShardingConfig, SingleRunner } from "@effect/cluster"
import { SqliteClient } from "@effect/sql-sqlite-node"
import { Effect, Exit, Layer, Option, Scope } from "effect"
import type { Checkpointer } from "effect-pregel"
import * as SqlCheckpointer from "effect-pregel/SqlCheckpointer"

type Config = Partial<ShardingConfig.ShardingConfig["Type"]>

/** Short times, so that tests need not wait. */
export const QUICK: Config = {
  shardsPerGroup: 8,
  shardLockExpiration: "2 seconds",
  shardLockRefreshInterval: "200 millis",
  refreshAssignmentsInterval: "100 millis",
  entityMessagePollInterval: "100 millis",
  entityReplyPollInterval: "50 millis",
  entityTerminationTimeout: "10 seconds"
}

/** A runner that finds its messages in the file; calls of what reads threads reach only its own. */
export const runner = (
  filename: string,
  port: number,
  config: Config = {},
  checkpointer: Layer.Layer<Checkpointer.Checkpointer> = Layer.orDie(
    SqlCheckpointer.layer().pipe(Layer.provide(SqliteClient.layer({ filename })))
  )
): Layer.Layer<Sharding.Sharding | Checkpointer.Checkpointer> =>
  SingleRunner.layer({
    runnerStorage: "sql",
    shardingConfig: {
      ...QUICK,
      runnerAddress: Option.some(RunnerAddress.make("localhost", port)),
      ...config
    }
  }).pipe(Layer.provide(SqliteClient.layer({ filename })), Layer.provideMerge(checkpointer), Layer.orDie)

/** A layer that is built now and released when asked. */
export const launch = <A>(layer: Layer.Layer<A>) =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const context = yield* Layer.buildWithScope(layer, scope)
    return { context, stop: Scope.close(scope, Exit.void) }
  })

/**
 * A storage whose process dies at one of its calls, before or after it took effect: nothing comes back from that call
 * on. Counts the calls.
 */
export const dying = (saver: Checkpointer.Checkpointer["Type"], at: number, takesEffect: boolean) => {
  const counted = { calls: 0, dead: Effect.unsafeMakeLatch() }
  const dies = Effect.zipRight(counted.dead.open, Effect.interruptible(Effect.never))
  const call = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      const number = ++counted.calls
      if (number < at) return effect
      return number === at && takesEffect ? Effect.zipRight(effect, dies) : dies
    })
  const service: Checkpointer.Checkpointer["Type"] = {
    ...saver,
    takeFence: (thread) => call(saver.takeFence(thread)),
    load: (address, id) => call(saver.load(address, id)),
    commit: (commit) => call(saver.commit(commit)),
    write: (staged) => call(saver.write(staged)),
    putWrites: (...args) => call(saver.putWrites(...args)),
    dropWrites: (address, seq, tasks) => call(saver.dropWrites(address, seq, tasks)),
    setStatus: (thread, status) => call(saver.setStatus(thread, status))
  }
  return { service, counted }
}
