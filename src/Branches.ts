/**
 * The checkpoints of a thread as a tree: runs of checkpoints without a fork, and the forks that leave them.
 */
import type { Header } from "./Checkpoint.js"

/** A checkpoint in the tree. */
export type Point = Pick<Header, "id" | "step" | "source" | "created">

/** Checkpoints that follow each other, oldest first, up to where they fork or end. */
export interface Branch {
  readonly points: ReadonlyArray<Point>
  /** Branches that go on from the last point; none for one that ends there. */
  readonly forks: ReadonlyArray<Branch>
  /** The thread's newest checkpoint is the last point. */
  readonly isHead: boolean
}

/** What the tree is made of. */
export type Links = Point & Pick<Header, "seq"> & Partial<Pick<Header, "parent">>

const pointOf = ({ created, id, source, step }: Point): Point => ({ id, step, source, created })

interface Growing {
  readonly points: Array<Point>
  readonly forks: Array<Growing>
  isHead: boolean
}

/** The tree of checkpoints. A thread has several roots where a run was rolled back to nothing. */
export const treeOf = (headers: ReadonlyArray<Links>): ReadonlyArray<Branch> => {
  const oldestFirst = headers.slice().sort((a, b) => a.seq - b.seq)
  const head = oldestFirst.at(-1)?.seq
  const known = new Set(oldestFirst.map(({ seq }) => seq))
  const children = new Map<number, Array<Links>>()
  const roots: Array<Links> = []
  for (const header of oldestFirst) {
    const { parent } = header
    if (parent === undefined || !known.has(parent.seq)) roots.push(header)
    else children.set(parent.seq, [...(children.get(parent.seq) ?? []), header])
  }
  const trees: Array<Growing> = []
  const open = roots.map((header) => ({ header, into: trees }))
  // A loop and no recursion: a branch can be as deep as the thread is long.
  for (let next = open.shift(); next !== undefined; next = open.shift()) {
    const branch: Growing = { points: [], forks: [], isHead: false }
    next.into.push(branch)
    let at: Links | undefined = next.header
    while (at !== undefined) {
      branch.points.push(pointOf(at))
      branch.isHead = at.seq === head
      const following: ReadonlyArray<Links> = children.get(at.seq) ?? []
      if (following.length > 1) for (const header of following) open.push({ header, into: branch.forks })
      at = following.length === 1 ? following[0] : undefined
    }
  }
  return trees
}
