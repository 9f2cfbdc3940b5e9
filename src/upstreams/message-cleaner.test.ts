import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cleanParam, messageCleaner } from './message-cleaner.ts';

const key = 'canary-9f8e7d6c5b4a';
const header = 'tenant-secret-42';
const clean = messageCleaner({ secrets: [key, header], baseUrl: 'https://llm.corp.example:8443/v1' });

test('an ordinary message is unchanged', () => {
  const message = 'messages.0.content: expected a string (see section 1.2.3) at line 3:15, got 17';
  expect(clean(message)).toBe(message);
});

test.each([
  [`bad key ${key}`, 'bad key [credential]'],
  [`x-tenant: ${header}!`, 'x-tenant: [credential]!'],
  ['Incorrect API key provided: sk-proj-abc***********wxyz.', 'Incorrect API key provided: [credential]'],
  ['Authorization: Bearer eyJhbGciOi.J9', 'Authorization: Bearer [credential]'],
  ['gsk_1234567890abcdef and AIzaSyD1234567890', '[credential] and [credential]'],
  ['POST https://llm.corp.example:8443/v1/chat/completions failed', 'POST [address] failed'],
  ['cannot connect to LLM.corp.example.', 'cannot connect to [address].'],
  ['https://llm.corp.example:8443', '[address]'],
  ['connect ECONNREFUSED 10.0.3.7:8000', 'connect ECONNREFUSED [address]'],
  ['connect ECONNREFUSED [fd00::7]:8000 or localhost:8000', 'connect ECONNREFUSED [address] or [address]'],
  ['upstream worker-3.models.internal is down', 'upstream [address] is down'],
  ['no route to gpu-node.eu.example.net:9000', 'no route to [address]'],
  ['line one\r\n\tline\u0000two\ud800', 'line one line two'],
])('%j becomes %j', (message, expected) => {
  expect(clean(message)).toBe(expected);
});

test('a web page and an empty text give no message', () => {
  expect(clean('<!DOCTYPE html><html><body><h1>502</h1></body></html>')).toBeUndefined();
  expect(clean(' \n\t ')).toBeUndefined();
});

test('a message is cut at a thousand characters, and cleaning a long one takes little time', () => {
  // CPU time, so that other work on the machine does not count.
  const before = process.cpuUsage();
  expect(clean('a.b-'.repeat(1_000_000))?.length).toBe(1_000);
  for (const part of [':', '.', '-', 'a.', 'sk-', 'bearer ', '[', '1.', 'https://']) {
    expect(clean(part.repeat(1_000_000))?.length ?? 0).toBeLessThanOrEqual(1_000);
  }
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(200);
});

test('no secret is left, wherever it is and whatever is around it', () => {
  const around = fc.string({ maxLength: 40 });
  fc.assert(
    fc.property(around, around, fc.constantFrom(key, header), (before, after, secret) => {
      const cleaned = clean(before + secret + after) ?? '';
      return !cleaned.includes(secret);
    }),
  );
});

test('if a secret contains another one, nothing of it is left', () => {
  const both = messageCleaner({ secrets: ['abcdef', 'abcdef-ghijkl'], baseUrl: 'http://127.0.0.1:1' });
  expect(both('abcdef-ghijkl abcdef')).toBe('[credential] [credential]');
});

test('a field is named only if it looks like one', () => {
  expect(cleanParam('tools[1].function.name')).toBe('tools[1].function.name');
  expect(cleanParam(`${key} at https://x`)).toBeUndefined();
  expect(cleanParam('')).toBeUndefined();
});
