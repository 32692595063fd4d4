/** How the processes of the cluster are wired: all of them share one PostgreSQL. */
import { RunnerAddress } from "@effect/cluster"
import * as NodeClusterSocket from "@effect/platform-node/NodeClusterSocket"
import * as PgClient from "@effect/sql-pg/PgClient"
import { Duration, Layer, Option, Redacted } from "effect"
import * as GraphEntity from "effect-pregel/GraphEntity"
import * as SqlCheckpointer from "effect-pregel/SqlCheckpointer"
import { hosted, ledgerLive, Orders } from "./orders.js"

export interface Settings {
  readonly database: string
  /** Seconds after which a runner that is silent loses its threads. */
  readonly expiry: number
  /** Milliseconds that a side effect takes on average. */
  readonly work: number
}

/** A transaction of a process that stands still must not hold its locks for ever. */
const address = ({ database, expiry }: Settings) =>
  Redacted.make(`${database}?idle_in_transaction_session_timeout=${expiry * 1000}`)

export const databaseLive = (settings: Settings, maxConnections = 12) =>
  PgClient.layer({ url: address(settings), maxConnections })

/** The same number of shards everywhere, for ever; a few for each runner there may be one day. */
const tuning = ({ expiry }: Settings) => ({
  ...GraphEntity.tuning({ takeover: Duration.seconds(expiry), superstep: "5 seconds" }),
  shardsPerGroup: 60
})

/** A process that hosts threads. */
export const runnerLive = (settings: Settings, port: number) => {
  const cluster = NodeClusterSocket.layer({
    storage: "sql",
    shardingConfig: { ...tuning(settings), runnerAddress: Option.some(RunnerAddress.make("127.0.0.1", port)) }
  })
  return hosted.layer.pipe(
    Layer.provide(Layer.merge(SqlCheckpointer.layer(), ledgerLive(`${port}`, settings.work))),
    Layer.provide(cluster),
    Layer.provide(databaseLive(settings))
  )
}

/** A process that only calls. */
export const clientLive = (settings: Settings) =>
  hosted
    .threads(Orders)
    .pipe(
      Layer.provide(NodeClusterSocket.layer({ storage: "sql", clientOnly: true, shardingConfig: tuning(settings) })),
      Layer.provideMerge(databaseLive(settings))
    )
