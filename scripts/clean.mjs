// Removes everything the build writes.
import { rmSync } from "node:fs"
import { fileURLToPath } from "node:url"

for (const folder of ["dist", ".tsbuild"]) {
  rmSync(fileURLToPath(new URL(`../${folder}`, import.meta.url)), { recursive: true, force: true })
}
