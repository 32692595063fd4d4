/**
 * Adds to a list of which mostly one item is expected, and returns it: V8 gives a list that grows from nothing room for
 * sixteen more.
 */
export const added = <A>(list: Array<A>, item: A): Array<A> => {
  if (list.length === 0) return [item]
  list.push(item)
  return list
}
