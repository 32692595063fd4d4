/** All workloads, in the order in which they are measured. */
import { agents } from "./agent.js"
import { chains } from "./chain.js"
import { wideStates } from "./channels.js"
import { clusters } from "./cluster.js"
import { coldStarts } from "./cold.js"
import { fanouts } from "./fanout.js"
import { histories } from "./history.js"
import { interrupts } from "./interrupts.js"
import { loops } from "./loop.js"
import { reads } from "./reads.js"
import { streaming } from "./streaming.js"
import { subgraphs } from "./subgraphs.js"
import { threads } from "./threads.js"
import { wideGraphs } from "./wide.js"
import type { Workload } from "./workload.js"

export const workloads: ReadonlyArray<Workload> = [
  ...loops,
  ...chains,
  ...fanouts,
  ...wideGraphs,
  ...wideStates,
  ...histories,
  ...agents,
  ...subgraphs,
  ...interrupts,
  ...reads,
  ...streaming,
  ...threads,
  ...clusters,
  ...coldStarts
]
