import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { Address, PendingWrite } from "../src/Checkpoint.js"
import type { Append, Encoded } from "../src/CheckpointDriver.js"
import { Checkpointer, type Loaded, layerMemory, makeEncoded, mapEncoded } from "../src/Checkpointer.js"
import { type Case, cases } from "../src/GraphTest.js"
import type { Saver } from "../src/internal/suite.js"

/** Savers that break one promise each. The suite must notice. */
type Mutant = Layer.Layer<Checkpointer>

const driver = (mutate: (encoded: Encoded) => Partial<Encoded>): Mutant =>
  mapEncoded((encoded) => Effect.sync((): Encoded => ({ ...encoded, ...mutate(encoded) })))(layerMemory)

const service = (mutate: (saver: Saver) => Partial<Saver>): Mutant =>
  Layer.provide(
    Layer.effect(
      Checkpointer,
      Effect.map(Checkpointer, (saver) => ({ ...saver, ...mutate(saver) }))
    ),
    layerMemory
  )

/** Changes what is read, by `load` and by `list`. */
const reads = (change: (loaded: Loaded) => Loaded): Mutant =>
  service((saver) => ({
    load: (address, id) => Effect.map(saver.load(address, id), (loaded) => loaded && change(loaded)),
    list: (address, options) => Stream.map(saver.list(address, options), change)
  }))

const like = (pattern: string): RegExp =>
  new RegExp(
    `^${Array.from(pattern, (char) => (char === "%" ? ".*" : char === "_" ? "." : char.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"))).join("")}$`,
    "su"
  )

const likeMatch = (encoded: Encoded): Partial<Encoded> => {
  const threads = new Set<string>()
  const known = (thread: string) => Array.from(threads).find((one) => like(thread).test(one)) ?? thread
  const matched = ({ namespace, thread }: Address): Address => ({ namespace, thread: known(thread) })
  return {
    append: (rows) => {
      for (const { address } of rows) threads.add(address.thread)
      return encoded.append(rows)
    },
    read: (address, seq) => encoded.read(matched(address), seq)
  }
}

const neverForgets = (encoded: Encoded): Partial<Encoded> => {
  const kept = new Map<string, ReadonlyArray<PendingWrite>>()
  const keyOf = ({ namespace, thread }: Address, seq: number) => JSON.stringify([thread, namespace, seq])
  return {
    putWrites: (address, seq, writes, fence, status) => {
      kept.set(keyOf(address, seq), writes)
      return encoded.putWrites(address, seq, writes, fence, status)
    },
    read: (address, seq) =>
      Effect.map(encoded.read(address, seq), ({ head, row }) => ({
        head,
        row: row && { ...row, writes: row.writes.length > 0 ? row.writes : (kept.get(keyOf(address, row.seq)) ?? []) }
      }))
  }
}

const ignoringHead = (encoded: Encoded): Partial<Encoded> => ({
  append: (rows) =>
    Effect.forEach(rows, (row) =>
      Effect.flatMap(encoded.read(row.address, undefined), ({ head }) =>
        Effect.map(
          encoded.append([{ ...row, follows: undefined, expectedHead: head, seq: Math.max(row.seq, head + 1) }]),
          ([written]) => written === true
        )
      )
    )
})

const mutants: Readonly<Record<string, Mutant>> = {
  "an inclusive before": driver((encoded) => ({
    page: (address, before, limit) => encoded.page(address, before + 1, limit)
  })),
  "a list that begins with the oldest": service((saver) => ({
    list: (address, options) =>
      Stream.unwrap(
        Effect.map(Stream.runCollect(saver.list(address, options)), (all) =>
          Stream.fromIterable(Array.from(all).reverse())
        )
      )
  })),
  "duplicated writes": driver((encoded) => ({
    putWrites: (address, seq, writes, ...others) =>
      encoded.putWrites(
        address,
        seq,
        [...writes, ...writes.map((one, i) => ({ ...one, task: `${one.task}${i}` }))],
        ...others
      )
  })),
  "overwritten slots": driver((encoded) => ({
    putWrites: (address, seq, writes, ...others) =>
      encoded.putWrites(
        address,
        seq,
        writes.map((one) => ({ ...one, replace: true })),
        ...others
      )
  })),
  "interrupts that are never replaced": driver((encoded) => ({
    putWrites: (address, seq, writes, ...others) =>
      encoded.putWrites(
        address,
        seq,
        writes.map((one) => ({ ...one, replace: false })),
        ...others
      )
  })),
  "forgotten clean-up": driver(neverForgets),
  "unsorted writes": reads((loaded) => ({ ...loaded, writes: [...loaded.writes].reverse() })),
  "a lost parent": reads((loaded) => ({ ...loaded, checkpoint: { ...loaded.checkpoint, parent: undefined } })),
  "values shared by forks": driver((encoded) => ({
    logs: (address, ranges) => encoded.logs(address, [[ranges[0]![0], ranges.at(-1)![1]]])
  })),
  "no fence": driver((encoded) => ({
    append: (rows: ReadonlyArray<Append>) => encoded.append(rows.map((row) => ({ ...row, fence: undefined }))),
    putWrites: (address, seq, writes, _fence, status) => encoded.putWrites(address, seq, writes, undefined, status)
  })),
  "writes that leave the thread's status as it was": driver((encoded) => ({
    putWrites: (address, seq, writes, fence) => encoded.putWrites(address, seq, writes, fence)
  })),
  "a head that anyone may move": driver(ignoringHead),
  "a LIKE match": driver(likeMatch),
  "an unknown id that gives the newest": service((saver) => ({
    load: (address, id) =>
      Effect.flatMap(saver.load(address, id), (loaded) =>
        loaded === undefined ? saver.load(address) : Effect.succeed(loaded)
      )
  })),
  "a commit that forgets its pending writes": driver((encoded) => ({
    append: (rows) => encoded.append(rows.map((row) => ({ ...row, writes: [] })))
  })),
  "rows that follow a refused one": driver((encoded) => ({
    append: (rows) => encoded.append(rows.map((row) => ({ ...row, follows: undefined })))
  })),
  "a prune that loses logs": driver((encoded) => ({
    rewrite: (change) =>
      encoded.rewrite({
        ...change,
        rows: change.rows.filter(({ data, log }) => data !== "" || log === null),
        remove: [
          ...change.remove,
          ...change.rows.filter(({ data, log }) => data === "" && log !== null).map(({ seq }) => seq)
        ]
      })
  })),
  "numbers that are used again after a removed head": driver((encoded) => ({
    rewrite: (change) =>
      encoded.rewrite({ ...change, rows: change.rows.filter(({ data, log }) => data !== "" || log !== null) })
  })),
  "undefined that becomes null": reads((loaded) => ({
    ...loaded,
    checkpoint: {
      ...loaded.checkpoint,
      channels: loaded.checkpoint.channels.map((one) => ({ ...one, value: one.value ?? null }))
    }
  })),
  "a filter that ignores what it does not know": service((saver) => ({
    list: (address, { filter, ...options } = {}) => {
      const { run_id, score, source, step } = filter ?? {}
      const known = Object.entries({ run_id, score, source, step }).filter(([, value]) => value !== undefined)
      return saver.list(address, { ...options, filter: Object.fromEntries(known) })
    }
  }))
}

/** The first case that fails. */
const noticed = (mutant: Mutant, all: ReadonlyArray<Case>) =>
  Effect.flatMap(Checkpointer, (saver) =>
    Effect.findFirst(all, (one) =>
      Effect.map(
        Effect.exit(Effect.timeout(one.run(saver, `mutant ${one.name}`), "20 seconds")),
        (exit) => exit._tag === "Failure"
      )
    )
  ).pipe(Effect.provide(mutant), Effect.map(Option.map(({ name }) => name)))

describe("the conformance suite", () => {
  const all = cases({ numRuns: 5 })

  it.live("passes a saver that keeps its promises", () =>
    Effect.gen(function* () {
      const memory = yield* Checkpointer
      const same = Layer.succeed(Checkpointer, makeEncoded(memory.encoded))
      assert.deepStrictEqual(yield* noticed(same, all), Option.none())
    }).pipe(Effect.provide(layerMemory))
  )

  for (const [fault, mutant] of Object.entries(mutants)) {
    it.live(`notices ${fault}`, () =>
      Effect.map(noticed(mutant, all), (found) => assert.isTrue(Option.isSome(found), `no case failed with ${fault}`))
    )
  }
})
