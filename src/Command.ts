/** Routing values: what a node may return besides an update of the state. */

import type { Send } from "./Send.js"

/** The virtual node a run starts from. */
export const START = "__start__"
/** The virtual node that ends a branch. */
export const END = "__end__"
/** Addresses the graph that encloses the one a `Command` is returned in. */
export const PARENT = "__parent__"

/** The type of `START`. */
export type START = typeof START
/** The type of `END`. */
export type END = typeof END
/** The type of `PARENT`. */
export type PARENT = typeof PARENT

const CommandTypeId: unique symbol = Symbol.for("effect-pregel/Command")

/** A place to go to next: a node's name, or a `Send` that runs it with an input of its own. */
export type Target = string | Send

/** One or several places to go to next. */
export type Goto<To extends Target = Target> = To | ReadonlyArray<To>

/**
 * An update of the state together with where to go next. `goto` adds to the node's static edges. With `graph` the
 * command leaves this graph: it is applied by the enclosing graph (`PARENT`) or by the named one around it.
 */
export interface Command<out Update = unknown, out To extends Target = Target, out Parent extends string = string> {
  readonly [CommandTypeId]: typeof CommandTypeId
  readonly update: Update | undefined
  readonly goto: ReadonlyArray<To>
  /** The graph that applies it; `undefined` for the one it is returned in. */
  readonly graph: Parent | undefined
}

class CommandImpl {
  readonly [CommandTypeId] = CommandTypeId
  constructor(
    readonly update: unknown,
    readonly goto: ReadonlyArray<Target>,
    readonly graph: string | undefined
  ) {}
}

/**
 * The places that a `goto` mentions. No branch is made of `G` itself: what is expected of the result would widen the
 * literals of `goto: condition ? "a" : "b"` to `string` otherwise.
 */
export type TargetOf<G> =
  G extends ReadonlyArray<infer To> ? Extract<To, Target> : G extends infer To ? Extract<To, Target> : never

/**
 * An update of the state together with where to go next.
 *
 * `update` is a record of channel updates, or a list of `[channel, update]` pairs when one channel is written twice.
 * `goto` names nodes of the graph, `END`, or `Send`s; a node declares them with its option `goto`. It adds to the
 * node's static edges. With `graph` the command is applied by an enclosing graph: the next one (`PARENT`), or the one of
 * that name; without such a graph the run fails with `UnknownNode`.
 *
 * @example
 * ```ts
 * import { Command, Send } from "effect-pregel"
 *
 * const again = Command.make({ update: { tries: 1 }, goto: "ask" })
 * const twice = Command.make({ update: [["log", "a"], ["log", "b"]] })
 * const fanOut = Command.make({ goto: ["report", Send.make("greet", { name: "Ada" })] })
 * ```
 */
export const make = <const Update = never, const G extends Goto = never, const Parent extends string = never>(options: {
  readonly update?: Update | undefined
  readonly goto?: G | undefined
  readonly graph?: Parent | undefined
}): Command<Update, TargetOf<NoInfer<G>>, NoInfer<Parent>> => {
  const goto = options.goto as Goto | undefined
  return new CommandImpl(
    options.update,
    goto === undefined ? [] : Array.isArray(goto) ? goto : [goto as Target],
    options.graph
  ) as never
}

/** Tells whether a value is a `Command`. */
export const isCommand = (value: unknown): value is Command => value instanceof CommandImpl
