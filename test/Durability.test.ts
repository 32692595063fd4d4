import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"
import * as Activity from "../src/Activity.js"
import { Checkpointer, type Commit, layerMemory } from "../src/Checkpointer.js"
import * as Graph from "../src/Graph.js"
import * as Interrupt from "../src/Interrupt.js"
import type { Durability } from "../src/Run.js"
import { log, makeTrace, questions, rows, sum } from "./support/thread.js"

const START = Graph.START

const modes = ["sync", "async", "exit"] as const

/** Two nodes, one after the other. */
const two = (trace: ReturnType<typeof makeTrace>, first = 1, second = 10) =>
  Graph.make("two", { value: sum })
    .addNode("n1", () => Effect.as(trace.note("n1"), { value: first }))
    .addNode("n2", () => Effect.as(trace.note("n2"), { value: second }))
    .addEdge(START, "n1")
    .addEdge("n1", "n2")
    .compile()

/** A storage that takes its time, and notes each checkpoint once it is written. */
const slow = (trace: ReturnType<typeof makeTrace>) =>
  Effect.map(Checkpointer, (saver): typeof Checkpointer.Service => {
    const written = (commits: ReadonlyArray<Commit>) =>
      Effect.forEach(commits, ({ step }) => trace.note(`put(${step})`), { discard: true })
    return {
      ...saver,
      commit: (commit) => saver.commit(commit).pipe(Effect.delay("150 millis"), Effect.zipLeft(written([commit]))),
      write: (staged) =>
        saver
          .write(staged)
          .pipe(
            Effect.delay("150 millis"),
            Effect.zipLeft(Effect.suspend(() => written(staged.map(({ commit }) => commit))))
          )
    }
  })

it.effect("per-140 when each durability saves: before the next superstep, behind the run, or at its end", () =>
  Effect.gen(function* () {
    const order = Effect.fnUntraced(function* (durability: Durability | undefined) {
      const trace = makeTrace()
      const saver = yield* slow(trace)
      const thread = two(trace).thread(String(durability))
      const fiber = yield* thread
        .invoke({ value: 0 }, durability === undefined ? {} : { durability })
        .pipe(Effect.zipLeft(trace.note("returned")), Effect.provideService(Checkpointer, saver), Effect.fork)
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(fiber)
      return trace.entries
    })
    const sync = ["put(-1)", "put(0)", "n1", "put(1)", "n2", "put(2)", "returned"]
    assert.deepStrictEqual(yield* order("sync"), sync)
    // Ours is sync unless said otherwise: a step that is told to be done is durable.
    assert.deepStrictEqual(yield* order(undefined), sync)
    assert.deepStrictEqual(yield* order("async"), ["n1", "n2", "put(-1)", "put(0)", "put(1)", "put(2)", "returned"])
    assert.deepStrictEqual(yield* order("exit"), ["n1", "n2", "put(2)", "returned"])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("per-141 what each save holds: only what changed since the one before", () =>
  Effect.gen(function* () {
    for (const durability of modes) {
      const saver = yield* Checkpointer
      const commits: Array<Commit> = []
      let puts = 0
      const recording: typeof Checkpointer.Service = {
        ...saver,
        commit: (commit) => {
          commits.push(commit)
          return saver.commit(commit)
        },
        stage: (commit) => {
          commits.push(commit)
          return saver.stage(commit)
        },
        putWrites: (...args) => {
          puts++
          return saver.putWrites(...args)
        }
      }
      const thread = two(makeTrace(), 2, 3).thread(durability)
      const result = yield* Effect.provideService(thread.invoke({ value: 1 }, { durability }), Checkpointer, recording)
      assert.deepStrictEqual(result, { value: 6 })
      const shown = commits.map(({ changes, results, source, step }) => [
        source,
        step,
        changes.map((change) => (change._tag === "Drop" ? `-${change.channel}` : change.channel)).sort(),
        results.map(({ task }) => task)
      ])
      // One task a superstep: its result is part of the next checkpoint's own save.
      assert.strictEqual(puts, 0)
      assert.deepStrictEqual(
        shown,
        durability === "exit"
          ? [["loop", 2, ["-__start__", "-branch:to:n1", "-branch:to:n2", "value"], []]]
          : [
              ["input", -1, ["__start__"], []],
              ["loop", 0, ["-__start__", "branch:to:n1", "value"], ["__start__"]],
              ["loop", 1, ["-branch:to:n1", "branch:to:n2", "value"], ["n1"]],
              ["loop", 2, ["-branch:to:n2", "value"], ["n2"]]
            ]
      )
      assert.strictEqual((yield* rows(thread)).length, durability === "exit" ? 1 : 4)
    }
  }).pipe(Effect.provide(layerMemory))
)

it.effect("in a superstep of several tasks each result is saved as its task finishes", () =>
  Effect.gen(function* () {
    const saver = yield* Checkpointer
    const saved: Array<string> = []
    const graph = Graph.make("parallel", { value: sum })
      .addNode("fast", () => Effect.as(Effect.sleep("1 second"), { value: 1 }))
      .addNode("slow", () => Effect.as(Effect.sleep("3 seconds"), { value: 2 }))
      .addEdge(START, "fast")
      .addEdge(START, "slow")
      .compile()
    const fiber = yield* graph
      .thread("t")
      .invoke({ value: 0 })
      .pipe(
        Effect.provideService(Checkpointer, {
          ...saver,
          putWrites: (address, seq, writes, ...others) => {
            saved.push(...writes.map(({ task }) => task))
            return saver.putWrites(address, seq, writes, ...others)
          }
        }),
        Effect.fork
      )
    yield* TestClock.adjust("2 seconds")
    assert.deepStrictEqual(saved, ["fast"])
    yield* TestClock.adjust("2 seconds")
    assert.deepStrictEqual(yield* Fiber.join(fiber), { value: 3 })
    // The last one goes into the barrier's own save.
    assert.deepStrictEqual(saved, ["fast"])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("a subgraph's background saves are never written before those of the graph around it", () =>
  Effect.gen(function* () {
    const saver = yield* Checkpointer
    const written: Array<string> = []
    const child = two(makeTrace())
    const graph = Graph.make("parent", { value: sum }).addGraph("child", child).addEdge(START, "child").compile()
    yield* graph
      .thread("t")
      .invoke({ value: 0 }, { durability: "async" })
      .pipe(
        Effect.provideService(Checkpointer, {
          ...saver,
          write: (staged) => {
            for (const { commit } of staged) written.push(commit.address.namespace === "" ? "parent" : "child")
            return saver.write(staged)
          }
        })
      )
    assert.deepStrictEqual(written, ["parent", "parent", "child", "child", "child", "child", "parent"])
  }).pipe(Effect.provide(layerMemory))
)

it.effect("a node that pauses after its subgraph has ended does not repeat the subgraph's activities", () =>
  Effect.gen(function* () {
    for (const durability of modes) {
      const trace = makeTrace()
      const charge = Activity.make("charge", {
        input: Schema.Number,
        success: Schema.String,
        execute: (n) => Effect.as(trace.note("charge"), `receipt ${n}`)
      })
      const child = Graph.make("child", { value: log })
        .addNode("pays", () => Effect.map(charge(5), (receipt) => ({ value: [receipt] })))
        .addEdge(START, "pays")
        .compile()
      const graph = Graph.make("parent", { value: log })
        .addNode("node", () =>
          Effect.gen(function* () {
            const { value } = yield* child.invoke({})
            const answer = yield* Interrupt.interrupt<string>("ok?")
            return { value: [...value, answer] }
          })
        )
        .addEdge(START, "node")
        .compile()
      const thread = graph.thread(durability)
      assert.deepStrictEqual(questions(yield* thread.run({}, { durability })), ["ok?"])
      assert.deepStrictEqual(yield* thread.answer("yes", { durability }), { value: ["receipt 5", "yes"] })
      assert.deepStrictEqual(trace.entries, ["charge"], durability)
      // What ended well leaves nothing beside the checkpoints of the root.
      if (durability === "exit") assert.strictEqual((yield* rows(thread)).length, 2)
    }
  }).pipe(Effect.provide(layerMemory))
)
