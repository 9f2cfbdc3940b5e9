import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { GetAnalyticsRequestSchema } from '../gen/tollgate/v1/account_pb.ts';
import type { AnalyticsRow } from '../ledger/activity.ts';
import { readAnalytics } from './account-analytics.ts';

const row: AnalyticsRow = {
  periodMs: 0,
  group: null,
  requests: 1,
  failed: 0,
  costNanoUsd: 1n,
  providerCostNanoUsd: 0n,
  marginNanoUsd: 0n,
  input: 1,
  cacheRead: 0,
  cacheWrite: 0,
  output: 1,
  latencyMs: 1,
};

test('many sums that several callers get at the same time are answered in different turns of the event loop', async () => {
  const rows = Promise.withResolvers<AnalyticsRow[]>();
  const ledger = { analytics: () => rows.promise };
  let turn = 0;
  let isOver = false;
  const count = (): void => {
    turn += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const turns: number[] = [];
  const answers = Array.from({ length: 6 }, async () => {
    const request = create(GetAnalyticsRequestSchema);
    const { series } = await readAnalytics(ledger, { accountId: 1 }, { request, nowMs: 0 });
    turns.push(turn);
    return series?.length;
  });
  rows.resolve(Array.from({ length: 300 }, () => row));
  expect(await Promise.all(answers)).toEqual(Array.from({ length: 6 }, () => 300));
  isOver = true;
  expect(new Set(turns).size).toBe(6);
});
