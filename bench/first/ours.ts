/** A whole program on our engine: three nodes, compiled and run once. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Channel, Graph } from "effect-pregel"
import { expectEqual } from "../workload.js"

const add = () => Effect.succeed({ count: 1 })

export const first = async (): Promise<void> => {
  const graph = Graph.make("chain", {
    count: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
  })
    .addNode("a", add)
    .addNode("b", add)
    .addNode("c", add)
    .addEdge(Graph.START, "a")
    .addEdge("a", "b")
    .addEdge("b", "c")
    .compile()
  expectEqual((await Effect.runPromise(graph.invoke({ count: 0 }))).count, 3, "count")
}
