// What the other scripts share: the project's folders and its source files.
import { existsSync, readdirSync } from "node:fs"
import { join, relative, sep } from "node:path"
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("..", import.meta.url))
export const src = join(root, "src")

/** All files below `folder` whose name ends with `extension`, sorted; empty when the folder does not exist. */
export const filesBelow = (folder, extension) =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile() && entry.name.endsWith(extension))
        .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
        .sort()
    : []

/** A path as the project's pages write it. */
export const shown = (file) => relative(root, file).split(sep).join("/")

/** `Graph`, `internal/hash`: the name of a file below `src`. */
export const moduleName = (file) => relative(src, file).split(sep).join("/").replace(/\.ts$/, "")

/** The modules a user can import by name, without `index`. */
export const publicModules = () =>
  filesBelow(src, ".ts")
    .map(moduleName)
    .filter((name) => name !== "index" && !name.startsWith("internal/"))
