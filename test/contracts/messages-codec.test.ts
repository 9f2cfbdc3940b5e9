import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { UpstreamFailure } from '../../src/generation/upstream.ts';
import { codecSuite, parseChunks } from './codec-suite.ts';
import { messagesAnswers, messagesRequests } from './messages-arbitraries.ts';

const fixture = (name: string): Buffer =>
  readFileSync(resolve(import.meta.dirname, `../../src/codecs/messages/fixtures/${name}.sse`));

codecSuite({
  name: 'Messages',
  codec: messagesCodec,
  provider: 'acme',
  goldens: { completed: fixture('completed') },
  strangeFrames: ['event: ping\ndata: {"type":"ping"}\n\n', ': comment\n\n', 'event: strange\ndata: not JSON\n\n'],
  optionalFrames: 0,
  requests: messagesRequests,
  answers: messagesAnswers,
});

test('an error event fails the stream with its message', () => {
  const parse = (): unknown => parseChunks(messagesCodec, 'acme', [fixture('error')]);
  expect(parse).toThrow(UpstreamFailure);
  expect(parse).toThrow('upstream closed');
});
