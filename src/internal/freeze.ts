/**
 * Makes records and lists, and those inside them, unchangeable. Instances of classes are left alone: some keep caches in
 * themselves. What is frozen already counts as frozen to its depth.
 */
export const deepFreeze = <A>(value: A): A => {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value
  if (value instanceof Map) for (const item of value.values()) deepFreeze(item)
  else if (value instanceof Set) for (const item of value) deepFreeze(item)
  else if (isPlain(value)) {
    Object.freeze(value)
    for (const item of Object.values(value)) deepFreeze(item)
  }
  return value
}

const isPlain = (value: object): boolean => {
  const proto = Object.getPrototypeOf(value)
  return proto === Object.prototype || proto === Array.prototype || proto === null
}
