/** The same program on LangGraph. */
import { Annotation, START, StateGraph } from "@langchain/langgraph"
import { expectEqual } from "../workload.js"

const State = Annotation.Root({ count: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 }) })

const add = () => ({ count: 1 })

export const first = async (): Promise<void> => {
  const graph = new StateGraph(State)
    .addNode("a", add)
    .addNode("b", add)
    .addNode("c", add)
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addEdge("b", "c")
    .compile()
  expectEqual((await graph.invoke({ count: 0 })).count, 3, "count")
}
