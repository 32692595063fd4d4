/** Files and raw SQLite for sessions. */
import { existsSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import Database from "better-sqlite3"

export type Synchronous = "normal" | "full"

let files = 0

/** A new file name in a directory. */
export const newFile = (directory: string): string => join(directory, `${process.pid}-${files++}.db`)

/** Size of a database after its log was written back, and no file left. */
export const removeFile = (file: string): number | undefined => {
  if (!existsSync(file)) return undefined
  const db = new Database(file)
  db.pragma("wal_checkpoint(TRUNCATE)")
  db.close()
  const { size } = statSync(file)
  for (const end of ["", "-wal", "-shm"]) rmSync(file + end, { force: true })
  return size
}

/** A database as the engines open it. */
export const openDatabase = (file: string, synchronous: Synchronous): Database.Database => {
  const db = new Database(file)
  db.pragma("journal_mode = WAL")
  db.pragma(`synchronous = ${synchronous === "full" ? "FULL" : "NORMAL"}`)
  return db
}

/** The raw limit of a durable step: one row in a transaction of its own. */
export class RawLog {
  readonly db: Database.Database
  private readonly insert: Database.Statement
  private readonly last: Database.Statement
  private readonly every: Database.Statement
  constructor(
    readonly file: string,
    synchronous: Synchronous
  ) {
    this.db = openDatabase(file, synchronous)
    this.db.exec("CREATE TABLE log (seq INTEGER PRIMARY KEY, value TEXT NOT NULL)")
    this.insert = this.db.prepare("INSERT INTO log (value) VALUES (?)")
    this.last = this.db.prepare("SELECT value FROM log ORDER BY seq DESC LIMIT 1").pluck()
    this.every = this.db.prepare("SELECT value FROM log ORDER BY seq DESC").pluck()
  }
  add(text: string): void {
    this.insert.run(text)
  }
  latest(): string {
    return this.last.get() as string
  }
  all(): ReadonlyArray<string> {
    return this.every.all() as Array<string>
  }
  close(): number | undefined {
    this.db.close()
    return removeFile(this.file)
  }
}
