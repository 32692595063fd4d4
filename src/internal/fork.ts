/**
 * Fibers of tasks: each has the run's services, one of its own, and its own copy of the run's `FiberRef`s.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as FiberRef from "effect/FiberRef"
import * as FiberRefs from "effect/FiberRefs"
import * as Runtime from "effect/Runtime"

type Services = ReadonlyMap<string, any>

/** Services and one more. `Context.add` would copy them all, for each task. */
class With implements Services {
  private copied: Services | undefined = undefined

  constructor(
    private readonly others: Services,
    private readonly key: string,
    private readonly service: unknown
  ) {}

  get(key: string) {
    return key === this.key ? this.service : this.others.get(key)
  }
  has(key: string) {
    return key === this.key || this.others.has(key)
  }

  private get all(): Services {
    return (this.copied ??= new Map(this.others).set(this.key, this.service))
  }
  get size() {
    return this.all.size
  }
  keys() {
    return this.all.keys()
  }
  values() {
    return this.all.values()
  }
  entries() {
    return this.all.entries()
  }
  [Symbol.iterator]() {
    return this.all[Symbol.iterator]()
  }
  forEach(callback: (value: any, key: string, map: Services) => void) {
    this.all.forEach(callback)
  }
}

/** Starts an effect at once, with a service of its own. */
export type Fork<Service> = <A, E>(effect: Effect.Effect<A, E, any>, service: Service) => Fiber.RuntimeFiber<A, E>

/** What every fiber is given anew. */
const GIVEN: ReadonlyArray<FiberRef.FiberRef<any>> = [
  FiberRef.currentContext,
  FiberRef.currentRuntimeFlags,
  FiberRef.currentScheduler
]

/** Starts effects that share a runtime, each with its own service of this tag. */
export const makeFork = <Id, Service>(runtime: Runtime.Runtime<any>, tag: Context.Tag<Id, Service>): Fork<Service> => {
  const { context, runtimeFlags } = runtime
  // Mostly nothing else is inherited, and no table has to be copied.
  const inherited = new Map(runtime.fiberRefs.locals)
  for (const given of GIVEN) inherited.delete(given)
  const fiberRefs = FiberRefs.unsafeMake(inherited)
  const scheduler = FiberRefs.get(runtime.fiberRefs, FiberRef.currentScheduler)
  const options: Runtime.RunForkOptions = scheduler._tag === "None" ? {} : { scheduler: scheduler.value }
  return (effect, service) =>
    Runtime.runFork(
      Runtime.make({
        context: Context.unsafeMake(new With(context.unsafeMap, tag.key, service) as unknown as Map<string, any>),
        runtimeFlags,
        fiberRefs
      }),
      effect,
      options
    )
}
