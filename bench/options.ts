/** The command line. */

export interface Options {
  readonly names: ReadonlyArray<string>
  readonly engines: ReadonlyArray<string>
  readonly sizes: ReadonlyArray<number>
  readonly exact: boolean
  readonly quick: boolean
  readonly json: boolean
  readonly check: boolean
  readonly save: boolean
  readonly html: string | undefined
  readonly repetitions: number | undefined
  readonly help: boolean
}

export const HELP = `Usage: npm run bench -- [options] [names]

Names choose workloads by their beginning: "loop" means loop, loop+memory and the rest.

  --exact             names are whole names
  --engine NAME       only this engine; may be repeated; mastra must be installed by hand: npm ci --prefix bench/mastra
  --size N            this size instead of the workload's own; may be repeated
  --repetitions N     at least 7 by default
  --quick             small sizes and short warm-ups: under a minute in all
  --json              one line of JSON for each result
  --html FILE         also plots of cost against size
  --check             fail when a ratio is under three quarters of the one in bench/baseline.json
  --save              write the ratios to bench/baseline.json
`

export const parse = (args: ReadonlyArray<string>): Options => {
  const names: Array<string> = []
  const engines: Array<string> = []
  const sizes: Array<number> = []
  const flags = new Set<string>()
  let html: string | undefined
  let repetitions: number | undefined
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]!
    const value = () => {
      const next = args[++i]
      if (next === undefined) throw new Error(`${arg} needs a value`)
      return next
    }
    const count = () => {
      const number = Number(value())
      if (!Number.isInteger(number) || number < 1) throw new Error(`${arg} needs a whole number above 0`)
      return number
    }
    if (arg === "--engine") engines.push(value())
    else if (arg === "--size") sizes.push(count())
    else if (arg === "--html") html = value()
    else if (arg === "--repetitions") repetitions = count()
    else if (["--exact", "--quick", "--json", "--check", "--save", "--help"].includes(arg)) flags.add(arg)
    else if (arg.startsWith("-")) throw new Error(`unknown option ${arg}`)
    else names.push(arg)
  }
  return {
    names,
    engines,
    sizes,
    html,
    repetitions,
    exact: flags.has("--exact"),
    quick: flags.has("--quick"),
    json: flags.has("--json"),
    check: flags.has("--check"),
    save: flags.has("--save"),
    help: flags.has("--help")
  }
}
