import type { ActivityRecord, CostBucket } from '../../../gen/tollgate/v1/account_pb.ts';
import { count, dollars, perMillion, perOne } from '../data/money.ts';

/** Receipts are computed exactly, in atto-dollars (10^-18): a price in pico-dollars (10^-12) times two factors in thousandths. */
const attoPerNano = 1_000_000_000n;

/** Returns the exact amount of a line in atto-dollars. */
export function lineAtto({ tokens, pricePicoUsd, multiplierPermille, discountPermille }: CostBucket): bigint {
  return tokens * pricePicoUsd * BigInt(multiplierPermille) * BigInt(1000 - discountPermille);
}

/** Returns the exact sum of all lines in atto-dollars. */
export function totalAtto(buckets: readonly CostBucket[]): bigint {
  return buckets.reduce((sum, bucket) => sum + lineAtto(bucket), 0n);
}

/** Rounds an exact sum half up to nano-dollars, once for each request. */
export function roundToNano(atto: bigint): bigint {
  return (atto + attoPerNano / 2n) / attoPerNano;
}

/** Formats an exact sum in dollars with all its digits, at least six decimals. */
export function attoText(atto: bigint): string {
  const digits = atto.toString().padStart(19, '0');
  return `$${count(BigInt(digits.slice(0, -18)))}.${digits.slice(-18).replace(/0{1,12}$/, '')}`;
}

const tokenKinds: ReadonlySet<string> = new Set(['input', 'cache_read', 'cache_write_5m', 'cache_write_1h', 'output']);

/** Formats the price of a line: "$1/M" for tokens, "$0.04/image". */
export function priceText({ kind, pricePicoUsd }: CostBucket): string {
  if (kind === 'image' || kind === 'search') return `${perOne(pricePicoUsd)}/${kind}`;
  return tokenKinds.has(kind) ? `${perMillion(pricePicoUsd)}/M` : `${perOne(pricePicoUsd)}/call`;
}

/** Formats the whole calculation: "10 × $1/M + 32 × $4/M = $0.000138". */
export function formula({ buckets, costNanoUsd, writtenOffNanoUsd }: ActivityRecord): string {
  const lines = buckets.map(bucket => {
    const factor = bucket.multiplierPermille === 1000 ? '' : ` × ${bucket.multiplierPermille / 1000}`;
    const discount = bucket.discountPermille === 0 ? '' : ` − ${bucket.discountPermille / 10} %`;
    return `${count(bucket.tokens)} × ${priceText(bucket)}${factor}${discount}`;
  });
  return `${lines.length === 0 ? '0' : lines.join(' + ')} = ${dollars(costNanoUsd + writtenOffNanoUsd)}`;
}
