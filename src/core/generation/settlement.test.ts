import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import type { ErrorCode } from '../../errors/error-table.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { ModelSchema, PricingSchema } from '../../gen/tollgate/v1/catalog_pb.ts';
import { FinishReason } from '../../gen/tollgate/v1/event_pb.ts';
import {
  billedTier,
  type Charge,
  doubtTier,
  toCharge,
  type Outcome,
  type Progress,
  toSettleCommand,
} from './settlement.ts';
import { noUsage } from '../../generation/usage-buckets.ts';

const failed = (code: ErrorCode): Outcome => ({ kind: 'failed', error: new GatewayError(code, 'x') });
const answered = (reason: FinishReason): Outcome => ({ kind: 'answered', finishes: [reason] });
const stream: Progress = { streamed: true, hasOutput: true, wasSent: true, isTrying: true };
const silent: Progress = { ...stream, hasOutput: false };
const whole: Progress = { ...stream, streamed: false };
const unsent: Progress = { ...silent, wasSent: false, isTrying: false };
const between: Progress = { ...silent, isTrying: false };

describe('who pays for what', () => {
  test.each<[string, Outcome, Progress, Charge]>([
    ['a whole answer', answered(FinishReason.STOP), stream, { kind: 'usage', state: 'completed' }],
    ['an answer that ends in calls', answered(FinishReason.TOOL_CALLS), whole, { kind: 'usage', state: 'completed' }],
    ['an answer cut by a limit', answered(FinishReason.LENGTH), stream, { kind: 'usage', state: 'incomplete' }],
    ['a client that left', { kind: 'client_gone' }, stream, { kind: 'usage', state: 'client_aborted' }],
    ['a client that left a whole answer', { kind: 'client_gone' }, whole, { kind: 'usage', state: 'client_aborted' }],
    [
      'a client that left before anything was sent',
      { kind: 'client_gone' },
      unsent,
      { kind: 'void', reason: 'cancelled' },
    ],
    [
      'a client that left between two attempts',
      { kind: 'client_gone' },
      between,
      { kind: 'nothing', state: 'client_aborted' },
    ],
    [
      'an upstream that broke after output',
      failed('upstream_error'),
      stream,
      { kind: 'usage', state: 'upstream_failed' },
    ],
    [
      'an upstream that stalled after output',
      failed('upstream_timeout'),
      stream,
      { kind: 'usage', state: 'upstream_failed' },
    ],
    [
      'an upstream that broke before output',
      failed('upstream_error'),
      silent,
      { kind: 'nothing', state: 'upstream_failed' },
    ],
    [
      'an upstream that broke a whole answer',
      failed('upstream_error'),
      whole,
      { kind: 'nothing', state: 'upstream_failed' },
    ],
    ['a refused request', failed('upstream_rejected'), silent, { kind: 'void', reason: 'rejected' }],
    ['an input that is too long', failed('context_length_exceeded'), silent, { kind: 'void', reason: 'rejected' }],
    ['a defect of the gateway', failed('internal'), stream, { kind: 'void', reason: 'gateway_failure' }],
    [
      'a stream interrupted by the gateway’s stop',
      { kind: 'interrupted' },
      stream,
      { kind: 'usage', state: 'incomplete' },
    ],
    [
      'a whole answer interrupted by the gateway’s stop',
      { kind: 'interrupted' },
      whole,
      { kind: 'void', reason: 'gateway_failure' },
    ],
  ])('%s', (_, outcome, progress, charge) => {
    expect(toCharge(outcome, progress)).toEqual(charge);
  });
});

test('the billed tier is the reported one if it has a price, and never more expensive than the one requested', () => {
  const pricing = create(PricingSchema, { tierPermille: { ultrafast: 4000, flex: 300, slow: 100 } });
  const billed = (requested: string, reported: string | undefined): string =>
    billedTier({ pricing, requested, reported });
  expect(billed('priority', undefined)).toBe('priority');
  expect(billed('priority', 'default')).toBe('default');
  expect(billed('default', 'priority')).toBe('default');
  expect(billed('flex', 'default')).toBe('flex');
  expect(billed('default', 'flex')).toBe('flex');
  expect(billed('default', 'slow')).toBe('slow');
  expect(billed('ultrafast', 'priority')).toBe('priority');
  expect(billed('priority', 'ultrafast')).toBe('priority');
  expect(billed('ultrafast', 'turbo')).toBe('ultrafast');
  expect(doubtTier({ pricing, requested: 'ultrafast', reported: 'turbo' })).toEqual({
    member: 'service_tier',
    reported: 'turbo',
    believed: 'ultrafast',
  });
  expect(doubtTier({ pricing, requested: 'ultrafast', reported: 'priority' })).toBeUndefined();
});

test('price thresholds apply to all input tokens of a call, cached ones included', () => {
  const model = create(ModelSchema, {
    id: 'acme/large',
    pricing: {
      inputPicoUsd: 1n,
      outputPicoUsd: 2n,
      above: [{ inputTokens: 100, inputPicoUsd: 10n, outputPicoUsd: 20n }],
    },
  });
  const computePrice = (input: number, cacheRead: number, calls = 1): bigint | null =>
    toSettleCommand({
      id: 1,
      model,
      requestedTier: 'default',
      reportedTier: undefined,
      state: 'completed',
      counted: { buckets: { ...noUsage, input, cacheRead }, source: 'reported' },
      calls,
      latencyMs: 1,
      firstEventMs: undefined,
      provider: 'p',
      attempts: 1,
      cost: undefined,
    }).prices.input;
  expect(computePrice(60, 40)).toBe(1n);
  expect(computePrice(60, 41)).toBe(10n);
  // Two calls of 60 and 40 tokens each: neither exceeds the threshold.
  expect(computePrice(120, 80, 2)).toBe(1n);
  expect(computePrice(120, 82, 2)).toBe(10n);
});
