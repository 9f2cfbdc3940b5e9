import { randomBytes } from 'node:crypto';
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { apiKey, ask, chat, chatBody, Connection, eventually, limitedKey, rawChat, startListener } from './listener.ts';

const type = (value: string): Record<string, string> => ({ 'content-type': value });
const refused: readonly [string, string | Buffer, Record<string, string>, RegExp][] = [
  ['another content type', chatBody(), type('text/plain'), /must be application\/json/],
  ['a form', 'model=x', type('application/x-www-form-urlencoded'), /must be application\/json/],
  ['an invalid content type', chatBody(), type('json'), /Content-Type/],
  ['an empty content type', chatBody(), type(''), /Content-Type/],
  ['another charset', chatBody(), type('application/json; charset=utf-16'), /charset must be UTF-8/],
  ['another encoding', chatBody(), { 'content-encoding': 'compress' }, /Content-Encoding is not accepted/],
  ['two encodings', gzipSync(gzipSync(chatBody())), { 'content-encoding': 'gzip, gzip' }, /is not accepted/],
  ['a body that is not encoded as it says', chatBody(), { 'content-encoding': 'gzip' }, /can’t be decoded/],
  ['an encoded body that is cut', gzipSync(chatBody()).subarray(0, -9), { 'content-encoding': 'gzip' }, /decoded/],
  ['an encoded body that is empty', gzipSync(''), { 'content-encoding': 'gzip' }, /body is empty/],
  ['an encoded body that is not JSON', gzipSync('{'), { 'content-encoding': 'gzip' }, /line 1, column 2/],
  ['megabytes in a few bytes', brotliCompressSync(' '.repeat(4e6)), { 'content-encoding': 'br' }, /100 times as large/],
  ['an empty body', '', {}, /body is empty/],
  ['malformed JSON', '{\n "model": "a",\n "messages": [}', {}, /line 3, column 15: expected a value or “]”\.$/],
  ['a body that is cut', '{"model":"acme', {}, /line 1, column 15: expected “"” at the end of the string\.$/],
  ['more than one value', '{} {}', {}, /line 1, column 4: expected the end of the body\.$/],
  ['bytes that are not UTF-8', Buffer.from([0x22, 0xff, 0x22]), {}, /not valid UTF-8/],
  ['JSON that nests too deeply', `${'['.repeat(600)}${']'.repeat(600)}`, {}, /nests deeper than 512 levels/],
];

test.each(refused)('%s is refused with 400', async (_name, body, headers, message) => {
  const listener = await startListener({ bodyBytesMax: 8e6 });
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

const encoders = {
  gzip: gzipSync,
  'x-gzip': gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
};
test.each(Object.entries(encoders))('a body in %s is decoded, small and large', async (name, encode) => {
  const listener = await startListener({ bodyBytesMax: 8e6 });
  const large = chatBody({ messages: [{ role: 'user', content: randomBytes(1e6).toString('base64') }] });
  for (const body of [chatBody(), large]) {
    const headers = { 'content-encoding': name };
    const reply = await ask(listener, '/v1/chat/completions', { body: encode(body), headers });
    expect(reply.status).toBe(200);
    expect(Buffer.from(listener.requests.at(-1)?.source?.body ?? []).toString() === body).toBe(true);
  }
});

test('the limits of a body hold for its decoded bytes', async () => {
  const body = chatBody({ messages: [{ role: 'user', content: 'a'.repeat(2_000) }] });
  const headers = { 'content-encoding': 'gzip' };
  const limits = [Buffer.byteLength(body), Buffer.byteLength(body) - 1];
  const statuses = limits.map(async bodyBytesMax => {
    const listener = await startListener({ bodyBytesMax });
    return (await ask(listener, '/v1/chat/completions', { body: gzipSync(body), headers })).status;
  });
  expect(await Promise.all(statuses)).toEqual([200, 413]);
  const deep = `${'['.repeat(600)}${']'.repeat(600)}`;
  const reply = await ask(await startListener(), '/v1/chat/completions', { body: gzipSync(deep), headers });
  expect([reply.status, reply.json.error?.message]).toEqual([400, expect.stringMatching(/nests deeper than 512/)]);
});

test('a client that disconnects in the middle of an encoded body is gone, and nothing stays open', async () => {
  const listener = await startListener();
  const connection = new Connection(listener.port);
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${apiKey}\r\ncontent-type: application/json`;
  connection.send(`${head}\r\ncontent-encoding: gzip\r\ncontent-length: 90\r\n\r\n`);
  await eventually(() => listener.app.openAnswers() === 1);
  connection.socket.destroy();
  await eventually(() => listener.app.openAnswers() === 0);
  expect(listener.log.at(-1)).toMatchObject({ status: 499, code: 'client_gone' });
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
