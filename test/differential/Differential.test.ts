import { assert, it } from "@effect/vitest"
import { checkSeeds } from "./Check.js"

it("500 random graphs run as on LangGraph, except where a rule says why", async () => {
  const report = await checkSeeds(1, 500)
  const unexplained = report.failures.map(({ differences, spec }) => `seed ${spec.seed}: ${differences[0]!.where}`)
  assert.deepStrictEqual(unexplained, [])
  assert.strictEqual(report.graphs, 500)
}, 600_000)
