/**
 * Cases about branches, growth and housekeeping.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { INTERRUPT, RESUME } from "../Checkpoint.js"
import type { Node, Step } from "./model.js"
import {
  type Case,
  fails,
  pending,
  type Saver,
  same,
  sameCheckpoint,
  sorted,
  valuesOf,
  Writer,
  type Written
} from "./suite.js"

/** Throws unless exactly these checkpoints of a writer are left, each as it was. */
const onlyThese = Effect.fnUntraced(function* (saver: Saver, writer: Writer, left: ReadonlyArray<Node>) {
  const found = yield* Stream.runCollect(saver.list(writer.address))
  same(
    Array.from(found, ({ checkpoint }) => sorted(checkpoint)),
    left.map(({ checkpoint }) => sorted(checkpoint)).reverse(),
    "what is left"
  )
  for (const node of left) sameCheckpoint(yield* saver.load(writer.address, node.checkpoint.id), node)
})

const branches: ReadonlyArray<Case> = [
  {
    name: "branches share what came before them, and no value of each other",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      const tips: Array<Written> = []
      const base = yield* writer.write([
        { append: "log", items: ["base"] },
        { set: "x", value: 0 }
      ])
      for (let i = 0; i < 5; i++) tips.push(yield* writer.write([{ append: "log", items: [`b${i}`] }], { on: base }))
      for (let round = 0; round < 10; round++) {
        for (let i = 0; i < 5; i++) {
          const steps: ReadonlyArray<Step> = [
            { append: "log", items: [`${i}.${round}`] },
            { set: "x", value: `${i}.${round}` }
          ]
          tips[i] = yield* writer.write(steps, { on: tips[i]! })
        }
      }
      for (const node of writer.all) sameCheckpoint(yield* saver.load(writer.address, node.checkpoint.id), node)
      yield* onlyThese(saver, writer, writer.all)
    })
  },
  {
    name: "two branches that write one channel twice at the same version keep their values apart",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      const base = yield* writer.write([{ set: "x", value: "base" }])
      const left = yield* writer.write([{ set: "x", value: "left" }], { on: base })
      const right = yield* writer.write([{ set: "x", value: "right" }], { on: base })
      same(left.node.checkpoint.version, right.node.checkpoint.version)
      same(valuesOf(yield* saver.load(writer.address, left.node.checkpoint.id)), { x: "left" })
      same(valuesOf(yield* saver.load(writer.address, right.node.checkpoint.id)), { x: "right" })
    })
  },
  {
    name: "a chain of forks, each on the one before the last, reads back",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      let previous = yield* writer.write([{ append: "log", items: [0] }])
      for (let i = 1; i < 90; i++) {
        yield* writer.write([{ append: "log", items: [`dead ${i}`] }], { on: previous })
        previous = yield* writer.write([{ append: "log", items: [i] }], { on: previous })
      }
      sameCheckpoint(yield* saver.load(writer.address), writer.all.at(-1)!)
      const loaded = yield* saver.load(writer.address)
      same(valuesOf(loaded), { log: Array.from({ length: 90 }, (_, i) => i) })
      writer.last = { node: writer.all.at(-1)!, lineage: loaded!.lineage }
      yield* writer.write([{ append: "log", items: ["after a reload"] }])
      sameCheckpoint(yield* saver.load(writer.address), writer.all.at(-1)!)
    })
  },
  {
    name: "grows with what changes, not with the state or the history",
    run: Effect.fnUntraced(function* (saver, thread) {
      const size = Effect.fnUntraced(function* (writer: Writer, n: number, steps: (i: number) => ReadonlyArray<Step>) {
        let bytes = 0
        let largest = 0
        for (let i = 0; i < n; i++) {
          const { commit, node } = writer.next(steps(i))
          const staged = yield* saver.stage(commit)
          yield* saver.write([staged])
          writer.head = commit.seq
          writer.last = { node, lineage: staged.lineage }
          writer.all.push(node)
          const { data, log } = staged.append
          bytes += data.length + (log?.length ?? 0)
          largest = Math.max(largest, data.length)
        }
        sameCheckpoint(yield* saver.load(writer.address), writer.all.at(-1)!)
        return { bytes, largest }
      })
      const item = "x".repeat(100)
      const appended = yield* size(new Writer(saver, `${thread}-append`), 300, () => [{ append: "log", items: [item] }])
      same(appended.bytes < 300 * 220, true, `${appended.bytes} bytes for 300 items of 102`)
      const wide = Array.from({ length: 300 }, (_, i): Step => ({ set: `c${i}`, value: item }))
      const few = yield* size(new Writer(saver, `${thread}-wide`), 200, (i) => (i === 0 ? wide : wide.slice(i, i + 3)))
      same(few.bytes < 3 * (34_000 + 199 * 600), true, `${few.bytes} bytes for 199 changes of 600`)
    })
  }
]

const housekeeping: ReadonlyArray<Case> = [
  {
    name: "per-028 pruning leaves the newest checkpoint of each namespace, with its pending writes",
    run: Effect.fnUntraced(function* (saver, thread) {
      const root = new Writer(saver, thread)
      const child = new Writer(saver, thread, "child:1")
      const other = new Writer(saver, `${thread}-other`)
      for (let i = 0; i < 40; i++) {
        yield* root.write([
          { set: `x${i % 9}`, value: "y".repeat(40) + i },
          { append: "log", items: [i] }
        ])
        if (i < 3) yield* child.write([{ append: "log", items: [i] }])
        yield* other.write([{ set: "x", value: i }])
      }
      yield* saver.putWrites(root.address, 40, [pending("a", "x", 1)])
      yield* saver.putWrites(root.address, 39, [pending("a", "x", 2)])
      same(yield* saver.prune(thread), 41)
      yield* onlyThese(saver, root, root.all.slice(-1))
      yield* onlyThese(saver, child, child.all.slice(-1))
      yield* onlyThese(saver, other, other.all)
      same((yield* saver.load(root.address))?.writes, [pending("a", "x", 1)])
      same(yield* saver.prune(thread), 0)
      same(yield* saver.prune(`${thread}-never`), 0)
    })
  },
  {
    name: "a run goes on over a prune, and the next prune finds everything again",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      const step = (i: number): ReadonlyArray<Step> => [
        { set: `x${i % 20}`, value: "y".repeat(50) + i },
        { append: "log", items: [i] },
        { append: "short", items: [i], reset: i % 7 === 0 }
      ]
      for (let round = 0; round < 4; round++) {
        for (let i = 0; i < 25; i++) yield* writer.write(step(round * 25 + i))
        yield* saver.prune(thread, { keep: 3 })
        yield* onlyThese(saver, writer, writer.all.slice(-3))
      }
    })
  },
  {
    name: "pruning keeps the end of every branch, pauses that wait, and what is young enough",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      const kept: Array<Node> = []
      const base = yield* writer.write([{ append: "log", items: ["base"] }])
      yield* writer.write([{ append: "log", items: ["waits"] }], { on: base, writes: [pending("a", INTERRUPT, [])] })
      kept.push(writer.all.at(-1)!)
      yield* writer.write([{ append: "log", items: ["moved on by an edit"] }])
      yield* writer.write([{ append: "log", items: ["answered"] }], {
        writes: [pending("a", INTERRUPT, []), pending("a", RESUME, 1)]
      })
      yield* writer.write([{ append: "log", items: ["end of one"] }])
      kept.push(writer.all.at(-1)!)
      yield* writer.write([{ append: "log", items: ["young"] }], { on: base, created: 1_765_000_000_000 })
      kept.push(writer.all.at(-1)!)
      yield* writer.write([{ append: "log", items: ["between"] }])
      yield* writer.write([{ append: "log", items: ["end of two"] }])
      kept.push(writer.all.at(-1)!)
      same(yield* saver.prune(thread, { keep: 1, olderThan: 1_765_000_000_000 }), writer.all.length - kept.length)
      yield* onlyThese(saver, writer, kept)
      yield* writer.write([{ append: "log", items: ["goes on"] }])
      sameCheckpoint(yield* saver.load(writer.address), writer.all.at(-1)!)
    })
  },
  {
    name: "nobody builds on a checkpoint that was removed meanwhile",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      const old = yield* writer.write([{ append: "log", items: [1] }])
      yield* writer.write([{ append: "log", items: [2] }])
      const fork = writer.next([{ append: "log", items: [3] }], { on: old })
      yield* saver.prune(thread)
      yield* fails(saver.commit(fork.commit), "ThreadConflict")
      yield* onlyThese(saver, writer, writer.all.slice(-1))
    })
  },
  {
    name: "per-026 deleting runs removes their checkpoints in every namespace and nothing else",
    run: Effect.fnUntraced(function* (saver, thread) {
      const root = new Writer(saver, thread)
      const child = new Writer(saver, thread, "child:1")
      for (let i = 0; i < 12; i++) {
        const metadata = { run_id: `r${Math.floor(i / 3)}` }
        yield* root.write(
          [
            { append: "log", items: [i] },
            { set: `x${i}`, value: "y".repeat(60) }
          ],
          { metadata }
        )
        yield* child.write([{ append: "log", items: [i] }], { metadata })
      }
      yield* saver.putWrites(root.address, 4, [pending("a", "x", 1)])
      same(yield* saver.deleteRuns(thread, []), 0)
      same(yield* saver.deleteRuns(thread, ["unknown"]), 0)
      same(yield* saver.deleteRuns(thread, ["r1"]), 6)
      const left = (writer: Writer, gone: ReadonlyArray<string>) =>
        writer.all.filter(({ checkpoint }) => !gone.includes(String(checkpoint.metadata.run_id)))
      for (const writer of [root, child]) yield* onlyThese(saver, writer, left(writer, ["r1"]))
      const stale = root.next([])
      same(yield* saver.deleteRuns(thread, ["r1", "r3"]), 6)
      yield* fails(saver.commit(stale.commit), "ThreadConflict")
      for (const writer of [root, child]) yield* onlyThese(saver, writer, left(writer, ["r1", "r3"]))
      const loaded = yield* saver.load(root.address)
      sameCheckpoint(loaded, left(root, ["r1", "r3"]).at(-1)!)
      root.head = loaded!.head
      root.last = { node: left(root, ["r1", "r3"]).at(-1)!, lineage: loaded!.lineage }
      yield* root.write([{ append: "log", items: ["again"] }])
      sameCheckpoint(yield* saver.load(root.address), root.all.at(-1)!)
      same(yield* saver.deleteRuns(thread, ["r0", "r2"]), 12)
      const rest = [root.all.at(-1)!]
      yield* onlyThese(saver, root, rest)
      yield* onlyThese(saver, child, [])
    })
  },
  {
    name: "deleting every run of a thread leaves a thread that never was",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      for (let i = 0; i < 3; i++) yield* writer.write([{ append: "log", items: [i] }], { metadata: { run_id: "r" } })
      same(yield* saver.deleteRuns(thread, ["r"]), 3)
      same(yield* saver.load(writer.address), undefined)
      same(yield* saver.thread(thread), undefined)
      const again = new Writer(saver, thread)
      yield* again.write([{ append: "log", items: ["new"] }])
      sameCheckpoint(yield* saver.load(again.address), again.all[0]!)
    })
  },
  {
    name: "per-027 a copied thread has the same history and its own future",
    run: Effect.fnUntraced(function* (saver, thread) {
      const root = new Writer(saver, thread)
      const child = new Writer(saver, thread, "child:1")
      const base = yield* root.write([{ append: "log", items: [0] }], { status: "paused", metadata: { a: 1 } })
      for (let i = 1; i < 5; i++) yield* root.write([{ append: "log", items: [i] }])
      yield* root.write([{ append: "log", items: ["fork"] }], { on: base, writes: [pending("a", "x", 1)] })
      yield* child.write([{ set: "y", value: 1 }])
      yield* saver.copyThread(thread, `${thread}-copy`)
      const copies = [new Writer(saver, `${thread}-copy`), new Writer(saver, `${thread}-copy`, "child:1")]
      yield* onlyThese(saver, copies[0]!, root.all)
      yield* onlyThese(saver, copies[1]!, child.all)
      const loaded = yield* saver.load(copies[0]!.address)
      same(loaded?.writes, [pending("a", "x", 1)])
      const info = yield* saver.thread(`${thread}-copy`)
      same({ status: info?.status, metadata: info?.metadata }, { status: "paused", metadata: { a: 1 } })
      Object.assign(copies[0]!, { head: loaded!.head, last: { node: root.all.at(-1)!, lineage: loaded!.lineage } })
      yield* copies[0]!.write([{ append: "log", items: ["in the copy"] }])
      sameCheckpoint(yield* saver.load(copies[0]!.address), copies[0]!.all[0]!)
      yield* onlyThese(saver, root, root.all)
      yield* fails(saver.copyThread(thread, `${thread}-copy`), "CheckpointerError", "InvalidRequest")
      yield* fails(saver.copyThread(`${thread}-never`, `${thread}-new`), "CheckpointerError", "InvalidRequest")
      same(yield* saver.namespaces(`${thread}-new`), [])
    })
  },
  {
    name: "a copy that has a name is made once, also where its thread has a fence",
    run: Effect.fnUntraced(function* (saver, thread) {
      const to = `${thread}-copy`
      const root = new Writer(saver, thread)
      for (let i = 0; i < 3; i++) {
        yield* root.write([{ append: "log", items: [i] }], { status: "idle", metadata: { a: 1, run_id: "own" } })
      }
      const fence = yield* saver.takeFence(to)
      yield* saver.copyThread(thread, to, "first")
      const copy = new Writer(saver, to)
      const metadata = { a: 1, run_id: "first" }
      same((yield* saver.thread(to))?.metadata, metadata)
      const { head, lineage } = (yield* saver.load(copy.address))!
      Object.assign(copy, { head, last: { node: root.all.at(-1)!, lineage } })
      yield* copy.write([{ append: "log", items: ["in the copy"] }], { fence })
      yield* saver.copyThread(thread, to, "first")
      sameCheckpoint(yield* saver.load(copy.address), copy.all[0]!)
      yield* fails(saver.copyThread(thread, to, "second"), "CheckpointerError", "InvalidRequest")
      yield* saver.deleteThread(thread)
      yield* saver.copyThread(thread, to, "first")
      same((yield* saver.thread(to))?.metadata, metadata)
    })
  }
]

/** Cases about branches, growth and housekeeping. */
export const branchCases: ReadonlyArray<Case> = [...branches, ...housekeeping]
