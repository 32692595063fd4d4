/** Medians, and the exponent of a cost that grows with size. */

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.slice().sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** The exponent `k` of the best fit `y = a x^k`: 0 is flat, 1 linear, 2 quadratic. */
export const exponent = (points: ReadonlyArray<readonly [number, number]>): number | undefined => {
  const logs = points.filter(([x, y]) => x > 0 && y > 0).map(([x, y]) => [Math.log(x), Math.log(y)] as const)
  if (logs.length < 2) return undefined
  const meanX = logs.reduce((sum, [x]) => sum + x, 0) / logs.length
  const meanY = logs.reduce((sum, [, y]) => sum + y, 0) / logs.length
  const above = logs.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0)
  const below = logs.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0)
  return below === 0 ? undefined : above / below
}

/** A number with about three digits that count. */
export const short = (value: number | undefined): string => {
  if (value === undefined || Number.isNaN(value)) return ""
  if (value === 0) return "0"
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))))
  return value.toLocaleString("en-US", { minimumFractionDigits: 0, maximumFractionDigits: Math.min(digits, 3) })
}
