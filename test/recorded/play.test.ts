import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/codecs/codec.ts';
import { readExchanges } from './exchange.ts';
import { playExchange } from './play.ts';
import { Report } from './report.ts';

const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 };
const answer = (content: string): JsonObject => ({
  choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
  usage,
});
const exchange = (id: string, body: string, more: JsonObject = {}): JsonObject => ({
  id,
  source: 'made up',
  provider: 'acme',
  protocol: 'chat',
  status: 200,
  stream: false,
  request: { model: 'x', messages: [{ role: 'user', content: 'Hi' }] },
  body,
  ...more,
});

test('a folder of recordings is played in every protocol, and its report names the causes of differences', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'recorded-'));
  const lines = [
    exchange('a1', JSON.stringify(answer('Rome.'))),
    exchange('a2', JSON.stringify(answer('Oslo.')), { request: { messages: 'Hi' } }),
    exchange('a3', `data: {"choices":[{"index":0,"delta":{"content":"Bern"}}]}\n\n`, { stream: true }),
    exchange('a4', '{"error":{"message":"no"}}'),
    exchange('a5', '{"error":{"message":"no"}}', { status: 500 }),
  ];
  writeFileSync(join(folder, 'acme.jsonl.gz'), gzipSync(lines.map(line => JSON.stringify(line)).join('\n')));
  const report = new Report();
  for await (const each of readExchanges(folder)) report.add(each, await playExchange(each));
  const text = report.text();
  // Each answer is played whole and streamed in four protocols, with its request and a second turn.
  expect(text).toMatch(/^3 exchanges, 1 without an answer to compare; 20 of 30 equal \(66\.67 %\)$/m);
  expect(text).toMatch(/^ +1 request: refused: .*messages/m);
  expect(text).toMatch(/^ +8 chat: failed: .*truncated.*\(acme; 1: a3\)$/m);
  expect(report.share).toBeCloseTo(2 / 3);
});
