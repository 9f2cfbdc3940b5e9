/** Ids like HD-01 name cases of `test/translation/cases.json`. */
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import {
  apiKey,
  ask,
  chat,
  chatBody,
  Connection,
  disabledKey,
  eventually,
  limitedKey,
  managementKey,
  startListener,
} from './listener.ts';

const cases: readonly [string, Record<string, string>, number, string][] = [
  ['no key', {}, 401, 'invalid_api_key'],
  ['an empty Authorization', { authorization: '' }, 401, 'invalid_api_key'],
  ['Authorization without a scheme', { authorization: apiKey }, 401, 'invalid_api_key'],
  ['another scheme', { authorization: 'Basic YWJj' }, 401, 'invalid_api_key'],
  [
    'another scheme and a valid x-api-key',
    { authorization: 'Basic YWJj', 'x-api-key': apiKey },
    401,
    'invalid_api_key',
  ],
  ['Bearer without a key', { authorization: 'Bearer ' }, 401, 'invalid_api_key'],
  ['a key with a space', { authorization: 'Bearer a b' }, 401, 'invalid_api_key'],
  ['an unknown key', { authorization: `Bearer sk-tg-${'z'.repeat(43)}` }, 401, 'invalid_api_key'],
  ['an unknown x-api-key', { 'x-api-key': `sk-tg-${'z'.repeat(43)}` }, 401, 'invalid_api_key'],
  ['two different valid keys', { authorization: `Bearer ${apiKey}`, 'x-api-key': limitedKey }, 401, 'invalid_api_key'],
  ['a disabled key', { authorization: `Bearer ${disabledKey}` }, 403, 'key_disabled'],
  ['a management key', { authorization: `Bearer ${managementKey}` }, 403, 'permission_denied'],
  ['a key', { authorization: `Bearer ${apiKey}` }, 200, ''],
  ['a key after “bearer”', { authorization: `bearer ${apiKey}` }, 200, ''],
  ['a key as x-api-key', { 'x-api-key': apiKey }, 200, ''],
  ['the same key twice', { authorization: `Bearer ${apiKey}`, 'x-api-key': apiKey }, 200, ''],
  ['a key and an empty x-api-key', { authorization: `Bearer ${apiKey}`, 'x-api-key': '' }, 200, ''],
];

test.each(cases)('generation with %s', async (_name, headers, status, code) => {
  const listener = await startListener();
  const reply = await ask(listener, '/v1/chat/completions', { key: null, headers, body: chatBody() });
  expect([reply.status, reply.json.error?.code ?? '']).toEqual([status, code]);
  expect(listener.requests).toHaveLength(status === 200 ? 1 : 0);
  if (status === 401) expect(reply.headers['www-authenticate']).toBe('Bearer realm="tollgate"');
  if (status === 401) expect(reply.json.error.tip).toContain('Authorization: Bearer KEY');
});

test.each([
  ['Authorization', { authorization: `Bearer ${apiKey}` }],
  ['x-api-key', { 'x-api-key': apiKey }],
])('HD-01: Messages accepts a key that is only in %s', async (_name, headers) => {
  const listener = await startListener();
  const body = JSON.stringify({ model: 'acme/large', max_tokens: 9, messages: [{ role: 'user', content: 'Hi.' }] });
  expect((await ask(listener, '/v1/messages', { key: null, headers, body })).status).toBe(200);
});

test.each([
  ['no key', null, 401],
  ['a key', apiKey, 200],
  ['a management key', managementKey, 200],
  ['a disabled key', disabledKey, 403],
])('the models with %s', async (_name, key, status) => {
  const listener = await startListener();
  expect((await ask(listener, '/v1/models', { key })).status).toBe(status);
  expect((await ask(listener, '/v1/models/acme/large', { key })).status).toBe(status);
});

test('if the look-up of the key fails, the answer is the core’s error, not a 401', async () => {
  const overloaded = new GatewayError('overloaded', 'The ledger is busy.', { retryAfterMs: 2500 });
  const listener = await startListener({ authenticationFailure: overloaded });
  const reply = await chat(listener);
  expect([reply.status, reply.json.error.code, reply.headers['retry-after']]).toEqual([503, 'overloaded', '3']);
});

test('the key is looked up before the body is read, so a refusal does not wait for the body', async () => {
  const listener = await startListener();
  const connection = new Connection(listener.port);
  connection.send('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 60000000\r\n\r\n');
  await connection.until(/^HTTP\/1\.1 401 [^]*connection: close[^]*invalid_api_key/i);
});

test('a client that sends a huge body without a key can read the refusal, then the connection is closed', async () => {
  const listener = await startListener();
  const size = 50_000_000;
  const socket = connect({ port: listener.port, host: '127.0.0.1' });
  let text = '';
  let closed = false;
  socket.on('data', chunk => (text += chunk.toString()));
  socket.on('error', () => undefined).on('close', () => (closed = true));
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${size}\r\n\r\n`);
  const piece = Buffer.alloc(65_536, 'a');
  for (let sent = 0; sent < 4_000_000; sent += piece.length) socket.write(piece);
  await eventually(() => text.endsWith('}'));
  expect(text).toMatch(/^HTTP\/1\.1 401 /);
  await eventually(() => closed);
});

test('a refused request with a small body leaves its connection usable', async () => {
  const listener = await startListener();
  const connection = new Connection(listener.port);
  const body = chatBody();
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\ncontent-type: application/json\r\n`;
  connection.send(`${head}\r\n${body}`);
  await connection.until(/401 Unauthorized[^]*\}$/);
  connection.send(`${head}authorization: Bearer ${apiKey}\r\n\r\n${body}`);
  await connection.until(/HTTP\/1\.1 200 OK/);
});

test('a client that sends Expect: 100-continue is refused before it sends its body, or gets 100', async () => {
  const listener = await startListener();
  const body = chatBody();
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n`;
  const refused = new Connection(listener.port);
  refused.send(`${head}\r\n`);
  expect(await refused.until(/\}$/)).toMatch(/^HTTP\/1\.1 401 /);
  const accepted = new Connection(listener.port);
  accepted.send(`${head}authorization: Bearer ${apiKey}\r\n\r\n`);
  await accepted.until(/^HTTP\/1\.1 100 Continue\r\n\r\n$/);
  accepted.send(body);
  await accepted.until(/HTTP\/1\.1 200 OK/);
});
