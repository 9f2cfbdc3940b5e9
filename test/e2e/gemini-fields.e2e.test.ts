/** What Gemini's interface says about answers, errors and fields of providers of every protocol (docs/interfaces/gemini.md "Request", "Answer", "Errors"). */
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { makeKey } from '../gateway.ts';
import { askGemini, geminiPath, type GeminiReply } from './gemini-caller.ts';
import {
  ask as askUpstream,
  chatChunk,
  chatEnd,
  geminiFrame,
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

const upstreams = await startUpstreams('limits: { body_bytes: 200000 }');
beforeEach(() => Object.assign(upstreams, { frames: undefined, delayMs: 0 }));
afterAll(() => upstreams.stop());
const { gateway } = upstreams;

const ask = (protocol: Protocol, body: Json = {}, method: Method = 'generateContent'): Promise<GeminiReply> =>
  askUpstream(upstreams, protocol, body, method);
const lastBody = (): Json => upstreams.seen.at(-1)?.body ?? {};
const warningsOf = (reply: GeminiReply): string | null => reply.headers.get('x-tollgate-warnings');
const textBlock = (text: string, ...deltas: Json[]): readonly [Json, ...Json[]] => [
  { type: 'text', text: '' },
  { type: 'text_delta', text },
  ...deltas,
];

describe('finish reasons', () => {
  test.each<[string, Protocol, readonly string[], string, string]>([
    ['a filter', 'chat', [chatChunk({ content: 'Well' }), ...chatEnd('content_filter')], 'SAFETY', 'Well'],
    ['a refusal in words', 'chat', [chatChunk({ refusal: 'I can not.' }), ...chatEnd('stop')], 'SAFETY', 'I can not.'],
    ['a limit', 'chat', [chatChunk({ content: 'Well' }), ...chatEnd('length')], 'MAX_TOKENS', 'Well'],
    [
      'a refusal in words',
      'responses',
      responsesFrames([messageItem([{ type: 'refusal', refusal: 'I can not.' }])]),
      'SAFETY',
      'I can not.',
    ],
    [
      'a filter',
      'responses',
      responsesFrames([messageItem([outputText('Well')])], 'incomplete', {
        incomplete_details: { reason: 'content_filter' },
      }),
      'SAFETY',
      'Well',
    ],
    [
      'a limit',
      'responses',
      responsesFrames([messageItem([outputText('Well')])], 'incomplete', {
        incomplete_details: { reason: 'max_output_tokens' },
      }),
      'MAX_TOKENS',
      'Well',
    ],
    ['a refusal', 'messages', messagesFrames([textBlock('Well')], 'refusal'), 'SAFETY', 'Well'],
    [
      'a full context',
      'messages',
      messagesFrames([textBlock('Well')], 'model_context_window_exceeded'),
      'MAX_TOKENS',
      'Well',
    ],
    [
      'a stop sequence',
      'messages',
      messagesFrames([textBlock('Well')], 'stop_sequence', { stop_sequence: 'END' }),
      'STOP',
      'Well',
    ],
    ['a limit', 'messages', messagesFrames([textBlock('Well')], 'max_tokens'), 'MAX_TOKENS', 'Well'],
  ])('%s of %s', async (...[, protocol, frames, expected, text]) => {
    upstreams.frames = frames;
    for (const method of methods) {
      const reply = await ask(protocol, { generationConfig: { stopSequences: ['END'] } }, method);
      expect([reply.finish, reply.text]).toEqual([expected, text]);
    }
  });

  test.each(['RECITATION', 'SAFETY', 'SPII', 'A_REASON_OF_TOMORROW', 'IMAGE_SAFETY', 'MAX_TOKENS'])(
    'a Gemini provider’s %s comes back as it was, with its message and ratings',
    async finishReason => {
      const safetyRatings = [{ category: 'HARM_CATEGORY_HARASSMENT', probability: 'HIGH', blocked: true }];
      upstreams.frames = [
        geminiFrame([{ text: 'Well' }], { finishReason, finishMessage: 'Why it ended.', safetyRatings }),
      ];
      for (const method of methods) {
        const { chunks } = await ask('gemini', {}, method);
        expect(chunks.at(-1)?.candidates?.[0]).toMatchObject({
          finishReason,
          finishMessage: 'Why it ended.',
          safetyRatings,
        });
      }
    },
  );

  test('a blocked prompt is promptFeedback, without candidates', async () => {
    const promptFeedback = {
      blockReason: 'PROHIBITED_CONTENT',
      safetyRatings: [{ category: 'X', probability: 'HIGH' }],
    };
    upstreams.frames = [
      `data: ${JSON.stringify({ promptFeedback, usageMetadata: { promptTokenCount: 9, totalTokenCount: 9 }, modelVersion: 'v', responseId: 'r' })}\n\n`,
    ];
    for (const method of methods) {
      const { chunks, status } = await ask('gemini', {}, method);
      expect([status, chunks.length, chunks[0]?.['promptFeedback'], chunks[0]?.candidates]).toEqual([
        200,
        1,
        promptFeedback,
        undefined,
      ]);
    }
  });
});

describe('citations', () => {
  const text = 'Grüße 😀 aus Rom.';
  const place = { start_index: 9, end_index: 16 };
  const web = { url: 'https://rome.example/a', title: 'Rom' };
  const wanted = {
    groundingChunks: [{ web: { uri: web.url, title: web.title } }],
    groundingSupports: [{ segment: { startIndex: 13, endIndex: 20, text: 'aus Rom' }, groundingChunkIndices: [0] }],
  };
  test.each<[Protocol, readonly string[]]>([
    [
      'chat',
      [
        chatChunk({ content: text }),
        chatChunk({ annotations: [{ type: 'url_citation', url_citation: { ...web, ...place } }] }),
        ...chatEnd(),
      ],
    ],
    ['responses', responsesFrames([messageItem([outputText(text, [{ type: 'url_citation', ...web, ...place }])])])],
  ])('of %s are grounding metadata with places in bytes', async (protocol, frames) => {
    upstreams.frames = frames;
    for (const method of methods) {
      const { chunks } = await ask(protocol, {}, method);
      const [candidate] = chunks.flatMap(
        ({ candidates }) => candidates?.filter(each => each['groundingMetadata']) ?? [],
      );
      expect(candidate?.['groundingMetadata']).toEqual(wanted);
    }
  });

  test('of messages, whose cited text is a block of its own', async () => {
    const citation = {
      type: 'web_search_result_location',
      ...web,
      cited_text: 'Rom',
      encrypted_index: 'x',
    };
    upstreams.frames = messagesFrames([
      textBlock('Grüße 😀 '),
      textBlock('aus Rom', { type: 'citations_delta', citation }),
      textBlock('.'),
    ]);
    for (const method of methods) {
      const { chunks } = await ask('messages', {}, method);
      const [candidate] = chunks.flatMap(
        ({ candidates }) => candidates?.filter(each => each['groundingMetadata']) ?? [],
      );
      expect(candidate?.['groundingMetadata']).toEqual(wanted);
    }
  });

  test('of a Gemini provider come back as they were', async () => {
    const groundingMetadata = {
      webSearchQueries: ['rom'],
      groundingChunks: [{ web: { uri: 'https://x', title: 'x', domain: 'x' } }],
      groundingSupports: [],
    };
    const citationMetadata = { citationSources: [{ startIndex: 0, endIndex: 3, uri: 'https://y' }] };
    upstreams.frames = [geminiFrame([{ text: 'Rom' }], { finishReason: 'STOP', groundingMetadata, citationMetadata })];
    for (const method of methods) {
      const { chunks } = await ask('gemini', {}, method);
      expect(chunks.at(-1)?.candidates?.[0]).toMatchObject({ groundingMetadata, citationMetadata });
    }
  });
});

test('log probabilities: the mean of the chosen tokens, and the alternatives', async () => {
  const entry = (token: string, logprob: number): Json => ({ token, logprob, bytes: [...Buffer.from(token)] });
  const logprobs = (...tokens: Json[]): Json => ({
    logprobs: { content: tokens.map(token => ({ ...token, top_logprobs: [token, entry('x', -5)] })), refusal: null },
  });
  upstreams.frames = [
    chatChunk({ content: 'one' }, logprobs(entry('one', -0.5))),
    chatChunk({ content: ' two' }, logprobs(entry(' two', -1.5))),
    ...chatEnd(),
  ];
  const generationConfig = { responseLogprobs: true, logprobs: 2 };
  const { chunks } = await ask('chat', { generationConfig });
  expect(lastBody()).toMatchObject({ logprobs: true, top_logprobs: 2 });
  expect(chunks[0]?.candidates?.[0]).toMatchObject({
    avgLogprobs: -1,
    logprobsResult: {
      chosenCandidates: [
        { token: 'one', logProbability: -0.5 },
        { token: ' two', logProbability: -1.5 },
      ],
      topCandidates: [
        {
          candidates: [
            { token: 'one', logProbability: -0.5 },
            { token: 'x', logProbability: -5 },
          ],
        },
        {
          candidates: [
            { token: ' two', logProbability: -1.5 },
            { token: 'x', logProbability: -5 },
          ],
        },
      ],
    },
  });
  const streamed = await ask('chat', { generationConfig }, 'streamGenerateContent?alt=sse');
  expect(streamed.chunks.at(-1)?.candidates?.[0]?.['avgLogprobs']).toBe(-1);
});

describe('errors', () => {
  const info = (reply: GeminiReply): unknown => reply.error?.details?.[0];
  const retry = (reply: GeminiReply): unknown => reply.error?.details?.[1];

  test.each<[string, () => Promise<GeminiReply>, number, string, string]>([
    [
      'a field',
      () => ask('chat', { contents: 'no' as unknown as Json[] }),
      400,
      'INVALID_ARGUMENT',
      'validation_error',
    ],
    [
      'JSON that is none',
      () => askGemini(gateway, geminiPath('up/chat'), undefined, { method: 'POST' }),
      400,
      'INVALID_ARGUMENT',
      'invalid_request',
    ],
    [
      'a body that is too large',
      () => ask('chat', { contents: [user('x'.repeat(300_000))] }),
      413,
      'INVALID_ARGUMENT',
      'body_too_large',
    ],
    [
      'a management key',
      () => askGemini(gateway, geminiPath('up/chat'), { contents: [user('Hi')] }, { key: gateway.managementKey }),
      403,
      'PERMISSION_DENIED',
      'permission_denied',
    ],
  ])('%s', async (...[, send, status, word, reason]) => {
    const reply = await send();
    expect([reply.status, reply.error?.code, reply.error?.status, reply.reason]).toEqual([
      status,
      status,
      word,
      reason,
    ]);
    expect(info(reply)).toMatchObject({ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', domain: 'tollgate' });
    const values = Object.values(reply.error?.details?.[0]?.metadata ?? {});
    expect(values.every(value => typeof value === 'string')).toBe(true);
    expect(reply.error?.details?.[0]?.metadata).toMatchObject({
      id: reply.headers.get('x-request-id'),
      tip: expect.any(String),
      docs: expect.any(String),
    });
    expect(retry(reply)).toBeUndefined();
  });

  test('an idempotency key repeats an answer; with another body or path it is refused', async () => {
    const headers = { 'idempotency-key': 'gemini-1' };
    const send = (text: string, method = 'generateContent'): Promise<GeminiReply> =>
      askGemini(gateway, geminiPath('up/chat', method), { contents: [user(text)] }, { headers });
    const first = await send('a');
    const repeated = await send('a');
    expect([repeated.status, repeated.raw]).toEqual([200, first.raw]);
    expect(repeated.headers.get('idempotent-replayed')).toBe('true');
    for (const other of [await send('b'), await send('a', 'streamGenerateContent')]) {
      expect([other.status, other.error?.status, other.reason]).toEqual([
        400,
        'INVALID_ARGUMENT',
        'idempotency_key_reused',
      ]);
    }
  });

  test('a limit has RetryInfo where the answer has retry-after, and an empty balance has neither', async () => {
    const { key, id } = await makeKey(gateway);
    const settings = { max: 1n, timeZone: 'UTC', endUsers: 'all', action: 'refuse' };
    const limit = { scope: 'key', scopeId: id, unit: 'requests', window: 'minute', settings };
    await gateway.account.createLimit({ limit });
    await askGemini(gateway, geminiPath('up/chat'), { contents: [user('Hi')] }, { key });
    const refused = await askGemini(gateway, geminiPath('up/chat'), { contents: [user('Hi')] }, { key });
    expect([refused.status, refused.error?.status, refused.reason]).toEqual([429, 'RESOURCE_EXHAUSTED', 'rate_limit']);
    const seconds = refused.headers.get('retry-after');
    expect(Number(seconds)).toBeGreaterThan(0);
    expect(retry(refused)).toEqual({ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: `${seconds}s` });
    const { account } = await gateway.admin.createAccount({ name: 'poor', balanceNanoUsd: 0n });
    const poor = await gateway.admin.createApiKey({ accountId: account?.accountId ?? 0n, settings: {} });
    const broke = await askGemini(
      gateway,
      geminiPath('up/chat'),
      { contents: [user('Hi')] },
      { key: poor.key?.key ?? '' },
    );
    expect([broke.status, broke.error?.status, broke.reason]).toEqual([
      429,
      'RESOURCE_EXHAUSTED',
      'insufficient_balance',
    ]);
    expect([broke.headers.get('retry-after'), retry(broke)]).toEqual([null, undefined]);
  });

  test.each(protocols)('a failure of %s before the answer is one object, in a stream too', async protocol => {
    upstreams.frames = [];
    for (const method of methods) {
      const reply = await ask(protocol, {}, method);
      expect([reply.status, reply.error?.code, reply.error?.status, reply.reason]).toEqual([
        502,
        502,
        'UNAVAILABLE',
        'upstream_error',
      ]);
      expect(reply.chunks).toHaveLength(1);
    }
  });
});

describe('a Gemini provider gets the client’s bytes', () => {
  const call = { functionCall: { id: 'c1', name: 'f', args: { n: 1 } }, thoughtSignature: 'QUJD' };
  test.each<[string, Json]>([
    ['one answer asked for', { contents: [user('Hi')], generationConfig: { candidateCount: 1, maxOutputTokens: 64 } }],
    [
      'snake case',
      {
        contents: [user('Hi')],
        generation_config: { candidate_count: 1, max_output_tokens: 64, top_k: 3 },
        safety_settings: [],
      },
    ],
    [
      'one object where a list is meant',
      {
        contents: { parts: { text: 'Hi' } },
        systemInstruction: { parts: { text: 'Be brief.' } },
        tools: { functionDeclarations: { name: 'f' } },
        generationConfig: { maxOutputTokens: 64 },
      },
    ],
    [
      'unknown members everywhere',
      {
        contents: [{ role: 'user', parts: [{ text: 'Hi', future: 1 }], future: [] }],
        future: { a: 1e21 },
        generationConfig: { future: 'x', maxOutputTokens: 64 },
        toolConfig: { future: null },
      },
    ],
    [
      'a call without a result',
      {
        contents: [user('Add'), { role: 'model', parts: [call] }, user('5')],
        generationConfig: { maxOutputTokens: 64 },
      },
    ],
    [
      'a mode in small letters',
      {
        contents: [user('Hi')],
        tools: [{ functionDeclarations: [{ name: 'f' }] }],
        toolConfig: { functionCallingConfig: { mode: 'any' } },
        generationConfig: { maxOutputTokens: 64 },
      },
    ],
    [
      'parts of Google’s own',
      {
        contents: [
          {
            role: 'user',
            parts: [
              { fileData: { fileUri: 'gs://b/a.mp4', mimeType: 'video/mp4' }, videoMetadata: { fps: 1 } },
              { inlineData: { mimeType: 'audio/wav', data: 'UklGRg==' } },
            ],
          },
          {
            role: 'model',
            parts: [
              { executableCode: { language: 'PYTHON', code: '1' } },
              { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '1' } },
            ],
          },
          user('And?'),
        ],
        generationConfig: { maxOutputTokens: 64 },
      },
    ],
  ])('%s', async (_name, body) => {
    for (const method of methods) {
      const reply = await askGemini(gateway, geminiPath('up/gemini', method), body);
      expect([reply.status, reply.error, warningsOf(reply)]).toEqual([200, undefined, null]);
      expect(upstreams.seen.at(-1)?.raw).toBe(JSON.stringify(body));
    }
  });
});

test('a mode in small letters means the same for other providers', async () => {
  const body = {
    tools: [{ functionDeclarations: [{ name: 'f' }] }],
    toolConfig: { functionCallingConfig: { mode: 'any' } },
  };
  expect((await ask('chat', body)).status).toBe(200);
  expect(lastBody()['tool_choice']).toBe('required');
});

describe('fields for other protocols', () => {
  const others = protocols.filter(name => name !== 'gemini');

  test.each(others)(
    '%s: safetySettings are dropped with a warning, labels and mediaResolution without one',
    async protocol => {
      const camel = await ask(protocol, {
        safetySettings: [{ category: 'X', threshold: 'Y' }],
        labels: { a: 'b' },
        generationConfig: { mediaResolution: 'MEDIA_RESOLUTION_LOW' },
      });
      expect([camel.status, warningsOf(camel)]).toEqual([200, 'dropped=safetySettings']);
      const snake = await ask(protocol, {
        safety_settings: [{ category: 'X', threshold: 'Y' }],
        labels: { a: 'b' },
        generation_config: { media_resolution: 'MEDIA_RESOLUTION_LOW' },
      });
      expect([snake.status, warningsOf(snake)]).toEqual([200, 'dropped=safetySettings']);
    },
  );

  test.each(others)('%s: TEXT as the only modality and a budget of -1 say nothing', async protocol => {
    const reply = await ask(protocol, {
      generationConfig: { responseModalities: ['TEXT'], thinkingConfig: { thinkingBudget: -1 } },
    });
    expect([reply.status, warningsOf(reply)]).toEqual([200, null]);
    const empty = await ask(protocol);
    expect(empty.status).toBe(200);
    const [first, second] = upstreams.seen.slice(-2);
    expect(first?.body).toEqual(second?.body);
  });

  const audio = { inlineData: { mimeType: 'audio/wav', data: 'UklGRg==' } };
  const video = { inlineData: { mimeType: 'video/mp4', data: 'AAAA' } };
  const file = (fileUri: string): Json => ({
    contents: [{ role: 'user', parts: [{ text: 'See' }, { fileData: { mimeType: 'image/png', fileUri } }] }],
  });
  test.each<[string, readonly Protocol[], Json, RegExp]>([
    ['cachedContent', others, { cachedContent: 'cachedContents/1' }, /^cachedContent$/],
    ['cached_content', others, { cached_content: 'cachedContents/1' }, /^cachedContent$/],
    ['gs:', others, file('gs://bucket/a.png'), /^contents/],
    ['files of Google', others, file('https://generativelanguage.googleapis.com/v1beta/files/abc'), /^contents/],
    ['files of Google by name', others, file('files/abc'), /^contents/],
    ['audio', ['messages', 'responses'], { contents: [{ role: 'user', parts: [audio] }] }, /^contents/],
    ['video', ['messages', 'responses', 'chat'], { contents: [{ role: 'user', parts: [video] }] }, /^contents/],
    [
      'an unknown part',
      others,
      { contents: [{ role: 'user', parts: [{ hologram: { x: 1 } }] }] },
      /^contents\.0\.parts\.0/,
    ],
    ['an unknown role', others, { contents: [{ role: 'oracle', parts: [{ text: 'Hi' }] }] }, /^contents\.0/],
    [
      'images as answers',
      others,
      { generationConfig: { responseModalities: ['TEXT', 'IMAGE'] } },
      /^generationConfig\.responseModalities$/,
    ],
    [
      'images as answers in snake case',
      others,
      { generation_config: { response_modalities: ['IMAGE'] } },
      /^generationConfig\.responseModalities$/,
    ],
    [
      'a last turn of the model',
      ['messages', 'responses', 'chat'],
      { contents: [user('Hi'), { role: 'model', parts: [{ text: 'I' }] }] },
      /^contents/,
    ],
  ])('%s is 400 and named (%j)', async (_name, spoken, body, param) => {
    for (const protocol of spoken) {
      const reply = await ask(protocol, body);
      expect([protocol, reply.status, reply.error?.status]).toEqual([protocol, 400, 'INVALID_ARGUMENT']);
      expect(reply.error?.details?.[0]?.metadata?.['param']).toMatch(param);
    }
    // Google can judge it itself, unless it costs more than the model's prices say.
    const own = await ask('gemini', body);
    if (own.reason === 'unsupported_feature') expect(own.error?.details?.[0]?.metadata?.['param']).toMatch(param);
    else expect([own.status, own.error]).toEqual([200, undefined]);
  });

  test('includeThoughts asks a Responses provider for summaries; encrypted reasoning is always asked for', async () => {
    await ask('responses', { generationConfig: { thinkingConfig: { includeThoughts: true } } });
    expect(lastBody()).toMatchObject({ include: ['reasoning.encrypted_content'], reasoning: { summary: 'auto' } });
    await ask('responses', { generationConfig: { thinkingConfig: { thinkingLevel: 'LOW' } } });
    expect(lastBody()).toMatchObject({ include: ['reasoning.encrypted_content'], reasoning: { effort: 'low' } });
    expect((lastBody()['reasoning'] as Json)['summary']).toBeUndefined();
    await ask('responses');
    expect(lastBody()['include']).toEqual(['reasoning.encrypted_content']);
  });

  test('includeThoughts never asks a Messages provider to hide its thinking', async () => {
    for (const thinkingConfig of [
      { includeThoughts: true },
      { includeThoughts: true, thinkingBudget: 1024 },
      { includeThoughts: true, thinkingLevel: 'HIGH' },
    ]) {
      const reply = await ask('messages', { generationConfig: { thinkingConfig } });
      expect(reply.status).toBe(200);
      expect(JSON.stringify(lastBody()['thinking'] ?? null)).not.toContain('omitted');
    }
    expect(lastBody()['thinking']).toMatchObject({ type: 'enabled' });
  });

  test.each(protocols)('%s: stop sequences are enforced', async protocol => {
    for (const method of methods) {
      const reply = await ask(protocol, { generation_config: { stop_sequences: [' tw'] } }, method);
      expect([reply.text, reply.finish]).toEqual(['one', 'STOP']);
    }
    expect(plain[protocol].join('')).toContain('two');
  });

  test.each<[Protocol, Json, string]>([
    ['messages', { generationConfig: { seed: 7 } }, 'dropped=generationConfig.seed'],
    ['messages', { generation_config: { seed: 7 } }, 'dropped=generationConfig.seed'],
    [
      'messages',
      { generation_config: { presence_penalty: 1, frequency_penalty: 1 } },
      'dropped=generationConfig.presencePenalty,generationConfig.frequencyPenalty',
    ],
    ['chat', { generation_config: { top_k: 3 } }, 'dropped=generationConfig.topK'],
    ['responses', { generation_config: { top_k: 3, seed: 4 } }, 'dropped=generationConfig.topK,generationConfig.seed'],
    [
      'chat',
      { generation_config: { media_resolution: 'X', speech_config: { a: 1 } } },
      'dropped=generationConfig.speechConfig',
    ],
    ['messages', { tool_config: { retrieval_config: { x: 1 } } }, 'dropped=toolConfig.retrievalConfig'],
    [
      'chat',
      { tools: [{ google_search: {} }, { function_declarations: [{ name: 'f' }] }] },
      'dropped=tools.googleSearch',
    ],
  ])('%s: a warning about %j names it as Gemini spells it', async (protocol, body, expected) => {
    const reply = await ask(protocol, body);
    expect(reply.status).toBe(200);
    expect(new Set(warningsOf(reply)?.replace('dropped=', '').split(','))).toEqual(
      new Set(expected.replace('dropped=', '').split(',')),
    );
  });

  test.each<[Json, string]>([
    [{ generation_config: { temperature: 9 } }, 'generationConfig.temperature'],
    [{ generation_config: { top_k: -1 } }, 'generationConfig.topK'],
    [{ generation_config: { candidate_count: 99 } }, 'generationConfig.candidateCount'],
    [
      { generation_config: { thinking_config: { thinking_budget: -5 } } },
      'generationConfig.thinkingConfig.thinkingBudget',
    ],
    [{ tool_config: { function_calling_config: { mode: 'ANY' } } }, 'toolConfig.functionCallingConfig'],
    [
      { system_instruction: { parts: [{ inline_data: { mime_type: 'image/png', data: 'AAAA' } }] } },
      'systemInstruction.parts.0',
    ],
    [{ tools: [{ function_declarations: [{ name: 'f' }, { name: 'f' }] }] }, 'tools'],
  ])('a refusal of %j names it as Gemini spells it', async (body, param) => {
    const reply = await ask('chat', body);
    expect(reply.status).toBe(400);
    expect(reply.error?.details?.[0]?.metadata?.['param']).toMatch(new RegExp(`^${param.replaceAll('.', '\\.')}`));
  });
});
