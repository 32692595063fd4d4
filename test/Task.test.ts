import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as FiberRef from "effect/FiberRef"
import * as Schedule from "effect/Schedule"
import * as TestClock from "effect/TestClock"
import { Checkpointer, Graph, Task } from "effect-pregel"
import { names, says, word } from "./support/graphs.js"
import { failsWith, makeTrace } from "./support/thread.js"

describe("what a node may ask", () => {
  it.effect("core-160 is a service and no channel: it is neither in the state nor written", () =>
    Effect.gen(function* () {
      const seen: Array<object> = []
      const graph = Graph.make("g", names)
        .addNode("a", (state) =>
          Effect.gen(function* () {
            seen.push(state)
            return { foo: String(yield* Task.remainingSteps) }
          })
        )
        .addEdge(Graph.START, "a")
        .compile()
      assert.deepStrictEqual(yield* graph.invoke({}), { foo: ["24"] })
      assert.deepStrictEqual(seen, [{ foo: [] }])
      const writing = Graph.make("g", names)
        .addNode("a", () => Effect.succeed({ remainingSteps: 1 } as {}))
        .addEdge(Graph.START, "a")
        .compile()
      assert.strictEqual((yield* failsWith(writing.invoke({}), "InvalidUpdate")).reason, "UnknownChannel")
    })
  )

  const info = (task: Task.TaskContext) => {
    const { attempt, checkpoint, firstAttempt, graph, id, namespace, node, step, thread } = task
    return { attempt, checkpoint, firstAttempt, graph, id, namespace, node, step, thread }
  }
  const noting = (seen: Array<ReturnType<typeof info>>) => () =>
    Effect.map(Task.current, (task) => void seen.push(info(task)))

  it.effect("core-163 is who it is: task, superstep, thread, checkpoint", () =>
    Effect.gen(function* () {
      const seen: Array<ReturnType<typeof info>> = []
      const graph = Graph.make("g", names).addNode("a", noting(seen)).addEdge(Graph.START, "a").compile()
      const thread = graph.thread("t-123")
      yield* thread.run({}, { interruptBefore: ["a"] })
      const { checkpoint } = yield* thread.state
      yield* thread.resume()
      yield* graph.invoke({})
      assert.deepStrictEqual(seen[0], {
        attempt: 1,
        checkpoint: checkpoint!.id,
        firstAttempt: 0,
        graph: "g",
        id: `${checkpoint!.id}:a`,
        namespace: [],
        node: "a",
        step: 1,
        thread: "t-123"
      })
      assert.deepStrictEqual([seen[1]!.thread, seen[1]!.checkpoint], [undefined, undefined])
      assert.match(seen[1]!.id, /:a$/)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )

  it.effect("core-163 is the same for every attempt but its number", () =>
    Effect.gen(function* () {
      const seen: Array<ReturnType<typeof info>> = []
      const graph = Graph.make("g", names)
        .addNode(
          "a",
          () =>
            Effect.gen(function* () {
              yield* noting(seen)()
              yield* TestClock.adjust("1 second")
              if (seen.length < 2) return yield* Effect.fail("again" as const)
              return undefined
            }),
          { retry: Schedule.recurs(1) }
        )
        .addEdge(Graph.START, "a")
        .compile()
      yield* TestClock.adjust("5 seconds")
      yield* graph.invoke({})
      assert.deepStrictEqual(seen, [seen[0]!, { ...seen[0]!, attempt: 2 }])
      assert.deepStrictEqual([seen[0]!.attempt, seen[0]!.firstAttempt], [1, 5000])
    })
  )

  it.effect("core-163 is, in a graph inside, also the tasks that lead there", () =>
    Effect.gen(function* () {
      const seen: Array<ReturnType<typeof info>> = []
      const sub = Graph.make("sub", names).addNode("sub_node", noting(seen)).addEdge(Graph.START, "sub_node").compile()
      const graph = Graph.make("main", names)
        .addNode("main_node", noting(seen))
        .addGraph("subgraph", sub)
        .addEdge(Graph.START, "main_node")
        .addEdge("main_node", "subgraph")
        .compile()
      yield* graph.thread("t-123").invoke({})
      const [main, inner] = seen
      assert.deepStrictEqual([main!.thread, inner!.thread], ["t-123", "t-123"])
      assert.deepStrictEqual([main!.namespace, inner!.namespace.length, inner!.graph], [[], 1, "sub"])
      assert.match(inner!.namespace[0]!, /^subgraph:/)
      assert.notStrictEqual(main!.id, inner!.id)
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("a drain", () => {
  it.effect("core-165 lets the running superstep end, also in a graph inside, and the thread can go on", () =>
    Effect.gen(function* () {
      const trace = makeTrace()
      const control = Graph.makeControl()
      const node = (name: string) => () => Effect.as(trace.note(name), { [name]: "done" } as {})
      const state = { child_first: word, child_second: word, parent_second: word }
      const child = Graph.make("child", state)
        .addNode("child_first", () => Effect.tap(node("child_first")(), () => control.requestDrain("deploy")))
        .addNode("child_second", node("child_second"))
        .addEdge(Graph.START, "child_first")
        .addEdge("child_first", "child_second")
        .compile()
      const parent = Graph.make("parent", state)
        .addGraph("child", child)
        .addNode("parent_second", node("parent_second"))
        .addEdge(Graph.START, "child")
        .addEdge("child", "parent_second")
        .compile()
      const thread = parent.thread("t")
      const drained = yield* failsWith(thread.invoke({}, { control }), "GraphDrained")
      assert.strictEqual(drained.reason, "deploy")
      assert.deepStrictEqual(trace.take(), ["child_first"])
      assert.deepStrictEqual(yield* thread.resume(), {
        child_first: "done",
        child_second: "done",
        parent_second: "done"
      })
      assert.deepStrictEqual(trace.take(), ["child_second", "parent_second"])
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("options of the graph and of the run", () => {
  it.effect("core-166 are merged: the run's win, metadata is merged by key, and neither is changed", () =>
    Effect.gen(function* () {
      const bound = { metadata: { user_id: "U1", shared: "graph" }, interruptBefore: ["b"], recursionLimit: 7 } as const
      const graph = Graph.make("g", names)
        .addSequence([
          ["a", says("a")],
          ["b", says("b")]
        ])
        .addEdge(Graph.START, "a")
        .compile(bound)
      const thread = graph.thread("t")
      const call = { metadata: { correlation_id: "C1", shared: "call" } }
      yield* thread.run({}, call)
      const state = yield* thread.state
      assert.deepStrictEqual(state.metadata, { user_id: "U1", shared: "call", correlation_id: "C1" })
      assert.deepStrictEqual(state.next, ["b"])
      assert.deepStrictEqual(call, { metadata: { correlation_id: "C1", shared: "call" } })
      assert.deepStrictEqual(bound.metadata, { user_id: "U1", shared: "graph" })
      assert.deepStrictEqual(yield* graph.invoke({}, { interruptBefore: [] }), { foo: ["a", "b"] })
    }).pipe(Effect.provide(Checkpointer.layerMemory))
  )
})

describe("the fiber of a task", () => {
  it.effect("has the services of the run beside the task, one by one and as a whole, in nested runs too", () =>
    Effect.gen(function* () {
      class Name extends Context.Tag("Name")<Name, string>() {}
      class Other extends Context.Tag("Other")<Other, number>() {}
      const seen: Array<unknown> = []
      const look = Effect.gen(function* () {
        const whole = yield* Effect.context<Name>()
        const task = yield* Task.current
        seen.push([yield* Name, task.node, Context.unsafeGet(whole, Task.Task).node])
        const keys = Array.from(whole.unsafeMap.keys())
        assert.deepStrictEqual([...new Set(keys)].length, keys.length)
        assert.strictEqual(whole.unsafeMap.size, keys.length)
        assert.includeMembers(keys, [Name.key, Task.Task.key])
        const more = Context.add(whole, Other, 1)
        assert.isTrue(Equal.equals(whole, Context.omit(Other)(more)))
        yield* Effect.provide(
          Effect.gen(function* () {
            seen.push([yield* Name, yield* Other, (yield* Task.current).node])
          }),
          Context.merge(whole, Context.make(Other, 2))
        )
      })
      const inner = Graph.make("inner", names)
        .addNode("b", () => look)
        .addEdge(Graph.START, "b")
        .compile()
      const graph = Graph.make("outer", names)
        .addNode("a", () => Effect.zipRight(look, inner.invoke({})))
        .addEdge(Graph.START, "a")
        .compile()
      yield* Effect.provideService(graph.invoke({}), Name, "me")
      assert.deepStrictEqual(seen, [
        ["me", "a", "a"],
        ["me", 2, "a"],
        ["me", "b", "b"],
        ["me", 2, "b"]
      ])
    })
  )

  it.effect("a task's changes of fiber refs are its own", () =>
    Effect.gen(function* () {
      const ref = FiberRef.unsafeMake("outside")
      const seen: Array<string> = []
      const graph = Graph.make("g", names)
        .addNode("a", () =>
          Effect.gen(function* () {
            seen.push(yield* FiberRef.get(ref))
            yield* FiberRef.set(ref, "of a")
          })
        )
        .addNode("b", () => Effect.map(FiberRef.get(ref), (value) => void seen.push(value)))
        .addEdge(Graph.START, "a")
        .addEdge("a", "b")
        .compile()
      yield* Effect.locally(graph.invoke({}), ref, "of the run")
      yield* graph.invoke({})
      assert.deepStrictEqual(seen, ["of the run", "of the run", "outside", "outside"])
    })
  )
})
