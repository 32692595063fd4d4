/** A host dies at one of its saves; the next one is delivered the same call. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Schema, Stream } from "effect"
import * as Channel from "../src/Channel.js"
import * as Checkpointer from "../src/Checkpointer.js"
import * as Graph from "../src/Graph.js"
import * as Interrupt from "../src/Interrupt.js"
import { injectFaults } from "../src/internal/faults.js"
import type { Call } from "../src/Load.js"
import type { Outcome } from "../src/Loop.js"
import * as Thread from "../src/Thread.js"

type Saver = typeof Checkpointer.Checkpointer.Service

const WRITES = new Set(["append", "putWrites", "dropWrites", "rewrite", "putThread", "deleteThread", "setStatus"])

/** What hosts use. */
const { handle, start } = Thread as unknown as {
  readonly handle: (topology: unknown, options: { readonly fence: number; readonly runId: string }, id: string) => any
  readonly start: (handle: unknown, call: Call) => Effect.Effect<Outcome, unknown, Checkpointer.Checkpointer>
}

const GO_ON: Call = { _tag: "Resume", answer: undefined, command: undefined }

/** A storage that is gone from its n-th write on, with or without that write. */
const dying = (saver: Saver, at: number, takesEffect: boolean) => {
  let writes = 0
  const encoded = injectFaults(saver.encoded, ({ operation }) => {
    if (!WRITES.has(operation)) return writes < at ? undefined : { _tag: "Fail" }
    const number = ++writes
    if (number < at) return undefined
    return number === at && takesEffect ? { _tag: "Lose" } : { _tag: "Fail" }
  })
  return { service: Checkpointer.makeEncoded(encoded), died: () => writes >= at }
}

const Approve = Interrupt.make("approve", { request: Schema.String, answer: Schema.Boolean })

const ran: Array<string> = []
const note = (name: string) => () =>
  Effect.sync(() => {
    ran.push(name)
    return { log: name }
  })

const inner = Graph.make("inner", { log: Channel.append(Schema.String) })
  .addNode("a", note("a"))
  .addNode("ask", () => Effect.map(Approve("go?"), (ok) => ({ log: `ask ${ok}` })))
  .addNode("b", note("b"))
  .addEdge(Graph.START, "a")
  .addEdge("a", "ask")
  .addEdge("ask", "b")
  .compile()

const outer = Graph.make("outer", { log: Channel.append(Schema.String) })
  .addNode("first", note("first"))
  .addGraph("inner", inner, { persistence: "thread" })
  .addNode("last", note("last"))
  .addEdge(Graph.START, "first")
  .addEdge("first", "inner")
  .addEdge("inner", "last")
  .compile()

const plain = outer.thread("t")

const rowsOf = (thread: string, namespace: string) =>
  Effect.flatMap(Checkpointer.Checkpointer, (saver) =>
    Effect.map(Stream.runCollect(saver.list({ thread, namespace })), (found) =>
      Array.from(found, ({ checkpoint: { channels, parent, ran, seq, source, step } }) => ({
        seq,
        source,
        step,
        ran,
        parent: parent?.seq,
        values: channels.find(({ name }) => name === "log")?.value
      }))
    )
  )

/** All that is saved, and what waits. */
const savedOf = (thread: string) =>
  Effect.gen(function* () {
    const { interrupts, next } = yield* outer.thread(thread).state
    const asked = interrupts.map(({ name, value }) => [name, value])
    return { root: yield* rowsOf(thread, ""), inner: yield* rowsOf(thread, "inner"), next, asked }
  })

const idAt = (namespace: string, node: string) =>
  Effect.gen(function* () {
    const handle = namespace === "" ? plain : plain.subgraph(inner, namespace)
    const snapshots = yield* Stream.runCollect(handle.history())
    return Array.from(snapshots).find(({ next }) => next.includes(node))!.checkpoint!.id
  })

interface Delivered {
  /** What happened on the thread before. */
  readonly before: Effect.Effect<unknown, unknown, Checkpointer.Checkpointer>
  /** The call, as its host makes it. */
  readonly call: (host: (id: string) => any) => Effect.Effect<unknown, unknown, Checkpointer.Checkpointer>
  readonly thread?: string
}

const paused = plain.run({ log: [] })
const finished = Effect.zipRight(paused, plain.resume(Approve, true))

const calls: Record<string, Delivered> = {
  "an update": {
    before: finished,
    call: (host) => host("t").update({ log: "u" }, { as: "first" })
  },
  "supersteps of updates": {
    before: finished,
    call: (host) =>
      host("t").updateAll([
        [{ update: { log: "u" }, as: "first" }],
        [{ update: { log: "v" }, as: "inner" }],
        [{ update: { log: "w" }, as: "last" }]
      ])
  },
  "an update of an old checkpoint": {
    before: finished,
    call: (host) =>
      Effect.flatMap(idAt("", "inner"), (id) =>
        host("t")
          .at(id)
          .updateAll([[{ update: { log: "u" }, as: "first" }]])
      )
  },
  "an update of a subgraph that has asked": {
    before: paused,
    call: (host) => host("t").subgraph(inner, "inner").update({ log: "u" }, { as: "a" })
  },
  "a copy of a checkpoint": { before: paused, call: (host) => host("t").copy },
  "a run from an old checkpoint": {
    before: finished,
    call: (host) => Effect.flatMap(idAt("", "first"), (id) => start(host("t").at(id), GO_ON))
  },
  "an input at an old checkpoint": {
    before: finished,
    call: (host) =>
      Effect.flatMap(idAt("", "first"), (id) => start(host("t").at(id), { _tag: "Input", value: { log: "new" } }))
  },
  "a run from where a subgraph was": {
    before: finished,
    call: (host) => Effect.flatMap(idAt("inner", "b"), (id) => start(host("t").subgraph(inner, "inner").at(id), GO_ON))
  },
  "a run from where a subgraph asks": {
    before: paused,
    call: (host) => start(host("t").subgraph(inner, "inner"), GO_ON)
  },
  "a copy of a thread": {
    before: finished,
    thread: "new",
    call: () => Effect.flatMap(Checkpointer.Checkpointer, (saver) => saver.copyThread("t", "new", "call"))
  }
}

describe("a change whose host dies at any of its saves is applied once", () => {
  for (const [name, { before, call, thread = "t" }] of Object.entries(calls)) {
    it.effect(name, () =>
      Effect.gen(function* () {
        /** A thread whose host dies at a save, or not at all; what is saved after the next host had the call. */
        const attempt = (at: number, takesEffect: boolean) =>
          Effect.gen(function* () {
            yield* before
            const saver = yield* Checkpointer.Checkpointer
            const deliver = (service: Saver) =>
              Effect.flatMap(saver.takeFence("t"), (fence) =>
                Effect.provideService(
                  call((id) => handle(outer.topology, { fence, runId: "call" }, id)),
                  Checkpointer.Checkpointer,
                  service
                )
              )
            const { died, service } = dying(saver, at, takesEffect)
            const first = yield* Effect.exit(deliver(service))
            assert.strictEqual(Exit.isFailure(first), died(), String(first))
            ran.length = 0
            const again = yield* deliver(saver)
            const done = ran.slice()
            const saved = yield* savedOf(thread)
            assert.deepStrictEqual(yield* deliver(saver), again)
            assert.deepStrictEqual(yield* savedOf(thread), saved)
            return { saved, done, died: died() }
          }).pipe(Effect.provide(Checkpointer.layerMemory))
        const expected = yield* attempt(Number.POSITIVE_INFINITY, false)
        assert.deepStrictEqual(expected.done, [])
        let deaths = 0
        for (let at = 1; ; at++) {
          const results = [yield* attempt(at, false), yield* attempt(at, true)]
          for (const { saved } of results) assert.deepStrictEqual(saved, expected.saved, `${name}: death at save ${at}`)
          if (results.some(({ died }) => !died)) break
          deaths++
        }
        assert.isAbove(deaths, 0)
      })
    )
  }
})

it.effect("a fork that has not taken its answer is made again", () =>
  Effect.gen(function* () {
    for (const at of [Number.POSITIVE_INFINITY, 1, 2, 3, 4]) {
      yield* Effect.gen(function* () {
        const thread = inner.thread("t")
        yield* thread.run({ log: [] })
        const saver = yield* Checkpointer.Checkpointer
        const { checkpoint } = yield* thread.state
        // Another head: what is run at the old one is a fork.
        yield* thread.update({ log: "x" }, { as: "b" })
        const answered = (service: Saver) =>
          Effect.flatMap(saver.takeFence("t"), (fence) =>
            start(handle(inner.topology, { fence, runId: "call" }, "t").at(checkpoint!.id), {
              _tag: "Resume",
              answer: { _tag: "Bare", value: false },
              command: undefined
            }).pipe(Effect.provideService(Checkpointer.Checkpointer, service))
          )
        yield* Effect.exit(answered(dying(saver, at, true).service))
        const outcome = yield* answered(saver)
        assert.strictEqual(outcome._tag, "Completed", `death at save ${at}`)
        assert.deepStrictEqual(outcome.state.log, ["a", "ask false", "b"])
        const made = (yield* rowsOf("t", "")).filter(({ seq }) => seq > 4).map(({ source }) => source)
        assert.deepStrictEqual(made, at === 1 ? ["loop", "loop", "fork", "fork"] : ["loop", "loop", "fork"])
      }).pipe(Effect.provide(Checkpointer.layerMemory))
    }
  })
)
