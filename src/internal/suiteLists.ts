/**
 * Cases about lists, filters and hostile names.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Address } from "../Checkpoint.js"
import type { ListOptions } from "../Checkpointer.js"
import type { Node } from "./model.js"
import { type Case, fails, pending, type Saver, same, sameCheckpoint, sorted, Writer } from "./suite.js"

const listed = (saver: Saver, address: Address, options?: ListOptions) =>
  Effect.map(Stream.runCollect(saver.list(address, options)), (found) => Array.from(found))

const seqsOf = (saver: Saver, address: Address, options?: ListOptions) =>
  Effect.map(listed(saver, address, options), (found) => found.map(({ checkpoint }) => checkpoint.seq))

const idOf = (node: Node | undefined): string => node!.checkpoint.id

const lists: ReadonlyArray<Case> = [
  {
    name: "per-017 lists what load gives, with pending writes",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write(
        [
          { set: "k", value: "v" },
          { append: "log", items: [1] }
        ],
        { writes: [pending("T", "ch", "val")] }
      )
      yield* writer.write([{ append: "log", items: [2] }])
      const all = yield* listed(saver, writer.address)
      for (const one of all) {
        const loaded = yield* saver.load(writer.address, one.checkpoint.id)
        same(sorted(one.checkpoint), sorted(loaded!.checkpoint))
        same(one.writes, loaded!.writes)
        same(one.head, loaded!.head)
      }
      same(all[1]!.writes, [pending("T", "ch", "val")])
    })
  },
  {
    name: "per-018 lists one namespace of one thread, newest first",
    run: Effect.fnUntraced(function* (saver, thread) {
      const root = new Writer(saver, thread)
      const child = new Writer(saver, thread, "child:1")
      const other = new Writer(saver, thread, "child:12")
      for (const x of [0, 1, 2, 3]) yield* root.write([{ set: "x", value: x }])
      yield* child.write([])
      yield* other.write([])
      same(yield* seqsOf(saver, root.address), [4, 3, 2, 1])
      same(yield* seqsOf(saver, child.address), [1])
      same(yield* seqsOf(saver, { thread: `${thread}x`, namespace: "" }), [])
      same(yield* seqsOf(saver, { thread, namespace: "child" }), [])
    })
  },
  {
    name: "per-020 filters by equality of every given key",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      const write = (source: "input" | "loop", step: number, metadata = {}) =>
        writer.write([], { source, step, metadata })
      yield* write("input", 0, { score: 42, run_id: "run-abc" })
      yield* write("loop", 1, { score: 99, run_id: "run-xyz", tags: ["a", { b: 1 }] })
      yield* write("input", 2)
      yield* write("loop", 3, { score: "42" })
      const where = (filter: ListOptions["filter"]) => seqsOf(saver, writer.address, { filter })
      same(yield* where({ source: "input" }), [3, 1])
      same(yield* where({ source: "loop" }), [4, 2])
      same(yield* where({ step: 1 }), [2])
      same(yield* where({ source: "input", step: 2 }), [3])
      same(yield* where({ source: "update", step: 99 }), [])
      same(yield* where({ score: 42 }), [1])
      same(yield* where({ tags: ["a", { b: 1 }] }), [2])
      same(yield* where({ tags: ["a", { b: 2 }] }), [])
      same(yield* where({ tags: ["a"] }), [])
      same(yield* where({}), [4, 3, 2, 1])
      same(yield* seqsOf(saver, writer.address, { filter: { source: "loop" }, limit: 1 }), [4])
    })
  },
  {
    name: "per-021 begins before an id, ends at a limit, and takes both",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      for (let i = 0; i < 4; i++) yield* writer.write([])
      const [, , third, fourth] = writer.all
      same(yield* seqsOf(saver, writer.address, { before: idOf(third) }), [2, 1])
      same(yield* seqsOf(saver, writer.address, { limit: 1 }), [4])
      same(yield* seqsOf(saver, writer.address, { limit: 2 }), [4, 3])
      same(yield* seqsOf(saver, writer.address, { before: idOf(fourth), limit: 1 }), [3])
      same(yield* seqsOf(saver, writer.address, { limit: 0 }), [])
      for (const limit of [-1, 1.5, Number.NaN, "1; DROP TABLE pregel_checkpoints" as unknown as number]) {
        yield* fails(seqsOf(saver, writer.address, { limit }), "CheckpointerError", "InvalidRequest")
      }
      yield* fails(seqsOf(saver, writer.address, { before: "latest" }), "CheckpointerError", "InvalidRequest")
    })
  },
  {
    name: "per-022 takes any key as a filter: names with signs, null, and keys that no row has",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      yield* writer.write([], {
        metadata: { "access-level": "public", "123abc": "ok", "a.b": 1, a: { b: 2 }, none: null }
      })
      const count = (filter: ListOptions["filter"]) =>
        Effect.map(seqsOf(saver, writer.address, { filter }), (found) => found.length)
      same(yield* count({ "access-level": "public" }), 1)
      same(yield* count({ "123abc": "ok" }), 1)
      same(yield* count({ "a.b": 1 }), 1)
      same(yield* count({ a: { b: 2 } }), 1)
      same(yield* count({ none: null }), 1)
      same(yield* count({ missing: null }), 0)
      same(yield* count({ none: undefined }), 0)
      same(yield* count({ toString: undefined, constructor: Object }), 0)
    })
  },
  {
    name: "per-023 agrees with a plain filter for every combination of arguments",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writers = [1, 2].flatMap((i) =>
        ["", "child"].map((namespace) => new Writer(saver, `${thread}-${i}`, namespace))
      )
      for (const writer of writers) {
        for (let i = 0; i < 3; i++) {
          const source = i === 0 ? "input" : "loop"
          yield* writer.write([{ set: "x", value: i }], { source, metadata: { odd: i % 2 } })
        }
      }
      const filters = [undefined, {}, { source: "input" }, { source: "loop" }, { odd: 1, source: "loop" }]
      for (const { address, all } of [...writers, new Writer(saver, `${thread}-3`)]) {
        const befores = [undefined, ...all.map(idOf)]
        for (const limit of [undefined, 1, 2]) {
          for (const before of befores) {
            for (const filter of filters) {
              const wanted = all
                .filter(({ checkpoint }) => before === undefined || checkpoint.id < before)
                .filter(({ checkpoint: { metadata, source } }) =>
                  Object.entries(filter ?? {}).every(
                    ([key, value]) => (key === "source" ? source : metadata[key]) === value
                  )
                )
                .reverse()
                .slice(0, limit)
              const found = yield* listed(saver, address, { limit, before, filter })
              same(
                found.map(({ checkpoint }) => sorted(checkpoint)),
                wanted.map(({ checkpoint }) => sorted(checkpoint))
              )
            }
          }
        }
      }
    })
  },
  {
    name: "lists histories that are longer than a page, and writes go on while one is being read",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writer = new Writer(saver, thread)
      for (let i = 0; i < 150; i++)
        yield* writer.write(
          [
            { set: "x", value: i },
            { append: "log", items: [i] }
          ],
          { metadata: { i } }
        )
      const before = [...writer.all]
      const found = yield* Stream.runCollect(
        Stream.mapEffect(saver.list(writer.address), (one) =>
          one.checkpoint.seq % 30 === 0
            ? Effect.as(writer.write([{ set: "x", value: "late" }]), one)
            : Effect.succeed(one)
        )
      )
      same(
        Array.from(found, ({ checkpoint }) => sorted(checkpoint)),
        before.reverse().map(({ checkpoint }) => sorted(checkpoint))
      )
      same(yield* seqsOf(saver, writer.address, { filter: { i: 3 } }), [4])
      same((yield* seqsOf(saver, writer.address, { limit: 100 })).length, 100)
    })
  }
]

const HOSTILE: ReadonlyArray<string> = [
  "'",
  '"',
  "`",
  "\\",
  "%",
  "_",
  "a%",
  "*",
  "?",
  "[a-z]",
  "__proto__",
  "constructor",
  "$ne",
  '{"$ne":null}',
  "x') OR '1'='1",
  "x') OR 1=1 --",
  "x' UNION SELECT * FROM pregel_threads --",
  "'; DROP TABLE pregel_checkpoints; --",
  "\0",
  "a\0b",
  "a",
  "\ud800",
  "\udc00",
  "\ud801",
  "\ufffd",
  "\ue0000000",
  "\n",
  "\t ",
  " a",
  "A",
  "é",
  "e\u0301",
  "ß",
  "\u{1f600}",
  "null",
  "undefined",
  "../../etc/passwd",
  "CON",
  "a/b",
  "a|b",
  "a:b"
]

const LONG = "x".repeat(10_000)

const hostile: ReadonlyArray<Case> = [
  {
    name: "per-183 takes any text as thread, namespace, task, channel or metadata, and matches it exactly",
    run: Effect.fnUntraced(function* (saver, thread) {
      const writers = HOSTILE.map((name) => new Writer(saver, `${thread}${name}`, name))
      for (const [i, writer] of writers.entries()) {
        const name = HOSTILE[i]!
        const metadata = JSON.parse(`{${JSON.stringify(name)}:${JSON.stringify(name)},"long":"${i === 0 ? LONG : i}"}`)
        yield* writer.write(
          [
            { set: name, value: name },
            { append: `${name}s`, items: [i] }
          ],
          {
            metadata,
            ran: [name],
            graph: { name, fingerprint: name },
            seen: [[name, name, 1]],
            parents: { [`-${name}`]: name },
            writes: [pending(name, name, name, 0, name)]
          }
        )
      }
      for (const [i, writer] of writers.entries()) {
        const name = HOSTILE[i]!
        const loaded = yield* saver.load(writer.address)
        sameCheckpoint(loaded, writer.all[0]!)
        same(loaded?.writes, [pending(name, name, name, 0, name)])
        same(yield* saver.namespaces(writer.address.thread), [name])
        for (const other of i % 8 === 0 ? HOSTILE : [name]) {
          const filter = JSON.parse(`{${JSON.stringify(other)}:${JSON.stringify(other)}}`)
          same((yield* seqsOf(saver, writer.address, { filter })).length, other === name ? 1 : 0, `${name} by ${other}`)
        }
      }
      yield* saver.dropWrites(writers[0]!.address, 1, HOSTILE.slice(1))
      same((yield* saver.load(writers[0]!.address))?.writes.length, 1)
      yield* saver.deleteThread(`${thread}%`)
      yield* saver.deleteThread(`${thread}_`)
      for (const [i, writer] of writers.entries()) {
        const isGone = HOSTILE[i] === "%" || HOSTILE[i] === "_"
        same((yield* saver.load(writer.address)) === undefined, isGone, `the thread "${HOSTILE[i]}"`)
      }
    })
  }
]

/** Cases about lists, filters and hostile names. */
export const listCases: ReadonlyArray<Case> = [...lists, ...hostile]
