/** Requests that the gateway streams on its own accord, to an organisation that may not stream the model. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { post } from '../e2e/chat-client.ts';
import { chatWire as wire } from '../e2e/upstream-wires.ts';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const message = 'Your organization must be verified to stream this model.';
const refusal = JSON.stringify({
  error: { message, type: 'invalid_request_error', param: 'stream', code: 'unsupported_value' },
});
/** Whether each request that the provider got was to be streamed, with its model. */
const calls: [model: string, stream: boolean][] = [];
let provider: Server;
let gateway: Gateway;

beforeAll(async () => {
  provider = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(parts).toString('utf8')) as { model: string; stream?: boolean };
      const { model, stream = false } = body;
      calls.push([model, stream]);
      const head = { 'content-type': 'application/json' };
      if (stream) response.writeHead(400, head).end(refusal);
      else response.writeHead(200, head).end(wire.whole(wire.counts({ input: 5, output: 2 })));
    });
  });
  await once(provider.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`;
  const model = (name: string): string =>
    `  - { id: a/${name}, max_output_tokens: 100, pricing: { input: 1, output: 10 }, routes: [{ provider: up, model: ${name} }] }\n`;
  gateway = await startGateway({
    config: `providers:\n  up: { protocol: chat, base_url: "${url}", api_key: k }\nmodels:\n${model('o3')}${model('other')}`,
  });
});
afterAll(async () => {
  await endGateway(gateway);
  provider.close();
});

const request = { messages: [{ role: 'user', content: 'hi' }], stop: ['END'] };
const send = (more: object): Promise<Response> => post(gateway, '/v1/chat/completions', { ...request, ...more });

test('it is sent again, not streamed, and so are later ones for the model; a client’s own stream is refused', async () => {
  for (const expected of [[true, false], [false]]) {
    calls.splice(0);
    const answer = await send({ model: 'a/o3' });
    expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('one')]);
    expect(calls).toEqual(expected.map(stream => ['o3', stream]));
  }
  calls.splice(0);
  expect((await send({ model: 'a/other' })).status).toBe(200);
  expect(calls).toEqual([
    ['other', true],
    ['other', false],
  ]);
  calls.splice(0);
  const refused = await send({ model: 'a/o3', stream: true });
  expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining(message)]);
  expect(calls).toEqual([['o3', true]]);
});
