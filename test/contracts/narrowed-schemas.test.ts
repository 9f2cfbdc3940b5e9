/** Checking a body with a schema that is narrowed to the body's members gives the same result and the same issues as the whole schema. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { UpstreamCodec } from '../../src/codecs/codec.ts';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import { chatRequestSchema } from '../../src/codecs/chat/request-schema.ts';
import { object } from '../../src/codecs/schema.ts';
import { completionsRequestSchema } from '../../src/codecs/completions/decode-request.ts';
import { embeddingsRequestSchema } from '../../src/codecs/embeddings/decode-request.ts';
import { editSchema, generationSchema } from '../../src/codecs/images/request-schema.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { countRequestSchema, messagesRequestSchema } from '../../src/codecs/messages/request-schema.ts';
import { narrowSchema } from '../../src/codecs/narrow-schema.ts';
import { rerankRequestSchema } from '../../src/codecs/rerank/decode-request.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import { continuingRequestSchema, responsesRequestSchema } from '../../src/codecs/responses/request-schema.ts';
import { Endpoint, type GenerateRequest } from '../../src/gen/tollgate/v1/request_pb.ts';
import { writeTree } from './json-tree.ts';
import { messagesRequests } from './messages-arbitraries.ts';
import { requests } from './request-arbitraries.ts';
import { responsesRequests } from './responses-arbitraries.ts';
import { samples, unknownJson, unknownRequest } from './unknown-arbitraries.ts';

type Body = Readonly<Record<string, unknown>>;

const anyValue = fc.oneof(
  fc.constantFrom(undefined, null, '', 'auto', 0, 1, -1, 0.5, true, [], {}, 'x'.repeat(600)),
  unknownJson.map((text): unknown => JSON.parse(text)),
);

/** Generates bodies in which some members are absent, have any value, or are unknown. */
function mutated(bodies: fc.Arbitrary<Body>, names: readonly string[]): fc.Arbitrary<Body> {
  const name = fc.oneof(fc.constantFrom(...names), fc.constantFrom('x_new', 'constructor', '__proto__', 'toString'));
  const change = fc.tuple(name, fc.option(anyValue, { nil: 'absent' as const, freq: 2 }));
  return fc.tuple(bodies, fc.array(change, { maxLength: 4 })).map(([body, changes]) => {
    const members = new Map(Object.entries(body));
    for (const [changed, value] of changes) {
      if (value === 'absent') members.delete(changed);
      else members.set(changed, value);
    }
    return Object.fromEntries(members);
  });
}

/** Returns the value with the order of its members, or the issues. */
function checked(schema: z.ZodType, body: Body, context: object): unknown {
  const { success, data, error } = schema.safeParse(body, context);
  return success ? { names: Object.keys(data as object), data } : error.issues;
}

const encoded =
  (codec: UpstreamCodec) =>
  (request: GenerateRequest): Body =>
    codec.encodeRequest({ request, model: 'm', maxOutputTokens: request.maxOutputTokens, stream: true }).body;
const strange = (sample: (typeof samples)['chat']): fc.Arbitrary<Body> =>
  unknownRequest(sample, 'everything').map(tree => ({ model: 'm', ...(JSON.parse(writeTree(tree)) as Body) }));

const nothing = fc.constant<Body>({});
const cases: Readonly<Record<string, readonly [z.ZodObject, ...fc.Arbitrary<Body>[]]>> = {
  chat: [chatRequestSchema, requests(Endpoint.CHAT_COMPLETIONS).map(encoded(chatCodec)), strange(samples.chat)],
  messages: [messagesRequestSchema, messagesRequests.map(encoded(messagesCodec)), strange(samples.messages)],
  'messages, counted': [countRequestSchema, strange(samples.messages)],
  responses: [responsesRequestSchema, responsesRequests.map(encoded(responsesCodec)), strange(samples.responses)],
  'responses, continued': [continuingRequestSchema, strange(samples.responses)],
  completions: [completionsRequestSchema, fc.constant({ model: 'm', prompt: 'p' })],
  embeddings: [embeddingsRequestSchema, fc.constant({ model: 'm', input: 'p' })],
  images: [generationSchema, fc.constant({ model: 'm', prompt: 'p' })],
  'image edits': [editSchema, nothing],
  rerank: [rerankRequestSchema, fc.constant({ model: 'm', query: 'q', documents: ['d'] })],
};

describe.each(Object.entries(cases))('%s', (_, [schema, ...bodies]) => {
  const body = mutated(fc.oneof(...bodies, nothing), Object.keys(schema.shape));

  test.each([{}, { abortEarly: true }])('a narrowed schema gives the same value or the same issues: %j', context => {
    fc.assert(
      fc.property(body, each => {
        expect(checked(narrowSchema(schema, each, Infinity), each, context)).toStrictEqual(
          checked(schema, each, context),
        );
      }),
      { numRuns: 300 },
    );
  });
});

test('a body is checked with the members that it has and those that it must have', () => {
  const narrowed = narrowSchema(small, { b: 1, x_new: 1 });
  expect(namesIn(narrowed)).toEqual(['must', 'b']);
  expect(narrowSchema(small, { must: 5, b: null })).toBe(narrowed);
});

test('beyond the most narrowed schemas, a body is checked with the whole schema', () => {
  const schema = object({ ...small.shape });
  const first = narrowSchema(schema, { a: 1 }, 1);
  expect(namesIn(first)).toEqual(['must', 'a']);
  expect(narrowSchema(schema, { b: 1 }, 1)).toBe(schema);
  expect(narrowSchema(schema, { a: 2 }, 1)).toBe(first);
});

const small = object({ must: z.number(), a: z.number().nullish(), b: z.number().nullish() });

function namesIn(schema: z.ZodType): string[] {
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
}
