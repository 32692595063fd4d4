/** LangGraph's side of the workloads: loaded only in processes that run it. */
import { Annotation, type BaseCheckpointSaver, MemorySaver, START, StateGraph } from "@langchain/langgraph"
import { newFile, openDatabase, removeFile, type Synchronous } from "./sqlite.js"
import type { Kind, Place } from "./workload.js"

export * from "@langchain/langgraph"

const Count = Annotation.Root({
  count: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 })
})

/** A graph of n nodes in a row, each adding one. */
export const chainOf = (n: number) => {
  const builder = new StateGraph(Count) as StateGraph<
    typeof Count.spec,
    typeof Count.State,
    typeof Count.Update,
    string,
    typeof Count.spec,
    typeof Count.spec
  >
  for (let i = 0; i < n; i++) builder.addNode(`node${i}`, () => ({ count: 1 }))
  builder.addEdge(START, "node0")
  for (let i = 1; i < n; i++) builder.addEdge(`node${i - 1}`, `node${i}`)
  return builder
}

/** A saver of some kind, new for each run. */
export class Saver {
  private file = ""
  private close = () => {}
  saver: BaseCheckpointSaver | undefined
  private constructor(
    private readonly make: (file: string) => { saver: BaseCheckpointSaver | undefined; close: () => void },
    private readonly directory: string,
    private readonly onFile: boolean
  ) {}

  static async open(kind: Kind, { directory }: Place, synchronous: Synchronous = "normal"): Promise<Saver> {
    const close = () => {}
    if (kind === "none") return new Saver(() => ({ saver: undefined, close }), directory, false)
    if (kind === "memory") return new Saver(() => ({ saver: new MemorySaver(), close }), directory, false)
    const { SqliteSaver } = await import("@langchain/langgraph-checkpoint-sqlite")
    const make = (file: string) => {
      const db = openDatabase(file, synchronous)
      return { saver: new SqliteSaver(db), close: () => void db.close() }
    }
    return new Saver(make, directory, true)
  }

  readonly before = async (): Promise<void> => {
    this.file = newFile(this.directory)
    const { close, saver } = this.make(this.file)
    this.saver = saver
    this.close = close
  }

  readonly after = async (): Promise<number | undefined> => {
    this.close()
    return this.onFile ? removeFile(this.file) : undefined
  }

  /** What `compile` takes. */
  get options(): { checkpointer?: BaseCheckpointSaver } {
    return this.saver === undefined ? {} : { checkpointer: this.saver }
  }
}
