import { expect, test } from 'vitest';
import { toLogMessage } from './log-message.ts';

const body = Buffer.from(
  JSON.stringify({
    model: 'large-v1-preview',
    messages: [
      { role: 'user', content: 'measles' },
      { role: 'user', content: 'My diagnosis is arachnophobia, please help' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ type: 'function', function: { name: 'look_at_patient', arguments: '{"at":"in ward seven"}' } }],
      },
    ],
  }),
);
const logged = (message: string): string | undefined => toLogMessage(message, body, 'large-v1-preview');

test('a provider’s explanation is kept', () => {
  for (const message of [
    'You exceeded your current quota, please check your plan and billing details.',
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    'The model `large-v1-preview` does not exist or you do not have access to it.',
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
    'Invalid role: user and assistant must alternate.',
  ]) {
    expect(logged(message)).toBe(message);
  }
});

test('quoted parts of the request are removed', () => {
  expect(logged('Refused: "My diagnosis is arachnophobia" is private')).toBe('Refused: "[…]" is private');
  expect(logged('Unknown function look_at_patient.')).toBe('Unknown function […].');
  expect(logged('bad JSON in ward seven')).not.toContain('ward seven');
  expect(logged('What is measles?')).toBe('What is […]?');
  expect(logged(body.toString())).not.toMatch(/diagnosis|arachno|patient|ward/);
});

test('possible secrets are removed', () => {
  expect(logged('trace 3f9a2c77d01b4e6688aa00bb11cc22dd33')).toBe('trace [redacted]');
  expect(logged('Incorrect API key provided: sk-proj-abc1234567890')).toBe('Incorrect API key provided: [redacted]');
});

test('nothing of a message is logged if the request is too large to compare it with', () => {
  const large = Buffer.from(JSON.stringify({ messages: [{ content: 'x'.repeat(1 << 20) }] }));
  expect(toLogMessage('too long', large, 'm')).toBeUndefined();
  expect(toLogMessage('', body, 'm')).toBeUndefined();
});
