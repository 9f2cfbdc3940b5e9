import { expect, test } from 'vitest';
import { Metrics } from './metrics.ts';

const sample = { endpoint: '/v1/chat/completions', status: 200, durationMs: 120 };

test('a request is counted once, with its time, tokens and cost', () => {
  const metrics = new Metrics('1.2.3');
  metrics.answered({
    ...sample,
    model: 'a/b',
    route: 'p/b-1',
    firstEventMs: 20,
    tokens: { input: 3, output: 4, cache_read: 0 },
    costUsd: 0.5,
  });
  const text = metrics.text();
  const lines = text.split('\n').filter(line => line.includes('endpoint=') && !line.includes('_bucket'));
  expect(lines).toEqual([
    'tollgate_requests_total{model="a/b",endpoint="/v1/chat/completions",route="p/b-1",status="200",code=""} 1',
    'tollgate_request_duration_seconds_sum{endpoint="/v1/chat/completions",status="200"} 0.12',
    'tollgate_request_duration_seconds_count{endpoint="/v1/chat/completions",status="200"} 1',
    'tollgate_first_event_seconds_sum{endpoint="/v1/chat/completions",model="a/b"} 0.02',
    'tollgate_first_event_seconds_count{endpoint="/v1/chat/completions",model="a/b"} 1',
    'tollgate_tokens_total{endpoint="/v1/chat/completions",model="a/b",kind="input"} 3',
    'tollgate_tokens_total{endpoint="/v1/chat/completions",model="a/b",kind="output"} 4',
    'tollgate_cost_dollars_total{endpoint="/v1/chat/completions",model="a/b"} 0.5',
  ]);
});

test('requests that differ in other labels count in the same series', () => {
  const metrics = new Metrics('1.2.3');
  const tokens = { output: 4 };
  metrics.answered({ ...sample, model: 'a', route: 'p/a', firstEventMs: 20, tokens, costUsd: 0.5 });
  metrics.answered({ ...sample, model: 'a', route: 'q/a', firstEventMs: 20, tokens, costUsd: 0.5 });
  metrics.answered({ ...sample, model: 'b', route: 'q/b', tokens: { input: 1 } });
  metrics.answered({ ...sample, model: 'a', status: 429, code: 'overloaded' });
  const lines = metrics.text().split('\n');
  expect(lines.filter(line => /_(count|total)\{.*endpoint=/.test(line))).toEqual([
    'tollgate_requests_total{model="a",endpoint="/v1/chat/completions",route="p/a",status="200",code=""} 1',
    'tollgate_requests_total{model="a",endpoint="/v1/chat/completions",route="q/a",status="200",code=""} 1',
    'tollgate_requests_total{model="b",endpoint="/v1/chat/completions",route="q/b",status="200",code=""} 1',
    'tollgate_requests_total{model="a",endpoint="/v1/chat/completions",route="",status="429",code="overloaded"} 1',
    'tollgate_request_duration_seconds_count{endpoint="/v1/chat/completions",status="200"} 3',
    'tollgate_request_duration_seconds_count{endpoint="/v1/chat/completions",status="429"} 1',
    'tollgate_first_event_seconds_count{endpoint="/v1/chat/completions",model="a"} 2',
    'tollgate_tokens_total{endpoint="/v1/chat/completions",model="a",kind="output"} 8',
    'tollgate_tokens_total{endpoint="/v1/chat/completions",model="b",kind="input"} 1',
    'tollgate_cost_dollars_total{endpoint="/v1/chat/completions",model="a"} 1',
  ]);
});

test('the number of labels is bounded, however many models there are', () => {
  const metrics = new Metrics('1.2.3');
  for (let index = 0; index < 3000; index += 1) metrics.answered({ ...sample, model: `m${index}` });
  const text = metrics.text();
  expect(text.match(/^tollgate_requests_total\{/gm)).toHaveLength(2001);
  expect(text).toContain('{model="other",endpoint="/v1/chat/completions",route="",status="200",code=""} 1000');
});
