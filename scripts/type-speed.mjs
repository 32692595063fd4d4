// How long the compiler needs for large graphs: npm run check -- speed
//
// A generated graph of 100 nodes and 100 edges in one chain of calls must cost less than two seconds of check time
// beyond what importing the library costs. `node scripts/type-speed.mjs --all` also measures 300 nodes, in one chain and
// cut into constants as the documentation of `Graph.make` says. The declarations are those of `npm run build`.
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import { availableParallelism, loadavg } from "node:os"
import { join } from "node:path"
import { root } from "./sources.mjs"

const folder = join(root, ".tsbuild/type-speed")
const limits = { seconds: 2, instantiations: 150_000 }

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

/** What one run of the compiler needs for a program: seconds of check time, and instantiations. */
const measure = (name, text) => {
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
  const { status, stdout } = spawnSync(process.execPath, [tsc, "-p", project, "--extendedDiagnostics"], {
    encoding: "utf8"
  })
  if (status !== 0) throw new Error(`the generated graph does not compile:\n${stdout}`)
  return { seconds: number(stdout, "Check time"), instantiations: number(stdout, "Instantiations") }
}

if (!existsSync(join(root, "dist/index.d.ts"))) throw new Error("there is no dist: npm run build")
rmSync(folder, { recursive: true, force: true })
const base = measure("import", program(0, 1000))

/** Measures a graph; again, while a busy machine makes it look slow. */
const beyondImport = (nodes, chunk) => {
  let seconds = Number.POSITIVE_INFINITY
  let instantiations = 0
  for (let round = 0; round < 4 && seconds >= limits.seconds; round++) {
    const large = measure(`nodes-${nodes}-${chunk}`, program(nodes, chunk))
    seconds = Math.min(seconds, large.seconds - base.seconds)
    instantiations = large.instantiations - base.instantiations
  }
  const shape = chunk > nodes * 2 ? "in one chain" : `in constants of ${chunk} calls`
  console.log(`${nodes} nodes ${shape}: ${seconds.toFixed(2)} s, ${instantiations} instantiations beyond the import`)
  return { seconds, instantiations }
}

const { seconds, instantiations } = beyondImport(100, 1000)
if (process.argv.includes("--all")) {
  beyondImport(300, 50)
  beyondImport(300, 1000)
}
// Times say nothing while other work takes the processors; the number of instantiations always does.
const isBusy = loadavg()[0] > availableParallelism()
if (isBusy && seconds >= limits.seconds)
  console.log(`the machine is busy (load ${loadavg()[0]}): the time does not count`)
if ((!isBusy && seconds >= limits.seconds) || instantiations >= limits.instantiations) {
  console.error(`100 nodes may cost ${limits.seconds} s and ${limits.instantiations} instantiations at most`)
  process.exitCode = 1
}
