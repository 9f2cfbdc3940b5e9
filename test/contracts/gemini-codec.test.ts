import fc from 'fast-check';
import {
  makeItem,
  makePart,
  makeRequest,
  makeSampling,
  messageContent,
  textContent,
} from '../../src/codecs/content.ts';
import { geminiCodec } from '../../src/codecs/gemini/index.ts';
import { Role } from '../../src/gen/tollgate/v1/content_pb.ts';
import { anyText } from './answer-arbitraries.ts';
import { upstreamSuite } from './codec-suite.ts';

const frame = (parts: object[], more: object = {}, finish: object = {}): string =>
  `data: ${JSON.stringify({ candidates: [{ index: 0, content: { role: 'model', parts }, ...finish }], ...more, modelVersion: 'gemini-2.5-flash', responseId: 'r1' })}\n\n`;
const usageMetadata = {
  promptTokenCount: 10,
  cachedContentTokenCount: 3,
  candidatesTokenCount: 9,
  totalTokenCount: 19,
};
const completed = [
  frame([{ text: 'I look', thought: true }]),
  frame([{ text: 'Hello, Zoë 😀' }]),
  frame([{ functionCall: { name: 'get_weather', args: { city: 'Oslo' } }, thoughtSignature: 'c2ln' }]),
  frame([], { usageMetadata }, { finishReason: 'STOP' }),
].join('');

upstreamSuite({
  name: 'Gemini',
  codec: geminiCodec,
  provider: 'acme',
  goldens: { completed: Buffer.from(completed) },
  strangeFrames: [': comment\n\n', 'event: strange\ndata: not JSON\n\n'],
  optionalFrames: 0,
  requests: fc.tuple(anyText, fc.constantFrom(0, 0.5, 1)).map(([text, temperature]) =>
    makeRequest({
      model: 'gemini-2.5-flash',
      items: [makeItem(messageContent(Role.USER, [makePart(textContent(text))]), 0)],
      sampling: makeSampling({ temperature }),
    }),
  ),
});
