/**
 * A project on disk: its lock file, and the packages below `node_modules`.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import { Context, Effect, Layer, Option, Schema } from "effect"
import { Family, familyOf, licenceInManifest, licenceInText } from "./licences.js"

// ---------------------------------------------------------------------------------------------------------------------
// what can be wrong with the folder
// ---------------------------------------------------------------------------------------------------------------------

export class NoSuchFolder extends Schema.TaggedError<NoSuchFolder>()("NoSuchFolder", { folder: Schema.String }) {
  override get message() {
    return `there is no folder ${this.folder}`
  }
}

export class NoLockFile extends Schema.TaggedError<NoLockFile>()("NoLockFile", { folder: Schema.String }) {
  override get message() {
    return `there is no package-lock.json in ${this.folder}\n  create one with: npm install`
  }
}

export class UnsupportedLockFile extends Schema.TaggedError<UnsupportedLockFile>()("UnsupportedLockFile", {
  file: Schema.String,
  detail: Schema.String
}) {
  override get message() {
    return `${this.file} is not supported: ${this.detail}\n  this demo reads package-lock.json of npm 7 or newer`
  }
}

export class BrokenLockFile extends Schema.TaggedError<BrokenLockFile>()("BrokenLockFile", {
  file: Schema.String,
  detail: Schema.String
}) {
  override get message() {
    return `${this.file} can't be read: ${this.detail}`
  }
}

export class NotInstalled extends Schema.TaggedError<NotInstalled>()("NotInstalled", { folder: Schema.String }) {
  override get message() {
    return `there is no node_modules in ${this.folder}\n  install the packages with: npm ci`
  }
}

export type ProjectError = NoSuchFolder | NoLockFile | UnsupportedLockFile | BrokenLockFile | NotInstalled

// ---------------------------------------------------------------------------------------------------------------------
// the lock file
// ---------------------------------------------------------------------------------------------------------------------

/** A package as the lock file lists it. */
export const Package = Schema.Struct({
  name: Schema.String,
  version: Schema.String,
  /** Its folder, relative to the project's. */
  folder: Schema.String,
  /** Packages for other platforms are listed but need not be installed. */
  optional: Schema.Boolean
})
export type Package = typeof Package.Type

const Lock = Schema.parseJson(
  Schema.Struct({
    name: Schema.optional(Schema.String),
    version: Schema.optional(Schema.String),
    lockfileVersion: Schema.Number,
    packages: Schema.optional(
      Schema.Record({
        key: Schema.String,
        value: Schema.Struct({
          name: Schema.optional(Schema.String),
          version: Schema.optional(Schema.String),
          link: Schema.optional(Schema.Boolean),
          optional: Schema.optional(Schema.Boolean),
          devOptional: Schema.optional(Schema.Boolean),
          peer: Schema.optional(Schema.Boolean)
        })
      })
    )
  })
)

const NODE_MODULES = "node_modules/"
const foreignLocks = ["pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb"]
const npmLocks = ["npm-shrinkwrap.json", "package-lock.json"]

/** A folder that can be audited. */
export interface Project {
  /** Absolute. */
  readonly folder: string
  readonly name: string
  /** The lock file's text: an audit is one of this very list of packages. */
  readonly lock: string
  readonly packages: ReadonlyArray<Package>
}

/** Reads a project's lock file, or says what is wrong with the folder. */
export const openProject = (folder: string): Effect.Effect<Project, ProjectError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const has = (name: string) => Effect.orElseSucceed(fs.exists(path.join(folder, name)), () => false)

    const isFolder = yield* Effect.match(fs.stat(folder), {
      onFailure: () => false,
      onSuccess: (info) => info.type === "Directory"
    })
    if (!isFolder) return yield* new NoSuchFolder({ folder })

    const file = yield* Effect.findFirst(npmLocks, has)
    if (Option.isNone(file)) {
      const foreign = yield* Effect.findFirst(foreignLocks, has)
      if (Option.isNone(foreign)) return yield* new NoLockFile({ folder })
      return yield* new UnsupportedLockFile({ file: foreign.value, detail: "it belongs to another package manager" })
    }
    const broken = (error: { readonly message: string }) =>
      new BrokenLockFile({ file: path.join(folder, file.value), detail: error.message })
    const text = yield* Effect.mapError(fs.readFileString(path.join(folder, file.value)), broken)
    const lock = yield* Effect.mapError(Schema.decode(Lock)(text), broken)
    if (lock.packages === undefined) {
      const detail = `it has version ${lock.lockfileVersion}, which lists no packages`
      return yield* new UnsupportedLockFile({ file: file.value, detail })
    }

    const packages = Object.entries(lock.packages).flatMap(([at, entry]): ReadonlyArray<Package> => {
      const name = at.lastIndexOf(NODE_MODULES)
      // The project itself, its workspaces, and links to them.
      if (name < 0 || entry.link === true) return []
      return [
        {
          name: entry.name ?? at.slice(name + NODE_MODULES.length),
          version: entry.version ?? "?",
          folder: at,
          optional: entry.optional === true || entry.devOptional === true || entry.peer === true
        }
      ]
    })
    if (packages.length > 0 && !(yield* has("node_modules"))) return yield* new NotInstalled({ folder })
    return { folder, name: lock.name ?? path.basename(folder), lock: text, packages }
  })

// ---------------------------------------------------------------------------------------------------------------------
// one package
// ---------------------------------------------------------------------------------------------------------------------

/** What the audit found out about a package. */
export const Finding = Schema.Struct({
  package: Schema.String,
  family: Family,
  licence: Schema.String,
  /** Where the licence is stated. */
  source: Schema.Literal("manifest", "licence file", "nowhere"),
  /** What is wrong with the package, if anything. */
  problem: Schema.optional(Schema.String)
})
export type Finding = typeof Finding.Type

/** Looks at packages. A service, so that tests can look at something else. */
export class Inspector extends Context.Tag("licence-audit/Inspector")<
  Inspector,
  {
    /** Never fails: what can't be read is a finding too. */
    readonly inspect: (project: string, pkg: Package) => Effect.Effect<Finding>
  }
>() {}

const Manifest = Schema.parseJson(
  Schema.Struct({ license: Schema.optional(Schema.Unknown), licenses: Schema.optional(Schema.Unknown) })
)

const SEE_FILE = /^see licen[cs]e in /i
const LICENCE_FILE = /^(licen[cs]e|copying|unlicense)([-.].*)?$/i

/** Reads manifests and licence files below the project's `node_modules`. */
export const inspectorLive = Layer.effect(
  Inspector,
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path

    const readManifest = (folder: string) =>
      Effect.flatMap(fs.readFileString(path.join(folder, "package.json")), Schema.decode(Manifest)).pipe(
        Effect.mapError((error) =>
          error._tag === "ParseError"
            ? "package.json is broken: it is no JSON object"
            : `package.json can't be read (${error._tag === "SystemError" ? error.reason : error._tag})`
        ),
        Effect.either
      )

    const readLicenceText = (folder: string) =>
      Effect.gen(function* () {
        const names = (yield* fs.readDirectory(folder)).filter((name) => LICENCE_FILE.test(name)).sort()
        const texts = yield* Effect.forEach(names, (name) => Effect.option(fs.readFileString(path.join(folder, name))))
        return { found: names.length > 0, licence: Option.firstSomeOf(texts.map(Option.flatMap(licenceInText))) }
      }).pipe(Effect.orElseSucceed(() => ({ found: false, licence: Option.none<string>() })))

    return {
      inspect: (project, pkg) =>
        Effect.gen(function* () {
          const folder = path.join(project, pkg.folder)
          const id = `${pkg.name}@${pkg.version}`
          if (!(yield* Effect.orElseSucceed(fs.exists(folder), () => false))) {
            const absent = { package: id, family: "not installed", licence: "", source: "nowhere" } as const
            return pkg.optional ? absent : { ...absent, problem: "listed in the lock file but not installed" }
          }
          const manifest = yield* readManifest(folder)
          const problem = manifest._tag === "Left" ? { problem: manifest.left } : {}
          const stated = Option.flatMap(Option.getRight(manifest), licenceInManifest)
          if (Option.isSome(stated) && !SEE_FILE.test(stated.value)) {
            const licence = stated.value
            return { package: id, family: familyOf(licence), licence, source: "manifest" }
          }
          const text = yield* readLicenceText(folder)
          if (Option.isSome(text.licence)) {
            const licence = text.licence.value
            return { package: id, family: familyOf(licence), licence, source: "licence file", ...problem }
          }
          return text.found
            ? { package: id, family: "unusual", licence: "unrecognised text", source: "licence file", ...problem }
            : { package: id, family: "missing", licence: "no licence", source: "nowhere", ...problem }
        })
    }
  })
)
