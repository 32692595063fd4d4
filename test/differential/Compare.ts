/** Where two traces differ. */
import type { Trace } from "./Trace.js"

/** One difference: a path into the trace and what both engines show there. */
export interface Difference {
  readonly where: string
  readonly ours: unknown
  readonly theirs: unknown
}

const text = (value: unknown): string =>
  JSON.stringify(value, (_, v) =>
    v !== null && typeof v === "object" && !Array.isArray(v)
      ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1)))
      : v
  ) ?? "undefined"

const compareList = (
  where: string,
  ours: ReadonlyArray<any>,
  theirs: ReadonlyArray<any>,
  into: Array<Difference>
): void => {
  const length = Math.max(ours.length, theirs.length)
  for (let i = 0; i < length; i++) {
    const [a, b] = [ours[i], theirs[i]]
    if (text(a) === text(b)) continue
    if (a === undefined || b === undefined || typeof a !== "object") {
      into.push({ where: `${where}[${i}]`, ours: a, theirs: b })
      continue
    }
    for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
      if (text(a[key]) !== text(b[key])) into.push({ where: `${where}[${i}].${key}`, ours: a[key], theirs: b[key] })
    }
  }
}

/** Every difference between two traces. */
export const compare = (ours: Trace, theirs: Trace): ReadonlyArray<Difference> => {
  const differences: Array<Difference> = []
  compareList("calls", ours.calls, theirs.calls, differences)
  compareList("history", ours.history, theirs.history, differences)
  compareList("steps", ours.steps, theirs.steps, differences)
  return differences
}

export const same = (ours: Trace, theirs: Trace): boolean => compare(ours, theirs).length === 0
