/**
 * The threads of a graph as a service: an application that asks for it does not know whether its threads run in its own
 * process or in a cluster. Which of them is a matter of the layer.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { ParentSpan } from "effect/Tracer"
import type { Checkpointer } from "./Checkpointer.js"
import type { Any, CompiledGraph, Nodes, Requirements } from "./CompiledGraph.js"
import type { Subgraph, Thread } from "./Thread.js"

/** Gives handles on threads that need nothing. */
export interface Threads<
  in out State,
  in out Update,
  in out N extends Nodes,
  in out Ev,
  in out E,
  in out Full = State,
  in out FullUpdate = Update
> {
  readonly thread: (id: string) => Thread<State, Update, N, Ev, E, never, Full, FullUpdate, never>
}

/** The service of a graph's threads. */
export type Of<G> =
  G extends CompiledGraph<infer State, infer Update, infer N, infer Ev, infer E, any, infer Full, infer FullUpdate>
    ? Threads<State, Update, N, Ev, E, Full, FullUpdate>
    : never

type AnyThread = Thread<any, any, any, any, any, any, any, any, any>
type AnySubgraph = Subgraph<any, any, any, any, any, any>

/** A handle whose methods have what they need. */
export const provide = (thread: AnyThread, context: Context.Context<any>): AnyThread => {
  const effect =
    (method: (...args: Array<any>) => Effect.Effect<any, any, any>) =>
    (...args: Array<any>) =>
      Effect.mapInputContext(method(...args), over(context))
  const stream =
    (method: (...args: Array<any>) => Stream.Stream<any, any, any>) =>
    (...args: Array<any>) =>
      Stream.mapInputContext(method(...args), over(context))
  return {
    id: thread.id,
    invoke: effect(thread.invoke),
    run: effect(thread.run),
    stream: stream(thread.stream as never),
    resume: effect(thread.resume as never),
    answer: effect(thread.answer),
    resumeStream: stream(thread.resumeStream as never),
    state: Effect.mapInputContext(thread.state, over(context)),
    history: stream(thread.history),
    update: effect(thread.update),
    updateAll: effect(thread.updateAll),
    copy: Effect.mapInputContext(thread.copy, over(context)),
    branches: Effect.mapInputContext(thread.branches, over(context)),
    copyTo: effect(thread.copyTo),
    subgraphs: Effect.mapInputContext(thread.subgraphs, over(context)),
    subgraph: (child: any, namespace: string) => provideSubgraph(thread.subgraph(child, namespace), context),
    at: (checkpoint: string) => provide(thread.at(checkpoint), context),
    cancel: Effect.mapInputContext(thread.cancel, over(context)),
    delete: Effect.mapInputContext(thread.delete, over(context))
  } as AnyThread
}

const provideSubgraph = (subgraph: AnySubgraph, context: Context.Context<any>): AnySubgraph => ({
  state: Effect.mapInputContext(subgraph.state, over(context)),
  history: (options) => Stream.mapInputContext(subgraph.history(options), over(context)),
  update: (update, options) => Effect.mapInputContext(subgraph.update(update, options), over(context)),
  at: (checkpoint) => provideSubgraph(subgraph.at(checkpoint), context),
  resumeThread: (options) => Effect.mapInputContext(subgraph.resumeThread(options), over(context)),
  subgraphs: Effect.mapInputContext(subgraph.subgraphs, over(context))
})

/** What a handle was made with, over what its caller has; the span is the caller's. */
const over = (context: Context.Context<any>) => {
  const own = Context.omit(ParentSpan)(context as Context.Context<ParentSpan>)
  return (callers: Context.Context<never>) => Context.merge(callers, own) as Context.Context<any>
}

/**
 * The graph's threads, run in this process.
 *
 * @example
 * ```ts
 * import { Context, Effect, Schema } from "effect"
 * import { Channel, Checkpointer, Graph, Threads } from "effect-pregel"
 *
 * const counter = Graph.make("counter", { count: Channel.lastValue(Schema.Number) })
 *   .addNode("add", ({ count = 0 }) => Effect.succeed({ count: count + 1 }))
 *   .addEdge(Graph.START, "add")
 *   .compile()
 *
 * class Counters extends Context.Tag("Counters")<Counters, Threads.Of<typeof counter>>() {}
 *
 * const program = Effect.flatMap(Counters, (counters) => counters.thread("visits").invoke({ count: 1 }))
 * const local = program.pipe(Effect.provide(Threads.layer(Counters, counter)), Effect.provide(Checkpointer.layerMemory))
 * ```
 */
export const layer = <I, G extends Any>(
  tag: Context.Tag<I, Of<G>>,
  graph: G
): Layer.Layer<I, never, Requirements<G> | Checkpointer> =>
  Layer.effect(
    tag,
    Effect.map(
      Effect.context<Requirements<G> | Checkpointer>(),
      (context) => ({ thread: (id: string) => provide(graph.thread(id) as AnyThread, context) }) as unknown as Of<G>
    )
  )
