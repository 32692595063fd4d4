/** What the parent and its engines say to each other. */

export type Request = { readonly _tag: "Run" } | { readonly _tag: "Exit" }

export type Reply =
  | { readonly _tag: "Ready"; readonly lastMs: number }
  | {
      readonly _tag: "Done"
      readonly ms: number
      /** Of all threads of the process, so that it may be more than the time that passed. */
      readonly cpuMs: number
      readonly peakRssMb: number
      readonly fileBytes: number | undefined
    }
  | { readonly _tag: "Failed"; readonly error: string }

/** What a child process is started with, as JSON. */
export interface Task {
  readonly workload: string
  readonly engine: string
  readonly n: number
  readonly directory: string
  /** CPU time to warm up for, in milliseconds. */
  readonly warmUpMs: number
  readonly warmUpRuns: number
  /** CPU time to warm up for at each turn. */
  readonly againMs: number
}
