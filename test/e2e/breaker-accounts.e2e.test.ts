/** One account’s failures do not close a route to the others (docs/architecture.md "Routing"). */
import { afterAll, expect, test } from 'vitest';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { RawUpstream } from '../upstreams/raw-upstream.ts';
import { newAccount, newKey } from './account-client.ts';
import { ask, complete } from './chat-client.ts';

const answer = JSON.stringify({
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Hi' } }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});
const upstream = await RawUpstream.start(async (socket, request) => {
  const [status, body] = request.body.includes('fail') ? ['500 Broken', '{}'] : ['200 OK', answer];
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
  );
});
const gateway: Gateway = await startGateway({
  config: `
retries: 0
providers:
  raw: { protocol: chat, base_url: "${upstream.baseUrl}" }
models:
  - { id: acme/shared, pricing: { input: 1, output: 1 }, routes: [{ provider: raw, model: m }] }
`,
});
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
});

const send = async (text: string, key: string): Promise<[number, string | undefined]> => {
  const { status, body } = await complete(gateway, ask(text, { model: 'acme/shared' }), { key });
  return [status, status === 200 ? undefined : body.error.code];
};

test('failures of one account leave the model available to an account that uses it, until that one fails too', async () => {
  const { managementKey } = await newAccount(gateway, 1);
  const { key: other } = await newKey(gateway, {}, managementKey);
  expect(await send('Hello', gateway.apiKey)).toEqual([200, undefined]);
  for (let number = 0; number < 8; number += 1)
    expect(await send(`Please fail ${number}`, other)).toEqual([502, 'upstream_error']);
  expect(await send('Hello again', gateway.apiKey)).toEqual([200, undefined]);
  for (let number = 0; number < 4; number += 1)
    expect(await send(`Please fail again ${number}`, other)).toEqual([502, 'upstream_error']);
  expect(await send('Please fail for me', gateway.apiKey)).toEqual([502, 'upstream_error']);
  expect(await send('Hello', gateway.apiKey)).toEqual([502, 'model_unavailable']);
});
