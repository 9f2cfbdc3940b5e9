import { expect, test } from 'vitest';
import { UnseenOutput } from './unseen-output.ts';

const route = { modelId: 'acme/large', provider: 'a', model: 'large' };
const other = { ...route, provider: 'b' };

test('a route that has not answered is assumed to generate 50 tokens a second', () => {
  expect(new UnseenOutput().estimate(route, 2_000)).toBe(100);
});

test('a route’s speed is an average in which the latest answer counts for a fifth, and changes no other route’s', () => {
  const unseen = new UnseenOutput();
  unseen.learn(route, 200, 1_000);
  expect(unseen.estimate(route, 500)).toBe(100);
  unseen.learn(route, 100, 1_000);
  expect(unseen.estimate(route, 1_000)).toBe(180);
  expect(unseen.estimate(other, 1_000)).toBe(50);
});

test('an answer without output, or that took no time, is ignored', () => {
  const unseen = new UnseenOutput();
  unseen.learn(route, 0, 1_000);
  unseen.learn(route, 10, 0);
  expect(unseen.estimate(route, 1_000)).toBe(50);
});
