/** A provider that speaks several protocols: which one a request takes (docs/providers.md "Protocols"). */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { post } from '../e2e/chat-client.ts';
import { chatWire, messagesWire, responsesWire, type Wire } from '../e2e/upstream-wires.ts';

type Json = Record<string, unknown>;
const wires: Readonly<Record<string, Wire>> = {
  '/v1/chat/completions': chatWire,
  '/v1/responses': responsesWire,
  '/anthropic/v1/messages': messagesWire,
};

const usageOf = (wire: Wire): unknown => wire.counts({ input: 5, output: 2 });
const streamOf = (wire: Wire): string =>
  [
    wire.begun,
    ...wire.texts,
    ...wire.call.map(({ frame }) => frame),
    wire.finish,
    wire.usage(usageOf(wire)),
    wire.end,
  ].join('');

/** The calls that the provider got: path, model, `authorization` or `x-api-key`, body. */
const calls: { path: string; key: string; body: Json }[] = [];
let provider: Server;
let gateway: Gateway;

beforeAll(async () => {
  provider = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(parts).toString('utf8')) as Json;
      const { authorization, 'x-api-key': own } = request.headers;
      calls.push({ path: request.url ?? '', key: String(own ?? authorization), body });
      const wire = wires[request.url ?? ''];
      if (wire === undefined) {
        response.writeHead(404).end('{"error":{"message":"no such path"}}');
      } else if (body['stream'] === true) {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).end(streamOf(wire));
      } else {
        response.writeHead(200, { 'content-type': 'application/json' }).end(wire.whole(usageOf(wire)));
      }
    });
  });
  await once(provider.listen(0, '127.0.0.1'), 'listening');
  const origin = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  const protocols = `{ responses: "${origin}/v1", chat: "${origin}/v1", messages: "${origin}/anthropic" }`;
  const model = (id: string, to: string): string =>
    `  - { id: ${id}, max_output_tokens: 100, capabilities: { function_call: true, reasoning: true }, pricing: { input: 1, output: 10 }, routes: [{ provider: ${to}, model: ${id.slice(2)} }] }`;
  gateway = await startGateway({
    config: `
expose_route: true
providers:
  all: { protocols: ${protocols}, api_key: secret }
  two: { protocols: { responses: "${origin}/v1", chat: "${origin}/v1" }, api_key: secret }
  chosen: { protocol: chat, protocols: ${protocols}, api_key: secret }
models:
${['a/large', 'a/gpt-5.4', 'a/gpt-5.6-sol'].map(id => model(id, 'all')).join('\n')}
${model('b/large', 'chosen')}
${['o/gpt-4o', 'o/gpt-5.4', 'o/gpt-4o-mini'].map(id => model(id, 'two')).join('\n')}
`,
  });
});
beforeEach(() => void calls.splice(0));
afterAll(async () => {
  await endGateway(gateway);
  provider.close();
});

const messages = [{ role: 'user', content: 'hi' }];
const requests: Readonly<Record<string, Json>> = {
  '/v1/chat/completions': { messages },
  '/v1/responses': { input: 'hi' },
  '/v1/messages': { messages, max_tokens: 50 },
};
/** Sends a request, and returns where the provider got it. */
async function pathOf(path: string, body: Json): Promise<string | undefined> {
  const answer = await post(gateway, path, body);
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('one')]);
  expect(calls).toHaveLength(1);
  return calls[0]?.path;
}

test.each(
  Object.keys(requests).flatMap(path => [
    [path, false],
    [path, true],
  ]) as [string, boolean][],
)('%s goes to the provider in the same protocol (stream: %s)', async (path, stream) => {
  const expected = path === '/v1/messages' ? '/anthropic/v1/messages' : path;
  expect(await pathOf(path, { model: 'a/large', stream, ...requests[path] })).toBe(expected);
  expect(calls[0]?.key).toBe(path === '/v1/messages' ? 'secret' : 'Bearer secret');
});

test('with `protocol` beside them, the client’s own is still taken', async () => {
  expect(await pathOf('/v1/messages', { model: 'b/large', ...requests['/v1/messages'] })).toBe(
    '/anthropic/v1/messages',
  );
});

const parameters = { type: 'object', properties: { city: { type: 'string' } } };
const tools = [{ type: 'function', function: { name: 'weather', parameters } }];
const refused: readonly (readonly [model: string, body: Json, path: string])[] = [
  ['a/large', { tools, reasoning_effort: 'high' }, '/v1/chat/completions'],
  ['a/gpt-5.4', { tools }, '/v1/chat/completions'],
  ['a/gpt-5.4', { tools, reasoning_effort: 'low' }, '/v1/responses'],
  ['a/gpt-5.4', { reasoning_effort: 'low' }, '/v1/chat/completions'],
  ['a/gpt-5.6-sol', { tools }, '/v1/responses'],
  ['a/gpt-5.6-sol', { tools, stream: true }, '/v1/responses'],
  ['a/gpt-5.6-sol', { tools, reasoning_effort: 'none' }, '/v1/chat/completions'],
  ['a/gpt-5.6-sol', {}, '/v1/chat/completions'],
];

test.each(refused)('Chat for %s with %j takes %s', async (model, body, path) => {
  expect(await pathOf('/v1/chat/completions', { model, messages, ...body })).toBe(path);
});

const forms: readonly (readonly [model: string, path: string, body: Json, taken: string])[] = [
  ['o/gpt-4o', '/v1/messages', { max_tokens: 50, stop_sequences: ['END'] }, '/v1/chat/completions'],
  ['o/gpt-4o', '/v1/messages', { max_tokens: 50, stop_sequences: ['END'], stream: true }, '/v1/chat/completions'],
  ['o/gpt-4o', '/v1/messages', { max_tokens: 50, stop_sequences: [] }, '/v1/responses'],
  // A reasoning model refuses `stop` in Chat: the gateway cuts its answer.
  ['o/gpt-5.4', '/v1/messages', { max_tokens: 50, stop_sequences: ['END'] }, '/v1/responses'],
];

test.each(forms)('a client of another protocol: %s, %s with %j takes %s', async (model, path, body, taken) => {
  expect(await pathOf(path, { model, messages, ...body })).toBe(taken);
  if (taken === '/v1/chat/completions') expect(calls[0]?.body['stop']).toEqual(['END']);
});

test('candidates of a Gemini client take Chat, because Responses gives one', async () => {
  const contents = [{ role: 'user', parts: [{ text: 'hi' }] }];
  const body = { contents, generationConfig: { candidateCount: 2 } };
  await post(gateway, '/v1beta/models/o/gpt-4o:generateContent', body);
  expect([calls[0]?.path, calls[0]?.body['n']]).toEqual(['/v1/chat/completions', 2]);
});

test('choices of a model that gives one per call are counted in the protocol that is taken', async () => {
  const answer = await post(gateway, '/v1/chat/completions', { model: 'a/gpt-5.6-sol', messages, tools, n: 2 });
  expect(((await answer.json()) as { choices: unknown[] }).choices).toHaveLength(2);
  expect(calls.map(({ path }) => path)).toEqual(['/v1/responses', '/v1/responses']);
});
