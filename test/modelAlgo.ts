/** The reference model in the place of the engine's algorithm. */
import * as Either from "effect/Either"
import type { Algo, Applied, TaskPlan, TaskWrites, Write } from "effect-pregel/Algo"
import type { ChannelTable } from "effect-pregel/Channels"
import type { InvalidUpdate } from "effect-pregel/GraphError"
import type { Topology } from "effect-pregel/Topology"
import { apply, type Model, next, type Port, type Quirks, Refused } from "./model.js"

const modelOf = (topology: Topology, table: ChannelTable, seen: Map<number, Map<number, number>>, quirks: Quirks) => {
  const name = (id: number) => table.specs[id]!.name
  let refusal: InvalidUpdate | undefined
  const port = (id: number): Port => ({
    available: () => table.isAvailable(id),
    update: (values) => {
      const result = table.update(id, values)
      if (Either.isRight(result)) return result.right
      refusal ??= result.left
      throw new Refused()
    },
    consume: () => table.cell(id).consume(),
    finish: () => table.cell(id).finish()
  })
  const known = Array.from(seen, ([node, channels]) => {
    const versions = Array.from(channels, ([channel, version]) => [name(channel), version] as const)
    return [topology.nodes[node]!.name, new Map(versions)] as const
  })
  const versions = table.specs.map(({ id }) => [name(id), table.versionOf(id)] as const)
  const model: Model = {
    channels: new Map(table.specs.map(({ id }) => [name(id), port(id)])),
    versions: new Map([...versions.filter(([, version]) => version > 0), ["", table.version]]),
    seen: new Map(known),
    nodes: new Map(topology.nodes.map((node) => [node.name, node.triggers.map(name)])),
    packets: () => {
      const packets = table.get(topology.sends)
      return Array.isArray(packets) ? packets.map((send) => send.node) : []
    },
    quirks
  }
  return { model, refusal: () => refusal }
}

const applyInEngine =
  (quirks: Quirks) =>
  (
    topology: Topology,
    table: ChannelTable,
    seen: Map<number, Map<number, number>>,
    tasks: ReadonlyArray<TaskWrites>,
    extra: ReadonlyArray<Write> = [],
    bump = tasks.length > 0
  ): Either.Either<Applied, InvalidUpdate> => {
    const { model, refusal } = modelOf(topology, table, seen, quirks)
    const pairs = (writes: ReadonlyArray<Write>) => writes.map((w) => [table.specs[w.channel]!.name, w.value] as const)
    const modelTasks = tasks.map(({ index, node, writes }) => ({
      node: node.name,
      packet: index < 0 ? undefined : index,
      writes: pairs(writes)
    }))
    try {
      const { changed, updated } = apply(model, modelTasks, pairs(extra), bump)
      const id = (channel: string) => topology.channelIds.get(channel)!
      for (const channel of changed) table.touch(id(channel), model.versions.get(channel)!)
      for (const [node, channels] of model.seen) {
        seen.set(topology.nodeIds.get(node)!, new Map(Array.from(channels, ([c, version]) => [id(c), version])))
      }
      const order = tasks.slice().sort((a, b) => a.index - b.index || (a.node.name < b.node.name ? -1 : 1))
      const all = [...extra, ...order.flatMap(({ writes }) => writes)]
      const writesTo = (channel: number) => all.filter((write) => write.channel === channel)
      return Either.right({
        updated: Array.from(updated, id),
        changed: new Map(Array.from(changed, (channel) => [id(channel), writesTo(id(channel))]))
      })
    } catch (error) {
      if (error instanceof Refused) return Either.left(refusal()!)
      throw error
    }
  }

/** The model in the place of the engine's algorithm; what the model does not speak of is the given one's. */
export const modelAlgo = (base: Algo.Service, quirks: Quirks = {}): Algo.Service => {
  const applyWrites = applyInEngine(quirks)
  return {
    ...base,
    prepareNextTasks: (topology, table, seen, updated): ReadonlyArray<TaskPlan> => {
      const { model } = modelOf(topology, table, seen, quirks)
      const names = updated && new Set(Array.from(updated, (id) => table.specs[id]!.name))
      const sends = table.get(topology.sends) as ReadonlyArray<any>
      return next(model, names).map(({ node, packet }) => ({
        node: topology.nodes[topology.nodeIds.get(node)!]!,
        send: packet === undefined ? undefined : sends[packet],
        index: packet ?? -1
      }))
    },
    applyWrites: (topology, table, seen, tasks, extra) => applyWrites(topology, table, seen, tasks, extra),
    applyUpdate: (topology, table, seen, writes) => applyWrites(topology, table, seen, [], writes, true)
  }
}
