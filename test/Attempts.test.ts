/** What is left of an attempt that failed or was too slow has no say in the next one. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { Activity, Checkpointer, Graph, Interrupt, Task } from "effect-pregel"
import { names, says } from "./support/graphs.js"
import { collect, makeTrace } from "./support/thread.js"

const child = Graph.make("child", names).addNode("in", says("in")).addEdge(Graph.START, "in").compile()

const forks = {
  "a forked fiber": Effect.fork,
  "a daemon": Effect.forkDaemon
}

const ends = {
  "after a failure": { first: Effect.fail("flaky"), timeout: false },
  "after a timeout": { first: Effect.sleep("1 hour"), timeout: "5 seconds" }
} as const

for (const [end, { first, timeout }] of Object.entries(ends)) {
  for (const [left, fork] of Object.entries(forks)) {
    describe(`${left} of an attempt, ${end}`, () => {
      const trace = makeTrace()
      const act = Activity.make("act", {
        input: Schema.String,
        success: Schema.String,
        execute: (input) => Effect.as(trace.note(`act ${input}`), input)
      })
      const late: Record<string, Effect.Effect<unknown, unknown, Task.Task>> = {
        "pauses nothing": Interrupt.interrupt("late"),
        "emits nothing": Task.emit("late"),
        "calls no activity": act("late"),
        "runs no graph": child.invoke({})
      }
      for (const [what, call] of Object.entries(late)) {
        it.effect(what, () =>
          Effect.gen(function* () {
            trace.take()
            let attempt = 0
            const graph = Graph.make("g", names)
              .addNode(
                "node",
                () =>
                  Effect.gen(function* () {
                    attempt += 1
                    if (attempt === 1) {
                      yield* fork(Effect.zipRight(Effect.sleep("7 seconds"), Effect.ignore(call)))
                      yield* first
                    }
                    yield* Effect.sleep("4 seconds")
                    yield* act("now")
                    const answer = yield* Interrupt.interrupt<string>("now")
                    return { foo: answer }
                  }),
                { retry: Schedule.spaced("1 second"), timeout }
              )
              .addEdge(Graph.START, "node")
              .compile()
            const thread = graph.thread("t")
            const events = yield* Effect.fork(
              collect(thread.stream({}, { modes: ["custom", "tasks"], subgraphs: true }))
            )
            yield* TestClock.adjust("1 minute")
            const told = yield* Fiber.join(events)
            assert.deepStrictEqual(
              told.map(({ _tag }) => _tag),
              ["TaskStarted", "TaskEnded"]
            )
            const { interrupts } = yield* thread.state
            assert.deepStrictEqual(
              interrupts.map(({ id, value }) => [id.split(":").at(-1), value]),
              [["0", "now"]]
            )
            assert.deepStrictEqual(trace.take(), ["act now"])
            const answered = yield* Effect.fork(thread.answer("yes"))
            yield* TestClock.adjust("1 minute")
            assert.deepStrictEqual((yield* Fiber.join(answered)).foo, ["yes"])
            assert.deepStrictEqual(trace.take(), [])
          }).pipe(Effect.provide(Checkpointer.layerMemory))
        )
      }
    })
  }
}

it.effect("an attempt's own events and calls go on as ever", () =>
  Effect.gen(function* () {
    const graph = Graph.make("g", names)
      .addNode(
        "node",
        () =>
          Effect.gen(function* () {
            const { attempt } = yield* Task.current
            yield* Task.emit(attempt)
            if (attempt < 3) return yield* Effect.fail("flaky")
            return yield* child.invoke({})
          }),
        { retry: Schedule.recurs(5) }
      )
      .addEdge(Graph.START, "node")
      .compile()
    const events = yield* collect(Stream.filter(graph.stream({}, { modes: ["custom", "values"] }), () => true))
    assert.deepStrictEqual(
      events.map((event) => (event._tag === "Custom" ? event.value : event.state)),
      [1, 2, 3, { foo: ["in"] }]
    )
  })
)
