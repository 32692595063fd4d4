import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Channel from "../src/Channel.js"
import { type Checkpointer, layerMemory } from "../src/Checkpointer.js"
import * as Command from "../src/Command.js"
import * as Graph from "../src/Graph.js"
import type { GraphEvent } from "../src/GraphEvent.js"
import * as Interrupt from "../src/Interrupt.js"
import * as Send from "../src/Send.js"
import * as Task from "../src/Task.js"
import * as Thread from "../src/Thread.js"
import { collect, concat, failsWith, idBefore, log, makeTrace, questions, rowOf, snapshots } from "./support/thread.js"

const START = Graph.START
const END = Graph.END
const text = Channel.lastValue(Schema.String)

type Trace = ReturnType<typeof makeTrace>

const says = (trace: Trace, name: string, what: string) => () => Effect.as(trace.note(name), { value: [what] })
const asks =
  (trace: Trace, name: string, question: string, answered = name) =>
  () =>
    Effect.zipRight(
      trace.note(name),
      Effect.map(Interrupt.interrupt<string>(question), (answer) => ({ value: [`${answered}:${answer}`] }))
    )

/** A parent with nodes before and after a subgraph that asks in its middle; they share their log. */
const routed = (persistence: "call" | "thread", interrupting = true) => {
  const trace = makeTrace()
  const sub = Graph.make("sub", { value: log })
    .addNode("step_a", says(trace, "step_a", "sub_a"))
    .addNode("ask_human", () =>
      interrupting ? asks(trace, "ask_human", "Provide input:", "human")() : Effect.succeed({ value: [] })
    )
    .addNode("step_b", says(trace, "step_b", "sub_b"))
    .addEdge(START, "step_a")
    .addEdge("step_a", "ask_human")
    .addEdge("ask_human", "step_b")
    .compile()
  const graph = Graph.make("parent", { value: log })
    .addNode("router", says(trace, "router", "routed"))
    .addGraph("subgraph_node", sub, { persistence })
    .addNode("post_process", says(trace, "post_process", "post"))
    .addEdge(START, "router")
    .addEdge("router", "subgraph_node")
    .addEdge("subgraph_node", "post_process")
    .compile()
  return { trace, sub, graph }
}

const values = (error: { readonly interrupts: ReadonlyArray<{ readonly value: unknown }> }) =>
  error.interrupts.map(({ value }) => value)

it.effect("per-045 a pause inside a subgraph is seen from the parent, whose snapshot leads to the subgraph's", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const state = { my_key: concat, market: text }
    const sub = Graph.make("sub", state)
      .addNode(
        "do",
        (state) =>
          Effect.zipRight(
            trace.note("do"),
            state.market === "DE"
              ? Effect.map(Interrupt.interrupt<string>("Just because..."), (my_key) => ({ my_key }))
              : Effect.succeed({ my_key: " all good" })
          ),
        { retry: Schedule.recurs(3) }
      )
      .addEdge(START, "do")
      .compile()
    const graph = Graph.make("parent", state)
      .addGraph("tool_two", sub, {
        input: ({ market }) => ({ my_key: "", ...(market === undefined ? {} : { market }) }),
        output: ({ market, my_key }) => ({ my_key, market })
      })
      .addEdge(START, "tool_two")
      .compile()
    const unsaved = yield* graph.run({ my_key: "value", market: "DE" })
    assert.deepStrictEqual(
      [unsaved.state, questions(unsaved)],
      [{ my_key: "value", market: "DE" }, ["Just because..."]]
    )
    assert.strictEqual(trace.count("do"), 1)

    const streamed = graph.thread("stream")
    yield* streamed.run({ my_key: "value", market: "DE" })
    const events = yield* collect(streamed.resumeStream(Thread.answer(" my answer")))
    assert.deepStrictEqual(
      events.map((event) => (event._tag === "Updates" ? [event.node, event.update] : event)),
      [["tool_two", { my_key: " my answer", market: "DE" }]]
    )

    for (const durability of ["exit", "sync", "async"] as const) {
      const thread = graph.thread(durability)
      yield* thread.run({ my_key: "value", market: "DE" }, { durability })
      if (durability === "exit") assert.strictEqual((yield* snapshots(thread)).length, 1)
      const state = yield* thread.state
      assert.deepStrictEqual([state.next, values(state)], [["tool_two"], ["Just because..."]])
      assert.deepStrictEqual(state.tasks[0]!.interrupts, state.interrupts)
      const places = yield* thread.subgraphs
      assert.deepStrictEqual(places, [
        { namespace: `tool_two:${state.checkpoint!.id}`, node: "tool_two", task: state.tasks[0]!.id }
      ])
      const inner = yield* thread.subgraph(sub, places[0]!.namespace).state
      assert.deepStrictEqual([inner.next, values(inner)], [["do"], ["Just because..."]])
      assert.deepStrictEqual(inner.checkpoint!.parents, { "": state.checkpoint!.id })
      yield* thread.update(null, { as: END })
      const cleared = yield* thread.state
      assert.deepStrictEqual(
        [cleared.next, cleared.tasks, cleared.interrupts, cleared.checkpoint!.source, cleared.checkpoint!.step],
        [[], [], [], "update", 1]
      )
      assert.deepStrictEqual(yield* thread.subgraphs, [])
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-063 a subgraph that a node calls pauses twice, and answers go on inside it", () =>
  Effect.gen(function* () {
    const input = Channel.lastValue(Schema.Unknown)
    const sub = Graph.make("sub", { input })
      .addNode("node_1", () => Effect.map(Interrupt.interrupt("interrupt node 1"), (input) => ({ input })))
      .addNode("node_2", () => Effect.map(Interrupt.interrupt("interrupt node 2"), (input) => ({ input })))
      .addEdge(START, "node_1")
      .addEdge("node_1", "node_2")
      .compile()
    const graph = Graph.make("parent", { input })
      .addNode("invoke_sub_agent", (state) => Effect.map(sub.invoke(state), ({ input }) => ({ input })))
      .addEdge(START, "invoke_sub_agent")
      .compile()
    const told = (events: ReadonlyArray<GraphEvent>) =>
      events.map((event) =>
        event._tag === "Updates"
          ? [event.node, event.update]
          : event._tag === "Interrupted"
            ? values(event)
            : event._tag
      )
    const thread = graph.thread("t")
    assert.deepStrictEqual(told(yield* collect(thread.stream({ input: "test" }))), [["interrupt node 1"]])
    assert.deepStrictEqual(told(yield* collect(thread.resumeStream(Thread.answer(true)))), [["interrupt node 2"]])
    assert.deepStrictEqual(told(yield* collect(thread.resumeStream(Thread.answer(true)))), [
      ["invoke_sub_agent", { input: true }]
    ])
    const alone = sub.thread("alone")
    yield* alone.run({ input: "test" })
    assert.deepStrictEqual(told(yield* collect(alone.resumeStream(Thread.answer("123")))), [
      ["node_1", { input: "123" }],
      ["interrupt node 2"]
    ])
    assert.deepStrictEqual(told(yield* collect(alone.resumeStream(Thread.answer("123")))), [
      ["node_2", { input: "123" }]
    ])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-065 a remembering subgraph is entered again within one run, and goes on from its own state", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const seen: Array<string | undefined> = []
    const sub = Graph.make("sub", { foo: text, bar: text })
      .addNode("subnode_1", ({ bar }) =>
        Effect.zipRight(
          trace.note("subnode_1"),
          Effect.sync(() => {
            seen.push(bar)
            return { foo: "subgraph_1" }
          })
        )
      )
      .addNode("subnode_2", () =>
        Effect.zipRight(
          trace.note("subnode_2"),
          Effect.map(Interrupt.interrupt<string>("Provide value"), (value) => ({
            foo: "subgraph_2",
            bar: `${value}baz`
          }))
        )
      )
      .addEdge(START, "subnode_1")
      .addEdge("subnode_1", "subnode_2")
      .compile()
    const graph = Graph.make("parent", { foo: text, counter: Channel.lastValue(Schema.Number) })
      .addNode("call_subgraph", ({ foo }) =>
        Effect.zipRight(
          trace.note("call_subgraph"),
          Effect.map(sub.invoke({ foo }, { persistence: "thread" }), ({ foo }) => ({ foo }))
        )
      )
      .addNode(
        "node",
        ({ counter = 0, foo }) =>
          Effect.zipRight(
            trace.note("parent"),
            Effect.succeed(
              counter < 1
                ? Command.make({ update: { counter: counter + 1 }, goto: "call_subgraph" })
                : { foo: `${foo}|parent` }
            )
          ),
        { goto: ["call_subgraph"] }
      )
      .addEdge(START, "call_subgraph")
      .addEdge("call_subgraph", "node")
      .compile()
    const thread = graph.thread("t")
    const first = yield* thread.run({ foo: "", counter: 0 })
    assert.deepStrictEqual([first._tag, first.state], ["Paused", { foo: "", counter: 0 }])
    yield* failsWith(thread.answer("bar"), "GraphInterrupt")
    assert.deepStrictEqual((yield* thread.state).values, { foo: "subgraph_2", counter: 1 })
    assert.deepStrictEqual(yield* thread.answer("qux"), { foo: "subgraph_2|parent", counter: 1 })
    assert.deepStrictEqual(trace.entries, [
      ...["call_subgraph", "subnode_1", "subnode_2"],
      ...["call_subgraph", "subnode_2", "parent", "call_subgraph", "subnode_1", "subnode_2"],
      ...["call_subgraph", "subnode_2", "parent"]
    ])
    assert.strictEqual((yield* thread.run({ foo: "meow", counter: 0 }))._tag, "Paused")
    assert.deepStrictEqual(seen, [undefined, "barbaz", "quxbaz"])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-062 a remembering subgraph that paused goes on when the head's id is named", () =>
  Effect.gen(function* () {
    const { graph, trace } = routed("thread")
    const thread = graph.thread("t")
    yield* thread.run({ value: [] })
    trace.take()
    const id = (yield* thread.state).checkpoint!.id
    yield* thread.at(id).answer("answer")
    assert.deepStrictEqual(trace.entries, ["ask_human", "step_b", "post_process"])
    assert.isTrue((yield* snapshots(thread)).every(({ checkpoint }) => checkpoint!.source !== "fork"))
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-086 replaying before a subgraph runs the whole subgraph again", () =>
  Effect.gen(function* () {
    for (const persistence of ["call", "thread"] as const) {
      const { graph, trace } = routed(persistence, false)
      const thread = graph.thread(persistence)
      const expected = { value: ["routed", "routed", "sub_a", "sub_b", "post"] }
      assert.deepStrictEqual(yield* thread.invoke({ value: [] }), expected)
      trace.take()
      assert.deepStrictEqual(yield* thread.at(yield* idBefore(thread, "subgraph_node")).resume(), expected)
      assert.deepStrictEqual(trace.entries, ["step_a", "step_b", "post_process"])
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-087 replaying where a subgraph paused starts the subgraph again", () =>
  Effect.gen(function* () {
    for (const persistence of ["call", "thread"] as const) {
      const { graph, trace } = routed(persistence)
      const thread = graph.thread(persistence)
      yield* thread.run({ value: [] })
      assert.deepStrictEqual(yield* thread.answer("answer"), {
        value: ["routed", "routed", "sub_a", "human:answer", "sub_b", "post"]
      })
      const id = yield* idBefore(thread, "subgraph_node")
      trace.take()
      assert.deepStrictEqual(values(yield* failsWith(thread.at(id).resume(), "GraphInterrupt")), ["Provide input:"])
      assert.deepStrictEqual(trace.take(), ["step_a", "ask_human"])
      assert.deepStrictEqual(yield* thread.answer("new"), {
        value: ["routed", "routed", "sub_a", "human:new", "sub_b", "post"]
      })
      assert.deepStrictEqual(trace.take(), ["ask_human", "step_b", "post_process"])
      const all = yield* snapshots(thread)
      assert.deepStrictEqual(
        all.map((row) => rowOf(row).slice(0, 3)),
        [
          ["loop", 4, []],
          ["loop", 3, ["post_process"]],
          ["fork", 2, ["subgraph_node"]],
          ["loop", 3, []],
          ["loop", 2, ["post_process"]],
          ["loop", 1, ["subgraph_node"]],
          ["loop", 0, ["router"]],
          ["input", -1, ["__start__"]]
        ]
      )
      assert.strictEqual(all[2]!.checkpoint!.parent!.id, id)
    }
  }).pipe(Effect.provide(layerMemory))
)

/** The state of a thread's only subgraph. */
const only = Effect.fnUntraced(function* <E>(thread: {
  readonly subgraphs: Effect.Effect<ReadonlyArray<Thread.SubgraphPlace>, E, Checkpointer>
}) {
  const places = yield* thread.subgraphs
  assert.strictEqual(places.length, 1)
  return places[0]!.namespace
})

it.effect("per-088 going back to a remembering subgraph's own checkpoint skips its finished nodes", () =>
  Effect.gen(function* () {
    const { graph, sub, trace } = routed("thread")
    const thread = graph.thread("t")
    yield* thread.run({ value: [] })
    const inner = thread.subgraph(sub, yield* only(thread))
    const { checkpoint } = yield* inner.state
    trace.take()
    const pause = yield* failsWith(inner.at(checkpoint!.id).resumeThread(), "GraphInterrupt")
    assert.deepStrictEqual(values(pause), ["Provide input:"])
    assert.deepStrictEqual(yield* thread.answer("replayed_answer"), {
      value: ["routed", "routed", "sub_a", "human:replayed_answer", "sub_b", "post"]
    })
    assert.isFalse(trace.entries.includes("step_a"))
    assert.isFalse(trace.entries.includes("router"))
    // Finished, the same checkpoint is an old one: the graphs fork there and it asks again.
    trace.take()
    yield* failsWith(inner.at(checkpoint!.id).resumeThread(), "GraphInterrupt")
    assert.deepStrictEqual(trace.take(), ["ask_human"])
    assert.deepStrictEqual((yield* thread.state).checkpoint!.source, "fork")
    assert.deepStrictEqual(yield* thread.answer("again"), {
      value: ["routed", "routed", "sub_a", "human:again", "sub_b", "post"]
    })
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-090 going back to a subgraph's second question keeps the answer to its first", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const sub = Graph.make("sub", { value: log })
      .addNode("step_a", says(trace, "step_a", "step_a_done"))
      .addNode("ask_1", asks(trace, "ask_1", "Question 1?"))
      .addNode("ask_2", asks(trace, "ask_2", "Question 2?"))
      .addEdge(START, "step_a")
      .addEdge("step_a", "ask_1")
      .addEdge("ask_1", "ask_2")
      .compile()
    const graph = Graph.make("parent", { value: log })
      .addGraph("executor", sub, { persistence: "thread", output: ({ value }) => ({ value }) })
      .addEdge(START, "executor")
      .compile()
    const thread = graph.thread("t")
    yield* thread.run({ value: [] })
    yield* failsWith(thread.answer("answer_1"), "GraphInterrupt")
    const inner = thread.subgraph(sub, yield* only(thread))
    const second = (yield* inner.state).checkpoint!
    assert.deepStrictEqual(yield* thread.answer("answer_2"), {
      value: ["step_a_done", "ask_1:answer_1", "ask_2:answer_2"]
    })
    trace.take()
    const pause = yield* failsWith(inner.at(second.id).resumeThread(), "GraphInterrupt")
    assert.deepStrictEqual(values(pause), ["Question 2?"])
    assert.deepStrictEqual(trace.take(), ["ask_2"])
    const all = yield* snapshots(thread)
    assert.deepStrictEqual(
      all.map(({ checkpoint, next }) => [checkpoint!.source, next]),
      [
        ["fork", ["executor"]],
        ["loop", []],
        ["loop", ["executor"]],
        ["input", ["__start__"]]
      ]
    )
    assert.strictEqual(all[0]!.checkpoint!.parent!.id, second.parents[""])
    assert.deepStrictEqual(yield* thread.answer("new_answer_2"), {
      value: ["step_a_done", "ask_1:answer_1", "ask_2:new_answer_2"]
    })
    assert.deepStrictEqual(trace.take(), ["ask_2"])
    assert.deepStrictEqual(
      (yield* snapshots(thread)).map(({ checkpoint, values }) => [checkpoint!.source, values.value.length]),
      [
        ["loop", 3],
        ["fork", 0],
        ["loop", 3],
        ["loop", 0],
        ["input", 0]
      ]
    )
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-091 going back in, and forking, the innermost of three levels", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const inner = Graph.make("inner", { value: log })
      .addNode("step_a", says(trace, "step_a", "step_a_done"))
      .addNode("ask_1", asks(trace, "ask_1", "Question 1?"))
      .addNode("ask_2", asks(trace, "ask_2", "Question 2?"))
      .addEdge(START, "step_a")
      .addEdge("step_a", "ask_1")
      .addEdge("ask_1", "ask_2")
      .compile()
    const outer = Graph.make("outer", { value: log })
      .addGraph("inner", inner, { persistence: "thread" })
      .addEdge(START, "inner")
      .compile()
    const graph = Graph.make("parent", { value: log })
      .addGraph("outer", outer, { persistence: "thread" })
      .addEdge(START, "outer")
      .compile()
    for (const how of ["replay", "fork"] as const) {
      for (const question of [1, 2]) {
        const thread = graph.thread(`${how} ${question}`)
        yield* thread.run({ value: [] })
        const middle = thread.subgraph(outer, yield* only(thread))
        const namespace = yield* only(middle)
        assert.strictEqual(namespace, "outer|inner")
        const innermost = thread.subgraph(inner, namespace)
        let captured = (yield* innermost.state).checkpoint!
        assert.deepStrictEqual(Object.keys(captured.parents), ["", "outer"])
        yield* failsWith(thread.answer("answer_1"), "GraphInterrupt")
        if (question === 2) captured = (yield* innermost.state).checkpoint!
        yield* thread.answer("answer_2")
        trace.take()
        const from = how === "replay" ? captured.id : yield* innermost.at(captured.id).update({ value: ["forked"] })
        let pause = yield* failsWith(innermost.at(from).resumeThread(), "GraphInterrupt")
        assert.deepStrictEqual(values(pause), [`Question ${question}?`])
        assert.deepStrictEqual(trace.take(), [`ask_${question}`])
        if (question === 1) pause = yield* failsWith(thread.answer("n1"), "GraphInterrupt")
        assert.deepStrictEqual(values(pause), ["Question 2?"])
        const forked = how === "fork" ? ["forked"] : []
        assert.deepStrictEqual(yield* thread.answer("n2"), {
          value:
            question === 1
              ? ["step_a_done", ...forked, "ask_1:n1", "ask_2:n2"]
              : ["step_a_done", "ask_1:answer_1", ...forked, "ask_2:n2"]
        })
      }
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-092 going back in the middle of three levels starts the innermost again", () =>
  Effect.gen(function* () {
    const trace = makeTrace()
    const inner = Graph.make("inner", { value: log })
      .addNode("step_a", says(trace, "step_a", "step_a_done"))
      .addNode("ask_1", asks(trace, "ask_1", "Question 1?"))
      .addEdge(START, "step_a")
      .addEdge("step_a", "ask_1")
      .compile()
    const outer = Graph.make("outer", { value: log })
      .addNode("pre", asks(trace, "pre", "Pre-question?"))
      .addGraph("inner", inner, { persistence: "thread" })
      .addEdge(START, "pre")
      .addEdge("pre", "inner")
      .compile()
    const graph = Graph.make("parent", { value: log })
      .addGraph("outer", outer, { persistence: "thread" })
      .addEdge(START, "outer")
      .compile()
    for (const how of ["replay", "fork"] as const) {
      const thread = graph.thread(how)
      yield* thread.run({ value: [] })
      const middle = thread.subgraph(outer, "outer")
      const pre = (yield* middle.state).checkpoint!.id
      yield* failsWith(thread.answer("p"), "GraphInterrupt")
      const atInner = (yield* middle.state).checkpoint!.id
      yield* thread.answer("a1")
      for (const [captured, question, ran] of [
        [pre, "Pre-question?", ["pre"]],
        [atInner, "Question 1?", ["step_a", "ask_1"]]
      ] as const) {
        trace.take()
        const from = how === "replay" ? captured : yield* middle.at(captured).update({ value: ["forked"] })
        assert.deepStrictEqual(values(yield* failsWith(middle.at(from).resumeThread(), "GraphInterrupt")), [question])
        assert.deepStrictEqual(trace.take(), Array.from(ran))
      }
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-101 editing a paused subgraph's state and finishing the parent", () =>
  Effect.gen(function* () {
    for (const persistence of ["thread", "call"] as const) {
      const { graph, sub, trace } = routed(persistence)
      const thread = graph.thread(persistence)
      yield* thread.run({ value: [] })
      const inner = thread.subgraph(sub, yield* only(thread))
      const id = yield* inner.update({ value: ["sub_forked"] })
      const edited = yield* inner.state
      assert.deepStrictEqual(
        [edited.checkpoint!.id, edited.checkpoint!.source, edited.next],
        [id, "update", ["ask_human"]]
      )
      trace.take()
      // Its question was withdrawn with the state that it was asked in: going on asks again.
      const pause = yield* failsWith(thread.resume(), "GraphInterrupt")
      assert.deepStrictEqual(values(pause), ["Provide input:"])
      assert.deepStrictEqual(trace.take(), ["ask_human"])
      assert.deepStrictEqual(yield* thread.answer("new_answer"), {
        value: ["routed", "routed", "sub_a", "sub_forked", "human:new_answer", "sub_b", "post"]
      })
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-102 forking the parent before a subgraph starts the subgraph from the forked state", () =>
  Effect.gen(function* () {
    const { graph, trace } = routed("call")
    const thread = graph.thread("a")
    yield* thread.run({ value: [] })
    yield* thread.answer("original")
    const fork = yield* thread.at(yield* idBefore(thread, "subgraph_node")).update({ value: ["forked"] })
    trace.take()
    assert.deepStrictEqual(values(yield* failsWith(thread.at(fork).resume(), "GraphInterrupt")), ["Provide input:"])
    assert.deepStrictEqual(yield* thread.at(fork).answer("new_answer"), {
      value: ["routed", "forked", "routed", "forked", "sub_a", "human:new_answer", "sub_b", "post"]
    })
    assert.deepStrictEqual(trace.take(), ["step_a", "ask_human", "ask_human", "step_b", "post_process"])

    let runs = 0
    const sub = Graph.make("sub", { sub_value: log })
      .addNode("only", () => Effect.sync(() => ({ sub_value: [`sub${++runs}`] })))
      .addEdge(START, "only")
      .compile()
    const plain = Graph.make("plain", { value: log, sub_value: log })
      .addNode("parent_start", () => Effect.succeed({ value: ["p_start"] }))
      .addGraph("sub_graph", sub)
      .addNode("parent_end", () => Effect.succeed({ value: ["p_end"] }))
      .addEdge(START, "parent_start")
      .addEdge("parent_start", "sub_graph")
      .addEdge("sub_graph", "parent_end")
      .compile()
      .thread("b")
    assert.deepStrictEqual(yield* plain.invoke({}), { value: ["p_start", "p_end"], sub_value: ["sub1"] })
    const old = yield* snapshots(plain)
    const id = yield* idBefore(plain, "sub_graph")
    assert.deepStrictEqual(yield* plain.at(id).resume(), { value: ["p_start", "p_end"], sub_value: ["sub2"] })
    const edited = yield* plain.at(id).update({ value: ["extra"] })
    assert.deepStrictEqual(yield* plain.at(edited).resume(), {
      value: ["p_start", "extra", "p_end"],
      sub_value: ["sub3"]
    })
    assert.deepStrictEqual((yield* snapshots(plain)).slice(-old.length), old)
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-117 the state of paused subgraphs is edited through the parent's thread", () =>
  Effect.gen(function* () {
    const inner = Graph.make("inner", { my_key: text })
      .addNode("inner_1", ({ my_key }) => Effect.succeed({ my_key: `${my_key} here` }))
      .addNode("inner_2", ({ my_key }) => Effect.succeed({ my_key: `${my_key} and there` }))
      .addEdge(START, "inner_1")
      .addEdge("inner_1", "inner_2")
      .compile({ interruptBefore: ["inner_2"] })
    const graph = Graph.make("outer", { my_key: text })
      .addGraph("inner", inner)
      .addNode("outer_2", ({ my_key }) => Effect.succeed({ my_key: `${my_key} and back again` }))
      .addEdge(START, "inner")
      .addEdge("inner", "outer_2")
      .compile()
    const thread = graph.thread("a")
    yield* thread.run({ my_key: "my value" })
    yield* thread.subgraph(inner, yield* only(thread)).update({ my_key: "changed" })
    assert.deepStrictEqual(yield* thread.resume(), { my_key: "changed and there and back again" })
    for (const effect of [
      thread.subgraph(inner, "nope").state,
      thread.subgraph(inner, "nope").update({ my_key: "x" })
    ]) {
      yield* failsWith(
        effect as Effect.Effect<unknown, { readonly _tag: "UnknownCheckpoint" }, Checkpointer>,
        "UnknownCheckpoint"
      )
    }

    const joke = Graph.make("joke", { subject: text, jokes: log })
      .addNode("edit", ({ subject }) => Effect.succeed({ subject: `${subject} - hohoho` }))
      .addNode("generate", ({ subject }) => Effect.succeed({ jokes: [`Joke about ${subject}`] }))
      .addEdge(START, "edit")
      .addEdge("edit", "generate")
      .compile({ interruptBefore: ["generate"] })
    const jokes = Graph.make("jokes", { subjects: log, jokes: log })
      .addWorker("generate_joke", Schema.Struct({ subject: Schema.String }), ({ subject }) =>
        Effect.map(joke.invoke({ subject }), ({ jokes }) => ({ jokes }))
      )
      .addConditionalEdges(
        START,
        ({ subjects }) => subjects.map((subject) => Send.make("generate_joke", { subject })),
        ["generate_joke"]
      )
      .compile()
      .thread("b")
    const paused = yield* jokes.run({ subjects: ["cats", "dogs"] })
    assert.deepStrictEqual(paused.state.jokes, [])
    const { tasks } = yield* jokes.state
    const places = yield* jokes.subgraphs
    const dogs = places.find(({ task }) => task === tasks[1]!.id)!
    yield* jokes.subgraph(joke, dogs.namespace).update({ subject: "turtles - hohoho" })
    const updates = (yield* collect(jokes.resumeStream(undefined))).map(
      (event) => event._tag === "Updates" && (event.update as { jokes: ReadonlyArray<string> }).jokes[0]
    )
    assert.deepStrictEqual(updates.sort(), ["Joke about cats - hohoho", "Joke about turtles - hohoho"])
  }).pipe(Effect.provide(layerMemory))
)

const weather = () => {
  const model = Graph.make("weather", { city: text, messages: log })
    .addNode("model_node", () => Effect.zipRight(Task.emit(" very"), Effect.succeed({ city: "sf" })))
    .addNode("weather_node", ({ city }) =>
      Effect.zipRight(Task.emit(" good"), Effect.succeed({ messages: [`sunny in ${city}`] }))
    )
    .addEdge(START, "model_node")
    .addEdge("model_node", "weather_node")
    .compile({ interruptBefore: ["weather_node"] })
  const graph = Graph.make("router", { messages: log, route: text })
    .addNode("router_node", () => Effect.zipRight(Task.emit("I'm"), Effect.succeed({ route: "weather" })))
    .addGraph("weather_graph", model, { output: ({ messages }) => ({ messages }) })
    .addEdge(START, "router_node")
    .addEdge("router_node", "weather_graph")
    .compile()
  return { model, graph }
}

it.effect("per-118 an update as the subgraph's pending node finishes it", () =>
  Effect.gen(function* () {
    const { graph, model } = weather()
    const scoped = (events: ReadonlyArray<GraphEvent>) =>
      events.map((event) =>
        event._tag === "Updates"
          ? [event.namespace.map((segment) => segment.split(":")[0]), event.node, event.update]
          : event._tag
      )
    const first = graph.thread("first")
    yield* first.run({ messages: [] })
    yield* first.subgraph(model, yield* only(first)).update({ city: "la" })
    assert.deepStrictEqual(scoped(yield* collect(first.resumeStream(undefined, { subgraphs: true }))), [
      [["weather_graph"], "weather_node", { messages: ["sunny in la"] }],
      [[], "weather_graph", { messages: ["sunny in la"] }]
    ])
    const second = graph.thread("second")
    yield* second.run({ messages: [] })
    const before = yield* second.state
    const inner = second.subgraph(model, yield* only(second))
    const paused = yield* inner.state
    yield* inner.update({ messages: ["rainy"] }, { as: "weather_node" })
    const after = yield* inner.state
    assert.deepStrictEqual(
      [after.next, after.checkpoint!.source, after.checkpoint!.step, after.checkpoint!.parent!.id],
      [[], "update", 2, paused.checkpoint!.id]
    )
    assert.deepStrictEqual(after.checkpoint!.parents, { "": before.checkpoint!.id })
    assert.deepStrictEqual(yield* second.state, before)
    assert.deepStrictEqual(scoped(yield* collect(second.resumeStream(undefined, { subgraphs: true }))), [
      [[], "weather_graph", { messages: ["rainy"] }]
    ])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-173 events of subgraphs are told only where they are asked for", () =>
  Effect.gen(function* () {
    const { graph } = weather()
    const custom = (events: ReadonlyArray<GraphEvent>) =>
      events.map((event) =>
        event._tag === "Custom" ? [event.namespace.map((segment) => segment.split(":")[0]), event.value] : event._tag
      )
    const thread = graph.thread("with")
    assert.deepStrictEqual(
      custom(yield* collect(thread.stream({ messages: [] }, { modes: ["custom"], subgraphs: true }))),
      [
        [[], "I'm"],
        [["weather_graph"], " very"]
      ]
    )
    assert.deepStrictEqual(
      custom(yield* collect(thread.resumeStream(undefined, { modes: ["custom"], subgraphs: true }))),
      [[["weather_graph"], " good"]]
    )
    assert.deepStrictEqual(
      custom(yield* collect(graph.thread("without").stream({ messages: [] }, { modes: ["custom"] }))),
      [[[], "I'm"]]
    )
    const updates = yield* collect(graph.thread("updates").stream({ messages: [] }, { subgraphs: true }))
    assert.deepStrictEqual(
      updates.filter(({ _tag }) => _tag === "Updates").map((event) => (event._tag === "Updates" ? event.node : "")),
      ["router_node", "model_node"]
    )
    const stops = updates.filter(({ _tag }) => _tag === "Interrupted")
    const outside = yield* collect(graph.thread("outside").stream({ messages: [] }))
    assert.deepStrictEqual(
      outside.map(({ _tag }) => _tag),
      ["Updates", "Interrupted"]
    )
    assert.strictEqual(stops.length, 1)
    const last = stops[0]!
    assert.deepStrictEqual(last._tag === "Interrupted" && [last.namespace, last.interrupts], [[], []])
  }).pipe(Effect.provide(layerMemory))
)
