/**
 * How far the audit is: one line that is written over on a terminal, a line now and then elsewhere.
 */
import { Effect } from "effect"

const BAR = 30
const CLEAR_LINE = "\r\u001b[2K"

export interface Progress {
  /** Shows how many of all are done. */
  readonly show: (done: number) => Effect.Effect<void>
  /** Leaves the line to what is printed next. */
  readonly end: Effect.Effect<void>
}

const onTerminal = (total: number, write: (text: string) => void): Progress => ({
  show: (done) =>
    Effect.sync(() => {
      const full = Math.round((done / total) * BAR)
      write(`${CLEAR_LINE}  [${"#".repeat(full)}${".".repeat(BAR - full)}] ${done} of ${total} packages`)
    }),
  end: Effect.sync(() => write(CLEAR_LINE))
})

const inLines = (total: number, write: (text: string) => void): Progress => {
  let tenths = -1
  return {
    show: (done) =>
      Effect.sync(() => {
        const now = Math.floor((done / total) * 10)
        if (now === tenths) return
        tenths = now
        write(`  ${String(done).padStart(String(total).length)} of ${total} packages\n`)
      }),
    end: Effect.void
  }
}

export const makeProgress = (total: number): Progress =>
  (process.stdout.isTTY ? onTerminal : inLines)(total, (text) => process.stdout.write(text))
