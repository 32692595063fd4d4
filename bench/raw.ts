/** The limit of saving: what a step costs that only writes what it must. */
import { newFile, RawLog, type Synchronous } from "./sqlite.js"
import type { Kind, Place, Session } from "./workload.js"

/** Runs `body` with a function that saves a text: nowhere, in an array, or in a row with its own transaction. */
export const rawSession = (
  kind: Kind,
  { directory }: Place,
  body: (save: (value: unknown) => void) => void | Promise<void>,
  synchronous: Synchronous = "normal"
): Session => {
  if (kind === "none") return { run: async () => body(() => {}) }
  if (kind === "memory") {
    return {
      run: async () => {
        const log: Array<string> = []
        await body((value) => log.push(JSON.stringify(value)))
      }
    }
  }
  let log!: RawLog
  return {
    before: async () => {
      log = new RawLog(newFile(directory), synchronous)
    },
    run: async () => body((value) => log.add(JSON.stringify(value))),
    after: async () => log.close()
  }
}
