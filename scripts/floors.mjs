// The house rules of src/: which module may import which, what the root may reach, and how long files may be.
import { readFileSync } from "node:fs"
import { builtinModules } from "node:module"
import { dirname, join } from "node:path"
import ts from "typescript"
import { filesBelow, moduleName, shown, src } from "./sources.mjs"

const floors = [
  ["GraphError"],
  [
    "Channel",
    "Cell",
    "Codec",
    "Channels",
    "Send",
    "Command",
    "Checkpoint",
    "GraphEvent",
    "Reducers",
    "Topology",
    "Retry",
    "EngineCodec"
  ],
  [
    "CheckpointDriver",
    "Checkpointer",
    "SqlCheckpointer",
    "SqliteCheckpointer",
    "KeyValueCheckpointer",
    "EncryptedCheckpointer",
    "Store",
    "SqlStore",
    "NodeCache",
    "NodeCachePersistence"
  ],
  ["Algo"],
  ["SavedCalls", "Task", "Interrupt", "Timer", "Activity"],
  [
    "Journal",
    "Output",
    "Run",
    "TaskState",
    "SaveQueue",
    "Persistence",
    "Cached",
    "Attempt",
    "Events",
    "Load",
    "Entry",
    "Step",
    "Loop",
    "Nested",
    "Snapshot",
    "Wire"
  ],
  [
    "Branches",
    "Compile",
    "Runs",
    "CompiledGraph",
    "Builder",
    "Graph",
    "Update",
    "Delivery",
    "Thread",
    "Threads",
    "Entrypoint",
    "Lint"
  ],
  [
    "CheckpointerSuite",
    "StoreSuite",
    "EntityProtocol",
    "EntitySubgraphs",
    "EntityClient",
    "EntityHost",
    "GraphEntity",
    "GraphTest"
  ]
]

/** Modules that need an optional peer or Node: a user imports them by their own path. */
const notInRoot = [
  "NodeCachePersistence",
  "SqlCheckpointer",
  "SqliteCheckpointer",
  "SqlStore",
  "KeyValueCheckpointer",
  "EntityProtocol",
  "EntitySubgraphs",
  "EntityClient",
  "EntityHost",
  "GraphEntity"
]

/** Public modules whose values internal modules may use, because they import nothing of src themselves. */
const dataModules = ["GraphError", "Checkpoint", "Channel"]

/** Packages the root must not pull in. */
const optionalPeer = (specifier) => specifier.startsWith("@effect/") || specifier === "better-sqlite3"

const limits = { fileTarget: 400, file: 450, function: 60 }

const floorOf = new Map(floors.flatMap((names, floor) => names.map((name) => [name, floor])))
const isInternal = (name) => name.startsWith("internal/")
const isNode = (specifier) => specifier.startsWith("node:") || builtinModules.includes(specifier.split("/")[0])

const problems = []
const remarks = []

const parse = (file) =>
  ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.ES2022, true, ts.ScriptKind.TS)

/** Every import of a file. `type` is true when nothing of it is left in the emitted JavaScript. */
const importsOf = (source) => {
  const found = []
  const add = (node, specifier, type) =>
    found.push({ specifier, type, line: source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1 })
  const visit = (node) => {
    if (ts.isImportDeclaration(node)) {
      add(node, node.moduleSpecifier.text, node.importClause?.isTypeOnly === true)
    } else if (ts.isExportDeclaration(node) && node.moduleSpecifier) {
      add(node, node.moduleSpecifier.text, node.isTypeOnly)
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      add(node, node.argument.literal.text, true)
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [argument] = node.arguments
      if (argument && ts.isStringLiteralLike(argument)) add(node, argument.text, false)
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

/** The numbers of the lines that hold more than blanks and comments. */
const codeLinesOf = (source) => {
  const lines = new Set()
  const lineOf = (position) => source.getLineAndCharacterOfPosition(position).line
  const visit = (node) => {
    if (node.kind >= ts.SyntaxKind.FirstJSDocNode && node.kind <= ts.SyntaxKind.LastJSDocNode) return
    const children = node.getChildren(source)
    if (children.length === 0 && node.getEnd() > node.getStart(source)) {
      for (let line = lineOf(node.getStart(source)); line <= lineOf(node.getEnd()); line++) lines.add(line)
    }
    children.forEach(visit)
  }
  visit(source)
  return lines
}

/** The innermost functions that are too long, with the name of what they belong to. */
const longFunctionsOf = (source, codeLines) => {
  const found = []
  const lineOf = (position) => source.getLineAndCharacterOfPosition(position).line
  const visit = (node, name) => {
    const own = node.name && ts.isIdentifier(node.name) ? node.name.text : name
    let inner = false
    ts.forEachChild(node, (child) => {
      inner = visit(child, own) || inner
    })
    if (inner || !ts.isFunctionLike(node) || !node.body) return inner
    const first = lineOf(node.getStart(source))
    const last = lineOf(node.getEnd())
    let length = 0
    for (let line = first; line <= last; line++) if (codeLines.has(line)) length++
    if (length <= limits.function) return false
    found.push({ name: own ?? "a function", line: first + 1, length })
    return true
  }
  visit(source, undefined)
  return found
}

const modules = new Map()
for (const file of filesBelow(src, ".ts")) {
  const source = parse(file)
  modules.set(moduleName(file), { file, source, imports: importsOf(source), values: [], externals: [] })
}

// The table here, and the one that people read.
const architecture = readFileSync("docs/architecture.md", "utf8")
for (const [name, floor] of floorOf) {
  if (!modules.has(name)) problems.push(`the table in scripts/floors.mjs names "${name}", which does not exist`)
  const row = architecture.split("\n").find((line) => line.startsWith(`| ${floor} |`))
  if (!row?.includes(`\`${name}\``)) problems.push(`docs/architecture.md does not name "${name}" on floor ${floor}`)
}

for (const [name, module] of modules) {
  const where = (line) => `${shown(module.file)}:${line}`
  if (name !== "index" && !isInternal(name) && !floorOf.has(name)) {
    problems.push(`${shown(module.file)}: the module "${name}" has no floor: add it to the table in scripts/floors.mjs`)
  }
  for (const { specifier, type, line } of module.imports) {
    if (!specifier.startsWith(".")) {
      if (specifier === "effect" || specifier === "effect/index") {
        problems.push(`${where(line)}: import from "effect/Module", not from the barrel "${specifier}"`)
      } else if (specifier === "effect-pregel" || specifier.startsWith("effect-pregel/")) {
        problems.push(`${where(line)}: import "${specifier}" by its relative path`)
      } else if (isInternal(name) && !type && !specifier.startsWith("effect/")) {
        problems.push(`${where(line)}: an internal module imports values only from effect, not from "${specifier}"`)
      }
      if (!type) module.externals.push(specifier)
      continue
    }
    const target = moduleName(join(dirname(module.file), specifier.replace(/\.js$/, ".ts")))
    if (!specifier.endsWith(".js") || !modules.has(target)) {
      problems.push(`${where(line)}: "${specifier}" is no module of src (write the .js suffix)`)
      continue
    }
    if (target === "index") problems.push(`${where(line)}: nothing in src imports the root "${specifier}"`)
    if (type) continue
    module.values.push(target)
    if (name === "index" || isInternal(target)) continue
    if (isInternal(name)) {
      if (dataModules.includes(target)) continue
      problems.push(`${where(line)}: an internal module imports only types from the public module "${target}"`)
    } else if (floorOf.get(target) > floorOf.get(name)) {
      problems.push(
        `${where(line)}: ${name} (floor ${floorOf.get(name)}) imports upwards, ${target} (floor ${floorOf.get(target)})`
      )
    }
  }
}

// Circles of value imports: depth first, each circle reported once from where it closes.
const done = new Set()
const path = []
const findCircles = (name) => {
  const start = path.indexOf(name)
  if (start >= 0) {
    problems.push(`circular import: ${[...path.slice(start), name].join(" -> ")}`)
    return
  }
  if (done.has(name)) return
  path.push(name)
  modules.get(name).values.forEach(findCircles)
  path.pop()
  done.add(name)
}
;[...modules.keys()].forEach(findCircles)

// What an import of the root loads.
const reached = new Map()
if (modules.has("index")) {
  const queue = ["index"]
  reached.set("index", ["index"])
  for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
    const way = reached.get(name)
    const module = modules.get(name)
    if (notInRoot.includes(name)) problems.push(`the root reaches ${name}: ${way.join(" -> ")}`)
    for (const specifier of module.externals) {
      if (isNode(specifier) || optionalPeer(specifier)) {
        problems.push(`the root reaches "${specifier}": ${[...way, specifier].join(" -> ")}`)
      }
    }
    for (const target of module.values) {
      if (reached.has(target)) continue
      reached.set(target, [...way, target])
      queue.push(target)
    }
  }
}

let total = 0
for (const module of modules.values()) {
  const codeLines = codeLinesOf(module.source)
  total += codeLines.size
  const size = `${shown(module.file)}: ${codeLines.size} code lines, the aim is ${limits.fileTarget}`
  if (codeLines.size > limits.file) problems.push(size)
  else if (codeLines.size > limits.fileTarget) remarks.push(size)
  for (const { name, line, length } of longFunctionsOf(module.source, codeLines)) {
    remarks.push(`${shown(module.file)}:${line}: ${name} has ${length} code lines, the aim is ${limits.function}`)
  }
}

for (const remark of remarks) console.log(`remark: ${remark}`)
for (const problem of problems) console.log(`problem: ${problem}`)
console.log(
  `${modules.size} modules, ${total} code lines, ${reached.size} reached from the root: ` +
    `${problems.length} problems, ${remarks.length} remarks`
)
process.exitCode = problems.length > 0 ? 1 : 0
