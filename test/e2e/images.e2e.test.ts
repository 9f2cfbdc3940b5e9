/** Images over REST from the built-in models: what is drawn and refused, what it costs, and how long it is stored. */
import sharp from 'sharp';
import { afterAll, describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { readBalance, endGateway, heldBy, makeKey, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { complete } from './chat-client.ts';
import {
  fetchImageBytes,
  measureDifference,
  type ImageBody,
  type ImageReply,
  leftHalfMask,
  noisePng,
  readPixels,
  postImages,
} from './image-caller.ts';
import { makePng } from './sample-image.ts';

const gateway = await startGateway({ config: 'retries: 1\nlimits: { body_bytes: 12MiB }\n', balance: '50' });
afterAll(() => endGateway(gateway));

const small = { model: 'sim/image', size: '128x96', response_format: 'b64_json' };
const generate = (body: object): Promise<ImageReply<ImageBody>> =>
  postImages(gateway, 'generations', { ...small, ...body });
const edit = (body: object): Promise<ImageReply<ImageBody>> =>
  postImages(gateway, 'edits', { prompt: 'a green meadow', response_format: 'b64_json', ...body });
const base64 = (file: Uint8Array): string => Buffer.from(file).toString('base64');
const blue = await makePng(128, 96, '#2040c0');
const big = await noisePng(1250, 1250);
const truncated = blue.subarray(0, blue.length - 20);
const jpeg = await sharp(blue).jpeg().toBuffer();
/** A file of a few hundred bytes that claims to have 30,000 × 30,000 pixels. */
const bomb = Buffer.from(blue);
bomb.writeUInt32BE(30_000, 16);
bomb.writeUInt32BE(30_000, 20);
const hugeBlank = await sharp({ create: { width: 9000, height: 9000, channels: 3, background: '#fff' } })
  .png()
  .toBuffer();
const otherSize = await makePng(64, 96, '#000');

async function drawn(body: object): Promise<Buffer> {
  const { status, body: answer } = await generate(body);
  expect(status).toBe(200);
  const [first] = answer.data;
  if (first === undefined) throw new Error('no image');
  return fetchImageBytes(first);
}

describe('generation', () => {
  test('an answer with URLs has the requested number of images of the requested size, each a real PNG at its URL', async () => {
    const { status, headers, body } = await generate({ prompt: 'a red boat', n: 3, response_format: 'url' });
    expect(status).toBe(200);
    expect(body.data).toHaveLength(3);
    expect(Math.abs(body.created - Date.now() / 1000)).toBeLessThan(60);
    expect(headers.get('x-tollgate-cost')).toBe('0.06');
    for (const entry of body.data) {
      expect(Object.keys(entry).toSorted()).toEqual(['revised_prompt', 'url']);
      expect(entry.url).toMatch(
        new RegExp(`^${gateway.url.replaceAll('.', '\\.')}/v1/images/files/[0-9a-f]{32}\\.png$`),
      );
      expect(entry.revised_prompt).toBe('a red boat');
      const { format, width, height } = await sharp(await fetchImageBytes(entry)).metadata();
      expect({ format, width, height }).toEqual({ format: 'png', width: 128, height: 96 });
    }
  });

  test('the same request draws the same image; prompt, seed, steps, guidance and negative prompt each change it', async () => {
    const first = await drawn({ prompt: 'hills', seed: 7 });
    expect((await drawn({ prompt: 'hills', seed: 7 })).equals(first)).toBe(true);
    const others = await Promise.all(
      [
        { prompt: 'the sea', seed: 7 },
        { prompt: 'hills', seed: 8 },
        { prompt: 'hills', seed: 7, steps: 3 },
        { prompt: 'hills', seed: 7, guidance_scale: 18 },
        { prompt: 'hills', seed: 7, negative_prompt: 'blue' },
      ].map(drawn),
    );
    const before = await readPixels(first);
    for (const other of others) {
      expect(measureDifference(before, await readPixels(other), () => true)).toBeGreaterThan(2);
    }
  });

  test('`num_inference_steps` is another name for `steps`', async () => {
    const [one, other] = [
      await drawn({ prompt: 'hills', steps: 5 }),
      await drawn({ prompt: 'hills', num_inference_steps: 5 }),
    ];
    expect(one.equals(other)).toBe(true);
  });

  test('images of one request differ, and null fields count as not sent', async () => {
    const { body } = await generate({ prompt: 'hills', n: 2, seed: null, quality: null, async: null });
    const [one, other] = await Promise.all(body.data.map(fetchImageBytes));
    expect(one?.equals(other ?? Buffer.alloc(0))).toBe(false);
  });

  test('without a size it is 1024x1024, and the answer has URLs', async () => {
    const { body } = await postImages(gateway, 'generations', { model: 'sim/image', prompt: 'x' });
    const [entry] = body.data;
    const { width, height } = await sharp(await fetchImageBytes(entry ?? { revised_prompt: '' })).metadata();
    expect([typeof entry?.url, width, height]).toEqual(['string', 1024, 1024]);
  });

  test.each(['webp', 'jpeg'])('output_format %s has its own content type and file extension', async format => {
    const { body } = await generate({ prompt: 'x', output_format: format, response_format: 'url' });
    const url = body.data[0]?.url ?? '';
    expect(url.endsWith(`.${format}`)).toBe(true);
    const answer = await fetch(url);
    expect(answer.headers.get('content-type')).toBe(`image/${format}`);
    expect((await sharp(await answer.arrayBuffer()).metadata()).format).toBe(format);
  });
});

describe('money', () => {
  test('each image counts as one in the record’s usage; cost, record, balance and header agree', async () => {
    const before = await readBalance(gateway);
    const { headers } = await generate({ prompt: 'x', n: 4 });
    const record = await readRecord(gateway, headers.get('x-request-id') ?? '');
    expect(headers.get('x-tollgate-cost')).toBe('0.08');
    expect(record).toMatchObject({ model: 'sim/image', costNanoUsd: 80_000_000n, state: RecordState.COMPLETED });
    expect(record.buckets.map(({ kind, tokens }) => [kind, Number(tokens)])).toEqual([['image', 4]]);
    expect(before - (await readBalance(gateway))).toBe(80_000_000n);
  });

  test.each([
    [{ quality: 'high' }, '0.04'],
    [{ quality: 'hd', n: 2 }, '0.08'],
    [{ quality: 'standard' }, '0.02'],
    [{ size: '2048x2048' }, '0.04'],
    [{ size: '1024x1536' }, '0.02'],
  ])('%j costs %s', async (requested, cost) => {
    const { headers } = await generate({ prompt: 'x', ...requested });
    expect(headers.get('x-tollgate-cost')).toBe(cost);
  });

  test('an account that can’t pay for all images is refused before anything is drawn', async () => {
    const { key } = await makeKey(gateway, { balanceNanoUsd: 50_000_000n });
    const refused = await postImages(gateway, 'generations', { ...small, prompt: 'x', n: 3 }, { key });
    expect([refused.status, refused.body.error.code]).toEqual([429, 'insufficient_balance']);
    expect((await postImages(gateway, 'generations', { ...small, prompt: 'x', n: 2 }, { key })).status).toBe(200);
    expect(await heldBy(gateway)).toBe(0n);
  });

  test('image requests count in windows, and every answer has the rate limit headers', async () => {
    const { key } = await makeKey(gateway, { minuteLimit: 1n });
    const first = await postImages(gateway, 'generations', { ...small, prompt: 'x' }, { key });
    const second = await postImages(gateway, 'generations', { ...small, prompt: 'x' }, { key });
    expect(
      [first, second].map(({ status, headers }) => [status, headers.get('x-ratelimit-remaining-requests')]),
    ).toEqual([
      [200, '0'],
      [429, '0'],
    ]);
    expect(second.body.error.code).toBe('rate_limit');
  });

  test('activity over RPC has the number of images and their model', async () => {
    const { records } = await gateway.account.listActivity({ model: 'sim/image' });
    expect(records.length).toBeGreaterThan(5);
    expect(records.every(({ costNanoUsd }) => costNanoUsd % 20_000_000n === 0n)).toBe(true);
  });
});

describe('files', () => {
  test('an image’s URL needs no key; its headers make it private, forbid guessing its type, and let the client’s cache validate it', async () => {
    const { body } = await generate({ prompt: 'x', response_format: 'url' });
    const url = body.data[0]?.url ?? '';
    const answer = await fetch(url);
    const bytes = await answer.arrayBuffer();
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'image/png',
      'cache-control': 'private',
      'x-content-type-options': 'nosniff',
      'content-length': String(bytes.byteLength),
    });
    const etag = answer.headers.get('etag') ?? '';
    expect(etag).toMatch(/^"[^"]+"$/);
    const again = await fetch(url, { headers: { 'if-none-match': etag } });
    expect([again.status, (await again.arrayBuffer()).byteLength]).toEqual([304, 0]);
    const head = await fetch(url, { method: 'HEAD' });
    expect([head.status, head.headers.get('content-length')]).toEqual([200, String(bytes.byteLength)]);
  });

  test.each(['0'.repeat(32) + '.png', 'x.png', '..%2f..%2fledger.db', `${'0'.repeat(32)}.exe`])(
    '%s is not found',
    async name => {
      const answer = await fetch(`${gateway.url}/v1/images/files/${name}`);
      expect(answer.status).toBe(404);
      expect(((await answer.json()) as ImageBody).error.code).toBe('not_found');
    },
  );

  test('an image is not found under another file extension', async () => {
    const { body } = await generate({ prompt: 'x', response_format: 'url' });
    const url = (body.data[0]?.url ?? '').replace(/png$/, 'webp');
    expect((await fetch(url)).status).toBe(404);
  });
});

describe('edits', () => {
  test('the transparent part of the mask changes, the rest keeps its pixels', async () => {
    const mask = await leftHalfMask(128, 96);
    const { status, body } = await edit({ images: [base64(blue)], mask: `data:image/png;base64,${base64(mask)}` });
    expect(status).toBe(200);
    const [before, after] = [
      await readPixels(blue),
      await readPixels(await fetchImageBytes(body.data[0] ?? { revised_prompt: '' })),
    ];
    expect([after.width, after.height]).toEqual([128, 96]);
    expect(measureDifference(before, after, x => x >= 64)).toBe(0);
    expect(measureDifference(before, after, x => x < 64)).toBeGreaterThan(10);
  });

  test('`strength` is how much changes: nothing at 0, everything at 1', async () => {
    const before = await readPixels(blue);
    const changed: number[] = [];
    for (const strength of [0, 0.3, 1]) {
      const { body } = await edit({ images: [base64(blue)], strength, seed: 1 });
      const after = await readPixels(await fetchImageBytes(body.data[0] ?? { revised_prompt: '' }));
      changed.push(measureDifference(before, after, () => true));
    }
    const [none = 1, some = 0, all = 0] = changed;
    expect(none).toBe(0);
    expect(some).toBeGreaterThan(1);
    expect(all / some).toBeCloseTo(1 / 0.3, 0);
  });

  test('a requested size is used; without one, the size of the first image', async () => {
    const sizes = [];
    for (const size of ['256x256', undefined]) {
      const { body } = await edit({
        images: [base64(blue), base64(await makePng(40, 20, '#f00'))],
        ...(size && { size }),
      });
      const { width, height } = await readPixels(await fetchImageBytes(body.data[0] ?? { revised_prompt: '' }));
      sizes.push([width, height]);
    }
    expect(sizes).toEqual([
      [256, 256],
      [128, 96],
    ]);
  });

  test('a reference image changes the drawn image', async () => {
    const [alone, guided] = await Promise.all(
      [[base64(blue)], [base64(blue), base64(await makePng(30, 30, '#e01010'))]].map(images =>
        edit({ images, seed: 3 }),
      ),
    );
    expect(alone?.body.data[0]?.b64_json).not.toBe(guided?.body.data[0]?.b64_json);
  });

  test('the edit of an image that is larger than the model can draw has the model’s largest size', async () => {
    const { body } = await edit({ images: [base64(await makePng(4096, 1024, '#123456'))] });
    const { width, height } = await readPixels(await fetchImageBytes(body.data[0] ?? { revised_prompt: '' }));
    expect([width, height]).toEqual([2048, 512]);
  });

  test('the form of the official client is accepted: files, numbers as texts, several images', async () => {
    const form = new FormData();
    form.append('image[]', new Blob([new Uint8Array(blue)], { type: 'image/png' }), 'a.png');
    form.append('image[]', new Blob([new Uint8Array(blue)]), 'b.png');
    form.append('mask', new Blob([new Uint8Array(await leftHalfMask(128, 96))]), 'm.png');
    for (const [name, value] of Object.entries({
      prompt: 'Wälder',
      n: '2',
      strength: '0.5',
      seed: '4',
      model: 'sim/image-edit',
      response_format: 'b64_json',
    })) {
      form.append(name, value);
    }
    const { status, headers, body } = await postImages(gateway, 'edits', form);
    expect(status).toBe(200);
    expect(body.data.map(({ revised_prompt: prompt }) => prompt)).toEqual(['Wälder', 'Wälder']);
    expect(headers.get('x-tollgate-cost')).toBe('0.06');
  });

  test('without a model in the request, the first model that has the path and that the key may use is used', async () => {
    const { headers } = await edit({ images: [base64(blue)] });
    expect((await readRecord(gateway, headers.get('x-request-id') ?? '')).model).toBe('sim/image-edit');
    const { key } = await makeKey(gateway, { allowedModels: { models: ['sim/image'] } });
    const refused = await postImages(gateway, 'edits', { prompt: 'x', images: [base64(blue)] }, { key });
    expect([refused.status, refused.body.error.code]).toEqual([403, 'model_not_allowed']);
  });
});

describe('refusals', () => {
  const image = base64(blue);

  test('the files in the tables of this group really are what their names say', () => {
    expect(big.length).toBeGreaterThan(4 * 1024 * 1024);
    expect(hugeBlank.length).toBeLessThan(4 * 1024 * 1024);
  });

  test.each<[string, object, string]>([
    ['no prompt', { model: 'sim/image', prompt: undefined }, 'prompt'],
    ['an empty prompt', { prompt: '' }, 'prompt'],
    ['no model', { model: undefined, prompt: 'x' }, 'model'],
    ['n 0', { prompt: 'x', n: 0 }, 'n'],
    ['n 11', { prompt: 'x', n: 11 }, 'n'],
    ['n 1.5', { prompt: 'x', n: 1.5 }, 'n'],
    ['n as a text', { prompt: 'x', n: '2' }, 'n'],
    ['an invalid size', { prompt: 'x', size: 'large' }, 'size'],
    ['a size of 0', { prompt: 'x', size: '0x100' }, 'size'],
    ['a size beyond the model', { prompt: 'x', size: '4096x4096' }, 'size'],
    ['a side beyond the model', { prompt: 'x', size: '2049x10' }, 'size'],
    ['another response_format', { prompt: 'x', response_format: 'png' }, 'response_format'],
    ['steps 0', { prompt: 'x', steps: 0 }, 'steps'],
    ['two different numbers of steps', { prompt: 'x', steps: 3, num_inference_steps: 4 }, 'num_inference_steps'],
    ['a seed that is not an integer', { prompt: 'x', seed: 1.5 }, 'seed'],
    ['guidance as a text', { prompt: 'x', guidance_scale: 'high' }, 'guidance_scale'],
    ['async as a text', { prompt: 'x', async: 'yes' }, 'async'],
    ['a prompt that is a list', { prompt: ['x'] }, 'prompt'],
    ['negative_prompt as a number', { prompt: 'x', negative_prompt: 1 }, 'negative_prompt'],
  ])('generation: %s → 422 %j', async (_, body, param) => {
    const { status, body: answer } = await generate(body);
    expect([status, answer.error.code, answer.error.param]).toEqual([422, 'validation_error', param]);
  });

  test.each<[string, object, string]>([
    ['no images', {}, 'images'],
    ['an empty list', { images: [] }, 'images'],
    ['17 images', { images: Array.from({ length: 17 }, () => image) }, 'images'],
    ['broken base64', { images: ['***'] }, 'images.0'],
    ['an address', { images: ['https://example.com/a.png'] }, 'images.0'],
    ['an empty image', { images: [''] }, 'images.0'],
    ['a JPEG', { images: [base64(jpeg)] }, 'images.0'],
    ['a JPEG that calls itself a PNG', { images: [`data:image/png;base64,${base64(jpeg)}`] }, 'images.0'],
    ['text', { images: [base64(Buffer.from('not an image at all, but long enough'))] }, 'images.0'],
    ['a truncated PNG', { images: [base64(truncated)] }, 'images.0'],
    ['a second image that is not an image', { images: [image, base64(truncated)] }, 'images.1'],
    ['over 4 MB', { images: [base64(big)] }, 'images.0'],
    ['a small file that claims to be huge', { images: [base64(bomb)] }, 'images.0'],
    ['a small file that really is huge', { images: [base64(hugeBlank)] }, 'images.0'],
    ['a mask of another size', { images: [image], mask: base64(otherSize) }, 'mask'],
    ['a mask that is not a PNG', { images: [image], mask: base64(jpeg) }, 'mask'],
    ['a mask over 4 MB', { images: [image], mask: base64(big) }, 'mask'],
    ['a mask of broken base64', { images: [image], mask: 'a' }, 'mask'],
    ['a truncated mask', { images: [image], mask: base64(truncated) }, 'mask'],
    ['another size', { images: [image], size: '100x100' }, 'size'],
    ['strength 1.1', { images: [image], strength: 1.1 }, 'strength'],
    ['strength -0.1', { images: [image], strength: -0.1 }, 'strength'],
    ['guidance 20.5', { images: [image], guidance_scale: 20.5 }, 'guidance_scale'],
    ['0 steps', { images: [image], num_inference_steps: 0 }, 'num_inference_steps'],
    ['101 steps', { images: [image], num_inference_steps: 101 }, 'num_inference_steps'],
    ['n 11', { images: [image], n: 11 }, 'n'],
    ['kontext_max_mode as a number', { images: [image], kontext_max_mode: 1 }, 'kontext_max_mode'],
    ['no prompt', { images: [image], prompt: null }, 'prompt'],
  ])('edit: %s → 422 %j', async (_, body, param) => {
    const { status, body: answer } = await edit(body);
    expect([status, answer.error.code, answer.error.param]).toEqual([422, 'validation_error', param]);
  });

  test.each<[string, (form: FormData) => void, string]>([
    ['no image', form => form.delete('image'), 'image'],
    ['a JPEG', form => form.set('image', new Blob([new Uint8Array(jpeg)]), 'a.png'), 'image'],
    ['over 4 MB', form => form.set('image', new Blob([new Uint8Array(big)]), 'a.png'), 'image'],
    ['a second image that is not an image', form => form.append('image', new Blob(['x']), 'b.png'), 'image.1'],
    ['a mask of another size', form => form.set('mask', new Blob([new Uint8Array(hugeBlank)]), 'm.png'), 'mask'],
    ['n that is not a number', form => form.set('n', 'two'), 'n'],
    ['no prompt', form => form.delete('prompt'), 'prompt'],
  ])('form: %s → 422 %j', async (_, change, param) => {
    const form = new FormData();
    form.set('image', new Blob([new Uint8Array(blue)]), 'a.png');
    form.set('prompt', 'x');
    change(form);
    const { status, body } = await postImages(gateway, 'edits', form);
    expect([status, body.error.code, body.error.param]).toEqual([422, 'validation_error', param]);
  });

  test.each<{ what: string; path?: 'generations' | 'edits'; body: object; code: string; param: string }>([
    { what: 'an unknown model', body: { model: 'sim/none' }, code: 'model_not_found', param: 'model' },
    { what: 'a text model', body: { model: 'sim/large' }, code: 'model_not_supported', param: 'model' },
    {
      what: 'a model of the other path',
      path: 'edits',
      body: { images: [image], size: '256x256' },
      code: 'model_not_supported',
      param: 'model',
    },
    { what: 'a tier', body: { model: 'sim/image:flex' }, code: 'unsupported_feature', param: 'model' },
    { what: 'a stream', body: { stream: true }, code: 'unsupported_parameter', param: 'stream' },
    {
      what: 'another output_format',
      body: { output_format: 'bmp' },
      code: 'upstream_rejected',
      param: 'output_format',
    },
  ])('$what → 400 $code', async ({ path, body, code, param }) => {
    const answer = await postImages(gateway, path ?? 'generations', { ...small, prompt: 'x', ...body });
    expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual([400, code, param]);
  });

  test('malformed JSON, another content type, a form on a path without forms and a body that is too large are refused', async () => {
    const send = async (path: 'generations' | 'edits', body: unknown, headers = {}): Promise<unknown[]> => {
      const answer = await postImages(gateway, path, body, { headers });
      return [answer.status, answer.body.error.code];
    };
    const form = new FormData();
    form.set('prompt', 'x');
    const large = new FormData();
    for (let file = 0; file < 4; file += 1) large.append('image[]', new Blob([new Uint8Array(big)]), 'a.png');
    expect([
      await send('generations', '{'),
      await send('generations', 'x', { 'content-type': 'text/plain' }),
      await send('generations', form),
      await send('edits', large),
      await send('edits', 'no form', { 'content-type': 'multipart/form-data; boundary=x' }),
      await send('edits', '--x\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nhalf', {
        'content-type': 'multipart/form-data; boundary=x',
      }),
      await send('edits', 'x', { 'content-type': 'multipart/form-data' }),
    ]).toEqual([
      [400, 'invalid_request'],
      [400, 'invalid_request'],
      [400, 'invalid_request'],
      [413, 'body_too_large'],
      [400, 'invalid_request'],
      [400, 'invalid_request'],
      [400, 'invalid_request'],
    ]);
  });

  test('image models can only be used on image paths, and a key is needed', async () => {
    const chat = await complete(gateway, { model: 'sim/image', messages: [{ role: 'user', content: 'x' }] });
    expect([chat.status, chat.body.error.code]).toEqual([400, 'model_not_supported']);
    const keyless = await postImages(gateway, 'generations', { ...small, prompt: 'x' }, { key: 'sk-tg-no' });
    expect(keyless.status).toBe(401);
    const management = await postImages(
      gateway,
      'generations',
      { ...small, prompt: 'x' },
      { key: gateway.managementKey },
    );
    expect(management.status).toBe(403);
  });
});

describe('the steering line', () => {
  test('`status` simulates an upstream’s failure: free, recorded, tried again as often as configured', async () => {
    const before = await readBalance(gateway);
    const failed = await generate({ prompt: 'x\n!sim status=503' });
    expect([failed.status, failed.body.error.code]).toEqual([502, 'upstream_error']);
    const record = await readRecord(gateway, failed.headers.get('x-request-id') ?? '');
    expect([record.costNanoUsd, record.state]).toEqual([0n, RecordState.UPSTREAM_FAILED]);
    expect((await generate({ prompt: 'x\n!sim status=500 times=1' })).status).toBe(200);
    expect(before - (await readBalance(gateway))).toBe(20_000_000n);
  });

  test('`delay_ms` waits, `status=400` is the client’s mistake, an unknown parameter is refused', async () => {
    const began = performance.now();
    await generate({ prompt: '!sim delay_ms=300\nx' });
    expect(performance.now() - began).toBeGreaterThan(290);
    const answers = await Promise.all(
      ['!sim status=400', '!sim nonsense=1', '!sim status=200'].map(prompt => generate({ prompt })),
    );
    expect(answers.map(({ status, body }) => [status, body.error.code])).toEqual(
      answers.map(() => [400, 'upstream_rejected']),
    );
  });

  test('is not drawn as text', async () => {
    expect((await drawn({ prompt: 'hills\n!sim delay_ms=1' })).equals(await drawn({ prompt: 'hills' }))).toBe(true);
  });

  test('a client that disconnects stops the drawing, and pays nothing', async () => {
    const before = await readBalance(gateway);
    const leave = new AbortController();
    const requested = postImages(
      gateway,
      'generations',
      { ...small, prompt: '!sim delay_ms=60000' },
      { signal: leave.signal },
    );
    requested.catch(() => undefined);
    while ((await heldBy(gateway)) === 0n);
    leave.abort();
    await expect(requested).rejects.toThrow();
    await expect.poll(() => heldBy(gateway)).toBe(0n);
    expect(await readBalance(gateway)).toBe(before);
  });
});

test('the list of models has their image paths and prices', async () => {
  const answer = await fetch(`${gateway.url}/v1/models?endpoint=/v1/images/edits`, {
    headers: { authorization: `Bearer ${gateway.apiKey}` },
  });
  const { data } = (await answer.json()) as { data: { id: string; endpoints: string[]; pricing: object }[] };
  expect(data.map(({ id, endpoints }) => [id, endpoints])).toEqual([['sim/image-edit', ['/v1/images/edits']]]);
  expect(data[0]?.pricing).toEqual({ input: null, output: null, image: 0.03, caching: null, above: [] });
});
