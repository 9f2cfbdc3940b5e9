import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ArrivingBytes } from './arriving-bytes.ts';

const mebibyte = 1024 ** 2;

function piece(length: number, fill: number): Buffer {
  return Buffer.alloc(length, fill);
}

test('the bytes are those that arrived, in one block if their size was told', () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 3 * mebibyte }), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(sizes, fc.boolean(), (lengths, isTold) => {
      const size = lengths.reduce((sum, length) => sum + length, 0);
      const whole = Buffer.concat(lengths.map((length, index) => piece(length, index + 1)));
      const arriving = new ArrivingBytes({ smallMax: mebibyte, expected: isTold ? size : undefined });
      for (const [index, length] of lengths.entries()) arriving.push(piece(length, index + 1));
      const taken = arriving.take();
      expect(Buffer.concat(taken).equals(whole)).toBe(true);
      if (isTold && size > mebibyte) expect(taken.map(({ byteLength }) => byteLength)).toEqual([size]);
      expect(arriving.take()).toEqual([]);
    }),
    { numRuns: 40 },
  );
});

test('the memory of what has arrived is freed once it is in the block', () => {
  const arriving = new ArrivingBytes({ smallMax: 10, expected: 30 });
  // Each has memory of its own, as what comes from a socket has.
  const pieces = [Buffer.allocUnsafeSlow(10), Buffer.allocUnsafeSlow(10)];
  const [first, second] = pieces as [Buffer, Buffer];
  arriving.push(first);
  expect(first.length).toBe(10);
  arriving.push(second);
  expect(pieces.map(({ length }) => length)).toEqual([0, 0]);
  // Bytes of the pool share their memory with others, and stay.
  const pooled = Buffer.from('abc');
  arriving.push(pooled);
  expect(pooled.toString()).toBe('abc');
  expect(Buffer.concat(arriving.take()).length).toBe(23);
});

test('dropped bytes are freed', () => {
  const arriving = new ArrivingBytes({ smallMax: 10, expected: undefined });
  const small = Buffer.allocUnsafeSlow(5);
  arriving.push(small);
  arriving.drop();
  expect(small.length).toBe(0);
  expect(arriving.take()).toEqual([]);
});
