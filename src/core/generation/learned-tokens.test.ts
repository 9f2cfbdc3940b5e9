import { describe, expect, test } from 'vitest';
import { LearnedTokens } from './learned-tokens.ts';

const route = { modelId: 'acme/large', provider: 'a', model: 'large' };
const other = { ...route, provider: 'b' };
const words = (estimate: number) => ({ kind: 'words', estimate }) as const;

describe('LearnedTokens', () => {
  test('predicts nothing before a report, and after it nothing for other routes and kinds', () => {
    const tokens = new LearnedTokens();
    expect(tokens.input(route, words(100))).toBeUndefined();
    tokens.learn(route, { input: { ...words(100), tokens: 80 } });
    expect(tokens.input(route, words(100))).toBeGreaterThan(70);
    expect(tokens.input(other, words(100))).toBeUndefined();
    expect(tokens.input(route, { kind: 'wide', estimate: 100 })).toBeUndefined();
    expect(tokens.output(route, words(100))).toBeUndefined();
  });

  test('separates the tokens that a chat template adds from those of the text, in any order of reports', () => {
    const tokens = new LearnedTokens();
    const counted = (estimate: number): number => 25 + Math.round(estimate * 0.8);
    for (const estimate of [20, 1_500, 30, 400, 25, 3_000, 20, 20]) {
      tokens.learn(route, { input: { ...words(estimate), tokens: counted(estimate) } });
    }
    for (const estimate of [10, 200, 5_000]) {
      const known = tokens.input(route, words(estimate)) ?? 0;
      expect(Math.abs(known / counted(estimate) - 1)).toBeLessThan(0.1);
    }
  });

  test('an upper bound is never below the latest report, and falls again afterwards', () => {
    const tokens = new LearnedTokens();
    for (let time = 0; time < 10; time += 1) tokens.learn(route, { input: { ...words(100), tokens: 70 } });
    tokens.learn(route, { input: { ...words(100), tokens: 200 } });
    const high = tokens.inputHigh('acme/large', words(100)) ?? 0;
    expect(high).toBeGreaterThanOrEqual(200);
    for (let time = 0; time < 30; time += 1) tokens.learn(route, { input: { ...words(100), tokens: 70 } });
    expect(tokens.inputHigh('acme/large', words(100))).toBeLessThan(90);
  });

  test('a report that no tokenizer could produce is ignored', () => {
    const tokens = new LearnedTokens();
    tokens.learn(route, { input: { ...words(100), tokens: 70 } });
    const before = tokens.input(route, words(100));
    tokens.learn(route, { input: { ...words(100), tokens: 1_000_000 } });
    tokens.learn(route, { input: { ...words(100), tokens: 0 } });
    expect(tokens.input(route, words(100))).toBe(before);
  });

  test('reasoning is estimated from its time', () => {
    const tokens = new LearnedTokens();
    expect(tokens.reasoning(route, 1_000)).toBeUndefined();
    tokens.learn(route, { reasoning: { tokens: 100, ms: 500 } });
    expect(tokens.reasoning(route, 1_000)).toBe(200);
    tokens.learn(route, { reasoning: { tokens: 0, ms: 500 } });
    expect(tokens.reasoning(route, 1_000)).toBe(180);
  });

  test('learns from each of the first answers of a route, then from one per second', () => {
    const tokens = new LearnedTokens();
    const due = Array.from({ length: 70 }, () => tokens.isDue(route, 10));
    expect(due.filter(Boolean)).toHaveLength(64);
    expect(tokens.isDue(route, 1_010)).toBe(true);
    expect(tokens.isDue(route, 1_500)).toBe(false);
  });
});

test('what a model adds for tools is learned beside inputs without tools, and for tools that must be used apart from others', () => {
  const tokens = new LearnedTokens();
  const claude = { modelId: 'acme/claude', provider: 'a', model: 'claude-sonnet-5' };
  const used = (estimate: number, tools: 'auto' | 'forced') => ({ ...words(estimate), tools });
  for (const estimate of [40, 900, 60]) {
    const text = Math.round(estimate * 0.7);
    tokens.learn(claude, { input: { ...words(estimate), tokens: text + 8 } });
    tokens.learn(claude, { input: { ...used(estimate, 'auto'), tokens: text + 388 } });
    tokens.learn(claude, { input: { ...used(estimate, 'forced'), tokens: text + 514 } });
  }
  const near = (known: number | undefined, wanted: number): void =>
    expect(Math.abs((known ?? 0) / wanted - 1)).toBeLessThan(0.1);
  near(tokens.input(claude, words(200)), 148);
  near(tokens.input(claude, used(200, 'auto')), 528);
  near(tokens.input(claude, used(200, 'forced')), 654);
});
