import type { Row } from "./measure.js"
import type { Workload } from "./workload.js"
export const page = (_workloads: ReadonlyArray<Workload>, _rows: ReadonlyArray<Row>): string => ""
