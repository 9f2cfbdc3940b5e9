/**
 * Time spans as the configuration and the command line write them. Separate from the schema, so that a command loads
 * no schema library.
 */

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Returns a span such as 90s, 30m, 2h or 7d in milliseconds; undefined if it is not one, or not from `minMs` to
 * `maxDays`.
 */
export function readDuration(text: string, minMs: number, maxDays: number): number | undefined {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text) ?? [];
  if (amount === undefined || unit === undefined) return undefined;
  const ms = Math.round(Number(amount) * (unitMs[unit] ?? 0));
  return ms >= minMs && ms <= maxDays * 86_400_000 ? ms : undefined;
}
