import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Algo from "../src/Algo.js"
import * as Channel from "../src/Channel.js"
import { ChannelTable } from "../src/Channels.js"
import { layerMemory } from "../src/Checkpointer.js"
import * as Codec from "../src/Codec.js"
import * as Graph from "../src/Graph.js"
import * as Send from "../src/Send.js"
import type { ChannelSpec, Node, Topology } from "../src/Topology.js"
import { algo, runModel, runOurs } from "./differential/Ours.js"
import { generate } from "./differential/Spec.js"
import * as Model from "./model.js"
import { modelAlgo } from "./modelAlgo.js"

// ---------------------------------------------------------------------------------------------------------------------
// every small graph
// ---------------------------------------------------------------------------------------------------------------------

interface Kind {
  readonly channel: Channel.Any
  readonly model: Model.Kind
}

const plus = (a: number, b: number) => a * 3 + b

const kinds: ReadonlyArray<Kind> = [
  { channel: Channel.lastValue(Schema.Unknown), model: { _tag: "last" } },
  { channel: Channel.anyValue(Schema.Unknown), model: { _tag: "any" } },
  { channel: Channel.ephemeral(Schema.Unknown), model: { _tag: "flash", guard: true } },
  { channel: Channel.ephemeral(Schema.Unknown, { guard: false }), model: { _tag: "flash", guard: false } },
  { channel: Channel.topic(Schema.Unknown), model: { _tag: "topic" } },
  {
    channel: Channel.reduce(Schema.Number, { initial: () => 0, reducer: plus }),
    model: { _tag: "fold", start: 0, step: plus }
  },
  { channel: Channel.barrier(["a", "b"]), model: { _tag: "barrier", names: ["a", "b"], late: false } },
  { channel: Channel.barrierAfterFinish(["a", "b"]), model: { _tag: "barrier", names: ["a", "b"], late: true } },
  { channel: Channel.lastValueAfterFinish(Schema.Unknown), model: { _tag: "late" } }
]

/** What a node writes each time it runs: nothing, its name to one of the channels or to both, or a packet to the last node. */
type Writes = "none" | "x" | "y" | "both" | "send"

const WRITES: ReadonlyArray<Writes> = ["none", "x", "y", "both", "send"]
/** Which of the channels x and y trigger a node. */
const TRIGGERS: ReadonlyArray<ReadonlyArray<number>> = [[], [0], [1], [0, 1]]
const NAMES = ["a", "b", "c"]
const [X, Y, PACKETS] = [0, 1, 2]

interface Small {
  readonly kinds: readonly [Kind, Kind]
  readonly triggers: ReadonlyArray<ReadonlyArray<number>>
  readonly writes: ReadonlyArray<Writes>
}

const topologyOf = ({ kinds, triggers }: Small): Topology => {
  const channels = [kinds[0].channel, kinds[1].channel, Channel.topic(Schema.Unknown)]
  const specs = channels.map((channel, id): ChannelSpec => {
    const { definition } = channel
    return {
      id,
      name: ["x", "y", Model.PACKETS][id]!,
      channel,
      codec: Codec.plain,
      isState: id !== PACKETS && definition.kind !== "barrier" && definition.kind !== "barrierAfterFinish",
      transient: Channel.isTransient(definition),
      afterFinish: Channel.isAfterFinish(definition),
      tracked: true,
      append: false,
      subscribers: triggers.flatMap((list, node) => (list.includes(id) ? [node] : []))
    }
  })
  const nodes = triggers.map((list, id) => ({ id, name: NAMES[id]!, rank: id, triggers: list }) as unknown as Node)
  return {
    channels: specs,
    channelIds: new Map(specs.map(({ id, name }) => [name, id])),
    nodes,
    nodeIds: new Map(nodes.map(({ id, name }) => [name, id])),
    sends: PACKETS
  } as unknown as Topology
}

const channelsWritten = (writes: Writes): ReadonlyArray<number> =>
  writes === "x" ? [X] : writes === "y" ? [Y] : writes === "both" ? [X, Y] : []

/** A number for channels that compute, a name for the others. */
const valueFor = (kind: Kind, node: number) => (kind.model._tag === "fold" ? node + 1 : NAMES[node]!)

const writesOf = (small: Small, node: number): ReadonlyArray<Algo.Write> => {
  const { kinds, triggers, writes } = small
  if (writes[node] === "send") {
    const value = Send.make(NAMES[triggers.length - 1]!, node)
    return [{ channel: PACKETS, value, encoded: undefined }]
  }
  return channelsWritten(writes[node]!).map((channel) => ({
    channel,
    value: valueFor(kinds[channel as 0 | 1], node),
    encoded: undefined
  }))
}

/** What both say after each superstep, as text: who runs, what the channels hold. */
const runAlgo = (small: Small): ReadonlyArray<string> => {
  const topology = topologyOf(small)
  const table = new ChannelTable(topology.channels)
  const seen: Algo.Seen = new Map()
  const shown: Array<string> = []
  let applied = Algo.applyWrites(topology, table, seen, [], first(small))
  for (let step = 0; step < 4; step++) {
    if (Either.isLeft(applied)) return [...shown, "refused"]
    const tasks = Algo.prepareNextTasks(topology, table, seen, applied.right.updated)
    const scanned = Algo.prepareNextTasks(topology, table, seen, undefined)
    const names = tasks.map(({ index, node }) => `${node.name}${index}`)
    const values = [X, Y].map((id) => [table.isAvailable(id), table.isAvailable(id) ? table.get(id) : null])
    shown.push(JSON.stringify([names, values, names.join() === scanned.map((t) => `${t.node.name}${t.index}`).join()]))
    const ran = tasks.map((task) => ({ ...task, writes: writesOf(small, task.node.id) }))
    applied = Algo.applyWrites(topology, table, seen, ran)
  }
  return Either.isLeft(applied) ? [...shown, "refused"] : shown
}

/** A run begins with a value in x, and in y where x alone says nothing. */
const first = (small: Small): ReadonlyArray<Algo.Write> => [
  { channel: X, value: valueFor(small.kinds[0], 0), encoded: undefined },
  ...(small.kinds[0].model._tag === "barrier" || small.kinds[0].model._tag === "late"
    ? [{ channel: Y, value: valueFor(small.kinds[1], 0), encoded: undefined }]
    : [])
]

const runReference = (small: Small): ReadonlyArray<string> => {
  const cells = [Model.fresh(small.kinds[0].model), Model.fresh(small.kinds[1].model), Model.fresh({ _tag: "topic" })]
  const names = ["x", "y", Model.PACKETS]
  const model: Model.Model = {
    channels: new Map(
      cells.map((cell, id) => [
        names[id]!,
        {
          available: () => Model.available(cell),
          update: (values) => Model.update(cell, values),
          consume: () => Model.consume(cell),
          finish: () => Model.finish(cell)
        }
      ])
    ),
    versions: new Map(),
    seen: new Map(),
    nodes: new Map(small.triggers.map((list, node) => [NAMES[node]!, list.map((id) => names[id]!)])),
    packets: () => (cells[PACKETS]!.value as ReadonlyArray<Send.Send>).map(({ node }) => node),
    quirks: {}
  }
  const pairs = (writes: ReadonlyArray<Algo.Write>) => writes.map((w) => [names[w.channel]!, w.value] as const)
  const value = (cell: Model.Cell) => (!Model.available(cell) ? null : cell.kind._tag === "barrier" ? null : cell.value)
  const shown: Array<string> = []
  try {
    let { updated } = Model.apply(model, [], pairs(first(small)))
    for (let step = 0; step < 4; step++) {
      const tasks = Model.next(model, updated)
      const scanned = Model.next(model, undefined)
      const text = tasks.map(({ node, packet }) => `${node}${packet ?? -1}`)
      const values = [X, Y].map((id) => [Model.available(cells[id]!), value(cells[id]!)])
      const same = text.join() === scanned.map(({ node, packet }) => `${node}${packet ?? -1}`).join()
      shown.push(JSON.stringify([text, values, same]))
      const ran = tasks.map((task) => ({ ...task, writes: pairs(writesOf(small, NAMES.indexOf(task.node))) }))
      updated = Model.apply(model, ran).updated
    }
    return shown
  } catch (error) {
    if (error instanceof Model.Refused) return [...shown, "refused"]
    throw error
  }
}

function* product<A>(items: ReadonlyArray<A>, count: number): Iterable<ReadonlyArray<A>> {
  if (count === 0) return yield []
  for (const rest of product(items, count - 1)) for (const item of items) yield [...rest, item]
}

function* smallGraphs(size: number): Iterable<Small> {
  for (const first of kinds) {
    for (const second of kinds) {
      for (const triggers of product(TRIGGERS, size)) {
        // A node that nothing runs is no node: only the last one may be run by packets alone.
        if (triggers.slice(0, -1).some((list) => list.length === 0) || (size === 1 && triggers[0]!.length === 0))
          continue
        for (const writes of product(WRITES, size)) yield { kinds: [first, second], triggers, writes }
      }
    }
  }
}

const describeSmall = ({ kinds, triggers, writes }: Small) =>
  JSON.stringify({ kinds: kinds.map(({ channel }) => channel.kind), triggers, writes })

describe("the algorithm agrees with the reference model", () => {
  for (const size of [1, 2, 3]) {
    it(`on all graphs of ${size} nodes x 2 channels x 3 supersteps`, async () => {
      let graphs = 0
      for (const small of smallGraphs(size)) {
        if (++graphs % 4000 === 0) await new Promise((resolve) => setImmediate(resolve))
        const ours = runAlgo(small)
        const reference = runReference(small)
        if (ours.join("\n") !== reference.join("\n")) assert.deepStrictEqual(ours, reference, describeSmall(small))
      }
      assert.strictEqual(graphs, 81 * (size === 1 ? 3 : 3 ** (size - 1) * 4) * 5 ** size)
    }, 400_000)
  }
})

// ---------------------------------------------------------------------------------------------------------------------
// whole runs on another algorithm
// ---------------------------------------------------------------------------------------------------------------------

const counting = Graph.make("counting", {
  log: Channel.append(Schema.String),
  count: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b })
})
  .addNode("b", () => Effect.succeed({ log: "b", count: 1 }))
  .addNode("a", () => Effect.succeed({ log: "a", count: 1 }))
  .addNode("c", () => Effect.succeed({ log: "c" }))
  .addEdge(Graph.START, "a")
  .addEdge(Graph.START, "b")
  .addEdge(["a", "b"], "c")
  .addConditionalEdges("c", (state) => (state.count < 4 ? ["a", "b"] : [Graph.END]), ["a", "b", Graph.END])
  .compile()

const outcome = { log: ["a", "b", "c", "a", "b", "c"], count: 4 }

describe("the algorithm is a service", () => {
  it.effect("a run on the reference model gives the same result", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* counting.invoke({}), outcome)
      assert.deepStrictEqual(yield* counting.invoke({}).pipe(Effect.provide(Algo.layer(modelAlgo(algo)))), outcome)
    })
  )

  it("200 random graphs run on the reference model as on the algorithm", async () => {
    for (let seed = 10_001; seed <= 10_200; seed++) {
      const spec = generate(seed)
      assert.deepStrictEqual(await runModel(spec), await runOurs(spec), `seed ${seed}`)
    }
  }, 120_000)

  it.effect("a recording algorithm sees every superstep", () =>
    Effect.gen(function* () {
      const planned: Array<string> = []
      const recording: Algo.Algo.Service = {
        ...algo,
        prepareNextTasks: (...args) => {
          const tasks = algo.prepareNextTasks(...args)
          planned.push(tasks.map(({ node }) => node.name).join(" "))
          return tasks
        }
      }
      yield* counting.invoke({}).pipe(Effect.provide(Algo.layer(recording)))
      assert.deepStrictEqual(planned.slice(-5), ["a b", "c", "a b", "c", ""])
    })
  )

  const mutants: Record<string, Partial<Algo.Algo.Service>> = {
    "writes are folded in reverse order": {
      applyWrites: (topology, channels, seen, tasks, extra) => {
        const last = tasks.length - 1
        const swapped = tasks.map((task, i) => ({ ...task, writes: tasks[last - i]!.writes }))
        return algo.applyWrites(topology, channels, seen, swapped, extra)
      }
    },
    "a task is forgotten": {
      prepareNextTasks: (...args) => algo.prepareNextTasks(...args).slice(0, 1)
    },
    "nothing is cleared after a superstep": {
      applyWrites: (topology, channels, seen, tasks, extra) => {
        const kept = Array.from(channels.transients)
        channels.transients.clear()
        const applied = algo.applyWrites(topology, channels, seen, tasks, extra)
        for (const id of kept) channels.transients.add(id)
        return applied
      }
    }
  }

  for (const [name, mutant] of Object.entries(mutants)) {
    it(`catches a mutant: ${name}`, async () => {
      const specs = Array.from({ length: 30 }, (_, i) => generate(20_000 + i))
      const layer = Layer.merge(layerMemory, Algo.layer({ ...algo, ...mutant }))
      let caught = 0
      for (const spec of specs) {
        const [right, wrong] = [await runModel(spec), await runOurs(spec, layer).catch(() => undefined)]
        if (JSON.stringify(right) !== JSON.stringify(wrong)) caught++
      }
      assert.isAbove(caught, 0)
    }, 60_000)
  }
})
