/**
 * The demo as its users meet it: the compiled program in processes of its own, on real folders.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { command, parse } from "../../examples/licence-audit/cli.js"
import { familyOf, licenceInManifest, licenceInText } from "../../examples/licence-audit/licences.js"
import { openProject } from "../../examples/licence-audit/project.js"

const main = fileURLToPath(new URL("../../.tsbuild/examples/licence-audit/main.js", import.meta.url))

// ---------------------------------------------------------------------------------------------------------------------
// projects on disk
// ---------------------------------------------------------------------------------------------------------------------

const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "licence-audit-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

const write = (file: string, text: string) => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

/** What is in a package's folder; `undefined` for a package that is not installed. */
type Files = Readonly<Record<string, string>> | undefined

const licensed = (license: string): Files => ({ "package.json": JSON.stringify({ license }) })

const lockOf = (names: ReadonlyArray<string>) =>
  JSON.stringify({
    name: "shop",
    lockfileVersion: 3,
    packages: {
      "": { name: "shop" },
      ...Object.fromEntries(names.map((name) => [`node_modules/${name}`, { version: "1.0.0", optional: true }]))
    }
  })

/** A project with these packages; what the demo keeps is in the folder around it. */
const project = (packages: Readonly<Record<string, Files>>) =>
  Effect.map(temporaryFolder, (temporary) => {
    const folder = join(temporary, "shop")
    write(join(folder, "package-lock.json"), lockOf(Object.keys(packages)))
    mkdirSync(join(folder, "node_modules"), { recursive: true })
    for (const [name, files] of Object.entries(packages)) {
      for (const [file, text] of Object.entries(files ?? {})) write(join(folder, "node_modules", name, file), text)
    }
    return folder
  })

// ---------------------------------------------------------------------------------------------------------------------
// processes
// ---------------------------------------------------------------------------------------------------------------------

interface Ended {
  readonly code: number | null
  readonly out: string
  readonly error: string
}

const started = (folder: string, words: ReadonlyArray<string>, env: Record<string, string>) =>
  Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, [main, folder, "--state", stateOf(folder), ...words], {
        cwd: dirname(folder),
        env: { PATH: process.env.PATH, ...env },
        stdio: ["ignore", "pipe", "pipe"]
      })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )

const ended = (child: ChildProcess) =>
  Effect.async<Ended>((resume) => {
    let out = ""
    let error = ""
    child.stdout!.on("data", (chunk) => (out += chunk))
    child.stderr!.on("data", (chunk) => (error += chunk))
    child.on("close", (code) => resume(Effect.succeed({ code, out, error })))
  })

/** Runs the demo on a folder to its end. */
const demo = (folder: string, ...words: ReadonlyArray<string>) =>
  Effect.scoped(Effect.flatMap(started(folder, words, {}), ended))

const stateOf = (folder: string) => join(dirname(folder), ".demo")

const withLedger = (folder: string, delay: string) => ({
  LICENCE_AUDIT_LEDGER: join(stateOf(folder), "ledger"),
  LICENCE_AUDIT_DELAY: delay
})

const ledger = (folder: string): ReadonlyArray<string> =>
  existsSync(join(stateOf(folder), "ledger"))
    ? readFileSync(join(stateOf(folder), "ledger"), "utf8")
        .split("\n")
        .filter((line) => line !== "")
    : []

const reportOf = (folder: string) => readFileSync(join(stateOf(folder), "shop-licences.md"), "utf8")

// ---------------------------------------------------------------------------------------------------------------------

describe("the licence audit, as a program", { timeout: 120_000 }, () => {
  it.scopedLive("pauses with a question, and the next process answers it and writes the report", () =>
    Effect.gen(function* () {
      const folder = yield* project({
        left: licensed("MIT"),
        right: licensed("MIT"),
        "@deep/inner": { "package.json": "{}", LICENSE: "Mozilla Public License Version 2.0" },
        elsewhere: undefined,
        strange: licensed("Hippocratic-2.1")
      })

      const first = yield* demo(folder)
      assert.strictEqual(first.error, "")
      assert.strictEqual(first.code, 0)
      assert.include(first.out, "Licence audit of shop")
      assert.include(first.out, "5 of 5 packages")
      assert.include(first.out, "review asks: may we use Hippocratic-2.1 (unusual)?\n    1 package: strange@1.0.0")
      assert.include(first.out, `npm run demo -- ${folder} --state ${stateOf(folder)} --answer allow\n`)
      assert.isFalse(existsSync(join(stateOf(folder), "shop-licences.md")))

      const again = yield* demo(folder)
      assert.include(again.out, "review asks")
      assert.notInclude(again.out, "of 5 packages\n", "nothing is looked at twice")

      const second = yield* demo(folder, "--answer", "allow")
      assert.strictEqual(second.error, "")
      assert.strictEqual(second.code, 0)
      assert.include(second.out, "Answered: allow Hippocratic-2.1")
      assert.match(second.out, /permissive +2 +2 MIT\n/)
      assert.match(second.out, /weak copyleft +1 +1 MPL-2.0\n/)
      assert.match(second.out, /not installed +1 /)
      assert.match(second.out, /all +5\n/)
      assert.include(second.out, "The report is in .demo/shop-licences.md")
      const report = reportOf(folder)
      assert.include(report, "5 packages, 1 unusual licence allowed.")
      assert.include(report, "- **allow** Hippocratic-2.1 (unusual): strange@1.0.0")
      assert.include(report, "| @deep/inner@1.0.0 | MPL-2.0 | weak copyleft | licence file |")

      const third = yield* demo(folder)
      assert.strictEqual(third.code, 0)
      assert.include(third.out, "It is finished already.")
      assert.strictEqual(reportOf(folder), report, "the report is written once")

      const late = yield* demo(folder, "--answer", "deny")
      assert.strictEqual(late.code, 1)
      assert.include(late.error, "error: the audit is finished")
    })
  )

  it.scopedLive("reports broken packages and goes on; answers questions one at a time", () =>
    Effect.gen(function* () {
      const folder = yield* project({
        broken: { "package.json": "{ no json", "LICENSE.md": "Permission is hereby granted, free of charge, to all" },
        silent: { "package.json": "{}" },
        viral: licensed("GPL-3.0-or-later"),
        empty: {}
      })
      const first = yield* demo(folder)
      assert.strictEqual(first.code, 0, first.error)
      assert.include(first.out, "it needs 2 decisions")
      assert.include(first.out, "review asks: may we use GPL-3.0-or-later (strong copyleft)?")
      assert.include(first.out, "review asks: may we use no licence (missing)?")

      const wrong = yield* demo(folder, "--answer", "allow", "--for", "MIT")
      assert.strictEqual(wrong.code, 1)
      assert.include(wrong.error, "nobody asks about MIT")

      const one = yield* demo(folder, "--answer", "deny", "--for", "GPL-3.0-or-later")
      assert.strictEqual(one.code, 0, one.error)
      assert.include(one.out, "it needs a decision")
      assert.notInclude(one.out, "may we use GPL-3.0-or-later")

      const two = yield* demo(folder, "--answer", "allow")
      assert.strictEqual(two.code, 1, "a licence was denied")
      assert.include(two.out, "Denied: GPL-3.0-or-later")
      assert.include(two.out, "broken@1.0.0: package.json is broken")
      assert.include(reportOf(folder), "| broken@1.0.0 | MIT-0 | permissive | licence file |")

      const fresh = yield* demo(folder, "--fresh")
      assert.strictEqual(fresh.code, 0)
      assert.include(fresh.out, "it needs 2 decisions")
    })
  )

  it.scopedLive("killed in the middle, it goes on and classifies no finished package again", () =>
    Effect.gen(function* () {
      const names = Array.from({ length: 120 }, (_, index) => `package-${index}`)
      const folder = yield* project(Object.fromEntries(names.map((name) => [name, licensed("MIT")])))

      const victim = yield* started(folder, ["--concurrency", "8"], withLedger(folder, "40 millis"))
      const end = yield* Effect.fork(ended(victim))
      yield* Effect.sync(() => ledger(folder).length).pipe(
        Effect.repeat({ until: (count) => count >= 30, schedule: Schedule.spaced("5 millis") })
      )
      victim.kill("SIGKILL")
      yield* end
      const before = ledger(folder)
      assert.isBelow(before.length, names.length, "it was killed in the middle")

      const survivor = yield* Effect.scoped(Effect.flatMap(started(folder, [], withLedger(folder, "0 millis")), ended))
      assert.strictEqual(survivor.code, 0, survivor.error)
      assert.match(survivor.out, /all +120\n/)
      const saved = Number(/Going on where it stopped: (\d+) of 120 packages were done/.exec(survivor.out)?.[1])
      // What was classified in the instant of the kill may not have been saved: at most what ran at the same time.
      assert.isAtLeast(saved, before.length - 8)
      assert.isAbove(saved, 0)

      const after = ledger(folder).slice(before.length)
      assert.strictEqual(after.length, names.length - saved, "the saved ones are not classified again")
      assert.strictEqual(new Set([...before, ...after]).size, names.length, "every package is classified")
      assert.strictEqual(new Set(after).size, after.length)
    })
  )

  it.scopedLive("tells what is wrong with a folder", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const missing = yield* demo(join(folder, "nowhere"))
      assert.strictEqual(missing.code, 1)
      assert.include(missing.error, `error: there is no folder ${join(folder, "nowhere")}`)
      assert.strictEqual(missing.out, "")
      assert.isFalse(existsSync(stateOf(join(folder, "nowhere"))), "nothing is left behind")
    })
  )
})

describe("the licence audit, folders", () => {
  const failure = (files: Readonly<Record<string, string>>) =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      for (const [name, text] of Object.entries(files)) write(join(folder, name), text)
      return yield* Effect.flip(openProject(folder))
    }).pipe(Effect.provide(NodeContext.layer))

  it.scoped("names what is missing or not supported", () =>
    Effect.gen(function* () {
      const lock = lockOf(["left"])
      assert.strictEqual((yield* failure({}))._tag, "NoLockFile")
      assert.strictEqual((yield* failure({ "package-lock.json": lock }))._tag, "NotInstalled")
      assert.strictEqual((yield* failure({ "package-lock.json": "{" }))._tag, "BrokenLockFile")
      for (const name of ["pnpm-lock.yaml", "yarn.lock", "bun.lock"]) {
        const error = yield* failure({ [name]: "" })
        assert.strictEqual(error._tag, "UnsupportedLockFile")
        assert.include(error.message, `${name} is not supported`)
      }
      const old = yield* failure({ "package-lock.json": '{ "lockfileVersion": 1, "dependencies": {} }' })
      assert.strictEqual(old._tag, "UnsupportedLockFile")
      assert.include(old.message, "version 1")
    })
  )

  it.scoped("lists packages, not the project itself, its workspaces or links to them", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      mkdirSync(join(folder, "node_modules"))
      write(
        join(folder, "package-lock.json"),
        JSON.stringify({
          name: "shop",
          lockfileVersion: 2,
          packages: {
            "": {},
            "packages/own": { version: "1.0.0" },
            "node_modules/own": { resolved: "packages/own", link: true },
            "node_modules/a/node_modules/@b/c": { version: "2.0.0" },
            "node_modules/alias": { name: "real", version: "3.0.0" }
          }
        })
      )
      const { packages } = yield* openProject(folder)
      assert.deepStrictEqual(
        packages.map(({ name, version }) => `${name}@${version}`),
        ["@b/c@2.0.0", "real@3.0.0"]
      )
    }).pipe(Effect.provide(NodeContext.layer))
  )
})

describe("the licence audit, arguments", () => {
  it.effect("are read, or refused with what they should be", () =>
    Effect.gen(function* () {
      const options = yield* parse(["../shop", "--answer=allow", "--for", "A OR B", "--concurrency", "3"])
      assert.deepInclude(options, { folder: "../shop", answer: "allow", licence: "A OR B", concurrency: 3 })
      assert.strictEqual(
        command(options, "--answer", "deny", "--for", "A OR B"),
        "npm run demo -- ../shop --answer deny --for 'A OR B'"
      )
      const refused = (words: ReadonlyArray<string>) =>
        Effect.map(Effect.flip(parse(words)), ({ message }) => message.split("\n")[0])
      assert.strictEqual(yield* refused(["--answer", "maybe"]), "--answer needs allow or deny")
      assert.strictEqual(yield* refused(["--answer"]), "--answer needs a value")
      assert.strictEqual(yield* refused(["--concurrency", "0"]), "--concurrency needs a number from 1 to 9999")
      assert.strictEqual(yield* refused(["--frsh"]), "there is no option --frsh")
      assert.strictEqual(yield* refused(["a", "b"]), "one folder at a time: a or b")
      assert.strictEqual(yield* refused(["--for", "MIT"]), "--for goes with --answer")
    })
  )
})

describe("the licence audit, licences", () => {
  it("an expression has the family of what it leaves to choose", () => {
    const cases: ReadonlyArray<readonly [string, string]> = [
      ["MIT", "permissive"],
      ["mit", "permissive"],
      ["Apache 2.0", "permissive"],
      ["MPL-2.0", "weak copyleft"],
      ["LGPL-2.1+", "weak copyleft"],
      ["GPL-3.0-only", "strong copyleft"],
      ["(MIT OR GPL-3.0)", "permissive"],
      ["MIT AND GPL-3.0", "strong copyleft"],
      ["GPL-2.0 OR MIT AND MPL-2.0", "weak copyleft"],
      ["GPL-2.0 WITH Classpath-exception-2.0", "strong copyleft"],
      ["(MIT OR WTFPL)", "permissive"],
      ["BlueOak-1.0.0", "unusual"],
      ["UNLICENSED", "unusual"],
      ["(MIT", "unusual"],
      ["Do as you like", "unusual"]
    ]
    for (const [licence, family] of cases) assert.strictEqual(familyOf(licence), family, licence)
  })

  it("old manifests name licences as objects and lists", () => {
    const read = (manifest: object) => {
      const found = licenceInManifest(manifest)
      return found._tag === "Some" ? found.value : undefined
    }
    assert.strictEqual(read({ license: { type: "MIT", url: "x" } }), "MIT")
    assert.strictEqual(read({ licenses: [{ type: "MIT" }, { type: "GPL-2.0" }] }), "(MIT OR GPL-2.0)")
    assert.isUndefined(read({ license: "" }))
    assert.isUndefined(read({}))
  })

  it("knows this project's own licence and those of its packages by their texts", () => {
    const root = fileURLToPath(new URL("../../", import.meta.url))
    const read = (file: string) => licenceInText(readFileSync(join(root, file), "utf8"))
    assert.deepInclude(read("LICENSE"), { _tag: "Some", value: "MIT" })
    assert.deepInclude(read("node_modules/effect/LICENSE"), { _tag: "Some", value: "MIT" })
    assert.deepInclude(licenceInText("All rights reserved."), { _tag: "None" })
  })
})
