import { expect, test } from 'vitest';
import { Metrics } from '../../telemetry/metrics.ts';
import { MergedMetrics } from './merged-metrics.ts';

/** Returns the metrics of a thread that has answered `requests` requests and has `streams` open streams. */
function said(requests: number, streams: number): string {
  const metrics = new Metrics('1');
  const sample = { endpoint: '/v1/chat/completions', status: 200, durationMs: 20 };
  for (let count = 0; count < requests; count += 1) metrics.answered(sample);
  for (let count = 0; count < streams; count += 1) metrics.streamOpened('/v1/chat/completions');
  metrics.committed(1, 600);
  return metrics.text();
}

function values(text: string): (string | undefined)[] {
  return [
    /^tollgate_requests_total\{.*\} (\S+)$/m.exec(text)?.[1],
    /^tollgate_request_duration_seconds_bucket\{le="0.025",.*\} (\S+)$/m.exec(text)?.[1],
    /^tollgate_open_streams\{.*\} (\S+)$/m.exec(text)?.[1],
    /^tollgate_ledger_queue (\S+)$/m.exec(text)?.[1],
    /^tollgate_build_info\{.*\} (\S+)$/m.exec(text)?.[1],
  ];
}

test('counters, histograms, open streams and waiting commands add up; gauges that are the same in all threads do not', () => {
  const merged = new MergedMetrics();
  merged.keep(1, said(3, 2));
  merged.keep(2, said(4, 1));
  expect(values(merged.text(said(0, 0)))).toEqual(['7', '7', '3', '1800', '1']);
});

test('the counts of an ended thread are kept, and its gauges are removed', () => {
  const merged = new MergedMetrics();
  merged.keep(1, said(3, 2));
  merged.keep(2, said(4, 1));
  merged.ended(1);
  expect(values(merged.text(said(0, 0)))).toEqual(['7', '7', '1', '1200', '1']);
  merged.keep(1, said(1, 0));
  expect(values(merged.text(said(0, 0)))).toEqual(['8', '8', '1', '1800', '1']);
});

test('only families of the main thread are shown', () => {
  const merged = new MergedMetrics();
  merged.keep(1, `${said(1, 0)}\n# HELP secret_total Not for anyone.\n# TYPE secret_total counter\nsecret_total 5\n`);
  expect(merged.text(said(0, 0))).not.toContain('secret_total');
});
