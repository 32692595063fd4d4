import * as SqlClient from "@effect/sql/SqlClient"
import * as PgClient from "@effect/sql-pg/PgClient"
import { Annotation, Command, interrupt, START, StateGraph } from "@langchain/langgraph"
import { deltaChannelHistoryTests, specTest } from "@langchain/langgraph-checkpoint-validation"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Redacted from "effect/Redacted"
import * as vitest from "vitest"
import * as Checkpointer from "../src/Checkpointer.js"
import * as SqlCheckpointer from "../src/SqlCheckpointer.js"
import * as SqliteCheckpointer from "../src/SqliteCheckpointer.js"
import { LangGraphSaver } from "./langgraph/LangGraphSaver.js"

const { assert, describe, inject, it } = vitest

// LangGraph's suite takes the test functions from the global scope.
Object.assign(globalThis, vitest)

type Storage = Layer.Layer<Checkpointer.Checkpointer, unknown>

const runtimes = new WeakMap<LangGraphSaver, ManagedRuntime.ManagedRuntime<Checkpointer.Checkpointer, unknown>>()

const create = (layer: () => Storage) => {
  const runtime = ManagedRuntime.make(layer())
  const saver = new LangGraphSaver(runtime)
  runtimes.set(saver, runtime)
  return saver
}

const initializer = (checkpointerName: string, layer: () => Storage) => ({
  checkpointerName,
  createCheckpointer: () => create(layer),
  destroyCheckpointer: async (saver: LangGraphSaver) => {
    await runtimes.get(saver)!.dispose()
  }
})

/** The suite lists without a thread: every saver gets a schema of its own. */
const postgres = (): Storage => {
  const schema = `langgraph_${Math.random().toString(36).slice(2)}`
  const url = inject("pgUrl")
  const admin = Effect.scoped(
    Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(`CREATE SCHEMA ${schema}`)).pipe(
      Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 1 }))
    )
  )
  const client = PgClient.layer({
    url: Redacted.make(`${url}?options=-c%20search_path%3D${schema}`),
    maxConnections: 2
  })
  return Layer.unwrapEffect(Effect.as(admin, Layer.provide(SqlCheckpointer.layer(), client)))
}

const storages = [
  ["memory", () => Checkpointer.layerMemory],
  ["SQLite", () => SqliteCheckpointer.layer({ filename: ":memory:" })],
  ["PostgreSQL", postgres]
] as const

for (const [name, layer] of storages) {
  specTest(initializer(`effect-pregel ${name}`, layer) as never)
  deltaChannelHistoryTests(initializer(`effect-pregel ${name}`, layer) as never)

  describe(`LangGraph on ${name}`, () => {
    it("pauses at an interrupt, resumes, and tells its history", async () => {
      const saver = create(layer)
      let asked = 0
      const State = Annotation.Root({
        log: Annotation<Array<string>>({ reducer: (a, b) => [...a, ...b], default: () => [] })
      })
      const graph = new StateGraph(State)
        .addNode("ask", () => {
          asked++
          return { log: [`answer: ${interrupt("how many?")}`] }
        })
        .addNode("end", () => ({ log: ["end"] }))
        .addEdge(START, "ask")
        .addEdge("ask", "end")
        .compile({ checkpointer: saver as never })
      const config = { configurable: { thread_id: "order" } }
      await graph.invoke({ log: ["input"] }, config)
      const paused = await graph.getState(config)
      assert.deepStrictEqual(paused.next, ["ask"])
      const result = await graph.invoke(new Command({ resume: 3 }), config)
      assert.deepStrictEqual(result.log, ["input", "answer: 3", "end"])
      assert.strictEqual(asked, 2)
      const logs: Array<unknown> = []
      for await (const one of graph.getStateHistory(config)) logs.push(one.values.log?.length)
      assert.deepStrictEqual(logs, [3, 2, 1, 0])
      await runtimes.get(saver)!.dispose()
    })
  })
}
