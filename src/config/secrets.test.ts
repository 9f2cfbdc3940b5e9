import { format, inspect } from 'node:util';
import { expect, test } from 'vitest';
import { Secret } from './secrets.ts';

test('a secret is readable only by its named method', () => {
  const secret = new Secret('sk-canary');
  const nested = { provider: { apiKeys: [secret] } };
  expect(String(secret)).toBe('***');
  expect(JSON.stringify(nested)).toBe('{"provider":{"apiKeys":["***"]}}');
  for (const shown of [inspect(nested, { depth: 9, showHidden: true }), format('%s %o %j', secret, secret, secret)]) {
    expect(shown).not.toContain('canary');
  }
  expect(Object.values(secret)).toEqual([]);
  expect(secret.reveal()).toBe('sk-canary');
});
