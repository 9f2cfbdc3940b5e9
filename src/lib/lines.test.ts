import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readLines } from './lines.ts';

async function collectLines(pieces: readonly Buffer[], bytesMax = Infinity): Promise<string[]> {
  const source = async function* (): AsyncGenerator<Buffer> {
    await Promise.resolve();
    yield* pieces;
  };
  const lines: string[] = [];
  for await (const line of readLines(source(), bytesMax)) lines.push(line.toString());
  return lines;
}

test('lines are the same however their bytes are split into pieces', async () => {
  const line = fc.string({ unit: fc.constantFrom('a', 'é', ' ', '門') });
  await fc.assert(
    fc.asyncProperty(
      fc.array(line, { minLength: 1 }),
      fc.constantFrom('\n', '\r\n'),
      fc.nat(9),
      async (lines, end, size) => {
        const bytes = Buffer.from(lines.map(text => text + end).join(''));
        const pieces = Array.from({ length: Math.ceil(bytes.length / (size + 1)) }, (_, at) =>
          bytes.subarray(at * (size + 1), (at + 1) * (size + 1)),
        );
        expect(await collectLines(pieces)).toEqual(lines);
      },
    ),
  );
});

test('the last line needs no line end, and a line that is too long is cut', async () => {
  expect(await collectLines([Buffer.from('a\nb')])).toEqual(['a', 'b']);
  expect(await collectLines([Buffer.from('abcd'), Buffer.from('efg\nhi\n')], 3)).toEqual(['abc', 'hi']);
});
