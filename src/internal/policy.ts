/** Policies of nodes, from the forms in which their options may be given. */
import type { CachePolicy, NodePolicy, RetryPolicy, TimeoutPolicy } from "../Topology.js"
import { timeoutPolicy } from "./timeout.js"

/** The options of a node that make its policy. `false` is no policy, also where the graph has a default. */
export interface PolicyOptions {
  readonly retry?: RetryPolicy | RetryPolicy["schedule"] | false | undefined
  readonly timeout?: TimeoutPolicy | TimeoutPolicy["run"] | false | undefined
  readonly cache?: CachePolicy | boolean | undefined
}

const retryOf = (retry: PolicyOptions["retry"]): RetryPolicy | undefined =>
  retry === undefined || retry === false ? undefined : "schedule" in retry ? retry : { schedule: retry }

const timeoutOf = (timeout: PolicyOptions["timeout"]): TimeoutPolicy | undefined =>
  timeout === undefined || timeout === false ? undefined : timeoutPolicy(timeout)

const cacheOf = (cache: PolicyOptions["cache"]): CachePolicy | undefined =>
  cache === true ? {} : cache === false ? undefined : cache

/** A node's policy: each part is its own, or the default where it says nothing. */
export const make = (options: PolicyOptions, defaults: PolicyOptions = {}): NodePolicy => ({
  retry: retryOf(options.retry ?? defaults.retry),
  timeout: timeoutOf(options.timeout ?? defaults.timeout),
  cache: cacheOf(options.cache ?? defaults.cache)
})
