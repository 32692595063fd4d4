/**
 * Results of a task's activities: those that were saved by earlier attempts, and those that this one adds.
 *
 * A call is known by where it was made, its activity, its input and how often that input was passed before; so calls
 * that run side by side are found again in whatever order they come.
 */
import type { Json } from "./Checkpoint.js"

/** A saved call of an activity. */
export interface SavedCall {
  /** The call within which it was made; absent where the node itself made it. */
  readonly scope?: string | undefined
  readonly name: string
  readonly hash: string
  /** Calls of the activity with this input before this one. */
  readonly occurrence: number
  /** Calls of the activity before this one, of any input; `-1` for calls on fibers of their own, which have no order. */
  readonly ordinal: number
  readonly failed: boolean
  readonly value: Json
}

const NUL = "\u0000"

const placeOf = (scope: string | undefined, name: string) => `${scope ?? ""}${NUL}${name}`

/** Saved calls of one task. */
export class SavedCalls {
  private readonly calls = new Map<string, SavedCall>()
  private readonly ordered = new Map<string, SavedCall>()
  private readonly claimed = new Set<SavedCall>()
  /** Activities of which this attempt has made calls that were not saved. */
  private readonly fresh = new Set<string>()

  constructor(calls: Iterable<SavedCall>) {
    for (const call of calls) this.add(call)
  }

  private add(call: SavedCall): void {
    const place = placeOf(call.scope, call.name)
    this.calls.set(`${place}${NUL}${call.hash}${NUL}${call.occurrence}`, call)
    if (call.ordinal >= 0) this.ordered.set(`${place}${NUL}${call.ordinal}`, call)
  }

  /** All of them, in the order they were saved. */
  all(): Iterable<SavedCall> {
    return this.calls.values()
  }

  /** The result of this very call. */
  claim(scope: string, name: string, hash: string, occurrence: number): SavedCall | undefined {
    const call = this.calls.get(`${placeOf(scope, name)}${NUL}${hash}${NUL}${occurrence}`)
    if (call !== undefined) this.claimed.add(call)
    return call
  }

  /** Tells whether another input was passed at this place before. */
  diverges(scope: string, name: string, ordinal: number): boolean {
    const call = this.ordered.get(`${placeOf(scope, name)}${NUL}${ordinal}`)
    return call !== undefined && !this.claimed.has(call)
  }

  /** Adds the result of a call that this attempt has made. */
  remember(call: SavedCall): void {
    this.add(call)
    this.claimed.add(call)
    this.fresh.add(placeOf(call.scope, call.name))
  }

  /** Starts another attempt: nothing has been asked for yet. */
  restart(): void {
    this.claimed.clear()
    this.fresh.clear()
  }

  /**
   * A saved call that was not asked for, although other calls of its activity were made in the same place: the replay
   * passed another input. Calls on fibers of their own show it only here, at the task's end.
   */
  get replaced(): SavedCall | undefined {
    if (this.fresh.size === 0) return undefined
    for (const call of this.calls.values()) {
      if (!this.claimed.has(call) && this.fresh.has(placeOf(call.scope, call.name))) return call
    }
    return undefined
  }
}
