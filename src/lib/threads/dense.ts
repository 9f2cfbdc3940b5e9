/**
 * Returns a copy of a list, and of the lists in it, that V8 knows to have no holes; returns any other value as it is. Lists that were received from another thread, or made by an optimized `map`, may have holes
 * as far as V8 knows, and `postMessage` then takes four times as long for them.
 */
export function toDense(value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  const dense: unknown[] = [];
  for (const each of value) dense.push(Array.isArray(each) ? toDense(each) : each);
  return dense;
}
