/**
 * The writing half of the typed service.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { ERROR, type GraphIdentity, INTERRUPT, type PendingWrite } from "../Checkpoint.js"
import type { Append, Encoded, EncodedWrite } from "../CheckpointDriver.js"
import type { Checkpointer, Commit, Lineage, Staged } from "../Checkpointer.js"
import { type CheckpointerError, ThreadConflict } from "../GraphError.js"
import { addressProblem, encodeAddress, invalid, nameProblem } from "./address.js"
import { decodeName, encode, encodeName, type Line, sealWrite } from "./record.js"

type Service = Context.Tag.Service<typeof Checkpointer>

export const fromLineage = (lineage: Lineage | undefined): Line | undefined => lineage as unknown as Line | undefined
export const toLineage = (line: Line): Lineage => line as unknown as Lineage

const encodeWrite =
  (seq: number) =>
  (write: PendingWrite): EncodedWrite => ({
    task: encodeName(write.task),
    path: encodeName(write.path),
    channel: encodeName(write.channel),
    index: write.index,
    value: sealWrite(write, seq),
    replace: write.channel === INTERRUPT || write.channel === ERROR
  })

/** Keeps the numbers that a driver gave to graphs. */
export const makeGraphs = (encoded: Encoded) => {
  const ids = new Map<string, number>()
  let last: { readonly graph: GraphIdentity; readonly id: number } | undefined
  const graphs = new Map<number, GraphIdentity>()
  const remember = (id: number, graph: GraphIdentity) => {
    ids.set(JSON.stringify([graph.name, graph.fingerprint]), id)
    graphs.set(id, graph)
  }
  const graphOf = (id: number): Effect.Effect<GraphIdentity | undefined, CheckpointerError> => {
    const known = graphs.get(id)
    if (known !== undefined) return Effect.succeed(known)
    return Effect.map(encoded.graph(id), (found) => {
      if (found === undefined) return undefined
      const graph = { name: decodeName(found.value.name), fingerprint: decodeName(found.value.fingerprint) }
      if (found.lasts) remember(id, graph)
      return graph
    })
  }
  return {
    known: (graph: GraphIdentity): number | undefined => {
      if (last?.graph === graph) return last.id
      const id = ids.get(JSON.stringify([graph.name, graph.fingerprint]))
      if (id !== undefined) last = { graph, id }
      return id
    },
    idOf: ({ fingerprint, name }: GraphIdentity): Effect.Effect<number, CheckpointerError> =>
      Effect.map(
        encoded.graphId({ name: encodeName(name), fingerprint: encodeName(fingerprint) }),
        ({ lasts, value }) => {
          if (lasts) remember(value, { name, fingerprint })
          return value
        }
      ),
    graphOf,
    /** The graphs of these numbers, by number. */
    graphsOf: (all: ReadonlyArray<number>): Effect.Effect<GraphOf, CheckpointerError> =>
      all.every((id) => graphs.has(id))
        ? Effect.succeed((id) => graphs.get(id))
        : Effect.map(
            Effect.forEach(new Set(all), (id) => Effect.map(graphOf(id), (graph) => [id, graph] as const)),
            (found) => {
              const byId = new Map(found)
              return (id) => byId.get(id)
            }
          )
  }
}

type GraphOf = (id: number) => GraphIdentity | undefined

export type Graphs = ReturnType<typeof makeGraphs>

/** Rows of a batch, each tied to the one before it on the same branch. */
const chained = (staged: ReadonlyArray<Staged>): ReadonlyArray<Append> => {
  const [only] = staged
  if (staged.length === 1) return [only!.append]
  const last = new Map<Lineage, Append>()
  return staged.map(({ append, commit, lineage }) => {
    const follows = commit.lineage && last.get(commit.lineage)
    const row = follows === undefined ? append : { ...append, follows }
    last.set(lineage, row)
    return row
  })
}

/** Why a commit can't be what it says. */
const problemOf = (commit: Commit): string | undefined => {
  if (!Number.isSafeInteger(commit.seq) || !(commit.seq > commit.expectedHead)) {
    return `seq ${commit.seq} does not come after the head ${commit.expectedHead}`
  }
  const line = fromLineage(commit.lineage)
  if (commit.parent?.seq !== line?.seq) return "the lineage is not that of the parent"
  return addressProblem(commit.address)
}

/** Encodes a commit of the graph of this number. */
const stageWith = (commit: Commit, graph: number): Effect.Effect<Staged, CheckpointerError> => {
  const problem = problemOf(commit)
  if (problem !== undefined) return Effect.fail(invalid("commit", commit.address.thread, problem))
  let row: ReturnType<typeof encode>
  try {
    row = encode(commit, fromLineage(commit.lineage), graph)
  } catch (cause) {
    return Effect.fail(invalid("commit", commit.address.thread, `the metadata is not JSON (${cause})`))
  }
  const isRoot = commit.address.namespace === ""
  return Effect.succeed({
    commit,
    lineage: toLineage(row.line),
    append: {
      address: encodeAddress(commit.address),
      expectedHead: commit.expectedHead,
      seq: commit.seq,
      log: row.log,
      data: row.data,
      requires:
        commit.parent !== undefined && commit.parent.seq !== commit.expectedHead ? commit.parent.seq : undefined,
      follows: undefined,
      writes: commit.writes?.map(encodeWrite(commit.seq)) ?? [],
      created: commit.created,
      thread:
        isRoot && (commit.expectedHead === 0 || commit.status !== undefined)
          ? { graph, status: commit.status, metadata: JSON.stringify(commit.metadata) }
          : undefined,
      fence: commit.fence
    }
  })
}

const conflict = ({ address, expectedHead }: Commit) => new ThreadConflict({ ...address, expected: expectedHead })

/** `stage`, `write`, `commit`, `putWrites` over a driver. */
export const makeWriting = (encoded: Encoded, graphs: Graphs) => {
  const stage: Service["stage"] = (commit) =>
    Effect.suspend(() => {
      const known = graphs.known(commit.graph)
      return known === undefined
        ? Effect.flatMap(graphs.idOf(commit.graph), (id) => stageWith(commit, id))
        : stageWith(commit, known)
    })

  const write: Service["write"] = (staged) =>
    Effect.flatMap(encoded.append(chained(staged)), (written) => {
      const refused = written.indexOf(false)
      return refused < 0 ? Effect.void : conflict(staged[refused]!.commit)
    })

  const commit: Service["commit"] = (commit) =>
    Effect.flatMap(stage(commit), ({ append, lineage }) =>
      Effect.flatMap(
        encoded.append([append]),
        ([written]): Effect.Effect<Lineage, ThreadConflict> => (written ? Effect.succeed(lineage) : conflict(commit))
      )
    )

  const putWrites: Service["putWrites"] = (address, seq, writes, fence, status) =>
    Effect.clockWith((clock) => {
      const problem =
        addressProblem(address) ??
        writes
          .map(({ channel, task }) => nameProblem("the task id", task) ?? nameProblem("the channel", channel))
          .find(Boolean)
      if (problem !== undefined) return Effect.fail(invalid("putWrites", address.thread, problem))
      return Effect.flatMap(
        encoded.putWrites(
          encodeAddress(address),
          seq,
          writes.map(encodeWrite(seq)),
          fence,
          status && { status, now: clock.unsafeCurrentTimeMillis() }
        ),
        (written): Effect.Effect<void, ThreadConflict> =>
          written ? Effect.void : new ThreadConflict({ ...address, expected: seq })
      )
    })

  return { stage, write, commit, putWrites }
}
