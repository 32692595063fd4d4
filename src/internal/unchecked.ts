/**
 * For instances that the engine makes of values it knows: to check one against its schema costs more than a superstep,
 * because the schema is prepared anew for each.
 */
export const UNCHECKED = { disableValidation: true } as const

/**
 * Makes an error without a stack: a pause says what it asks; to look up which lines of the engine made it takes longer
 * than a superstep.
 */
export const withoutStack = <E extends Error>(make: () => E): E => {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 0
  try {
    return make()
  } finally {
    Error.stackTraceLimit = limit
  }
}
