import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { StoredResponseSchema } from '../gen/tollgate/v1/response_pb.ts';
import { Role } from '../gen/tollgate/v1/content_pb.ts';
import { countBytes, toBinaryInTurns } from './large-message.ts';

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
      },
    ),
    { numRuns: 60 },
  );
});
