/** What a run of a spec shows, and the one driver that runs it on either engine. */
import { answerTo } from "./Behaviour.js"
import { type Action, MAX_CALLS, type Spec } from "./Spec.js"

export type Values = Readonly<Record<string, unknown>>

/** How a call ended. */
export type Status = "completed" | "paused" | "stopped" | "failed" | "recursion" | "conflict" | "join" | "refused"

export interface CallResult {
  readonly status: Status
  readonly interrupts: ReadonlyArray<{ readonly id: string; readonly value: string }>
  readonly error?: string
}

/** A finished task: `graph` is the namespace of its run, `index` the packet's for a `Send`. */
export interface Execution {
  readonly graph: string
  readonly step: number
  readonly node: string
  readonly index: number
}

export interface HistoryEntry {
  readonly id: string
  readonly parent: string | undefined
  readonly source: string
  readonly step: number
  readonly next: ReadonlyArray<string>
  readonly values: Values
}

/** A thread of one of the engines. */
export interface Engine {
  readonly invoke: (action: Extract<Action, { _tag: "Input" }>) => Promise<CallResult>
  readonly resume: (answers: Readonly<Record<string, string>> | undefined) => Promise<CallResult>
  readonly update: (action: Extract<Action, { _tag: "Update" }>) => Promise<Status>
  readonly replay: (id: string) => Promise<CallResult>
  /** `undefined` when the engine can't show it. */
  readonly state: () => Promise<{ readonly values: Values; readonly next: ReadonlyArray<string> } | undefined>
  /** Oldest first. */
  readonly history: () => Promise<ReadonlyArray<HistoryEntry>>
  readonly executions: ReadonlyArray<Execution>
  readonly close: () => Promise<void>
}

export interface Call {
  readonly what: string
  readonly status: Status
  readonly questions: ReadonlyArray<string>
  readonly values: Values
  readonly next: ReadonlyArray<string>
}

export interface Trace {
  readonly calls: ReadonlyArray<Call>
  readonly history: ReadonlyArray<{
    readonly source: string
    readonly step: number
    readonly parent: number
    readonly next: ReadonlyArray<string>
    readonly values: Values
  }>
  /** For each graph that ran, the nodes of each superstep. */
  readonly steps: ReadonlyArray<string>
  /** Tasks that finished more than once. */
  readonly repeated: ReadonlyArray<string>
  readonly errors: ReadonlyArray<string>
}

/** What a node function shares with its driver. */
export class Probe {
  /** Number of the call, from 0: nodes fail by it. */
  call = -1
  /** Node functions that began. */
  begun = 0
  readonly executions: Array<Execution> = []
  readonly errors: Array<string> = []

  /** Waits until no other node begins: a node that fails then fails last. */
  async quiet(): Promise<void> {
    for (let turns = 0, seen = this.begun; turns < 25; turns++) {
      await new Promise((resolve) => setImmediate(resolve))
      if (this.begun !== seen) {
        seen = this.begun
        turns = 0
      }
    }
  }
}

/** Statuses after which a thread is not driven further. */
const isEnd = (status: Status) =>
  status === "recursion" || status === "conflict" || status === "join" || status === "refused"

class Driver {
  readonly calls: Array<Call> = []
  constructor(
    readonly spec: Spec,
    readonly engine: Engine,
    readonly probe: Probe
  ) {}

  private async record(what: string, run: () => Promise<CallResult>): Promise<CallResult> {
    this.probe.call++
    const result = await run()
    const questions = result.interrupts.map(({ value }) => value).sort()
    if (result.error !== undefined) this.probe.errors.push(`${what}: ${result.error}`)
    const state = result.status === "conflict" ? { values: {}, next: [] } : await this.engine.state()
    const status = state === undefined ? "conflict" : result.status
    const { next, values } = state ?? { values: {}, next: [] }
    this.calls.push({ what, status, questions, values, next: next.slice().sort() })
    // A stop with nothing left to run is an end.
    return { ...result, status: status === "stopped" && next.length === 0 ? "completed" : status }
  }

  /** Answers, and repeats failed steps, until the run has ended. */
  private async goOn(result: CallResult): Promise<CallResult> {
    let last = result
    for (let i = 0; i < MAX_CALLS && last.status !== "completed" && !isEnd(last.status); i++) {
      const sorted = last.interrupts.slice().sort((a, b) => (a.value < b.value ? -1 : a.value > b.value ? 1 : 0))
      // Equal questions are answered together: which of them is first is nobody's business.
      const chosen = this.spec.answers === "all" ? sorted : sorted.filter(({ value }) => value === sorted[0]!.value)
      const answers = Object.fromEntries(chosen.map(({ id, value }) => [id, answerTo(value)]))
      last = await this.record("resume", () => this.engine.resume(chosen.length === 0 ? undefined : answers))
    }
    return last
  }

  private async perform(action: Action): Promise<CallResult | undefined> {
    switch (action._tag) {
      case "Input": {
        const result = await this.record("input", () => this.engine.invoke(action))
        return action.abandon ? result : this.goOn(result)
      }
      case "Update": {
        const status = await this.engine.update(action)
        if (isEnd(status)) return { status, interrupts: [] }
        return this.goOn(await this.record("after update", () => this.engine.resume(undefined)))
      }
      case "Replay": {
        const history = await this.engine.history()
        const from = history[history.length - 1 - action.back]
        if (from === undefined) return undefined
        return this.goOn(await this.record("replay", () => this.engine.replay(from.id)))
      }
    }
  }

  async run(): Promise<Trace> {
    for (const action of this.spec.actions) {
      const result = await this.perform(action)
      if (result !== undefined && isEnd(result.status)) break
    }
    const entries = await this.engine.history()
    const { repeated, steps } = stepsOf(this.engine.executions)
    return {
      calls: this.calls,
      history: entries.map(({ next, parent, source, step, values }) => ({
        source,
        step,
        parent: entries.findIndex(({ id }) => id === parent),
        next: next.slice().sort(),
        values
      })),
      steps,
      repeated,
      errors: this.probe.errors
    }
  }
}

/** The nodes of each superstep by graph run; ids of runs are replaced by the names of the tasks that lead to them. */
const stepsOf = (executions: ReadonlyArray<Execution>) => {
  const graphs = new Map<string, Map<number, Map<string, number>>>()
  for (const { graph, index, node, step } of executions) {
    const steps = graphs.get(graph) ?? new Map<number, Map<string, number>>()
    const tasks = steps.get(step) ?? new Map<string, number>()
    const key = index < 0 ? node : `${node}#${index}`
    graphs.set(graph, steps.set(step, tasks.set(key, (tasks.get(key) ?? 0) + 1)))
  }
  const repeated: Array<string> = []
  const steps: Array<string> = []
  for (const [graph, run] of graphs) {
    const name = graph.replace(/:[^|]*/g, "")
    const parts: Array<string> = []
    for (const [step, tasks] of Array.from(run).sort(([a], [b]) => a - b)) {
      parts.push(`${step}=${Array.from(tasks.keys()).sort().join(" ")}`)
      for (const [task, count] of tasks) if (count > 1) repeated.push(`${name}/${step}/${task} x${count}`)
    }
    steps.push(`${name === "" ? "root" : name}: ${parts.join(" | ")}`)
  }
  return { repeated: repeated.sort(), steps: steps.sort() }
}

/** Runs a spec on an engine. */
export const drive = async (spec: Spec, engine: Engine, probe: Probe): Promise<Trace> => {
  try {
    return await new Driver(spec, engine, probe).run()
  } finally {
    await engine.close()
  }
}
