/** Starting: importing the engine in a new process, and making a graph of n nodes ready. */
import { execFile } from "node:child_process"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { promisify } from "node:util"
import {
  expectEqual,
  type Open,
  OURS,
  type Place,
  RAW,
  type Session,
  THEIRS,
  type Workload,
  XSTATE
} from "./workload.js"

const exec = promisify(execFile)

/** Runs a module in a new process; it prints what it measured. */
const timed = (source: string): Session => ({
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
    const { first } = await import("${module}")
    await first()
    console.log(performance.now() - t)`)

/** The program that starts one engine and runs three nodes. */
const PROGRAMS = { [OURS]: "./first/ours.js", [THEIRS]: "./first/langgraph.js" }

/** A program and all that it needs in one file, as a function in a cloud is deployed. */
const bundle = async (module: string, { directory }: Place): Promise<string> => {
  const outfile = join(directory, module.replace(/\W+/g, "-").concat(".mjs"))
  await (await import("esbuild")).build({
    entryPoints: [fileURLToPath(new URL(module, import.meta.url))],
    outfile,
    bundle: true,
    minify: true,
    platform: "node",
    format: "esm",
    // What is CommonJS in it asks for modules of Node.
    banner: { js: `import { createRequire } from "node:module"; const require = createRequire(import.meta.url);` },
    logLevel: "error"
  })
  return pathToFileURL(outfile).href
}

const bundled = (measured: (file: string) => Session): Workload["engines"] => {
  const opened =
    (module: string): Open =>
    async (_, place) =>
      measured(await bundle(module, place))
  return { [OURS]: opened(PROGRAMS[OURS]), [THEIRS]: opened(PROGRAMS[THEIRS]) }
}

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

const xstateCompile: Open = async (n, place) => (await import("./xstate.js")).compile(n, place)

const process_ = { unit: "process", units: () => 1, sizes: [1], quick: [1] }

export const coldStarts: ReadonlyArray<Workload> = [
  {
    name: "cold/import",
    title: "importing the engine in a new process (raw: a process that does nothing)",
    ...process_,
    engines: {
      [OURS]: async () => importing("effect-pregel"),
      [THEIRS]: async () => importing("@langchain/langgraph"),
      [RAW]: async () => timed("console.log(performance.now())")
    }
  },
  {
    name: "cold/first",
    title: "import, compile and first run of three nodes",
    ...process_,
    quick: [],
    engines: {
      [OURS]: async () => starting(PROGRAMS[OURS]),
      [THEIRS]: async () => starting(PROGRAMS[THEIRS])
    }
  },
  {
    name: "cold/bundled",
    title: "the same, bundled into one file",
    ...process_,
    quick: [],
    engines: bundled(starting)
  },
  {
    name: "cold/bundled/import",
    title: "importing that file alone",
    ...process_,
    quick: [],
    engines: bundled(importing)
  },
  {
    name: "cold/compile",
    title: "building and compiling a chain of n nodes",
    unit: "node",
    units: (n) => n,
    sizes: [300, 1000, 3000],
    quick: [300],
    engines: { [OURS]: ourCompile, [THEIRS]: theirCompile, [XSTATE]: xstateCompile }
  }
]
