/** A project that uses the built package: what it exports has types that can be named, with declarations on. */
import { spawnSync } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, assert, beforeAll, test } from "vitest"

const root = fileURLToPath(new URL("..", import.meta.url))
const folder = mkdtempSync(join(tmpdir(), "effect-pregel-consumer-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const source = `import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Activity, Channel, Command, Graph, Interrupt, Send } from "effect-pregel"

export class Llm extends Context.Tag("Llm")<Llm, { readonly chat: (n: number) => Effect.Effect<string, Error> }>() {}
export const Approve = Interrupt.make("approve", { request: Schema.Struct({ question: Schema.String }), answer: Schema.Boolean })
export const charge = Activity.make("charge", { input: Schema.Number, success: Schema.String, execute: (n) => Effect.succeed(String(n)) })
export const channels = {
  messages: Channel.append(Schema.String),
  total: Channel.reduce(Schema.Number, { initial: () => 0, reducer: (a, b) => a + b }),
  decision: Channel.lastValue(Schema.Literal("yes", "no"))
}
export const builder = Graph.make("agent", channels)
  .addNode("plan", (state) => Effect.flatMap(Llm, (llm) => Effect.map(llm.chat(state.total), (messages) => ({ messages }))))
  .addNode("pay", () => Effect.gen(function* () {
    if (!(yield* Approve({ question: "?" }))) return Command.make({ update: { decision: "no" }, goto: "plan" })
    yield* charge(5)
    return { decision: "yes" }
  }), { goto: ["plan"], onError: () => Effect.succeed({ total: 1 }) })
  .addWorker("work", Schema.Struct({ n: Schema.Number }), ({ n }) => Effect.succeed({ total: n }))
  .addEdge(Graph.START, "plan")
  .addConditionalEdges("plan", (state) => (state.total > 0 ? "pay" : [Send.make("work", { n: 1 })]), ["pay", "work"])
export const agent = builder.compile()
export const parent = Graph.make("parent", channels).addGraph("child", agent).addEdge(Graph.START, "child").compile()
export const thread = agent.thread("order-42")
export const run = thread.run({ messages: "hello" })
export const resumed = thread.resume(Approve, true)
export const events = agent.stream({}, { modes: ["values", "custom"] })
export const history = thread.history({ limit: 1 })
export const state = thread.state
export const command = Command.make({ update: { total: 1 }, goto: ["plan", Send.make("work", { n: 1 })] })
export const make = () => agent
`

const user = `import * as Effect from "effect/Effect"
import { agent, resumed, thread } from "./library.js"

export const total: Effect.Effect<number, unknown, unknown> = Effect.map(resumed, (state) => state.total)
// @ts-expect-error: no channel conut
agent.invoke({ conut: 1 })
// @ts-expect-error: no node apy
thread.update({ total: 1 }, { as: "apy" })
`

const config = (compilerOptions: object, files: ReadonlyArray<string>) =>
  JSON.stringify({
    compilerOptions: {
      target: "ES2022",
      lib: ["ES2023", "DOM"],
      module: "NodeNext",
      moduleResolution: "NodeNext",
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: true,
      types: [],
      ...compilerOptions
    },
    files
  })

const compile = (compiler: string, project: string) => {
  const { status, stdout } = spawnSync(process.execPath, [join(root, compiler), "-p", join(folder, project)], {
    encoding: "utf8"
  })
  return { status, stdout }
}

beforeAll(() => {
  const modules = join(folder, "node_modules")
  mkdirSync(join(modules, "effect-pregel"), { recursive: true })
  cpSync(join(root, "package.json"), join(modules, "effect-pregel/package.json"))
  cpSync(join(root, "dist"), join(modules, "effect-pregel/dist"), { recursive: true })
  symlinkSync(join(root, "node_modules/effect"), join(modules, "effect"), "junction")
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }))
  writeFileSync(join(folder, "library.ts"), source)
  writeFileSync(join(folder, "library.json"), config({ declaration: true, outDir: "out" }, ["library.ts"]))
  writeFileSync(join(folder, "out.json"), config({ noEmit: true }, ["out/user.ts"]))
})

const compilers = [
  ["TypeScript 7", "node_modules/@typescript/native/bin/tsc"],
  ["TypeScript 6", "node_modules/typescript/lib/tsc.js"]
] as const

for (const [name, compiler] of compilers) {
  test(`exported graphs have types that can be named, and users of the declarations are checked (${name})`, () => {
    assert.deepStrictEqual(compile(compiler, "library.json"), { status: 0, stdout: "" })
    const declarations = readFileSync(join(folder, "out/library.d.ts"), "utf8")
    assert.match(declarations, /export declare const agent: .*Graph\.CompiledGraph</)
    assert.notMatch(declarations, /: any|\.\.\//)
    writeFileSync(join(folder, "out/user.ts"), user)
    assert.deepStrictEqual(compile(compiler, "out.json"), { status: 0, stdout: "" })
  }, 120_000)
}
