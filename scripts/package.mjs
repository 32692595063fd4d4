// Checks the package as a user gets it: packs it, runs publint and attw on the archive, and imports the root of it in
// a folder where only `effect` is installed.
import { execFileSync, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { publicModules, root } from "./sources.mjs"

const packs = join(root, ".tsbuild/package")
const run = (command, parameters, options = {}) => {
  const result = spawnSync(command, parameters, { cwd: root, encoding: "utf8", ...options })
  if (result.error) throw result.error
  if (result.status === 0) return
  console.error(`${command} ${parameters.join(" ")}\n${result.stdout}${result.stderr}`)
  process.exitCode = 1
}

rmSync(packs, { recursive: true, force: true })
mkdirSync(packs, { recursive: true })
const packed = execFileSync("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", packs], {
  cwd: root,
  encoding: "utf8",
  stdio: ["ignore", "pipe", "pipe"]
})
const [{ filename, files, size }] = JSON.parse(packed)
const archive = join(packs, filename)
const entries = [".", ...publicModules().map((name) => `./${name}`)]

const wanted = ["README.md", "LICENSE", "CHANGELOG.md", "dist/index.js", "dist/index.d.ts", "src/index.ts"]
for (const path of wanted.filter((path) => !files.some((file) => file.path === path))) {
  console.error(`the package lacks ${path}`)
  process.exitCode = 1
}

run("publint", ["run", archive, "--strict"])
run("attw", [archive, "--profile", "esm-only", "--no-emoji", "--include-entrypoints", ...entries.slice(1)])

const consumer = mkdtempSync(join(tmpdir(), "effect-pregel-consumer-"))
try {
  const modules = join(consumer, "node_modules")
  mkdirSync(join(modules, "effect-pregel"), { recursive: true })
  execFileSync("tar", ["xzf", archive, "-C", join(modules, "effect-pregel"), "--strip-components", "1"])
  symlinkSync(join(root, "node_modules/effect"), join(modules, "effect"), "junction")
  writeFileSync(
    join(consumer, "root.mjs"),
    'import * as root from "effect-pregel"\nconsole.log(Object.keys(root).length)\n'
  )
  run(process.execPath, ["root.mjs"], { cwd: consumer })
} finally {
  rmSync(consumer, { recursive: true, force: true })
}
console.log(`${filename}: ${Math.round(size / 1024)} kB, ${files.length} files, ${entries.length} entry points`)
