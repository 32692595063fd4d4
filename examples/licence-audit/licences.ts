/**
 * What a licence means: from an SPDX expression, or the text of a licence file, to a family.
 *
 * Plain functions, no effects: the part of the audit that has nothing to do with graphs.
 */
import { Option, Schema } from "effect"

export const Family = Schema.Literal(
  "permissive",
  "weak copyleft",
  "strong copyleft",
  "unusual",
  "missing",
  "not installed"
)
export type Family = typeof Family.Type

/** Families from the one that asks least of a user to the one that asks most. */
export const families: ReadonlyArray<Family> = Family.literals

/** Families that a person has to decide about. */
export const needsDecision = (family: Family): boolean =>
  family === "strong copyleft" || family === "unusual" || family === "missing"

const permissive = `0BSD AFL-3.0 Apache-1.1 Apache-2.0 Artistic-2.0 BSD-2-Clause BSD-3-Clause BSL-1.0 CC-BY-3.0 CC-BY-4.0
  CC0-1.0 ISC MIT MIT-0 NCSA PostgreSQL Python-2.0 Unicode-3.0 Unicode-DFS-2016 Unlicense UPL-1.0 W3C X11 Zlib`
const weak = "CDDL-1.0 CDDL-1.1 EPL-1.0 EPL-2.0 LGPL-2.0 LGPL-2.1 LGPL-3.0 MPL-1.1 MPL-2.0 MS-RL OSL-3.0"
const strong = "AGPL-1.0 AGPL-3.0 CC-BY-SA-3.0 CC-BY-SA-4.0 EUPL-1.1 EUPL-1.2 GPL-2.0 GPL-3.0 SSPL-1.0"

const known = new Map<string, Family>()
for (const [family, ids] of [
  ["permissive", permissive],
  ["weak copyleft", weak],
  ["strong copyleft", strong]
] as const) {
  for (const id of ids.split(/\s+/)) known.set(id.toLowerCase(), family)
}

/** Names that manifests use although SPDX spells them otherwise. */
const aliases = new Map([
  ["apache 2.0", "Apache-2.0"],
  ["apache license 2.0", "Apache-2.0"],
  ["apache license, version 2.0", "Apache-2.0"],
  ["apache2", "Apache-2.0"],
  ["bsd", "BSD-2-Clause"],
  ["gplv2", "GPL-2.0"],
  ["gplv3", "GPL-3.0"],
  ["lgplv3", "LGPL-3.0"],
  ["mit license", "MIT"],
  ["mit/x11", "MIT"],
  ["public domain", "CC0-1.0"],
  ["the mit license", "MIT"]
])

/** An SPDX id as the tables above spell it: no `+`, no `-only`, no `-or-later`. */
const familyOfId = (id: string): Family => known.get(id.toLowerCase().replace(/\+$|-only$|-or-later$/, "")) ?? "unusual"

const rank = (family: Family) => families.indexOf(family)
/** Whoever uses the package may choose: the one that asks least. */
const either = (a: Family, b: Family) => (rank(a) <= rank(b) ? a : b)
/** All of them apply: the one that asks most. */
const both = (a: Family, b: Family) => (rank(a) >= rank(b) ? a : b)

/**
 * The family of an SPDX expression such as `(MIT OR Apache-2.0) AND BSD-3-Clause`. What is no expression is unusual.
 */
export const familyOf = (licence: string): Family => {
  const tokens = (aliases.get(licence.trim().toLowerCase()) ?? licence).match(/[()]|[^\s()]+/g) ?? []
  let at = 0
  const take = (word: string) => tokens[at]?.toUpperCase() === word && ++at > 0
  const factor = (): Family => {
    if (take("(")) {
      const inner = expression()
      return take(")") ? inner : "unusual"
    }
    const id = tokens[at++]
    // An exception only adds permissions.
    if (take("WITH")) at++
    return id === undefined ? "unusual" : familyOfId(id)
  }
  const term = (): Family => {
    let family = factor()
    while (take("AND")) family = both(family, factor())
    return family
  }
  const expression = (): Family => {
    let family = term()
    while (take("OR")) family = either(family, term())
    return family
  }
  const family = expression()
  return at === tokens.length ? family : "unusual"
}

/** A licence in a manifest: a string, the old object with a type, or the older list of these. */
export const licenceInManifest = (manifest: {
  readonly license?: unknown
  readonly licenses?: unknown
}): Option.Option<string> => {
  const named = (value: unknown): ReadonlyArray<string> => {
    if (Array.isArray(value)) return value.flatMap(named)
    if (typeof value === "object" && value !== null && "type" in value) return named(value.type)
    return typeof value === "string" && value.trim() !== "" ? [value.trim()] : []
  }
  const all = Array.from(new Set([...named(manifest.license), ...named(manifest.licenses)]))
  return all.length === 0 ? Option.none() : Option.some(all.length === 1 ? all[0]! : `(${all.join(" OR ")})`)
}

/** Phrases that only one licence has; the first line whose phrases are all in the text names it. */
const phrases: ReadonlyArray<readonly [licence: string, ...phrases: ReadonlyArray<string>]> = [
  ["AGPL-3.0", "gnu affero general public license"],
  ["LGPL-3.0", "gnu lesser general public license", "version 3"],
  ["LGPL-2.1", "gnu lesser general public license", "version 2.1"],
  ["GPL-3.0", "gnu general public license", "version 3"],
  ["GPL-2.0", "gnu general public license", "version 2"],
  ["MPL-2.0", "mozilla public license", "2.0"],
  ["EPL-2.0", "eclipse public license", "2.0"],
  ["Apache-2.0", "apache license", "version 2.0"],
  ["BlueOak-1.0.0", "blue oak model license"],
  ["CC0-1.0", "cc0 1.0 universal"],
  ["Unlicense", "this is free and unencumbered software released into the public domain"],
  ["BSL-1.0", "boost software license"],
  ["WTFPL", "do what the fuck you want to"],
  ["Zlib", "altered source versions must be plainly marked as such"],
  ["BSD-3-Clause", "redistributions of source code must retain", "neither the name"],
  ["BSD-2-Clause", "redistributions of source code must retain"],
  ["ISC", "use, copy, modify, and", "distribute this software for any purpose", "appear in all copies"],
  ["0BSD", "use, copy, modify, and", "distribute this software for any purpose"],
  ["MIT", "permission is hereby granted, free of charge", "shall be included in all copies"],
  ["MIT-0", "permission is hereby granted, free of charge"]
]

/** The licence whose text this is. */
export const licenceInText = (text: string): Option.Option<string> => {
  const words = text.toLowerCase().replace(/\s+/g, " ")
  return Option.map(
    Option.fromNullable(phrases.find(([, ...parts]) => parts.every((part) => words.includes(part)))),
    ([licence]) => licence
  )
}
