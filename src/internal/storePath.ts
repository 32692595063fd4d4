/**
 * Namespaces as one text: every segment is closed by a mark that no segment contains, so that what lies under a
 * namespace is one range of texts, exactly.
 */

const MARK = "\u0001"
const AFTER_MARK = "\u0002"
const ESCAPE = "\u0003"

// biome-ignore lint/suspicious/noControlCharactersInRegex: the marks are control characters, which texts may contain
const UNSAFE = /[\u0000-\u0003]|\p{Surrogate}/gu
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const ESCAPED = /\u0003([0-9a-f]{4})/g

/** A text without marks, NUL and halves of characters, which databases do not take. */
export const encodeText = (text: string): string =>
  text.replace(UNSAFE, (unit) => `${ESCAPE}${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)

/** The text that was encoded. */
export const decodeText = (text: string): string =>
  text.replace(ESCAPED, (_, code) => String.fromCharCode(Number.parseInt(code, 16)))

/** A namespace as a text. */
export const encodePath = (namespace: ReadonlyArray<string>): string =>
  `${MARK}${namespace.map((segment) => `${encodeText(segment)}${MARK}`).join("")}`

/** The namespace of a text. */
export const decodePath = (path: string): ReadonlyArray<string> => path.split(MARK).slice(1, -1).map(decodeText)

/** Paths of a namespace and everything below it: from the first, up to but without the second. */
export const rangeOf = (prefix: ReadonlyArray<string>): readonly [from: string, to: string] => {
  const path = encodePath(prefix)
  return [path, `${path.slice(0, -1)}${AFTER_MARK}`]
}
