/** Edges, `goto`, sends, routers and breakpoints. */
// @effect-diagnostics floatingEffect:off
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { test } from "vitest"
import * as Command from "../../src/Command.js"
import * as Graph from "../../src/Graph.js"
import * as Send from "../../src/Send.js"
import { empty, exactly } from "./support.js"

const Job = Schema.Struct({ kind: Schema.Literal("a", "b"), size: Schema.Number })

const two = empty.addNode("one", () => Effect.succeed({ count: 1 })).addNode("two", () => Effect.void)
const work = two.addWorker("work", Job, (job) => Effect.succeed({ count: job.size }))

test("edges and joins name nodes", () => {
  two.addEdge(Graph.START, "one").addEdge("one", "two").addEdge("two", Graph.END)
  two.addEdge(["one", "two"], Graph.END).addEdge(["one", "two"], "one", { optional: true })
})

test("a worker gets what its schema decodes to", () => {
  two.addWorker("w", Job, (job) => {
    exactly<typeof job, { readonly kind: "a" | "b"; readonly size: number }>(true)
    return Effect.void
  })
})

test("a router returns targets, a list of them, or an effect of either", () => {
  two
    .addConditionalEdges("one", (state) => (state.count > 1 ? "two" : Graph.END), ["two", Graph.END])
    .addConditionalEdges("one", () => ["one", "two"], ["one", "two"])
    .addConditionalEdges(Graph.START, () => Effect.succeed("one"), ["one"])
    .addConditionalEdges("two", () => Effect.succeed(["one", "two"]), ["one", "two"])
})

test("a router returns labels where targets are labelled", () => {
  two.addConditionalEdges("one", (state) => (state.count > 1 ? "again" : "done"), { again: "one", done: Graph.END })
})

test("a router returns sends that carry what the target takes", () => {
  work.addConditionalEdges("one", (state) => state.log.map(() => Send.make("work", { kind: "a", size: 1 })), ["work"])
  work.addConditionalEdges("one", () => Effect.succeed([Send.make("work", { kind: "a", size: 1 }), "two"]), [
    "work",
    "two"
  ])
})

test("a node goes to what it declares, by command or send", () => {
  work
    .addNode("a", () => Effect.succeed(Command.make({ goto: "one" })), { goto: ["one", "two"] })
    .addNode("b", () => Effect.succeed(Command.make({ goto: ["one", Graph.END] })), { goto: ["one"] })
    .addNode("c", () => Effect.succeed(Send.make("work", { kind: "b", size: 1 })), { goto: ["work"] })
    .addNode("d", () => Effect.succeed(Command.make({ goto: [Send.make("work", { kind: "b", size: 1 }), "one"] })), {
      goto: ["one", "work"]
    })
    .addNode("e", () => Effect.succeed([{ count: 1 }, Command.make({ goto: "one" })]), { goto: ["one"] })
    .compile()
})

test("a node may go to one that is added later", () => {
  empty
    .addNode("a", () => Effect.succeed(Command.make({ goto: "b" })), { goto: ["b"] })
    .addNode("b", () => Effect.void)
    .compile()
  empty
    .addNode("a", () => Effect.succeed([Send.make("w", { kind: "a", size: 1 })]), { goto: ["w"] })
    .addWorker("w", Job, () => Effect.void)
    .compile()
})

test("a command to the enclosing graph is not checked against this one", () => {
  two.addNode("a", () => Effect.succeed(Command.make({ goto: "elsewhere", update: { other: 1 }, graph: Graph.PARENT })))
})

test("a sequence adds its nodes by name", () => {
  const app = two
    .addSequence([
      ["first", (state) => Effect.succeed({ count: state.count })],
      ["second", () => Effect.succeed({ choice: "yes" })]
    ])
    .addEdge("two", "first")
    .compile()
  exactly<Graph.NodeNames<typeof app>, "one" | "two" | "first" | "second">(true)
})

test("breakpoints name nodes", () => {
  two.compile({ interruptBefore: ["one"], interruptAfter: "*" })
  two.compile().invoke({ count: 1 }, { interruptBefore: "*", interruptAfter: ["two"] })
})

test("a command may start a run", () => {
  work.compile().invoke(Command.make({ update: { count: 1 }, goto: "one" }))
  work.compile().invoke(Command.make({ goto: Send.make("work", { kind: "a", size: 1 }) }))
})

test("refused: an edge to or from a node that was not added", () => {
  // @ts-expect-error: no node tow
  two.addEdge("one", "tow")
  // @ts-expect-error: no node tow
  two.addEdge("tow", "one")
})

test("refused: an edge from END or to START", () => {
  // @ts-expect-error: nothing runs after END
  two.addEdge(Graph.END, "one")
  // @ts-expect-error: nothing runs before START
  two.addEdge("one", Graph.START)
})

test("refused: a join of a node that was not added, or of START", () => {
  // @ts-expect-error: no node tow
  two.addEdge(["one", "tow"], "two")
  // @ts-expect-error: a join can't wait for START
  two.addEdge(["one", Graph.START], "two")
})

test("refused: a router of a node that was not added", () => {
  // @ts-expect-error: no node tow
  two.addConditionalEdges("tow", () => "one", ["one"])
})

test("refused: a target that was not added", () => {
  // @ts-expect-error: no node tow
  two.addConditionalEdges("one", () => "two", ["two", "tow"])
})

test("refused: a router's result outside its targets", () => {
  // @ts-expect-error: one is no target
  two.addConditionalEdges("one", () => "one", ["two"])
  // @ts-expect-error: one is no target
  two.addConditionalEdges("one", () => ["two", "one"], ["two"])
})

test("refused: an effectful router's result outside its targets", () => {
  // @ts-expect-error: one is no target
  two.addConditionalEdges("one", () => Effect.succeed("one"), ["two"])
})

test("refused: a router's result that is no label", () => {
  // @ts-expect-error: two is a target, not a label
  two.addConditionalEdges("one", () => "two", { again: "one", done: "two" })
})

test("refused: a label for a node that was not added", () => {
  // @ts-expect-error: no node tow
  two.addConditionalEdges("one", () => "again", { again: "tow" })
})

test("refused: a router's send to a node outside its targets", () => {
  // @ts-expect-error: work is no target
  work.addConditionalEdges("one", () => [Send.make("work", { kind: "a", size: 1 })], ["two"])
})

test("refused: a router's send with a wrong argument", () => {
  // @ts-expect-error: "c" is neither "a" nor "b"
  work.addConditionalEdges("one", () => [Send.make("work", { kind: "c", size: 1 })], ["work"])
  // @ts-expect-error: size is missing
  work.addConditionalEdges("one", () => Send.make("work", { kind: "a" }), ["work"])
})

test("refused: a goto that is not declared", () => {
  // @ts-expect-error: declare this target in the node's option goto
  two.addNode("a", () => Effect.succeed(Command.make({ goto: "one" })))
  // @ts-expect-error: declare this target in the node's option goto
  two.addNode("b", () => Effect.succeed(Command.make({ goto: ["one", "two"] })), { goto: ["one"] })
})

test("refused: a goto through a generator that is not declared", () => {
  const body = function* () {
    return yield* Effect.succeed(Command.make({ goto: "one" }))
  }
  // @ts-expect-error: declare this target in the node's option goto
  two.addNode("a", () => Effect.gen(body))
})

test("refused: a goto that is never added", () => {
  const app = two.addNode("a", () => Effect.succeed(Command.make({ goto: "later" })), { goto: ["later"] })
  // @ts-expect-error: these goto targets are no nodes of the graph
  app.compile()
})

test("refused: a send to a node that is not declared", () => {
  // @ts-expect-error: declare this target in the node's option goto
  work.addNode("a", () => Effect.succeed(Send.make("work", { kind: "a", size: 1 })))
  // @ts-expect-error: declare this target in the node's option goto
  work.addNode("b", () => Effect.succeed(Command.make({ goto: Send.make("work", { kind: "a", size: 1 }) })))
})

test("refused: a send with a wrong argument to a node that is there", () => {
  // @ts-expect-error: this node takes another argument
  work.addNode("a", () => Effect.succeed(Send.make("work", { kind: "c", size: 1 })), { goto: ["work"] })
  // @ts-expect-error: this node takes another argument
  work.addNode("b", () => Effect.succeed([Send.make("work", { kind: "a" })]), { goto: ["work"] })
  // @ts-expect-error: this node takes another argument
  work.addNode("c", () => Effect.succeed(Command.make({ goto: Send.make("work", 1) })), { goto: ["work"] })
})

test("refused: a send with a wrong argument to a node that is added later", () => {
  const sends = empty.addNode("a", () => Effect.succeed(Send.make("w", { kind: "c", size: 1 })), { goto: ["w"] })
  // @ts-expect-error: this node takes another argument
  sends.addWorker("w", Job, () => Effect.void).compile()
})

test("refused: a send of a part of the state to a node that reads all of it", () => {
  // @ts-expect-error: this node takes the whole state
  two.addNode("a", () => Effect.succeed(Send.make("one", { count: 1 })), { goto: ["one"] })
})

test("refused: a breakpoint at a node that was not added", () => {
  // @ts-expect-error: no node tow
  two.compile({ interruptBefore: ["tow"] })
  // @ts-expect-error: no node tow
  two.compile().invoke({}, { interruptAfter: ["tow"] })
})

test("refused: a sequence with a taken name, a wrong update, or an undeclared goto", () => {
  // @ts-expect-error: a node of this name is already added
  two.addSequence([["one", () => Effect.void]])
  // @ts-expect-error: the graph has no such channel
  two.addSequence([["a", () => Effect.succeed({ count: 1, conut: 1 })]])
  // @ts-expect-error: declare this target in the node's option goto
  two.addSequence([["a", () => Effect.succeed(Command.make({ goto: "one" }))]])
})

test("refused: a command that starts a run with an unknown target or a wrong value", () => {
  // @ts-expect-error: no node tow
  work.compile().invoke(Command.make({ goto: "tow" }))
  // @ts-expect-error: string is no number
  work.compile().invoke(Command.make({ update: { count: "1" } }))
  // @ts-expect-error: this node takes another argument
  work.compile().invoke(Command.make({ goto: Send.make("work", { kind: "c", size: 1 }) }))
})
