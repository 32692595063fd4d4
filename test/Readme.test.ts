/** The README's example does what the README says: it is run as it stands, by Node, on the built package. */
import { execFile } from "node:child_process"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import ts from "typescript"

const root = fileURLToPath(new URL("../", import.meta.url))

const blocks = (text: string, language: string): ReadonlyArray<string> =>
  Array.from(text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)).flatMap(([, tag, body]) =>
    tag === language ? [body!] : []
  )

describe("README.md", { timeout: 60_000 }, () => {
  it.live("its example prints what it says", () =>
    Effect.gen(function* () {
      const readme = readFileSync(`${root}README.md`, "utf8")
      const [source] = blocks(readme, "ts")
      const [printed] = blocks(readme, "text")
      const program = ts.transpileModule(source!, {
        compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext }
      })
      // Below the project, so that the package's own name leads to it.
      const folder = `${root}.tsbuild/readme`
      mkdirSync(folder, { recursive: true })
      writeFileSync(`${folder}/example.mjs`, program.outputText)
      const { stdout } = yield* Effect.promise(() =>
        promisify(execFile)(process.execPath, [`${folder}/example.mjs`], { cwd: root })
      )
      assert.strictEqual(stdout, printed)
    })
  )
})
