import { AlwaysOffSampler, AlwaysOnSampler, TraceIdRatioBasedSampler } from '@opentelemetry/sdk-trace';
import { expect, test } from 'vitest';
import { TraceIds } from './trace-ids.ts';

test('the next span gets the ids of a sampled trace; no span gets those of a trace that is not sampled', () => {
  const sampled = new TraceIds(new AlwaysOnSampler());
  const begun = sampled.begin();
  expect(begun).toEqual({
    traceId: expect.stringMatching(/^[0-9a-f]{32}$/),
    spanId: expect.stringMatching(/^[0-9a-f]{16}$/),
    isSampled: true,
  });
  expect([sampled.generateTraceId(), sampled.generateSpanId()]).toEqual([begun.traceId, begun.spanId]);
  expect([sampled.generateTraceId(), sampled.generateSpanId()]).not.toContain(begun.traceId);
  const off = new TraceIds(new AlwaysOffSampler());
  const ignored = off.begin();
  expect(ignored.isSampled).toBe(false);
  expect([off.generateTraceId(), off.generateSpanId()]).not.toContain(ignored.traceId);
});

test('ids do not repeat, and about a tenth of the traces is sampled if the ratio is a tenth', () => {
  const ids = new TraceIds(new TraceIdRatioBasedSampler(0.1));
  const begun = Array.from({ length: 5000 }, () => ids.begin());
  expect(new Set(begun.flatMap(({ traceId, spanId }) => [traceId, spanId])).size).toBe(10_000);
  const share = begun.filter(({ isSampled }) => isSampled).length / begun.length;
  expect(share).toBeGreaterThan(0.07);
  expect(share).toBeLessThan(0.13);
});
