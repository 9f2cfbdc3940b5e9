import type { ActivityRecord, CostBucket } from '../../../gen/tollgate/v1/account_pb.ts';
import { count, dollars, perMillion, perOne } from '../data/money.ts';

/** Sums of a receipt are exact in 10^-18 dollars: a token's price in 10^-12, times two factors in thousandths. */
const attoPerNano = 1_000_000_000n;

/** The exact sum of a line, in 10^-18 dollars. */
export function lineAtto({ tokens, pricePicoUsd, multiplierPermille, discountPermille }: CostBucket): bigint {
  return tokens * pricePicoUsd * BigInt(multiplierPermille) * BigInt(1000 - discountPermille);
}

/** The exact sum of all lines, in 10^-18 dollars. */
export function totalAtto(buckets: readonly CostBucket[]): bigint {
  return buckets.reduce((sum, bucket) => sum + lineAtto(bucket), 0n);
}

/** Nano-dollars of an exact sum, rounded half up: the one rounding of a request. */
export function roundToNano(atto: bigint): bigint {
  return (atto + attoPerNano / 2n) / attoPerNano;
}

/** All digits of an exact sum, at least six decimals. */
export function attoText(atto: bigint): string {
  const digits = atto.toString().padStart(19, '0');
  return `$${count(BigInt(digits.slice(0, -18)))}.${digits.slice(-18).replace(/0{1,12}$/, '')}`;
}

/** The price of a line: "$1/M" of tokens, "$0.04/image". */
export function priceText({ kind, pricePicoUsd }: CostBucket): string {
  return kind === 'image' ? `${perOne(pricePicoUsd)}/image` : `${perMillion(pricePicoUsd)}/M`;
}

/** The whole arithmetic in one line: "10 × $1/M + 32 × $4/M = $0.000138". */
export function formula({ buckets, costNanoUsd, writtenOffNanoUsd }: ActivityRecord): string {
  const lines = buckets.map(bucket => {
    const factor = bucket.multiplierPermille === 1000 ? '' : ` × ${bucket.multiplierPermille / 1000}`;
    const discount = bucket.discountPermille === 0 ? '' : ` − ${bucket.discountPermille / 10} %`;
    return `${count(bucket.tokens)} × ${priceText(bucket)}${factor}${discount}`;
  });
  return `${lines.length === 0 ? '0' : lines.join(' + ')} = ${dollars(costNanoUsd + writtenOffNanoUsd)}`;
}
