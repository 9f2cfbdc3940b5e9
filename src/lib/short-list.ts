/**
 * Returns the list with one more entry. For lists that rarely have more than one: `push` makes room for 17 entries in an empty list.
 */
export function withEntry<T>(list: readonly T[], entry: T): readonly T[] {
  return list.length === 0 ? [entry] : [...list, entry];
}
