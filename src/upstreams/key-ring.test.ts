import { expect, test } from 'vitest';
import { Hold } from '../generation/hold.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { KeyRing } from './key-ring.ts';

const hold = (): Hold => Hold.of({ kind: 'admitted', id: 1 });
const names = ['a', 'b', 'c'];
const ring = (...keys: string[]): KeyRing => new KeyRing(keys.length);
const status = (code: number): UpstreamFailure => new UpstreamFailure('status', { status: code });

const picked = (keys: KeyRing, by: Hold, model = 'm'): string | undefined => names[keys.pick(by, model) ?? -1];

test('keys are used in turn', () => {
  const keys = ring('a', 'b', 'c');
  expect([1, 2, 3, 4].map(() => picked(keys, hold()))).toEqual(['a', 'b', 'c', 'a']);
});

test('an empty key is one that may be refused', () => {
  const keys = new KeyRing(1);
  const request = hold();
  expect(keys.pick(request, 'm')).toBe(0);
  expect(keys.learn(request, 'm', 0, status(401))).toBe(true);
  expect(keys.pick(request, 'm')).toBeUndefined();
});

test.each([401, 403])('a key that got %i is never used again by the same request, but by others', code => {
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
  expect([picked(keys, other), picked(keys, other), keys.lastRefusal(other)]).toEqual(['a', 'b', undefined]);
});

test('a key that got 404 is passed over for that model only', () => {
  const keys = ring('a');
  const request = hold();
  picked(keys, request);
  expect(keys.learn(request, 'm', 0, status(404))).toBe(true);
  expect([picked(keys, request), picked(keys, request, 'n')]).toEqual([undefined, 'a']);
});

test('a key at its limit is taken again only where there is no other', () => {
  const keys = ring('a', 'b', 'c');
  const request = hold();
  picked(keys, request);
  expect(keys.learn(request, 'm', 0, status(429))).toBe(false);
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
