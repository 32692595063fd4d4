import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Channel, Graph } from "effect-pregel"
import { log } from "./thread.js"

/** The state of most test graphs: a log that nodes add their names to. */
export const names = { foo: log }

/** A node that adds words to the log. */
export const says =
  (...words: ReadonlyArray<string>) =>
  () =>
    Effect.succeed({ foo: words })

/** A text that is replaced. */
export const word = Channel.lastValue(Schema.String)

/** Stops before its second node. Tests let a node run it: no node is this graph. */
export const packing = Graph.make("packing", { bag: Channel.append(Schema.String) })
  .addNode("socks", () => Effect.succeed({ bag: "socks" }))
  .addNode("shoes", () => Effect.succeed({ bag: "shoes" }))
  .addEdge(Graph.START, "socks")
  .addEdge("socks", "shoes")
  .compile({ interruptBefore: ["shoes"] })
