const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** Formats a number of bytes with three digits and its unit. */
export function bytesText(bytes: bigint): string {
  let value = Number(bytes);
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toPrecision(value >= 1000 ? 4 : 3)} ${units[unit] ?? ''}`;
}

const steps = [
  ['day', 86_400_000n],
  ['hour', 3_600_000n],
  ['minute', 60_000n],
  ['second', 1_000n],
] as const;

/** Formats a duration in the largest unit in which it is a whole number. */
export function lifetimeText(ms: bigint): string {
  const [name, unitMs] = steps.find(([, each]) => ms >= each && ms % each === 0n) ?? (['ms', 1n] as const);
  const number = ms / unitMs;
  return `${number.toLocaleString('en-GB')} ${name}${name !== 'ms' && number !== 1n ? 's' : ''}`;
}
