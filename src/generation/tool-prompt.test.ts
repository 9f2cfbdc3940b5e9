import { expect, test } from 'vitest';
import { toolPromptTokens } from './tool-prompt.ts';

test('what models add for tools is known by family, whatever else is in the name, and a template may add something without tools', () => {
  const names = ['claude-sonnet-5', 'meta-llama/llama-3.3-70b', 'openai/gpt-oss-120b', 'grok-4', 'gpt-5', 'unheard-of'];
  expect(names.map(name => toolPromptTokens(name, 'auto'))).toEqual([438, 661, 60, 164, 0, 0]);
  expect(names.map(name => toolPromptTokens(name, undefined))).toEqual([0, 0, 62, 0, 0, 0]);
  expect(toolPromptTokens('claude-sonnet-5', 'forced')).toBe(574);
});
