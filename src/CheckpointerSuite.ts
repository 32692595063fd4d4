/**
 * The conformance suite of savers: every promise that the engine relies on, as cases that any test runner can run.
 */
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import type * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Runtime from "effect/Runtime"
import * as Stream from "effect/Stream"
import { Checkpointer } from "./Checkpointer.js"
import type { About, Step } from "./internal/model.js"
import { type Case, type Saver, same, sameCheckpoint, sorted, Writer, type Written } from "./internal/suite.js"
import { branchCases } from "./internal/suiteBranches.js"
import { checkpointCases } from "./internal/suiteCheckpoints.js"
import { listCases } from "./internal/suiteLists.js"
import { writeCases } from "./internal/suiteWrites.js"

export type { Case } from "./internal/suite.js"

const channel = FastCheck.constantFrom("a", "b", "c", "1", "__proto__")
const list = FastCheck.constantFrom("log", "notes")
// Some values are long, so that not every row is written whole.
const json = (maxDepth: number) => FastCheck.jsonValue({ maxDepth }).map((one) => JSON.parse(JSON.stringify(one)))
const value = FastCheck.oneof(
  json(2),
  FastCheck.constant(undefined),
  FastCheck.integer({ min: 40, max: 80 }).map((length) => "v".repeat(length))
)
const item = json(1)

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
  prune: FastCheck.oneof(
    { weight: 20, arbitrary: FastCheck.constant(undefined) },
    { weight: 1, arbitrary: FastCheck.integer({ min: 1, max: 4 }) }
  ),
  // Distinct channels: a step changes each once.
  steps: FastCheck.uniqueArray(step, { maxLength: 4, selector: (one) => Object.values(one)[0] }),
  about
})

type Move = typeof move extends FastCheck.Arbitrary<infer A> ? A : never

/** Replays the moves on a fresh thread and compares every checkpoint that was ever written. */
const followModel = Effect.fnUntraced(function* (moves: ReadonlyArray<Move>, saver: Saver, thread: string) {
  const writer = new Writer(saver, thread)
  const written: Array<Written> = []
  let kept: ReadonlyArray<Written> = []
  for (const { about, back, gap, prune, reload, root, steps } of moves) {
    let on = root ? undefined : kept[Math.max(0, kept.length - 1 - back)]
    if (reload && on !== undefined) {
      const loaded = yield* saver.load(writer.address, on.node.checkpoint.id)
      sameCheckpoint(loaded, on.node)
      on = { ...on, lineage: loaded!.lineage }
    }
    const one = yield* writer.write(steps, { ...about, gap, on: on ?? null })
    written.push(one)
    kept = [...kept, one]
    if (prune !== undefined) {
      yield* saver.prune(thread, { keep: prune })
      const parents = new Set(kept.map(({ node }) => node.checkpoint.parent?.seq))
      const newest = kept.length - prune
      kept = kept.filter(({ node }, i) => i >= newest || !parents.has(node.checkpoint.seq))
    }
  }
  for (const { node } of written) {
    const isKept = kept.some((one) => one.node === node)
    const loaded = yield* saver.load(writer.address, node.checkpoint.id)
    if (isKept) sameCheckpoint(loaded, node)
    else same(loaded, undefined, "a pruned checkpoint")
  }
  const newest = yield* saver.load(writer.address)
  same(newest?.head, writer.head || undefined, "the head")
  same(newest?.checkpoint.id, kept.at(-1)?.node.checkpoint.id, "the newest id")
  const listed = yield* Stream.runCollect(saver.list(writer.address))
  same(
    Array.from(listed, ({ checkpoint }) => sorted(checkpoint)),
    kept.map(({ node }) => sorted(node.checkpoint)).reverse(),
    "the list"
  )
})

const modelCase = (numRuns: number): Case => ({
  name: "agrees with a plain model over random forks, gaps, resets, reloads and prunes",
  run: (saver, thread) => {
    let run = 0
    return Effect.flatMap(Effect.runtime(), (runtime) =>
      Effect.tryPromise({
        try: () =>
          FastCheck.assert(
            FastCheck.asyncProperty(FastCheck.array(move, { maxLength: 60, size: "max" }), (moves) =>
              Runtime.runPromise(runtime)(followModel(moves, saver, `${thread}-${run++}`))
            ),
            { numRuns }
          ),
        catch: (cause) => cause
      })
    )
  }
})

/** How thorough the suite is, and what runs it. */
export interface Options {
  /** Random histories that are compared with the model; 30 by default. */
  readonly numRuns?: number | undefined
  /** Milliseconds for one case; 60,000 by default. */
  readonly timeout?: number | undefined
  /** A test runner's functions; the global ones by default. */
  readonly runner?: Runner | undefined
}

/** The functions of a test runner that the suite needs; Vitest and Jest have them. */
export interface Runner {
  readonly describe: (name: string, body: () => void) => unknown
  readonly it: (name: string, body: () => Promise<void>, timeout: number) => unknown
  readonly afterAll: (body: () => Promise<void>) => unknown
}

/** Every case of the suite, to run them some other way. */
export const cases = (options: Options = {}): ReadonlyArray<Case> => [
  ...checkpointCases,
  ...writeCases,
  ...listCases,
  ...branchCases,
  modelCase(options.numRuns ?? 30)
]

/** Declares a group of tests that hold a saver to its contract. The layer is built once; it may hold other threads. */
export const checkpointerSuite = <E>(
  name: string,
  layer: Layer.Layer<Checkpointer, E>,
  options: Options = {}
): void => {
  const { describe, it, afterAll } = options.runner ?? (globalThis as unknown as Runner)
  describe(name, () => {
    const runtime = ManagedRuntime.make(layer)
    const id = `suite-${Math.random().toString(36).slice(2)}`
    cases(options).forEach((one, i) => {
      it(
        one.name,
        () => runtime.runPromise(Effect.flatMap(Checkpointer, (saver) => one.run(saver, `${id}-${i}`))),
        options.timeout ?? 60_000
      )
    })
    afterAll(() => runtime.dispose())
  })
}
