/**
 * What the audit says: a report in Markdown for the file, a table for the terminal.
 */
import type { Decision, Question } from "./graph.js"
import { type Family, families } from "./licences.js"
import type { Finding } from "./project.js"

/** The part of the audit's state that reports are made of. */
interface Audited {
  readonly project: string
  readonly findings: ReadonlyArray<Finding>
  readonly tally: { readonly [family: string]: number }
  readonly decisions: ReadonlyArray<Decision>
}

/** `210 MIT, 21 ISC`: the licences of a family, the most frequent first. */
const licencesOf = (findings: ReadonlyArray<Finding>, family: Family): ReadonlyArray<string> => {
  const counts = new Map<string, number>()
  for (const finding of findings) {
    if (finding.family !== family || finding.licence === "") continue
    counts.set(finding.licence, (counts.get(finding.licence) ?? 0) + 1)
  }
  return Array.from(counts)
    .sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
    .map(([licence, count]) => `${count} ${licence}`)
}

const problemsOf = (findings: ReadonlyArray<Finding>): ReadonlyArray<string> =>
  findings.flatMap((finding) => (finding.problem === undefined ? [] : [`${finding.package}: ${finding.problem}`]))

/** `a, b, c and 4 more`. */
const some = (all: ReadonlyArray<string>, most: number): string =>
  all.length <= most ? all.join(", ") : `${all.slice(0, most).join(", ")} and ${all.length - most} more`

const plural = (count: number, one: string, many = `${one}s`) => `${count} ${count === 1 ? one : many}`

/** `3 packages: a, b, c`. */
export const packagesOf = ({ packages }: Question): string =>
  `${plural(packages.length, "package")}: ${some(packages, 4)}`

export const denied = ({ decisions }: Audited): ReadonlyArray<Decision> =>
  decisions.filter(({ verdict }) => verdict === "deny")

const verdictOf = (audited: Audited): string => {
  const refused = denied(audited)
  if (refused.length > 0)
    return `${plural(refused.length, "licence")} denied: ${refused.map((one) => one.licence).join(", ")}`
  if (audited.decisions.length === 0) return "every licence is on a list"
  return `${plural(audited.decisions.length, "unusual licence")} allowed`
}

/** What the table says where there is no licence to name. */
const remarks: { readonly [family in Family]?: string } = {
  missing: "neither the manifest nor a file says anything",
  "not installed": "optional, most often for another platform"
}

const cell = (text: string) => text.replaceAll("|", "\\|")

/** The report as Markdown. It depends on the state alone: a replayed node asks for the very same report. */
export const markdown = (audited: Audited): string => {
  const { decisions, findings, project, tally } = audited
  const problems = problemsOf(findings)
  const sorted = findings.slice().sort((a, b) => (a.package < b.package ? -1 : 1))
  const section = (title: string, lines: ReadonlyArray<string>) =>
    lines.length === 0 ? [] : ["", `## ${title}`, "", ...lines]
  return [
    `# Licences of ${project}`,
    "",
    `${plural(findings.length, "package")}, ${verdictOf(audited)}.`,
    "",
    "| Family | Packages | Licences |",
    "| --- | ---: | --- |",
    ...families
      .filter((family) => tally[family] !== undefined)
      .map((family) => `| ${family} | ${tally[family]} | ${cell(licencesOf(findings, family).join(", "))} |`),
    ...section(
      "Decisions",
      decisions.map((one) => `- **${one.verdict}** ${one.licence} (${one.family}): ${one.packages.join(", ")}`)
    ),
    ...section(
      "Problems",
      problems.map((problem) => `- ${problem}`)
    ),
    ...section("Packages", [
      "| Package | Licence | Family | Stated in |",
      "| --- | --- | --- | --- |",
      ...sorted.map((one) => `| ${one.package} | ${cell(one.licence)} | ${one.family} | ${one.source} |`)
    ]),
    ""
  ].join("\n")
}

/** The table that ends a run in the terminal. */
export const table = (audited: Audited): string => {
  const { decisions, findings, tally } = audited
  const rows = families
    .filter((family) => tally[family] !== undefined)
    .map((family) => [family, String(tally[family]), remarks[family] ?? some(licencesOf(findings, family), 5)] as const)
  const total = ["all", String(findings.length), ""] as const
  const width = (column: 0 | 1) => Math.max(...[...rows, total].map((row) => row[column].length), column === 0 ? 6 : 8)
  const line = ([family, count, licences]: readonly [string, string, string]) =>
    `  ${family.padEnd(width(0))}  ${count.padStart(width(1))}  ${licences}`.trimEnd()
  const problems = problemsOf(findings)
  return [
    line(["Family", "Packages", "Licences"]),
    `  ${"-".repeat(width(0))}  ${"-".repeat(width(1))}  --------`,
    ...rows.map(line),
    line(total),
    ...(decisions.length === 0 ? [] : ["", "Decisions"]),
    ...decisions.map((one) => `  ${one.verdict.padEnd(5)}  ${one.licence}  ${packagesOf(one)}`),
    ...(problems.length === 0 ? [] : ["", "Problems"]),
    ...problems.map((problem) => `  ${problem}`)
  ].join("\n")
}
