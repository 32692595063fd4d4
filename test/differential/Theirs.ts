/** Specs on LangGraph JS. */
import { RunnableLambda } from "@langchain/core/runnables"
import { Annotation, Command, END, interrupt, MemorySaver, Send, START, StateGraph } from "@langchain/langgraph"
import { AnyValue, EphemeralValue, Topic } from "@langchain/langgraph/channels"
import {
  add,
  destinationsOf,
  gotoTargets,
  mix,
  type Output,
  outputOf,
  questionOf,
  type State,
  targetsOf
} from "./Behaviour.js"
import type { GraphSpec, NodeSpec, Packet, Spec } from "./Spec.js"
import { type CallResult, drive, type Engine, Probe, type Status } from "./Trace.js"

const lasting = {
  log: Annotation<ReadonlyArray<string>>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  sum: Annotation<number>({ reducer: add, default: () => 0 }),
  mix: Annotation<number>({ reducer: mix, default: () => 0 }),
  last: Annotation<number>()
}

const annotation = () =>
  Annotation.Root({
    ...lasting,
    any: () => new AnyValue<number>(),
    topic: () => new Topic<number>(),
    flash: () => new EphemeralValue<number>(false)
  } as never)

class Boom extends Error {
  override readonly name = "Boom"
}

const sendOf = ({ last, to }: Packet) => new Send(to, { last })

const resultOf = (node: NodeSpec, { goto, sends, update }: Output): unknown => {
  const places = [...goto, ...sends.map(sendOf)]
  switch (node.form) {
    case "none":
      return places.length === 0 ? null : new Command({ goto: places })
    case "update":
      return places.length === 0 ? update : new Command({ update, goto: places })
    case "command":
      return new Command({ update, goto: places })
    case "list":
      return [update, new Command({ goto: places })]
    case "pairs":
      return new Command({ update: [...Object.entries(update), ["log", ["+"]]] as never, goto: places })
  }
}

const bodyOf = (node: NodeSpec, probe: Probe) => async (state: State, config: any) => {
  probe.begun++
  const answers: Array<string> = []
  for (let i = 0; i < node.asks; i++) answers.push(interrupt(questionOf(node, state, i)) as string)
  if (probe.call < node.failsUntil) {
    await probe.quiet()
    throw new Boom(node.name)
  }
  const { langgraph_checkpoint_ns: namespace, langgraph_path: path, langgraph_step: step } = config.metadata
  probe.executions.push({
    graph: String(namespace).split("|").slice(0, -1).join("|"),
    step,
    node: node.name,
    index: path[0] === "__pregel_push" ? Number(path[1]) : -1
  })
  return resultOf(node, outputOf(node, state, answers))
}

const childBody = (node: NodeSpec, probe: Probe): any => {
  const { graph, mapped } = node.child!
  const child = build(graph, probe, Annotation.Root(lasting)).compile()
  if (!mapped) return child
  return async (state: State, config: any) => {
    const out = (await child.invoke({ log: [`${node.name}>`], sum: state.sum ?? 0 }, config)) as State
    return { log: out.log, mix: out.sum }
  }
}

const build = (spec: GraphSpec, probe: Probe, output?: unknown): any => {
  const state = annotation()
  const graph: any = new StateGraph((output === undefined ? state : { stateSchema: state, output }) as any)
  for (const node of spec.nodes) {
    const body = node.child === undefined ? bodyOf(node, probe) : childBody(node, probe)
    graph.addNode(node.name, body, { defer: node.defer, ends: gotoTargets(node) })
  }
  for (const [from, to] of spec.edges) graph.addEdge(from, to)
  for (const { from, to } of spec.joins) graph.addEdge(from, to)
  spec.branches.forEach((branch, i) => {
    const route = (state: State) => {
      const { sends, to } = destinationsOf(branch.arms, branch.otherwise, state)
      return [...to, ...sends.map(sendOf)]
    }
    const path = RunnableLambda.from(route)
    path.name = `route${i}`
    graph.addConditionalEdges(branch.from, path, targetsOf(branch))
  })
  return graph
}

const STATUS: Record<string, Status> = {
  Boom: "failed",
  GraphRecursionError: "recursion",
  InvalidUpdateError: "conflict"
}

/** Several tasks that failed in one superstep fail together there; here the first one stops the others. */
const statusOf = (error: unknown): Status => {
  const first = error instanceof AggregateError ? error.errors[0] : error
  return STATUS[(first as Error).name] ?? "refused"
}

/** Runs a spec there. */
export const runTheirs = (spec: Spec) => {
  const probe = new Probe()
  return drive(spec, engineOf(spec, probe), probe)
}

const clean = (values: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))

const engineOf = (spec: Spec, probe: Probe): Engine => {
  const graph = build(spec.graph, probe).compile({ checkpointer: new MemorySaver() })
  const thread = { configurable: { thread_id: "t" } }
  const listed = (nodes: ReadonlyArray<string>) => (nodes.length === 0 ? undefined : nodes)
  const options = (more: object = {}) => ({
    configurable: { ...thread.configurable, ...more },
    recursionLimit: spec.limit,
    interruptBefore: listed(spec.before),
    interruptAfter: listed(spec.after)
  })
  const run = async (input: unknown, more?: object): Promise<CallResult> => {
    try {
      const result = await graph.invoke(input, options(more))
      const interrupts = (result?.__interrupt__ ?? []).map(({ id, value }: any) => ({ id, value: String(value) }))
      if (interrupts.length > 0) return { status: "paused", interrupts }
      const stopped = result !== null && typeof result === "object" && "__interrupt__" in result
      return { status: stopped ? "stopped" : "completed", interrupts: [] }
    } catch (error) {
      const { message, name } = error as Error
      return { status: statusOf(error), interrupts: [], error: `${name}: ${message}` }
    }
  }
  return {
    invoke: ({ log, sum }) => run({ log: [log], sum }),
    resume: (answers) => run(answers === undefined ? null : new Command({ resume: answers })),
    update: async ({ as, sum }) => {
      try {
        await graph.updateState(thread, { log: ["update"], sum }, as)
        return "completed"
      } catch (error) {
        const { message, name } = error as Error
        probe.errors.push(`update: ${name}: ${message}`)
        return statusOf(error)
      }
    },
    replay: (id) => run(null, { checkpoint_id: id }),
    state: async () => {
      try {
        const { next, values } = await graph.getState(thread)
        return { next, values: clean(values) }
      } catch (error) {
        probe.errors.push(`state: ${error}`)
        return undefined
      }
    },
    history: async () => {
      const entries: Array<any> = []
      for await (const entry of graph.getStateHistory(thread)) entries.push(entry)
      return entries.reverse().map(({ config, metadata, next, parentConfig, values }) => ({
        id: config.configurable.checkpoint_id,
        parent: parentConfig?.configurable?.checkpoint_id,
        source: metadata.source,
        step: metadata.step,
        next,
        values: clean(values)
      }))
    },
    executions: probe.executions,
    close: () => Promise.resolve()
  }
}

export { END, START }
