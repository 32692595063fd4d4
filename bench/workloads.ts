/** All workloads, in the order in which they are measured. */
import { loops } from "./loop.js"
import type { Workload } from "./workload.js"

export const workloads: ReadonlyArray<Workload> = [...loops]
