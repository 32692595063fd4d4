// Type-checks every example: the ts blocks of README.md and docs/*.md and those in the JSDoc comments of src.
//
// An @example has to be such a block. "```ts ignore" is not checked; "```ts continue" belongs to the block before it on the same page.
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import ts from "typescript"
import { filesBelow, root, shown, src } from "./sources.mjs"

const folder = join(root, ".tsbuild/doc-examples")

/** The ts blocks in numbered lines of text, each with the numbers its lines have there. */
const blocksIn = (file, lines) => {
  const blocks = []
  let open
  for (const { text, number } of lines) {
    const fence = /^\s*(`{3,}|~{3,})\s*(.*)$/.exec(text)
    if (open) {
      if (fence && fence[2] === "" && fence[1].startsWith(open.fence)) open = undefined
      else open.block?.lines.push({ text, number })
    } else if (fence) {
      const [language, ...words] = fence[2].trim().split(/\s+/)
      open = { fence: fence[1], block: undefined }
      if ((language !== "ts" && language !== "typescript") || words.includes("ignore")) continue
      const previous = blocks.at(-1)
      if (words.includes("continue") && previous) open.block = previous
      else {
        open.block = { file, lines: [] }
        blocks.push(open.block)
      }
    }
  }
  return blocks
}

/** Examples that would not be checked. */
const unfenced = []

const numbered = (text, first) => text.split("\n").map((line, index) => ({ text: line, number: first + index }))

const fromPage = (file) => blocksIn(file, numbered(readFileSync(file, "utf8"), 1))

const fromSource = (file) => {
  const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.ES2022, true)
  const blocks = []
  const seen = new Set()
  const visit = (node) => {
    for (const comment of node.jsDoc ?? []) {
      if (seen.has(comment.pos)) continue
      seen.add(comment.pos)
      const first = source.getLineAndCharacterOfPosition(comment.pos).line + 1
      const lines = numbered(source.text.slice(comment.pos, comment.end), first).map(({ text, number }) => ({
        text: text.replace(/^\s*\* ?/, "").replaceAll("*\\/", "*/"),
        number
      }))
      blocks.push(...blocksIn(file, lines))
      lines.forEach(({ number, text }, i) => {
        if (text.trim() === "@example" && !/^\s*```/.test(lines[i + 1]?.text ?? "")) unfenced.push({ file, number })
      })
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return blocks
}

const docs = join(root, "docs")
const pages = [
  join(root, "README.md"),
  ...(existsSync(docs) ? readdirSync(docs).sort() : [])
    .filter((name) => name.endsWith(".md"))
    .map((name) => join(docs, name))
].filter((file) => existsSync(file))

const blocks = [...pages.flatMap(fromPage), ...filesBelow(src, ".ts").flatMap(fromSource)]

rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
const origin = new Map()
for (const [index, block] of blocks.entries()) {
  const name = `example-${String(index + 1).padStart(3, "0")}.ts`
  origin.set(name, block)
  writeFileSync(join(folder, name), `${block.lines.map((line) => line.text).join("\n")}\n`)
}
writeFileSync(
  join(folder, "tsconfig.json"),
  JSON.stringify({
    extends: "../../tsconfig.base.json",
    compilerOptions: {
      rootDir: ".",
      noEmit: true,
      incremental: false,
      noUnusedLocals: false,
      lib: ["ES2023", "DOM", "DOM.Iterable"]
    },
    include: ["*.ts"]
  })
)

let failures = unfenced.length
for (const { file, number } of unfenced) console.error(`${shown(file)}:${number}: an @example without a block of code`)
if (blocks.length > 0) {
  const tsc = join(root, "node_modules/@typescript/native/bin/tsc")
  const result = spawnSync(process.execPath, [tsc, "-p", folder, "--pretty", "false"], {
    cwd: folder,
    encoding: "utf8"
  })
  if (result.error) throw result.error
  for (const line of `${result.stdout}${result.stderr}`.split("\n").filter((line) => line.trim() !== "")) {
    const match = /^(?:.*[/\\])?(example-\d+\.ts)\((\d+),(\d+)\): (.*)$/.exec(line)
    const block = match ? origin.get(match[1]) : undefined
    if (!match || !block) {
      // The further lines of the message before it.
      console.error(line)
      continue
    }
    failures++
    const number = block.lines[Number(match[2]) - 1]?.number ?? block.lines.at(-1)?.number ?? 1
    console.error(`${shown(block.file)}:${number}: ${match[4]}`)
  }
  if (result.status !== 0 && failures === 0) failures = 1
}
console.log(`${blocks.length} examples, ${failures} errors`)
process.exitCode = failures > 0 ? 1 : 0
