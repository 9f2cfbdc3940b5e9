import { expect, test } from 'vitest';
import { Hold } from '../generation/hold.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { KeyRing } from './key-ring.ts';

/** Makes the hold of a new request. The ring knows requests only by their holds. */
const hold = (): Hold => Hold.of({ kind: 'admitted', id: 1 });
const names = ['a', 'b', 'c'];
/** Time moves only when a test moves it. */
const clock = { ms: 1_000 };
const runtime = { now: () => 1_800_000_000_000 + clock.ms, monotonicMs: () => clock.ms };
const ring = (...keys: string[]): KeyRing => new KeyRing(keys.length, { runtime });
const status = (code: number): UpstreamFailure => new UpstreamFailure('status', { status: code });

const picked = (keys: KeyRing, by: Hold, model = 'm'): string | undefined => names[keys.pick(by, model) ?? -1];

test('keys are used in turn', () => {
  const keys = ring('a', 'b', 'c');
  expect([1, 2, 3, 4].map(() => picked(keys, hold()))).toEqual(['a', 'b', 'c', 'a']);
});

test('a provider without keys is used as if it had one key, which can be refused', () => {
  const keys = new KeyRing(0, { runtime });
  const request = hold();
  expect(keys.pick(request, 'm')).toBe(0);
  // True: the request should try another key.
  expect(keys.learn(request, 'm', 0, status(401))).toBe(true);
  expect(keys.pick(request, 'm')).toBeUndefined();
});

test.each([401, 403])(
  'a key that got %i is not used again by the same request, and not by other requests while it rests',
  code => {
    const keys = ring('a', 'b');
    const request = hold();
    const failure = status(code);
    expect(picked(keys, request)).toBe('a');
    expect(keys.learn(request, 'm', 0, failure)).toBe(true);
    expect([1, 2, 3].map(() => picked(keys, request))).toEqual(['b', 'b', 'b']);
    expect(picked(keys, request, 'other model')).toBe('b');
    expect(keys.learn(request, 'm', 1, failure)).toBe(true);
    expect([picked(keys, request), keys.lastRefusal(request)]).toEqual([undefined, failure]);
    const other = hold();
    expect([picked(keys, other), keys.lastRefusal(other), keys.isUsable]).toEqual([undefined, undefined, false]);
    clock.ms += keys.restMs;
    expect([picked(keys, other), picked(keys, request)]).toEqual(['a', undefined]);
  },
);

test('a key that got 404 is skipped for that model only', () => {
  const keys = ring('a');
  const request = hold();
  picked(keys, request);
  expect(keys.learn(request, 'm', 0, status(404))).toBe(true);
  expect([picked(keys, request), picked(keys, request, 'n')]).toEqual([undefined, 'a']);
});

test('a key at its rate limit is used again only if there is no other', () => {
  const keys = ring('a', 'b', 'c');
  const request = hold();
  picked(keys, request);
  expect(keys.learn(request, 'm', 0, status(429))).toBe(true);
  expect([1, 2, 3, 4].map(() => picked(keys, request))).toEqual(['b', 'c', 'b', 'c']);
  keys.learn(request, 'm', 1, status(429));
  keys.learn(request, 'm', 2, status(401));
  expect([1, 2, 3].map(() => picked(keys, request)).every(key => key === 'a' || key === 'b')).toBe(true);
});

test.each([400, 408, 500, 503])('%i says nothing about a key', code => {
  const keys = ring('a');
  const request = hold();
  expect(keys.learn(request, 'm', 0, status(code))).toBe(false);
  expect(picked(keys, request)).toBe('a');
});

const limited = (retryAfterMs?: number): UpstreamFailure =>
  new UpstreamFailure('status', { status: 429, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });

test('if the last key is at its rate limit, its request waits for it, and other requests skip it until its rest ends', () => {
  const keys = ring('a');
  const request = hold();
  picked(keys, request);
  expect(keys.learn(request, 'm', 0, limited(7_000))).toBe(false);
  expect([picked(keys, request), picked(keys, hold()), keys.isUsable, keys.restMs]).toEqual([
    'a',
    undefined,
    false,
    7_000,
  ]);
  clock.ms += 7_000;
  // The key is reserved for the refused request, which has already picked it again.
  expect([keys.isUsable, picked(keys, hold())]).toEqual([false, undefined]);
  keys.works(request, 0);
  expect([picked(keys, hold()), keys.health()[0]?.state]).toEqual(['a', 'working']);
});

test('rests double from 30 s up to 10 minutes, and after each rest a single request tries the key', () => {
  const keys = ring('a');
  const rests: number[] = [];
  for (let turn = 0; turn < 7; turn += 1) {
    const request = hold();
    expect(picked(keys, request)).toBe('a');
    if (turn > 0) expect([keys.health()[0]?.state, picked(keys, hold())]).toEqual(['probing', undefined]);
    keys.learn(request, 'm', 0, status(401));
    rests.push(keys.restMs / 1_000);
    clock.ms += keys.restMs - 1;
    expect(keys.isUsable).toBe(false);
    clock.ms += 1;
  }
  expect(rests).toEqual([30, 60, 120, 240, 480, 600, 600]);
  const request = hold();
  picked(keys, request);
  keys.works(request, 0);
  picked(keys, request);
  keys.learn(request, 'm', 0, status(403));
  expect(keys.restMs).toBe(30_000);
});

test('if the failure of that request says nothing about the key, the next request tries it', () => {
  const keys = ring('a');
  const [first, second] = [hold(), hold()];
  picked(keys, first);
  keys.learn(first, 'm', 0, status(401));
  clock.ms += 30_000;
  expect([picked(keys, second), picked(keys, hold())]).toEqual(['a', undefined]);
  keys.learn(second, 'm', 0, status(503));
  expect(picked(keys, hold())).toBe('a');
});

test('refusals of requests that were already running do not extend a key’s rest', () => {
  const keys = ring('a');
  const [first, second] = [hold(), hold()];
  picked(keys, first);
  picked(keys, second);
  keys.learn(first, 'm', 0, status(401));
  keys.learn(second, 'm', 0, status(401));
  expect([keys.restMs, keys.health()[0]?.refusals]).toEqual([30_000, 2]);
});

test('a rejected request shows that its key was accepted', () => {
  const keys = ring('a');
  const [first, second] = [hold(), hold()];
  picked(keys, first);
  keys.learn(first, 'm', 0, status(401));
  clock.ms += 30_000;
  picked(keys, second);
  keys.learn(second, 'm', 0, status(400));
  expect(keys.health()[0]?.state).toBe('working');
});

test('an error about the provider’s bill counts as a refused key, whatever its status', () => {
  const keys = ring('a', 'b');
  const request = hold();
  picked(keys, request);
  expect(keys.learn(request, 'm', 0, new UpstreamFailure('status', { status: 400, meaning: 'billing' }))).toBe(true);
  expect([keys.health().map(({ state }) => state), picked(keys, hold())]).toEqual([['resting', 'working'], 'b']);
});

test('changes are reported, with the provider’s message for the log', () => {
  const seen: unknown[] = [];
  const keys = new KeyRing(1, { runtime, changed: health => seen.push([health.state, health.last?.message]) });
  const request = hold();
  picked(keys, request);
  keys.learn(request, 'm', 0, new UpstreamFailure('status', { status: 401, logMessage: 'No such key.' }));
  clock.ms += 30_000;
  const next = hold();
  picked(keys, next);
  keys.works(next, 0);
  expect(seen).toEqual([
    ['resting', 'No such key.'],
    ['working', 'No such key.'],
  ]);
});
