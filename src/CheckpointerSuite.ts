/**
 * The conformance suite of savers.
 */
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Runtime from "effect/Runtime"
import * as Stream from "effect/Stream"
import { Checkpointer, type Lineage } from "./Checkpointer.js"
import { type About, advance, comparable, type Node, type Step } from "./internal/model.js"

const channel = FastCheck.constantFrom("a", "b", "c", "1", "__proto__")
const list = FastCheck.constantFrom("log", "notes")
const value = FastCheck.oneof(FastCheck.jsonValue({ maxDepth: 2 }), FastCheck.constant(undefined), FastCheck.string())
const item = FastCheck.jsonValue({ maxDepth: 1 })

const step: FastCheck.Arbitrary<Step> = FastCheck.oneof(
  { weight: 4, arbitrary: FastCheck.record({ set: channel, value }) },
  { weight: 4, arbitrary: FastCheck.record({ append: list, items: FastCheck.array(item, { maxLength: 3 }) }) },
  {
    weight: 1,
    arbitrary: FastCheck.record({
      append: list,
      items: FastCheck.array(item, { maxLength: 3 }),
      reset: FastCheck.constant(true)
    })
  },
  { weight: 1, arbitrary: FastCheck.record({ drop: FastCheck.oneof(channel, list) }) }
)

const about = FastCheck.record(
  {
    metadata: FastCheck.constantFrom({}, { run_id: "r1" }, { run_id: "r2", tags: ["x", "y"] }),
    seen: FastCheck.constantFrom<About["seen"]>(
      [],
      [["n", "a", 3]],
      [
        ["n", "a", 3],
        ["m", "b", 1]
      ]
    ),
    parents: FastCheck.constantFrom({}, { "": "00000001-abc" }),
    source: FastCheck.constantFrom<About["source"]>("input", "loop", "update", "fork"),
    resumedAt: FastCheck.nat(9),
    graph: FastCheck.constantFrom({ name: "g", fingerprint: "1" }, { name: "g", fingerprint: "2" }),
    ran: FastCheck.constantFrom([], ["node"], ["x", "y"])
  },
  { requiredKeys: [] }
) as FastCheck.Arbitrary<About>

/** One commit: on which checkpoint it builds (counted back from the newest), with how big a gap, from storage or not. */
const move = FastCheck.record({
  back: FastCheck.oneof({ weight: 6, arbitrary: FastCheck.constant(0) }, { weight: 2, arbitrary: FastCheck.nat(40) }),
  root: FastCheck.integer({ min: 0, max: 30 }).map((n) => n === 0),
  gap: FastCheck.oneof(
    { weight: 5, arbitrary: FastCheck.constant(1) },
    { weight: 1, arbitrary: FastCheck.integer({ min: 2, max: 5 }) }
  ),
  reload: FastCheck.boolean(),
  // Distinct channels: a step changes each once.
  steps: FastCheck.uniqueArray(step, { maxLength: 4, selector: (one) => Object.values(one)[0] }),
  about
})

type Move = typeof move extends FastCheck.Arbitrary<infer A> ? A : never

let threads = 0

/** Replays the moves on a fresh thread and compares every checkpoint that was ever written. */
export const followsModel = (moves: ReadonlyArray<Move>, same: (a: unknown, b: unknown) => void) =>
  Effect.gen(function* () {
    const saver = yield* Checkpointer
    const address = { thread: `model-${++threads}`, namespace: "" }
    const nodes: Array<Node> = []
    const lineages = new Map<number, Lineage>()
    let head = 0
    for (const { about, back, gap, reload, root, steps } of moves) {
      const parent = root ? undefined : nodes[Math.max(0, nodes.length - 1 - back)]
      const seq = head + gap
      const { commit, node } = advance(address, parent, head, seq, steps, about)
      let lineage = parent && lineages.get(parent.checkpoint.seq)
      if (reload && parent !== undefined) lineage = (yield* saver.load(address, parent.checkpoint.id))?.lineage
      lineages.set(seq, yield* saver.commit({ ...commit, lineage }))
      nodes.push(node)
      head = seq
    }
    for (const { checkpoint } of nodes) {
      const loaded = yield* saver.load(address, checkpoint.id)
      same(loaded && comparable(loaded.checkpoint), comparable(checkpoint))
    }
    const newest = yield* saver.load(address)
    same(newest?.head, head || undefined)
    same(newest?.checkpoint.id, nodes.at(-1)?.checkpoint.id)
    const listed = yield* Stream.runCollect(saver.list(address))
    same(
      Array.from(listed, ({ checkpoint }) => comparable(checkpoint)),
      nodes.map(({ checkpoint }) => comparable(checkpoint)).reverse()
    )
  })

/** Property: whatever forks, gaps, resets and reloads happen, what is read is what was written. */
export const modelProperty = (same: (a: unknown, b: unknown) => void, numRuns: number) =>
  Effect.flatMap(Effect.runtime<Checkpointer>(), (runtime) =>
    Effect.promise(() =>
      FastCheck.assert(
        FastCheck.asyncProperty(FastCheck.array(move, { maxLength: 60, size: "max" }), (moves) =>
          Runtime.runPromise(runtime)(followsModel(moves, same))
        ),
        { numRuns }
      )
    )
  )
