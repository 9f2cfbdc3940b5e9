/** Images and sources in answers, for clients of all protocols, streamed and whole. */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { ClientCodec, DecodedRequest, Json, JsonObject, UpstreamCodec } from '../../src/codecs/codec.ts';
import { makeRequest } from '../../src/codecs/content.ts';
import { AnswerRenderer, geminiCodec, renderGemini } from '../../src/codecs/gemini/index.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import type { GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import { Guard } from '../../src/generation/guard/guard.ts';
import { parseChunks, renderFrames } from '../contracts/codec-suite.ts';

const png = 'iVBORw0KGgo=';
const dataUrl = `data:image/png;base64,${png}`;
const decoded: DecodedRequest = { request: makeRequest({ model: 'm' }), stream: true, includeUsage: true };
const sse = (...bodies: Json[]): string => bodies.map(body => `data: ${JSON.stringify(body)}\n\n`).join('');
const guarded = (events: readonly GenerationEvent[]): GenerationEvent[] =>
  new Guard(decoded.request, { limit: Infinity }).push(events);
const whole = (from: UpstreamCodec, body: Json): GenerationEvent[] => guarded(from.parseWhole(body, 'acme'));
const stream = (from: UpstreamCodec, text: string): GenerationEvent[] =>
  guarded(parseChunks(from, 'acme', [Buffer.from(text)]));
const render = (to: ClientCodec, events: readonly GenerationEvent[]): JsonObject => to.renderWhole(events, decoded);
const frames = (to: ClientCodec, events: readonly GenerationEvent[]): string =>
  renderFrames(to, events, decoded).join('');
const google = (events: readonly GenerationEvent[]): JsonObject => renderGemini(events, decoded);
/** Returns the chunks that a Gemini client gets, as one text. */
function chunks(events: readonly GenerationEvent[]): string {
  const renderer = new AnswerRenderer(decoded);
  return events
    .map(event => {
      renderer.push(event);
      return JSON.stringify(renderer.take());
    })
    .join('\n');
}

/** The same answer, an image and a text, of three providers. */
const gemini = {
  candidates: [
    {
      content: { role: 'model', parts: [{ text: 'Here.' }, { inlineData: { mimeType: 'image/png', data: png } }] },
      finishReason: 'STOP',
    },
  ],
};
const entry = { type: 'image_url', image_url: { url: dataUrl }, index: 0 };
const message = { role: 'assistant', content: 'Here.', images: [entry] };
const openRouter = { id: 'c', object: 'chat.completion', choices: [{ index: 0, message, finish_reason: 'stop' }] };
const chunk = { id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: message }] };
const end = { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
const begun = { id: 'ig', type: 'image_generation_call', status: 'in_progress' };
const made = { ...begun, status: 'completed', output_format: 'png', result: png };
const text = { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Here.' }] };
const openai = { object: 'response', status: 'completed', output: [made, text] };
const openaiStream = sse(
  { type: 'response.output_item.added', output_index: 0, item: begun },
  { type: 'response.output_item.done', output_index: 0, item: made },
  { type: 'response.completed', response: openai },
);

describe('an image in an answer', () => {
  test.each([
    ['Gemini, whole', whole(geminiCodec, gemini)],
    ['Gemini, streamed', stream(geminiCodec, sse(gemini))],
    ['OpenRouter, whole', whole(chatCodec, openRouter)],
    ['OpenRouter, streamed', stream(chatCodec, sse(chunk, end))],
    ['a tool of OpenAI, whole', whole(responsesCodec, openai)],
    ['a tool of OpenAI, streamed', stream(responsesCodec, openaiStream)],
  ])('of %s reaches the clients that have a place for it; others get a warning', (_, events) => {
    const chat = render(chatCodec, events);
    expect(chat['choices']).toMatchObject([{ message: { content: 'Here.', images: [entry] } }]);
    expect(frames(chatCodec, events).match(/"images":\[.*?\]/g)).toEqual([`"images":[${JSON.stringify(entry)}]`]);
    const output = render(responsesCodec, events)['output'] as JsonObject[];
    expect(output.filter(({ type }) => type === 'image_generation_call')).toEqual([
      { ...made, id: expect.any(String) },
    ]);
    const streamed = frames(responsesCodec, events).match(/"type":"response\.output_item\.done".*/g) ?? [];
    expect(streamed.filter(line => line.includes(png))).toHaveLength(1);
    expect(google(events)['candidates']).toMatchObject([
      { content: { parts: expect.arrayContaining([{ inlineData: { mimeType: 'image/png', data: png } }]) } },
    ]);
    expect(chunks(events).split(png)).toHaveLength(2);
    expect(render(messagesCodec, events)['content']).toEqual([{ type: 'text', text: 'Here.' }]);
    expect(messagesCodec.listLost?.(events)).toEqual(['dropped=images']);
    expect(frames(messagesCodec, events).match(/^:.*$/gm)).toEqual([': x-tollgate-warnings: dropped=images']);
  });

  test('is no warning for an answer without one', () => {
    const events = whole(responsesCodec, { object: 'response', status: 'completed', output: [text] });
    expect(messagesCodec.listLost?.(events)).toEqual([]);
    expect(frames(messagesCodec, events)).not.toContain('\n:');
  });
});

describe('the pages that a Gemini answer is grounded on', () => {
  const pages = ['https://a.example', 'https://b.example', 'https://c.example'];
  const groundingMetadata = {
    groundingChunks: pages.map(uri => ({ web: { uri, title: uri.slice(8) } })),
    groundingSupports: [
      { segment: { endIndex: 6, text: 'Zürich' }, groundingChunkIndices: [0] },
      { segment: { startIndex: 8, endIndex: 12, text: 'Oslo' }, groundingChunkIndices: [0, 1] },
    ],
  };
  const say = (parts: JsonObject[], more: JsonObject = {}): JsonObject => ({
    candidates: [{ content: { role: 'model', parts }, ...more }],
  });
  const place = (uri: string, start_index: number, end_index: number): JsonObject => ({
    type: 'url_citation',
    url_citation: { url: uri, title: uri.slice(8), start_index, end_index },
  });
  const [a, b, c] = pages as [string, string, string];
  const citations = [place(a, 0, 5), place(a, 7, 11), place(b, 7, 11), place(c, 0, 0)];

  test.each([
    ['whole', whole(geminiCodec, say([{ text: 'Zürich, Oslo.' }], { finishReason: 'STOP', groundingMetadata }))],
    [
      'streamed, repeated in the last chunk',
      stream(
        geminiCodec,
        sse(
          say([{ text: 'Zürich' }]),
          say([{ text: ', Oslo.' }], { groundingMetadata }),
          say([{ text: '' }], { finishReason: 'STOP', groundingMetadata }),
        ),
      ),
    ],
    [
      'before a signature, which ends the text',
      whole(
        geminiCodec,
        say([{ text: 'Zürich, Oslo.' }, { text: '', thoughtSignature: 'c2ln' }], {
          finishReason: 'STOP',
          groundingMetadata,
        }),
      ),
    ],
  ])('are citations for clients of other protocols: %s', (_, events) => {
    expect(render(chatCodec, events)['choices']).toMatchObject([{ message: { annotations: citations } }]);
    const content = (render(messagesCodec, events)['content'] as JsonObject[]).filter(({ type }) => type === 'text');
    expect(content).toMatchObject([{ citations: [{ url: a }, { url: a }, { url: b }, { url: c }] }]);
    expect(JSON.stringify(render(responsesCodec, events)['output'])).toContain(
      JSON.stringify({ type: 'url_citation', url: b, title: 'b.example', start_index: 7, end_index: 11 }),
    );
  });

  test('may come back in the next request: that the provider does not get them is no loss', () => {
    const [choice] = render(
      chatCodec,
      whole(geminiCodec, say([{ text: 'Zürich, Oslo.' }], { finishReason: 'STOP', groundingMetadata })),
    )['choices'] as JsonObject[];
    const user = { role: 'user', content: 'Go on' };
    const body = { model: 'm', messages: [user, choice?.['message'] ?? {}, user] };
    const { request } = chatCodec.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} });
    for (const codec of [geminiCodec, messagesCodec, responsesCodec]) {
      const encoded = codec.encodeRequest({ request, model: 'm', maxOutputTokens: 9, stream: false, provider: 'acme' });
      expect(encoded.dropped).toEqual([]);
    }
  });

  test('reach a Gemini client once and unchanged', () => {
    const events = stream(
      geminiCodec,
      sse(say([{ text: 'Zürich, Oslo.' }], { groundingMetadata }), say([{ text: '' }], { finishReason: 'STOP' })),
    );
    expect(chunks(events).split('groundingChunks')).toHaveLength(2);
    expect(google(events)['candidates']).toMatchObject([{ groundingMetadata }]);
  });
});
