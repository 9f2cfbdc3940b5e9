import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { Role } from '../gen/tollgate/v1/content_pb.ts';
import { GenerateRequestSchema } from '../gen/tollgate/v1/request_pb.ts';
import { countInput, loadTokenizer } from './tokens.ts';
import { countInPieces, countInputInPieces } from './count-input.ts';

const tokenizer = await loadTokenizer();

function request(text: string) {
  return create(GenerateRequestSchema, {
    items: [
      {
        content: {
          case: 'message',
          value: { role: Role.USER, parts: [{ content: { case: 'text', value: { text } } }] },
        },
      },
    ],
  });
}

test('counting in pieces gives the same number as counting at once', async () => {
  for (const text of ['', 'hello', 'The quick brown fox. '.repeat(5000), '字'.repeat(20_000)]) {
    expect(await countInputInPieces(request(text), tokenizer)).toBe(countInput(request(text), tokenizer));
  }
});

test('other work continues while a large input is counted', async () => {
  let turns = 0;
  const other = setInterval(() => {
    turns += 1;
  }, 1);
  await countInputInPieces(request('word '.repeat(200_000)), tokenizer);
  clearInterval(other);
  expect(turns).toBeGreaterThan(10);
});

test('counting an output in pieces gives the same number, too', async () => {
  const text = 'word '.repeat(200_000);
  let turns = 0;
  const other = setInterval(() => {
    turns += 1;
  }, 1);
  expect(await countInPieces([text], tokenizer)).toBe(tokenizer.count(text));
  clearInterval(other);
  expect(turns).toBeGreaterThan(10);
});
