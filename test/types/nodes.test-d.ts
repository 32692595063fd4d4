/** Nodes: their names, what they see, what they return. */
// @effect-diagnostics floatingEffect:off
import * as Effect from "effect/Effect"
import { expectTypeOf, test } from "vitest"
import * as Channel from "../../src/Channel.js"
import * as Command from "../../src/Command.js"
import * as Graph from "../../src/Graph.js"
import { channels, empty, exactly } from "./support.js"

const one = empty.addNode("one", () => Effect.succeed({ count: 1 }))
declare const choice: "yes" | "no"
declare const text: string
declare const channel: "note" | "choice"

test("a node sees a readonly record; channels without initial value are optional", () => {
  empty.addNode("see", (state) => {
    type Seen = {
      readonly count: number
      readonly log: ReadonlyArray<string>
      readonly choice?: "yes" | "no"
      readonly note?: string
    }
    exactly<typeof state, Seen>(true)
    return Effect.void
  })
})

test("an update names some of the channels, with what they take", () => {
  empty.addNode("a", () => Effect.succeed({ count: 1, log: "one entry", choice: "yes" }))
  empty.addNode("b", () => Effect.succeed({ log: ["two", "entries"], note: text }))
  empty.addNode("c", () => Effect.succeed({ log: Channel.overwrite(["only"]), count: Channel.overwrite(0) }))
})

test("a node may return nothing", () => {
  empty.addNode("a", () => Effect.void)
  empty.addNode("b", () => Effect.succeed(null))
  empty.addNode("c", () => Effect.succeed({}))
  empty.addNode("d", () => Effect.never)
})

test("literals keep their types in generators and branches", () => {
  empty.addNode("gen", (state) =>
    Effect.gen(function* () {
      yield* Effect.void
      if (state.count > 1) return { choice: "yes" }
      return { choice: "no", count: 2 }
    })
  )
  empty.addNode("map", (state) => Effect.map(Effect.void, () => (state.count > 1 ? { choice } : { count: 1 })))
})

test("a command takes a record or a list of pairs", () => {
  empty.addNode("record", () => Effect.succeed(Command.make({ update: { choice: "yes", count: 1 } })))
  const pairs = [
    ["log", "a"],
    ["log", "b"],
    ["count", 1]
  ] as const
  empty.addNode("pairs", () => Effect.succeed(Command.make({ update: pairs })))
  empty.addNode("gen", () =>
    Effect.gen(function* () {
      yield* Effect.void
      return Command.make({ update: { log: ["a"] } })
    })
  )
})

test("a node that returns `any` is left to the run", () => {
  const app = empty.addNode("any", () => Effect.succeed(JSON.parse("{}"))).compile()
  exactly<Graph.NodeNames<typeof app>, "any">(true)
  exactly<Graph.Error<typeof app>, never>(true)
})

test("`reads` narrows what a node sees", () => {
  empty.addNode(
    "see",
    (state) => {
      exactly<typeof state, { readonly count: number; readonly note?: string }>(true)
      return Effect.void
    },
    { reads: ["count", "note"] }
  )
})

test("names of nodes accumulate", () => {
  const app = one.addNode("two", () => Effect.void).compile()
  exactly<Graph.NodeNames<typeof app>, "one" | "two">(true)
})

test("a name that is known at run time only is left to compile", () => {
  empty.addNode(text, () => Effect.void)
})

test("refused: a second node of a name", () => {
  // @ts-expect-error: a node of this name is already added
  one.addNode("one", () => Effect.void)
})

test("refused: the name of a virtual node", () => {
  // @ts-expect-error: this name is reserved
  empty.addNode(Graph.START, () => Effect.void)
  // @ts-expect-error: this name is reserved
  empty.addNode("__end__", () => Effect.void)
})

test("refused: a name of the engine", () => {
  // @ts-expect-error: this name is reserved
  empty.addNode("__mine", () => Effect.void)
})

test("refused: a value of a wrong type", () => {
  // @ts-expect-error: string is no number
  empty.addNode("a", () => Effect.succeed({ count: "1" }))
})

test("refused: a literal outside the channel's", () => {
  // @ts-expect-error: "maybe" is neither "yes" nor "no"
  empty.addNode("a", () => Effect.succeed({ choice: "maybe" }))
})

test("refused: an item of a wrong type in a log", () => {
  // @ts-expect-error: a number in a list of strings
  empty.addNode("a", () => Effect.succeed({ log: ["a", 1] }))
})

test("refused: a misspelt channel alone", () => {
  // @ts-expect-error: the graph has no such channel
  empty.addNode("a", () => Effect.succeed({ conut: 1 }))
})

test("refused: a misspelt channel beside a right one", () => {
  // @ts-expect-error: the graph has no such channel
  empty.addNode("a", () => Effect.succeed({ count: 1, conut: 2 }))
})

test("refused: a misspelt channel through a generator", () => {
  const body = function* () {
    return yield* Effect.succeed({ count: 1, conut: 2 })
  }
  // @ts-expect-error: the graph has no such channel
  empty.addNode("a", () => Effect.gen(body))
})

test("refused: a misspelt channel in one of several results", () => {
  // @ts-expect-error: the graph has no such channel
  empty.addNode("a", (s) => Effect.map(Effect.void, () => (s.count > 1 ? { count: 1 } : { conut: 1 })))
})

test("refused: a misspelt channel inside a command", () => {
  // @ts-expect-error: the graph has no such channel
  empty.addNode("a", () => Effect.succeed(Command.make({ update: { count: 1, conut: 2 } })))
})

test("refused: a wrong value inside a command", () => {
  // @ts-expect-error: string is no number
  empty.addNode("a", () => Effect.succeed(Command.make({ update: { count: "1" } })))
})

test("refused: a misspelt channel in a list of pairs", () => {
  const update = [["count", 1] as const, ["conut", 2] as const]
  // @ts-expect-error: the graph has no such channel
  empty.addNode("a", () => Effect.succeed(Command.make({ update })))
})

test("refused: a wrong value in a list of pairs", () => {
  // @ts-expect-error: string is no number
  empty.addNode("a", () => Effect.succeed(Command.make({ update: [["count", "1"]] })))
})

test("refused: an update whose channel is known at run time only", () => {
  // @ts-expect-error: any name could be written
  empty.addNode("a", () => Effect.succeed({ [channel]: "yes" }))
})

test("refused: a list of updates without a command or a send", () => {
  // @ts-expect-error: the engine refuses such a list
  empty.addNode("a", () => Effect.succeed([{ count: 1 }, { count: 2 }]))
})

test("refused: a result that is no update", () => {
  // @ts-expect-error: a string
  empty.addNode("a", () => Effect.succeed("done"))
  // @ts-expect-error: a number
  empty.addNode("b", () => Effect.succeed(1))
})

test("refused: reading a channel that is not there", () => {
  // @ts-expect-error: no property conut
  empty.addNode("a", (state) => Effect.succeed({ count: state.conut }))
})

test("refused: reading a channel that may be empty as if it were not", () => {
  // @ts-expect-error: undefined is no string
  empty.addNode("a", (state) => Effect.sync(() => state.note.length).pipe(Effect.asVoid))
})

test("refused: reading a channel that `reads` leaves out", () => {
  // @ts-expect-error: no property log
  empty.addNode("a", (state) => Effect.succeed({ log: state.log }), { reads: ["count"] })
})

test("refused: changing the state in place", () => {
  // @ts-expect-error: a readonly property
  empty.addNode("a", (state) => Effect.sync(() => void (state.count = 1)))
  // @ts-expect-error: a readonly array
  empty.addNode("b", (state) => Effect.sync(() => void state.log.push("x")))
})

test("refused: names of channels that are not there, in `reads` and `subscribe`", () => {
  // @ts-expect-error: no channel conut
  empty.addNode("a", () => Effect.void, { reads: ["conut"] })
  // @ts-expect-error: no channel conut
  empty.addNode("b", () => Effect.void, { subscribe: ["conut"] })
})

test("refused: a node that is no effect", () => {
  // @ts-expect-error: a bare update
  empty.addNode("a", () => ({ count: 1 }))
  // @ts-expect-error: a promise
  empty.addNode("b", async () => ({ count: 1 }))
})

test("refused: a misspelt option", () => {
  // @ts-expect-error: no option timout
  empty.addNode("a", () => Effect.void, { timout: "1 second" })
})

test("input and output narrow both ends of a graph", () => {
  const app = Graph.make("io", channels, { input: ["note"], output: ["count", "choice"] })
    .addNode("a", () => Effect.void)
    .compile()
  exactly<Graph.Result<typeof app>, { readonly count: number; readonly choice?: "yes" | "no" }>(true)
  expectTypeOf<{ note: string }>().toExtend<Graph.Input<typeof app>>()
  exactly<keyof Graph.Input<typeof app>, "note">(true)
  exactly<keyof Graph.State<typeof app>, "count" | "log" | "choice" | "note">(true)
  exactly<keyof Graph.Update<typeof app>, "count" | "log" | "choice" | "note">(true)
})

test("refused: an input beyond the declared channels", () => {
  const app = Graph.make("io", channels, { input: ["note"] }).compile()
  // @ts-expect-error: count is no input
  app.invoke({ count: 1 })
  // @ts-expect-error: a misspelt channel beside a right one
  app.invoke({ note: "a", noet: "b" })
})

test("refused: an input or output that is no channel", () => {
  // @ts-expect-error: no channel conut
  Graph.make("io", channels, { input: ["conut"] })
  // @ts-expect-error: no channel conut
  Graph.make("io", channels, { output: ["conut"] })
})

test("refused: an initial value or a reducer's result of a wrong type", () => {
  const number = channels.count.definition.schema as import("effect/Schema").Schema<number>
  // @ts-expect-error: string is no number
  Channel.lastValue(number, { initial: () => "0" })
  // @ts-expect-error: string is no number
  Channel.reduce(number, { initial: () => 0, reducer: (a, b) => `${a}${b}` })
})

test("the type of a result has no more and no less than the channels", () => {
  exactly<Channel.State<typeof channels, "count">, { readonly count: number }>(true)
  exactly<Channel.State<typeof channels, "note">, { readonly note?: string }>(true)
})
