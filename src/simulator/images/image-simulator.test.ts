import { create } from '@bufbuild/protobuf';
import sharp from 'sharp';
import { describe, expect, test } from 'vitest';
import { type ImageRequest, ImageRequestSchema } from '../../gen/tollgate/v1/image_pb.ts';
import { Hold } from '../../generation/hold.ts';
import type { DrawnImage } from '../../generation/images/image-upstream.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import { createImageSimulator } from './image-simulator.ts';

type ImageFields = Partial<Omit<ImageRequest, '$typeName'>>;
const hold = Hold.of({ kind: 'admitted', id: 1 });
const never = new AbortController().signal;

interface How {
  readonly model?: string;
  readonly attempt?: number;
  readonly steering?: boolean;
  readonly signal?: AbortSignal;
}

async function draw(fields: ImageFields, how: How = {}): Promise<readonly DrawnImage[]> {
  const { model = fields.images === undefined ? 'sim/image' : 'sim/image-edit', attempt = 1, signal = never } = how;
  const request = create(ImageRequestSchema, { prompt: 'hills', size: '64x48', ...fields });
  const simulator = createImageSimulator({ steering: how.steering ?? true });
  return (await simulator.draw({ hold, request, model, attempt, signal })).images;
}

const one = async (fields: ImageFields, how?: How): Promise<Buffer> =>
  Buffer.from((await draw(fields, how))[0]?.bytes ?? []);
const catchFailure = (fields: ImageFields, how?: How): Promise<unknown> =>
  draw(fields, how).catch((thrown: unknown) => thrown);

describe('an image', () => {
  test('is a PNG of the requested size without transparency', async () => {
    const { format, width, height, hasAlpha } = await sharp(await one({ size: '301x17' })).metadata();
    expect([format, width, height, hasAlpha]).toEqual(['png', 301, 17, false]);
  });

  test('is the same for the same request, whatever was drawn in between', async () => {
    const first = await one({ seed: 1n });
    await one({ seed: 2n });
    expect((await one({ seed: 1n })).equals(first)).toBe(true);
  });

  test('can be as small as one pixel and as large as the model’s maximum', async () => {
    for (const size of ['1x1', '2048x2048', '2048x1']) {
      const { width, height } = await sharp(await one({ size })).metadata();
      expect(`${width}x${height}`).toBe(size);
    }
  });

  test('of a prompt that names a colour has it', async () => {
    for (const [name, main] of [
      ['red', 0],
      ['green', 1],
      ['blue', 2],
    ] as const) {
      const { channels } = await sharp(await one({ prompt: `${name} by day`, size: '128x128' })).stats();
      const means = channels.map(({ mean }) => mean);
      expect([name, means.indexOf(Math.max(...means))]).toEqual([name, main]);
    }
  });

  test('is not affected by SVG markup in the prompt', async () => {
    const prompt = '</svg><script>"&<![CDATA[ \u0000 \ud800';
    expect((await sharp(await one({ prompt })).metadata()).width).toBe(64);
  });

  test('with index n is the first one of the seed that is n higher', async () => {
    const both = await draw({ seed: 10n, n: 2 });
    expect(Buffer.from(both[1]?.bytes ?? []).equals(await one({ seed: 11n }))).toBe(true);
  });
});

describe('an edit', () => {
  const plain = { create: { width: 64, height: 48, channels: 3, background: '#336699' } } as const;

  test('takes PNGs of every kind', async () => {
    const noise = {
      create: { width: 64, height: 48, channels: 4, background: { r: 1, g: 2, b: 3, alpha: 0.5 } },
    } as const;
    const files = await Promise.all([
      sharp(plain).greyscale().png().toBuffer(),
      sharp(plain).png({ palette: true }).toBuffer(),
      sharp(plain).toColourspace('rgb16').png().toBuffer(),
      sharp(noise).png().toBuffer(),
      sharp(plain).png({ progressive: true }).toBuffer(),
    ]);
    for (const file of files) {
      const { width, height } = await sharp(await one({ images: [file], size: '' })).metadata();
      expect([width, height]).toEqual([64, 48]);
    }
  });

  test('with an opaque mask changes no pixel, with an absent one all may change', async () => {
    const file = await sharp(plain).png().toBuffer();
    const mask = await sharp({ create: { ...plain.create, background: '#fff' } })
      .png()
      .toBuffer();
    const pixels = (bytes: Buffer): Promise<Buffer> => sharp(bytes).removeAlpha().raw().toBuffer();
    const before = await pixels(file);
    expect((await pixels(await one({ images: [file], mask }))).equals(before)).toBe(true);
    expect((await pixels(await one({ images: [file] }))).equals(before)).toBe(false);
  });
});

describe('the steering line', () => {
  test('can ask for failures of the first attempts only, which are marked so that no breaker opens', async () => {
    const prompt = '!sim status=500 times=2';
    for (const attempt of [1, 2]) {
      const failure = await catchFailure({ prompt }, { attempt });
      expect(failure).toBeInstanceOf(UpstreamFailure);
      expect(failure).toMatchObject({ kind: 'status', facts: { status: 500, requested: true } });
    }
    expect(await draw({ prompt }, { attempt: 3 })).toHaveLength(1);
  });

  test('is plain text if steering is off', async () => {
    expect(await draw({ prompt: '!sim status=500' }, { steering: false })).toHaveLength(1);
  });

  test('its delay ends with the caller’s reason', async () => {
    const leave = new AbortController();
    const waiting = catchFailure({ prompt: '!sim delay_ms=600000' }, { signal: leave.signal });
    leave.abort(new Error('gone'));
    expect(await waiting).toMatchObject({ message: 'gone' });
  });
});

test('an unknown model is a 404', async () => {
  expect(await catchFailure({}, { model: 'sim/none' })).toMatchObject({ kind: 'status', facts: { status: 404 } });
});
