/**
 * The written format: a commit becomes one row of text, rows fold back to a checkpoint. Pure functions; `docs/storage.md`
 * describes the texts.
 *
 * A row is whole or holds only what changed. It is written whole as soon as that takes no more room than the changes
 * since the last whole row, so the texts of a thread grow with its changes and no checkpoint needs more than about
 * three times its own size to be read.
 *
 * Rows that were appended one after the other, each on the one before, form a run. A run is a range of numbers, and a
 * branch is a list of ranges: its items are read by range scans although many branches share one table.
 */
import type { Change, PendingWrite, Source } from "../Checkpoint.js"
import type { Commit, WholeEntry } from "../Checkpointer.js"

/** The format that this version writes. */
export const FORMAT = 1

/** Ranges one row lists before it points to another row for the rest. */
const BLOCK = 32

/** Inclusive numbers of rows. */
export type Range = readonly [from: number, to: number]

/** The runs before a run, oldest first; `block` is the start of a run that knows the ones before, `0` if none are. */
export interface Ancestry {
  readonly block: number
  readonly ranges: ReadonlyArray<Range>
}

/** No run before. */
export const ROOT: Ancestry = { block: 0, ranges: [] }

/** What a row shares with its parent unless it says otherwise. */
export interface Inherited {
  readonly graph: number
  /** JSON texts. */
  readonly seen: string
  readonly parents: string
  readonly metadata: string
}

/** What a writer remembers of the branch it extends. */
export interface Line extends Inherited {
  readonly seq: number
  readonly created: number
  /** First row of the run; `0` for the first run of a namespace. */
  readonly run: number
  readonly before: Ancestry
  /** The last whole row. */
  readonly base: number
  /** Length of the state as far as it is known. */
  readonly size: number
  /** Length of the rows after the last whole one. */
  readonly since: number
  /** First row of each append channel's items. */
  readonly starts: ReadonlyMap<string, number>
}

/** A row as it is stored. */
export interface Texts {
  readonly log: string | null
  readonly data: string
}

export class RecordError extends Error {
  readonly channel: string | undefined
  constructor(detail: string, channel?: string) {
    super(detail)
    this.channel = channel
  }
}

// -----------------------------------------------------------------------------
// Seals
// -----------------------------------------------------------------------------

/**
 * A checksum of 32 bits over a part of a text; every change of a single character changes it. Two halves are computed
 * side by side, as one would wait for each of its multiplications.
 */
export const checksum = (text: string, seed: number, from = 0, to = text.length): number => {
  let a = (seed ^ 0x811c9dc5) | 0
  let b = (seed ^ 0x2545f491) | 0
  let i = from
  for (const last = to - 3; i < last; i += 4) {
    a = Math.imul(a ^ (text.charCodeAt(i) | (text.charCodeAt(i + 1) << 16)), 0x85ebca6b)
    b = Math.imul(b ^ (text.charCodeAt(i + 2) | (text.charCodeAt(i + 3) << 16)), 0xc2b2ae35)
    a ^= a >>> 15
    b ^= b >>> 15
  }
  for (; i < to; i++) a = Math.imul(a ^ text.charCodeAt(i), 0x85ebca6b)
  a ^= (b << 16) | (b >>> 16)
  a ^= a >>> 13
  return a >>> 0
}

/** A text with its checksum in front. */
export const seal = (body: string, seq: number): string => `[${checksum(body, seq)},${body}]`

/** The parsed text, its checksum in front, after checking it. */
export const unseal = (text: string, seq: number): Array<any> => {
  const comma = text.indexOf(",")
  const end = text.length - 1
  if (comma < 2 || comma > 11 || text.charCodeAt(0) !== 91 || text.charCodeAt(end) !== 93) {
    throw new RecordError(`row ${seq} is no record`)
  }
  if (text.slice(1, comma) !== String(checksum(text, seq, comma + 1, end))) {
    throw new RecordError(`the checksum of row ${seq} is wrong`)
  }
  return JSON.parse(text)
}

/** The stored text of a pending write's value. */
export const sealWrite = (write: PendingWrite, seq: number): string =>
  `${checksum(`${write.task}\n${write.channel}\n${write.index}\n${write.path}\n${write.value}`, seq).toString(36)}:${write.value}`

/** The value of a stored pending write. */
export const unsealWrite = (write: PendingWrite, seq: number): PendingWrite => {
  const colon = write.value.indexOf(":")
  const plain = { ...write, value: write.value.slice(colon + 1) }
  if (colon < 1 || sealWrite(plain, seq) !== write.value) {
    throw new RecordError(
      `the checksum of a pending write of task "${write.task}" at row ${seq} is wrong`,
      write.channel
    )
  }
  return plain
}

// -----------------------------------------------------------------------------
// Encoding
// -----------------------------------------------------------------------------

/** Sources by the number a row holds. */
export const SOURCES: ReadonlyArray<Source> = ["loop", "input", "update", "fork"]

/** Room that the fields of a row take besides names and values. */
const ROW_ROOM = 64

/** What a commit writes and how its branch goes on. */
export interface Encoded extends Texts {
  readonly line: Line
}

const quoted = new Map<string, string>()

/** The JSON text of a name. Names of channels and nodes come back in every row. */
const quote = (name: string): string => {
  const known = quoted.get(name)
  if (known !== undefined) return known
  if (quoted.size >= 1000) quoted.clear()
  const text = JSON.stringify(name)
  quoted.set(name, text)
  return text
}

const quoteAll = (names: ReadonlyArray<string>): string => {
  let text = ""
  for (const name of names) text += `${text && ","}${quote(name)}`
  return text
}

const pair = (name: string, text: string): string => `${quote(name)},${text}`

/** Collects the channels of a row by version: those of the newest need not repeat it. */
class Channels {
  private current = ""
  private undef = ""
  private lists = ""
  private readonly others = new Map<number, string>()
  /** Channels of the newest version in the order of the row. */
  readonly names: Array<string> = []
  constructor(private readonly version: number) {}

  set(name: string, version: number, text: string | undefined) {
    if (text === undefined) this.undef += `${this.undef && ","}${quote(name)},${version}`
    else if (version === this.version) {
      this.current += `${this.current && ","}${pair(name, text)}`
      this.names.push(name)
    } else this.others.set(version, `${this.others.get(version) ?? version},${pair(name, text)}`)
  }

  list(name: string, version: number, start: number, length: number) {
    const tail = version === this.version ? "" : `,${version}`
    this.lists += `${this.lists && ","}[${quote(name)},${start},${length}${tail}]`
  }

  get text(): string {
    let text = ""
    if (this.current !== "") text += `,"c":[${this.current}]`
    if (this.others.size > 0) {
      let groups = ""
      for (const group of this.others.values()) groups += `${groups && ","}[${group}]`
      text += `,"o":[${groups}]`
    }
    if (this.undef !== "") text += `,"u":[${this.undef}]`
    if (this.lists !== "") text += `,"l":[${this.lists}]`
    return text
  }
}

/** A task that wrote exactly the row's newest values costs its name; others name what they wrote. */
const resultsText = (commit: Commit, names: ReadonlyArray<string>): string => {
  let text = ""
  for (const { task, writes } of commit.results) {
    let entry = JSON.stringify(task)
    const all =
      names.length > 0 &&
      writes.length === names.length &&
      writes.every(([channel, value], i) => value === undefined && channel === names[i])
    if (!all) {
      for (const [channel, value] of writes) {
        entry += value === undefined ? `,${quote(channel)}` : `,[${pair(channel, value)}]`
      }
      entry = `[${entry}]`
    }
    text += `${text && ","}${entry}`
  }
  return text === "" ? "" : `,"w":[${text}]`
}

const changedText = (commit: Commit, starts: ReadonlyMap<string, number>): string => {
  const channels = new Channels(commit.version)
  let dropped = ""
  for (const change of commit.changes) {
    if (change._tag === "Set") channels.set(change.channel, change.version, change.text)
    else if (change._tag === "Append") {
      channels.list(change.channel, change.version, starts.get(change.channel) ?? commit.seq, change.length)
    } else dropped += `${dropped && ","}${quote(change.channel)}`
  }
  const text = `${channels.text}${resultsText(commit, channels.names)}`
  return dropped === "" ? text : `${text},"x":[${dropped}]`
}

const wholeText = (commit: Commit, entries: ReadonlyArray<WholeEntry>, starts: ReadonlyMap<string, number>): string => {
  const channels = new Channels(commit.version)
  for (const entry of entries) {
    if (!entry.append) channels.set(entry.channel, entry.version, entry.text)
    else channels.list(entry.channel, entry.version, starts.get(entry.channel) ?? commit.seq, entry.length)
  }
  return `${channels.text}${resultsText(commit, channels.names)}`
}

/** Where every append channel's items begin after the commit. */
const nextStarts = (commit: Commit, starts: ReadonlyMap<string, number>): ReadonlyMap<string, number> => {
  let next: Map<string, number> | undefined
  for (const change of commit.changes) {
    const start = starts.get(change.channel)
    if (change._tag === "Append" ? change.reset || start === undefined : start !== undefined) {
      next ??= new Map(starts)
      if (change._tag === "Append") next.set(change.channel, commit.seq)
      else next.delete(change.channel)
    }
  }
  return next ?? starts
}

const logText = (commit: Commit): string | null => {
  let text = ""
  for (const change of commit.changes) {
    if (change._tag === "Append" && change.items.length > 0) {
      text += `${text && ","}${pair(change.channel, `[${change.items.join(",")}]`)}`
    }
  }
  return text === "" ? null : seal(text, commit.seq)
}

const seenText = (seen: Commit["seen"]): string => (seen.length === 0 ? "" : JSON.stringify(seen.flat()))

const recordText = (record: Readonly<Record<string, unknown>>): string => {
  let text = ""
  for (const key of Object.keys(record).sort()) {
    const value = JSON.stringify(record[key])
    if (value !== undefined) text += `${text === "" ? "[" : ","}${pair(key, value)}`
  }
  return text === "" ? "" : `${text}]`
}

/** The position of a new row on its branch. */
const placeOf = (commit: Commit, line: Line | undefined): { run: number; before: Ancestry; starts: boolean } => {
  if (line === undefined) {
    return commit.expectedHead === 0
      ? { run: 0, before: ROOT, starts: false }
      : { run: commit.seq, before: ROOT, starts: true }
  }
  if (line.seq === commit.expectedHead) return { run: line.run, before: line.before, starts: false }
  const last: Range = [line.run, line.seq]
  const before =
    line.before.ranges.length < BLOCK
      ? { block: line.before.block, ranges: [...line.before.ranges, last] }
      : { block: line.run, ranges: [last] }
  return { run: commit.seq, before, starts: true }
}

/** Whether the nodes that ran are told by the results. */
const sameNames = (ran: Commit["ran"], results: Commit["results"]): boolean =>
  ran.length === results.length && ran.every((name, i) => results[i]!.task === name)

/** Fields that every row has, whole or not. */
const headText = (commit: Commit, place: ReturnType<typeof placeOf>): string => {
  let text = ""
  if (commit.parent !== undefined && commit.parent.seq !== commit.seq - 1) text += `,"p":${commit.parent.seq}`
  if (commit.step !== commit.seq - 2) text += `,"s":${commit.step}`
  if (commit.source !== "loop") text += `,"k":${SOURCES.indexOf(commit.source)}`
  if (commit.version !== commit.seq) text += `,"v":${commit.version}`
  if (commit.resumedAt !== 0) text += `,"z":${commit.resumedAt}`
  if (place.starts) text += `,"a":[${place.before.block},${place.before.ranges.flat().join(",")}]`.replace(",]", "]")
  else if (place.run !== 0) text += `,"r":${place.run}`
  if (!sameNames(commit.ran, commit.results)) text += `,"n":[${quoteAll(commit.ran)}]`
  return text
}

const roomOf = (changes: ReadonlyArray<Change>): number => {
  let room = ROW_ROOM
  for (const change of changes) {
    room += change.channel.length + (change._tag === "Set" ? (change.text?.length ?? 4) + 4 : 20)
  }
  return room
}

const dataText = (commit: Commit, line: Line | undefined, fields: string): string => {
  const elapsed = line === undefined ? "null" : String(commit.created - line.created)
  return seal(`${FORMAT},${commit.created},${elapsed},{${fields.slice(1)}}`, commit.seq)
}

const NO_STARTS: ReadonlyMap<string, number> = new Map()

/** What differs from the parent's row; a whole row is compared with the usual: graph 1 and nothing else. */
const inheritedText = ({ graph, metadata, parents, seen }: Inherited, line: Inherited | undefined): string => {
  let text = ""
  if (graph !== (line?.graph ?? 1)) text += `,"g":${graph}`
  if (seen !== (line?.seen ?? "")) text += `,"e":${seen || "[]"}`
  if (parents !== (line?.parents ?? "")) text += `,"q":${parents || "[]"}`
  if (metadata !== (line?.metadata ?? "")) text += `,"m":${metadata || "[]"}`
  return text
}

/** The row of a commit. `line` is the parent's, `graph` the number of the commit's graph. */
export const encode = (commit: Commit, line: Line | undefined, graph: number): Encoded => {
  const place = placeOf(commit, line)
  const starts = nextStarts(commit, line?.starts ?? NO_STARTS)
  const head = headText(commit, place)
  const seen = seenText(commit.seen)
  const parents = recordText(commit.parents)
  const metadata = recordText(commit.metadata)
  const inherited = { graph, seen, parents, metadata }
  // Written out: a spread of so many fields costs more than the rest of this function.
  const lineOf = (base: number, size: number, since: number): Line => ({
    seq: commit.seq,
    created: commit.created,
    run: place.run,
    before: place.before,
    base,
    size,
    since,
    starts,
    graph,
    seen,
    parents,
    metadata
  })
  const log = logText(commit)
  const since = (line?.since ?? 0) + roomOf(commit.changes) + head.length
  let size = line?.size ?? 0
  if (line === undefined || since >= size) {
    const fields = head + inheritedText(inherited, undefined) + wholeText(commit, commit.whole(), starts)
    size = fields.length
    if (line === undefined || size <= since) {
      return { log, data: dataText(commit, line, fields), line: lineOf(commit.seq, size, 0) }
    }
  }
  const fields = `${head},"b":${line.base}${inheritedText(inherited, line)}${changedText(commit, starts)}`
  return { log, data: dataText(commit, line, fields), line: lineOf(line.base, size, line.since + fields.length) }
}

// -----------------------------------------------------------------------------
// Names
// -----------------------------------------------------------------------------

const ESCAPE = "\ue000"
const UNUSUAL = /[^ -~]/
const UNSAFE = /[\p{Cc}\p{Cs}\ue000]/gu
const ESCAPED = /\ue000([0-9a-f]{4})/g

/** A name that every storage takes and tells apart: control characters and lone surrogates are written in digits. */
export const encodeName = (name: string): string =>
  !UNUSUAL.test(name)
    ? name
    : name.replace(UNSAFE, (unit) => `${ESCAPE}${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)

/** The name that was encoded. */
export const decodeName = (text: string): string =>
  text.includes(ESCAPE) ? text.replace(ESCAPED, (_, code) => String.fromCharCode(Number.parseInt(code, 16))) : text
