// Keeps the compiled better-sqlite3 where its installer looks before it downloads or compiles, so that a machine
// without access to the prebuilt binaries compiles it only once.
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, renameSync } from "node:fs"
import { createRequire } from "node:module"
import { basename, dirname, join } from "node:path"

const require = createRequire(import.meta.url)
const manifest = require.resolve("better-sqlite3/package.json")
const folder = dirname(manifest)
const requireFromSqlite = createRequire(manifest)
const util = requireFromSqlite("prebuild-install/util")
const pkg = JSON.parse(readFileSync(manifest, "utf8"))

const url = util.getDownloadUrl({
  pkg,
  platform: process.platform,
  arch: process.arch,
  abi: process.versions.modules,
  runtime: "node",
  libc: "",
  "tag-prefix": "v"
})
const cached = util.cachedPrebuild(url)
const binary = "build/Release/better_sqlite3.node"

if (existsSync(cached)) {
  console.log(`better-sqlite3: ${basename(cached)} is in the cache`)
} else if (existsSync(join(folder, binary))) {
  mkdirSync(dirname(cached), { recursive: true })
  const partial = `${cached}.${process.pid}`
  execFileSync("tar", ["czf", partial, "-C", folder, binary])
  renameSync(partial, cached)
  console.log(`better-sqlite3: put ${basename(cached)} into the cache`)
} else {
  console.log("better-sqlite3: nothing was compiled")
}
