import fc from 'fast-check';
import { expect, test } from 'vitest';
import { base62, IdSource, parseLedgerId, publicRequestId, randomBase62, unnumberedRequestId } from './ids.ts';

test('base62 gives the digits of a division by 62, padded', () => {
  const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  const plain = (value: bigint, length: number): string => {
    let text = '';
    for (let rest = value; text.length < length; rest /= 62n) text = alphabet.charAt(Number(rest % 62n)) + text;
    return text;
  };
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 256n }), value => {
      expect(base62(value, 43)).toBe(plain(value, 43));
    }),
  );
  expect(base62(62n ** 8n, 11)).toBe('00100000000');
});

test('a public id converts back to its ledger id, and no other text does', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }), id => {
      expect(parseLedgerId(publicRequestId(id))).toBe(id);
    }),
  );
  for (const other of [
    '',
    'req_',
    'req_zzzzzzzzzz00000000000',
    'req_000000000100000000000x',
    'resp_000000000100000000000',
  ]) {
    expect(parseLedgerId(other)).toBeUndefined();
  }
});

test('two public ids of one ledger id differ in their random part, 10,000 times', () => {
  expect(new Set(Array.from({ length: 10_000 }, () => publicRequestId(7))).size).toBe(10_000);
});

test('ids always ascend, whatever the clock does, and begin above the last stored one', () => {
  let now = 1_790_000_000_000;
  const ids = new IdSource({ now: () => now }, 1_790_000_000_500 * 4096);
  const made = [0, 1, -60_000, 86_400_000, -86_400_000, 0].map(step => {
    now += step;
    return ids.next();
  });
  expect(made).toEqual(made.toSorted((a, b) => a - b));
  expect(new Set(made).size).toBe(made.length);
  expect(made[0]).toBeGreaterThan(1_790_000_000_500 * 4096);
});

test('two processes never make the same id, even at the same moment and after the same last id', () => {
  const makers = [0, 1, 63].map(instance => new IdSource({ now: () => 1_790_000_000_000 }, 0, { instance }));
  const made = Array.from({ length: 1_000 }, () => makers.map(ids => ids.next())).flat();
  expect(new Set(made).size).toBe(3_000);
  expect(new IdSource({ now: () => 0 }, 4_097, { instance: 1 }).next()).toBe(4_096 + 64 + 1);
});

test('random text has the requested length and only base62 characters', () => {
  for (const length of [1, 11, 43, 100]) expect(randomBase62(length)).toMatch(new RegExp(`^[0-9A-Za-z]{${length}}$`));
});

test('an id whose time would pass 2^53 is refused, however often it is requested', () => {
  const endMs = 2 ** 41;
  let now = endMs - 1;
  const ids = new IdSource({ now: () => now });
  const last = ids.next();
  expect(last).toBeLessThan(2 ** 53);
  now = endMs;
  expect(() => ids.next()).toThrow('ids of 53 bits have run out');
  expect(() => ids.next()).toThrow(RangeError);
  expect(() => new IdSource({ now: () => 0 }, 2 ** 53 - 64).next()).toThrow(RangeError);
});

test('if the clock jumps more than a day ahead, no ids are made until it is set back, and none is lost', () => {
  let stepMs = 0;
  let runMs = 0;
  const clock = { now: () => 1_790_000_000_000 + runMs + stepMs };
  const refusal = (reason: string): Error => new Error(`503 ${reason}`);
  const ids = new IdSource(clock, 0, { refusal, monotonicMs: () => runMs });
  runMs = 30 * 86_400_000;
  const first = ids.next();
  stepMs = 86_400_000;
  expect(ids.next()).toBeGreaterThan(first);
  stepMs = 86_400_001;
  expect(() => ids.next()).toThrow('503 the clock has jumped 86400 s ahead');
  stepMs = 0;
  expect(ids.next()).toBeLessThan((1_790_000_000_000 + runMs + 86_400_001) * 4096);
});

test('a public id without a ledger id differs from those of all ledger ids', () => {
  for (let n = 0; n < 100; n += 1) expect(parseLedgerId(unnumberedRequestId())).toBe(undefined);
});
