import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fitsInto, imageSizeText, parseImageSize, shrunkInto } from './image-size.ts';

const side = fc.integer({ min: 1, max: 99_999 });
const size = fc.record({ width: side, height: side });

test('a size is the same after it is written and read', () => {
  fc.assert(
    fc.property(size, each => {
      expect(parseImageSize(imageSizeText(each))).toEqual(each);
    }),
  );
});

test.each([
  '',
  'auto',
  '1024',
  '1024x',
  'x1024',
  '0x1',
  '1x0',
  '01x1',
  '-1x1',
  '1.5x1',
  '1024X1024',
  ' 1x1',
  '100000x1',
])('%j is not a size', text => {
  expect(parseImageSize(text)).toBeUndefined();
});

test('a shrunk image fits and keeps its shape except for rounding to pixels; an image that fits is unchanged', () => {
  fc.assert(
    fc.property(size, size, (own, largest) => {
      const shrunk = shrunkInto(own, largest);
      expect(fitsInto(shrunk, largest)).toBe(true);
      if (fitsInto(own, largest)) expect(shrunk).toEqual(own);
      else {
        const scale = Math.min(largest.width / own.width, largest.height / own.height);
        expect(Math.abs(shrunk.width - own.width * scale)).toBeLessThanOrEqual(1);
        expect(Math.abs(shrunk.height - own.height * scale)).toBeLessThanOrEqual(1);
      }
    }),
  );
  expect(shrunkInto({ width: 4096, height: 1024 }, { width: 2048, height: 2048 })).toEqual({
    width: 2048,
    height: 512,
  });
});

test('without a maximum size everything fits', () => {
  expect(fitsInto({ width: 99_999, height: 99_999 }, undefined)).toBe(true);
});
