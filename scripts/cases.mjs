// Compares the behaviour catalogue with the tests: which case has a test, which differs by design, which is missing.
//
//   node scripts/cases.mjs [--strict] [--write-index]
//
// A case is known by the numbered beginning of its id: "core-012" stands for "core-012-binop-...". A test covers the
// cases whose ids stand in its title; a title in a skipped, open or expected-to-fail test covers nothing.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import ts from "typescript"
import { filesBelow, root, shown } from "./sources.mjs"

const strict = process.argv.includes("--strict")
const writeIndex = process.argv.includes("--write-index")
const catalogue = join(root, "../shared/cases")
const index = join(root, "test/cases.index.json")
const differences = join(root, "docs/differences.md")

const idPattern = /\b[a-z]+-\d{3}\b/g
const idsIn = (text) => text.match(idPattern) ?? []
const json = (file) => JSON.parse(readFileSync(file, "utf8"))
const asIndex = (cases) => `[\n${cases.map((entry) => `  ${JSON.stringify(entry)}`).join(",\n")}\n]\n`

const readCases = () => {
  if (!existsSync(catalogue)) return json(index)
  const cases = readdirSync(catalogue)
    .filter((name) => name.endsWith(".json"))
    .sort()
    .flatMap((name) => json(join(catalogue, name)))
    .map(({ id, area, title }) => ({ id, area, title }))
  if (writeIndex) writeFileSync(index, asIndex(cases))
  else if (!existsSync(index) || JSON.stringify(json(index)) !== JSON.stringify(cases)) {
    console.log(`${shown(index)} is older than the catalogue: run with --write-index`)
  }
  return cases
}

const notRun = new Set(["skip", "todo", "fails"])

/** The ids in the strings of a test file, without comments and without tests that do not count. */
const coveredIn = (file) => {
  const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.ES2022, true)
  const found = []
  const visit = (node) => {
    if (ts.isCallExpression(node)) {
      const callee = node.expression
      if (ts.isPropertyAccessExpression(callee) && notRun.has(callee.name.text)) return
    }
    if (ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node)) {
      found.push(...idsIn(node.text))
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

const cases = readCases()
const known = new Map()
for (const entry of cases) {
  const [short] = idsIn(entry.id)
  if (short === undefined || known.has(short)) throw new Error(`"${entry.id}" has no number of its own`)
  known.set(short, entry)
}

const strangers = new Map()
const place = (ids, file, into) => {
  for (const id of ids) {
    if (known.has(id)) into.add(id)
    // Only the catalogue's own series: "utf-016" in some text is no case.
    else if ([...known.keys()].some((other) => other.split("-")[0] === id.split("-")[0])) strangers.set(id, shown(file))
  }
}

const tested = new Set()
// The suites that the package exports are run by tests, and hold their own titles.
const suites = filesBelow(join(root, "src"), ".ts").filter((file) => /[sS]uite\w*\.ts$/.test(file))
for (const file of [...filesBelow(join(root, "test"), ".ts"), ...suites]) place(coveredIn(file), file, tested)
const different = new Set()
if (existsSync(differences)) place(idsIn(readFileSync(differences, "utf8")), differences, different)

const ids = [...known.keys()]
const covered = ids.filter((id) => tested.has(id) && !different.has(id))
const missing = ids.filter((id) => !tested.has(id) && !different.has(id))
const testedDifferences = [...different].filter((id) => tested.has(id)).length

console.log(`cases                ${ids.length}`)
console.log(`covered              ${covered.length}`)
console.log(`different by design  ${different.size} (${testedDifferences} of them with a test)`)
console.log(`missing              ${missing.length}`)
for (const id of missing) {
  const { area, title } = known.get(id)
  console.log(`  ${id}  ${area}: ${title}`)
}
for (const [id, file] of strangers) console.log(`unknown case ${id} in ${file}`)
process.exitCode = strict && (missing.length > 0 || strangers.size > 0) ? 1 : 0
