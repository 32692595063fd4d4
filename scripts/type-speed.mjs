// How long the compiler needs for large graphs: npm run check -- speed
//
// A generated graph of 100 nodes and 100 edges in one chain of calls must cost less than two seconds of check time
// beyond what importing the library costs; 300 nodes are cut into constants of 50 calls, as the documentation of
// `Graph.make` says. The library's declarations are those of `npm run build`.
import { spawnSync } from "node:child_process"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "./sources.mjs"

const folder = join(root, ".tsbuild/type-speed")
const limitSeconds = 2

const head = `import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Channel, Graph } from "effect-pregel"

class Failure extends Schema.TaggedError<Failure>()("Failure", {}) {}
class Service extends Context.Tag("Service")<Service, { readonly get: (n: number) => Effect.Effect<string, Failure> }>() {}
export const use = Effect.flatMap(Service, (service) => service.get(1))
const start = Graph.make("large", {
  count: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b }),
  log: Channel.append(Schema.String),
  last: Channel.lastValue(Schema.String)
}).addNode("n0", (state) => Effect.succeed({ count: state.count }))
`

/** A line of nodes, each with an effect of its own; every `chunk` calls begin a new constant. */
const program = (nodes, chunk) => {
  const calls = []
  for (let i = 1; i <= nodes; i++) {
    calls.push(`.addNode("n${i}", (state) => Effect.gen(function* () {
      const service = yield* Service
      return { count: state.count + 1, log: yield* service.get(${i}) }
    }))`)
  }
  calls.push(`.addEdge(Graph.START, "n0")`)
  for (let i = 1; i <= nodes; i++) calls.push(`.addEdge("n${i - 1}", "n${i}")`)
  const lines = [head]
  let last = "start"
  for (let i = 0; i < calls.length; i += chunk) {
    lines.push(`const part${i} = ${last}`, ...calls.slice(i, i + chunk))
    last = `part${i}`
  }
  lines.push(`export const graph = ${last}.compile()`)
  return `${lines.join("\n")}\n`
}

const number = (output, name) => Number(new RegExp(`^${name}:\\s+([\\d.]+)`, "m").exec(output)?.[1] ?? Number.NaN)

/** The least check time of some rounds in seconds, and the number of instantiations. */
const measure = (name, text, rounds) => {
  const project = join(folder, name)
  mkdirSync(project, { recursive: true })
  writeFileSync(join(project, "graph.ts"), text)
  writeFileSync(
    join(project, "tsconfig.json"),
    JSON.stringify({
      extends: "../../../tsconfig.base.json",
      compilerOptions: { noEmit: true, incremental: false, rootDir: "." },
      files: ["graph.ts"]
    })
  )
  const tsc = join(root, "node_modules/@typescript/native/bin/tsc")
  let seconds = Number.POSITIVE_INFINITY
  let instantiations = 0
  for (let round = 0; round < rounds; round++) {
    const { status, stdout } = spawnSync(process.execPath, [tsc, "-p", project, "--extendedDiagnostics"], {
      encoding: "utf8"
    })
    if (status !== 0) throw new Error(`the generated graph does not compile:\n${stdout}`)
    seconds = Math.min(seconds, number(stdout, "Check time"))
    instantiations = number(stdout, "Instantiations")
  }
  return { seconds, instantiations }
}

rmSync(folder, { recursive: true, force: true })
const base = measure("import", program(0, 1000), 2)
let failed = false
for (const [nodes, chunk] of process.argv.includes("--all")
  ? [
      [100, 1000],
      [300, 50],
      [300, 1000]
    ]
  : [[100, 1000]]) {
  const large = measure(`nodes-${nodes}-${chunk}`, program(nodes, chunk), 2)
  const seconds = large.seconds - base.seconds
  failed ||= !(seconds < limitSeconds) && nodes === 100
  console.log(
    `${nodes} nodes, ${chunk > nodes * 2 ? "one chain" : `constants of ${chunk} calls`}: ${seconds.toFixed(2)} s and ` +
      `${large.instantiations - base.instantiations} instantiations beyond the import`
  )
}
console.log(`the import: ${base.seconds.toFixed(2)} s, ${base.instantiations} instantiations`)
if (failed) {
  console.error(`100 nodes need more than ${limitSeconds} s`)
  process.exitCode = 1
}
