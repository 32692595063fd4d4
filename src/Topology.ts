/**
 * A compiled graph as data: numbered channels and nodes, and the index from a channel to the nodes it triggers.
 *
 * `Graph.compile` makes it once; `Algo` and `Loop` only read it. Nothing here depends on a run.
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Schedule from "effect/Schedule"
import type * as Channel from "./Channel.js"
import type { GraphIdentity } from "./Checkpoint.js"
import type * as Codec from "./Codec.js"

/** One channel of a compiled graph. */
export interface ChannelSpec {
  readonly id: number
  readonly name: string
  readonly channel: Channel.Any
  readonly codec: Codec.Codec
  /** Part of the state that nodes see, not one of the engine's own. */
  readonly isState: boolean
  /** Lives for one superstep: an empty update clears it. */
  readonly transient: boolean
  /** `finish` can make it available. */
  readonly afterFinish: boolean
  /** Saved in checkpoints. */
  readonly tracked: boolean
  readonly append: boolean
  /** Nodes that it triggers. */
  readonly subscribers: ReadonlyArray<number>
}

/** Where a conditional edge may lead. */
export interface Branch {
  readonly name: string
  /** Sees the state with the source's own writes applied. A destination, a list of them, or an effect of one. */
  readonly route: (state: any) => unknown
  /** What each result means; `undefined` where results are node names. */
  readonly targets: ReadonlyMap<string, string> | undefined
}

/** Time limits of one attempt of a node. */
export interface TimeoutPolicy {
  readonly run?: Duration.DurationInput | undefined
  /** Time since the last `heartbeat`, event or activity. */
  readonly idle?: Duration.DurationInput | undefined
  /** What counts as progress for `idle`: everything the task tells the engine (default), or heartbeats only. */
  readonly refreshOn?: "auto" | "heartbeat" | undefined
}

/** Time limits as nodes and sends take them: a bare duration limits the whole attempt. */
export type NodeTimeout = Duration.DurationInput | TimeoutPolicy

/** When a failed attempt is repeated. */
export interface RetryPolicy<out R = any> {
  readonly schedule: Schedule.Schedule<unknown, any, R>
  readonly while?: ((error: any) => boolean) | undefined
}

/** Whose result is reused for an equal input. */
export interface CachePolicy {
  readonly key?: ((input: any) => unknown) | undefined
  readonly ttl?: Duration.DurationInput | undefined
}

/** What the engine does around a node's effect; absent parts cost nothing. */
export interface NodePolicy {
  readonly retry?: RetryPolicy | undefined
  readonly timeout?: TimeoutPolicy | undefined
  readonly cache?: CachePolicy | undefined
}

/** One node of a compiled graph. */
export interface Node {
  readonly id: number
  readonly name: string
  /** Position among all nodes by name: the order in which writes of a superstep are folded. */
  readonly rank: number
  readonly triggers: ReadonlyArray<number>
  /** State channels that its input is made of. */
  readonly reads: ReadonlyArray<number>
  /** The engine's own nodes emit no events and match no `"*"`. */
  readonly hidden: boolean
  /** Decodes what a `Send` carries to it. */
  readonly input: Codec.Codec
  readonly run: (input: any) => Effect.Effect<unknown, unknown, any>
  /** Trigger channels of static edges. */
  readonly edges: ReadonlyArray<number>
  /** Joins it is a source of. */
  readonly joins: ReadonlyArray<number>
  readonly branches: ReadonlyArray<Branch>
  /** Nodes that its results may go to; `undefined` allows every node. */
  readonly targets: ReadonlySet<string> | undefined
  readonly policy: NodePolicy
  /** The node that handles its failures. */
  readonly errorHandler: number | undefined
  /** State channels that it may write; `undefined` allows every one. */
  readonly writes: ReadonlySet<number> | undefined
  /** It is run by `Send`s only. */
  readonly worker: boolean
  /** What threads may know it as. */
  readonly renamedFrom: string | undefined
  /** The graph that the node is. */
  readonly graph?: Topology | undefined
}

/** A join edge: `target` runs when all of `sources` have. */
export interface Join {
  readonly channel: number
  readonly sources: ReadonlyArray<string>
  readonly target: string
  readonly optional: boolean
}

/** A compiled graph as data. */
export interface Topology {
  readonly identity: GraphIdentity
  readonly channels: ReadonlyArray<ChannelSpec>
  readonly channelIds: ReadonlyMap<string, number>
  /** Former names of channels. */
  readonly renamed: ReadonlyMap<string, number>
  /** Former names of nodes, to the present ones. */
  readonly renamedNodes: ReadonlyMap<string, string>
  /** Schema versions of channels, where they are not the first. */
  readonly versions: Codec.Versions | undefined
  /** Some node's results are reused for equal inputs. */
  readonly caches: boolean
  /** The node that a trigger or join channel of that name leads to, for names that the graph no longer has. */
  readonly waitsFor: (channel: string) => string | undefined
  readonly nodes: ReadonlyArray<Node>
  readonly nodeIds: ReadonlyMap<string, number>
  /** State channels, in order of declaration. */
  readonly state: ReadonlyArray<number>
  readonly input: ReadonlyArray<number>
  readonly output: ReadonlyArray<number>
  /** Holds the `Send`s for the next superstep. */
  readonly sends: number
  /** Holds the run's input for the entry step. */
  readonly start: number
  /** The engine's own node that writes the run's input to the state. */
  readonly entry: number
  /** The trigger channel of a node by node id. */
  readonly triggerOf: ReadonlyArray<number>
  readonly joins: ReadonlyArray<Join>
  /** Checks custom events, where the graph declares their type. */
  readonly checkEvent: ((value: unknown) => Codec.Refusal | undefined) | undefined
}
