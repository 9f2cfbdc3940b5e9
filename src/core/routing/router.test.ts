import { setImmediate } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { GatewayError } from '../../errors/gateway-error.ts';
import { DeltaKind, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { GenerateRequestSchema, ServiceTier } from '../../gen/tollgate/v1/request_pb.ts';
import { completed, delta, finished, started } from '../../generation/events.ts';
import { Hold } from '../../generation/hold.ts';
import { type Upstream, type UpstreamCall, UpstreamFailure } from '../../generation/upstream.ts';
import type { Attempt, AttemptOutcome } from './observer.ts';
import { defaultRetryPolicy, type RetryPolicy } from './request-plan.ts';
import type { Provider, RouteConfig } from './route-table.ts';
import { Router, type RouterOptions } from './router.ts';
import {
  type ScriptStep,
  type ReaderOptions,
  type RoutedStep,
  routedSteps,
  ScriptedUpstream,
} from './routed-steps.fixtures.ts';

const text = (added: string): GenerationEvent[] => [delta(0, [0, 0], { kind: DeltaKind.TEXT, text: added })];
const begin = [started({})];
const end = [finished(0, FinishReason.STOP), completed({})];
const answer = (added: string): ScriptStep[] => [begin, text(added), end];
const status = (code: number, facts: object = {}): UpstreamFailure =>
  new UpstreamFailure('status', { status: code, message: `status ${code}`, ...facts });

interface Setting {
  readonly router: Router;
  readonly sleeps: number[];
  readonly clock: { at: number };
  readonly log: string[];
}

function setUp(
  scripts: Record<string, Upstream | ((call: UpstreamCall) => readonly ScriptStep[])>,
  routes: Partial<RouteConfig>[],
  options: Partial<RouterOptions> & { concurrency?: Provider['concurrency'] } = {},
): Setting {
  const sleeps: number[] = [];
  const clock = { at: 1_000_000 };
  const log: string[] = [];
  const providers = Object.entries(scripts).map(([name, script]) => ({
    name,
    upstream: typeof script === 'function' ? new ScriptedUpstream(script) : script,
    concurrency: options.concurrency,
  }));
  const name = ({ route }: Attempt): string => `${route.provider}/${route.model}`;
  const router = new Router({
    config: {
      providers,
      routes: new Map([
        ['m', routes.map(route => ({ provider: 'a', model: 'big', priority: 1, weight: 1, ...route }))],
      ]),
    },
    clock: { now: () => clock.at },
    random: () => 0.5,
    sleep: async (ms, signal) => {
      signal.throwIfAborted();
      sleeps.push(ms);
    },
    observer: {
      attemptStarted: attempt => log.push(`${attempt.number} ${name(attempt)}`),
      attemptEnded: (attempt: Attempt, outcome: AttemptOutcome) => log.push(`${attempt.number} ${outcome.result}`),
      breakerChanged: (route, state) => log.push(`${route.provider} ${state}`),
    },
    ...options,
  });
  return { router, sleeps, clock, log };
}

interface RequestOptions {
  readonly restartable?: boolean;
  readonly judge?: ReaderOptions['judge'];
  readonly signal?: AbortSignal;
  readonly tier?: ServiceTier;
}

function ask(
  router: Router,
  { restartable = false, signal, tier = ServiceTier.DEFAULT, judge }: RequestOptions = {},
): AsyncIterableIterator<RoutedStep> {
  return routedSteps(router, {
    hold: Hold.of({ kind: 'admitted', id: 7 }),
    request: create(GenerateRequestSchema, { model: 'm', serviceTier: tier }),
    maxOutputTokens: 100,
    signal: signal ?? new AbortController().signal,
    restartable,
    ...(judge === undefined ? {} : { judge }),
  });
}

function shown(step: RoutedStep): string {
  if (step.kind === 'begun') return '[';
  const parts = step.events.map(({ event }) => {
    if (event.case === 'delta') return event.value.text;
    return event.case === 'completed' ? '.' : '';
  });
  return parts.join('');
}

/** Returns what the caller sees: `[` for the beginning of an answer, its texts, `.` for its end, and the error. */
async function outcome(
  router: Router,
  requested: RequestOptions = {},
): Promise<{ seen: string; error?: GatewayError }> {
  let seen = '';
  try {
    for await (const step of ask(router, requested)) seen += shown(step);
    return { seen };
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown;
    return { seen, error: thrown };
  }
}

const kinds = {
  connect: new UpstreamFailure('connect'),
  first: new UpstreamFailure('first_event_timeout'),
  idle: new UpstreamFailure('idle_timeout'),
  total: new UpstreamFailure('total_timeout'),
  truncated: new UpstreamFailure('truncated'),
  malformed: new UpstreamFailure('malformed'),
  reported: new UpstreamFailure('reported', { message: 'out of memory' }),
};

test('a working route answers at the first attempt, and the caller gets its name', async () => {
  const { router, log } = setUp({ a: () => answer('hello') }, [{}]);
  const steps: RoutedStep[] = [];
  for await (const step of ask(router)) steps.push(step);
  expect(steps[0]).toEqual({
    kind: 'begun',
    route: { modelId: 'm', provider: 'a', model: 'big' },
    attempt: 1,
    calls: 1,
    mayPause: false,
    limitIsVisible: false,
  });
  // The opening is held back until there is content.
  expect(steps.slice(1)).toEqual([[...begin, ...text('hello')], end].map(events => ({ kind: 'events', events })));
  expect(log).toEqual(['1 a/big', '1 completed']);
});

test('a route that fails after its opening, without content, is followed by the next one, and nothing of it is seen', async () => {
  const a = (): ScriptStep[] => [begin, text(''), kinds.reported];
  const { router, log } = setUp({ a, b: () => answer('hello') }, [{}, { provider: 'b', priority: 2 }], {
    retry: { ...defaultRetryPolicy, retries: 0 },
  });
  expect((await outcome(router)).seen).toBe('[hello.');
  expect(log).toEqual(['1 a/big', '1 reported', '2 b/big', '2 completed']);
});

test('an upstream gets the route’s model, the call’s limit and the number of the attempt', async () => {
  const a = new ScriptedUpstream(({ attempt }) => (attempt < 3 ? [status(500)] : answer('x')));
  const { router } = setUp({ a }, [{ model: 'its-own-name' }]);
  await outcome(router);
  expect(
    a.calls.map(({ model, maxOutputTokens, attempt, hold }) => [model, maxOutputTokens, attempt, hold.id]),
  ).toEqual([
    ['its-own-name', 100, 1, 7],
    ['its-own-name', 100, 2, 7],
    ['its-own-name', 100, 3, 7],
  ]);
});

describe('what follows a failure before the first event', () => {
  const twoMore = 3;
  const table: [name: string, failure: UpstreamFailure, triesOfFirstRoute: number, answered: boolean][] = [
    ['a refused or reset connection', kinds.connect, twoMore, true],
    ['408', status(408), twoMore, true],
    ['409', status(409), twoMore, true],
    ['429', status(429), twoMore, true],
    ['500', status(500), twoMore, true],
    ['502', status(502), twoMore, true],
    ['503', status(503), twoMore, true],
    ['529', status(529), twoMore, true],
    ['a stream that broke', kinds.truncated, twoMore, true],
    ['a stream that violates its protocol', kinds.malformed, twoMore, true],
    ['a reported error', kinds.reported, twoMore, true],
    ['a first-event time-out', kinds.first, 1, true],
    ['an idle time-out', kinds.idle, 1, true],
    ['401', status(401), 1, true],
    ['402', status(402), 1, true],
    ['403', status(403), 1, true],
    ['404', status(404), 1, true],
    ['a redirect', status(302), 1, true],
    ['400', status(400), 1, false],
    ['413', status(413), 1, false],
    ['422', status(422), 1, false],
    ['a refusal reported in the stream', new UpstreamFailure('reported', { status: 400 }), 1, false],
    ['a total time-out', kinds.total, 1, false],
  ];
  test.each(table)('%s', async (_, failure, tries, answered) => {
    const a = new ScriptedUpstream(() => [failure]);
    const b = new ScriptedUpstream(() => answer('from b'));
    const { router } = setUp({ a, b }, [{}, { provider: 'b', priority: 2 }]);
    const { seen } = await outcome(router);
    expect([a.calls.length, seen]).toEqual([tries, answered ? '[from b.' : '']);
  });
});

test('after the first event nothing is retried, and the client gets the failure', async () => {
  const a = new ScriptedUpstream(() => [begin, text('half'), kinds.truncated]);
  const b = new ScriptedUpstream(() => answer('never'));
  const { router, log } = setUp({ a, b }, [{}, { provider: 'b', priority: 2 }]);
  const { seen, error } = await outcome(router);
  expect([seen, error?.code, error?.message]).toEqual([
    '[half',
    'upstream_error',
    'The model’s provider broke off its answer.',
  ]);
  expect([a.calls.length, b.calls.length, log]).toEqual([1, 0, ['1 a/big', '1 truncated']]);
});

test('an answer that the caller can discard is restarted, on the same route and then on the next', async () => {
  const a = new ScriptedUpstream(({ attempt }) => [begin, text(`half${attempt}`), kinds.truncated]);
  const { router } = setUp({ a, b: () => answer('whole') }, [{}, { provider: 'b', priority: 2 }]);
  const { seen, error } = await outcome(router, { restartable: true });
  expect([seen, error]).toEqual(['[half1[half2[half3[whole.', undefined]);
});

test('an answer that breaks off at every attempt is an upstream error, even if it can be restarted', async () => {
  const { router, sleeps } = setUp({ a: () => [begin, text('x'), kinds.reported] }, [{}]);
  const { seen, error } = await outcome(router, { restartable: true });
  expect([seen, error?.code, error?.message]).toEqual([
    '[x[x[x',
    'upstream_error',
    'The model’s provider reported an error: out of memory',
  ]);
  expect(sleeps).toEqual([250, 500]);
});

test('an upstream that ends without `completed` counts as truncated, never as a success', async () => {
  const { router } = setUp({ a: () => [begin, text('x')] }, [{}]);
  const { seen, error } = await outcome(router);
  expect([seen, error?.code]).toEqual(['[x', 'upstream_error']);
});

describe('the waits between attempts', () => {
  const first = (facts: object, policy: Partial<RetryPolicy> = {}): Setting & { a: ScriptedUpstream } => {
    const a = new ScriptedUpstream(({ attempt }) => (attempt < 3 ? [status(429, facts)] : answer('x')));
    const retry = {
      retries: 2,
      backoff: { baseMs: 500, maxMs: 8_000 },
      retryAfterMaxMs: 15_000,
      keyWaitMs: 30_000,
      ...policy,
    };
    return { a, ...setUp({ a }, [{}], { retry }) };
  };

  test('grow, with full jitter', async () => {
    const { router, sleeps } = first({});
    expect([(await outcome(router)).seen, sleeps]).toEqual(['[x.', [250, 500]]);
  });

  test('last as long as the upstream requests, plus a little jitter', async () => {
    const { router, sleeps } = first({ retryAfterMs: 3_000 });
    expect([(await outcome(router)).seen, sleeps]).toEqual(['[x.', [3_250, 3_250]]);
  });

  test('are skipped if the upstream requests too long a wait: the next route is tried, and the client gets that wait', async () => {
    const { router, sleeps, a } = first({ retryAfterMs: 15_001 });
    const { error } = await outcome(router);
    expect([a.calls.length, sleeps, error?.code, error?.facts.retryAfterMs]).toEqual([1, [], 'upstream_error', 15_001]);
  });

  test('end with the caller’s signal', async () => {
    const leaving = new AbortController();
    const { router } = setUp({ a: () => [status(500)] }, [{}], {
      sleep: async () => {
        leaving.abort(new Error('client gone'));
        leaving.signal.throwIfAborted();
      },
    });
    await expect(outcome(router, { signal: leaving.signal })).rejects.toThrow('client gone');
  });

  test('there are none if no retries are configured', async () => {
    const { router, sleeps, a } = first({}, { retries: 0 });
    expect([(await outcome(router)).error?.code, sleeps, a.calls.length]).toEqual(['upstream_error', [], 1]);
  });
});

describe('the error that the client gets', () => {
  const table: [failure: UpstreamFailure, code: string, message: string][] = [
    [status(400, { message: 'bad image' }), 'upstream_rejected', 'bad image'],
    [status(413), 'upstream_rejected', 'status 413'],
    [status(422), 'upstream_rejected', 'status 422'],
    [new UpstreamFailure('status', { status: 400 }), 'upstream_rejected', 'The model’s provider refused the request.'],
    [status(400, { message: 'too long', meaning: 'too_long' }), 'context_length_exceeded', 'too long'],
    [status(401), 'upstream_error', 'The model’s provider refused the gateway’s request.'],
    [status(403), 'upstream_error', 'The model’s provider refused the gateway’s request.'],
    [status(404), 'upstream_error', 'The model’s provider refused the gateway’s request.'],
    [status(429, { message: 'slow down' }), 'upstream_error', 'The model’s provider is overloaded: slow down'],
    [status(503), 'upstream_error', 'The model’s provider is overloaded: status 503'],
    [status(500), 'upstream_error', 'The model’s provider failed with status 500: status 500'],
    [new UpstreamFailure('status', { status: 502 }), 'upstream_error', 'The model’s provider failed with status 502.'],
    [kinds.connect, 'upstream_error', 'The model’s provider could not be reached.'],
    [kinds.malformed, 'upstream_error', 'The model’s provider sent an answer that can’t be parsed.'],
    [kinds.first, 'upstream_timeout', 'The model’s provider did not begin to answer in time.'],
    [kinds.idle, 'upstream_timeout', 'The model’s provider stopped in the middle of its answer.'],
    [kinds.total, 'upstream_timeout', 'The model’s provider did not finish its answer in time.'],
  ];
  test.each(table)('%s', async (failure, code, message) => {
    const { router } = setUp({ a: () => [failure] }, [{}]);
    const { error } = await outcome(router);
    expect([error?.code, error?.message]).toEqual([code, message]);
    expect(error?.facts.cause).toBe(failure);
  });

  test('has the wait that an overloaded upstream requests', async () => {
    const { router } = setUp({ a: () => [status(503, { retryAfterMs: 7_000 })] }, [{}]);
    const { error } = await outcome(router);
    expect([error?.facets.http, error?.facts.retryAfterMs]).toEqual([502, 7_000]);
  });

  test('has the field that the upstream names', async () => {
    const { router } = setUp({ a: () => [status(400, { param: 'messages.0' })] }, [{}]);
    expect((await outcome(router)).error?.facts.param).toBe('messages.0');
  });

  test('is that of the first route if no route’s protocol can express the request', async () => {
    const refuse = (param: string) => () => [new GatewayError('unsupported_parameter', `no ${param}`, { param })];
    const { router, log } = setUp({ a: refuse('x'), b: refuse('y') }, [{}, { provider: 'b', priority: 2 }]);
    expect((await outcome(router)).error?.message).toBe('no x');
    expect(log).toEqual(['1 a/big', '1 refused', '2 b/big', '2 refused']);
  });

  test('is none if another route supports a feature that the first lacks', async () => {
    const a = (): ScriptStep[] => [new GatewayError('unsupported_parameter', 'no x')];
    const { router } = setUp({ a, b: () => answer('y') }, [{}, { provider: 'b', priority: 2 }]);
    expect((await outcome(router)).seen).toBe('[y.');
  });

  test('is a defect of the gateway, unchanged', async () => {
    const { router, log } = setUp({ a: () => [new TypeError('x is undefined')] }, [{}]);
    await expect(outcome(router)).rejects.toThrow(TypeError);
    expect(log).toEqual(['1 a/big', '1 defect']);
  });
});

test.each([
  ['goes to the next route with a longer context', [100, 50, 200], 'ac'],
  ['goes to a route that has the context of the model', [100, 200, undefined], 'abc'],
  ['is an error of the request if no route has a longer context', [undefined, 200, undefined], 'a'],
])('an input that is too long for a route %s', async (_, lengths, asked) => {
  const tooLong = (): ScriptStep[] => [status(400, { message: 'too long', meaning: 'too_long' })];
  const routes = lengths.map((contextLength, at) => ({ provider: 'abc'[at] ?? '', priority: at, contextLength }));
  const { router, log } = setUp({ a: tooLong, b: tooLong, c: () => answer('long') }, routes);
  const { seen, error } = await outcome(router);
  expect(asked.length === 1 ? error?.code : seen).toBe(asked.length === 1 ? 'context_length_exceeded' : '[long.');
  expect(log.flatMap(line => /(\w)\/big/.exec(line)?.[1] ?? []).join('')).toBe(asked);
});

describe('the circuit breaker', () => {
  const failing = (failure: UpstreamFailure): Setting & { a: ScriptedUpstream } => {
    const a = new ScriptedUpstream(() => [failure]);
    return { a, ...setUp({ a }, [{}]) };
  };
  const counted = [...Object.values(kinds), status(500), status(503), status(529)];
  test.each(counted)('opens after five requests that ended with: %s', async failure => {
    const { router } = failing(failure);
    for (let request = 0; request < 4; request += 1) await outcome(router);
    expect(router.isAvailable('m')).toBe(true);
    await outcome(router);
    expect(router.isAvailable('m')).toBe(false);
  });

  const uncounted = [408, 409, 429, 400, 413, 422, 401, 403, 404, 402].map(code => status(code));
  test.each([...uncounted, status(500, { requested: true })])('never opens because of: %s', async failure => {
    const { router } = failing(failure);
    for (let request = 0; request < 12; request += 1) await outcome(router);
    expect(router.isAvailable('m')).toBe(true);
  });

  test('counts the result of a request’s last attempt', async () => {
    const ends429 = setUp({ a: ({ attempt }) => [attempt < 3 ? status(500) : status(429)] }, [{}]);
    const ends500 = setUp({ a: ({ attempt }) => [attempt < 3 ? status(429) : status(500)] }, [{}]);
    for (let request = 0; request < 5; request += 1) {
      await outcome(ends429.router);
      await outcome(ends500.router);
    }
    expect([ends429.router.isAvailable('m'), ends500.router.isAvailable('m')]).toEqual([true, false]);
  });

  test('open on all routes: requests are refused immediately, and no upstream is called', async () => {
    const { router, a } = failing(status(500));
    for (let request = 0; request < 5; request += 1) await outcome(router);
    const before = a.calls.length;
    const { error } = await outcome(router);
    expect([error?.code, error?.facets.http, a.calls.length - before]).toEqual(['model_unavailable', 502, 0]);
  });

  test('open on one route: the next route is used without an attempt at the first, until one request may try it', async () => {
    let healthy = false;
    const a = new ScriptedUpstream(() => (healthy ? answer('a') : [status(500)]));
    const { router, clock, log } = setUp({ a, b: () => answer('b') }, [{}, { provider: 'b', priority: 2 }]);
    for (let request = 0; request < 5; request += 1) expect((await outcome(router)).seen).toBe('[b.');
    const before = a.calls.length;
    expect([(await outcome(router)).seen, a.calls.length, router.isAvailable('m')]).toEqual(['[b.', before, true]);
    healthy = true;
    clock.at += 10_000;
    expect([(await outcome(router)).seen, (await outcome(router)).seen]).toEqual(['[a.', '[a.']);
    expect(log.filter(line => line.startsWith('a '))).toEqual(['a open', 'a half_open', 'a closed']);
    expect(router.breakers().map(({ state }) => state)).toEqual(['closed', 'closed']);
  });

  test('half open: of many concurrent requests only one calls the route', async () => {
    let healthy = false;
    const a = new ScriptedUpstream(() => (healthy ? ['hang', ...answer('a')] : [status(500)]));
    const { router, clock } = setUp({ a }, [{}]);
    for (let request = 0; request < 5; request += 1) await outcome(router);
    const before = a.calls.length;
    healthy = true;
    clock.at += 10_000;
    const leaving = new AbortController();
    const probe = outcome(router, { signal: leaving.signal });
    await Promise.resolve();
    const others = await Promise.all(Array.from({ length: 10 }, () => outcome(router)));
    expect(others.map(({ error }) => error?.code)).toEqual(Array.from({ length: 10 }, () => 'model_unavailable'));
    expect([a.calls.length - before, router.isAvailable('m')]).toEqual([1, false]);
    leaving.abort(new Error('client gone'));
    await expect(probe).rejects.toThrow('client gone');
    expect(router.isAvailable('m')).toBe(true);
  });

  test('half open: if the caller disconnects while its next attempt waits, another request may try', async () => {
    const leaving = new AbortController();
    let isLeaving = false;
    const { router, clock } = setUp({ a: () => [status(500)] }, [{}], {
      sleep: async (_, signal) => {
        if (isLeaving) leaving.abort(new Error('client gone'));
        signal.throwIfAborted();
      },
    });
    for (let request = 0; request < 5; request += 1) await outcome(router);
    clock.at += 10_000;
    isLeaving = true;
    await expect(outcome(router, { signal: leaving.signal })).rejects.toThrow('client gone');
    expect(router.isAvailable('m')).toBe(true);
  });

  test('does not count callers that disconnect', async () => {
    const { router, log } = setUp({ a: () => ['hang'] }, [{}]);
    for (let request = 0; request < 6; request += 1) {
      const leaving = new AbortController();
      const gone = outcome(router, { signal: leaving.signal });
      await setImmediate();
      leaving.abort(new Error('client gone'));
      await expect(gone).rejects.toThrow('client gone');
    }
    expect([router.isAvailable('m'), log.filter(line => line.includes('aborted')).length]).toEqual([true, 6]);
  });

  test('keeps its state when a new configuration still has the route', async () => {
    const { router, a } = failing(status(500));
    for (let request = 0; request < 5; request += 1) await outcome(router);
    const route = { provider: 'a', model: 'big', priority: 5, weight: 2 };
    const retry = { retries: 0, backoff: { baseMs: 1, maxMs: 1 }, retryAfterMaxMs: 1, keyWaitMs: 1 };
    const config = { providers: [{ name: 'a', upstream: a }], routes: new Map([['m', [route]]]) };
    router.replace(config, retry);
    expect(router.isAvailable('m')).toBe(false);
    router.replace({ ...config, routes: new Map([['m', [{ ...route, model: 'other' }]]]) }, retry);
    expect(router.isAvailable('m')).toBe(true);
    expect(() => router.replace({ providers: [], routes: config.routes }, retry)).toThrow('unknown provider: a');
    expect(router.isAvailable('m')).toBe(true);
  });
});

test('unknown models and models without routes are not available', async () => {
  const { router } = setUp({ a: () => answer('x') }, []);
  expect([router.isAvailable('m'), router.isAvailable('unknown')]).toEqual([false, false]);
  expect((await outcome(router)).error?.code).toBe('model_unavailable');
});

describe('the order of routes', () => {
  test('is by priority, even against the weights', async () => {
    const scripts = { a: () => [status(401)], b: () => [status(401)], c: () => answer('c') };
    const { router, log } = setUp(scripts, [
      { provider: 'c', priority: 3, weight: 100 },
      { provider: 'a', priority: 1, weight: 0 },
      { provider: 'b', priority: 2, weight: 1 },
    ]);
    await outcome(router);
    expect(log.filter(line => line.includes('/'))).toEqual(['1 a/big', '2 b/big', '3 c/big']);
  });

  test('is random among equals, in proportion to their weights, and never begins with one of weight 0', async () => {
    let draws = 0;
    const scripts = { a: () => answer('a'), b: () => answer('b'), c: () => answer('c') };
    const routes = [
      { provider: 'c', weight: 0 },
      { provider: 'a', weight: 3 },
      { provider: 'b', weight: 1 },
    ];
    // Every request draws three random numbers, of which the first one decides.
    const { router } = setUp(scripts, routes, { random: () => (Math.floor(draws++ / 3) % 100) / 100 });
    const seen: Record<string, number> = {};
    for (let request = 0; request < 100; request += 1) {
      const { seen: answered } = await outcome(router);
      seen[answered] = (seen[answered] ?? 0) + 1;
    }
    expect(seen).toEqual({ '[a.': 75, '[b.': 25 });
  });

  test('leaves out routes that can’t carry the tier', async () => {
    const scripts = { a: () => answer('a'), b: () => answer('b') };
    const routes = [{ tiers: [] }, { provider: 'b', priority: 2, tiers: ['flex'] }];
    const { router } = setUp(scripts, routes);
    expect((await outcome(router)).seen).toBe('[a.');
    expect((await outcome(router, { tier: ServiceTier.FLEX })).seen).toBe('[b.');
    const { error } = await outcome(router, { tier: ServiceTier.PRIORITY });
    expect([error?.code, error?.facts.param]).toEqual(['unsupported_feature', 'service_tier']);
  });
});

describe('the concurrency of a provider', () => {
  const limits = { slots: 1, waitersMax: 1, waitMs: 60_000 };
  const noQueue = { ...limits, waitersMax: 0 };

  test('makes requests wait for their turn, counting all models of the provider together', async () => {
    const a = new ScriptedUpstream(() => answer('x'));
    const { router } = setUp({ a }, [{}], { concurrency: limits });
    const first = ask(router);
    await first.next();
    const second = outcome(router);
    await setImmediate();
    expect(a.calls.length).toBe(1);
    await first.return?.();
    expect([(await second).seen, a.calls.length]).toEqual(['[x.', 2]);
  });

  test('skips a route with too many waiting requests; if there is no other route, requests are refused with a `retry-after`', async () => {
    const a = new ScriptedUpstream(() => answer('a'));
    const spare = setUp({ a, b: () => answer('b') }, [{}, { provider: 'b', priority: 2 }], {
      concurrency: noQueue,
    });
    const first = ask(spare.router);
    await first.next();
    expect((await outcome(spare.router)).seen).toBe('[b.');
    const alone = setUp({ a }, [{}], { concurrency: noQueue });
    const only = ask(alone.router);
    await only.next();
    const { error } = await outcome(alone.router);
    expect([error?.code, error?.facts.retryAfterMs]).toEqual(['overloaded', 1_000]);
    await only.return?.();
    expect((await outcome(alone.router)).seen).toBe('[a.');
    expect(alone.router.isAvailable('m')).toBe(true);
  });

  test('is released after every end: completed, failed, stopped by the reader, aborted', async () => {
    const steps: ScriptStep[][] = [answer('x'), [status(400)], ['hang'], answer('y')];
    const a = new ScriptedUpstream(() => steps.shift() ?? []);
    const { router } = setUp({ a }, [{}], { concurrency: noQueue });
    expect((await outcome(router)).seen).toBe('[x.');
    expect((await outcome(router)).error?.code).toBe('upstream_rejected');
    const leaving = new AbortController();
    const gone = outcome(router, { signal: leaving.signal });
    await setImmediate();
    leaving.abort(new Error('client gone'));
    await expect(gone).rejects.toThrow('client gone');
    expect((await outcome(router)).seen).toBe('[y.');
  });
});

test('no upstream is called for a caller who has already disconnected', async () => {
  const a = new ScriptedUpstream(() => answer('x'));
  const { router } = setUp({ a }, [{}]);
  await expect(outcome(router, { signal: AbortSignal.abort(new Error('gone')) })).rejects.toThrow('gone');
  expect(a.calls.length).toBe(0);
});

test('if the caller stops reading, the upstream is stopped, and that is not a failure', async () => {
  const a = new ScriptedUpstream(() => [begin, text('1'), text('2'), end]);
  const { router, log } = setUp({ a }, [{}]);
  for await (const step of ask(router)) if (step.kind === 'events') break;
  expect([a.cancelledCount, log]).toEqual([1, ['1 a/big', '1 cut']]);
});

test('if the caller rejects events, even the last ones, the attempt fails', async () => {
  const a = new ScriptedUpstream(() => answer('x'));
  const { router, log } = setUp({ a, b: () => answer('y') }, [{}, { provider: 'b', priority: 2 }]);
  const judge: ReaderOptions['judge'] = events =>
    events === end && log.at(-1)?.includes('a/') === true ? new UpstreamFailure('malformed') : undefined;
  const seen: string[] = [];
  for await (const step of ask(router, { restartable: true, judge })) seen.push(shown(step));
  expect([seen.join(''), a.calls.length]).toEqual(['[x.[x.[x.[y.', 3]);
  expect(log.filter(line => !line.includes('/'))).toEqual(['1 malformed', '2 malformed', '3 malformed', '4 completed']);
  const strict = await outcome(router, { judge: () => new UpstreamFailure('malformed') });
  expect(strict.error?.message).toContain('can’t be parsed');
});

test('an answer is complete when its last events were read, even if the reader requests no more', async () => {
  const { router, log } = setUp({ a: () => answer('x') }, [{}]);
  for await (const step of ask(router)) if (step.kind === 'events' && step.events === end) break;
  expect(log).toEqual(['1 a/big', '1 completed']);
});
