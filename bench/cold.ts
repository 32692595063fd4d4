/** Starting: importing the engine in a new process, and making a graph of n nodes ready. */
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { expectEqual, type Open, OURS, RAW, THEIRS, type Workload } from "./workload.js"

const exec = promisify(execFile)

/** Runs a module in a new process; it prints what it measured. */
const timed =
  (source: string): Open =>
  async () => ({
    run: async () => {
      const { stdout } = await exec(process.execPath, ["--input-type=module", "-e", source], {
        cwd: new URL(".", import.meta.url)
      })
      return Number(stdout)
    }
  })

const importing = (module: string) =>
  timed(`const t = performance.now(); await import("${module}"); console.log(performance.now() - t)`)

const starting = (module: string) =>
  timed(`const t = performance.now()
    const { chainOf } = await import("${module}")
    await chainOf.first()
    console.log(performance.now() - t)`)

const nothing = timed("console.log(performance.now())")

const ourCompile: Open = async (n) => {
  const { chainOf } = await import("./ours.js")
  return { run: async () => expectEqual(chainOf(n).topology.nodes.length >= n, true, "number of nodes") }
}

const theirCompile: Open = async (n) => {
  const { chainOf } = await import("./langgraph.js")
  return {
    run: async () => expectEqual(Object.keys(chainOf(n).compile().nodes).length >= n, true, "number of nodes")
  }
}

const process_ = { unit: "process", units: () => 1, sizes: [1], quick: [1] }

export const coldStarts: ReadonlyArray<Workload> = [
  {
    name: "cold/import",
    title: "importing the engine in a new process (raw: a process that does nothing)",
    ...process_,
    engines: { [OURS]: importing("effect-pregel"), [THEIRS]: importing("@langchain/langgraph"), [RAW]: nothing }
  },
  {
    name: "cold/first",
    title: "import, compile and first run of three nodes",
    ...process_,
    quick: [],
    engines: { [OURS]: starting("./ours.js"), [THEIRS]: starting("./langgraph.js") }
  },
  {
    name: "cold/compile",
    title: "building and compiling a chain of n nodes",
    unit: "node",
    units: (n) => n,
    sizes: [300, 1000, 3000],
    quick: [300],
    engines: { [OURS]: ourCompile, [THEIRS]: theirCompile }
  }
]
