import fc from 'fast-check';
import { makeItem, makePart, messageContent, textContent } from '../../src/codecs/content.ts';
import { completionsCodec } from '../../src/codecs/completions/index.ts';
import { Role } from '../../src/gen/tollgate/v1/content_pb.ts';
import { DeltaKind, FinishReason } from '../../src/gen/tollgate/v1/event_pb.ts';
import * as emit from '../../src/generation/events.ts';
import { anyText } from './answer-arbitraries.ts';
import { clientSuite, upstreamSuite } from './codec-suite.ts';

// A request of another protocol can't be encoded, so the laws of codecs for both sides do not apply.

const head = { id: 'cmpl-1', object: 'text_completion', created: 1_790_000_000, model: 'm' };
const data = (value: object): string => `data: ${JSON.stringify(value)}\n\n`;
const chunk = (text: string, finish_reason: string | null = null): string =>
  data({ ...head, choices: [{ text, index: 0, logprobs: null, finish_reason }] });
const usage = { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 };

upstreamSuite({
  name: 'Completions',
  codec: completionsCodec,
  provider: 'acme',
  goldens: {
    completed: Buffer.from(
      [
        chunk('Hello, '),
        chunk('Zoë 😀'),
        chunk('', 'stop'),
        data({ ...head, choices: [], usage }),
        'data: [DONE]\n\n',
      ].join(''),
    ),
  },
  strangeFrames: ['event: ping\ndata: {"type":"ping"}\n\n', ': comment\n\n', 'event: strange\ndata: not JSON\n\n'],
  // The usage and `[DONE]`.
  optionalFrames: 2,
  requests: fc.tuple(anyText, fc.boolean()).map(([prompt, stream]) => {
    const body = { model: 'm', prompt, stream };
    return completionsCodec.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} }).request;
  }),
});

clientSuite({
  name: 'Completions',
  codec: completionsCodec,
  answers: fc.array(fc.tuple(anyText, fc.nat(8)), { minLength: 1, maxLength: 3 }).map(choices => [
    emit.started({ requestId: 'req_1', model: 'acme/small', createdAtMs: 1_790_000_000_000n }),
    ...choices.flatMap(([text, cut], choice) => [
      emit.itemOpened(choice, 0, makeItem(messageContent(Role.ASSISTANT, []), 0)),
      emit.partOpened(choice, [0, 0], makePart(textContent(''))),
      // The cut may be within a surrogate pair.
      ...[text.slice(0, cut), text.slice(cut)].map(piece =>
        emit.delta(choice, [0, 0], { kind: DeltaKind.TEXT, text: piece }),
      ),
      emit.partClosed(choice, [0, 0]),
      emit.itemClosed(choice, 0),
      emit.finished(choice, FinishReason.STOP, { native: 'stop' }),
    ]),
    emit.completed({}),
  ]),
});
