/** Images with the official `openai` client: directly from the built-in models, and through a second gateway. */
import OpenAI, { toFile } from 'openai';
import sharp from 'sharp';
import { afterAll, describe, expect, test } from 'vitest';
import { leftHalfMask } from '../e2e/image-caller.ts';
import { makePng } from '../e2e/sample-image.ts';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const inner = await startGateway({ balance: '100' });
const outer = await startGateway({
  config: `
simulator: { enabled: false }
providers:
  inner: { protocol: images, base_url: "${inner.url}/v1", api_key: "\${INNER_KEY}" }
models:
  - id: acme/image
    endpoints: [/v1/images/generations]
    pricing: { image: 0.04 }
    max_size: 2048x2048
    routes: [{ provider: inner, model: sim/image }]
  - id: acme/image-edit
    endpoints: [/v1/images/edits]
    pricing: { image: 0.05 }
    max_size: 2048x2048
    routes: [{ provider: inner, model: sim/image-edit }]
`,
  environment: { INNER_KEY: inner.apiKey },
});
afterAll(async () => {
  await endGateway(outer);
  await endGateway(inner);
});

const makeClient = ({ url, apiKey }: Gateway): OpenAI => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });

describe.each([
  { way: 'built-in', gateway: inner, draws: 'sim/image', edits: 'sim/image-edit' },
  { way: 'through a second gateway', gateway: outer, draws: 'acme/image', edits: 'acme/image-edit' },
])('$way', ({ gateway, draws, edits }) => {
  const client = makeClient(gateway);

  test('images.generate with URLs', async () => {
    const { created, data = [] } = await client.images.generate({
      model: draws,
      prompt: 'A calm sea at dawn',
      n: 2,
      size: '256x256',
      response_format: 'url',
    });
    expect(created).toBeGreaterThan(1_700_000_000);
    for (const { url } of data) {
      const answer = await fetch(url ?? '');
      expect(answer.headers.get('content-type')).toBe('image/png');
      const { width, height } = await sharp(await answer.arrayBuffer()).metadata();
      expect([width, height]).toEqual([256, 256]);
    }
    expect(data).toHaveLength(2);
  });

  test('images.generate with inline images and the parameters of gpt-image', async () => {
    const { data = [] } = await client.images.generate({
      model: draws,
      prompt: 'A calm sea at dawn',
      size: '512x512',
      quality: 'high',
      background: 'opaque',
      output_format: 'webp',
      output_compression: 80,
      moderation: 'low',
      response_format: 'b64_json',
      user: 'someone',
    });
    const { format, width } = await sharp(Buffer.from(data[0]?.b64_json ?? '', 'base64')).metadata();
    expect([format, width]).toEqual(['webp', 512]);
  });

  test('images.edit with files: one image with a mask, and several', async () => {
    const blue = await makePng(256, 256, '#2040c0');
    const mask = await leftHalfMask(256, 256);
    const one = await client.images.edit({
      model: edits,
      image: await toFile(blue, 'sea.png', { type: 'image/png' }),
      mask: await toFile(mask, 'mask.png', { type: 'image/png' }),
      prompt: 'Green hills',
      n: 2,
      size: '256x256',
      response_format: 'b64_json',
    });
    expect(one.data).toHaveLength(2);
    const edited = await sharp(Buffer.from(one.data?.[0]?.b64_json ?? '', 'base64'))
      .removeAlpha()
      .raw()
      .toBuffer({ resolveWithObject: true });
    expect([edited.info.width, edited.info.height]).toEqual([256, 256]);
    // The last pixel lies where the mask is opaque.
    expect([...edited.data.subarray(-3)]).toEqual([0x20, 0x40, 0xc0]);
    const several = await client.images.edit({
      model: edits,
      image: [await toFile(blue, 'a.png'), await toFile(await makePng(64, 64, '#c03020'), 'b.png')],
      prompt: 'Green hills',
    });
    expect(several.data?.[0]?.url).toMatch(/\/v1\/images\/files\/[0-9a-f]{32}\.png$/);
  });

  test('without a model an edit uses the first one', async () => {
    const { data } = await client.images.edit({
      image: await toFile(await makePng(64, 64, '#888'), 'a.png'),
      prompt: 'x',
    });
    expect(data).toHaveLength(1);
  });

  test('a file that is not a PNG is an UnprocessableEntityError that names it', async () => {
    const broken = client.images.edit({ model: edits, image: await toFile(Buffer.from('text'), 'a.png'), prompt: 'x' });
    await expect(broken).rejects.toThrow(OpenAI.UnprocessableEntityError);
    await expect(broken).rejects.toMatchObject({ status: 422, param: 'image', code: 'validation_error' });
  });

  test('a text model is a BadRequestError', async () => {
    const wrong = makeClient(inner).images.generate({ model: 'sim/large', prompt: 'x' });
    await expect(wrong).rejects.toThrow(OpenAI.BadRequestError);
  });
});
