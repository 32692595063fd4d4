import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"
import { Activity, Checkpointer, Command, Graph, Interrupt, Send, Task } from "effect-pregel"
import { briefly } from "./support/events.js"
import { names, says, word } from "./support/graphs.js"
import { asked, concat, failsWith, log, makeTrace } from "./support/thread.js"

class ValueError extends Schema.TaggedError<ValueError>()("ValueError", { message: Schema.String }) {}
class KeyError extends Schema.TaggedError<KeyError>()("KeyError", {}) {}

/** At most `n` attempts. */
const attempts = (n: number, delay: Duration.DurationInput = 0) =>
  Schedule.intersect(Schedule.spaced(delay), Schedule.recurs(n - 1))

/** A node that fails until its `last` attempt, and the attempts it made: number, time, time of the first. */
const flaky = (
  last: number,
  error: () => ValueError | KeyError = () => new ValueError({ message: "Always fails" })
) => {
  const made: Array<readonly [attempt: number, at: number, first: number]> = []
  const run = () =>
    Effect.gen(function* () {
      const { attempt, firstAttempt } = yield* Task.current
      made.push([attempt, yield* Clock.currentTimeMillis, firstAttempt])
      if (attempt < last) return yield* Effect.fail(error())
      return { foo: `attempt ${attempt}` }
    })
  return { made, run }
}

/** Runs to the end, however long its nodes sleep. */
const eventually = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(effect)
    yield* TestClock.adjust("1 minute")
    return yield* Fiber.join(fiber)
  })

describe("retry", () => {
  it.effect("core-112 waits as the schedule says, and every attempt knows its number and when the first began", () =>
    Effect.gen(function* () {
      const node = flaky(3)
      const graph = Graph.make("g", { foo: word })
        .addNode("failing_node", node.run, {
          retry: Schedule.intersect(Schedule.exponential("10 millis", 2), Schedule.recurs(2))
        })
        .addNode("other_node", () => Effect.succeed({ foo: "other_node" }))
        .addEdge(Graph.START, "failing_node")
        .addEdge("failing_node", "other_node")
        .compile()
      assert.deepStrictEqual(yield* eventually(graph.invoke({ foo: "" })), { foo: "other_node" })
      assert.deepStrictEqual(node.made, [
        [1, 0, 0],
        [2, 10, 0],
        [3, 30, 0]
      ])
    })
  )

  it.effect("core-112 waits longer where the schedule adds a delay, and ends with the last failure", () =>
    Effect.gen(function* () {
      const added = flaky(2)
      const node = (run: typeof added.run, retry: Schedule.Schedule<unknown>) =>
        Graph.make("g", names).addNode("a", run, { retry }).addEdge(Graph.START, "a").compile().invoke({})
      const jittered = Schedule.addDelay(attempts(2, "10 millis"), () => "50 millis")
      assert.deepStrictEqual(yield* eventually(node(added.run, jittered)), { foo: ["attempt 2"] })
      assert.deepStrictEqual(
        added.made.map(([, at]) => at),
        [0, 60]
      )
      const hopeless = flaky(9)
      const error = yield* eventually(failsWith(node(hopeless.run, attempts(2, "10 millis")), "ValueError"))
      assert.deepStrictEqual([error.message, hopeless.made.length], ["Always fails", 2])
    })
  )

  it.effect("core-113 may follow another schedule for each kind of failure; other failures are not repeated", () =>
    Effect.gen(function* () {
      const values = attempts(2, "10 millis").pipe(
        Schedule.whileInput((e: { _tag: string }) => e._tag === "ValueError")
      )
      const keys = attempts(3, "20 millis").pipe(Schedule.whileInput((e: { _tag: string }) => e._tag === "KeyError"))
      const run = (node: ReturnType<typeof flaky>) =>
        Graph.make("g", names)
          .addNode("a", node.run, { retry: Schedule.union(values, keys) })
          .addEdge(Graph.START, "a")
          .compile()
          .invoke({})
      const value = flaky(2)
      assert.deepStrictEqual(yield* eventually(run(value)), { foo: ["attempt 2"] })
      const key = flaky(3, () => new KeyError())
      assert.deepStrictEqual(yield* eventually(run(key)), { foo: ["attempt 3"] })
      assert.deepStrictEqual([value.made.length, key.made.length], [2, 3])
      yield* eventually(failsWith(run(flaky(4, () => new KeyError())), "KeyError"))
      const other = flaky(2, () => ({ _tag: "Other" }) as never)
      yield* failsWith(run(other), "Other" as never)
      assert.strictEqual(other.made.length, 1)
    })
  )

  it.effect("core-115 repeats every failure but defects, and what `while` lets through if it is given", () =>
    Effect.gen(function* () {
      const run = (node: () => Effect.Effect<{ foo: string }, ValueError | KeyError>) =>
        Graph.make("g", names)
          .addNode("a", node, { retry: { schedule: attempts(3), while: (error) => error._tag !== "KeyError" } })
          .addEdge(Graph.START, "a")
          .compile()
          .invoke({})
      let calls = 0
      const counted = (effect: Effect.Effect<{ foo: string }, ValueError | KeyError>) => () =>
        Effect.zipRight(
          Effect.sync(() => calls++),
          effect
        )
      yield* eventually(failsWith(run(counted(new ValueError({ message: "" }))), "ValueError"))
      assert.strictEqual(calls, 3)
      calls = 0
      yield* eventually(failsWith(run(counted(new KeyError())), "KeyError"))
      assert.strictEqual(calls, 1)
      calls = 0
      const defect = yield* Effect.exit(run(counted(Effect.die("defect"))))
      assert.deepStrictEqual([calls, Exit.isFailure(defect)], [1, true])
    })
  )

  it.effect("core-116 forgets what failed attempts wrote, but not the events they sent", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", { items: log })
        .addNode(
          "a",
          () =>
            Effect.gen(function* () {
              const { attempt } = yield* Task.current
              yield* Task.emit(`attempt${attempt}`)
              if (attempt < 3) return yield* new ValueError({ message: "not yet" })
              return { items: `ok${attempt}` }
            }),
          { retry: attempts(3, "1 millis") }
        )
        .addEdge(Graph.START, "a")
        .compile()
      const events = yield* eventually(briefly(graph.stream({}, { modes: ["custom", "updates", "tasks"] })))
      assert.deepStrictEqual(events, [
        ["start", "a"],
        ["custom", "attempt1"],
        ["custom", "attempt2"],
        ["custom", "attempt3"],
        ["updates", "a", { items: "ok3" }],
        ["end", "a"]
      ])
    })
  )

  it.effect("core-117 does not repeat a pause", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const graph = Graph.make("g", { my_key: concat, market: word })
        .addNode(
          "node",
          ({ market }) =>
            Effect.gen(function* () {
              yield* trace.note("node")
              if (market === "DE") yield* Interrupt.interrupt("Germany?")
              return { my_key: " all good" }
            }),
          { retry: attempts(3) }
        )
        .addEdge(Graph.START, "node")
        .compile()
      const paused = yield* graph.thread("t").run({ my_key: "value", market: "DE" })
      assert.strictEqual(asked(paused).length, 1)
      assert.deepStrictEqual(paused.state, { my_key: "value", market: "DE" })
      assert.strictEqual(trace.count("node"), 1)
      assert.deepStrictEqual(yield* graph.invoke({ my_key: "value", market: "US" }), {
        my_key: "value all good",
        market: "US"
      })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("an attempt starts from nothing, but what is saved stays", () => {
  it.effect("activities that ended are not run again by a later attempt", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const charge = Activity.make("charge", {
        input: Schema.Number,
        success: Schema.String,
        execute: (cents) => Effect.as(trace.note(`charge ${cents}`), `receipt ${cents}`)
      })
      const node = flaky(3)
      const graph = Graph.make("g", names)
        .addNode(
          "a",
          () =>
            Effect.gen(function* () {
              const receipts = [yield* charge(1), yield* charge(1), yield* charge(2)]
              yield* node.run()
              return { foo: receipts }
            }),
          { retry: attempts(3) }
        )
        .addEdge(Graph.START, "a")
        .compile()
      for (const run of [graph.invoke({}), graph.thread("t").invoke({})]) {
        assert.deepStrictEqual(yield* eventually(run), { foo: ["receipt 1", "receipt 1", "receipt 2"] })
        assert.deepStrictEqual(trace.take(), ["charge 1", "charge 1", "charge 2"])
      }
      assert.strictEqual(node.made.length, 6)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("questions that were answered are not asked again by a later attempt", () =>
    Effect.gen(function* () {
      const answers: Array<unknown> = []
      const graph = Graph.make("g", names)
        .addNode(
          "a",
          () =>
            Effect.gen(function* () {
              const { attempt } = yield* Task.current
              answers.push([yield* Interrupt.interrupt("first?"), yield* Interrupt.interrupt("second?")])
              if (attempt < 3) return yield* new ValueError({ message: "again" })
              return { foo: "done" }
            }),
          { retry: attempts(3) }
        )
        .addEdge(Graph.START, "a")
        .compile()
      const thread = graph.thread("t")
      yield* thread.run({})
      const second = yield* failsWith(thread.answer(1), "GraphInterrupt")
      assert.deepStrictEqual(
        second.interrupts.map(({ value }) => value),
        ["second?"]
      )
      assert.deepStrictEqual(yield* eventually(thread.answer(2)), { foo: ["done"] })
      assert.deepStrictEqual(answers, Array(3).fill([1, 2]))
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("graphs inside go on where the last attempt left them, each from its own place", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const note = (name: string) => () => Effect.as(trace.note(name), { foo: name })
      const sub = (name: string, last: Effect.Effect<unknown, ValueError>) =>
        Graph.make(name, names)
          .addNode("one", note(`${name} one`))
          .addNode("two", () => Effect.zipRight(trace.note(`${name} two`), Effect.as(last, { foo: `${name} two` })))
          .addEdge(Graph.START, "one")
          .addEdge("one", "two")
          .compile()
      let failures = 0
      const flakyEnd = Effect.suspend(() => (failures++ < 2 ? new ValueError({ message: "again" }) : Effect.void))
      const [steady, shaky] = [sub("steady", Effect.void), sub("shaky", flakyEnd)]
      const graph = Graph.make("g", names)
        .addNode(
          "a",
          () =>
            Effect.gen(function* () {
              const first = yield* steady.invoke({})
              const second = yield* shaky.invoke({})
              return { foo: [...first.foo, ...second.foo] }
            }),
          { retry: attempts(3) }
        )
        .addEdge(Graph.START, "a")
        .compile()
      const all = ["steady one", "steady two", "shaky one", "shaky two"]
      assert.deepStrictEqual(yield* eventually(graph.thread("t").invoke({})), { foo: all })
      assert.deepStrictEqual(trace.take(), [...all, "shaky two", "shaky two"])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("time limits", () => {
  it("core-118 are durations or policies; what makes no sense is refused where it is declared", () => {
    const declared = (timeout: any) => {
      const builder = Graph.make("g", names).addNode("a", says("a"), { timeout }).addEdge(Graph.START, "a")
      const result = builder.validate()
      return result._tag === "Left" ? result.left.problems.join() : result.right.nodes[1]!.policy.timeout
    }
    assert.strictEqual(declared(undefined), undefined)
    assert.deepStrictEqual(declared(1500), { run: 1500 })
    assert.deepStrictEqual(declared("2 seconds"), { run: 2000 })
    assert.deepStrictEqual(declared(Duration.seconds(1)), { run: 1000 })
    assert.deepStrictEqual(declared({ idle: 250 }), { idle: 250 })
    assert.strictEqual(declared({}), undefined)
    assert.strictEqual(declared(Duration.infinity), undefined)
    assert.include(declared(0), "greater than 0")
    assert.include(declared({ idle: 0 }), "greater than 0")
    assert.include(declared("soon"), "greater than 0")
    assert.include(declared({ run: 1, refreshOn: "nope" }), '"auto" or "heartbeat"')
  })

  const limited = (timeout: Send.SendOptions["timeout"], node: Effect.Effect<unknown, never, Task.Task>) =>
    Graph.make("g", names)
      .addNode("slow", () => Effect.as(node, { foo: "done" }), { timeout })
      .addEdge(Graph.START, "slow")
      .compile()
      .invoke({})

  const every = (millis: number, progress: Effect.Effect<unknown, never, Task.Task>) =>
    Effect.repeatN(Effect.zipRight(Effect.sleep(millis), progress), 9)

  const alive = Effect.suspend(() =>
    Graph.make("alive", names)
      .addNode("a", () => Effect.as(every(80, Task.heartbeat), { foo: "a" }))
      .addEdge(Graph.START, "a")
      .compile()
      .invoke({})
  )

  const nested = Effect.suspend(() => {
    const step = () => Effect.delay(Effect.succeed({ foo: "step" }), 80)
    return Graph.make("nested", names)
      .addSequence([
        ["a", step],
        ["b", step],
        ["c", step]
      ])
      .addEdge(Graph.START, "a")
      .compile()
      .invoke({})
  })

  it.effect("core-120 an idle limit starts over with everything that the node tells", () =>
    Effect.gen(function* () {
      const idle = { idle: 120 }
      const heartbeats = { idle: 120, refreshOn: "heartbeat" } as const
      for (const [timeout, node] of [
        [idle, every(80, Task.heartbeat)],
        [idle, every(80, Effect.orDie(Task.emit("event")))],
        [idle, Effect.orDie(nested)],
        [idle, Effect.orDie(alive)],
        [heartbeats, every(80, Task.heartbeat)]
      ] as const) {
        assert.deepStrictEqual(yield* eventually(limited(timeout, node)), { foo: ["done"] })
      }
      for (const [timeout, node, elapsed] of [
        [idle, Effect.sleep(130), 120],
        [idle, Effect.zipRight(every(80, Task.heartbeat), Effect.sleep(130)), 920],
        [heartbeats, every(80, Effect.orDie(Task.emit("event"))), 120],
        [heartbeats, Effect.orDie(nested), 120]
      ] as const) {
        const error = yield* eventually(failsWith(limited(timeout, node), "TaskTimeout"))
        assert.deepStrictEqual([error.node, error.kind, error.elapsedMillis], ["slow", "idle", elapsed])
      }
    })
  )

  it.effect("core-121 an attempt that took too long is interrupted and leaves nothing behind", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const run = (node: Effect.Effect<unknown>) =>
        Graph.make("g", names)
          .addNode(
            "slow",
            () =>
              Effect.as(
                Effect.onExit(node, (exit) => trace.note(exit._tag)),
                { foo: "stale" }
              ),
            {
              timeout: 50,
              onError: (error) => Effect.succeed({ foo: error._tag })
            }
          )
          .addEdge(Graph.START, "slow")
          .compile()
          .invoke({})
      assert.deepStrictEqual(yield* eventually(run(Effect.sleep(100))), { foo: ["TaskTimeout"] })
      assert.deepStrictEqual(trace.take(), ["Failure"])
      const stubborn = Effect.uninterruptible(Effect.zipRight(Effect.sleep(100), trace.note("worked on")))
      // A node that can't be interrupted ends by itself; what it did after its time counts for nothing.
      assert.deepStrictEqual(yield* eventually(run(stubborn)), {
        foo: ["TaskTimeout"]
      })
      assert.deepStrictEqual(trace.take(), ["worked on", "Failure"])
      const late = Effect.onInterrupt(Effect.never, () => Effect.die("too late to matter"))
      assert.deepStrictEqual(yield* eventually(run(late)), { foo: ["TaskTimeout"] })
    })
  )

  it.effect("core-122 is one of the failures that are retried, with a new clock for every attempt", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode(
          "flaky",
          () =>
            Effect.gen(function* () {
              const { attempt } = yield* Task.current
              yield* Effect.sleep(attempt === 1 ? 60 : 40)
              return { foo: `attempt ${attempt}` }
            }),
          { timeout: 50, retry: attempts(3) }
        )
        .addEdge(Graph.START, "flaky")
        .compile()
      assert.deepStrictEqual(yield* eventually(graph.invoke({})), { foo: ["attempt 2"] })
      const own = Graph.make("g", names)
        .addNode("own", () => Effect.timeout(Effect.never, 10), { timeout: 50 })
        .addEdge(Graph.START, "own")
        .compile()
      const error = yield* eventually(failsWith(own.invoke({}), "TimeoutException"))
      assert.strictEqual(error._tag, "TimeoutException")
    })
  )

  it.effect("core-123 of a send replace those of its node, also when they were saved in between", () =>
    Effect.gen(function* () {
      const graph = (timeout: Send.SendOptions["timeout"]) =>
        Graph.make("g", names)
          .addNode("slow", () => Effect.delay(Effect.succeed({ foo: "done" }), "1 second"), { timeout: { idle: 500 } })
          .addConditionalEdges(Graph.START, (state) => [Send.make("slow", state, { timeout })], ["slow"])
          .compile()
      const short = yield* eventually(failsWith(graph({ idle: 50 }).invoke({}), "TaskTimeout"))
      assert.deepStrictEqual([short.node, short.kind, short.limitMillis], ["slow", "idle", 50])
      const run = yield* eventually(failsWith(graph("60 millis").invoke({}), "TaskTimeout"))
      assert.deepStrictEqual([run.kind, run.limitMillis], ["run", 60])
      assert.deepStrictEqual(yield* eventually(graph(Duration.infinity).invoke({})), { foo: ["done"] })
      yield* failsWith(graph(0).invoke({}), "InvalidUpdate")

      const thread = graph(Duration.seconds(2)).thread("t")
      yield* thread.run({}, { interruptBefore: ["slow"] })
      assert.deepStrictEqual(yield* eventually(thread.resume()), { foo: ["done"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("error handlers", () => {
  it.effect("core-125 run in the same superstep with the failed node's input; the node's edges do not fire", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const graph = Graph.make("g", names)
        .addNode("bad", () => new ValueError({ message: "bad" }), {
          onError: (error, state) =>
            Effect.as(
              Effect.sync(() => seen.push(error.message, state)),
              { foo: "handled" }
            )
        })
        .addNode("ok", () => Effect.delay(Effect.succeed({ foo: "ok" }), "20 millis"))
        .addNode("after", says("after"))
        .addEdge(Graph.START, "bad")
        .addEdge(Graph.START, "ok")
        .addEdge("bad", "after")
        .compile()
      const events = yield* eventually(briefly(graph.stream({ foo: "x" }, { modes: ["updates", "values"] })))
      assert.deepStrictEqual(events, [
        ["values", { foo: ["x"] }],
        ["updates", "__error_handler__bad", { foo: "handled" }],
        ["updates", "ok", { foo: "ok" }],
        ["values", { foo: ["x", "ok", "handled"] }]
      ])
      assert.deepStrictEqual(seen, ["bad", { foo: ["x"] }])
      const tasks = yield* eventually(briefly(graph.stream({ foo: "x" }, { modes: ["tasks"] })))
      assert.deepStrictEqual(
        tasks.filter(([kind]) => kind === "start").map(([, node]) => node),
        ["bad", "ok", "__error_handler__bad"]
      )
    })
  )

  it.effect("core-125 may go on by a command", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("bad", () => new ValueError({ message: "bad" }), {
          goto: ["after"],
          onError: () => Effect.succeed(Command.make({ update: { foo: "handled" }, goto: "after" }))
        })
        .addNode("after", says("after"))
        .addEdge(Graph.START, "bad")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({}), { foo: ["handled", "after"] })
    })
  )

  it.effect("core-126 belong to one node, and their own failures are the run's", () =>
    Effect.gen(function* () {
      const fails = (message: string) => () => new ValueError({ message })
      const handles = (foo: string) => ({ onError: () => Effect.succeed({ foo }) })
      const graph = Graph.make("g", { foo: log, route: word })
        .addNode("fail_a", fails("a"), handles("handled_a"))
        .addNode("fail_b", fails("b"), handles("handled_b"))
        .addNode("unhandled", fails("no handler"))
        .addNode("worse", fails("c"), { onError: () => new ValueError({ message: "handler failed" }) })
        .addConditionalEdges(Graph.START, ({ route }) => route as "fail_a", ["fail_a", "fail_b", "unhandled", "worse"])
        .compile()
      const run = (route: string) => Effect.map(graph.invoke({ route }), ({ foo }) => foo)
      assert.deepStrictEqual(yield* run("fail_a"), ["handled_a"])
      assert.deepStrictEqual(yield* run("fail_b"), ["handled_b"])
      assert.strictEqual((yield* failsWith(run("unhandled"), "ValueError")).message, "no handler")
      assert.strictEqual((yield* failsWith(run("worse"), "ValueError")).message, "handler failed")
    })
  )

  it.effect("core-126 of a node that calls a graph handle the failures inside", () =>
    Effect.gen(function* () {
      const sub = Graph.make("sub", { foo: word })
        .addNode("a", () => new ValueError({ message: "subgraph boom" }))
        .addEdge(Graph.START, "a")
        .compile()
      const parent = Graph.make("parent", { foo: word })
        .addNode("subgraph_node", (state) => sub.invoke(state), {
          onError: (error) => Effect.succeed({ foo: `handled ${error.message}` })
        })
        .addEdge(Graph.START, "subgraph_node")
        .compile()
      assert.deepStrictEqual(yield* parent.invoke({ foo: "" }), { foo: "handled subgraph boom" })
    })
  )

  it.effect("core-127 run once, after the last attempt, and see what the node sees; defaults are shared options", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const defaults = {
        retry: attempts(3),
        onError: (error: unknown, state: unknown) =>
          Effect.as(
            Effect.sync(() => seen.push((error as ValueError).message, state)),
            { handled: "default" }
          )
      }
      const run = (node: ReturnType<typeof flaky>, options: object) =>
        Graph.make("g", { a: word, b: word, handled: word })
          .addNode("fail", () => Effect.asVoid(node.run()), { ...defaults, reads: ["a"], ...options })
          .addEdge(Graph.START, "fail")
          .compile()
          .invoke({ a: "x", b: "y" })
      const node = flaky(9)
      assert.deepStrictEqual(yield* eventually(run(node, {})), { a: "x", b: "y", handled: "default" })
      assert.deepStrictEqual([node.made.length, seen], [3, ["Always fails", { a: "x" }]])
      const own = flaky(9)
      yield* eventually(run(own, { retry: attempts(2), onError: () => Effect.succeed({ handled: "own" }) }))
      assert.deepStrictEqual([own.made.length, seen.length], [2, 2])
    })
  )

  it.effect("handle what a node that interrupts itself leaves", () =>
    Effect.gen(function* () {
      const graph = Graph.make("g", names)
        .addNode("boom", () => Effect.interrupt, { onError: (error) => Effect.succeed({ foo: error._tag }) })
        .addEdge(Graph.START, "boom")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({}), { foo: ["NodeCancelled"] })
    })
  )
})

describe("interruption", () => {
  it.effect("core-128 of a node by itself is a failure, of the run from outside it is an interruption", () =>
    Effect.gen(function* () {
      const graph = (boom: Effect.Effect<never>) =>
        Graph.make("g", { vals: log })
          .addNode("ok", () => Effect.succeed({ vals: "ok" }))
          .addNode("boom", () => boom)
          .addEdge(Graph.START, "ok")
          .addEdge(Graph.START, "boom")
          .compile()
          .invoke({ vals: [] })
      const error = yield* failsWith(graph(Effect.interrupt), "NodeCancelled")
      assert.strictEqual(error.node, "boom")
      const fiber = yield* Effect.fork(graph(Effect.never))
      yield* Effect.yieldNow()
      assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(fiber)))
    })
  )
})
