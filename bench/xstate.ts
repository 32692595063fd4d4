/** XState's side of the workloads. A state machine has no supersteps; its unit is an event. */
import { createActor, setup } from "xstate"
import { expectEqual, type Kind, type Open } from "./workload.js"

const counter = setup({ types: { context: {} as { count: number }, events: {} as { type: "add" } } })

const actions = counter.assign({ count: ({ context }) => context.count + 1 })

/** A machine with these states, and what the event does in them. */
const machineOf = (initial: string, targets: ReadonlyArray<readonly [state: string, target: string | undefined]>) =>
  counter.createMachine({
    context: { count: 0 },
    initial,
    states: Object.fromEntries(
      targets.map(([state, target]) => [
        state,
        { on: { add: target === undefined ? { actions } : { target, actions } } }
      ])
    )
  })

type Machine = ReturnType<typeof machineOf>

/** n states in a row: each event adds one and goes on. */
const chainOf = (n: number): Machine =>
  machineOf("state0", [
    ...Array.from({ length: n }, (_, i) => [`state${i}`, `state${i + 1}`] as const),
    [`state${n}`, undefined]
  ])

/** n states, of which one counts. */
const wideOf = (n: number): Machine =>
  machineOf("busy", [["busy", undefined], ...Array.from({ length: n - 1 }, (_, i) => [`state${i}`, "busy"] as const)])

const sending =
  (machine: Machine, events: number, kind: Kind = "none") =>
  async () => {
    const actor = createActor(machine).start()
    const log: Array<string> = []
    for (let i = 0; i < events; i++) {
      actor.send({ type: "add" })
      if (kind === "memory") log.push(JSON.stringify(actor.getPersistedSnapshot()))
    }
    expectEqual(actor.getSnapshot().context.count, events, "count")
  }

/** A counter that counts to n. */
export const loop =
  (kind: Kind): Open =>
  async (n) => ({ run: sending(wideOf(1), n, kind) })

export const chain: Open = async (n) => ({ run: sending(chainOf(n), n) })

/** As many events as the workload has supersteps, in a machine of n states. */
export const wide =
  (events: number): Open =>
  async (n) => ({ run: sending(wideOf(n), events) })

export const compile: Open = async (n) => ({
  run: async () => expectEqual(Object.keys(chainOf(n).states).length, n + 1, "number of states")
})
