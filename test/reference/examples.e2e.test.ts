/** Sends every example of the API reference to a gateway: each answer has the documented status and only documented fields. */
import { afterAll, describe, expect, test } from 'vitest';
import { openApiText } from '../../scripts/openapi-doc.ts';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { frozenForm } from './frozen-form.ts';
import { type Documented, type Json, listOperations, Schemas } from './schemas.ts';

const gateway = await startGateway({
  config: 'metrics: public\nsimulator: { tokens_per_second: 0 }\ncontent: { bodies: all }\n',
  balance: '100',
});
afterAll(() => endGateway(gateway));

const document = JSON.parse(openApiText()) as Json;
const operations = listOperations(document);
const schemas = new Schemas(document, { strict: true });

interface Sent {
  readonly status: number;
  readonly type: string;
  readonly json: Json;
  readonly requestId: string;
}

/** Returns a form; its field `file` is sent as a file. */
function toForm(fields: Readonly<Record<string, string>>): FormData {
  const form = new FormData();
  for (const [name, text] of Object.entries(fields)) form.set(name, name === 'file' ? new Blob([text]) : text);
  return form;
}

async function send(method: string, path: string, key: string | undefined, body?: unknown): Promise<Sent> {
  const isForm = body instanceof FormData;
  const answer = await fetch(`${gateway.url}${path}`, {
    method,
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined || method === 'GET' || isForm ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined || method === 'GET' ? {} : { body: isForm ? body : JSON.stringify(body) }),
  });
  const type = answer.headers.get('content-type') ?? '';
  const text = await answer.text();
  const json = (type.startsWith('application/json') ? JSON.parse(text) : {}) as Json;
  return { status: answer.status, type, json, requestId: answer.headers.get('x-request-id') ?? '' };
}

const { apiKey, managementKey } = gateway;
const made = async (path: string, key: string, body: object, member: string): Promise<string> => {
  const { json } = await send('POST', path, key, body);
  const resource = (json['data'] ?? json) as Json;
  return String(resource[member]);
};

const line = {
  custom_id: 'one',
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model: 'sim/small', messages: [{ role: 'user', content: 'One.' }] },
};

/** Uploads a file of one line. Returns its id. */
async function upload(): Promise<string> {
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', new Blob([`${JSON.stringify(line)}\n`]), 'lines.jsonl');
  const answer = await fetch(`${gateway.url}/v1/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}` },
    body: form,
  });
  return ((await answer.json()) as { id: string }).id;
}

async function until(path: string, isDone: (json: Json) => boolean): Promise<void> {
  for (;;) {
    const { json } = await send('GET', path, apiKey);
    if (isDone(json)) return;
  }
}

async function endedMessageBatch(): Promise<string> {
  const params = { model: 'sim/small', max_tokens: 16, messages: [{ role: 'user', content: 'One.' }] };
  const id = await made('/v1/messages/batches', apiKey, { requests: [{ custom_id: 'one', params }] }, 'id');
  await until(`/v1/messages/batches/${id}`, ({ processing_status: state }) => state === 'ended');
  return id;
}

/**
 * Functions that make an object for a path parameter and return its id, by the path up to the parameter. `below`: that path in the request, without the
 * parameter.
 */
const things: Readonly<Record<string, (below: string) => Promise<string>>> = {
  '/v1/conversations/{id}': () => made('/v1/conversations', apiKey, {}, 'id'),
  '/v1/conversations/{id}/items/{itemId}': async below => {
    const { json } = await send('POST', below, apiKey, { items: [{ role: 'user', content: 'One.' }] });
    return String(json['last_id']);
  },
  '/v1/account/keys/{key_id}': () => made('/v1/account/keys', managementKey, {}, 'api_key_id'),
  '/v1/account/limits/{limit_id}': () =>
    made(
      '/v1/account/limits',
      managementKey,
      { scope: { type: 'account' }, unit: 'usd', window: 'total', max: 1_000_000 },
      'limit_id',
    ),
  '/v1/account/groups/{group_id}': () => made('/v1/account/groups', managementKey, { name: 'one' }, 'group_id'),
  '/v1/account/activity/{request_id}': settledRequest,
  '/v1/key/activity/{request_id}': settledRequest,
  '/v1/files/{id}': upload,
  '/v1/batches/{id}': async () => {
    const body = { input_file_id: await upload(), endpoint: line.url, completion_window: '24h' };
    return made('/v1/batches', apiKey, body, 'id');
  },
  '/v1/messages/batches/{id}': endedMessageBatch,
  '/v1/account/webhooks/{webhook_id}': () =>
    made(
      '/v1/account/webhooks',
      managementKey,
      { url: 'https://example.com/hook', events: ['key.created'] },
      'webhook_id',
    ),
  '/v1/account/webhooks/{webhook_id}/events/{event_id}': async events => {
    await made('/v1/account/keys', managementKey, {}, 'api_key_id');
    for (;;) {
      const { json } = await send('GET', events, managementKey);
      const [event] = json['data'] as { event_id: string }[];
      if (event !== undefined) return event.event_id;
    }
  },
  '/v1/models/{model}': () => Promise.resolve('sim/small'),
  '/v1beta/models/{model}': () => Promise.resolve('sim/small'),
  '/v1beta/models/{model}:embedContent': () => Promise.resolve('sim/embed'),
  '/v1beta/models/{model}:batchEmbedContents': () => Promise.resolve('sim/embed'),
  '/v1/responses/{id}': () =>
    made('/v1/responses', apiKey, { model: 'sim/small', input: 'One.', background: true }, 'id'),
  '/v1/images/tasks/{id}': () =>
    made(
      '/v1/images/generations',
      apiKey,
      { model: 'sim/image', prompt: 'One', size: '256x256', async: true },
      'task_id',
    ),
  '/v1/images/files/{name}': async () => {
    const body = { model: 'sim/image', prompt: 'One', size: '256x256' };
    const { json } = await send('POST', '/v1/images/generations', apiKey, body);
    const [image] = json['data'] as { url: string }[];
    return image?.url.split('/').at(-1) ?? '';
  },
};

async function settledRequest(): Promise<string> {
  const body = { model: 'sim/small', messages: [{ role: 'user', content: 'One.' }] };
  const { requestId } = await send('POST', '/v1/chat/completions', apiKey, body);
  for (;;) {
    const { status } = await send('GET', `/v1/key/activity/${requestId}`, apiKey);
    if (status === 200) return requestId;
  }
}

/** Returns the path with the id of a new object in place of each parameter. */
async function filled(path: string): Promise<string> {
  let real = path;
  for (const { 0: parameter, index } of path.matchAll(/\{\w+\}/g)) {
    // A method after the parameter may need another thing.
    const end = index + parameter.length;
    const [method = ''] = /^:\w+/.exec(path.slice(end)) ?? [];
    const make = things[path.slice(0, end) + method] ?? things[path.slice(0, end)];
    if (make === undefined) throw new Error(`add a function to \`things\` that makes ${parameter} of ${path}`);
    const below = real.slice(0, real.indexOf(`/${parameter}`));
    real = real.replace(parameter, encodeURIComponent(await make(below)));
  }
  return real;
}

function keyFor({ security }: Documented): string | undefined {
  const [first] = security;
  if (first === undefined) return undefined;
  return 'managementKey' in first ? managementKey : apiKey;
}

/** The operations whose answers are recorded, and what they answered. */
const isFrozen = /^\/v1\/(?:account|keys?|models|me)(?:\/|$)/;
const answers: Record<string, unknown> = {};

/** Content types of answers that are neither JSON nor events. */
const otherTypes = /^(?:text\/html|text\/plain|image\/|application\/(?:x-)?jsonl)/;

describe.each(operations)('$method $path', operation => {
  const { method, path, requestBody } = operation;
  const form = requestBody?.content['multipart/form-data']?.example;
  const examples = Object.entries(requestBody?.content['application/json']?.examples ?? { none: { value: undefined } });

  test.each(examples)('%s', async (name, { value }) => {
    const named = value !== undefined && 'input_file_id' in value ? { ...value, input_file_id: await upload() } : value;
    const sent = form === undefined ? named : toForm(form);
    const { status, type, json } = await send(method.toUpperCase(), await filled(path), keyFor(operation), sent);
    expect({ status, json }).toMatchObject({ status: expect.toSatisfy((each: number) => each < 300) });
    if (isFrozen.test(path)) answers[`${method} ${path} ${name}`] = [status, frozenForm(json)];
    const isStream = value?.['stream'] === true;
    if (isStream) expect(type).toMatch(/^text\/event-stream/);
    if (isStream || otherTypes.test(type)) {
      const documented = Object.keys(operation.responses[String(status)]?.content ?? {});
      expect(documented).toContain(type.split(';')[0]);
    } else expect(schemas.findAnswerFaults(operation, status, json)).toEqual([]);
  });

  test('without a key, with a wrong field and with a wrong id it fails as documented', async () => {
    const key = keyFor(operation);
    const refused = [
      key === undefined ? undefined : await send(method.toUpperCase(), await filled(path), undefined, {}),
    ];
    if (requestBody !== undefined)
      refused.push(
        await send(method.toUpperCase(), await filled(path), key, {
          model: 7,
          label: 7,
          name: 7,
          max: 'x',
          overlap_seconds: -1,
          metadata: 7,
        }),
      );
    if (path.includes('{'))
      refused.push(await send(method.toUpperCase(), path.replaceAll(/\{\w+\}/g, '999999999'), key, {}));
    for (const answer of refused) {
      if (answer === undefined) continue;
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect([answer.json, schemas.findAnswerFaults(operation, answer.status, answer.json)]).toEqual([answer.json, []]);
    }
    const errors = refused.flatMap(answer => (answer === undefined ? [] : [[answer.status, frozenForm(answer.json)]]));
    if (isFrozen.test(path)) answers[`${method} ${path} errors`] = errors;
  });
});

test('answers and errors of accounts, keys and models have the recorded form', async () => {
  await expect(`${JSON.stringify(answers, null, 1)}\n`).toMatchFileSnapshot('frozen/answers.snap');
});
