import { SqliteClient } from "@effect/sql-sqlite-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Data, Deferred, Effect, Exit, Fiber, Layer, Schema, Stream } from "effect"
import { Activity, Channel, Checkpointer, Command, Graph, Interrupt, Send, Thread, Threads } from "effect-pregel"
import * as GraphEntity from "effect-pregel/GraphEntity"
import { packing } from "./support/graphs.js"

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

const Confirm = Interrupt.make("confirm", { request: Schema.Date, answer: Schema.Boolean })

/** Asks in its middle. */
const visit = Graph.make("visit", { log: Channel.append(Schema.String), on: Channel.lastValue(Schema.Date) })
  .addNode("plan", ({ log }) => {
    const [name] = log.filter((item) => item.startsWith("gate ")).map((item) => item.slice(5))
    const passed = name === undefined ? Effect.void : Deferred.await(gateOf(name))
    const here = name === undefined ? Effect.void : Deferred.succeed(reachedOf(name), undefined)
    return Effect.as(Effect.zipRight(here, passed), { log: "planned", on: new Date(5) })
  })
  .addNode("confirm", ({ on = new Date(0) }) => Effect.map(Confirm(on), (ok) => ({ log: `confirmed ${ok}` })))
  .addNode("go", ({ on }) => Effect.succeed({ log: `went ${on?.getTime()}` }))
  .addEdge(Graph.START, "plan")
  .addEdge("plan", "confirm")
  .addEdge("confirm", "go")
  .compile()

const day = Graph.make("day", { log: Channel.append(Schema.String) })
  .addGraph("visit", visit, { persistence: "thread" })
  .addEdge(Graph.START, "visit")
  .compile()

const trips = Graph.make("trips", { log: Channel.append(Schema.String), left: Channel.lastValue(Schema.Date) })
  .addNode("book", () => Effect.succeed({ log: "booked" }))
  .addGraph("day", day, { persistence: "thread" })
  .addNode("pack", ({ log }) =>
    log[0] === "light"
      ? Effect.succeed({ log: "nothing" })
      : Effect.map(packing.invoke({ bag: [] }), ({ bag }) => ({ log: bag.join(" and ") }))
  )
  .addNode("leave", () => Effect.succeed({ log: "left", left: new Date(6) }))
  .addEdge(Graph.START, "book")
  .addEdge("book", "day")
  .addEdge("day", "pack")
  .addEdge("pack", "leave")
  .compile()

class Trips extends Context.Tag("test/Trips")<Trips, Threads.Of<typeof trips>>() {}

class Orders extends Context.Tag("test/Orders")<Orders, Threads.Of<typeof orders>>() {}

const hosted = GraphEntity.make(orders, { error: Refused })
const hostedTrips = GraphEntity.make(trips, { subgraphs: [packing] })

const layers = {
  "in this process": Layer.merge(Threads.layer(Orders, orders), Threads.layer(Trips, trips)).pipe(
    Layer.provide(Checkpointer.layerMemory)
  ),
  "in a cluster": Layer.merge(hosted.threads(Orders), hostedTrips.threads(Trips)).pipe(
    Layer.provide(Layer.merge(hosted.layer, hostedTrips.layer)),
    Layer.provide(GraphEntity.layerSingle()),
    Layer.provide(SqliteClient.layer({ filename: ":memory:" })),
    Layer.orDie
  )
}

let ids = 0
const fresh = Effect.map(Orders, (orders) => orders.thread(`t${++ids}`))
const freshTrip = Effect.map(Trips, (trips) => trips.thread(`t${++ids}`))

const all = <A, E, R>(stream: Stream.Stream<A, E, R>) =>
  Effect.map(Stream.runCollect(stream), (chunk) => Array.from(chunk))

/** The namespaces of the subgraphs of a handle. */
const inside = <E, R>({
  subgraphs
}: {
  readonly subgraphs: Effect.Effect<ReadonlyArray<Thread.SubgraphPlace>, E, R>
}) => Effect.map(subgraphs, (places) => places.map(({ namespace }) => namespace))

const rows = (snapshots: ReadonlyArray<Thread.StateSnapshot<any>>) =>
  snapshots.map(({ checkpoint, next, values }) => [checkpoint?.source, checkpoint?.step, next, values.log])

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
          const { interrupts, tasks } = yield* thread.state
          assert.deepStrictEqual(interrupts, paused.interrupts)
          assert.deepStrictEqual(tasks[0]?.interrupts, paused.interrupts)
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
          const endless = thread.run({ todo: `gate ${thread.id}` }, { stepTimeout: "50 millis", freeze: true })
          const timeout = yield* Effect.flip(endless)
          assert.deepInclude(timeout, { _tag: "TaskTimeout", kind: "step", limitMillis: 50 })
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

      it.effect("supersteps of updates rebuild what a run would have left", () =>
        Effect.gen(function* () {
          const [run, rebuilt] = [yield* fresh, yield* fresh]
          yield* run.invoke({ todo: "a", since: new Date(3) })
          const id = yield* rebuilt.updateAll([
            [{ update: { todo: "a", since: new Date(3) }, as: "__input__" }],
            [{ update: { todo: "a", since: new Date(3) }, as: "__start__" }],
            [{ update: { log: "a" }, as: "work" }],
            [{ update: { total: 1, log: "counted" }, as: "count" }]
          ])
          const state = yield* rebuilt.state
          assert.strictEqual(state.checkpoint?.id, id)
          assert.deepStrictEqual(state.values, (yield* run.state).values)
          const steps = ({ checkpoint, next, values }: typeof state) => [checkpoint?.step, next, values]
          assert.deepStrictEqual((yield* all(rebuilt.history())).map(steps), (yield* all(run.history())).map(steps))
          // Several tasks of one superstep, and a command among them.
          yield* rebuilt.updateAll([
            [
              { update: Command.make({ update: { log: "x" }, goto: "count" }), as: "price" },
              { update: { log: "y" }, as: "work" }
            ]
          ])
          assert.deepStrictEqual((yield* rebuilt.state).values.log, ["a", "counted", "x", "y"])
          assert.deepStrictEqual((yield* rebuilt.resume()).log, ["a", "counted", "x", "y", "counted"])
        })
      )

      it.effect("of malformed supersteps none is applied", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          yield* thread.invoke({ todo: "a" })
          const before = yield* thread.state
          const good = { update: { log: "good" }, as: "work" } as const
          for (const [supersteps, tag] of [
            [[], "EmptyInput"],
            [[[good], []], "EmptyInput"],
            [[[good], [{ update: { log: "x" }, as: "nobody" }]], "UnknownNode"],
            [[[good], [{ update: { log: "x" } }, good]], "AmbiguousUpdate"],
            [[[{ update: { log: 1 }, as: "work" }]], "InvalidUpdate"]
          ] as const) {
            assert.strictEqual(yield* tagged(thread.updateAll(supersteps as never)), tag)
          }
          assert.deepStrictEqual(yield* thread.state, before)
        })
      )

      it.effect("a copy of a checkpoint is its sibling, and is run anew", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          assert.strictEqual(yield* tagged(thread.copy), "EmptyInput")
          yield* thread.run({ todo: "ask" })
          const asked = yield* thread.state
          const id = yield* thread.copy
          const copied = yield* thread.state
          assert.deepInclude(copied.checkpoint, { id, source: "fork", parent: asked.checkpoint?.parent })
          assert.deepStrictEqual([copied.values, copied.next, copied.interrupts], [asked.values, ["work"], []])
          assert.strictEqual(yield* tagged(thread.resume()), "GraphInterrupt")
          assert.deepStrictEqual((yield* thread.resume(Approve, true)).log, ["paid 5 true", "counted"])
          const old = yield* thread.at(asked.checkpoint!.id).copy
          assert.deepStrictEqual((yield* thread.state).checkpoint?.id, old)
        })
      )

      it.effect("the branches of a thread", () =>
        Effect.gen(function* () {
          const thread = yield* fresh
          assert.deepStrictEqual(yield* thread.branches, [])
          yield* thread.invoke({ todo: "a" })
          const old = (yield* all(thread.history())).find(({ next }) => next.includes("count"))!.checkpoint!
          yield* thread.at(old.id).resume()
          yield* thread.at(old.id).update({ log: "x" }, { as: "work" })
          const [root, ...others] = yield* thread.branches
          assert.deepStrictEqual(others, [])
          const { created, id, source, step } = old
          assert.deepStrictEqual(root?.points.at(-1), { id, step, source, created })
          assert.deepStrictEqual(
            root?.forks.map(({ forks, isHead, points }) => [points.map(({ source }) => source), forks, isHead]),
            [
              [["loop"], [], false],
              [["fork", "loop"], [], false],
              [["update"], [], true]
            ]
          )
        })
      )

      it.effect("a thread is copied to a new id, with its history and its pause, and each goes its own way", () =>
        Effect.gen(function* () {
          const { thread: at } = yield* Orders
          const thread = yield* fresh
          const copy = at(`${thread.id}/copy`)
          yield* thread.run({ todo: "ask" })
          yield* thread.copyTo(copy.id)
          assert.deepStrictEqual(yield* copy.branches, yield* thread.branches)
          assert.deepStrictEqual((yield* copy.state).interrupts, (yield* thread.state).interrupts)
          const before = charged
          assert.deepStrictEqual((yield* copy.resume(Approve, false)).log, ["paid 5 false", "counted"])
          assert.strictEqual(charged, before)
          assert.deepStrictEqual((yield* thread.resume(Approve, true)).log, ["paid 5 true", "counted"])
          assert.deepStrictEqual((yield* copy.state).values.log, ["paid 5 false", "counted"])
        })
      )

      it.effect("a thread that is in use is not copied over", () =>
        Effect.gen(function* () {
          const [thread, used, running] = [yield* fresh, yield* fresh, yield* fresh]
          const refused = (id: string) =>
            Effect.map(Effect.flip(thread.copyTo(id)), (error) => [error._tag, error.reason, error.operation])
          assert.deepStrictEqual(yield* refused(used.id), ["CheckpointerError", "InvalidRequest", "copyThread"])
          yield* thread.invoke({ todo: "a" })
          yield* used.invoke({ todo: "b" })
          assert.deepStrictEqual(yield* refused(used.id), ["CheckpointerError", "InvalidRequest", "copyThread"])
          assert.deepStrictEqual(yield* refused(thread.id), ["CheckpointerError", "InvalidRequest", "copyThread"])
          const run = yield* Effect.fork(running.invoke({ todo: `gate ${running.id}` }))
          yield* Deferred.await(reachedOf(running.id))
          assert.deepStrictEqual(yield* refused(running.id), ["CheckpointerError", "Busy", "copyThread"])
          yield* Deferred.succeed(gateOf(running.id), undefined)
          assert.deepStrictEqual((yield* Fiber.join(run)).log.length, 2)
          assert.deepStrictEqual((yield* used.state).values.log, ["b", "counted"])
          // What is running can be copied, as it was saved last; a deleted thread's id is free again.
          yield* used.delete
          yield* running.copyTo(used.id)
          assert.deepStrictEqual((yield* used.state).values, (yield* running.state).values)
        })
      )

      it.effect("the subgraphs of a thread are found, level by level, and read with their own types", () =>
        Effect.gen(function* () {
          const trip = yield* freshTrip
          assert.deepStrictEqual(yield* trip.subgraphs, [])
          const paused = yield* trip.run({ log: [] })
          assert.deepStrictEqual(paused._tag === "Paused" && paused.interrupts.map(({ name }) => name), ["confirm"])
          const [task] = (yield* trip.state).tasks
          assert.deepStrictEqual(yield* trip.subgraphs, [{ namespace: "day", node: "day", task: task!.id }])
          assert.deepStrictEqual(yield* inside(trip.subgraph(day, "day")), ["day|visit"])
          const inner = trip.subgraph(visit, "day|visit")
          assert.deepStrictEqual(yield* inner.subgraphs, [])
          const state = yield* inner.state
          assert.deepStrictEqual(state.values, { log: ["booked", "planned"], on: new Date(5) })
          assert.deepStrictEqual([state.next, state.interrupts.length], [["confirm"], 1])
          assert.deepStrictEqual(Object.keys(state.checkpoint!.parents), ["", "day"])
          const history = yield* all(inner.history())
          assert.deepStrictEqual(rows(history), [
            ["loop", 1, ["confirm"], ["booked", "planned"]],
            ["loop", 0, ["plan"], ["booked"]],
            ["input", -1, ["__start__"], []]
          ])
          const [newest] = yield* all(inner.history({ limit: 1 }))
          assert.deepStrictEqual(newest?.checkpoint, state.checkpoint)
          const old = yield* inner.at(history[1]!.checkpoint!.id).state
          assert.deepStrictEqual(old.values, { log: ["booked"] })
        })
      )

      it.effect("what is no subgraph of the thread is a typed failure", () =>
        Effect.gen(function* () {
          const trip = yield* freshTrip
          yield* trip.run({ log: [] })
          assert.strictEqual(yield* tagged(trip.subgraph(visit, "nowhere").state), "UnknownCheckpoint")
          assert.strictEqual(yield* tagged(trip.subgraph(visit, "nowhere").update({ log: "x" })), "UnknownCheckpoint")
          assert.strictEqual(yield* tagged(trip.subgraph(visit, "nowhere").resumeThread()), "UnknownCheckpoint")
          assert.strictEqual(
            yield* tagged(trip.subgraph(visit, "day|visit").at("00000001-x").state),
            "UnknownCheckpoint"
          )
          assert.strictEqual(yield* tagged(trip.subgraph(day, "day|visit").state), "GraphMismatch")
          const refused = trip.subgraph(visit, "day|visit").update({ log: "x" }, { as: "nobody" })
          assert.strictEqual(yield* tagged(refused), "UnknownNode")
          const invalid = yield* Effect.flip(trip.subgraph(visit, "day|visit").update({ on: "today" } as never))
          assert.strictEqual(invalid._tag === "InvalidUpdate" && invalid.channel, "on")
        })
      )

      it.effect("a subgraph's state is written to: its question is withdrawn and asked again", () =>
        Effect.gen(function* () {
          const trip = yield* freshTrip
          yield* trip.run({ log: [] })
          const inner = trip.subgraph(visit, "day|visit")
          const id = yield* inner.update({ on: new Date(8), log: "moved" }, { as: "plan" })
          const edited = yield* inner.state
          assert.deepStrictEqual([edited.checkpoint?.id, edited.checkpoint?.source], [id, "update"])
          assert.deepStrictEqual([edited.values.on, edited.next], [new Date(8), ["confirm"]])
          assert.deepStrictEqual((yield* trip.state).interrupts, [])
          const asked = yield* Effect.flip(trip.resume())
          assert.deepStrictEqual(
            asked._tag === "GraphInterrupt" && asked.interrupts[0]?.value,
            new Date(8).toISOString()
          )
          const packing = yield* Effect.flip(trip.resume(Confirm, true))
          assert.deepStrictEqual(packing._tag === "GraphInterrupt" && packing.next, ["pack"])
          assert.deepStrictEqual((yield* trip.resume()).log.slice(-4), [
            "confirmed true",
            "went 8",
            "socks and shoes",
            "left"
          ])
        })
      )

      it.effect("a subgraph can't be written to while its thread runs", () =>
        Effect.gen(function* () {
          const trip = yield* freshTrip
          const run = yield* Effect.fork(trip.run({ log: [`gate ${trip.id}`] }))
          yield* Deferred.await(reachedOf(trip.id))
          const inner = trip.subgraph(visit, "day|visit")
          assert.deepStrictEqual((yield* inner.state).next, ["plan"])
          assert.strictEqual(yield* tagged(inner.update({ log: "x" })), "ThreadBusy")
          assert.strictEqual(yield* tagged(inner.resumeThread()), "ThreadBusy")
          yield* Deferred.succeed(gateOf(trip.id), undefined)
          assert.strictEqual((yield* Fiber.join(run))._tag, "Paused")
        })
      )

      it.effect("a thread goes back to where its subgraph was, without what came before", () =>
        Effect.gen(function* () {
          const trip = yield* freshTrip
          yield* trip.run({ log: [] })
          const inner = trip.subgraph(visit, "day|visit")
          const asked = (yield* inner.state).checkpoint!
          yield* Effect.flip(trip.resume(Confirm, true))
          const first = yield* trip.resume()
          assert.deepStrictEqual(first.log.slice(-4), ["confirmed true", "went 5", "socks and shoes", "left"])
          // As it was, and edited.
          const edited = yield* inner.at(asked.id).update({ on: new Date(9) })
          for (const [from, on] of [
            [asked.id, 5],
            [edited, 9]
          ] as const) {
            const pause = yield* Effect.flip(inner.at(from).resumeThread({ metadata: { why: "again" } }))
            assert.strictEqual(pause._tag, "GraphInterrupt")
            const state = yield* trip.state
            assert.deepStrictEqual([state.checkpoint?.source, state.metadata.why], ["fork", "again"])
            const left = yield* Effect.flip(trip.resume(Confirm, false))
            assert.deepStrictEqual(left._tag === "GraphInterrupt" && left.next, ["pack"])
            const done = yield* trip.resume()
            assert.deepStrictEqual(done.log.slice(-4), ["confirmed false", `went ${on}`, "socks and shoes", "left"])
            assert.strictEqual(done.log.length, first.log.length)
          }
          assert.deepStrictEqual(rows(yield* all(inner.history())).filter(([source]) => source === "fork").length, 2)
        })
      )

      it.effect("a run from where a subgraph was yields the thread's state", () =>
        Effect.gen(function* () {
          const trip = yield* freshTrip
          yield* trip.run({ log: ["light"] })
          const done = yield* trip.resume(Confirm, true)
          const inner = trip.subgraph(visit, "day|visit")
          const going = (yield* all(inner.history())).find(({ next }) => next.includes("go"))!
          const again = yield* inner.at(going.checkpoint!.id).resumeThread()
          assert.deepStrictEqual(again, done)
          assert.deepStrictEqual(again.left, new Date(6))
          // At its end there is nothing left to run in it.
          assert.deepStrictEqual(yield* inner.resumeThread({ runId: "again" }), done)
          assert.strictEqual((yield* trip.state).metadata.run_id, "again")
        })
      )

      it.effect("a graph that a node runs is a subgraph like one that is a node", () =>
        Effect.gen(function* () {
          const trip = yield* freshTrip
          yield* trip.run({ log: [] })
          yield* Effect.flip(trip.resume(Confirm, true))
          const [namespace] = yield* inside(trip)
          const inner = trip.subgraph(packing, namespace!)
          const state = yield* inner.state
          assert.deepStrictEqual([state.values.bag, state.next], [["socks"], ["shoes"]])
          yield* inner.update({ bag: "hat" }, { as: "socks" })
          assert.strictEqual((yield* trip.resume()).log.at(-2), "socks and hat and shoes")
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
