import fc from 'fast-check';
import sharp from 'sharp';
import { expect, test } from 'vitest';
import { fileExtension, detectImageType, parseExtension } from './image-type.ts';
import { pngSize } from './png.ts';

const blank = { create: { width: 30, height: 20, channels: 3, background: '#fff' } } as const;

test('the size of a PNG is read from its head; other files have none', async () => {
  const png = await sharp(blank).png().toBuffer();
  expect(pngSize(png)).toEqual({ width: 30, height: 20 });
  // Also if the file is in the middle of another buffer.
  expect(pngSize(Buffer.concat([Buffer.from('xx'), png]).subarray(2))).toEqual({ width: 30, height: 20 });
  for (let length = 0; length < 24; length += 1) expect(pngSize(png.subarray(0, length))).toBeUndefined();
  expect(pngSize(await sharp(blank).jpeg().toBuffer())).toBeUndefined();
  const empty = Buffer.from(png);
  empty.writeUInt32BE(0, 16);
  expect(pngSize(empty)).toBeUndefined();
});

test('types are recognized by the first bytes, and each has one file extension', async () => {
  for (const format of ['png', 'webp', 'jpeg'] as const) {
    const type = detectImageType(await sharp(blank)[format]().toBuffer());
    expect(type).toBe(`image/${format}`);
    expect(parseExtension(format)).toBe(type);
    expect(type === undefined ? undefined : fileExtension(type)).toBe(format);
  }
  expect(detectImageType(await sharp(blank).gif().toBuffer())).toBeUndefined();
});

test('detecting the type of any bytes never throws', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), bytes => {
      expect([undefined, 'image/png', 'image/webp', 'image/jpeg']).toContain(detectImageType(bytes));
      pngSize(bytes);
    }),
  );
});
