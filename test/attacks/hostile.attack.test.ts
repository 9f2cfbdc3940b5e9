/**
 * Hostile requests, made from valid ones, to every route and every unary RPC, and also WebSocket frames and answers of a provider. None may cause a 500, a crash or growing memory, and only what was delivered is charged. `npm run test:attack` makes a million of them.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { DescService } from '@bufbuild/protobuf';
import { Agent, request } from 'undici';
import { WebSocket } from 'ws';
import { afterAll, expect, test } from 'vitest';
import { AccountService } from '../../src/gen/tollgate/v1/account_pb.ts';
import { AccountingService } from '../../src/gen/tollgate/v1/accounting_pb.ts';
import { CatalogService } from '../../src/gen/tollgate/v1/catalog_pb.ts';
import { CredentialService } from '../../src/gen/tollgate/v1/credential_pb.ts';
import { GenerationService } from '../../src/gen/tollgate/v1/generation_pb.ts';
import { ImageService } from '../../src/gen/tollgate/v1/image_pb.ts';
import { ResponseService } from '../../src/gen/tollgate/v1/response_pb.ts';
import { readBalance, endGateway, type Gateway, startGateway } from '../gateway.ts';
import { LoopHolds } from './loop-holds.ts';
import { Chance, mutateBytes, mutateJson } from './mutations.ts';
import { testPeak } from './peak-memory.ts';
import { attackSize } from './scale.ts';

/** The environment variables `ATTACK_SEED` and `ATTACK_REQUESTS` select other requests and their number. */
const seed = Number(process.env['ATTACK_SEED'] ?? 20_261_122);
/** How many requests run at a time. */
const together = 24;
// Idle connections are closed long before the gateway does it: on a busy machine a request could otherwise be sent on a connection that is just being closed.
const agent = new Agent({ connections: together, pipelining: 1, keepAliveMaxTimeout: 1000 });

const valid =
  'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Well"},"finish_reason":null}]}\n\n' +
  'data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}\n\n' +
  'data: {"id":"c","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}\n\ndata: [DONE]\n\n';
const answers = new Chance(seed + 1);
const provider = createServer((requested, response) => {
  // If the gateway has disconnected, no answer is needed.
  requested.on('error', () => undefined);
  response.on('error', () => undefined);
  requested.resume().once('end', () => {
    response.writeHead(200, { 'content-type': answers.next() < 0.9 ? 'text/event-stream' : 'application/json' });
    response.end(answers.next() < 0.3 ? valid : mutateBytes(Buffer.from(valid), answers));
  });
});
provider.listen(0, '127.0.0.1');
await once(provider, 'listening');
const holds = new LoopHolds();
const gateway = await startGateway({
  balance: '100000',
  environment: holds.environment('--max-old-space-size=800'),
  config: `
retries: 0
simulator: { tokens_per_second: 0 }
overload: { loop_lag: 60s, heap: 1 }
providers: { odd: { protocol: chat, base_url: "http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1", api_key: x, timeouts: { idle: 1s } } }
models:
  - { id: odd/model, capabilities: { function_call: true }, pricing: { input: 1, output: 1 }, routes: [{ provider: odd, model: m }] }
`,
});
afterAll(async () => {
  await agent.close();
  provider.close();
  await endGateway(gateway);
  holds.remove();
});

const say = 'Hello\n!sim tokens=3';
const schema = { type: 'object', properties: { a: { type: 'string', pattern: '^a+$' } }, required: ['a'] };
const tool = { type: 'function', function: { name: 'look', parameters: schema } };
const chat = {
  model: 'sim/small',
  messages: [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: [{ type: 'text', text: 'Look' }] },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: 'seen' },
    { role: 'user', content: say },
  ],
  tools: [tool],
  stop: ['END'],
  max_tokens: 20,
  n: 1,
  temperature: 0.5,
  stream: false,
  metadata: { a: 'b' },
};
const messages = {
  model: 'sim/small',
  max_tokens: 20,
  system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
  messages: [{ role: 'user', content: say }],
  tools: [{ name: 'look', input_schema: schema }],
  tool_choice: { type: 'auto' },
  stop_sequences: ['END'],
  thinking: { type: 'disabled' },
};
const responses = {
  model: 'sim/small',
  instructions: 'Be brief.',
  input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: say }] }],
  tools: [{ type: 'function', name: 'look', parameters: schema }],
  text: { format: { type: 'json_schema', name: 'x', schema } },
  reasoning: { effort: 'none' },
  include: ['reasoning.encrypted_content'],
  max_output_tokens: 20,
  store: false,
};
const gemini = {
  contents: [
    { role: 'user', parts: [{ text: say }, { inlineData: { mimeType: 'image/png', data: 'iVBORw0KGgo=' } }] },
    {
      role: 'model',
      parts: [
        { text: 'hm', thought: true, thoughtSignature: 'QUJD' },
        { functionCall: { name: 'look', args: { at: 1 } } },
      ],
    },
    { role: 'user', parts: [{ functionResponse: { name: 'look', response: { output: 'x' } } }] },
  ],
  systemInstruction: { parts: [{ text: 'Be brief.' }] },
  tools: [
    {
      functionDeclarations: [{ name: 'look', parameters: { type: 'OBJECT', properties: { at: { type: 'INTEGER' } } } }],
    },
  ],
  toolConfig: { functionCallingConfig: { mode: 'AUTO', allowedFunctionNames: ['look'] } },
  generationConfig: {
    maxOutputTokens: 20,
    stopSequences: ['y'],
    responseJsonSchema: schema,
    thinkingConfig: { thinkingBudget: 0 },
  },
};
const imageRequest = { model: 'sim/image', prompt: 'a tree', n: 1, size: '64x64', response_format: 'b64_json' };

type Route = readonly [
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
  path: string,
  body?: object | undefined,
  isManaged?: true,
];
const routes: readonly Route[] = [
  ['POST', '/v1/chat/completions', chat],
  ['POST', '/v1/chat/completions', { ...chat, model: 'odd/model' }],
  ['POST', '/v1/chat/completions', { ...chat, model: 'odd/model', stream: true }],
  ['POST', '/v1/messages', messages],
  ['POST', '/v1/messages/count_tokens', messages],
  ['POST', '/v1beta/models/sim/small:generateContent', gemini],
  ['POST', '/v1beta/models/odd/model:streamGenerateContent?alt=sse', gemini],
  ['POST', '/v1beta/models/sim/small:streamGenerateContent', gemini],
  ['POST', '/v1beta/models/sim/small:countTokens', { contents: gemini.contents }],
  [
    'POST',
    '/v1beta/models/sim/embed:batchEmbedContents',
    { requests: [{ content: { parts: [{ text: 'x' }] }, outputDimensionality: 8 }] },
  ],
  ['GET', '/v1beta/models?pageSize=3&pageToken=c2lt'],
  ['POST', '/v1/responses', responses],
  ['POST', '/v1/responses', { ...responses, stream: true }],
  ['POST', '/v1/responses/input_tokens', responses],
  ['POST', '/v1/responses/compact', { model: 'sim/small', input: responses.input }],
  ['POST', '/v1/images/generations', imageRequest],
  ['POST', '/v1/images/edits', { ...imageRequest, image: 'AAAA' }],
  ['GET', '/v1/models?limit=3&q=sim'],
  ['GET', '/v1/models/sim/small'],
  ['GET', '/v1/responses/resp_1?stream=true&starting_after=1'],
  ['GET', '/v1/responses/resp_1/input_items?limit=2'],
  ['POST', '/v1/responses/resp_1/cancel'],
  ['DELETE', '/v1/responses/resp_1'],
  ['GET', '/v1/images/tasks/task_1'],
  ['GET', '/v1/images/files/abc.png'],
  ['GET', '/v1/account/keys', undefined, true],
  ['PATCH', '/v1/account/keys/999', { label: 'x', daily_limit: 3, balance: 1.5, allowed_models: ['sim/small'] }, true],
  ['GET', '/v1/account/activity?limit=10&offset=0&start=2026-01-01T00:00:00Z', undefined, true],
  ['GET', '/v1/account/analytics?granularity=day&group_by=model', undefined, true],
];

/** The allowed statuses: success, or a mistake of the client or of the scripted provider. */
const allowed = new Set([200, 202, 400, 401, 403, 404, 405, 409, 413, 422, 429, 502]);
const delivered = new Set<string>();

/** Sends a mutated request. Returns a description if the gateway did something forbidden, else undefined. */
async function attackRoute(chance: Chance): Promise<string | undefined> {
  const [method, path, body, isManaged] = chance.pick(routes);
  const way = chance.next();
  const target = way < 0.15 ? hostilePath(path, chance) : path;
  const json = body === undefined ? undefined : JSON.stringify(way < 0.8 ? mutateJson(body, chance) : body);
  const bytes = json === undefined || way < 0.9 ? json : mutateBytes(Buffer.from(json), chance);
  const headers: Record<string, string> = {
    authorization: `Bearer ${isManaged === true ? gateway.managementKey : gateway.apiKey}`,
    'content-type': 'application/json',
  };
  if (way > 0.93)
    headers[
      chance.pick(['idempotency-key', 'anthropic-version', 'x-tollgate-strict', 'x-api-key', 'content-type', 'range'])
    ] = chance.pick(['true', 'x'.repeat(300), '0', 'text/plain', 'bytes=0-']);
  const answer = await request(`${gateway.url}${target}`, { method, headers, body: bytes ?? null, dispatcher: agent });
  const text = await answer.body.text();
  const id = String(answer.headers['x-request-id']);
  if (answer.statusCode === 200 || answer.statusCode === 202) delivered.add(id);
  if (!allowed.has(answer.statusCode))
    return `${answer.statusCode} to ${method} ${target}: ${text.slice(0, 300)}; sent ${String(bytes).slice(0, 600)}`;
  if (answer.statusCode >= 400) JSON.parse(text);
  return undefined;
}

/** Sends a valid request. */
async function sendValid(): Promise<void> {
  const headers = { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' };
  const answer = await request(`${gateway.url}/v1/responses`, {
    method: 'POST',
    headers,
    body: JSON.stringify(responses),
    dispatcher: agent,
  });
  await answer.body.text();
  expect(answer.statusCode).toBe(200);
  delivered.add(String(answer.headers['x-request-id']));
}

function hostilePath(path: string, chance: Chance): string {
  const part = chance.pick([
    '%00',
    '..%2f',
    '%f0%9f%98%80',
    '/',
    '?a=1&a=2',
    '?limit=-1',
    '?limit=1e9',
    '&start=never',
    'x'.repeat(200),
    '%',
  ]);
  const at = 4 + chance.below(Math.max(1, path.length - 4));
  return path.slice(0, at) + part + path.slice(at);
}

const services: readonly DescService[] = [
  AccountService,
  AccountingService,
  CatalogService,
  CredentialService,
  GenerationService,
  ImageService,
  ResponseService,
];
const unary = services.flatMap(service =>
  service.methods.filter(({ methodKind }) => methodKind === 'unary').map(({ name }) => `/${service.typeName}/${name}`),
);
const rpcBodies: readonly object[] = [
  { limits: true, admission: true },
  { id: 'sim/small', endpoint: 'ENDPOINT_CHAT_COMPLETIONS' },
  {
    request: {
      model: 'sim/small',
      endpoint: 'ENDPOINT_CHAT_COMPLETIONS',
      items: [{ message: { role: 'ROLE_USER', parts: [{ text: { text: say } }] } }],
      candidates: 2,
      maxOutputTokens: 3,
    },
  },
  { apiKeyId: '9', settings: { label: 'x', dailyLimit: '3', allowedModels: { models: ['sim/small'] } } },
  { requestId: 'req_1', limit: 5, offset: 0, startMs: '0', endMs: '9999999999999' },
  { id: 'resp_1', include: ['x'], session: 's', responseId: 'r' },
];
/** RPC errors that mean a defect of the gateway. */
const rpcDefects = new Set(['internal', 'unknown', 'data_loss', 'unimplemented']);

async function attackRpc(chance: Chance): Promise<string | undefined> {
  const path = chance.pick(unary);
  const json = Buffer.from(JSON.stringify(mutateJson(chance.pick(rpcBodies), chance)));
  const isBinary = chance.next() < 0.3;
  const body = isBinary || chance.next() < 0.2 ? mutateBytes(json, chance) : json;
  const credential = chance.pick([gateway.apiKey, gateway.managementKey, gateway.apiKey, 'sk-tg-none']);
  const answer = await request(`${gateway.rpcUrl}${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${credential}`,
      'content-type': isBinary ? 'application/proto' : 'application/json',
    },
    body,
    dispatcher: agent,
  });
  const text = await answer.body.text();
  if (answer.statusCode === 200) {
    // The ids of tasks and compactions contain the id of their request.
    for (const [, part] of text.matchAll(/"\w+_([0-9A-Za-z]{21})"/g)) delivered.add(`req_${part}`);
    return undefined;
  }
  const { code, message } = JSON.parse(text) as { code: string; message: string };
  // With this error gRPC reports bytes that are not a message.
  if (code === 'internal' && message.startsWith('parse binary')) return undefined;
  return rpcDefects.has(code)
    ? `${code} of ${path}: ${text.slice(0, 300)}; sent ${body.toString().slice(0, 600)}`
    : undefined;
}

/** How long a WebSocket client waits for an answer, in ms. */
const answerMs = 120_000;
const terminals = ['response.completed', 'response.incomplete', 'response.failed'];

/** Sends frames over one connection. Each must be answered, unless the connection ends. Returns a description of a failure, else undefined. */
async function attackSocket(chance: Chance): Promise<string | undefined> {
  const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/v1/responses`, {
    headers: { authorization: `Bearer ${gateway.apiKey}` },
  });
  await once(socket, 'open');
  let complaint: string | undefined;
  let unanswered = 4;
  // A client that disconnects early pays for output that it does not see, so it closes the connection only after all answers.
  const patience = setTimeout(() => {
    complaint = `${unanswered} frames were not answered`;
    socket.close();
  }, answerMs);
  socket.on('message', (data: Buffer) => {
    const { type, status, response, ...event } = JSON.parse(data.toString()) as {
      type: string;
      status?: number;
      response?: { id: string };
      sequence_number?: number;
    };
    if (response !== undefined) delivered.add(response.id.replace('resp_', 'req_'));
    if (status === 500) complaint = data.toString();
    // An error with a sequence number belongs to a response, which ends with a further event.
    if (terminals.includes(type) || (type === 'error' && event.sequence_number === undefined)) unanswered -= 1;
    if (unanswered === 0) socket.close();
  });
  socket.on('error', () => undefined);
  for (let frames = unanswered; frames > 0; frames -= 1) {
    const frame = Buffer.from(JSON.stringify(mutateJson({ type: 'response.create', ...responses }, chance)));
    if (chance.next() < 0.8) socket.send(frame.toString());
    // Text that is not UTF-8 would end the connection while turns run.
    else if (chance.next() < 0.5) socket.send(mutateBytes(frame, chance).toString('latin1'));
    else socket.send(mutateBytes(frame, chance));
  }
  const [code] = (await once(socket, 'close')) as [number];
  clearTimeout(patience);
  return code === 1011 ? 'the socket was closed with 1011' : complaint;
}

function residentBytes({ pid }: Gateway): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
}

/** Returns the balances of account 1 and of its keys, in nano-dollars: a request may have moved money between them. */
async function readFunds(): Promise<bigint> {
  const { keys } = await gateway.admin.listApiKeys({ accountId: 1n });
  return keys.reduce((sum, { balanceNanoUsd = 0n }) => sum + balanceNanoUsd, await readBalance(gateway));
}

test('no hostile request causes a defect of the gateway, and nothing is charged that was not delivered', async () => {
  const chance = new Chance(seed);
  const before = await readFunds();
  // The first answer loads the tokenizer, which takes 120 ms once per process and is not measured.
  await sendValid();
  const sinceMs = Date.now();
  const complaints: string[] = [];
  let left = Number(process.env['ATTACK_REQUESTS'] ?? attackSize(1_000_000, 20_000));
  const attackers = Array.from({ length: together }, async () => {
    for (; left > 0 && complaints.length < 5; left -= 1) {
      const way = chance.next();
      const attack = way < 0.75 ? attackRoute : way < 0.98 ? attackRpc : attackSocket;
      const complaint = await attack(chance);
      if (complaint !== undefined) complaints.push(complaint);
    }
  });
  await Promise.all(attackers);
  expect(complaints, `seed ${seed}`).toEqual([]);
  expect(await holds.longest(gateway.url, sinceMs)).toBeLessThan(200);
  expect(residentBytes(gateway)).toBeLessThan(1.5 * 1024 ** 3);
  let charged = 0n;
  const unknown: string[] = [];
  for (let offset = 0; ; offset += 1000) {
    const { records } = await gateway.account.listActivity({ limit: 1000, offset });
    for (const { requestId, costNanoUsd, model, state } of records) {
      charged += costNanoUsd;
      if (costNanoUsd > 0n && !delivered.has(requestId)) unknown.push(`${requestId}: ${model}, state ${state}`);
    }
    if (records.length < 1000) break;
  }
  expect(unknown).toEqual([]);
  expect(before - (await readFunds())).toBe(charged);
}, 36_000_000);

testPeak(gateway);
