// Runs all checks, or those named: npm run check -- lint floors
import { spawnSync } from "node:child_process"
import { delimiter, join } from "node:path"
import { root } from "./sources.mjs"

const checks = {
  types: ["tsc", "-b"], // src, tests with the type tests, examples, benchmarks
  lint: ["biome", "check", "--error-on-warnings"],
  effect: ["effect-language-service", "diagnostics", "--project", "tsconfig.src.json", "--severity", "error,warning"],
  floors: ["node", "scripts/floors.mjs"],
  docs: ["node", "scripts/doc-examples.mjs"],
  speed: ["node", "scripts/type-speed.mjs"],
  package: ["node", "scripts/package.mjs"]
}

const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(checks)
const unknown = names.filter((name) => !(name in checks))
if (unknown.length > 0) {
  console.error(`no such check: ${unknown.join(", ")}; there are ${Object.keys(checks).join(", ")}`)
  process.exit(2)
}

const env = { ...process.env, PATH: `${join(root, "node_modules/.bin")}${delimiter}${process.env.PATH}` }
const alwaysShown = ["effect", "floors", "speed"] // their warnings and remarks do not fail
const failed = []
for (const name of names) {
  const [command, ...parameters] = checks[name]
  const start = performance.now()
  const result = spawnSync(command, parameters, { cwd: root, env, encoding: "utf8", maxBuffer: 1 << 28 })
  const seconds = ((performance.now() - start) / 1000).toFixed(1)
  const output = `${result.stdout ?? ""}${result.stderr ?? ""}${result.error ?? ""}`.trim()
  const good = result.status === 0
  if (!good) failed.push(name)
  console.log(`${good ? "ok    " : "FAILED"} ${name.padEnd(8)} ${seconds.padStart(5)} s`)
  if (output !== "" && (!good || alwaysShown.includes(name))) console.log(output.replace(/^/gm, "    "))
}
if (failed.length > 0) {
  console.error(`failed: ${failed.join(", ")}`)
  process.exitCode = 1
}
