/**
 * JSON that is faithful or refuses: nothing turns into `null` or disappears on the way.
 *
 * `JSON.stringify` silently rewrites `NaN`, `undefined` in arrays, `BigInt`, `Date`, `Map`, class instances and `-0`.
 * Here a value that `JSON.parse` would not give back is an error that names its path; `-0` is written as `-0`.
 * A property whose value is `undefined` counts as absent.
 */

/** Where and why a value can't be JSON. */
export class NotJson extends Error {
  constructor(
    readonly path: string,
    readonly detail: string
  ) {
    super(path === "" ? detail : `${detail} at ${path}`)
  }
}

/** Finds what `JSON.stringify` would change; true when a plain `JSON.stringify` is exact. */
const check = (value: unknown, path: string, depth: number): boolean => {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true
    case "number":
      if (!Number.isFinite(value)) throw new NotJson(path, `${value} is no JSON number`)
      return !Object.is(value, -0)
    case "object":
      return value === null ? true : checkObject(value, path, depth)
    default:
      throw new NotJson(path, `a ${typeof value} is no JSON value`)
  }
}

const MAX_DEPTH = 2000

const checkObject = (value: object, path: string, depth: number): boolean => {
  if (depth > MAX_DEPTH) throw new NotJson(`${path.slice(0, 80)}...`, "the value is circular or nested too deeply")
  let exact = true
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      if (!check(value[i], `${path}[${i}]`, depth + 1)) exact = false
    }
    return exact
  }
  const proto = Object.getPrototypeOf(value)
  if (proto !== Object.prototype && proto !== null) {
    throw new NotJson(path, `an instance of ${proto.constructor?.name ?? "a class"} is no JSON value`)
  }
  if (typeof (value as { toJSON?: unknown }).toJSON === "function") throw new NotJson(path, "toJSON is not allowed")
  for (const key of Object.keys(value)) {
    const item = (value as Record<string, unknown>)[key]
    if (item !== undefined && !check(item, path === "" ? key : `${path}.${key}`, depth + 1)) exact = false
  }
  return exact
}

const write = (value: unknown): string => {
  if (typeof value === "number") return Object.is(value, -0) ? "-0" : String(value)
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`
  const members = Object.keys(value)
    .filter((key) => (value as Record<string, unknown>)[key] !== undefined)
    .map((key) => `${JSON.stringify(key)}:${write((value as Record<string, unknown>)[key])}`)
  return `{${members.join(",")}}`
}

/** The JSON text of a value; throws `NotJson`. */
export const stringify = (value: unknown): string => {
  if (typeof value === "string") return JSON.stringify(value)
  return check(value, "", 0) ? JSON.stringify(value) : write(value)
}

/** The JSON text of a value; none of what is no JSON value. */
export const textOrNone = (value: unknown): string | undefined => {
  try {
    return stringify(value ?? null)
  } catch (error) {
    if (error instanceof NotJson) return undefined
    throw error
  }
}
