import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import { FinishReason } from '../../src/gen/tollgate/v1/event_pb.ts';
import { foldEvents } from '../../src/generation/fold.ts';
import { UpstreamFailure } from '../../src/generation/upstream.ts';
import { codecSuite, parseChunks } from './codec-suite.ts';
import { responsesAnswers, responsesRequests, strangeRequests } from './responses-arbitraries.ts';

const fixture = (name: string): Buffer =>
  readFileSync(resolve(import.meta.dirname, `../../src/codecs/responses/fixtures/${name}.sse`));

codecSuite({
  name: 'Responses',
  codec: responsesCodec,
  provider: 'acme',
  goldens: { completed: fixture('completed') },
  strangeFrames: [
    'event: keepalive\ndata: {"type":"keepalive","sequence_number":7}\n\n',
    ': comment\n\n',
    'event: strange\ndata: not JSON\n\n',
    'event: response.strange.delta\ndata: {"type":"response.strange.delta","output_index":0,"delta":"x"}\n\n',
  ],
  optionalFrames: 1,
  requests: responsesRequests,
  answers: responsesAnswers,
});

test('a call that the limit cut is incomplete, and so is the answer', () => {
  const { choices } = foldEvents(parseChunks(responsesCodec, 'acme', [fixture('incomplete')]));
  const [choice] = choices;
  expect(choice?.finished).toMatchObject({ reason: FinishReason.LENGTH, native: 'max_output_tokens' });
  expect(choice?.items.map(({ status }) => status)).toEqual([2, 2, 2, 3]);
  expect(choice?.items.at(-1)?.content.value).toMatchObject({ callId: 'call_2', arguments: '{"ci' });
});

test('an error event fails the stream with its message', () => {
  const parse = (): unknown => parseChunks(responsesCodec, 'acme', [fixture('error')]);
  expect(parse).toThrow(UpstreamFailure);
  expect(parse).toThrow('upstream closed');
});

test('unknown members are passed on with their items', () => {
  fc.assert(
    fc.property(strangeRequests, request => {
      const { body } = responsesCodec.encodeRequest({
        request,
        model: request.model,
        maxOutputTokens: request.maxOutputTokens,
        stream: request.delivery === 1,
      });
      const raw = Buffer.from(JSON.stringify(body));
      const { request: decoded } = responsesCodec.decodeRequest({ body, raw, headers: {} });
      expect(decoded.items).toEqual(request.items);
    }),
  );
});
