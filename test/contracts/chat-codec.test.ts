import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import { Protocol } from '../../src/gen/tollgate/v1/content_pb.ts';
import { FinishReason } from '../../src/gen/tollgate/v1/event_pb.ts';
import { Endpoint } from '../../src/gen/tollgate/v1/request_pb.ts';
import { answers } from './answer-arbitraries.ts';
import { codecSuite } from './codec-suite.ts';
import { requests } from './request-arbitraries.ts';

const fixture = (name: string): Buffer =>
  readFileSync(resolve(import.meta.dirname, `../../src/codecs/chat/fixtures/${name}.sse`));

codecSuite({
  name: 'Chat Completions',
  codec: chatCodec,
  provider: 'acme',
  goldens: { completed: fixture('completed'), reasoning: fixture('reasoning') },
  strangeFrames: ['event: ping\ndata: {"type":"ping"}\n\n', ': comment\n\n', 'event: strange\ndata: not JSON\n\n'],
  // The usage and `[DONE]`.
  optionalFrames: 2,
  requests: requests(Endpoint.CHAT_COMPLETIONS),
  answers: answers({
    protocol: Protocol.CHAT,
    provider: 'acme',
    natives: {
      [FinishReason.STOP]: 'stop',
      [FinishReason.LENGTH]: 'length',
      [FinishReason.TOOL_CALLS]: 'tool_calls',
      [FinishReason.CONTENT_FILTER]: 'content_filter',
    },
    choicesMax: 3,
  }),
});
