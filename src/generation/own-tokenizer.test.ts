import { expect, test } from 'vitest';
import { hasOwnTokenizer } from './own-tokenizer.ts';

test('the models of the gateway’s tokenizer are known by their names', () => {
  const own = [
    'gpt-4o',
    'openai/gpt-4o-mini',
    'gpt-4.1-nano',
    'gpt-5',
    'gpt-5.1-codex',
    'o3',
    'o4-mini-2025-04-16',
    'sim/large',
  ];
  const others = ['gpt-4', 'gpt-4-turbo', 'gpt-3.5-turbo', 'claude-opus-5', 'grok-4', 'gpt-50', 'o1x', 'solo1', 'm'];
  expect(own.filter(model => !hasOwnTokenizer({ model }))).toEqual([]);
  expect(others.filter(model => hasOwnTokenizer({ model }))).toEqual([]);
});
