/** Packets that run a node with an input of their own: the map step of a map-reduce. */
import { timeoutPolicy } from "./internal/timeout.js"
import type { NodeTimeout } from "./Topology.js"

const TypeId: unique symbol = Symbol.for("effect-pregel/Send")

/** Options of one `Send`. */
export interface SendOptions {
  /** Replaces the target node's time limits. */
  readonly timeout?: NodeTimeout | undefined
  /** Names this instance: tells stateful subgraphs of parallel sends apart. Unique among the sends of a step. */
  readonly key?: string | undefined
}

/** Runs `node` once in the next superstep with `arg` as its whole input. */
export interface Send<out Node extends string = string, out Arg = unknown> {
  readonly [TypeId]: typeof TypeId
  readonly node: Node
  readonly arg: Arg
  readonly options: SendOptions | undefined
}

class SendImpl {
  readonly [TypeId] = TypeId
  constructor(
    readonly node: string,
    readonly arg: unknown,
    readonly options: SendOptions | undefined
  ) {}
}

/**
 * Runs `node` once in the next superstep with `arg` as its whole input: several sends to one node are several tasks.
 *
 * It is returned by a router, by a node that declares the target with its option `goto`, or in a `Command`.
 *
 * @example
 * ```ts
 * import { Send } from "effect-pregel"
 *
 * const route = (state: { readonly names: ReadonlyArray<string> }) =>
 *   state.names.map((name) => Send.make("greet", { name }))
 * ```
 */
export const make = <const Node extends string, const Arg>(
  node: Node,
  arg: Arg,
  options?: SendOptions
): Send<Node, Arg> => new SendImpl(node, arg, options && plain(options)) as Send<Node, Arg>

/** Options as they are saved. */
const plain = (options: SendOptions): SendOptions =>
  options.timeout === undefined ? options : { ...options, timeout: timeoutPolicy(options.timeout) ?? {} }

/** Tells whether a value is a `Send`. */
export const isSend = (value: unknown): value is Send => value instanceof SendImpl
