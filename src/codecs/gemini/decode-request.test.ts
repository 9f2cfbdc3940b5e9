import { describe, expect, test } from 'vitest';
import { Protocol, Role } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, FinishReason, UsageSource } from '../../gen/tollgate/v1/event_pb.ts';
import { type GenerateRequest, ThinkingMode, ToolChoiceMode } from '../../gen/tollgate/v1/request_pb.ts';
import * as emit from '../../generation/events.ts';
import type { DecodedRequest, JsonObject } from '../codec.ts';
import * as make from '../content.ts';
import { decodeCountRequest, decodeRequest } from './decode-request.ts';
import { encodeRequest } from './encode-request.ts';
import { googleError } from './error.ts';
import { AnswerRenderer, renderWhole } from './render-answer.ts';
import { isSealed, openSeal, sealReasoning } from './sealed-signature.ts';
import { GatewayError } from '../../errors/gateway-error.ts';

/** Gemini's interface for clients: requests, answers and signatures without a gateway. */

const received = (body: unknown, stream = false) => ({
  body,
  raw: Buffer.from(JSON.stringify(body)),
  headers: {},
  model: 'm',
  stream,
});
const decode = (body: unknown): GenerateRequest => decodeRequest(received(body)).request;
const user = (text: string): JsonObject => ({ role: 'user', parts: [{ text }] });

describe('requests', () => {
  test('both spellings, and one object where a list is meant, mean the same', () => {
    const camel = decode({
      contents: [user('Hi')],
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
      tools: [{ functionDeclarations: [{ name: 'f', parametersJsonSchema: { type: 'object' } }] }],
      generationConfig: { maxOutputTokens: 5, stopSequences: ['x'], thinkingConfig: { thinkingBudget: 1024 } },
    });
    const snake = decode({
      contents: { parts: { text: 'Hi' } },
      system_instruction: { parts: { text: 'Be brief.' } },
      tools: { function_declarations: { name: 'f', parameters_json_schema: { type: 'object' } } },
      generation_config: { max_output_tokens: 5, stop_sequences: ['x'], thinking_config: { thinking_budget: 1024 } },
    });
    expect({ ...snake, source: undefined }).toEqual({ ...camel, source: undefined });
    expect(camel).toMatchObject({ maxOutputTokens: 5, stop: ['x'] });
    expect(camel.items.map(({ content }) => (content.value as { role: Role }).role)).toEqual([Role.SYSTEM, Role.USER]);
    // A budget above the limit is what Google accepts too.
    expect(camel.reasoning).toMatchObject({ thinking: ThinkingMode.ENABLED, budgetTokens: 4 });
  });

  test.each<[field: string, body: JsonObject]>([
    ['contents', {}],
    ['contents', { contents: [] }],
    ['contents.0.role', { contents: [{ role: '', parts: [] }] }],
    [
      'contents.0.parts.0.inlineData.data',
      { contents: [{ parts: [{ inlineData: { mimeType: 'image/png', data: '!' } }] }] },
    ],
    ['generationConfig.maxOutputTokens', { contents: [user('a')], generation_config: { max_output_tokens: 0 } }],
    ['tools.0.functionDeclarations.0.name', { contents: [user('a')], tools: [{ functionDeclarations: [{}] }] }],
    [
      'systemInstruction.parts.0',
      { contents: [user('a')], systemInstruction: { parts: [{ fileData: { fileUri: 'x' } }] } },
    ],
  ])('a wrong %s is named as Gemini spells it', (param, body) => {
    expect(() => decode(body)).toThrow(
      expect.objectContaining({ code: 'validation_error', facts: expect.objectContaining({ param }) }),
    );
  });

  test('results without an id belong to the open call of their name', () => {
    const call = (name: string): JsonObject => ({ functionCall: { name, args: { a: 1 } } });
    const result = (name: string, response: JsonObject): JsonObject => ({ functionResponse: { name, response } });
    const { items } = decode({
      contents: [
        user('go'),
        { role: 'model', parts: [call('f'), call('g'), call('f')] },
        { role: 'user', parts: [result('g', { output: 'G' }), result('f', { error: 'no' }), result('f', { x: 1 })] },
      ],
    });
    const calls = items.flatMap(({ content }) => (content.case === 'toolCall' ? [content.value.callId] : []));
    const results = items.flatMap(({ content }) => (content.case === 'toolResult' ? [content.value] : []));
    expect(new Set(calls).size).toBe(3);
    expect(results.map(({ callId }) => callId)).toEqual([calls[1], calls[0], calls[2]]);
    expect(results.map(({ isError }) => isError)).toEqual([false, true, false]);
    const texts = results.map(({ parts }) =>
      parts.map(({ content }) => (content.case === 'text' ? content.value.text : '')).join(''),
    );
    expect(texts).toEqual(['G', 'no', '{"x":1}']);
  });

  test('schemas in Google’s form become JSON Schema', () => {
    const { tools } = decode({
      contents: [user('a')],
      tools: [
        {
          functionDeclarations: [
            {
              name: 'f',
              parameters: {
                type: 'OBJECT',
                properties: {
                  n: { type: 'INTEGER', nullable: true },
                  type: { type: 'STRING', format: 'enum', enum: ['A'] },
                },
                propertyOrdering: ['n'],
                min_properties: '1',
              },
            },
          ],
        },
      ],
    });
    const [tool] = tools;
    expect(tool?.tool.case === 'function' && JSON.parse(tool.tool.value.parametersJson)).toEqual({
      type: 'object',
      properties: { n: { type: ['integer', 'null'] }, type: { type: 'string', enum: ['A'] } },
      minProperties: 1,
    });
  });

  test.each([
    [{ mode: 'ANY', allowedFunctionNames: ['f'] }, ToolChoiceMode.NAMED, false],
    [{ mode: 'ANY', allowedFunctionNames: ['f', 'g'] }, ToolChoiceMode.REQUIRED, true],
    [{ mode: 'AUTO', allowedFunctionNames: ['f'] }, ToolChoiceMode.AUTO, true],
    [{ mode: 'ANY' }, ToolChoiceMode.REQUIRED, false],
    [{ mode: 'NONE' }, ToolChoiceMode.NONE, false],
  ])('the tool choice %j', (functionCallingConfig, mode, restricted) => {
    const functionDeclarations = [{ name: 'f' }, { name: 'g' }];
    const body = { contents: [user('a')], tools: [{ functionDeclarations }], toolConfig: { functionCallingConfig } };
    expect(decode(body).toolChoice).toMatchObject({ mode, restricted });
  });

  test('countTokens takes contents or a whole request', () => {
    const contents = [user('Hello')];
    const one = decodeCountRequest(received({ contents }));
    const other = decodeCountRequest(received({ generate_content_request: { model: 'x', contents } }));
    expect(other.items).toEqual(one.items);
  });

  test('a Gemini provider gets the client’s JSON; other protocols’ seals are not sent', () => {
    const seal = sealReasoning([make.makeOpaque('anthropic.signature', 's')], { parts: [], extra: undefined });
    const body = {
      contents: [
        user('a'),
        {
          role: 'model',
          parts: [
            { text: 'thought', thought: true, thought_signature: seal },
            { functionCall: { name: 'f', args: { big: 1 } }, thoughtSignature: seal },
            { text: 'own', thoughtSignature: 'QUJD' },
          ],
        },
        { role: 'user', parts: [{ functionResponse: { name: 'f', response: {} } }] },
      ],
      generation_config: { max_output_tokens: 9, futureSetting: { a: [1] } },
      labels: { team: 'x' },
      futureMember: 1,
    };
    const request = decode(body);
    const { body: sent } = encodeRequest({ request, model: 'gemini-3-flash', maxOutputTokens: 7, stream: false });
    expect(sent).toEqual({
      ...body,
      contents: [
        body.contents[0],
        {
          role: 'model',
          parts: [
            { functionCall: { name: 'f', args: { big: 1 } }, thoughtSignature: 'skip_thought_signature_validator' },
            { text: 'own', thoughtSignature: 'QUJD' },
          ],
        },
        body.contents[2],
      ],
      generation_config: { max_output_tokens: 7, futureSetting: { a: [1] } },
    });
  });
});

describe('signatures', () => {
  const blobs = [make.makeOpaque('anthropic.signature', 'sig+/=', 'provider')];
  const parts = [make.makePart(make.reasoningTextContent('Because äöü.'))];
  const seal = sealReasoning(blobs, { parts, extra: undefined });

  test('a seal is base64 with padding, and is the same in the alphabet of URLs and without padding', () => {
    expect(Buffer.from(seal, 'base64').toString('base64')).toBe(seal);
    const url = seal.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
    for (const text of [seal, url]) expect(openSeal(text)).toMatchObject({ blobs, parts });
    expect(isSealed('skip_thought_signature_validator')).toBe(false);
    expect(openSeal('QUJD')).toBeUndefined();
  });

  test('a changed seal is refused, and names its part', () => {
    const changed = `${seal.slice(0, 60)}${seal[60] === 'A' ? 'B' : 'A'}${seal.slice(61)}`;
    expect(openSeal(changed)).toBe('changed');
    const body = {
      contents: [user('a'), { role: 'model', parts: [{ text: 'b', thoughtSignature: changed }] }, user('c')],
    };
    expect(() => decode(body)).toThrow(
      expect.objectContaining({ facts: expect.objectContaining({ param: 'contents.1.parts.0.thoughtSignature' }) }),
    );
  });

  test('the reasoning comes back once, before the part that has it, whether the client kept the thoughts or not', () => {
    const thought = { text: 'Because äöü.', thought: true };
    const signed = { text: 'Answer', thoughtSignature: seal };
    const call = { functionCall: { name: 'f', args: {} }, thoughtSignature: seal };
    for (const kept of [[thought, signed, call], [signed, call], [call]]) {
      // A chat of the official client makes a content of each chunk.
      const contents = [user('a'), ...kept.map(part => ({ role: 'model', parts: [part] })), user('b')];
      const { items } = decode({ contents });
      const reasoning = items.filter(({ content }) => content.case === 'reasoning');
      expect(reasoning).toHaveLength(1);
      expect(reasoning[0]?.content.value).toMatchObject({ opaque: blobs, parts });
      expect(items[1]).toBe(reasoning[0]);
      expect(new Set(items.slice(1, -1).map(({ turn }) => turn)).size).toBe(1);
    }
  });
});

const started = emit.started({ model: 'list/ed', requestId: 'req_1' });
const text = (choice: number, item: number, value: string) => [
  emit.itemOpened(choice, item, make.makeItem(make.messageContent(Role.ASSISTANT, []), 0)),
  emit.partOpened(choice, [item, 0], make.makePart(make.textContent(''))),
  emit.delta(choice, [item, 0], { kind: DeltaKind.TEXT, text: value }),
  emit.partClosed(choice, [item, 0]),
  emit.itemClosed(choice, item),
];
const completed = emit.completed({
  usage: {
    $typeName: 'tollgate.v1.Usage',
    unpriced: [],
    inputTokens: 5,
    cacheReadTokens: 7,
    outputTokens: 9,
    reasoningTokens: 4,
  },
  usageSource: UsageSource.REPORTED,
  costNanoUsd: 1_500_000n,
});

describe('answers', () => {
  const decoded: DecodedRequest = { request: decode({ contents: [user('a')] }), stream: false, includeUsage: true };

  test('text, a call and the usage', () => {
    const call = make.makeItem(make.toolCallContent({ callId: 'c1', name: 'f' }), 0);
    const answer = renderWhole(
      [
        started,
        ...text(0, 0, 'Hello'),
        emit.itemOpened(0, 1, call),
        emit.delta(0, [1, 0], { kind: DeltaKind.ARGUMENTS, text: '{"a":1,' }),
        emit.delta(0, [1, 0], { kind: DeltaKind.ARGUMENTS, text: '"b":2}' }),
        emit.itemClosed(0, 1),
        emit.finished(0, FinishReason.TOOL_CALLS, { native: 'tool_calls' }),
        completed,
      ],
      decoded,
    );
    expect(answer).toEqual({
      candidates: [
        {
          content: {
            role: 'model',
            parts: [{ text: 'Hello' }, { functionCall: { id: 'c1', name: 'f', args: { a: 1, b: 2 } } }],
          },
          finishReason: 'STOP',
          index: 0,
        },
      ],
      usageMetadata: {
        promptTokenCount: 12,
        candidatesTokenCount: 5,
        totalTokenCount: 21,
        cachedContentTokenCount: 7,
        thoughtsTokenCount: 4,
        cost: 0.0015,
      },
      modelVersion: 'list/ed',
      responseId: 'req_1',
    });
  });

  test('a call that was cut is left out', () => {
    const events = [
      started,
      emit.itemOpened(0, 0, make.makeItem(make.toolCallContent({ callId: 'c1', name: 'f' }), 0)),
      emit.delta(0, [0, 0], { kind: DeltaKind.ARGUMENTS, text: '{"a":' }),
      emit.itemClosed(0, 0, 3),
      emit.finished(0, FinishReason.LENGTH),
      completed,
    ];
    expect(renderWhole(events, decoded)['candidates']).toEqual([
      { content: { role: 'model', parts: [] }, finishReason: 'MAX_TOKENS', index: 0 },
    ]);
  });

  test('citations are places in bytes of UTF-8', () => {
    const events = [
      started,
      emit.itemOpened(0, 0, make.makeItem(make.messageContent(Role.ASSISTANT, []), 0)),
      emit.partOpened(0, [0, 0], make.makePart(make.textContent(''))),
      emit.delta(0, [0, 0], { kind: DeltaKind.TEXT, text: 'Grüße aus Rom' }),
      emit.annotationAdded(
        0,
        [0, 0],
        make.urlAnnotation({ url: 'https://a', title: 'A', startIndex: 6, endIndex: 13 }),
      ),
      emit.partClosed(0, [0, 0]),
      emit.itemClosed(0, 0),
      emit.finished(0, FinishReason.STOP),
      completed,
    ];
    const [candidate] = renderWhole(events, decoded)['candidates'] as JsonObject[];
    expect(candidate?.['groundingMetadata']).toEqual({
      groundingChunks: [{ web: { uri: 'https://a', title: 'A' } }],
      groundingSupports: [{ segment: { startIndex: 8, endIndex: 15, text: 'aus Rom' }, groundingChunkIndices: [0] }],
    });
  });

  test('a stream’s chunks together are the whole answer; only the last has the finish reasons and the usage', () => {
    const events = [
      started,
      ...text(0, 0, 'One'),
      ...text(1, 0, 'Two'),
      emit.finished(0, FinishReason.STOP),
      emit.finished(1, FinishReason.CONTENT_FILTER),
      completed,
    ];
    const renderer = new AnswerRenderer(decoded);
    const chunks: JsonObject[] = [];
    for (const event of events) {
      renderer.push(event);
      const chunk = renderer.take();
      if (chunk !== undefined) chunks.push(chunk);
    }
    const whole = renderWhole(events, decoded);
    const texts = (chunk: JsonObject): string[] => JSON.stringify(chunk['candidates']).match(/One|Two/g) ?? [];
    expect(chunks.flatMap(texts)).toEqual(texts(whole));
    expect(chunks.filter(chunk => JSON.stringify(chunk).includes('finishReason'))).toEqual([chunks.at(-1)]);
    expect(chunks.filter(chunk => chunk['usageMetadata'] !== undefined)).toEqual([chunks.at(-1)]);
    expect(chunks.every(chunk => chunk['responseId'] === 'req_1')).toBe(true);
  });

  test('a Gemini provider’s own reason comes back as it was', () => {
    const finish = emit.finished(0, FinishReason.CONTENT_FILTER, { native: 'RECITATION', protocol: Protocol.GEMINI });
    const [candidate] = renderWhole([started, ...text(0, 0, 'x'), finish, completed], decoded)[
      'candidates'
    ] as JsonObject[];
    expect(candidate?.['finishReason']).toBe('RECITATION');
  });
});

describe('errors', () => {
  test.each([
    ['validation_error', 400, 'INVALID_ARGUMENT'],
    ['model_not_found', 404, 'NOT_FOUND'],
    ['invalid_api_key', 401, 'UNAUTHENTICATED'],
    ['upstream_error', 502, 'UNAVAILABLE'],
  ] as const)('%s is %i %s', (code, status, word) => {
    expect(googleError(new GatewayError(code, 'Why.', { param: 'contents' }), { id: 'req_1', tip: null })).toEqual({
      error: {
        code: status,
        message: 'Why.',
        status: word,
        details: [
          {
            '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
            reason: code,
            domain: 'tollgate',
            metadata: { id: 'req_1', param: 'contents' },
          },
        ],
      },
    });
  });

  test('a wait is a RetryInfo', () => {
    const error = new GatewayError('overloaded', 'Busy.', { retryAfterMs: 16_100 });
    expect(JSON.stringify(googleError(error, {}))).toContain('"retryDelay":"17s"');
  });
});
