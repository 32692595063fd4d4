/** Routing values: what a node may return besides an update of the state. */

import type { Send } from "./Send.js"

/** The virtual node a run starts from. */
export const START = "__start__"
/** The virtual node that ends a branch. */
export const END = "__end__"
/** Addresses the graph that encloses the one a `Command` is returned in. */
export const PARENT = "__parent__"

export type START = typeof START
export type END = typeof END
export type PARENT = typeof PARENT

const CommandTypeId: unique symbol = Symbol.for("effect-pregel/Command")

/** One or several places to go to next. */
export type Goto<Target extends string> = Target | Send<Target> | ReadonlyArray<Target | Send<Target>>

/**
 * An update of the state together with where to go next. `goto` adds to the node's static edges. With `graph` the
 * command leaves this graph: it is applied by the enclosing graph (`PARENT`) or by the named one around it.
 */
export interface Command<out Update = unknown, out Target extends string = string, out G extends string = string> {
  readonly [CommandTypeId]: typeof CommandTypeId
  readonly update: Update | undefined
  readonly goto: ReadonlyArray<Target | Send<Target>>
  readonly graph: G | undefined
}

class CommandImpl {
  readonly [CommandTypeId] = CommandTypeId
  constructor(
    readonly update: unknown,
    readonly goto: ReadonlyArray<string | Send>,
    readonly graph: string | undefined
  ) {}
}

/** The names that a `goto` mentions. */
export type TargetOf<G> = G extends string
  ? G
  : G extends Send<infer N, unknown>
    ? N
    : G extends ReadonlyArray<infer I>
      ? TargetOf<I>
      : never

/**
 * An update of the state together with where to go next.
 *
 * `update` is a record of channel updates, or a list of `[channel, update]` pairs when one channel is written twice.
 */
export const make = <
  const Update = never,
  const G extends Goto<string> = never,
  const Parent extends string = never
>(options: {
  readonly update?: Update | undefined
  readonly goto?: G | undefined
  readonly graph?: Parent | undefined
}): Command<Update, TargetOf<G>, Parent> => {
  const goto = options.goto as Goto<string> | undefined
  return new CommandImpl(
    options.update,
    goto === undefined ? [] : Array.isArray(goto) ? goto : [goto as string | Send],
    options.graph
  ) as never
}

/** Tells whether a value is a `Command`. */
export const isCommand = (value: unknown): value is Command => value instanceof CommandImpl
