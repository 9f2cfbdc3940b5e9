import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ModelSchema } from '../../gen/tollgate/v1/catalog_pb.ts';
import { Role } from '../../gen/tollgate/v1/content_pb.ts';
import { Endpoint, GenerateRequestSchema } from '../../gen/tollgate/v1/request_pb.ts';
import { checkLength } from './check-length.ts';

const model = create(ModelSchema, { id: 'acme/large', contextLength: 1000 });

function request(text: string) {
  return create(GenerateRequestSchema, {
    endpoint: Endpoint.CHAT_COMPLETIONS,
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

test('an input whose lowest estimate exceeds the context is refused, and the error names the field', () => {
  expect(() => checkLength(request('word '.repeat(10_000)), model)).toThrow(
    expect.objectContaining({ code: 'context_length_exceeded', facts: { param: 'messages' } }),
  );
});

test('an input that is only near the limit passes, and so does any input if the model has no limit', () => {
  expect(() => checkLength(request('word '.repeat(1_050)), model)).not.toThrow();
  expect(() => checkLength(request('word '.repeat(10_000)), create(ModelSchema, { id: 'acme/large' }))).not.toThrow();
});
