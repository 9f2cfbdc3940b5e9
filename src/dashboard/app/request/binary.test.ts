import { expect, test } from 'vitest';
import { decodeBase64, findImages, readBinary } from './binary.ts';
import { compareBodies } from './compare.ts';

const png = `iVBORw0KGgo${'A'.repeat(301)}`;

test('base64 is binary data, alone or as a data URL, with its size and type', () => {
  expect(readBinary(png)).toEqual({ type: 'image/png', bytes: 234, base64: png });
  expect(readBinary(`data:image/png;base64,${png}`)).toEqual({ type: 'image/png', bytes: 234, base64: png });
  const sound = `UklGR${'A'.repeat(299)}`;
  expect(readBinary(`data:audio/wav;base64,${sound}`)?.type).toBe('audio/wav');
  expect(readBinary(`${'A'.repeat(298)}==`)).toEqual({ type: '', bytes: 223, base64: `${'A'.repeat(298)}==` });
});

test('words, short texts and addresses are not taken for binary data', () => {
  for (const text of [
    'A'.repeat(255),
    'some words '.repeat(40),
    `https://example.com/${'a'.repeat(300)}?q`,
    `${png}\n`,
  ])
    expect(readBinary(text)).toBeUndefined();
});

test('images are found wherever they are; other data, and data that could run scripts, is not shown as an image', () => {
  const svg = `data:image/svg+xml;base64,${'PHN2Zz4'.repeat(60)}`;
  const body = {
    content: [{ image_url: { url: `data:image/jpeg;base64,/9j/${'A'.repeat(300)}` } }, svg, { png }, 'words'],
  };
  expect(findImages(body).map(({ type }) => type)).toEqual(['image/jpeg', 'image/png']);
  expect(findImages(Array.from({ length: 20 }, () => png))).toHaveLength(8);
});

test('a body’s line names binary data, but is marked by what it is', () => {
  const other = png.replace(/A$/, 'B');
  const [, line] = compareBodies(JSON.stringify({ image: png }), JSON.stringify({ image: other }));
  expect(line).toEqual({ text: '  "image": [image/png, 234 bytes]', mark: 'changed' });
  const [, same] = compareBodies(JSON.stringify({ image: png }), JSON.stringify({ image: png }));
  expect(same?.mark).toBe('same');
  expect(compareBodies(JSON.stringify(['A'.repeat(300)]), '{}')[1]?.text).toBe('  [binary data, 225 bytes]');
});

test('bytes are read from both forms of base64', () => {
  expect(decodeBase64('-_8=')).toEqual(Uint8Array.of(0xfb, 0xff));
  expect(decodeBase64('A')).toBeUndefined();
});
