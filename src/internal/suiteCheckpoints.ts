/**
 * Cases about checkpoints: what is written is what is read.
 */
import * as Effect from "effect/Effect"
import type { Address } from "../Checkpoint.js"
import { makeId } from "../Checkpoint.js"
import { type Case, fails, same, sameCheckpoint, valuesOf, Writer } from "./suite.js"

const roundTrips: ReadonlyArray<Case> = [
  {
    name: "per-001 reads a checkpoint back as it was written",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write([{ set: "msg", value: "hello" }], {
        source: "input",
        step: -1,
        seen: [["", "someChannel", 1]],
        ran: [],
        parents: { "": "00000001-x" }
      })
      sameCheckpoint(yield* saver.load(writer.address), writer.all[0]!)
    })
  },
  {
    name: "per-002 keeps values of every kind, versions, and what nodes have seen",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write([
        { set: "text", value: "hello" },
        { set: "int", value: 42 },
        { set: "list", value: [1, 2, 3] },
        { set: "record", value: { nested: true } },
        { set: "falsy", value: [0, "", false, null] }
      ])
      yield* writer.write([{ set: "int", value: 2 ** 53 - 1 }], {
        seen: [
          ["node1", "a", 1],
          ["node1", "b", 2],
          ["node2", "a", 3]
        ]
      })
      for (const node of writer.all) sameCheckpoint(yield* saver.load(writer.address, node.checkpoint.id), node)
    })
  },
  {
    name: "keeps null, undefined, NUL, lone surrogates and odd keys apart",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write([
        { set: "null", value: null },
        { set: "undefined", value: undefined },
        { set: "NUL", value: "a\0b" },
        { set: "surrogate", value: "\ud800 and \udc00" },
        { set: "escape", value: "\\u0000 \\ud800 \"'" },
        { set: "__proto__", value: JSON.parse('{"__proto__":{"polluted":true},"constructor":1}') },
        { set: "1", value: "a number as name" },
        { set: "", value: "no name" },
        { set: "\0\ud800", value: "a name that no text column takes" },
        { append: "log\0", items: ["\0", "\udfff", null] }
      ])
      const loaded = yield* saver.load(writer.address)
      sameCheckpoint(loaded, writer.all[0]!)
      same(({} as Record<string, unknown>).polluted, undefined, "the prototype of objects")
    })
  },
  {
    name: "per-003 keeps metadata, its own keys and any others",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write([], { metadata: { custom_key: "custom_value", nested: { a: [1, null] } }, step: 3 })
      yield* writer.write([], { metadata: { run_id: "R" } })
      yield* writer.write([], { metadata: {} })
      for (const node of writer.all) sameCheckpoint(yield* saver.load(writer.address, node.checkpoint.id), node)
    })
  },
  {
    name: "per-005 keeps every checkpoint of a thread, and threads apart",
    run: Effect.fnUntraced(function* (saver, thread) {
      const one = new Writer(saver, `${thread}-1`)
      const two = new Writer(saver, `${thread}-2`)
      for (const x of ["first", "second", "third"]) yield* one.write([{ set: "x", value: x }])
      yield* two.write([{ set: "x", value: "other" }])
      for (const node of one.all) sameCheckpoint(yield* saver.load(one.address, node.checkpoint.id), node)
      same(valuesOf(yield* saver.load(one.address)), { x: "third" })
      same(valuesOf(yield* saver.load(two.address)), { x: "other" })
    })
  },
  {
    name: "per-006 knows the parent of a checkpoint; the first has none",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      const first = yield* writer.write([{ set: "x", value: 1 }])
      const second = yield* writer.write([{ set: "x", value: 2 }], { gap: 5 })
      const [one, two] = [first, second].map(({ node }) => node.checkpoint)
      same((yield* saver.load(writer.address, one!.id))?.checkpoint.parent, undefined)
      same((yield* saver.load(writer.address, two!.id))?.checkpoint.parent, { seq: one!.seq, id: one!.id })
    })
  },
  {
    name: "per-007 carries unchanged channels on, adds new ones and forgets dropped ones",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write([
        { set: "a", value: 1 },
        { set: "b", value: 2 },
        { append: "l", items: [1] }
      ])
      yield* writer.write([{ set: "b", value: 3 }])
      yield* writer.write([{ set: "c", value: 4 }])
      yield* writer.write([{ drop: "a" }, { drop: "l" }])
      yield* writer.write([{ append: "l", items: [2] }])
      for (const node of writer.all) sameCheckpoint(yield* saver.load(writer.address, node.checkpoint.id), node)
      same(valuesOf(yield* saver.load(writer.address)), { b: 3, c: 4, l: [2] })
    })
  },
  {
    name: "per-008 a checkpoint without parent holds only what it was given",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write([])
      yield* writer.write(
        [
          { set: "foo", value: "bar" },
          { append: "log", items: [1] }
        ],
        { on: null }
      )
      yield* writer.write(
        [
          { set: "baz", value: "qux" },
          { append: "log", items: [2] }
        ],
        { on: null }
      )
      for (const node of writer.all) sameCheckpoint(yield* saver.load(writer.address, node.checkpoint.id), node)
      same(valuesOf(yield* saver.load(writer.address)), { baz: "qux", log: [2] })
    })
  },
  {
    name: "what a reader does to a value does not reach the storage",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write([
        { set: "x", value: { list: [1] } },
        { append: "log", items: [{ a: 1 }] }
      ])
      const loaded = valuesOf(yield* saver.load(writer.address)) as any
      loaded.x.list.push(2)
      loaded.log[0].a = 2
      loaded.log.push(3)
      sameCheckpoint(yield* saver.load(writer.address), writer.all[0]!)
    })
  }
]

const lookUps: ReadonlyArray<Case> = [
  {
    name: "per-010 per-030 refuses incomplete and unusable addresses",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      const { commit } = writer.next([{ set: "x", value: 1 }])
      const addresses: ReadonlyArray<any> = [
        { thread: "", namespace: "" },
        { thread: undefined, namespace: "" },
        { thread: 7, namespace: "" },
        { thread: { $ne: null }, namespace: "" },
        { thread, namespace: null },
        { thread: "x".repeat(10_000), namespace: "" },
        { thread, namespace: "ü".repeat(5_000) }
      ]
      for (const address of addresses as ReadonlyArray<Address>) {
        yield* fails(saver.commit({ ...commit, address }), "CheckpointerError", "InvalidRequest")
        yield* fails(saver.load(address), "CheckpointerError", "InvalidRequest")
        yield* fails(saver.putWrites(address, 1, []), "CheckpointerError", "InvalidRequest")
      }
      yield* fails(saver.commit({ ...commit, seq: 0 }), "CheckpointerError", "InvalidRequest")
      yield* fails(saver.commit({ ...commit, seq: 1.5 }), "CheckpointerError", "InvalidRequest")
      same(yield* saver.load(writer.address), undefined)
    })
  },
  {
    name: "per-015 reads unknown threads, namespaces and ids as absent",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      same(yield* saver.load(writer.address), undefined)
      const { node } = yield* writer.write([{ set: "x", value: 1 }])
      const { created, seq } = node.checkpoint
      const ids = [
        makeId(seq, created + 1),
        makeId(seq + 1, created),
        makeId(0, created),
        "",
        "latest",
        "../1",
        makeId(36 ** 8 - 1, 1)
      ]
      for (const id of ids) same(yield* saver.load(writer.address, id), undefined, `the checkpoint "${id}"`)
      same(yield* saver.load({ thread, namespace: "child" }), undefined)
      same(yield* saver.load({ thread: `${thread}x`, namespace: "" }), undefined)
    })
  },
  {
    name: "per-016 finds the newest, a given one, and the one of a namespace",
    run: Effect.fnUntraced(function* (saver, thread) {
      const root = new Writer(saver, thread)
      const child = new Writer(saver, thread, "child:1")
      for (const x of [0, 1, 2]) yield* root.write([{ set: "x", value: x }])
      yield* child.write([{ set: "y", value: 9 }])
      const newest = yield* saver.load(root.address)
      same(newest?.head, 3)
      sameCheckpoint(newest, root.all[2]!)
      sameCheckpoint(yield* saver.load(root.address, root.all[0]!.checkpoint.id), root.all[0]!)
      sameCheckpoint(yield* saver.load(child.address), child.all[0]!)
      same([...(yield* saver.namespaces(thread))].sort(), ["", "child:1"])
    })
  },
  {
    name: "per-025 deleting a thread removes all of it and nothing else",
    run: Effect.fnUntraced(function* (saver, thread) {
      const root = new Writer(saver, `${thread}-a`)
      const child = new Writer(saver, `${thread}-a`, "child:1")
      const other = new Writer(saver, `${thread}-ab`)
      for (const x of [0, 1, 2]) yield* root.write([{ append: "log", items: [x] }])
      yield* child.write([{ set: "y", value: 9 }])
      yield* other.write([{ set: "x", value: 1 }])
      const write = { task: "t", path: "t", channel: "c", index: 0, value: "1" }
      yield* saver.putWrites(root.address, 3, [write])
      yield* saver.deleteThread(`${thread}-a`)
      yield* saver.deleteThread(`${thread}-never`)
      same(yield* saver.load(root.address), undefined)
      same(yield* saver.load(child.address), undefined)
      same(yield* saver.namespaces(`${thread}-a`), [])
      same(yield* saver.thread(`${thread}-a`), undefined)
      sameCheckpoint(yield* saver.load(other.address), other.all[0]!)
      yield* fails(root.write([]), "ThreadConflict")
      const again = new Writer(saver, `${thread}-a`)
      yield* again.write([{ append: "log", items: ["new"] }])
      const loaded = yield* saver.load(again.address)
      sameCheckpoint(loaded, again.all[0]!)
      same(loaded?.writes, [])
    })
  }
]

/** Cases about checkpoints. */
export const checkpointCases: ReadonlyArray<Case> = [...roundTrips, ...lookUps]
