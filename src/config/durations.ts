/**
 * Time spans, as they are written in the configuration and on the command line. Separate from the schema, so that a command
 * need not load the schema library.
 */

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Converts a span such as 90s, 30m, 2h or 7d to milliseconds. Returns undefined if it is not a span, or not between `minMs`
 * and `maxDays`.
 */
export function readDuration(text: string, minMs: number, maxDays: number): number | undefined {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text) ?? [];
  if (amount === undefined || unit === undefined) return undefined;
  const ms = Math.round(Number(amount) * (unitMs[unit] ?? 0));
  return ms >= minMs && ms <= maxDays * 86_400_000 ? ms : undefined;
}
