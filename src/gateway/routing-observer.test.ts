import { expect, test } from 'vitest';
import type { Attempt } from '../core/routing/observer.ts';
import { UpstreamFailure, type UpstreamFailureFacts, type UpstreamFailureKind } from '../generation/upstream.ts';
import { createLogger } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { routingObserver } from './routing-observer.ts';

const attempt: Attempt = {
  route: { provider: 'acme', modelId: 'acme/large', model: 'large-v1' },
  requestId: 'req_000008M0kXabcdefghijk',
  number: 2,
};

/** Returns the fields that are logged for an attempt that ended with this failure. */
function logged(kind: UpstreamFailureKind | undefined, facts: UpstreamFailureFacts = {}): unknown[] {
  const lines: string[] = [];
  const logger = createLogger({ level: 'info', destination: { write: line => void lines.push(line) } });
  const failure = kind === undefined ? undefined : new UpstreamFailure(kind, facts);
  const { status } = facts;
  routingObserver(new Metrics('0.0.0'), logger).attemptEnded?.(attempt, {
    result: kind ?? 'completed',
    durationMs: 5,
    ...(failure === undefined ? {} : { failure }),
    ...(status === undefined ? {} : { status }),
  });
  return lines.map(line => {
    const { time: _, ...rest } = JSON.parse(line) as Record<string, unknown>;
    return rest;
  });
}

const named = {
  level: 'warn',
  request_id: 'req_000008M0kXabcdefghijk',
  provider: 'acme',
  model: 'acme/large',
  upstream_model: 'large-v1',
  attempt: 2,
  msg: 'a provider failed',
};

test('a failed attempt is logged with the provider, the attempt and the reason', () => {
  const cause = new Error('Error while connecting: self-signed certificate');
  expect(logged('connect', { cause })).toEqual([{ ...named, result: 'connect', reason: cause.message }]);
});

test('the log line contains neither the provider’s message nor its invalid bytes', () => {
  expect(logged('status', { status: 401, message: 'bad key sk-1' })).toEqual([
    { ...named, result: 'status', status: 401 },
  ]);
  const cause = new SyntaxError('Unexpected token in "the prompt"');
  expect(logged('malformed', { cause })).toEqual([{ ...named, result: 'malformed' }]);
});

test('successes, and failures that a steering line asked for, are not logged', () => {
  expect(logged(undefined)).toEqual([]);
  expect(logged('status', { status: 503, requested: true })).toEqual([]);
});

test('a member without a price is counted for each request and logged when it is new; a doubtful report is logged and told to the operator', () => {
  const lines: string[] = [];
  const events: unknown[] = [];
  const metrics = new Metrics('0.0.0');
  const logger = createLogger({ level: 'info', destination: { write: line => void lines.push(line) } });
  const observer = routingObserver(metrics, logger, event => events.push(event));
  for (const isNew of [true, false]) observer.unpriced?.(attempt.route, 'usage.foo_tokens', isNew);
  expect(metrics.text()).toContain('tollgate_unpriced_usage_total{provider="acme",member="usage.foo_tokens"} 2');
  const doubt = { member: 'service_tier', reported: 'turbo', believed: 'default' };
  observer.usageDoubtful?.(attempt.route, doubt);
  const data = { provider: 'acme', model: 'acme/large', upstream_model: 'large-v1', ...doubt };
  expect(events).toEqual([{ type: 'provider.usage_doubtful', scope: 'provider acme', data }]);
  expect(lines.map(line => JSON.parse(line) as object)).toMatchObject([{ member: 'usage.foo_tokens' }, data]);
});
