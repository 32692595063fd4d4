import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"
import * as Activity from "../src/Activity.js"
import * as Channel from "../src/Channel.js"
import { layerMemory } from "../src/Checkpointer.js"
import * as Command from "../src/Command.js"
import * as Graph from "../src/Graph.js"
import * as Interrupt from "../src/Interrupt.js"
import * as Send from "../src/Send.js"
import * as Thread from "../src/Thread.js"
import {
  asked,
  before,
  collect,
  concat,
  failsWith,
  idBefore,
  log,
  makeTrace,
  questions,
  rows,
  snapshots,
  sum
} from "./support/thread.js"

const START = Graph.START
const END = Graph.END

const askHuman = (trace = makeTrace()) => ({
  trace,
  graph: Graph.make("ask", { value: log })
    .addNode("node_a", () => Effect.as(trace.note("node_a"), { value: ["a"] }))
    .addNode("ask_human", () =>
      Effect.zipRight(
        trace.note("ask_human"),
        Effect.map(Interrupt.interrupt<string>("What is your input?"), (answer) => ({ value: [`human:${answer}`] }))
      )
    )
    .addNode("node_b", () => Effect.as(trace.note("node_b"), { value: ["b"] }))
    .addEdge(START, "node_a")
    .addEdge("node_a", "ask_human")
    .addEdge("ask_human", "node_b")
    .compile()
})

/** One node that returns its answer. */
const one = () =>
  Graph.make("one", { value: Channel.append(Schema.Unknown) })
    .addNode("node", () => Effect.map(Interrupt.interrupt("q"), (value) => ({ value: [value] })))
    .addEdge(START, "node")
    .compile()

/** A child for each prompt, each with the nodes of these names, which all ask its prompt. */
const prompts = (trace: ReturnType<typeof makeTrace>, ...names: ReadonlyArray<string>) => {
  let builder = Graph.make("child_graph", { prompt: Channel.lastValue(Schema.String), human_inputs: log }) as any
  for (const name of names) {
    builder = builder
      .addNode(name, (state: any) =>
        Effect.gen(function* () {
          yield* trace.note(`${name} ${state.prompt}`)
          const answer = yield* Interrupt.interrupt<string>(state.prompt)
          return { human_inputs: [answer] }
        })
      )
      .addEdge(START, name)
  }
  const child = builder.compile() as Graph.CompiledGraph<
    { readonly human_inputs: ReadonlyArray<string> },
    { readonly prompt: string },
    never,
    unknown,
    never,
    never
  >
  return Graph.make("prompts", { prompts: log, human_inputs: log })
    .addWorker("child_graph", Schema.Struct({ prompt: Schema.String }), ({ prompt }) =>
      Effect.map(child.invoke({ prompt }), ({ human_inputs }) => ({ human_inputs }))
    )
    .addNode("cleanup", () => trace.note("cleanup"))
    .addConditionalEdges(START, (state) => state.prompts.map((prompt) => Send.make("child_graph", { prompt })), [
      "child_graph"
    ])
    .addEdge("child_graph", "cleanup")
    .compile()
}

it.effect("per-046 resuming runs the node again from its start", () =>
  Effect.gen(function* () {
    const { graph, trace } = askHuman()
    const thread = graph.thread("t")
    yield* thread.run({ value: [] })
    assert.deepStrictEqual(yield* thread.answer("hello"), { value: ["a", "human:hello", "b"] })
    assert.deepStrictEqual(trace.entries, ["node_a", "ask_human", "ask_human", "node_b"])
    assert.deepStrictEqual(yield* rows(thread), [
      ["loop", 3, [], { value: ["a", "human:hello", "b"] }],
      ["loop", 2, ["node_b"], { value: ["a", "human:hello"] }],
      ["loop", 1, ["ask_human"], { value: ["a"] }],
      ["loop", 0, ["node_a"], { value: [] }],
      ["input", -1, ["__start__"], { value: [] }]
    ])
    const asking = yield* before(thread, "ask_human")
    assert.deepStrictEqual(asking.tasks[0]!.result, { value: ["human:hello"] })
    assert.deepStrictEqual(
      asking.tasks[0]!.interrupts.map(({ value }) => value),
      ["What is your input?"]
    )
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-047 one map answers the pauses of many children, in the order of the sends", () =>
  Effect.gen(function* () {
    const all = ["a", "b", "c", "d", "e"]
    const thread = prompts(makeTrace(), "ask").thread("t")
    const outcome = yield* thread.run({ prompts: all })
    assert.deepStrictEqual(questions(outcome), all)
    const { interrupts } = yield* thread.state
    const answers = interrupts.map(({ id, value }) => [id, `human input for prompt ${value}`] as const).reverse()
    assert.deepStrictEqual(yield* thread.resume(Object.fromEntries(answers)), {
      prompts: all,
      human_inputs: all.map((prompt) => `human input for prompt ${prompt}`)
    })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-048 a bare answer is refused when several pauses wait, and nothing is consumed", () =>
  Effect.gen(function* () {
    const text = Channel.lastValue(Schema.String)
    const human = (key: "text_1" | "text_2") => (state: { text_1?: string; text_2?: string }) =>
      Effect.map(Interrupt.interrupt<string>({ text_to_revise: state[key] }), (answer) =>
        Command.make({ update: [[key, answer]] })
      )
    const graph = Graph.make("revise", { text_1: text, text_2: text })
      .addNode("human_node_1", human("text_1"))
      .addNode("human_node_2", human("text_2"))
      .addEdge(START, "human_node_1")
      .addEdge(START, "human_node_2")
      .compile()
    const thread = graph.thread("t")
    const outcome = yield* thread.run({ text_1: "original text 1", text_2: "original text 2" })
    const ids = asked(outcome).map(({ id }) => id)
    assert.strictEqual(new Set(ids).size, 2)
    const error = yield* failsWith(thread.answer("singular resume"), "AmbiguousResume")
    assert.deepStrictEqual(error.pending, ids)
    assert.deepStrictEqual(
      (yield* thread.state).interrupts.map(({ id }) => id),
      ids
    )
    const answers = asked(outcome).map(({ id, value }) => [
      id,
      `resume for prompt: ${(value as { text_to_revise: string }).text_to_revise}`
    ])
    assert.deepStrictEqual(yield* thread.resume(Object.fromEntries(answers)), {
      text_1: "resume for prompt: original text 1",
      text_2: "resume for prompt: original text 2"
    })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-050 the pauses of two nodes in each of two children are answered one at a time", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const thread = prompts(trace, "x", "y").thread("t")
    let outcome = yield* thread.run({ prompts: ["a", "b"] })
    const waiting: Array<ReadonlyArray<unknown>> = [questions(outcome)]
    const listed = [(yield* thread.state).interrupts.length]
    for (let i = 1; i <= 4; i++) {
      const { id } = asked(outcome)[0]!
      const events = yield* collect(thread.resumeStream(Thread.answers({ [id]: `Resume #${i}` })))
      const state = yield* thread.state
      listed.push(state.interrupts.length)
      waiting.push(state.interrupts.map(({ value }) => value))
      outcome = { _tag: "Paused", state: state.values, interrupts: state.interrupts, next: state.next }
      if (i === 2) assert.isTrue(events.some((event) => event._tag === "Updates" && event.node === "child_graph"))
    }
    assert.deepStrictEqual(waiting, [["a", "a", "b", "b"], ["a", "b", "b"], ["b", "b"], ["b"], []])
    assert.deepStrictEqual(listed, [4, 3, 2, 1, 0])
    assert.deepStrictEqual((yield* thread.state).values.human_inputs, [
      "Resume #1",
      "Resume #2",
      "Resume #3",
      "Resume #4"
    ])
    // The first run of each of the four nodes, and one more for each answer.
    assert.strictEqual(trace.entries.filter((entry) => entry !== "cleanup").length, 8)
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-051 a map may answer some of the pauses, and only their tasks run again", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const thread = prompts(trace, "ask").thread("t")
    const first = yield* thread.run({ prompts: ["a", "b", "c"] })
    const [a, b, c] = asked(first).map(({ id }) => id)
    trace.take()
    const second = yield* failsWith(thread.resume({ [b!]: "B" }), "GraphInterrupt")
    assert.deepStrictEqual(
      second.interrupts.map(({ id, value }) => [id, value]),
      [
        [a, "a"],
        [c, "c"]
      ]
    )
    assert.deepStrictEqual(trace.take(), ["ask b"])
    const state = yield* thread.state
    assert.deepStrictEqual(state.values.human_inputs, ["B"])
    assert.deepStrictEqual(state.next, ["child_graph", "child_graph"])
    assert.deepStrictEqual(
      state.tasks.map(({ interrupts, result }) => [result, interrupts.map(({ value }) => value)]),
      [
        [undefined, ["a"]],
        [{ human_inputs: ["B"] }, ["b"]],
        [undefined, ["c"]]
      ]
    )
    yield* failsWith(thread.answer("x"), "AmbiguousResume")
    assert.deepStrictEqual(yield* thread.resume({ [a!]: "A", [c!]: "C" }), {
      prompts: ["a", "b", "c"],
      human_inputs: ["A", "B", "C"]
    })
    assert.deepStrictEqual(trace.take().sort(), ["ask a", "ask c", "cleanup"])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-052 unknown ids are refused before anything is accepted, and objects are answers as they are", () =>
  Effect.gen(function* () {
    const thread = one().thread("a")
    const { id } = asked(yield* thread.run({}))[0]!
    const unknown = "0".repeat(32)
    const error = yield* failsWith(thread.resume({ [unknown]: "zzz" }), "UnknownInterrupt")
    assert.deepStrictEqual([error.id, error.pending], [unknown, [id]])
    yield* failsWith(thread.resume({ [id]: "ok", [unknown]: "zzz" }), "UnknownInterrupt")
    assert.deepStrictEqual((yield* thread.state).interrupts.length, 1)
    assert.deepStrictEqual(yield* thread.resume({ [id]: "ok" }), { value: ["ok"] })
    // Answered is answered.
    yield* failsWith(thread.resume({ [id]: "again" }), "UnknownInterrupt")

    const object = one().thread("b")
    yield* object.run({})
    assert.deepStrictEqual(yield* object.answer({ answer: "zzz" }), { value: [{ answer: "zzz" }] })
    const empty = one().thread("c")
    yield* empty.run({})
    // No answers at all: the pause stays.
    yield* failsWith(empty.resume({}), "GraphInterrupt")
    assert.deepStrictEqual(yield* empty.answer({}), { value: [{}] })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-053 falsy answers and null are answers", () =>
  Effect.gen(function* () {
    for (const [i, answer] of ["", false, 0, [], null].entries()) {
      const bare = one().thread(`bare ${i}`)
      yield* bare.run({})
      assert.deepStrictEqual(yield* bare.answer(answer), { value: [answer] })
      const byId = one().thread(`id ${i}`)
      const { id } = asked(yield* byId.run({}))[0]!
      assert.deepStrictEqual(yield* byId.resume({ [id]: answer }), { value: [answer] })
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("an answer without any pause is refused", () =>
  Effect.gen(function* () {
    const thread = one().thread("t")
    yield* failsWith(thread.answer("x"), "EmptyInput")
    yield* thread.run({})
    yield* thread.answer("x")
    yield* failsWith(thread.answer("y"), "UnknownInterrupt")
    assert.deepStrictEqual((yield* thread.state).values, { value: ["x"] })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-055 one call may answer and update the state", () =>
  Effect.gen(function* () {
    const graph = Graph.make("updated", { my_key: concat })
      .addNode("node", () =>
        Effect.gen(function* () {
          const a = yield* Interrupt.interrupt<string>({ value: 1 })
          const b = yield* Interrupt.interrupt<string>({ value: 2 })
          return { my_key: `${a} ${b}` }
        })
      )
      .addEdge(START, "node")
      .compile()
    for (const way of ["bare", "by id"]) {
      const thread = graph.thread(way)
      const { id } = asked(yield* thread.run({ my_key: "DE" }))[0]!
      const answer = way === "bare" ? Thread.answer("answer 1") : Thread.answers({ [id]: "answer 1" })
      const events = yield* collect(thread.resumeStream(answer, { update: { my_key: " foofoo " } }))
      assert.deepStrictEqual(
        events.map((event) => (event._tag === "Interrupted" ? event.interrupts.map(({ value }) => value) : event)),
        [[{ value: 2 }]]
      )
      assert.deepStrictEqual((yield* thread.state).values, { my_key: "DE foofoo " })
      const values = yield* collect(thread.resumeStream(Thread.answer("answer 2"), { modes: ["values"] }))
      assert.deepStrictEqual(
        values.map(({ state }) => state),
        [{ my_key: "DE foofoo " }, { my_key: "DE foofoo answer 1 answer 2" }]
      )
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-056 an update given with an answer is applied once, however often the task pauses again", () =>
  Effect.gen(function* () {
    const graph = Graph.make("thrice", { hello: concat })
      .addNode("node", () =>
        Effect.gen(function* () {
          const a = yield* Interrupt.interrupt<string>(1)
          const b = yield* Interrupt.interrupt<string>(2)
          const c = yield* Interrupt.interrupt<string>(3)
          return { hello: a + b + c }
        })
      )
      .addEdge(START, "node")
      .compile()
    const thread = graph.thread("t")
    yield* thread.run({ hello: "DE" })
    const second = yield* failsWith(thread.answer("1", { update: { hello: "+" } }), "GraphInterrupt")
    assert.deepStrictEqual(
      second.interrupts.map(({ value }) => value),
      [2]
    )
    assert.deepStrictEqual((yield* thread.state).values, { hello: "DE+" })
    yield* failsWith(thread.answer("2"), "GraphInterrupt")
    assert.deepStrictEqual((yield* thread.state).values, { hello: "DE+" })
    yield* failsWith(thread.resume(), "GraphInterrupt")
    assert.deepStrictEqual((yield* thread.state).values, { hello: "DE+" })
    assert.deepStrictEqual(yield* thread.answer("3"), { hello: "DE+123" })
    assert.deepStrictEqual((yield* thread.state).values, { hello: "DE+123" })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-057 nodes that ran before a pause do not disturb which answer goes where", () =>
  Effect.gen(function* () {
    const graph = Graph.make("topics", { topics: Channel.lastValue(Schema.Array(Schema.String)), answers: log })
      .addNode("setup", () => Effect.succeed({ topics: ["topic 1", "topic 2"] }))
      .addNode("ask", (state) =>
        Effect.map(
          Effect.forEach(state.topics ?? [], (topic) => Interrupt.interrupt<string>(`Whats the answer for ${topic}?`)),
          (answers) => ({ answers })
        )
      )
      .addEdge(START, "setup")
      .addEdge("setup", "ask")
      .compile()
    const thread = graph.thread("topics")
    assert.deepStrictEqual(questions(yield* thread.run({ topics: ["a", "b"] })), ["Whats the answer for topic 1?"])
    const second = yield* failsWith(thread.answer("answer1"), "GraphInterrupt")
    assert.deepStrictEqual(
      second.interrupts.map(({ value }) => value),
      ["Whats the answer for topic 2?"]
    )
    assert.deepStrictEqual(yield* thread.answer("answer2"), {
      topics: ["topic 1", "topic 2"],
      answers: ["answer1", "answer2"]
    })

    const number = Channel.lastValue(Schema.Number)
    const arithmetic = Graph.make("arithmetic", { value: number, answer: Channel.lastValue(Schema.String) })
      .addNode("plus", ({ value = 0 }) => Effect.succeed({ value: value + 1 }))
      .addNode("times", ({ value = 0 }) => Effect.succeed({ value: value * 2 }))
      .addNode("ask", ({ value }) =>
        Effect.map(Interrupt.interrupt<string>(`Result so far is ${value}. What next?`), (answer) => ({ answer }))
      )
      .addEdge(START, "plus")
      .addEdge("plus", "times")
      .addEdge("times", "ask")
      .compile()
      .thread("arithmetic")
    assert.deepStrictEqual(questions(yield* arithmetic.run({ value: 5 })), ["Result so far is 12. What next?"])
    assert.deepStrictEqual(yield* arithmetic.answer("continue"), { value: 12, answer: "continue" })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-058 finished activities are not run again on resume", () =>
  Effect.gen(function* () {
    for (const durability of ["sync", "async", "exit"] as const) {
      const trace = makeTrace()
      const double = Activity.make("double", {
        input: Schema.Number,
        success: Schema.Number,
        execute: (n) => Effect.as(trace.note("double"), n * 2)
      })
      const graph = Graph.make("doubles", { values: Channel.lastValue(Schema.Array(Schema.Unknown)) })
        .addNode("entry", () =>
          Effect.gen(function* () {
            const values: Array<unknown> = []
            for (const i of [1, 2, 3]) values.push(yield* double(i), yield* Interrupt.interrupt({ a: "boo" }))
            return { values }
          })
        )
        .addEdge(START, "entry")
        .compile()
      const thread = graph.thread(`doubles ${durability}`)
      yield* thread.run({}, { durability })
      const runs = [trace.count("double")]
      for (const answer of ["a", "b"]) {
        yield* failsWith(thread.answer(answer, { durability }), "GraphInterrupt")
        runs.push(trace.count("double"))
      }
      assert.deepStrictEqual(yield* thread.answer("c", { durability }), { values: [2, "a", 4, "b", 6, "c"] })
      runs.push(trace.count("double"))
      assert.deepStrictEqual(runs, [1, 2, 3, 3])

      const mapper = Activity.make("mapper", {
        input: Schema.Number,
        success: Schema.String,
        execute: (n) => Effect.as(Effect.zipRight(Effect.sleep(n), trace.note("mapper")), `${n}${n}`)
      })
      const mapped = Graph.make("mapped", { value: log })
        .addNode("entry", () =>
          Effect.gen(function* () {
            const all = yield* Effect.forEach([0, 1], (n) => mapper(n), { concurrency: "unbounded" })
            const answer = yield* Interrupt.interrupt<string>("question")
            return { value: all.map((one) => one + answer) }
          })
        )
        .addEdge(START, "entry")
        .compile()
        .thread(`mapped ${durability}`)
      const fiber = yield* Effect.fork(mapped.run({}, { durability }))
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(questions(yield* Fiber.join(fiber)), ["question"])
      assert.deepStrictEqual(yield* mapped.answer("answer", { durability }), { value: ["00answer", "11answer"] })
      assert.strictEqual(trace.count("mapper"), 2)
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-060 tasks that had finished are told again on resume, marked as cached, and first", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const graph = Graph.make("partial", { my_key: concat })
      .addNode("tool_one", () => Effect.as(trace.note("tool_one"), { my_key: " one" }))
      .addNode("tool_two", () => Effect.map(Interrupt.interrupt<string>("q"), (my_key) => ({ my_key })))
      .addConditionalEdges(START, (state) => [Send.make("tool_one", state), "tool_two" as const], [
        "tool_one",
        "tool_two"
      ])
      .compile()
    const thread = graph.thread("t")
    yield* thread.run({ my_key: "x" })
    const events = yield* collect(thread.resumeStream(Thread.answer(" my answer")))
    assert.deepStrictEqual(
      events.map((event) => (event._tag === "Updates" ? [event.node, event.update, event.cached] : event)),
      [
        ["tool_one", { my_key: " one" }, true],
        ["tool_two", { my_key: " my answer" }, false]
      ]
    )
    assert.strictEqual(trace.count("tool_one"), 1)
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-061 going on after an interrupted send keeps the finished sends", () =>
  Effect.gen(function* () {
    for (const durability of ["sync", "async", "exit"] as const) {
      const trace = makeTrace()
      let interrupted = false
      const Packet = Schema.Struct({ by: Schema.Number, then: Schema.optional(Schema.String) })
      const graph = Graph.make("sends", { state: log })
        .addNode("1", () => Effect.succeed({ state: ["1"] }))
        .addWorker(
          "2",
          Packet,
          ({ by, then }) =>
            Effect.gen(function* () {
              yield* trace.note("2")
              const update = { state: [`2|${then === undefined ? "" : `${then},`}${by}`] }
              if (then === undefined) return update
              return Command.make({
                update,
                goto: then === "2" ? Send.make("2", { by }) : Send.make("flaky", { by })
              })
            }),
          { goto: ["2", "flaky"] }
        )
        .addWorker("flaky", Packet, ({ by }) =>
          Effect.gen(function* () {
            yield* trace.note("flaky")
            if (!interrupted) {
              interrupted = true
              yield* Interrupt.interrupt("Bahh")
            }
            return { state: [`flaky|${by}`] }
          })
        )
        .addNode("3", () => Effect.succeed({ state: ["3"] }))
        .addNode("3.1", () => Effect.succeed({ state: ["3.1"] }))
        .addEdge(START, "1")
        .addConditionalEdges(
          "1",
          () => [Send.make("2", { by: 3, then: "2" }), Send.make("2", { by: 4, then: "flaky" }), "3.1" as const],
          ["2", "3.1"]
        )
        .addConditionalEdges("2", () => "3", ["3"])
        .addConditionalEdges("flaky", () => "3", ["3"])
        .compile()
      const thread = graph.thread(`sends ${durability}`)
      assert.deepStrictEqual(questions(yield* thread.run({ state: ["0"] }, { durability })), ["Bahh"])
      assert.deepStrictEqual([trace.count("2"), trace.count("flaky")], [3, 1])
      const paused = yield* thread.state
      assert.deepStrictEqual(
        paused.tasks.map(({ node }) => node),
        ["2", "flaky", "3"]
      )
      assert.deepStrictEqual(paused.next, ["flaky"])
      // The pause needs an answer here; one that the node does not look at lets it go on.
      assert.deepStrictEqual(yield* thread.answer(null, { durability }), {
        state: ["0", "1", "3.1", "2|2,3", "2|flaky,4", "3", "2|3", "flaky|4", "3"]
      })
      assert.deepStrictEqual([trace.count("2"), trace.count("flaky")], [3, 2])
      assert.strictEqual((yield* rows(thread)).length, durability === "exit" ? 2 : 6)
      if (durability === "exit") continue
      const split = (yield* snapshots(thread)).find(({ checkpoint }) => checkpoint!.step === 2)!
      assert.deepStrictEqual(split.next, ["2", "flaky", "3"])
      assert.deepStrictEqual(split.tasks[1]!.result, { state: ["flaky|4"] })
      assert.deepStrictEqual(
        split.tasks[1]!.interrupts.map(({ value }) => value),
        ["Bahh"]
      )
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-062 naming the head's id resumes in place, an older id asks again", () =>
  Effect.gen(function* () {
    const graph = Graph.make("two", { value: log })
      .addNode("ask", () =>
        Effect.gen(function* () {
          const x = yield* Interrupt.interrupt<string>("First question?")
          const y = yield* Interrupt.interrupt<string>("Second question?")
          return { value: [`a1:${x}`, `a2:${y}`] }
        })
      )
      .addNode("after", () => Effect.succeed({ value: ["done"] }))
      .addEdge(START, "ask")
      .addEdge("ask", "after")
      .compile()
    const thread = graph.thread("t")
    yield* thread.run({ value: [] })
    const id = (yield* thread.state).checkpoint!.id
    const second = yield* failsWith(thread.at(id).answer("ans1"), "GraphInterrupt")
    assert.deepStrictEqual(
      second.interrupts.map(({ value }) => value),
      ["Second question?"]
    )
    assert.strictEqual((yield* thread.state).checkpoint!.id, id)
    assert.deepStrictEqual(yield* thread.at(id).answer("ans2"), { value: ["a1:ans1", "a2:ans2", "done"] })
    assert.isTrue((yield* rows(thread)).every(([source]) => source !== "fork"))

    const again = yield* failsWith(thread.at(yield* idBefore(thread, "ask")).resume(), "GraphInterrupt")
    assert.deepStrictEqual(
      again.interrupts.map(({ value }) => value),
      ["First question?"]
    )
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-066 a finished sibling is not run again on the next resume, at every depth", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const ask = (name: string) => () =>
      Effect.zipRight(
        trace.note(name),
        Effect.map(Interrupt.interrupt<string>(name), (answer) => ({ value: [`${name}:${answer}`] }))
      )
    const pair = Graph.make("pair", { value: log })
      .addNode("x", ask("x"))
      .addNode("y", ask("y"))
      .addEdge(START, "x")
      .addEdge(START, "y")
      .compile()
    const parent = Graph.make("parent", { value: log }).addGraph("sub", pair).addEdge(START, "sub").compile()
    const grandparent = Graph.make("grandparent", { value: log })
      .addGraph("parent", parent)
      .addEdge(START, "parent")
      .compile()
    const graphs: ReadonlyArray<typeof pair> = [pair, parent as never, grandparent as never]
    for (const graph of graphs) {
      const thread = graph.thread(graph.name)
      const [x, y] = asked(yield* thread.run({ value: [] }))
      const calls = [trace.take()]
      yield* failsWith(thread.resume({ [x!.id]: "X" }), "GraphInterrupt")
      calls.push(trace.take())
      assert.deepStrictEqual(yield* thread.resume({ [y!.id]: "Y" }), { value: ["x:X", "y:Y"] })
      calls.push(trace.take())
      assert.deepStrictEqual(calls, [["x", "y"], ["x"], ["y"]], graph.name)
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("an accepted answer is durable before its node runs again", () =>
  Effect.gen(function* () {
    let crash = true
    const graph = Graph.make("crash", { value: log })
      .addNode("node", () =>
        Effect.gen(function* () {
          const answer = yield* Interrupt.interrupt<string>("q")
          if (crash) return yield* Effect.die(new Error("crash"))
          return { value: [answer] }
        })
      )
      .addEdge(START, "node")
      .compile()
    for (const durability of ["sync", "async", "exit"] as const) {
      crash = true
      const thread = graph.thread(durability)
      yield* thread.run({}, { durability })
      const exit = yield* Effect.exit(thread.answer("yes", { durability }))
      assert.strictEqual(exit._tag, "Failure")
      assert.deepStrictEqual((yield* thread.state).interrupts, [])
      crash = false
      assert.deepStrictEqual(yield* thread.resume({ durability }), { value: ["yes"] })
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("an answer with a goto also runs the nodes it names", () =>
  Effect.gen(function* () {
    const { graph, trace } = askHuman()
    const thread = graph.thread("t")
    yield* thread.run({ value: [] })
    const state = yield* thread.answer("hi", { goto: "node_b", update: { value: ["updated"] } })
    // node_b by the goto in the superstep of the pause, then once more by its edge.
    assert.deepStrictEqual(state, { value: ["a", "updated", "human:hi", "b", "b"] })
    assert.deepStrictEqual(trace.count("node_b"), 2)
  }).pipe(Effect.provide(layerMemory))
)

it.effect("interrupts of a node that is retried keep their answers", () =>
  Effect.gen(function* () {
    let failures = 1
    const graph = Graph.make("retried", { value: log, total: sum })
      .addNode(
        "node",
        () =>
          Effect.gen(function* () {
            const a = yield* Interrupt.interrupt<string>("q1")
            const b = yield* Interrupt.interrupt<string>("q2")
            if (failures-- > 0) return yield* Effect.fail({ _tag: "Flaky" as const })
            return { value: [a, b] }
          }),
        { retry: Schedule.recurs(2) }
      )
      .addEdge(START, "node")
      .addEdge("node", END)
      .compile()
    const thread = graph.thread("t")
    yield* thread.run({})
    yield* failsWith(thread.answer("A"), "GraphInterrupt")
    assert.deepStrictEqual(yield* thread.answer("B"), { value: ["A", "B"], total: 0 })
  }).pipe(Effect.provide(layerMemory))
)
