import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Activity, Channel, Checkpointer, Graph, Interrupt, Send } from "effect-pregel"
import { failsWith, log, makeTrace, snapshots } from "./support/thread.js"

const onMemory = Effect.provide(Checkpointer.layerMemory)
const { END, START } = Graph

const word = Channel.lastValue(Schema.String)

describe("renamed nodes", () => {
  /** A node that calls, asks, and has a sibling that finishes. */
  const asking = (name: string, renamedFrom: string | undefined, trace: ReturnType<typeof makeTrace>) => {
    const call = Activity.make("call", {
      input: Schema.Void,
      success: Schema.String,
      execute: () => Effect.as(trace.note("call"), "called")
    })
    return Graph.make("g", { words: log })
      .addNode(
        name as "h",
        () => Effect.zipWith(call(), Interrupt.interrupt<string>("?"), (a, b) => ({ words: [`${a} ${b}`] })),
        { renamedFrom }
      )
      .addNode("sibling", () => Effect.as(trace.note("sibling"), { words: ["sibling"] }))
      .addNode("last", (state) => Effect.succeed({ words: [String(state.words.length)] }))
      .addEdge(START, name as "h")
      .addEdge(START, "sibling")
      .addEdge([name as "h", "sibling"], "last")
      .compile()
  }

  it.effect("a paused task is answered under its node's new name, and nothing is repeated", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      yield* asking("h", undefined, trace).thread("1").run({})
      const thread = asking("h2", "h", trace).thread("1")
      const state = yield* thread.state
      assert.deepStrictEqual(state.next, ["h2"])
      assert.deepStrictEqual(
        state.interrupts.map(({ value }) => value),
        ["?"]
      )
      assert.deepStrictEqual(yield* thread.answer("yes"), { words: ["called yes", "sibling", "2"] })
      assert.deepStrictEqual(trace.entries, ["call", "sibling"])
      assert.deepStrictEqual(
        yield* asking("h2", "h", trace)
          .thread("1")
          .state.pipe(Effect.map((s) => s.next)),
        []
      )
    }).pipe(onMemory)
  )

  it.effect("a paused node that is gone fails with GraphMismatch, and the answer is not lost", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const before = asking("h", undefined, trace)
      yield* before.thread("1").run({})
      const thread = asking("h2", undefined, trace).thread("1")
      const error = yield* failsWith(thread.answer("yes"), "GraphMismatch")
      assert.include(error.message, '"h"')
      yield* failsWith(thread.state, "GraphMismatch")
      assert.deepStrictEqual(yield* before.thread("1").answer("yes"), { words: ["called yes", "sibling", "2"] })
    }).pipe(onMemory)
  )

  interface Names {
    readonly a: "a"
    readonly b: "b"
    readonly worker: "w"
    readonly end: "end"
  }

  it.effect("sends, joins and the nodes that come next follow their nodes' new names", () =>
    Effect.gen(function* () {
      const make = (given: Record<keyof Names, string>, former?: typeof given) => {
        const names = given as Names
        return Graph.make("g", { words: log })
          .addWorker(names.worker, Schema.Number, (n) => Effect.succeed({ words: [`w${n}`] }), {
            renamedFrom: former?.worker
          })
          .addNode(names.a, () => Effect.succeed({ words: ["a"] }), { renamedFrom: former?.a })
          .addNode("between", () => Effect.succeed(undefined))
          .addNode(names.b, () => Effect.succeed({ words: ["b"] }), { renamedFrom: former?.b })
          .addNode(names.end, () => Effect.succeed({ words: ["end"] }), { renamedFrom: former?.end })
          .addConditionalEdges(
            START,
            () => [names.a, "between", Send.make(names.worker, 1), Send.make(names.worker, 2)] as any,
            [names.a, "between", names.worker]
          )
          .addEdge("between", names.b)
          .addEdge([names.a, names.b], names.end)
          .compile()
      }
      const old: Names = { a: "a", b: "b", worker: "w", end: "end" }
      const now = { a: "a2", b: "b2", worker: "w2", end: "end2" }
      const expected = { words: ["a", "w1", "w2", "b", "end"] }
      assert.deepStrictEqual(yield* make(old).invoke({}), expected)
      for (const stopAt of [["w"], ["b"], ["end"]] as const) {
        const id = stopAt.join()
        yield* make(old).thread(id).run({}, { interruptBefore: stopAt })
        assert.deepStrictEqual(yield* make(now, old).thread(id).resume(), expected, id)
        const again = yield* make(now, old).thread(id).state
        assert.deepStrictEqual([again.next, again.values], [[], expected])
      }
    }).pipe(onMemory)
  )

  it.effect("a send to a node that is gone fails with GraphMismatch", () =>
    Effect.gen(function* () {
      const make = (name: string, worker = name as "w") =>
        Graph.make("g", { words: log })
          .addWorker(worker, Schema.Number, (n) => Effect.succeed({ words: [`w${n}`] }))
          .addConditionalEdges(START, () => [Send.make(worker, 1)], [worker])
          .compile()
      yield* make("w")
        .thread("1")
        .run({}, { interruptBefore: ["w"] })
      const error = yield* failsWith(make("v").thread("1").resume(), "GraphMismatch")
      assert.include(error.message, '"w"')
    }).pipe(onMemory)
  )

  it.effect("a subgraph that paused inside a renamed node goes on where it was", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const inner = Graph.make("inner", { words: log })
        .addNode("first", () => Effect.as(trace.note("first"), { words: ["first"] }))
        .addNode("ask", () => Effect.map(Interrupt.interrupt<string>("?"), (answer) => ({ words: [answer] })))
        .addEdge(START, "first")
        .addEdge("first", "ask")
        .compile()
      const outer = (name: string, renamedFrom?: string) =>
        Graph.make("outer", { words: log })
          .addNode(name, () => Effect.map(inner.invoke({}), ({ words }) => ({ words })), { renamedFrom })
          .addEdge(START, name)
          .compile()
      yield* outer("child").thread("1").run({})
      assert.deepStrictEqual(yield* outer("kid", "child").thread("1").answer("yes"), { words: ["first", "yes"] })
      assert.deepStrictEqual(trace.entries, ["first"])
    }).pipe(onMemory)
  )

  it("a former name must not be in use", () => {
    const graph = Graph.make("g", { a: word, b: word.pipe(Channel.renamedFrom("a")) })
      .addNode("x", () => Effect.succeed({ a: "1" }))
      .addNode("y", () => Effect.succeed({ b: "1" }), { renamedFrom: "x" })
      .addEdge(START, "x")
      .addEdge(START, "y")
    assert.throws(() => graph.compile(), /renamed from "a".*\n.*renamed from "x"/)
  })
})

describe("renamed channels", () => {
  it.effect("values and logs are read under their new names, and saved there from then on", () =>
    Effect.gen(function* () {
      const before = Graph.make("g", { name: word, list: log })
        .addNode("set", (state) => Effect.succeed({ name: `${state.name}!`, list: ["set"] }))
        .addEdge(START, "set")
        .compile()
      const after = Graph.make("g", {
        title: word.pipe(Channel.renamedFrom("name")),
        entries: log.pipe(Channel.renamedFrom("list"))
      })
        .addNode("set", (state) => Effect.succeed({ title: `${state.title}?`, entries: ["again"] }))
        .addEdge(START, "set")
        .compile()
      yield* before.thread("1").invoke({ name: "a" })
      const thread = after.thread("1")
      assert.deepStrictEqual((yield* thread.state).values, { title: "a!", entries: ["set"] })
      assert.deepStrictEqual(yield* thread.invoke({}), { title: "a!?", entries: ["set", "again"] })
      assert.deepStrictEqual((yield* thread.state).values, { title: "a!?", entries: ["set", "again"] })
      const history = yield* snapshots(thread)
      assert.deepStrictEqual(history.at(-1)!.values, { entries: [] } as any)
    }).pipe(onMemory)
  )

  it.effect("what a finished sibling has written to a renamed channel is kept", () =>
    Effect.gen(function* () {
      const make = (name: string, channel: Channel.Channel<string, string, false>) =>
        Graph.make("g", { [name]: channel, other: word })
          .addNode("done", () => Effect.succeed({ [name]: "done" }) as any)
          .addNode("ask", () => Effect.map(Interrupt.interrupt<string>("?"), (other) => ({ other })) as any)
          .addEdge(START, "done")
          .addEdge(START, "ask")
          .compile()
      yield* make("a", word).thread("1").run({})
      const thread = make("b", word.pipe(Channel.renamedFrom("a"))).thread("1")
      assert.deepStrictEqual(yield* thread.answer("x"), { b: "done", other: "x" } as any)
    }).pipe(onMemory)
  )

  it.effect("a channel that a finished sibling has written and that is gone fails with GraphMismatch", () =>
    Effect.gen(function* () {
      const ask = Effect.map(Interrupt.interrupt<string>("?"), (other) => ({ other }))
      const before = Graph.make("g", { gone: word, other: word })
        .addNode("done", () => Effect.succeed({ gone: "done" }))
        .addNode("ask", () => ask)
        .addEdge(START, "done")
        .addEdge(START, "ask")
        .compile()
      const after = Graph.make("g", { other: word })
        .addNode("done", () => Effect.void)
        .addNode("ask", () => ask)
        .addEdge(START, "done")
        .addEdge(START, "ask")
        .compile()
      yield* before.thread("1").run({})
      const error = yield* failsWith(after.thread("1").answer("x"), "GraphMismatch")
      assert.include(error.message, '"gone"')
    }).pipe(onMemory)
  )
})

describe("channels whose schema has evolved", () => {
  const V1 = Schema.Struct({ name: Schema.String })
  const V2 = Schema.Struct({ first: Schema.String, last: Schema.String })
  const split = (person: typeof V1.Encoded): typeof V2.Encoded => {
    const [first = "", last = ""] = person.name.split(" ")
    return { first, last }
  }
  const splitAll = (people: ReadonlyArray<typeof V1.Encoded>) => people.map(split)

  const person1 = Channel.lastValue(V1)
  const person2 = Channel.lastValue(V2).pipe(Channel.evolve(split))
  const people1 = Channel.append(V1)
  const people2 = Channel.append(V2).pipe(Channel.evolve(splitAll))
  const ada1 = { name: "Ada Lovelace" }
  const ada2 = { first: "Ada", last: "Lovelace" }
  const alan2 = { first: "Alan", last: "Turing" }

  const before = Graph.make("g", { person: person1, people: people1, count: Channel.lastValue(Schema.Number) })
    .addNode("a", () => Effect.succeed({ people: [ada1] }))
    .addNode("b", () => Effect.map(Interrupt.interrupt<number>("?"), (count) => ({ count })))
    .addEdge(START, "a")
    .addEdge(START, "b")
    .compile()

  const after = Graph.make("g", { person: person2, people: people2, count: Channel.lastValue(Schema.Number) })
    .addNode("a", () => Effect.succeed({ people: [alan2] }))
    .addNode("b", () => Effect.map(Interrupt.interrupt<number>("?"), (count) => ({ count })))
    .addEdge(START, "a")
    .addEdge(START, "b")
    .compile()

  it.effect("old values are migrated when they are read: the state, finished siblings, the history", () =>
    Effect.gen(function* () {
      yield* before.thread("1").run({ person: ada1 })
      const thread = after.thread("1")
      assert.deepStrictEqual((yield* thread.state).values, { person: ada2, people: [ada2] })
      assert.deepStrictEqual(yield* thread.answer(1), { person: ada2, people: [ada2], count: 1 })
      const [newest, oldest] = yield* Effect.map(snapshots(thread), (all) => [all[0]!, all.at(-1)!])
      assert.deepStrictEqual(newest!.values, { person: ada2, people: [ada2], count: 1 })
      assert.strictEqual(oldest!.checkpoint!.source, "input")
    }).pipe(onMemory)
  )

  it.effect("migrated values are saved in their new form by the next checkpoint, so they are migrated once", () =>
    Effect.gen(function* () {
      yield* before.thread("1").run({ person: ada1 })
      const thread = after.thread("1")
      yield* thread.answer(1)
      assert.deepStrictEqual((yield* thread.state).values.person, ada2)
      yield* thread.run({ count: 2 })
      assert.deepStrictEqual(yield* thread.answer(3), { person: ada2, people: [ada2, alan2], count: 3 })
      const checkpointer = yield* Checkpointer.Checkpointer
      const loaded = yield* checkpointer.load({ thread: "1", namespace: "" })
      assert.deepStrictEqual(loaded!.checkpoint.metadata, { channel_versions: { person: 2, people: 2 } })
      const saved = Object.fromEntries(loaded!.checkpoint.channels.map(({ name, value }) => [name, value]))
      assert.deepStrictEqual([saved.person, saved.people], [ada2, [ada2, alan2]])
    }).pipe(onMemory)
  )

  it.effect("results of one superstep may be saved by both versions", () =>
    Effect.gen(function* () {
      const make = (channel: any, value: unknown) =>
        Graph.make("g", { people: channel, words: log })
          .addNode("a", () => Effect.succeed({ people: [value] }) as any)
          .addNode("b", () => Effect.map(Interrupt.interrupt<unknown>("b"), (one) => ({ people: [one] })) as any)
          .addNode("c", () => Effect.map(Interrupt.interrupt<string>("c"), (one) => ({ words: [one] })) as any)
          .addEdge(START, "a")
          .addEdge(START, "b")
          .addEdge(START, "c")
          .compile()
      yield* make(people1, ada1).thread("1").run({})
      const thread = make(people2, alan2).thread("1")
      const { interrupts } = yield* thread.state
      const idOf = (question: string) => interrupts.find(({ value }) => value === question)!.id as `${string}:${string}`
      yield* Effect.exit(thread.resume({ [idOf("b")]: alan2 }))
      assert.deepStrictEqual(yield* thread.resume({ [idOf("c")]: "x" }), { people: [ada2, alan2], words: ["x"] } as any)
    }).pipe(onMemory)
  )

  it.effect("a run's saved input and the arguments of its sends are migrated as well", () =>
    Effect.gen(function* () {
      const make = (given: unknown, renamed: string) =>
        Graph.make("g", { person: given as Channel.Channel<any, any, false>, words: log })
          .addNode("route", () => Effect.void)
          .addNode("use", (state) =>
            Effect.succeed({ words: [`${state.person.first ?? state.person.name} ${renamed}`] })
          )
          .addEdge(START, "route")
          .addConditionalEdges("route", ({ person, words }) => [Send.make("use", { person, words })], ["use"])
          .compile()
      for (const stop of [{ interruptBefore: "*" }, { interruptBefore: ["use"] }] as const) {
        const id = JSON.stringify(stop)
        yield* make(person1, "old")
          .thread(id)
          .run({ person: ada1 } as any, stop as any)
        const result = yield* make(person2, "new").thread(id).resume()
        assert.deepStrictEqual(result, { person: ada2, words: ["Ada new"] } as any)
      }
    }).pipe(onMemory)
  )

  it.effect("migrations run in order from the version that was saved", () =>
    Effect.gen(function* () {
      const versions = [
        Channel.lastValue(Schema.Number),
        Channel.lastValue(Schema.String).pipe(Channel.evolve((n: number) => `n${n}`)),
        Channel.lastValue(Schema.Array(Schema.String)).pipe(
          Channel.evolve((n: number) => `n${n}`),
          Channel.evolve((text: string) => [text])
        )
      ]
      const make = (version: number) =>
        Graph.make("g", { value: versions[version] as Channel.Channel<any, any, false> })
          .addNode("n", () => Effect.void)
          .addEdge(START, "n")
          .compile()
      yield* make(0).thread("0").invoke({ value: 1 })
      yield* make(1).thread("1").invoke({ value: "n2" })
      assert.deepStrictEqual((yield* make(2).thread("0").state).values, { value: ["n1"] })
      assert.deepStrictEqual((yield* make(2).thread("1").state).values, { value: ["n2"] })
      const error = yield* failsWith(make(0).thread("1").state, "GraphMismatch")
      assert.include(error.message, "version 2")
    }).pipe(onMemory)
  )
})

describe("a channel that becomes one of another kind", () => {
  const texts = Schema.Array(Schema.String)
  const reduced = Channel.reduce(texts, { initial: () => [], reducer: (a, b) => [...a, ...b] })
  const turns = (items: Channel.Channel<ReadonlyArray<string>, any, true>) =>
    Graph.make("g", { items })
      .addNode("n", () => Effect.void)
      .addEdge(START, "n")
      .compile()
  const values = (graph: ReturnType<typeof turns>, id: string) =>
    Effect.map(snapshots(graph.thread(id)), (all) =>
      all.filter(({ next }) => next.length === 0).map((one) => one.values.items)
    )

  it.effect("per-165 a reducer's list goes on as a log, and branches stay apart", () =>
    Effect.gen(function* () {
      const [before, after] = [turns(reduced), turns(log)]
      for (const text of ["u0", "u1", "u2"]) yield* before.thread("1").invoke({ items: [text] })
      const expected = [["u0", "u1", "u2"], ["u0", "u1"], ["u0"]]
      assert.deepStrictEqual(yield* values(before, "1"), expected)
      assert.deepStrictEqual(yield* values(after, "1"), expected)
      yield* after.thread("1").invoke({ items: ["post"] })
      assert.deepStrictEqual((yield* after.thread("1").state).values.items, ["u0", "u1", "u2", "post"])
      const updated = yield* after.thread("1").update({ items: ["x", "y"] })
      yield* after.thread("1").invoke({ items: ["more"] })
      const all = ["u0", "u1", "u2", "post", "x", "y"]
      assert.deepStrictEqual((yield* after.thread("1").state).values.items, [...all, "more"])
      const forked = yield* after
        .thread("1")
        .at(updated)
        .invoke({ items: ["fork0"] })
      assert.deepStrictEqual(forked, { items: [...all, "fork0"] })
      assert.deepStrictEqual((yield* after.thread("1").state).values.items, [...all, "fork0"])
      assert.deepStrictEqual((yield* values(after, "1")).slice(-3), expected)
      assert.deepStrictEqual(yield* after.thread("2").invoke({ items: ["alone"] }), { items: ["alone"] })
    }).pipe(onMemory)
  )

  it.effect("a log goes on as a reducer's list", () =>
    Effect.gen(function* () {
      for (const text of ["u0", "u1"])
        yield* turns(log)
          .thread("1")
          .invoke({ items: [text] })
      const after = turns(reduced).thread("1")
      assert.deepStrictEqual(yield* after.invoke({ items: ["u2"] }), { items: ["u0", "u1", "u2"] })
      assert.deepStrictEqual((yield* after.state).values.items, ["u0", "u1", "u2"])
      yield* after.invoke({})
      assert.deepStrictEqual((yield* after.state).values.items, ["u0", "u1", "u2"])
    }).pipe(onMemory)
  )
})

it.effect("sends carry what channels hold in every kind, over a reload", () =>
  Effect.gen(function* () {
    const graph = Graph.make("g", {
      unique: Channel.topic(Schema.DateFromString, { accumulate: true, unique: true }),
      late: Channel.lastValueAfterFinish(Schema.DateFromString),
      words: log
    })
      .addNode("use", (state) =>
        Effect.succeed({ words: [JSON.stringify([state.unique, state.late]), String(state.late instanceof Date)] })
      )
      .addConditionalEdges(
        START,
        ({ words }) => [Send.make("use", { words, unique: [new Date(1), new Date(2)], late: new Date(3) })],
        ["use"]
      )
      .compile()
    const straight = yield* graph.invoke({})
    const thread = graph.thread("1")
    yield* thread.run({}, { interruptBefore: ["use"] })
    assert.deepStrictEqual((yield* thread.resume()).words, straight.words)
    assert.deepStrictEqual(straight.words[1], "true")
  }).pipe(onMemory)
)

it.effect("a thread of another graph fails with GraphMismatch, whatever is asked of it", () =>
  Effect.gen(function* () {
    const make = (name: string) =>
      Graph.make(name, { a: word })
        .addNode("ask", () => Effect.map(Interrupt.interrupt<string>("?"), (a) => ({ a })))
        .addEdge(START, "ask")
        .addEdge("ask", END)
        .compile()
    yield* make("foo").thread("1").run({})
    const other = make("bar").thread("1")
    yield* failsWith(other.state, "GraphMismatch")
    yield* failsWith(other.answer("x"), "GraphMismatch")
    yield* failsWith(other.invoke({}), "GraphMismatch")
    assert.deepStrictEqual(yield* make("foo").thread("1").answer("x"), { a: "x" })
  }).pipe(onMemory)
)
