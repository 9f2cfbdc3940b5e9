import { expect, test } from 'vitest';
import { Findings, isSameModel } from './route-findings.ts';

const route = { modelId: 'local/a', provider: 'local', model: 'qwen3:8b' };

test.each([
  ['gpt-4o', 'gpt-4o-2024-08-06', true],
  ['mistral-large-latest', 'mistral-large-2411', true],
  ['llama3.2', 'llama3.2:latest', true],
  ['/models/x.gguf', 'x', true],
  ['meta-llama/Llama-3.3-70B', 'llama-3.3-70b', true],
  ['claude-sonnet-4-5', 'claude-sonnet-4-5@20250929', true],
  ['gpt-4o', 'gpt-4o-mini', false],
  ['qwen3:8b', 'llama3.2:3b', false],
  ['qwen3:8b', 'qwen3:4b', false],
])('%s that answers as %s is the same model: %s', (requested, answered, same) => {
  expect(isSameModel(requested, answered)).toBe(same);
});

test('another model than the requested one is reported once, and stays a finding until the requested model answers', () => {
  const reported: string[] = [];
  const findings = new Findings({ answeredAs: (_, model) => reported.push(model) });
  for (const model of ['', 'qwen3:8b', 'llama3.2:3b', 'llama3.2:3b']) findings.answered(route, model);
  expect([reported, findings.of({ ...route }).answersAs]).toEqual([['llama3.2:3b'], 'llama3.2:3b']);
  findings.answered(route, 'qwen3:8b-2026');
  expect(findings.of(route).answersAs).toBe(undefined);
  findings.answered(route, 'llama3.2:3b');
  expect([reported, findings.of(route).answersAs]).toEqual([['llama3.2:3b'], 'llama3.2:3b']);
  findings.answered(route, 'gemma3:1b');
  expect(reported).toEqual(['llama3.2:3b', 'gemma3:1b']);
});

test('a truncated prompt is reported once', () => {
  let reported = 0;
  const findings = new Findings({ inputCut: () => (reported += 1) });
  expect(findings.of(route).cutsInput).toBe(false);
  findings.inputCut(route);
  findings.inputCut({ ...route });
  expect([reported, findings.of(route)]).toEqual([1, { answersAs: undefined, cutsInput: true }]);
});

test('a member without a price is told for each request, as new once for its provider; a doubtful report once for its route and member', () => {
  const told: unknown[] = [];
  const findings = new Findings({
    unpriced: (_, member, isNew) => told.push([member, isNew]),
    usageDoubtful: (_, doubt) => told.push(doubt),
  });
  findings.unpriced(route, ['usage.a', 'usage.b']);
  findings.unpriced({ ...route, modelId: 'local/b' }, ['usage.a']);
  const doubt = { member: 'service_tier', reported: 'turbo', believed: 'default' };
  for (const model of ['one', 'one', 'two']) findings.usageDoubtful({ ...route, model }, doubt);
  expect(told).toEqual([['usage.a', true], ['usage.b', true], ['usage.a', false], doubt, doubt]);
});
