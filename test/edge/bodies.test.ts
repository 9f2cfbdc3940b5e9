import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { apiKey, ask, chat, chatBody, Connection, eventually, limitedKey, rawChat, startListener } from './listener.ts';

const type = (value: string): Record<string, string> => ({ 'content-type': value });
const refused: readonly [string, string | Buffer, Record<string, string>, RegExp][] = [
  ['another content type', chatBody(), type('text/plain'), /must be application\/json/],
  ['a form', 'model=x', type('application/x-www-form-urlencoded'), /must be application\/json/],
  ['an invalid content type', chatBody(), type('json'), /Content-Type/],
  ['an empty content type', chatBody(), type(''), /Content-Type/],
  ['another charset', chatBody(), type('application/json; charset=utf-16'), /charset must be UTF-8/],
  ['a compressed body', gzipSync(chatBody()), { 'content-encoding': 'gzip' }, /Content-Encoding is not accepted/],
  ['an empty body', '', {}, /body is empty/],
  ['malformed JSON', '{\n "model": "a",\n "messages": [}', {}, /line 3, column 15: expected a value or “]”\.$/],
  ['a body that is cut', '{"model":"acme', {}, /line 1, column 15: expected “"” at the end of the string\.$/],
  ['more than one value', '{} {}', {}, /line 1, column 4: expected the end of the body\.$/],
  ['bytes that are not UTF-8', Buffer.from([0x22, 0xff, 0x22]), {}, /not valid UTF-8/],
  ['JSON that nests too deeply', `${'['.repeat(600)}${']'.repeat(600)}`, {}, /nests deeper than 512 levels/],
];

test.each(refused)('%s is refused with 400', async (_name, body, headers, message) => {
  const listener = await startListener();
  const reply = await ask(listener, '/v1/chat/completions', { body, headers });
  expect(reply.json.error).toMatchObject({
    code: 'invalid_request',
    status_code: 400,
    type: 'invalid_request_error',
    message: expect.stringMatching(message),
  });
  expect(reply.status).toBe(400);
  expect(listener.requests).toEqual([]);
});

test('a body without a content type is refused with 400', async () => {
  const listener = await startListener();
  const connection = new Connection(listener.port);
  connection.send(rawChat().replace('content-type: application/json\r\n', ''));
  await connection.until(/^HTTP\/1\.1 400 [^]*no Content-Type was sent/);
});

test.each([
  'application/json',
  'application/json; charset=UTF-8',
  'Application/JSON;charset="utf-8"',
  'application/vnd.api+json',
])('a body of content type %s is read', async contentType => {
  expect((await chat(await startListener(), {}, { headers: type(contentType) })).status).toBe(200);
});

test('a body that is too large is refused with 413 by its length, without being read', async () => {
  const listener = await startListener({ bodyBytesMax: 1000 });
  const connection = new Connection(listener.port);
  connection.send(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${apiKey}\r\ncontent-type: application/json\r\ncontent-length: 70000\r\n\r\n`,
  );
  await connection.until(/^HTTP\/1\.1 413 [^]*"code":"body_too_large"/);
});

test('a body that is too large is refused with 413 while it arrives, if no length was sent', async () => {
  const listener = await startListener({ bodyBytesMax: 1000 });
  const connection = new Connection(listener.port);
  connection.send(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${apiKey}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`,
  );
  for (let index = 0; index < 3; index += 1) connection.send(`1f4\r\n${'a'.repeat(500)}\r\n`);
  await connection.until(/^HTTP\/1\.1 413 [^]*connection: close[^]*"code":"body_too_large"/);
});

test('a body of exactly the limit is read', async () => {
  const body = chatBody();
  expect((await chat(await startListener({ bodyBytesMax: Buffer.byteLength(body) }))).status).toBe(200);
  const refusal = await chat(await startListener({ bodyBytesMax: Buffer.byteLength(body) - 1 }));
  expect([refusal.status, refusal.headers['x-should-retry']]).toEqual([413, 'false']);
});

test('members that could change a prototype are treated as data, and reach the core unchanged', async () => {
  const listener = await startListener();
  const body = `{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},${chatBody().slice(1)}`;
  const reply = await ask(listener, '/v1/chat/completions', { body });
  expect(reply.status).toBe(200);
  expect(Buffer.from(listener.requests[0]?.source?.body ?? []).toString()).toBe(body);
  expect(({} as { polluted?: number }).polluted).toBeUndefined();
});

test('a client that disconnects in the middle of its body is not answered and nothing stays open', async () => {
  const listener = await startListener();
  const connection = new Connection(listener.port);
  connection.send(rawChat().slice(0, -20));
  await eventually(() => listener.app.openAnswers() === 1);
  connection.socket.destroy();
  await eventually(() => listener.app.openAnswers() === 0);
  expect(listener.log.at(-1)).toMatchObject({ status: 499, code: 'client_gone' });
  expect(listener.requests).toEqual([]);
});

test('a body with broken chunks is 400 with the envelope', async () => {
  const listener = await startListener();
  const connection = new Connection(listener.port);
  connection.send(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${apiKey}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n`,
  );
  const text = await connection.until(/^HTTP\/1\.1 400 [^]*\}$/);
  expect(text).toMatch(/x-request-id: req_/);
  await eventually(() => connection.closed);
});

test('a field that does not match the schema is refused with 422, its name and the windows of the key', async () => {
  const listener = await startListener();
  const reply = await chat(listener, { temperature: 7 }, { key: limitedKey });
  expect(reply.json.error).toMatchObject({ code: 'validation_error', status_code: 422, param: 'temperature' });
  expect(reply.headers).toMatchObject({
    'x-ratelimit-limit-requests': '60',
    'x-ratelimit-remaining-requests': '7',
    'x-ratelimit-reset-requests': expect.stringMatching(/^(?:59m\d+s|1h0m0s)$/),
  });
});

test.each([
  ['the header', false, { 'x-tollgate-strict': 'true' }, true],
  ['the configuration', true, {}, true],
  ['another value of the header', false, { 'x-tollgate-strict': 'yes' }, false],
  ['the header, against the configuration', true, { 'x-tollgate-strict': 'false' }, true],
])('a request is strict or not because of %s', async (_name, strict, headers, expected) => {
  const listener = await startListener({ strict });
  await chat(listener, {}, { headers });
  expect(listener.requests[0]?.strict).toBe(expected);
});
