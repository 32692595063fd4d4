import { SqliteClient } from "@effect/sql-sqlite-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Data, Deferred, Effect, Exit, Fiber, Layer, Schema, Stream } from "effect"
import { Activity, Channel, Checkpointer, Command, Graph, Interrupt, Send, Thread, Threads } from "effect-pregel"
import * as GraphEntity from "effect-pregel/GraphEntity"

class Refused extends Schema.TaggedError<Refused>()("Refused", { why: Schema.String }) {}
class Undeclared extends Data.TaggedError("Undeclared")<{}> {}

const Approve = Interrupt.make("approve", { request: Schema.String, answer: Schema.Boolean })

/** Gates that nodes wait at, by name. */
const gates = new Map<string, Deferred.Deferred<void>>()
const gateOf = (name: string) => {
  const known = gates.get(name)
  if (known !== undefined) return known
  const gate = Effect.runSync(Deferred.make<void>())
  gates.set(name, gate)
  return gate
}
const reached = new Map<string, Deferred.Deferred<void>>()
const reachedOf = (name: string) => {
  const known = reached.get(name)
  if (known !== undefined) return known
  const mark = Effect.runSync(Deferred.make<void>())
  reached.set(name, mark)
  return mark
}

let charged = 0
const charge = Activity.make("charge", {
  input: Schema.Number,
  success: Schema.Number,
  execute: (cents) =>
    Effect.sync(() => {
      charged++
      return cents
    })
})

let mended = false

const orders = Graph.make("orders", {
  todo: Channel.lastValue(Schema.String),
  log: Channel.append(Schema.String),
  since: Channel.lastValue(Schema.Date),
  total: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
})
  .addNode("work", ({ todo = "" }) =>
    Effect.gen(function* () {
      const [what, name = ""] = todo.split(" ")
      if (what === "refuse") return yield* new Refused({ why: "no" })
      if (what === "crash") return yield* new Undeclared()
      if (what === "die") return yield* Effect.die(new Error("broken"))
      if (what === "mend" && !mended) return yield* new Refused({ why: "not yet" })
      if (what === "gate") {
        yield* Deferred.succeed(reachedOf(name), undefined)
        yield* Deferred.await(gateOf(name))
      }
      if (what === "ask") {
        const cents = yield* charge(5)
        const ok = yield* Approve("charge?")
        return { log: `paid ${cents} ${ok}`, since: new Date(0) }
      }
      return { log: todo }
    })
  )
  .addNode("count", () => Effect.succeed({ total: 1, log: "counted" }))
  .addNode("price", ({ since = new Date(0), total }) => Effect.succeed({ log: `${since.toISOString()} ${total}` }), {
    goto: ["count"]
  })
  .addEdge(Graph.START, "work")
  .addEdge("work", "count")
  .compile()

class Orders extends Context.Tag("test/Orders")<Orders, Threads.Of<typeof orders>>() {}

const hosted = GraphEntity.make(orders, { error: Refused })

const layers = {
  "in this process": Threads.layer(Orders, orders).pipe(Layer.provide(Checkpointer.layerMemory)),
  "in a cluster": hosted
    .threads(Orders)
    .pipe(
      Layer.provide(hosted.layer),
      Layer.provide(GraphEntity.layerSingle()),
      Layer.provide(SqliteClient.layer({ filename: ":memory:" })),
      Layer.orDie
    )
}

let ids = 0
const fresh = Effect.map(Orders, (orders) => orders.thread(`t${++ids}`))

const tagged = <A, E extends { readonly _tag: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), ({ _tag }) => _tag)

for (const [place, threads] of Object.entries(layers)) {
  describe(`threads ${place}`, () => {
    layer(threads, { excludeTestServices: true })((it) => {
      it.effect("a run's state comes back with its own types, and so does the thread's", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          const done = yield* thread.invoke({ todo: "a", since: new Date(7) })
          assert.deepStrictEqual(done, { todo: "a", log: ["a", "counted"], since: new Date(7), total: 1 })
          const state = yield* thread.state
          assert.deepStrictEqual(state.values, done)
          assert.deepStrictEqual(state.next, [])
          const history = Array.from(yield* Stream.runCollect(thread.history()))
          assert.deepStrictEqual(
            history.map(({ checkpoint }) => checkpoint?.step),
            [2, 1, 0, -1]
          )
          const [newest] = Array.from(yield* Stream.runCollect(thread.history({ limit: 1 })))
          assert.strictEqual(newest?.checkpoint?.id, state.checkpoint?.id)
        })
      )

      it.effect("an unknown thread is empty", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          const state = yield* thread.state
          assert.isUndefined(state.checkpoint)
          assert.strictEqual(yield* tagged(thread.resume()), "EmptyInput")
          assert.strictEqual(
            yield* tagged(thread.at("00000000-0000-0000-0000-000000000000").state),
            "UnknownCheckpoint"
          )
        })
      )

      it.effect("a pause waits for its answer; a wrong one leaves it waiting; what was done is not done again", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          const before = charged
          const paused = yield* thread.run({ todo: "ask" })
          assert.strictEqual(paused._tag, "Paused")
          if (paused._tag !== "Paused") return
          assert.deepStrictEqual(paused.next, ["work"])
          assert.strictEqual(yield* tagged(thread.answer("perhaps")), "InvalidAnswer")
          assert.strictEqual(yield* tagged(thread.resume({ "no:such": true })), "UnknownInterrupt")
          assert.strictEqual((yield* thread.state).interrupts.length, 1)
          const done = yield* thread.resume(Approve, false)
          assert.deepStrictEqual(done.log, ["paid 5 false", "counted"])
          assert.strictEqual(charged, before + 1)
        })
      )

      it.effect("a pause is a failure of invoke and can be answered by id", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          const failure = yield* Effect.flip(thread.invoke({ todo: "ask" }))
          if (failure._tag !== "GraphInterrupt") return assert.fail(failure._tag)
          const [asked] = failure.interrupts
          const done = yield* thread.resume({ [asked!.id as `${string}:${string}`]: true })
          assert.deepStrictEqual(done.log, ["paid 5 true", "counted"])
        })
      )

      it.effect("an answer can bring an update", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          yield* thread.run({ todo: "ask" })
          const done = yield* thread.resume(Approve, true, { update: { total: 10 } })
          assert.strictEqual(done.total, 11)
        })
      )

      it.effect("a declared failure arrives as it is, and the thread goes on after a fix", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          mended = false
          const failure = yield* Effect.flip(thread.invoke({ todo: "mend" }))
          assert.instanceOf(failure, Refused)
          mended = true
          assert.deepStrictEqual((yield* thread.resume()).log, ["mend", "counted"])
        })
      )

      it.effect("a defect is an answer, and harms no other thread and not even this one", () =>
        Effect.gen(function* () {
          const [poisoned, other] = [yield* fresh, yield* fresh]
          const exit = yield* Effect.exit(poisoned.invoke({ todo: "die" }))
          assert.isTrue(Exit.isFailure(exit) && exit.cause._tag === "Die")
          assert.deepStrictEqual((yield* other.invoke({ todo: "a" })).log, ["a", "counted"])
          assert.deepStrictEqual((yield* poisoned.invoke({ todo: "b" })).log, ["b", "counted"])
        })
      )

      it.effect("inputs that do not fit are refused with the place", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          const failure = yield* Effect.flip(thread.invoke({ total: "many" } as never))
          assert.strictEqual(failure._tag, "InvalidUpdate")
          assert.strictEqual(failure._tag === "InvalidUpdate" && failure.channel, "total")
          assert.isUndefined((yield* thread.state).checkpoint)
        })
      )

      it.effect("one run at a time: the second is refused, waits, or takes the place of the first", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          const first = yield* Effect.fork(thread.invoke({ todo: `gate ${thread.id}` }))
          yield* Deferred.await(reachedOf(thread.id))
          assert.strictEqual(yield* tagged(thread.invoke({ todo: "b" })), "ThreadBusy")
          assert.strictEqual(yield* tagged(thread.update({ total: 1 }, { as: "work" })), "ThreadBusy")
          const queued = yield* Effect.fork(thread.invoke({ todo: "c" }, { multitask: "enqueue" }))
          yield* Effect.sleep("50 millis")
          // Reading a thread does not wait for its run.
          assert.deepStrictEqual((yield* thread.state).next, ["work"])
          yield* Deferred.succeed(gateOf(thread.id), undefined)
          yield* Fiber.join(first)
          assert.strictEqual((yield* Fiber.join(queued)).log.length, 4)
        })
      )

      it.effect("interrupt and rollback stop the run in progress", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          for (const multitask of ["interrupt", "rollback"] as const) {
            const name = `${thread.id}/${multitask}`
            const first = yield* Effect.fork(Effect.flip(thread.invoke({ todo: `gate ${name}` })))
            yield* Deferred.await(reachedOf(name))
            const done = yield* thread.invoke({ todo: "b" }, { multitask })
            assert.deepStrictEqual(done.log.at(-2), "b")
            assert.strictEqual((yield* Fiber.join(first))._tag, "RunCancelled")
          }
        })
      )

      it.effect("cancel stops the run and says how many there were", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          const first = yield* Effect.fork(Effect.flip(thread.invoke({ todo: `gate ${thread.id}` })))
          yield* Deferred.await(reachedOf(thread.id))
          assert.strictEqual(yield* thread.cancel, 1)
          assert.strictEqual((yield* Fiber.join(first))._tag, "RunCancelled")
          assert.strictEqual(yield* thread.cancel, 0)
        })
      )

      it.effect("a caller that gives up stops its run", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          const first = yield* Effect.fork(thread.invoke({ todo: `gate ${thread.id}` }))
          yield* Deferred.await(reachedOf(thread.id))
          yield* Fiber.interrupt(first)
          const done = yield* thread.invoke({ todo: "b" }, { multitask: "enqueue" })
          assert.deepStrictEqual(done.log, ["b", "counted"])
        })
      )

      it.effect("the state can be written to, as a node and with a command", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          yield* thread.invoke({ todo: "a" })
          const id = yield* thread.update({ log: "by hand", since: new Date(9) }, { as: "work" })
          const state = yield* thread.state
          assert.strictEqual(state.checkpoint?.id, id)
          assert.deepStrictEqual(state.next, ["count"])
          assert.deepStrictEqual(state.values.since, new Date(9))
          assert.strictEqual((yield* thread.resume()).total, 2)
          yield* thread.update(Command.make({ update: { log: "again" }, goto: "count" }), { as: "price" })
          assert.strictEqual((yield* thread.resume()).total, 3)
        })
      )

      it.effect("a command can be an input; a Send carries values as its channels do", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          yield* thread.invoke({ todo: "a" })
          const goto = [Send.make("price", { log: [], since: new Date(1), total: 4 })]
          const done = yield* thread.invoke(
            Command.make({
              update: [
                ["log", "x"],
                ["log", "y"]
              ],
              goto
            })
          )
          assert.deepStrictEqual(done.log.slice(2), ["x", "y", "1970-01-01T00:00:00.001Z 4"])
        })
      )

      it.effect("an old checkpoint is forked", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          yield* thread.invoke({ todo: "a" })
          const history = Array.from(yield* Stream.runCollect(thread.history()))
          const old = history.find(({ next }) => next.includes("count"))!
          const forked = yield* thread.at(old.checkpoint!.id).resume()
          assert.deepStrictEqual(forked.log, ["a", "counted"])
          assert.strictEqual((yield* Stream.runCollect(thread.history())).length, history.length + 2)
          assert.deepStrictEqual((yield* thread.at(old.checkpoint!.id).state).values.log, ["a"])
        })
      )

      it.effect("breakpoints and limits of a run", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          const stopped = yield* thread.run({ todo: "a" }, { interruptBefore: ["count"] })
          assert.strictEqual(stopped._tag === "Paused" && stopped.next[0], "count")
          assert.strictEqual((yield* thread.resume()).total, 1)
          assert.strictEqual(yield* tagged(thread.run({ todo: "a" }, { recursionLimit: 1 })), "GraphRecursion")
        })
      )

      it.effect("the same run id is one run", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          const first = yield* thread.invoke({ todo: "a" }, { runId: "r1" })
          assert.deepStrictEqual(yield* thread.invoke({ todo: "a" }, { runId: "r1" }), first)
          assert.strictEqual((yield* thread.state).metadata.run_id, "r1")
        })
      )

      it.effect("a stream tells what happens and ends with the run; a failed one fails", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          const tell = { modes: ["updates", "values"] } as const
          const tagsOf = <E, R>(stream: Stream.Stream<{ readonly _tag: string }, E, R>) =>
            Effect.map(Stream.runCollect(stream), (events) => Array.from(events, ({ _tag }) => _tag))
          assert.deepStrictEqual(yield* tagsOf(thread.stream({ todo: "ask" }, tell)), [
            "Values",
            "ActivityEnded",
            "Interrupted",
            "Values"
          ])
          const rest = yield* Stream.runCollect(thread.resumeStream(Thread.answerTo(Approve, true), tell))
          const last = Array.from(rest).at(-1)!
          assert.strictEqual(last._tag, "Values")
          assert.deepStrictEqual(last._tag === "Values" && last.state.log, ["paid 5 true", "counted"])
          const seen: Array<string> = []
          const failing = thread.stream({ todo: "refuse" }, { modes: ["values"] })
          const failure = yield* Effect.flip(
            Stream.runForEach(failing, ({ _tag }) => Effect.sync(() => seen.push(_tag)))
          )
          assert.instanceOf(failure, Refused)
          assert.deepStrictEqual(seen, ["Values"])
        })
      )

      it.effect("a slow reader gets every event", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          const slow = thread
            .stream({ todo: "a" }, { modes: ["tasks"], bufferSize: 1 })
            .pipe(Stream.mapEffect((event) => Effect.as(Effect.sleep("20 millis"), event._tag)))
          const events = Array.from(yield* Stream.runCollect(slow))
          assert.deepStrictEqual(events, ["TaskStarted", "TaskEnded", "TaskStarted", "TaskEnded"])
        })
      )

      it.effect("a deleted thread is gone, and its id can be used again", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          yield* thread.invoke({ todo: "a" })
          yield* thread.delete
          assert.isUndefined((yield* thread.state).checkpoint)
          assert.deepStrictEqual((yield* thread.invoke({ todo: "b" })).log, ["b", "counted"])
        })
      )

      it.effect("many threads at once", () =>
        Effect.gen(function* () {
          const { thread } = yield* Orders
          const runs = Array.from({ length: 40 }, (_, i) => thread(`many-${i}`).invoke({ todo: `${i}` }))
          const done = yield* Effect.all(runs, { concurrency: "unbounded" })
          assert.deepStrictEqual(
            done.map(({ log }) => log[0]),
            runs.map((_, i) => `${i}`)
          )
        })
      )

      it.effect("an id that storage refuses is a failure of that thread alone", () =>
        Effect.gen(function* () {
          const { thread } = yield* Orders
          const bad = thread("x".repeat(5000))
          const exit = yield* Effect.exit(bad.invoke({ todo: "a" }))
          assert.isTrue(Exit.isFailure(exit))
          assert.deepStrictEqual((yield* (yield* fresh).invoke({ todo: "a" })).log, ["a", "counted"])
        }).pipe(Effect.timeout("10 seconds"))
      )
    })
  })
}

describe("the two services", () => {
  it("have the same type", () => {
    const typed = (_: Layer.Layer<Orders>) => true
    assert.isTrue(typed(layers["in this process"]) && typed(layers["in a cluster"]))
  })
})
