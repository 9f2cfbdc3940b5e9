import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { StoredAnswerSchema, StoredResponseSchema } from '../gen/tollgate/v1/response_pb.ts';
import { ItemSchema, Role } from '../gen/tollgate/v1/content_pb.ts';
import { countBytes, fromBinaryInTurns, toBinaryInTurns } from './large-message.ts';

const text = fc
  .tuple(fc.constantFrom(0, 10, 65_536, 65_537, 1_048_575, 1_048_577), fc.constantFrom('a', 'é', '😀', '\u20ac'))
  .map(([length, unit]) => `${'x'.repeat(Math.max(0, length - 1))}${unit}${unit}`);

const part = fc.oneof(
  text.map(value => ({ content: { case: 'text' as const, value: { text: value } } })),
  text.map(value => ({
    content: { case: 'image' as const, value: { detail: 'low', source: { source: { case: 'url' as const, value } } } },
  })),
);
const item = fc.oneof(
  fc.array(part, { maxLength: 3 }).map(parts => ({
    id: 'msg_1',
    content: { case: 'message' as const, value: { role: Role.USER, name: 'n', parts } },
  })),
  text.map(value => ({ content: { case: 'toolCall' as const, value: { callId: 'c', name: 'f', arguments: value } } })),
);

test('a message with long texts at any place can be read, and is the same as if the library had written it', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(item, { maxLength: 4 }),
      fc.array(item, { maxLength: 2 }),
      text,
      async (input, output, model) => {
        const message = create(StoredResponseSchema, {
          input,
          output,
          head: {
            id: 'resp_1',
            model,
            previousResponseId: model,
            settings: { model, metadata: { a: 'b' }, stop: [model, 'x'] },
          },
        });
        const bytes = await toBinaryInTurns(StoredResponseSchema, message);
        const own = toBinary(StoredResponseSchema, message);
        expect(bytes.length).toBe(own.length);
        expect(countBytes(StoredResponseSchema, message)).toBe(own.length);
        const read = fromBinary(StoredResponseSchema, bytes);
        expect(Buffer.from(toBinary(StoredResponseSchema, read)).equals(own)).toBe(true);
        expect(await fromBinaryInTurns(StoredResponseSchema, own)).toEqual(read);
        // The fields that a schema lacks are left out.
        const withoutInput = fromBinary(StoredAnswerSchema, bytes, { readUnknownFields: false });
        expect(await fromBinaryInTurns(StoredAnswerSchema, bytes)).toEqual(withoutInput);
      },
    ),
    { numRuns: 60 },
  );
});

test('a message field that occurs several times, also in a oneof, is merged as the library does', async () => {
  const long = 'x'.repeat(300_000);
  const toItem = (text: string, name: string, role: Role = Role.UNSPECIFIED) => ({
    content: {
      case: 'message' as const,
      value: { role, name, parts: [{ content: { case: 'text' as const, value: { text } } }] },
    },
  });
  const toBytes = (item: MessageInitShape<typeof ItemSchema>): Uint8Array =>
    toBinary(ItemSchema, create(ItemSchema, item));
  const call = toBytes({ content: { case: 'toolCall', value: { callId: 'c', arguments: long } } });
  const items = [
    [toBytes(toItem(long, 'n', Role.USER)), toBytes(toItem('short', '')), toBytes(toItem(long, 'm'))],
    [toBytes(toItem('short', 'n')), toBytes(toItem(long, ''))],
    [toBytes(toItem(long, 'n')), call, toBytes(toItem(long, ''))],
  ];
  for (const pieces of items) {
    const bytes = Buffer.concat(pieces);
    expect(await fromBinaryInTurns(ItemSchema, bytes)).toEqual(fromBinary(ItemSchema, bytes));
  }
  const head = (id: string, model: string) =>
    toBinary(StoredResponseSchema, create(StoredResponseSchema, { head: { id, model } }));
  const twice = Buffer.concat([head('resp_1', long), head('', long), head('resp_2', '')]);
  expect(await fromBinaryInTurns(StoredResponseSchema, twice)).toEqual(fromBinary(StoredResponseSchema, twice));
});

test('a message of many short items, or of one with many short parts, is read in their order', async () => {
  const texts = Array.from({ length: 20_000 }, (_, at) => `${at} ${'x'.repeat(60)}`);
  const parts = texts.map(value => ({ content: { case: 'text' as const, value: { text: value } } }));
  const long = { content: { case: 'text' as const, value: { text: 'y'.repeat(100_000) } } };
  const items = [[...parts, long, ...parts], ...parts.map(each => [each])].map(each => ({
    content: { case: 'message' as const, value: { role: Role.USER, parts: each } },
  }));
  const message = create(StoredResponseSchema, { input: items, inherited: items.slice(0, 1), failure: { code: 'c' } });
  const bytes = toBinary(StoredResponseSchema, message);
  let turns = 0;
  const counting = setInterval(() => (turns += 1), 0);
  const read = await fromBinaryInTurns(StoredResponseSchema, bytes);
  clearInterval(counting);
  expect(Buffer.from(toBinary(StoredResponseSchema, read)).equals(bytes)).toBe(true);
  expect(turns).toBeGreaterThan(10);
});
