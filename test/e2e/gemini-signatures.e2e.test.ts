/** Signatures and streams of Gemini's interface with providers of every protocol (docs/interfaces/gemini.md "Signatures", "Stream"). */
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import type { GeminiPart, GeminiReply } from './gemini-caller.ts';
import {
  ask as askUpstream,
  chatChunk,
  chatEnd,
  messageItem,
  messagesFrames,
  type Method,
  methods,
  outputText,
  plain,
  type Protocol,
  protocols,
  responsesFrames,
  startUpstreams,
  user,
} from './gemini-upstreams.ts';
import type { Json } from './scripted-upstream.ts';

const upstreams = await startUpstreams();
beforeEach(() => Object.assign(upstreams, { frames: undefined, delayMs: 0 }));
afterAll(() => upstreams.stop());

const ask = (protocol: Protocol, body: Json = {}, method: Method = 'generateContent'): Promise<GeminiReply> =>
  askUpstream(upstreams, protocol, body, method);
const warningsOf = (reply: GeminiReply): string | null => reply.headers.get('x-tollgate-warnings');
const lastBody = (): Json => upstreams.seen.at(-1)?.body ?? {};

const f = { name: 'f', parametersJsonSchema: { type: 'object' } };
const tools = [{ functionDeclarations: [f, { ...f, name: 'g' }] }];
const call = (name: string, index: number): Json => ({
  index,
  id: `call_${name}`,
  type: 'function',
  function: { name, arguments: '{"a":1}' },
});

/** Returns the blocks of the second message of a Messages request. */
function readBlocks(body: Json): Json[] {
  const [, answer] = body['messages'] as { content: Json[] }[];
  return answer?.content ?? [];
}

/** For each protocol that seals its reasoning: an answer with reasoning, text and two calls, and what must come back. */
const thoughtful: Readonly<
  Record<
    'chat' | 'responses' | 'messages',
    { frames: readonly string[]; backIn(body: Json): unknown; expected: unknown }
  >
> = {
  chat: {
    frames: [
      chatChunk({
        reasoning_details: [
          { type: 'reasoning.text', text: 'Because.', signature: 'sig+/=', format: 'anthropic-claude-v1', index: 0 },
        ],
      }),
      chatChunk({ content: 'I call.' }),
      chatChunk({ tool_calls: [call('f', 0)] }),
      chatChunk({ tool_calls: [call('g', 1)] }),
      ...chatEnd('tool_calls'),
    ],
    backIn: body => (body['messages'] as Json[])[1]?.['reasoning_details'],
    expected: [expect.objectContaining({ type: 'reasoning.text', text: 'Because.', signature: 'sig+/=' })],
  },
  responses: {
    frames: responsesFrames([
      {
        id: 'rs_1',
        type: 'reasoning',
        summary: [{ type: 'summary_text', text: 'Because.' }],
        encrypted_content: 'sealed+/==',
      },
      messageItem([outputText('I call.')]),
      { id: 'fc_1', type: 'function_call', call_id: 'call_f', name: 'f', arguments: '{"a":1}', status: 'completed' },
      { id: 'fc_2', type: 'function_call', call_id: 'call_g', name: 'g', arguments: '{"a":1}', status: 'completed' },
    ]),
    backIn: body => (body['input'] as Json[]).filter(({ type }) => type === 'reasoning'),
    expected: [expect.objectContaining({ encrypted_content: 'sealed+/==' })],
  },
  messages: {
    frames: messagesFrames(
      [
        [
          { type: 'thinking', thinking: '', signature: '' },
          { type: 'thinking_delta', thinking: 'Because.' },
          { type: 'signature_delta', signature: 'sig+/==' },
        ],
        [
          { type: 'text', text: '' },
          { type: 'text_delta', text: 'I call.' },
        ],
        [
          { type: 'tool_use', id: 'toolu_f', name: 'f', input: {} },
          { type: 'input_json_delta', partial_json: '{"a":1}' },
        ],
        [
          { type: 'tool_use', id: 'toolu_g', name: 'g', input: {} },
          { type: 'input_json_delta', partial_json: '{"a":1}' },
        ],
      ],
      'tool_use',
    ),
    backIn: body => readBlocks(body).filter(({ type }) => type === 'thinking'),
    expected: [{ type: 'thinking', thinking: 'Because.', signature: 'sig+/==' }],
  },
};
const thinks = { tools, generationConfig: { thinkingConfig: { includeThoughts: true, thinkingBudget: 1024 } } };
const resultsFor = (parts: readonly GeminiPart[]): Json => ({
  role: 'user',
  parts: parts.flatMap(({ functionCall }) =>
    functionCall === undefined
      ? []
      : [{ functionResponse: { id: functionCall.id, name: functionCall.name, response: { output: 'done' } } }],
  ),
});
const toUrlAlphabet = (text: string): string => text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');

describe.each(['chat', 'responses', 'messages'] as const)('signatures of %s', protocol => {
  const { frames, backIn, expected } = thoughtful[protocol];

  test.each(methods)('%s: are base64 with padding, on the text and the first call', async method => {
    upstreams.frames = frames;
    const { parts } = await ask(protocol, thinks, method);
    const signed = parts.filter(part => part.thoughtSignature !== undefined);
    for (const { thoughtSignature = '' } of signed) {
      expect(Buffer.from(thoughtSignature, 'base64').toString('base64')).toBe(thoughtSignature);
    }
    const calls = parts.filter(part => part.functionCall !== undefined);
    expect(calls).toHaveLength(2);
    expect(calls[0]?.thoughtSignature).toBeDefined();
    expect(calls[1]?.thoughtSignature).toBeUndefined();
    expect(signed.some(part => part.text !== undefined && part.thought !== true)).toBe(true);
    expect(
      parts
        .filter(part => part.thought === true)
        .map(({ text }) => text)
        .join(''),
    ).toBe('Because.');
  });

  test.each<[string, (parts: readonly GeminiPart[]) => Json[]]>([
    ['as one content', parts => [{ role: 'model', parts }]],
    ['as a content for each part', parts => parts.map(part => ({ role: 'model', parts: [part] }))],
    ['without the thoughts', parts => [{ role: 'model', parts: parts.filter(part => part.thought !== true) }]],
    ['only the calls', parts => [{ role: 'model', parts: parts.filter(part => part.functionCall !== undefined) }]],
    [
      'in the alphabet of URLs, in snake_case',
      parts => [
        {
          role: 'model',
          parts: parts.map(({ thoughtSignature, ...rest }) => ({
            ...rest,
            ...(thoughtSignature === undefined ? {} : { thought_signature: toUrlAlphabet(thoughtSignature) }),
          })),
        },
      ],
    ],
  ])('sent back %s, the reasoning is what the provider had written, once', async (_name, keep) => {
    upstreams.frames = frames;
    const { parts } = await ask(protocol, thinks, 'streamGenerateContent?alt=sse');
    upstreams.frames = undefined;
    const second = await ask(protocol, { ...thinks, contents: [user('Hi'), ...keep(parts), resultsFor(parts)] });
    expect([second.status, second.error]).toEqual([200, undefined]);
    expect(backIn(lastBody())).toEqual(expected);
    if (protocol === 'messages') {
      expect(lastBody()['messages']).toHaveLength(3);
      expect(readBlocks(lastBody())[0]?.['type']).toBe('thinking');
    }
  });

  test('a changed one is 400 and names the part', async () => {
    upstreams.frames = frames;
    const { parts } = await ask(protocol, thinks);
    const signature = parts.find(part => part.thoughtSignature !== undefined)?.thoughtSignature ?? '';
    const changed = `${signature.slice(0, 70)}${signature[70] === 'A' ? 'B' : 'A'}${signature.slice(71)}`;
    const contents = [user('Hi'), { role: 'model', parts: [{ text: 'x', thoughtSignature: changed }] }, user('go on')];
    const { status, error } = await ask(protocol, { contents });
    expect([status, error?.details?.[0]?.metadata?.['param']]).toEqual([400, 'contents.1.parts.0.thoughtSignature']);
  });

  test('another program’s is dropped with a warning, in a text, a call or a thought', async () => {
    for (const foreign of ['skip_thought_signature_validator', 'b3RoZXI=', 'context_engineering_is_the_way_to_go']) {
      const contents = [
        user('Hi'),
        {
          role: 'model',
          parts: [
            { text: 'hm', thought: true, thoughtSignature: foreign },
            { text: 'x', thoughtSignature: foreign },
            { functionCall: { name: 'f', args: {} }, thoughtSignature: foreign },
          ],
        },
        { role: 'user', parts: [{ functionResponse: { name: 'f', response: {} } }] },
      ];
      const reply = await ask(protocol, { tools, contents });
      expect([reply.status, warningsOf(reply)]).toEqual([200, expect.stringContaining('thoughtSignature')]);
      // Google's own signatures of calls have a place in Chat.
      const isCarried = protocol === 'chat' && foreign === 'b3RoZXI=';
      expect(JSON.stringify(lastBody()).split(foreign)).toHaveLength(isCarried ? 2 : 1);
    }
  });
});

test.each(['QUJDRA==', 'QUJDRA', 'skip_thought_signature_validator'])(
  'a Gemini provider gets its signature %s as the client sent it',
  async own => {
    const contents = [user('Hi'), { role: 'model', parts: [{ text: 'x', thoughtSignature: own }] }, user('go on')];
    expect((await ask('gemini', { contents })).status).toBe(200);
    expect(lastBody()['contents']).toEqual(contents);
  },
);

describe('streams', () => {
  test.each(protocols)(
    '%s: every line of SSE begins with data, an array is one array, and a quiet one has white space',
    async protocol => {
      upstreams.delayMs = 150;
      const sse = await ask(protocol, {}, 'streamGenerateContent?alt=sse');
      expect(sse.headers.get('content-type')).toMatch(/^text\/event-stream/);
      expect(sse.raw.split('\n').filter(line => line !== '' && !line.startsWith('data: '))).toEqual([]);
      expect(sse.raw).toMatch(/\n\n\n/);
      const array = await ask(protocol, {}, 'streamGenerateContent');
      expect(array.headers.get('content-type')).toMatch(/^application\/json/);
      expect(array.raw).toMatch(/^\s*\[\{/);
      expect(array.raw.endsWith(']')).toBe(true);
      const whole = await ask(protocol);
      expect(whole.headers.get('content-type')).toMatch(/^application\/json/);
      for (const { text, chunks } of [sse, array, whole]) {
        expect(text).toBe('one two');
        // The last chunk has the finish reason and the usage, and no other has a finish reason.
        const finished = chunks.filter(chunk =>
          chunk.candidates?.some(({ finishReason }) => finishReason !== undefined),
        );
        expect(finished).toEqual([chunks.at(-1)]);
        expect(chunks.at(-1)?.usageMetadata).toMatchObject({
          promptTokenCount: 9,
          candidatesTokenCount: 3,
          totalTokenCount: 12,
          cost: 0.000012,
        });
      }
    },
  );

  test.each(protocols)('%s: modelVersion and responseId are the same in every chunk', async protocol => {
    for (const method of methods) {
      const { chunks, headers } = await ask(protocol, {}, method);
      const own =
        protocol === 'gemini' ? ['gemini-9', 'resp-of-google'] : [`up/${protocol}`, headers.get('x-request-id')];
      for (const chunk of chunks) expect([chunk['modelVersion'], chunk['responseId']]).toEqual(own);
    }
  });

  test.each(protocols)(
    '%s: a provider that breaks off is an error without a finish reason before it',
    async protocol => {
      for (const method of ['streamGenerateContent', 'streamGenerateContent?alt=sse'] as const) {
        upstreams.frames = plain[protocol].slice(0, protocol === 'responses' ? 4 : protocol === 'messages' ? 3 : 1);
        const { status, chunks, error, reason, finish } = await ask(protocol, {}, method);
        expect([status, error?.code, error?.status, reason, finish]).toEqual([
          200,
          502,
          'UNAVAILABLE',
          'upstream_error',
          undefined,
        ]);
        expect(chunks.length).toBeGreaterThan(1);
      }
    },
  );
});
