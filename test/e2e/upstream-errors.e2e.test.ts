/** The errors of upstreams of every protocol, as clients of every interface get them. Ids like HD-09 name cases of `test/translation/cases.json`. */
import type { Socket } from 'node:net';
import { afterAll, describe, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { RawUpstream, type SeenRequest, whole } from '../upstreams/raw-upstream.ts';

type Json = Readonly<Record<string, unknown>>;

const page = '<!doctype html><html><head><title>502 Bad Gateway</title></head><body>cloud edge</body></html>';
const inMessages = (type: string, more: Json = {}): Json => ({
  type: 'error',
  error: { type, message: 'the upstream says why', ...more },
  request_id: 'req_upstream',
});
const inChat = { error: { message: 'the upstream says why', type: 'x', param: null, code: null } };

/** Statuses and bodies of errors, by the model that answers with them. */
const answers: Readonly<Record<string, readonly [status: number, body: string]>> = {
  'page-502': [502, page],
  'page-400': [400, page],
  'page-404': [404, page],
  'empty-500': [500, ''],
  'untyped-500': [500, '{"error":{"message":"the upstream says why","type":null}}'],
  'nil-400': [400, '{"error":{"message":"the upstream says why","type":"<nil>"}}'],
  'chat-400': [400, JSON.stringify(inChat)],
  'chat-500': [500, JSON.stringify(inChat)],
  'messages-400': [400, JSON.stringify(inMessages('invalid_request_error'))],
  'detailed-400': [
    400,
    JSON.stringify(inMessages('invalid_request_error', { details: { error_code: 'thread_unsupported_request' } })),
  ],
  'detailed-500': [500, JSON.stringify(inMessages('api_error', { details: { error_code: 'shard_moved' } }))],
};
const overloaded = [529, JSON.stringify(inMessages('overloaded_error'))] as const;
const families = ['chat', 'responses', 'messages'] as const;
const ways = ['whole', 'streamed'] as const;
type Way = (typeof ways)[number];
/** Returns the model for a way to call. There is one for each, because more failures of one model would open its circuit breaker. */
const nameModel = (family: string, name: string, way: Way): string => `${family}/${name}/${way}`;
const headers = { 'request-id': 'req_upstream', 'x-request-id': 'req_upstream' };

const upstream = await RawUpstream.start((socket: Socket, request: SeenRequest) => {
  const { model } = JSON.parse(request.body) as { model: string };
  const [status, body] = answers[model] ?? overloaded;
  const type = body.startsWith('<') ? 'text/html' : 'application/json';
  socket.write(whole(status, body, { 'content-type': type, ...headers }));
});
const origin = new URL(upstream.baseUrl).origin;
const names = [...Object.keys(answers), 'overloaded-chat', 'overloaded-responses', 'overloaded-messages'];
const listed = (family: string, name: string, way: Way): string => `
  - id: "${nameModel(family, name, way)}"
    endpoints: [/v1/chat/completions, /v1/responses, /v1/messages]
    max_output_tokens: 1000
    pricing: { input: 1, output: 10 }
    routes: [{ provider: ${family}, model: ${name} }]`;
const gateway = await startGateway({
  config: `
simulator: { enabled: false }
retries: 1
providers:
  chat: { protocol: chat, base_url: "${origin}/v1", api_key: key }
  responses: { protocol: responses, base_url: "${origin}/v1", api_key: key }
  messages: { protocol: messages, base_url: "${origin}", api_key: key }
models:${families
    .map(family => ways.map(way => names.map(name => listed(family, name, way))))
    .flat(2)
    .join('')}
`,
});
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
});

const messages = [{ role: 'user', content: 'hi' }];
const clients = {
  chat: ['/v1/chat/completions', { messages }],
  responses: ['/v1/responses', { input: 'hi' }],
  messages: ['/v1/messages', { messages, max_tokens: 100 }],
} as const;
type ClientName = keyof typeof clients;

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Json & { readonly error: Json };
}

async function post(path: string, body: Json): Promise<Answer> {
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${gateway.apiKey}` },
    body: JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer['body'] };
}

interface ErrorRequest {
  readonly client: ClientName;
  readonly family: string;
  readonly way?: Way;
}

function ask({ client, family, way = 'whole' }: ErrorRequest, name: string): Promise<Answer> {
  const [path, body] = clients[client];
  return post(path, { model: nameModel(family, name, way), ...body, stream: way === 'streamed' });
}

/** The ten members of docs/errors.md "The envelope", and the additional members of Messages. */
const members = [
  'code',
  'community',
  'docs',
  'id',
  'message',
  'param',
  'status_code',
  'support',
  'tip',
  'type',
] as const;

const cells = (Object.keys(clients) as ClientName[]).flatMap(client =>
  families.flatMap(family => ways.map(way => ({ client, family, way }))),
);

describe.each(cells)('a client of $client, $way, on an upstream of $family', requested => {
  const { client } = requested;
  test.concurrent.each(Object.entries(answers))(
    'HD-09, HD-10, HD-12: %s has the error format of the client’s own protocol',
    async (name, [status]) => {
      const rejected = status === 400;
      const { status: shown, headers: sent, body } = await ask(requested, name);
      const { error } = body;
      expect([shown, error['status_code'], error['code']]).toEqual(
        rejected ? [400, 400, 'upstream_rejected'] : [502, 502, 'upstream_error'],
      );
      const isMessages = client === 'messages';
      expect(Object.keys(body).toSorted()).toEqual(isMessages ? ['error', 'request_id', 'type'] : ['error']);
      expect(Object.keys(error).toSorted()).toEqual((isMessages ? [...members, 'details'] : [...members]).toSorted());
      const failed = isMessages ? 'api_error' : 'upstream_error';
      expect(error['type']).toBe(rejected ? 'invalid_request_error' : failed);
      const id = sent.get('x-request-id');
      expect(error['id']).toBe(id);
      expect([sent.get('request-id'), body['request_id']]).toEqual(isMessages ? [id, id] : [null, undefined]);
      expect(JSON.stringify([body, [...sent]])).not.toMatch(/req_upstream|<html|cloud edge|<nil>/);
      // A refused address or key concerns the operator, so its message is not passed on.
      const says = status !== 404 && !/^page|^empty/.test(name);
      expect(String(error['message']).includes('the upstream says why')).toBe(says);
      expect(error['message']).not.toContain('{');
    },
  );

  test('HD-13: an overloaded upstream (529) is tried again, then the answer is 502', async () => {
    const name = `overloaded-${client}`;
    const before = upstream.requests.length;
    const { status, body } = await ask(requested, name);
    expect([status, body.error['code']]).toEqual([502, 'upstream_error']);
    expect(upstream.requests.slice(before).filter(request => request.body.includes(name))).toHaveLength(2);
  });
});

test('HD-16: a code in the upstream’s details is passed on to clients of the same interface; for others, and in errors of the gateway, it is the gateway’s code', async () => {
  const readDetails = async (client: ClientName, family: string, name: string): Promise<unknown> =>
    (await ask({ client, family }, name)).body.error['details'];
  expect(await readDetails('messages', 'messages', 'detailed-400')).toEqual({
    error_code: 'thread_unsupported_request',
  });
  expect(await readDetails('messages', 'messages', 'detailed-500')).toEqual({ error_code: 'shard_moved' });
  expect(await readDetails('messages', 'messages', 'messages-400')).toEqual({ error_code: 'upstream_rejected' });
  expect(await readDetails('messages', 'chat', 'detailed-400')).toEqual({ error_code: 'upstream_rejected' });
  expect(await readDetails('chat', 'messages', 'detailed-400')).toBeUndefined();
  const unknown = await post('/v1/messages', { model: 'no/no', messages, max_tokens: 9 });
  expect(unknown.body.error['details']).toEqual({ error_code: 'model_not_found' });
});

test('HD-07: counting tokens calls no upstream, so it does not depend on upstreams that fail', async () => {
  const before = upstream.requests.length;
  const model = nameModel('messages', 'page-404', 'whole');
  for (let times = 0; times < 8; times += 1) {
    const { status, body } = await post('/v1/messages/count_tokens', { model, messages });
    expect(status).toBe(200);
    expect(body['input_tokens']).toBeGreaterThan(0);
  }
  expect(upstream.requests).toHaveLength(before);
  const listed = await fetch(`${gateway.url}/v1/models/${model}`, {
    headers: { authorization: `Bearer ${gateway.apiKey}` },
  });
  expect(await listed.json()).toMatchObject({ available: true });
});
