/** A gateway whose upstreams for images are another gateway and a scripted server. */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { readBalance, endGateway, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { fetchImageBytes, type ImageBody, type ImageReply, leftHalfMask, postImages } from './image-caller.ts';
import { makePng } from './sample-image.ts';

/** A request as the scripted upstream received it. */
interface Received {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

const received: Received[] = [];
let answers: { status: number; body: unknown; headers?: Record<string, string> }[] = [];
const scripted = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    received.push({ path: request.url ?? '', headers: request.headers, body: Buffer.concat(chunks) });
    const { status, body, headers = {} } = answers.shift() ?? { status: 500, body: {} };
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  });
});
await new Promise<void>(resolve => {
  scripted.listen(0, '127.0.0.1', resolve);
});
const scriptedUrl = `http://127.0.0.1:${(scripted.address() as AddressInfo).port}`;

const inner = await startGateway({ config: 'retries: 0\n', balance: '100' });
const outer = await startGateway({
  config: `
simulator: { enabled: false }
retries: 1
expose_route: true
timeouts: { first_event: 3s }
providers:
  inner: { protocol: images, base_url: "${inner.url}/v1", api_key: "\${INNER_KEY}" }
  scripted: { protocol: images, base_url: "${scriptedUrl}/v1", api_key: [sk-first-canary-key, sk-second-canary-key], headers: { x-canary: header-canary } }
models:
  - id: acme/draw
    endpoints: [/v1/images/generations]
    pricing: { image: 0.05, images: [{ quality: high, image: 0.2 }, { size: 512x512, image: 0.03 }] }
    routes: [{ provider: inner, model: sim/image }]
  - id: acme/edit
    endpoints: [/v1/images/edits]
    pricing: { image: 0.07 }
    routes: [{ provider: inner, model: sim/image-edit }]
  - id: acme/gpt
    endpoints: [/v1/images/generations, /v1/images/edits]
    pricing: { image: 0.01 }
    routes: [{ provider: scripted, model: gpt-image-1 }]
  - id: acme/other
    endpoints: [/v1/images/generations]
    pricing: { image: 0.01 }
    routes: [{ provider: scripted, model: other-model }]
  - id: acme/free:free
    endpoints: [/v1/images/generations]
    routes: [{ provider: inner, model: sim/image }]
`,
  environment: { INNER_KEY: inner.apiKey },
});
afterAll(async () => {
  scripted.close();
  await endGateway(outer);
  await endGateway(inner);
});

const small = { size: '96x64', response_format: 'b64_json' };
const blue = await makePng(96, 64, '#2040c0');
const generate = (body: object): Promise<ImageReply<ImageBody>> =>
  postImages(outer, 'generations', { ...small, ...body });

describe('through a second gateway', () => {
  test('returns the images of the inner gateway, at URLs and prices of the outer one', async () => {
    const request = { prompt: 'hills', seed: 3, n: 2, steps: 20, guidance_scale: 9, negative_prompt: 'blue' };
    const direct = await postImages(inner, 'generations', { ...small, ...request, model: 'sim/image' });
    const { headers, body } = await generate({ ...request, model: 'acme/draw', response_format: 'url' });
    expect(headers.get('x-tollgate-cost')).toBe('0.1');
    expect(headers.get('x-tollgate-route')).toBe('inner/sim/image');
    expect(body.data).toHaveLength(2);
    for (const [index, entry] of body.data.entries()) {
      expect(entry.url?.startsWith(outer.url)).toBe(true);
      expect((await fetchImageBytes(entry)).toString('base64')).toBe(direct.body.data[index]?.b64_json);
    }
  });

  test('an edit is sent as a form, and returns the image of the inner gateway', async () => {
    const request = {
      prompt: 'hills',
      images: [blue.toString('base64'), (await makePng(10, 10, '#f00')).toString('base64')],
      mask: (await leftHalfMask(96, 64)).toString('base64'),
      strength: 0.6,
      guidance_scale: 4,
      num_inference_steps: 12,
      seed: 1,
      response_format: 'b64_json',
    };
    const direct = await postImages(inner, 'edits', { ...request, model: 'sim/image-edit' });
    const chained = await postImages(outer, 'edits', request);
    expect(chained.body.data).toEqual(direct.body.data);
    expect(chained.headers.get('x-tollgate-cost')).toBe('0.07');
  });

  test.each([
    [{ quality: 'high' }, '0.2'],
    [{ size: '512x512' }, '0.03'],
    [{ size: '512x512', quality: 'high', n: 2 }, '0.4'],
  ])('prices by size and quality are those of the outer model: %j costs %s', async (request, cost) => {
    const { headers } = await generate({ model: 'acme/draw', prompt: 'x', ...request });
    expect(headers.get('x-tollgate-cost')).toBe(cost);
  });

  test('a free model costs nothing and counts in the windows of free models', async () => {
    const { status, headers } = await generate({ model: 'acme/free:free', prompt: 'x' });
    expect([status, headers.get('x-tollgate-cost'), headers.get('x-ratelimit-limit-requests')]).toEqual([
      200,
      '0',
      '20',
    ]);
  });

  test('refusals of the inner gateway are passed on; its failures are free', async () => {
    const before = await readBalance(outer);
    const refused = await generate({ model: 'acme/draw', prompt: 'x', size: '4096x4096' });
    expect([refused.status, refused.body.error.code, refused.body.error.param]).toEqual([
      400,
      'upstream_rejected',
      'size',
    ]);
    const failed = await generate({ model: 'acme/draw', prompt: '!sim status=503' });
    expect([failed.status, failed.body.error.code]).toEqual([502, 'upstream_error']);
    const late = await generate({ model: 'acme/draw', prompt: '!sim delay_ms=20000' });
    expect([late.status, late.body.error.code]).toEqual([502, 'upstream_timeout']);
    expect(await readBalance(outer)).toBe(before);
    const record = await readRecord(outer, failed.headers.get('x-request-id') ?? '');
    expect([record.costNanoUsd, record.state]).toEqual([0n, RecordState.UPSTREAM_FAILED]);
  });
});

describe('a scripted provider', () => {
  const entry = { b64_json: blue.toString('base64') };

  test('gpt-image gets its parameters but no response_format; unknown members of its answer are passed on', async () => {
    received.length = 0;
    answers = [{ status: 200, body: { created: 1, data: [entry], usage: { total_tokens: 7 }, background: 'opaque' } }];
    const { status, body } = await generate({
      model: 'acme/gpt',
      prompt: 'x',
      quality: 'low',
      background: 'transparent',
      output_format: 'png',
      output_compression: 50,
      moderation: 'low',
      user: 'u',
    });
    expect(status).toBe(200);
    expect(JSON.parse(received[0]?.body.toString() ?? '')).toEqual({
      model: 'gpt-image-1',
      prompt: 'x',
      size: '96x64',
      quality: 'low',
      background: 'transparent',
      output_format: 'png',
      output_compression: 50,
      moderation: 'low',
      user: 'u',
    });
    expect(received[0]?.path).toBe('/v1/images/generations');
    expect(body).toMatchObject({ usage: { total_tokens: 7 }, background: 'opaque', data: [entry] });
    expect(body.created).toBeGreaterThan(1_700_000_000);
  });

  test('other models get response_format b64_json and the client’s fields, nothing else', async () => {
    received.length = 0;
    answers = [{ status: 200, body: { data: [entry] } }];
    await postImages(outer, 'generations', { model: 'acme/other', prompt: 'x' });
    expect(JSON.parse(received[0]?.body.toString() ?? '')).toEqual({
      model: 'other-model',
      prompt: 'x',
      response_format: 'b64_json',
    });
  });

  test('an edit is a form with the client’s files, byte for byte', async () => {
    received.length = 0;
    answers = [{ status: 200, body: { data: [entry] } }];
    const mask = await leftHalfMask(96, 64);
    await postImages(outer, 'edits', {
      model: 'acme/gpt',
      prompt: 'grün',
      images: [blue.toString('base64')],
      mask: mask.toString('base64'),
      n: 1,
      input_fidelity: 'high',
    });
    const [{ headers, body, path } = { headers: {}, body: Buffer.alloc(0), path: '' }] = received;
    expect(path).toBe('/v1/images/edits');
    const form = await new Response(new Uint8Array(body), {
      headers: { 'content-type': headers['content-type'] ?? '' },
    }).formData();
    expect([...form.keys()].toSorted()).toEqual(['image', 'input_fidelity', 'mask', 'model', 'n', 'prompt']);
    expect([form.get('prompt'), form.get('model'), form.get('n')]).toEqual(['grün', 'gpt-image-1', '1']);
    const files = [form.get('image'), form.get('mask')].map(async file =>
      file instanceof Blob ? Buffer.from(await file.arrayBuffer()) : undefined,
    );
    expect((await Promise.all(files)).map((file, index) => file?.equals([blue, mask][index] ?? blue))).toEqual([
      true,
      true,
    ]);
  });

  test('images beyond the requested number are dropped; if there are fewer, only those are charged', async () => {
    answers = [{ status: 200, body: { data: [entry, entry, entry] } }];
    const more = await generate({ model: 'acme/other', prompt: 'x', n: 2 });
    expect([more.body.data.length, more.headers.get('x-tollgate-cost')]).toEqual([2, '0.02']);
    answers = [{ status: 200, body: { data: [entry] } }];
    const fewer = await generate({ model: 'acme/other', prompt: 'x', n: 2 });
    expect([fewer.body.data.length, fewer.headers.get('x-tollgate-cost')]).toEqual([1, '0.01']);
    const record = await readRecord(outer, fewer.headers.get('x-request-id') ?? '');
    expect(record.state).toBe(RecordState.INCOMPLETE);
  });

  test('after a key is refused, the next one is tried once', async () => {
    received.length = 0;
    answers = [
      { status: 401, body: { error: { message: 'no' } } },
      { status: 200, body: { data: [entry] } },
    ];
    expect((await generate({ model: 'acme/other', prompt: 'x' })).status).toBe(200);
    expect(new Set(received.map(({ headers }) => headers.authorization)).size).toBe(2);
  });

  test.each<[string, unknown]>([
    ['invalid JSON', '<html>'],
    ['no images', { data: [] }],
    ['no data', { created: 1 }],
    ['an image that is not one', { data: [{ b64_json: Buffer.from('text').toString('base64') }] }],
    ['broken base64', { data: [{ b64_json: '***' }] }],
    ['an empty entry', { data: [{}] }],
    ['a URL over http', { data: [{ url: 'http://example.com/a.png' }] }],
    ['a URL of this machine', { data: [{ url: 'https://127.0.0.1/a.png' }] }],
    ['a URL of the upstream itself', { data: [{ url: `${scriptedUrl}/a.png` }] }],
    ['a private address in another form', { data: [{ url: 'https://[::ffff:10.0.0.1]/a.png' }] }],
    ['a cloud’s metadata service', { data: [{ url: 'https://169.254.169.254/latest' }] }],
    ['a file', { data: [{ url: 'file:///etc/passwd' }] }],
  ])(
    'an answer with %s leads to 502 and is free, nothing is fetched, and nothing about the upstream is exposed',
    async (_, body) => {
      received.length = 0;
      answers = [
        { status: 200, body },
        { status: 200, body },
        // A success after the failures, so that the circuit breaker stays closed.
        { status: 200, body: { data: [entry] } },
      ];
      const before = await readBalance(outer);
      const failed = await generate({ model: 'acme/other', prompt: 'x' });
      expect([failed.status, failed.body.error.code]).toEqual([502, 'upstream_error']);
      expect(received.every(({ path }) => path === '/v1/images/generations')).toBe(true);
      expect(await readBalance(outer)).toBe(before);
      const visible = JSON.stringify([failed.body, ...failed.headers]);
      for (const secret of [scriptedUrl, new URL(scriptedUrl).host, 'canary', 'example.com']) {
        expect(visible).not.toContain(secret);
      }
      expect((await generate({ model: 'acme/other', prompt: 'x' })).status).toBe(200);
    },
  );

  test('credentials and addresses in an upstream’s message do not reach the client', async () => {
    const message = `wrong key sk-first-canary-key at ${scriptedUrl}/v1 with header-canary`;
    answers = [{ status: 400, body: { error: { message, param: 'prompt' } } }];
    const { status, body } = await generate({ model: 'acme/other', prompt: 'x' });
    expect([status, body.error.code, body.error.param]).toEqual([400, 'upstream_rejected', 'prompt']);
    expect(body.error.message).not.toMatch(/canary|127\.0\.0\.1/);
  });
});
