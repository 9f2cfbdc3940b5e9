/** Returns the value below which `fraction` of the values lie; NaN if there are none. */
export function percentile(ascending: readonly number[], fraction: number): number {
  return ascending[Math.min(ascending.length - 1, Math.floor(ascending.length * fraction))] ?? Number.NaN;
}

/** Returns the median; NaN if there are no values. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const [low, high] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
  return low === undefined || high === undefined ? Number.NaN : (low + high) / 2;
}
