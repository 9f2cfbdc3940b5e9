import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ActivityRecordSchema, CostBucketSchema, Payer } from '../../../gen/tollgate/v1/account_pb.ts';
import { attoText, formula, lineAtto, roundToNano, totalAtto } from './receipt.ts';

function bucket(
  kind: string,
  tokens: bigint,
  pricePicoUsd: bigint,
  factors: { permille?: number; discount?: number } = {},
) {
  return create(CostBucketSchema, {
    kind,
    tokens,
    pricePicoUsd,
    multiplierPermille: factors.permille ?? 1000,
    discountPermille: factors.discount ?? 0,
    paidBy: Payer.ACCOUNT,
  });
}

test('the formula shows each line, and the sum is rounded once', () => {
  const buckets = [bucket('input', 10n, 1_000_000n), bucket('output', 32n, 4_000_000n)];
  expect(formula(create(ActivityRecordSchema, { buckets, costNanoUsd: 138_000n }))).toBe(
    '10 × $1/M + 32 × $4/M = $0.000138',
  );
  expect(attoText(totalAtto(buckets))).toBe('$0.000138');
  expect(roundToNano(totalAtto(buckets))).toBe(138_000n);
});

test('half a nano-dollar rounds up, in the sum and not in each line', () => {
  const half = bucket('input', 1n, 500n);
  expect(roundToNano(lineAtto(half))).toBe(1n);
  expect(roundToNano(totalAtto([half, half]))).toBe(1n);
  expect(attoText(lineAtto(half))).toBe('$0.0000000005');
});

test('the formula shows multipliers and discounts in the lines they apply to, and images at a price per image', () => {
  const buckets = [bucket('input', 1_000n, 1_000_000n, { permille: 500, discount: 100 })];
  expect(formula(create(ActivityRecordSchema, { buckets, costNanoUsd: 450_000n }))).toBe(
    '1,000 × $1/M × 0.5 − 10 % = $0.000450',
  );
  expect(roundToNano(totalAtto(buckets))).toBe(450_000n);
  const image = [bucket('image', 2n, 40_000_000_000n)];
  expect(formula(create(ActivityRecordSchema, { buckets: image, costNanoUsd: 80_000_000n }))).toBe(
    '2 × $0.04/image = $0.080000',
  );
});
