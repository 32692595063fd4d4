/** Conditions on items: plain values are compared, records field by field, operators by their rule. */

const OPERATORS: Readonly<Record<string, (value: unknown, operand: unknown) => boolean>> = {
  $eq: (value, operand) => equal(value, operand),
  $ne: (value, operand) => !equal(value, operand),
  $gt: (value, operand) => compare(value, operand, (a, b) => a > b),
  $gte: (value, operand) => compare(value, operand, (a, b) => a >= b),
  $lt: (value, operand) => compare(value, operand, (a, b) => a < b),
  $lte: (value, operand) => compare(value, operand, (a, b) => a <= b)
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const equal = (a: unknown, b: unknown): boolean => {
  if (a === b) return true
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, i) => equal(item, b[i]))
  if (!isRecord(a) || !isRecord(b)) return false
  const keys = Object.keys(a)
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && equal(a[key], b[key]))
}

/** Numbers with numbers, texts with texts; nothing else has an order. */
const compare = (value: unknown, operand: unknown, holds: (a: any, b: any) => boolean): boolean =>
  typeof value === typeof operand && (typeof value === "number" || typeof value === "string") && holds(value, operand)

const isOperation = (condition: unknown): condition is Readonly<Record<string, unknown>> =>
  isRecord(condition) && Object.keys(condition).some((key) => key.startsWith("$"))

/** What is wrong with a filter, if anything. */
export const filterProblem = (filter: unknown): string | undefined => {
  if (!isRecord(filter)) return Array.isArray(filter) ? filter.map(filterProblem).find(Boolean) : undefined
  const operators = Object.keys(filter).filter((key) => key.startsWith("$"))
  const unknown = operators.find((operator) => !Object.hasOwn(OPERATORS, operator))
  if (unknown !== undefined) return `"${unknown}" is no operator; there are ${Object.keys(OPERATORS).join(", ")}`
  if (operators.length > 0 && operators.length < Object.keys(filter).length) return "operators stand beside fields"
  return operators.length > 0 ? undefined : Object.values(filter).map(filterProblem).find(Boolean)
}

/** Whether a value meets a condition; a record meets one that names some of its fields. */
export const meets = (value: unknown, condition: unknown): boolean => {
  if (isOperation(condition)) {
    return Object.keys(condition).every((operator) => OPERATORS[operator]!(value, condition[operator]))
  }
  if (isRecord(condition)) {
    if (!isRecord(value)) return false
    const fieldOf = (key: string) => (Object.hasOwn(value, key) ? value[key] : undefined)
    return Object.keys(condition).every((key) => meets(fieldOf(key), condition[key]))
  }
  if (Array.isArray(condition)) {
    return (
      Array.isArray(value) && value.length === condition.length && condition.every((item, i) => meets(value[i], item))
    )
  }
  return equal(value, condition)
}

/** Texts at a path of a value: `$` is all of it, `a.b[0]` and `a[*].b` lead into it. */
export const textsAt = (value: unknown, path: string): ReadonlyArray<string> => {
  if (path === "$") return [JSON.stringify(value)]
  let found: ReadonlyArray<unknown> = [value]
  for (const step of path.replace(/\[/g, ".[").split(".")) {
    if (step === "") continue
    found = found.flatMap((one) => into(one, step))
  }
  return found
    .filter((one) => one !== undefined && one !== null)
    .map((one) => (typeof one === "string" ? one : JSON.stringify(one)))
}

const into = (value: unknown, step: string): ReadonlyArray<unknown> => {
  if (step === "[*]") return Array.isArray(value) ? value : []
  const index = /^\[(\d+)\]$/.exec(step)?.[1]
  if (index !== undefined) return Array.isArray(value) && Number(index) < value.length ? [value[Number(index)]] : []
  return isRecord(value) && Object.hasOwn(value, step) ? [value[step]] : []
}

/** The cosine of the angle between two vectors; 0 where one has no direction. */
export const similarity = (a: ReadonlyArray<number>, b: ReadonlyArray<number>): number => {
  let [dot, ofA, ofB] = [0, 0, 0]
  for (let i = 0; i < a.length; i++) {
    const [x, y] = [a[i]!, b[i] ?? 0]
    dot += x * y
    ofA += x * x
    ofB += y * y
  }
  return ofA === 0 || ofB === 0 ? 0 : dot / Math.sqrt(ofA * ofB)
}
