/** Refused requests are counted and logged under the listed model that they name, on every path; other names stay out of the labels. */
import { afterAll, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway({
  config: `
providers:
  up: { protocol: chat, base_url: "http://127.0.0.1:9/v1", api_key: k }
models:
  - { id: acme/off, available: false, pricing: { input: 1, output: 1 }, routes: [{ provider: up, model: m }] }
aliases: { short: sim/small }
`,
});
afterAll(() => endGateway(gateway));

async function send(path: string, body: string | FormData): Promise<number> {
  const { status } = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${gateway.apiKey}`,
      ...(typeof body === 'string' && { 'content-type': 'application/json' }),
    },
    body,
  });
  return status;
}

/** Returns the labels of the refused requests of a path: model, status and code. */
async function refused(endpoint: string): Promise<string[]> {
  const text = await (await fetch(`${gateway.rpcUrl}/metrics`)).text();
  const lines = text
    .split('\n')
    .filter(line => line.startsWith('tollgate_requests_total') && line.includes(`"${endpoint}"`));
  return lines.map(line => /model="([^"]*)".*status="(\d+)",code="(\w+)"/.exec(line)?.slice(1).join(' ') ?? line);
}

const form = new FormData();
form.set('model', 'sim/image');
form.set('image', new Blob(['no image']), 'a.png');

test.each<[string, string | FormData, string]>([
  ['/v1/chat/completions', '{"model":"sim/large","messages":"hi"}', 'sim/large 422 validation_error'],
  ['/v1/responses', '{"model":"sim/large","input":"hi","temperature":"hot"}', 'sim/large 422 validation_error'],
  ['/v1/messages', '{"model":"short","messages":[]}', 'sim/small 400 validation_error'],
  ['/v1/completions', '{"model":"sim/large","prompt":7}', 'sim/large 422 validation_error'],
  ['/v1/embeddings', '{"model":"sim/embed","input":{}}', 'sim/embed 422 validation_error'],
  ['/v1/rerank', '{"model":"sim/rerank","query":1}', 'sim/rerank 422 validation_error'],
  ['/v1/images/generations', '{"model":"sim/image","prompt":1}', 'sim/image 422 validation_error'],
  ['/v1/images/edits', form, 'sim/image 422 validation_error'],
])('%s', async (path, body, expected) => {
  const status = await send(path, body);
  expect(await refused(path)).toEqual([expected.replace(/ \d+ /, ` ${status} `)]);
  expect(status).toBeGreaterThanOrEqual(400);
  expect(gateway.printed()).toContain(`"model":"${expected.split(' ')[0]}","endpoint":"${path}"`);
});

test('a model that is off is named, and a name that is not listed is no label', async () => {
  const chat = (model: string): string => JSON.stringify({ model, messages: [{ role: 'user', content: 'x' }] });
  expect(await send('/v1/chat/completions', chat('acme/off'))).toBe(502);
  expect(await send('/v1/chat/completions', chat('guess-7f3a'))).toBe(400);
  const found = await refused('/v1/chat/completions');
  expect(found).toContainEqual(expect.stringMatching(/^acme\/off 502 /));
  expect(found).toContain('other 400 model_not_found');
  expect(gateway.printed()).not.toContain('guess-7f3a');
});
