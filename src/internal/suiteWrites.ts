/**
 * Cases about pending writes, the head, fences and threads.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { ERROR, INTERRUPT, RESULT, RESUME } from "../Checkpoint.js"
import { type Case, fails, pending, same, sameCheckpoint, valuesOf, Writer } from "./suite.js"

const pendingWrites: ReadonlyArray<Case> = [
  {
    name: "per-011 keeps pending writes: one, several, of several tasks",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write([{ set: "x", value: 1 }])
      const one = pending("T1", "ch1", "v1")
      yield* saver.putWrites(writer.address, 1, [one])
      same((yield* saver.load(writer.address))?.writes, [one])
      const more = [
        pending("T1", "ch2", { data: 123 }),
        pending("T1", "ch3", null),
        pending("T2", "ch1", "other", 0, "a:b:c")
      ]
      yield* saver.putWrites(writer.address, 1, more)
      same((yield* saver.load(writer.address))?.writes, [one, more[0], more[1], more[2]])
      yield* writer.write([{ set: "x", value: 2 }])
      same((yield* saver.load(writer.address))?.writes, [])
    })
  },
  {
    name: "per-012 writing the same again changes nothing: the first result, answer and activity stay",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write([])
      for (const channel of [RESULT, RESUME, "activity:pay"]) {
        const first = pending("T", channel, "first")
        yield* saver.putWrites(writer.address, 1, [first])
        yield* saver.putWrites(writer.address, 1, [first])
        yield* saver.putWrites(writer.address, 1, [pending("T", channel, "second")])
        const found = (yield* saver.load(writer.address))?.writes.filter((write) => write.channel === channel)
        same(found, [first], channel)
      }
    })
  },
  {
    name: "per-013 an interrupt and an error are replaced by the newest, beside ordinary writes",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write([])
      const kept = pending("T", RESULT, "result")
      yield* saver.putWrites(writer.address, 1, [kept, pending("T", INTERRUPT, 1), pending("T", ERROR, "old")])
      const newest = [pending("T", ERROR, "new"), pending("T", INTERRUPT, { reason: "human" })]
      yield* saver.putWrites(writer.address, 1, newest)
      same((yield* saver.load(writer.address))?.writes, [newest[0], newest[1], kept])
    })
  },
  {
    name: "reads pending writes in the order of path, task, channel and index, whatever order they came in",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write([])
      const inOrder = [
        pending("z", "a", 1, 0, "1"),
        pending("B", "a", 1, 0, "2"),
        pending("a", "Z", 1, 0, "2"),
        pending("a", "a", 1, 2, "2"),
        pending("a", "a", 1, 10, "2"),
        pending("é", "a", 1, 0, "2"),
        pending("\u{1f600}", "a", 1, 0, "2"),
        pending("\uffff", "a", 1, 0, "2")
      ]
      for (const at of [5, 2, 7, 0, 3, 6, 1, 4]) yield* saver.putWrites(writer.address, 1, [inOrder[at]!])
      same((yield* saver.load(writer.address))?.writes, inOrder)
      const [listed] = yield* Stream.runCollect(saver.list(writer.address))
      same(listed?.writes, inOrder)
    })
  },
  {
    name: "forgets the writes of some tasks and keeps the others'",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write([], { writes: [pending("a", "x", 1), pending("b", "x", 2), pending("c", "x", 3)] })
      yield* saver.dropWrites(writer.address, 1, ["a", "c", "unknown"])
      same((yield* saver.load(writer.address))?.writes, [pending("b", "x", 2)])
    })
  },
  {
    name: "refuses pending writes of a checkpoint that is not stored",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* fails(saver.putWrites(writer.address, 1, [pending("a", "x", 1)]), "ThreadConflict")
      yield* writer.write([])
      yield* fails(saver.putWrites(writer.address, 2, [pending("a", "x", 1)]), "ThreadConflict")
      yield* writer.write([])
      same((yield* saver.load(writer.address))?.writes, [])
    })
  },
  {
    name: "a fork has none of the pending writes of its parent or of other branches",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      const base = yield* writer.write([{ set: "x", value: 0 }])
      yield* saver.putWrites(writer.address, 1, [pending("a", "x", "of the parent")])
      yield* writer.write([{ set: "x", value: 1 }])
      yield* saver.putWrites(writer.address, 2, [pending("a", "x", "of the first child")])
      yield* writer.write([{ set: "x", value: 2 }], { on: base })
      same((yield* saver.load(writer.address))?.writes, [])
    })
  }
]

const heads: ReadonlyArray<Case> = [
  {
    name: "a commit on a head that has moved fails and leaves nothing behind",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* fails(saver.commit({ ...writer.next([]).commit, expectedHead: 1, seq: 2 }), "ThreadConflict")
      same(yield* saver.load(writer.address), undefined)
      yield* writer.write([{ set: "x", value: 1 }])
      const stale = writer.next([{ set: "x", value: "stale" }], { writes: [pending("a", "x", 1)], status: "failed" })
      yield* writer.write([{ set: "x", value: 2 }])
      yield* fails(saver.commit(stale.commit), "ThreadConflict")
      yield* fails(saver.commit({ ...stale.commit, seq: 7 }), "ThreadConflict")
      const loaded = yield* saver.load(writer.address)
      sameCheckpoint(loaded, writer.all[1]!)
      same(loaded?.writes, [])
      same((yield* saver.thread(thread))?.status, "idle")
    })
  },
  {
    name: "of many commits on one head exactly one is written",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      for (let round = 0; round < 5; round++) {
        const { commit } = writer.next([])
        const commits = Array.from({ length: 8 }, (_, i) => ({ ...commit, created: commit.created + i }))
        const exits = yield* Effect.forEach(commits, (one) => Effect.exit(saver.commit(one)), {
          concurrency: "unbounded"
        })
        const won = exits.flatMap((exit, i) => (Exit.isSuccess(exit) ? [i] : []))
        same(won.length, 1, "the number of winners")
        for (const exit of exits) if (Exit.isFailure(exit)) yield* fails(exit, "ThreadConflict")
        const loaded = yield* saver.load(writer.address)
        same(loaded?.checkpoint.created, commits[won[0]!]!.created, "the winner")
        const { node } = writer.next([], { created: commits[won[0]!]!.created })
        writer.head = commit.seq
        writer.last = { node, lineage: loaded!.lineage }
      }
    })
  },
  {
    name: "commits of many threads at the same time are all written",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writers = Array.from({ length: 20 }, (_, i) => new Writer(saver, `${thread}-${i}`))
      const runOne = Effect.fnUntraced(function* (writer: Writer) {
        for (let i = 0; i < 10; i++)
          yield* writer.write([
            { set: "x", value: i },
            { append: "log", items: [i] }
          ])
      })
      yield* Effect.forEach(writers, runOne, { concurrency: "unbounded", discard: true })
      for (const writer of writers) {
        same(valuesOf(yield* saver.load(writer.address)), { x: 9, log: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] })
      }
    })
  },
  {
    name: "writes staged commits together, each building on the one before",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      const stageNext = Effect.fnUntraced(function* (value: number) {
        const { commit, node } = writer.next([
          { set: "x", value },
          { append: "log", items: [value] }
        ])
        const staged = yield* saver.stage(commit)
        writer.head = commit.seq
        writer.last = { node, lineage: staged.lineage }
        writer.all.push(node)
        return staged
      })
      const staged = [yield* stageNext(1), yield* stageNext(2), yield* stageNext(3)]
      same(yield* saver.load(writer.address), undefined)
      yield* saver.write(staged)
      yield* saver.write([])
      for (const node of writer.all) sameCheckpoint(yield* saver.load(writer.address, node.checkpoint.id), node)
      const late = [yield* stageNext(4), yield* stageNext(5)]
      const rival = new Writer(saver, thread)
      rival.head = 3
      yield* rival.write([{ set: "x", value: "rival" }], { on: null })
      yield* fails(saver.write(late), "ThreadConflict")
      same(valuesOf(yield* saver.load(writer.address)), { x: "rival" })
    })
  },
  {
    name: "an interrupted commit is written whole or not at all",
    run: Effect.fnUntraced(function* (saver, thread) {
      for (let turns = 0; turns < 12; turns++) {
        const writer = new Writer(saver, `${thread}-${turns}`)
        yield* writer.write([{ set: "x", value: 0 }])
        const writes = [pending("a", "x", 1), pending("b", "x", 2)]
        const { commit, node } = writer.next([{ set: "x", value: 1 }], { writes, status: "paused" })
        const fiber = yield* Effect.fork(saver.commit(commit))
        for (let i = 0; i < turns; i++) yield* Effect.yieldNow()
        const exit = yield* Fiber.interrupt(fiber)
        const loaded = yield* saver.load(writer.address)
        const isWritten = loaded?.checkpoint.seq === 2
        if (Exit.isSuccess(exit)) same(isWritten, true, "a commit that succeeded")
        sameCheckpoint(loaded, isWritten ? node : writer.all[0]!)
        same(loaded?.writes, isWritten ? writes : [])
        same((yield* saver.thread(writer.address.thread))?.status, isWritten ? "paused" : "idle")
      }
    })
  },
  {
    name: "a newer fence refuses what an older writer sends",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      const old = yield* saver.takeFence(thread)
      yield* writer.write([{ set: "x", value: 1 }], { fence: old })
      yield* writer.write([{ set: "x", value: 2 }], { fence: old })
      yield* saver.putWrites(writer.address, 2, [pending("a", "x", 1)], old)
      const newer = yield* saver.takeFence(thread)
      same(newer > old, true, "a fence that is greater than the one before")
      yield* fails(writer.write([{ set: "x", value: 3 }], { fence: old }), "ThreadConflict")
      yield* fails(writer.write([{ set: "x", value: 3 }], { fence: old, status: "paused" }), "ThreadConflict")
      yield* fails(saver.putWrites(writer.address, 2, [pending("b", "x", 1)], old), "ThreadConflict")
      const loaded = yield* saver.load(writer.address)
      sameCheckpoint(loaded, writer.all[1]!)
      same(loaded?.writes, [pending("a", "x", 1)])
      yield* writer.write([{ set: "x", value: 4 }], { fence: newer })
      same(valuesOf(yield* saver.load(writer.address)), { x: 4 })
    })
  }
]

const threads: ReadonlyArray<Case> = [
  {
    name: "lists threads by status, graph, metadata and age",
    run: Effect.fnUntraced(function* (saver, thread) {
      const names = Array.from({ length: 70 }, (_, i) => `${thread}-${String(i).padStart(2, "0")}`)
      for (const [i, name] of names.entries()) {
        yield* new Writer(saver, name).write([], {
          status: i % 2 === 0 ? "paused" : "idle",
          graph: { name: i < 10 ? "small" : "big", fingerprint: "1" },
          metadata: { user: `u${i % 3}`, test: thread, tags: ["a", i] },
          created: 1000 + i
        })
      }
      const list = (options: Parameters<typeof saver.threads>[0]) =>
        Effect.map(Stream.runCollect(saver.threads(options)), (found) =>
          Array.from(found, (info) => Number(info.thread.slice(-2))).sort((a, b) => a - b)
        )
      const where = (accept: (i: number) => boolean) => names.flatMap((_, i) => (accept(i) ? [i] : []))
      const mine = { test: thread }
      same(
        yield* list({ metadata: mine }),
        where(() => true)
      )
      same(
        yield* list({ metadata: mine, status: "paused" }),
        where((i) => i % 2 === 0)
      )
      same(
        yield* list({ metadata: mine, graph: "small" }),
        where((i) => i < 10)
      )
      same(
        yield* list({ metadata: { ...mine, user: "u1" }, status: "idle" }),
        where((i) => i % 3 === 1 && i % 2 === 1)
      )
      same(yield* list({ metadata: { ...mine, tags: ["a", 5] } }), [5])
      same(yield* list({ metadata: mine, updatedSince: 1020, updatedBefore: 1025 }), [20, 21, 22, 23, 24])
      // Parts of a millisecond cut nothing off: 1024 is before 1024.5, 1020 is not since 1020.5.
      same(yield* list({ metadata: mine, updatedSince: 1020.5, updatedBefore: 1024.5 }), [21, 22, 23, 24])
      same(yield* list({ metadata: { ...mine, unknown: null } }), [])
    })
  },
  {
    name: "knows what a thread is doing",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      same(yield* saver.thread(thread), undefined)
      yield* saver.setStatus(thread, "failed")
      same(yield* saver.thread(thread), undefined)
      yield* writer.write([], { status: "running", metadata: { a: 1 }, created: 5 })
      yield* writer.write([], { metadata: { a: 2 }, created: 6 })
      const info = yield* saver.thread(thread)
      same(info, {
        thread,
        graph: writer.all[0]!.checkpoint.graph,
        status: "running",
        created: 5,
        updated: 5,
        metadata: { a: 1 }
      })
      yield* saver.setStatus(thread, "paused")
      same((yield* saver.thread(thread))?.status, "paused")
      yield* writer.write([], { status: "idle", metadata: { a: 3 }, created: 9 })
      same(yield* saver.thread(thread), { ...info!, status: "idle", updated: 9, metadata: { a: 3 } })
    })
  },
  {
    name: "pending writes bring the thread's status along, refused ones do not",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write([], { status: "running", metadata: { a: 1 }, created: 5 })
      const old = yield* saver.takeFence(thread)
      const status = Effect.map(saver.thread(thread), (info) => info?.status)
      yield* saver.putWrites(writer.address, 1, [pending("a", RESUME, 1)], old)
      same(yield* status, "running")
      yield* saver.putWrites(writer.address, 1, [pending("a", INTERRUPT, 1)], old, "paused")
      const info = yield* saver.thread(thread)
      same([info?.status, info?.created, info?.metadata], ["paused", 5, { a: 1 }])
      same(info!.updated > 5, true, "a time of the change")
      yield* fails(saver.putWrites(writer.address, 2, [pending("a", INTERRUPT, 2)], old, "failed"), "ThreadConflict")
      yield* saver.takeFence(thread)
      yield* fails(saver.putWrites(writer.address, 1, [pending("a", INTERRUPT, 2)], old, "failed"), "ThreadConflict")
      same(yield* status, "paused")
      yield* saver.putWrites(writer.address, 1, [pending("a", INTERRUPT, 3)], undefined, "idle")
      same(yield* status, "idle")
      same(
        (yield* saver.load(writer.address))?.writes,
        [pending("a", INTERRUPT, 3), pending("a", RESUME, 1)],
        "the writes"
      )
    })
  }
]

/** Cases about pending writes, the head, fences and threads. */
export const writeCases: ReadonlyArray<Case> = [...pendingWrites, ...heads, ...threads]
