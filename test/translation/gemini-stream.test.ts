/** Answers of Gemini upstreams: the cases of `test/translation/cases.json`, by their ids. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { Json, JsonObject } from '../../src/codecs/codec.ts';
import { makeRequest } from '../../src/codecs/content.ts';
import { geminiCodec } from '../../src/codecs/gemini/index.ts';
import { textIn } from '../../src/codecs/json.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { readBlobs } from '../../src/codecs/messages/reasoning-blobs.ts';
import { FinishReason, type GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import { ServiceTier } from '../../src/gen/tollgate/v1/request_pb.ts';
import { foldEvents } from '../../src/generation/fold.ts';
import { UpstreamFailure } from '../../src/generation/upstream.ts';
import { parseChunks } from '../contracts/codec-suite.ts';

interface Chunk {
  readonly parts?: JsonObject[];
  readonly finish?: string;
  readonly usage?: JsonObject;
  readonly more?: JsonObject;
}

function response({ parts, finish, usage, more }: Chunk): JsonObject {
  const isCandidate = parts !== undefined || finish !== undefined;
  const candidate: JsonObject = { index: 0, content: { parts: parts ?? [], role: 'model' } };
  if (finish !== undefined) candidate['finishReason'] = finish;
  return {
    ...(isCandidate ? { candidates: [candidate] } : {}),
    ...(usage === undefined ? {} : { usageMetadata: usage }),
    modelVersion: 'gemini-2.5-flash',
    responseId: 'r1',
    ...more,
  };
}
const encodeChunks = (...chunks: Chunk[]): Buffer =>
  Buffer.from(chunks.map(chunk => `data: ${JSON.stringify(response(chunk))}\r\n\r\n`).join(''));
const parse = (...chunks: Chunk[]): GenerationEvent[] => parseChunks(geminiCodec, 'google', [encodeChunks(...chunks)]);

/** Summarizes an answer: reasoning in brackets, calls with their arguments, signatures after a tilde. */
function short(events: readonly GenerationEvent[]): string[] {
  const { choices } = foldEvents(events);
  return (choices[0]?.items ?? []).map(({ content }) => {
    if (content.case === 'toolCall') {
      const { name, arguments: args, signature } = content.value;
      return `${name}${args}${signature === undefined ? '' : `~${signature.data}`}`;
    }
    if (content.case !== 'message' && content.case !== 'reasoning') return content.case ?? 'none';
    const texts = content.value.parts.map(part => {
      const text = part.content.case === 'text' || part.content.case === 'summaryText' ? part.content.value.text : '?';
      return part.signature === undefined ? text : `${text}~${part.signature.data}`;
    });
    return content.case === 'reasoning' ? `[${texts.join('')}]` : texts.join('');
  });
}
const readFinish = (events: readonly GenerationEvent[]): [FinishReason | undefined, string | undefined] => {
  const finished = foldEvents(events).choices[0]?.finished;
  return [finished?.reason, finished?.native];
};

function failure(act: () => unknown): string {
  try {
    act();
  } catch (thrown) {
    if (thrown instanceof UpstreamFailure) return `${thrown.kind} ${thrown.facts.status ?? ''}`.trim();
    throw thrown;
  }
  return 'none';
}

describe('content', () => {
  test('GE-04: `thought` parts are reasoning, text continues across frames, a call comes whole', () => {
    const events = parse(
      { parts: [{ text: 'Hm, ', thought: true }] },
      { parts: [{ text: 'yes.', thought: true }, { text: 'Let ' }] },
      { parts: [{ text: 'me see.' }] },
      { parts: [{ functionCall: { id: 'up-1', name: 'f', args: { a: 'é' } }, thoughtSignature: 'S1' }] },
      { parts: [{ functionCall: { name: 'g' } }], finish: 'STOP' },
    );
    expect(short(events)).toEqual(['[Hm, yes.]', 'Let me see.', 'f{"a":"é"}~S1', 'g{}']);
    expect(readFinish(events)).toEqual([FinishReason.TOOL_CALLS, 'STOP']);
  });

  test('GE-01: a call without an id gets one, which is always the same and differs from that of any other call', () => {
    const readIds = (events: readonly GenerationEvent[]): string[] =>
      (foldEvents(events).choices[0]?.items ?? []).flatMap(({ content }) =>
        content.case === 'toolCall' ? [content.value.callId] : [],
      );
    const two: Chunk = {
      parts: [{ functionCall: { name: 'f', args: {} } }, { functionCall: { name: 'f', args: {} } }],
      finish: 'STOP',
    };
    const ids = readIds(parse(two));
    expect(ids[0]).toMatch(/^call_tg[0-9a-f]{20}$/);
    expect(new Set(ids).size).toBe(2);
    expect(readIds(parse(two))).toEqual(ids);
    expect(readIds(parse({ ...two, more: { responseId: 'r2' } }))).not.toEqual(ids);
  });

  test('a signature belongs to exactly its text, and later text is a separate item', () => {
    const events = parse(
      { parts: [{ text: 'a' }, { text: '', thoughtSignature: 'S' }] },
      { parts: [{ text: 'b' }], finish: 'STOP' },
    );
    expect(short(events)).toEqual(['a~S', 'b']);
  });

  test('parts of tools that the upstream runs are kept', () => {
    const part: JsonObject = { executableCode: { language: 'PYTHON', code: '1' } };
    expect(short(parse({ parts: [part, { text: 'one' }], finish: 'STOP' }))).toEqual(['serverTool', 'one']);
  });

  test('log probabilities are with their text', () => {
    const logprobsResult: Json = {
      chosenCandidates: [{ token: 'a', logProbability: -0.5 }],
      topCandidates: [{ candidates: [{ token: 'b', logProbability: -1 }] }],
    };
    const candidate: JsonObject = { content: { parts: [{ text: 'a' }] }, finishReason: 'STOP', logprobsResult };
    const events = parse({ more: { candidates: [candidate] } });
    const deltas = events.flatMap(({ event }) => (event.case === 'delta' ? event.value.logprobs : []));
    expect(deltas).toMatchObject([{ token: 'a', logprob: -0.5, top: [{ token: 'b', logprob: -1 }] }]);
  });

  test('several candidates are several choices', () => {
    const candidate = (index: number, text: string): JsonObject => ({
      index,
      content: { parts: [{ text }] },
      finishReason: 'STOP',
    });
    const events = parse({ more: { candidates: [candidate(1, 'b'), candidate(0, 'a')] } });
    const texts = foldEvents(events).choices.map(({ items }) => {
      const content = items[0]?.content;
      return content?.case === 'message' && content.value.parts[0]?.content.value;
    });
    expect(texts).toMatchObject([{ text: 'a' }, { text: 'b' }]);
  });
});

describe('ends', () => {
  test.each([
    ['STOP', FinishReason.STOP],
    ['MAX_TOKENS', FinishReason.LENGTH],
    ['SAFETY', FinishReason.CONTENT_FILTER],
    ['RECITATION', FinishReason.CONTENT_FILTER],
    ['MODEL_ARMOR', FinishReason.CONTENT_FILTER],
    ['PROHIBITED_CONTENT', FinishReason.CONTENT_FILTER],
    ['SPII', FinishReason.CONTENT_FILTER],
    ['LANGUAGE', FinishReason.OTHER],
    ['SOMETHING_NEW', FinishReason.OTHER],
    ['OTHER', FinishReason.OTHER],
  ])('%s', (native, reason) => {
    expect(readFinish(parse({ parts: [{ text: 'a' }], finish: native }))).toEqual([reason, native]);
  });

  test.each(['MALFORMED_FUNCTION_CALL', 'UNEXPECTED_TOOL_CALL', 'OTHER'])(
    'FI-11, FI-12: %s without content is a failure',
    native => {
      expect(failure(() => parse({ finish: native }))).toBe('reported');
    },
  );

  test('FI-14: a blocked prompt, without a candidate, has the finish reason for a content filter', () => {
    const events = parse({ more: { promptFeedback: { blockReason: 'SAFETY' } }, usage: { promptTokenCount: 4 } });
    expect(readFinish(events)).toEqual([FinishReason.CONTENT_FILTER, 'SAFETY']);
    expect(foldEvents(events).completed?.usage).toMatchObject({ inputTokens: 4 });
  });

  test('GE-07: an answer whose bytes end is complete after a finish reason, and truncated without one', () => {
    expect(failure(() => parse({ parts: [{ text: 'a' }] }))).toBe('truncated');
    expect(failure(() => parse())).toBe('truncated');
    expect(failure(() => parse({ parts: [{ text: 'a' }], finish: 'STOP' }))).toBe('none');
  });

  test('an error in the stream is reported with its status', () => {
    const error = { error: { code: 503, message: 'overloaded', status: 'UNAVAILABLE' } };
    expect(failure(() => parse({ parts: [{ text: 'a' }] }, { more: error }))).toBe('reported 503');
  });
});

describe('usage', () => {
  const foldUsage = (...usages: JsonObject[]): unknown => {
    const chunks = usages.map(usage => ({ usage }));
    const completed = foldEvents(parse({ parts: [{ text: 'a' }], finish: 'STOP' }, ...chunks)).completed;
    return completed?.usage;
  };

  test('US-18: cached input is part of the prompt, reasoning is not included in the candidates, and the last count is used', () => {
    expect(
      foldUsage(
        { promptTokenCount: 100, candidatesTokenCount: 1 },
        {
          promptTokenCount: 100,
          cachedContentTokenCount: 60,
          toolUsePromptTokenCount: 5,
          candidatesTokenCount: 20,
          thoughtsTokenCount: 30,
          totalTokenCount: 155,
        },
      ),
    ).toMatchObject({ inputTokens: 45, cacheReadTokens: 60, outputTokens: 50, reasoningTokens: 30 });
  });

  test('impossible values count as absent', () => {
    expect(foldUsage({ promptTokenCount: 0, candidatesTokenCount: 0 })).toBeUndefined();
    expect(foldUsage({ promptTokenCount: -1, candidatesTokenCount: 'x' })).toBeUndefined();
  });

  test('the tier that was used is reported', () => {
    const chunk = { parts: [{ text: 'a' }], finish: 'STOP', usage: { promptTokenCount: 1, serviceTier: 'flex' } };
    expect(foldEvents(parse(chunk)).completed?.serviceTier).toBe(ServiceTier.FLEX);
  });
});

test('a whole answer and a list of chunks give the same events as the stream', () => {
  const chunks: Chunk[] = [
    { parts: [{ text: 'a' }] },
    { parts: [{ text: 'b' }], finish: 'STOP', usage: { promptTokenCount: 3, candidatesTokenCount: 2 } },
  ];
  const events = geminiCodec.parseWhole(chunks.map(response), 'google');
  expect(short(events)).toEqual(['ab']);
  expect(failure(() => geminiCodec.parseWhole({ candidates: [] }, 'google'))).toBe('malformed');
  expect(failure(() => geminiCodec.parseWhole(['x'], 'google'))).toBe('malformed');
});

test('SS-14: the same events wherever the bytes are cut', () => {
  const bytes = encodeChunks(
    { parts: [{ text: 'Hm', thought: true }, { text: 'é😀' }] },
    { parts: [{ functionCall: { name: 'f', args: { a: [1, 'ü'] } }, thoughtSignature: 'S' }], finish: 'STOP' },
    { usage: { promptTokenCount: 3, candidatesTokenCount: 2 } },
  );
  const whole = parseChunks(geminiCodec, 'google', [bytes]);
  for (let at = 0; at <= bytes.length; at += 1) {
    expect(parseChunks(geminiCodec, 'google', [bytes.subarray(0, at), bytes.subarray(at)])).toEqual(whole);
  }
  expect(
    parseChunks(
      geminiCodec,
      'google',
      [...bytes].map(byte => Uint8Array.of(byte)),
    ),
  ).toEqual(whole);
});

test('the events of any answer are in order and have its texts, calls and signatures', () => {
  const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 });
  const part = fc.oneof(
    text.map(each => ({ text: each })),
    text.map(each => ({ text: each, thought: true })),
    fc
      .record({ args: fc.dictionary(text, fc.oneof(text, fc.integer())), signature: fc.option(text) })
      .map(({ args, signature }) => ({
        functionCall: { name: 'f', args },
        ...(signature === null ? {} : { thoughtSignature: signature }),
      })),
  );
  fc.assert(
    fc.property(fc.array(fc.array(part, { maxLength: 3 }), { minLength: 1, maxLength: 5 }), chunks => {
      // The validator throws if an event is out of order.
      const events = parse(...chunks.map(parts => ({ parts: parts as JsonObject[] })), { finish: 'STOP' });
      const parts = chunks.flat();
      const said = (isThought: boolean): string =>
        parts.flatMap(each => ('text' in each && 'thought' in each === isThought ? [each.text] : [])).join('');
      const items = short(events);
      expect(
        items
          .filter(each => each.startsWith('['))
          .map(each => each.slice(1, -1))
          .join(''),
      ).toBe(said(true));
      const calls = parts.flatMap(each =>
        'functionCall' in each
          ? [
              `f${JSON.stringify(each.functionCall.args)}${'thoughtSignature' in each ? `~${each.thoughtSignature}` : ''}`,
            ]
          : [],
      );
      const toolCalls = foldEvents(events).choices[0]?.items.filter(({ content }) => content.case === 'toolCall') ?? [];
      expect(toolCalls).toHaveLength(calls.length);
      for (const each of calls) expect(items).toContain(each);
    }),
  );
});

describe('what clients get', () => {
  const signedCall = (): GenerationEvent[] =>
    parse({ parts: [{ functionCall: { id: 'a', name: 'f', args: {} }, thoughtSignature: 'S1' }], finish: 'STOP' });
  const decoded = { request: makeRequest({}), stream: true, includeUsage: true };

  test('Chat: the signature is with the call, as in Gemini’s Chat interface (RE-23)', () => {
    const { choices } = chatCodec.renderWhole(signedCall(), decoded);
    expect(choices).toMatchObject([
      { message: { tool_calls: [{ id: 'a', extra_content: { google: { thought_signature: 'S1' } } }] } },
    ]);
  });

  test('Messages: the signature comes as reasoning before the call, which every client sends back', () => {
    const { content } = messagesCodec.renderWhole(signedCall(), decoded) as { content: JsonObject[] };
    expect(content).toMatchObject([
      { type: 'thinking', thinking: '' },
      { type: 'tool_use', id: 'a' },
    ]);
    expect(readBlobs(textIn(content[0]?.['signature']), '')).toMatchObject([
      { provider: 'google', kind: 'gemini.thought_signature', data: 'S1' },
    ]);
  });
});

describe('errors', () => {
  const error = (status: number, body: JsonObject): unknown => geminiCodec.parseError(status, JSON.stringify(body));

  test('are reported with their message, and how long to wait', () => {
    const details = [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34.5s' }];
    expect(error(429, { error: { code: 429, message: 'quota', status: 'RESOURCE_EXHAUSTED', details } })).toEqual({
      message: 'quota',
      meaning: 'quota',
      retryAfterMs: 34_500,
    });
  });

  test('because of a wrong key are recognized, whatever the status', () => {
    const details = [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID' }];
    expect(error(400, { error: { code: 400, message: 'API key not valid.', details } })).toMatchObject({ status: 401 });
  });

  test('because of a too long input are recognized', () => {
    const message = 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).';
    expect(error(400, { error: { code: 400, message } })).toEqual({ message, meaning: 'too_long' });
  });

  test('may be a web page, an empty body, a list or a text', () => {
    expect(geminiCodec.parseError(502, '<html>')).toEqual({});
    expect(geminiCodec.parseError(502, '')).toEqual({});
    expect(geminiCodec.parseError(400, '[{"error":{"message":"m"}}]')).toEqual({ message: 'm' });
    expect(geminiCodec.parseError(400, 'nope')).toEqual({ message: 'nope' });
  });
});
