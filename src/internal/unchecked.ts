/**
 * For instances that the engine makes of values it knows: to check one against its schema costs more than a superstep,
 * because the schema is prepared anew for each.
 */
export const UNCHECKED = { disableValidation: true } as const
