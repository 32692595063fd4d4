/** Specs on this engine. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Algo from "effect-pregel/Algo"
import * as Channel from "effect-pregel/Channel"
import { type Checkpointer, layerMemory } from "effect-pregel/Checkpointer"
import * as Command from "effect-pregel/Command"
import * as Graph from "effect-pregel/Graph"
import * as Interrupt from "effect-pregel/Interrupt"
import * as Send from "effect-pregel/Send"
import * as Task from "effect-pregel/Task"
import type { Quirks } from "../model.js"
import { modelAlgo } from "../modelAlgo.js"
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
import { type ChildSpec, type GraphSpec, LASTING, type NodeSpec, type Packet, type Spec, START } from "./Spec.js"
import { type CallResult, drive, type Engine, Probe, type Status } from "./Trace.js"

export const channels = {
  log: Channel.append(Schema.String),
  sum: Channel.reduce(Schema.Number, { initial: () => 0, reducer: add }),
  mix: Channel.reduce(Schema.Number, { initial: () => 0, reducer: mix }),
  last: Channel.lastValue(Schema.Number),
  any: Channel.anyValue(Schema.Number),
  topic: Channel.topic(Schema.Number),
  flash: Channel.ephemeral(Schema.Number, { guard: false })
}

class Boom extends Error {
  readonly _tag = "Boom"
}

const sendOf = ({ last, to }: Packet) => Send.make(to, { last })

const resultOf = (node: NodeSpec, { goto, sends, update }: Output): unknown => {
  const places = [...goto, ...sends.map(sendOf)]
  switch (node.form) {
    case "none":
      return places.length === 0 ? undefined : Command.make({ goto: places })
    case "update":
      return places.length === 0 ? update : Command.make({ update, goto: places })
    case "command":
      return Command.make({ update, goto: places })
    case "list":
      return [update, Command.make({ goto: places })]
    case "pairs":
      return Command.make({ update: [...Object.entries(update), ["log", ["+"]]] as never, goto: places })
  }
}

const bodyOf = (node: NodeSpec, probe: Probe) =>
  Effect.fnUntraced(function* (state: State) {
    probe.begun++
    const task = yield* Task.current
    const answers: Array<string> = []
    for (let i = 0; i < node.asks; i++) answers.push(yield* Interrupt.interrupt<string>(questionOf(node, state, i)))
    if (probe.call < node.failsUntil) {
      yield* Effect.promise(() => probe.quiet())
      return yield* Effect.fail(new Boom(node.name))
    }
    const index = /#(\d+)$/.exec(task.id)?.[1]
    probe.executions.push({
      graph: task.namespace.join("|"),
      step: task.step,
      node: node.name,
      index: index === undefined ? -1 : Number(index)
    })
    return resultOf(node, outputOf(node, state, answers))
  })

const addChild = (graph: any, name: string, { graph: spec, mapped }: ChildSpec, probe: Probe) =>
  graph.addGraph(
    name,
    build(name, spec, probe, LASTING).compile(),
    mapped
      ? {
          input: (state: State) => ({ log: [`${name}>`], sum: state.sum ?? 0 }),
          output: (state: State) => ({ log: state.log, mix: state.sum })
        }
      : {}
  )

/** A subgraph gives back what lasts: see `LASTING`. */
export const build = (name: string, spec: GraphSpec, probe: Probe, output?: ReadonlyArray<string>): any => {
  let graph: any = Graph.make(name, channels, { output: output as never })
  for (const node of spec.nodes) {
    if (node.child !== undefined) graph = addChild(graph, node.name, node.child, probe)
    else graph = graph.addNode(node.name, bodyOf(node, probe), { defer: node.defer, goto: gotoTargets(node) })
  }
  for (const [from, to] of spec.edges) graph = graph.addEdge(from, to)
  for (const { from, optional, to } of spec.joins) graph = graph.addEdge(from, to, { optional })
  for (const branch of spec.branches) {
    const route = (state: State) => {
      const { sends, to } = destinationsOf(branch.arms, branch.otherwise, state)
      return [...to, ...sends.map(sendOf)]
    }
    graph = graph.addConditionalEdges(branch.from, route, targetsOf(branch))
  }
  return graph
}

const STATUS: Record<string, Status> = {
  Boom: "failed",
  GraphRecursion: "recursion",
  InvalidUpdate: "conflict",
  JoinUnsatisfied: "join"
}

const resultFrom = (exit: Either.Either<Graph.Outcome<unknown>, unknown>): CallResult => {
  if (Either.isRight(exit)) {
    const outcome = exit.right
    if (outcome._tag === "Completed") return { status: "completed", interrupts: [] }
    const interrupts = outcome.interrupts.map(({ id, value }) => ({ id, value: String(value) }))
    return { status: interrupts.length === 0 ? "stopped" : "paused", interrupts }
  }
  const error = exit.left as {
    readonly _tag: string
    readonly message: string
    readonly interrupts?: ReadonlyArray<any>
  }
  if (error._tag === "GraphInterrupt") {
    const interrupts = error.interrupts!.map(({ id, value }) => ({ id, value: String(value) }))
    return { status: interrupts.length === 0 ? "stopped" : "paused", interrupts }
  }
  return { status: STATUS[error._tag] ?? "refused", interrupts: [], error: `${error._tag}: ${error.message}` }
}

/** The engine's own algorithm. */
export const algo: Algo.Algo.Service = {
  prepareNextTasks: Algo.prepareNextTasks,
  applyWrites: Algo.applyWrites,
  applyUpdate: Algo.applyUpdate,
  shouldInterrupt: Algo.shouldInterrupt,
  localRead: Algo.localRead
}

/** Runs a spec here; on another checkpointer, or with another algorithm, if wanted. */
export const runOurs = (spec: Spec, layer: Layer.Layer<Checkpointer> = layerMemory) => {
  const probe = new Probe()
  return drive(spec, engineOf(spec, probe, layer), probe)
}

/** Runs a spec here on the reference model, with some of LangGraph's peculiarities. */
export const runModel = (spec: Spec, quirks: Quirks = {}) =>
  runOurs(spec, Layer.merge(layerMemory, Algo.layer(modelAlgo(algo, quirks))))

const engineOf = (spec: Spec, probe: Probe, layer: Layer.Layer<Checkpointer>): Engine => {
  const runtime = ManagedRuntime.make(layer)
  const graph = build("g", spec.graph, probe).compile()
  const thread = graph.thread("t")
  const options = { recursionLimit: spec.limit, interruptBefore: spec.before, interruptAfter: spec.after }
  const run = async (effect: Effect.Effect<any, any, any>): Promise<CallResult> =>
    resultFrom(await runtime.runPromise(Effect.either(effect)))
  const completed = <A>(effect: Effect.Effect<A, any, any>) =>
    Effect.map(effect, (state) => ({ _tag: "Completed" as const, state }))
  return {
    invoke: ({ log, sum }) => run(thread.run({ log: [log], sum }, options)),
    resume: (answers) =>
      run(completed(answers === undefined ? thread.resume(options) : thread.resume(answers, options))),
    update: async ({ as, sum }) => {
      const exit = (await runtime.runPromise(
        Effect.either(thread.update({ log: ["update"], sum }, { as }))
      )) as Either.Either<string, any>
      if (Either.isRight(exit)) return "completed"
      probe.errors.push(`update: ${exit.left}`)
      return STATUS[exit.left._tag] ?? "refused"
    },
    replay: (id) => run(completed(thread.at(id).resume(options))),
    state: async () => {
      const { next, values } = await runtime.runPromise(thread.state as Effect.Effect<any, any, Checkpointer>)
      return { next, values }
    },
    history: async () => {
      const all = await runtime.runPromise(Stream.runCollect(thread.history() as Stream.Stream<any, any, Checkpointer>))
      return Array.from(all)
        .reverse()
        .map(({ checkpoint, next, values }) => ({
          id: checkpoint.id,
          parent: checkpoint.parent?.id,
          source: checkpoint.source,
          step: checkpoint.step,
          next,
          values
        }))
    },
    executions: probe.executions,
    close: () => runtime.dispose()
  }
}

export { START }
