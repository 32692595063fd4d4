/** Mastra's side of the workloads, where it is installed: it is not among the dependencies of this package. */
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { fileURLToPath, pathToFileURL } from "node:url"
import { expectEqual, type Open } from "./workload.js"

const MANIFEST = fileURLToPath(new URL("../../bench/mastra/package.json", import.meta.url))
const { resolve } = createRequire(MANIFEST)

/** How to install it. */
export const INSTALL = "npm ci --prefix bench/mastra"

export const isInstalled = (): boolean =>
  existsSync(fileURLToPath(new URL("../../bench/mastra/node_modules/@mastra/core", import.meta.url)))

type Execute<I, O> = (options: { readonly inputData: I }) => Promise<O>

interface Step {
  readonly id: string
}

/** The part of its types that is used here. */
interface Workflow {
  readonly then: (step: Step) => Workflow
  readonly dowhile: (step: Step, goesOn: Execute<any, boolean>) => Workflow
  readonly foreach: (step: Step, options: { readonly concurrency: number }) => Workflow
  readonly commit: () => Workflow
  readonly createRunAsync: () => Promise<{
    readonly start: (options: {
      readonly inputData: unknown
    }) => Promise<{ readonly status: string; readonly result: any }>
  }>
}

const load = async () => {
  const { createStep, createWorkflow } = await import(pathToFileURL(resolve("@mastra/core/workflows")).href)
  const { z } = await import(pathToFileURL(resolve("zod")).href)
  const count = z.object({ count: z.number() })
  return {
    z,
    count,
    workflow: (input: unknown, output: unknown): Workflow =>
      createWorkflow({ id: "workflow", inputSchema: input, outputSchema: output }),
    step: <I, O>(id: string, input: unknown, output: unknown, execute: Execute<I, O>): Step =>
      createStep({ id, inputSchema: input, outputSchema: output, execute })
  }
}

const resultOf = async (workflow: Workflow, inputData: unknown) => {
  const { result, status } = await (await workflow.createRunAsync()).start({ inputData })
  expectEqual(status, "success", "status")
  return result
}

const add: Execute<{ count: number }, { count: number }> = async ({ inputData }) => ({ count: inputData.count + 1 })

/** One step that runs until it has counted to n. */
export const loop: Open = async (n) => {
  const { count, step, workflow } = await load()
  const counter = workflow(count, count)
    .dowhile(step("add", count, count, add), async ({ inputData }) => inputData.count < n)
    .commit()
  return { run: async () => expectEqual((await resultOf(counter, { count: 0 })).count, n, "count") }
}

/** n steps in a row. */
export const chain: Open = async (n) => {
  const { count, step, workflow } = await load()
  const steps = Array.from({ length: n }, (_, i) => step(`step${i}`, count, count, add))
  const row = steps.reduce((all, one) => all.then(one), workflow(count, count)).commit()
  return { run: async () => expectEqual((await resultOf(row, { count: 0 })).count, n, "count") }
}

/** One step for each of n items, all at once. */
export const fanout: Open = async (n) => {
  const { step, workflow, z } = await load()
  const value = z.object({ value: z.number() })
  const work: Execute<{ value: number }, { value: number }> = async ({ inputData }) => inputData
  const each = workflow(z.array(value), z.array(value))
    .foreach(step("work", value, value, work), { concurrency: n })
    .commit()
  const items = Array.from({ length: n }, (_, value) => ({ value }))
  return {
    run: async () => {
      const results: ReadonlyArray<{ readonly value: number }> = await resultOf(each, items)
      const sum = results.reduce((total, { value }) => total + value, 0)
      expectEqual(sum, (n * (n - 1)) / 2, "sum")
    }
  }
}
