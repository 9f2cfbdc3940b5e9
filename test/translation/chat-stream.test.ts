/** Answers as Chat clients get them, streamed and whole. Ids in titles (RO-10) are cases of `test/translation/cases.json`. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { Json, JsonObject } from '../../src/codecs/codec.ts';
import {
  toExtra,
  makeItem,
  messageContent,
  makeOpaque,
  makePart,
  reasoningContent,
  reasoningTextContent,
  refusalContent,
  textContent,
  toolCallContent,
  urlCitation,
} from '../../src/codecs/content.ts';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import {
  type Annotation,
  type Item,
  ItemStatus,
  Protocol,
  Role,
  ToolKind,
} from '../../src/gen/tollgate/v1/content_pb.ts';
import {
  DeltaKind,
  ExtensionScope,
  FinishReason,
  type GenerationEvent,
  type Usage,
} from '../../src/gen/tollgate/v1/event_pb.ts';
import { ServiceTier } from '../../src/gen/tollgate/v1/request_pb.ts';
import {
  annotationAdded,
  completed,
  delta,
  extension,
  finished,
  itemClosed,
  itemOpened,
  opaqueAdded,
  partClosed,
  partOpened,
  started,
} from '../../src/generation/events.ts';
import { answers } from '../contracts/answer-arbitraries.ts';
import { splitFrames, parseChunks, pushAll, renderFrames, wantsEverything } from '../contracts/codec-suite.ts';
import { readStrictly } from './chat-reader.ts';

const begin = started({
  requestId: 'req_abc',
  model: 'acme/large',
  createdAtMs: 1_790_000_000_999n,
  systemFingerprint: 'fp_x',
});
const usage: Usage = {
  $typeName: 'tollgate.v1.Usage',
  unpriced: [],
  inputTokens: 7,
  cacheReadTokens: 50,
  cacheWrite5mTokens: 3,
  outputTokens: 4,
};
const end = completed({ usage, costNanoUsd: 12_345n, serviceTier: ServiceTier.DEFAULT });

function item(
  number: number,
  content: Item['content'],
  inside: readonly GenerationEvent[],
  status: ItemStatus = ItemStatus.COMPLETED,
): GenerationEvent[] {
  return [itemOpened(0, number, makeItem(content, 0)), ...inside, itemClosed(0, number, status)];
}

function text(number: number, ...pieces: string[]): GenerationEvent[] {
  return item(number, messageContent(Role.ASSISTANT, []), [
    partOpened(0, [number, 0], makePart(textContent(''))),
    ...pieces.map(piece => delta(0, [number, 0], { kind: DeltaKind.TEXT, text: piece })),
    partClosed(0, [number, 0]),
  ]);
}

function call(
  number: number,
  name: string,
  pieces: readonly string[],
  status: ItemStatus = ItemStatus.COMPLETED,
): GenerationEvent[] {
  const inside = pieces.map(piece => delta(0, [number, 0], { kind: DeltaKind.ARGUMENTS, text: piece }));
  return item(number, toolCallContent({ callId: `call_${name}`, name }), inside, status);
}

function stream(...inside: GenerationEvent[]): GenerationEvent[] {
  const calls = inside.some(
    ({ event }) => event.case === 'itemOpened' && event.value.content?.content.case === 'toolCall',
  );
  return [begin, ...inside, finished(0, calls ? FinishReason.TOOL_CALLS : FinishReason.STOP), end];
}

const frames = (events: readonly GenerationEvent[], decoded = wantsEverything): string[] =>
  renderFrames(chatCodec, events, decoded);
const json = (frame: string | undefined): JsonObject => JSON.parse((frame ?? '').replace(/^data: /, '')) as JsonObject;
const choiceIn = (frame: string | undefined): JsonObject => (json(frame)['choices'] as JsonObject[])[0] ?? {};
const deltas = (events: readonly GenerationEvent[]): Json[] =>
  frames(events)
    .slice(0, -1)
    .flatMap(frame => json(frame)['choices'] as JsonObject[])
    .map(choice => choice['delta'] ?? null);
const whole = (events: readonly GenerationEvent[]): JsonObject => chatCodec.renderWhole(events, wantsEverything);
const wholeMessage = (events: readonly GenerationEvent[]): JsonObject =>
  (whole(events)['choices'] as JsonObject[])[0]?.['message'] as JsonObject;

const abilities = {
  protocol: Protocol.CHAT,
  provider: 'acme',
  natives: {},
  choicesMax: 3,
};

describe('a stream', () => {
  test('begins with the role and ends with finish, usage and [DONE], all chunks with the gateway’s id (RO-10, US-02, US-06, MI-07)', () => {
    const all = frames(stream(...text(0, 'Hel', 'lo')));
    const same = {
      id: 'chatcmpl-abc',
      object: 'chat.completion.chunk',
      created: 1_790_000_000,
      model: 'acme/large',
      system_fingerprint: 'fp_x',
    };
    const chunk = (choice: JsonObject): JsonObject => ({
      ...same,
      choices: [{ index: 0, logprobs: null, finish_reason: null, ...choice }],
      usage: null,
    });
    expect(all.slice(0, -1).map(json)).toEqual([
      chunk({ delta: { role: 'assistant', content: '', refusal: null } }),
      chunk({ delta: { content: 'Hel' } }),
      chunk({ delta: { content: 'lo' } }),
      { ...chunk({ delta: {}, finish_reason: 'stop' }), service_tier: 'default' },
      {
        ...same,
        choices: [],
        service_tier: 'default',
        usage: {
          prompt_tokens: 60,
          completion_tokens: 4,
          total_tokens: 64,
          prompt_tokens_details: { cached_tokens: 50, cache_write_tokens: 3 },
          completion_tokens_details: { reasoning_tokens: 0 },
          cost: 0.000012345,
        },
      },
    ]);
    expect(all.at(-1)).toBe('data: [DONE]\n\n');
  });

  test('has no usage member at all unless the client requested it (US-06)', () => {
    const all = frames(stream(...text(0, 'a')), { ...wantsEverything, includeUsage: false });
    expect(all.join('')).not.toContain('"usage"');
    expect(all.at(-2)).toContain('"finish_reason":"stop"');
  });

  test('of any answer can be read by the strictest client, and has the same content as the whole answer (TS-16, TS-24, US-08, RO-07)', () => {
    fc.assert(
      fc.property(answers(abilities), events => {
        const read = readStrictly(frames(events));
        const answer = whole(events);
        const choices = answer['choices'] as JsonObject[];
        expect(read.choices.map(({ finish }) => finish)).toEqual(choices.map(choice => choice['finish_reason']));
        expect(read.usage).toEqual(answer['usage']);
        expect(read.id).toBe(answer['id']);
        for (const [index, choice] of read.choices.entries()) {
          const {
            reasoning_details: _,
            x_unknown: __,
            x_nested: ___,
            ...message
          } = (choices[index]?.['message'] ?? {}) as JsonObject;
          expect(choice.message).toEqual(message);
          const logprobs = choices[index]?.['logprobs'] as JsonObject | null;
          expect(choice.logprobs).toEqual(logprobs?.['content'] ?? []);
        }
      }),
      { numRuns: 300 },
    );
  });

  test('never has a chunk without choices before the last, because client libraries read the first choice of each (B1)', () => {
    fc.assert(
      fc.property(answers(abilities), events => {
        const read = readStrictly(frames(events));
        expect(read.chunks.every(chunk => Array.isArray(chunk['choices']))).toBe(true);
        const empty = read.chunks.filter(chunk => (chunk['choices'] as Json[]).length === 0);
        expect(empty).toEqual([expect.objectContaining({ usage: read.usage })]);
      }),
    );
  });

  test('holds the finish back until the answer is settled, and fails without a finish (LI-02)', () => {
    const renderer = chatCodec.renderStream(wantsEverything);
    const shown = pushAll(renderer, [begin, ...text(0, 'par'), finished(0, FinishReason.STOP)]);
    expect(shown).not.toContain('"finish_reason":"stop"');
    const failure = new GatewayError('upstream_error', 'The upstream broke off.', { param: 'model' });
    expect(splitFrames(renderer.fail(failure, 'req_abc')).map(json)).toEqual([
      {
        error: {
          message: 'The upstream broke off.',
          type: 'upstream_error',
          param: 'model',
          code: 'upstream_error',
          id: 'req_abc',
        },
      },
    ]);
    expect(() => renderer.end()).toThrow('without completed');
  });

  test('has one-line comments that keep the connection alive (SS-02, SS-04)', () => {
    expect(chatCodec.renderStream(wantsEverything).keepAlive).toBe(': keepalive\n');
  });

  test('holds back half a surrogate pair until the other half comes (UN-04)', () => {
    expect(deltas(stream(...text(0, 'a\ud83d', '\ude00b'))).slice(1, 3)).toEqual([
      { content: 'a' },
      { content: '😀b' },
    ]);
    expect(deltas(stream(...text(0, 'a\ud83d')))[2]).toEqual({ content: '\ufffd' });
  });

  test('carries pieces of arguments unchanged, even if an escape sequence is split (UN-03)', () => {
    const events = stream(...call(0, 'f', ['{"a":"\\ud83d', '\\ude00"}']));
    expect(readStrictly(frames(events)).choices[0]?.message['tool_calls']).toEqual([
      { id: 'call_f', type: 'function', function: { name: 'f', arguments: '{"a":"\\ud83d\\ude00"}' } },
    ]);
  });
});

describe('calls', () => {
  test('are numbered among the calls, not among all items (TS-02)', () => {
    const events = stream(...text(0, 'Let me see.'), ...call(1, 'f', ['{}']), ...call(2, 'g', ['{}']));
    expect(deltas(events).slice(2, -1)).toEqual([
      { tool_calls: [{ index: 0, id: 'call_f', type: 'function', function: { name: 'f', arguments: '' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '{}' } }] },
      { tool_calls: [{ index: 1, id: 'call_g', type: 'function', function: { name: 'g', arguments: '' } }] },
      { tool_calls: [{ index: 1, function: { arguments: '{}' } }] },
    ]);
  });

  test('without arguments get {}, streamed and whole, but not if they were cut (TS-10)', () => {
    expect(deltas(stream(...call(0, 'f', [])))[2]).toEqual({
      tool_calls: [{ index: 0, function: { arguments: '{}' } }],
    });
    expect(wholeMessage(stream(...call(0, 'f', [])))['tool_calls']).toEqual([
      { id: 'call_f', type: 'function', function: { name: 'f', arguments: '{}' } },
    ]);
    const cut = stream(...call(0, 'f', [], ItemStatus.INCOMPLETE));
    expect(deltas(cut)).toHaveLength(3);
    expect(wholeMessage(cut)['tool_calls']).toEqual([
      { id: 'call_f', type: 'function', function: { name: 'f', arguments: '' } },
    ]);
  });

  test('of custom tools keep the form of custom calls', () => {
    const content = toolCallContent({ callId: 'c', name: 'sql', kind: ToolKind.CUSTOM });
    const events = stream(...item(0, content, [delta(0, [0, 0], { kind: DeltaKind.ARGUMENTS, text: 'SELECT 1' })]));
    expect(deltas(events).slice(1, 3)).toEqual([
      { tool_calls: [{ index: 0, id: 'c', type: 'custom', custom: { name: 'sql', input: '' } }] },
      { tool_calls: [{ index: 0, custom: { input: 'SELECT 1' } }] },
    ]);
    expect(wholeMessage(events)['tool_calls']).toEqual([
      { id: 'c', type: 'custom', custom: { name: 'sql', input: 'SELECT 1' } },
    ]);
  });

  test('without text leave the content null (RO-07)', () => {
    expect(wholeMessage(stream(...call(0, 'f', ['{}'])))).toMatchObject({ content: null, refusal: null });
    expect(wholeMessage(stream(...text(0, 'a')))).toEqual({ role: 'assistant', content: 'a', refusal: null });
    expect(wholeMessage(stream())).toEqual({ role: 'assistant', content: '', refusal: null });
  });

  test('have Gemini’s signature in its own member (RE-23)', () => {
    const signature = makeOpaque('gemini.thought_signature', 'SIG', 'google');
    const events = stream(...item(0, toolCallContent({ callId: 'c', name: 'f', signature }), []));
    const signed = { extra_content: { google: { thought_signature: 'SIG' } } };
    expect(deltas(events)[1]).toEqual({
      tool_calls: [{ index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '' }, ...signed }],
    });
    expect(wholeMessage(events)['tool_calls']).toEqual([
      { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' }, ...signed },
    ]);
  });

  test('take the deprecated form if the client uses it', () => {
    const decoded = { ...wantsEverything, legacyFunctions: true as const };
    const events = stream(...call(0, 'f', ['{"a":', '1}']), ...call(1, 'g', ['{}']));
    const all = frames(events, decoded).slice(0, -1);
    expect(all.slice(1, 4).map(frame => choiceIn(frame)['delta'])).toEqual([
      { function_call: { name: 'f', arguments: '' } },
      { function_call: { arguments: '{"a":' } },
      { function_call: { arguments: '1}' } },
    ]);
    expect(choiceIn(all.at(-2))).toMatchObject({ delta: {}, finish_reason: 'function_call' });
    expect(all).toHaveLength(6);
    const [choice] = chatCodec.renderWhole(events, decoded)['choices'] as JsonObject[];
    expect(choice).toMatchObject({
      message: { content: null, function_call: { name: 'f', arguments: '{"a":1}' } },
      finish_reason: 'function_call',
    });
    expect(choice?.['message']).not.toHaveProperty('tool_calls');
  });
});

describe('items that Chat does not have', () => {
  test('calls of tools that the upstream ran are never sent to the client as calls (TS-19)', () => {
    const content: Item['content'] = {
      case: 'serverTool',
      value: { $typeName: 'tollgate.v1.ServerTool', protocol: Protocol.MESSAGES, json: '{"type":"server_tool_use"}' },
    };
    const events = stream(...item(0, content, []), ...call(1, 'f', ['{}']));
    const { choices } = readStrictly(frames(events));
    expect(choices[0]?.message['tool_calls']).toEqual([
      { id: 'call_f', type: 'function', function: { name: 'f', arguments: '{}' } },
    ]);
    expect(wholeMessage(events)['tool_calls']).toEqual(choices[0]?.message['tool_calls']);
  });

  test('citations of web pages take Chat’s nested form; other kinds, from other protocols, are left out (SV-02)', () => {
    const cite = (annotation: Annotation['annotation']): GenerationEvent =>
      annotationAdded(0, [0, 0], { $typeName: 'tollgate.v1.Annotation', annotation });
    const [opened, part, written, ...rest] = text(0, 'a');
    const url = urlCitation({ url: 'https://a.b', title: 'T', startIndex: 0, endIndex: 1 });
    const events = stream(
      ...[opened, part, written].filter(each => each !== undefined),
      cite({ case: 'urlCitation', value: url }),
      cite({ case: 'other', value: toExtra(Protocol.MESSAGES, '{"type":"char_location"}') }),
      ...rest,
    );
    const shown = [
      { type: 'url_citation', url_citation: { url: 'https://a.b', title: 'T', start_index: 0, end_index: 1 } },
    ];
    expect(deltas(events).slice(2, -1)).toEqual([{ annotations: shown }]);
    expect(wholeMessage(events)['annotations']).toEqual(shown);
  });
});

describe('reasoning', () => {
  const reasoningItem = (number: number, words: string, data: string): GenerationEvent[] =>
    item(number, reasoningContent({}), [
      partOpened(0, [number, 0], makePart(reasoningTextContent(''))),
      delta(0, [number, 0], { kind: DeltaKind.REASONING, text: words }),
      opaqueAdded(0, number, makeOpaque('anthropic.signature', data, 'anthropic')),
      partClosed(0, [number, 0]),
    ]);
  const events = stream(...reasoningItem(0, 'One', 'S1'), ...reasoningItem(1, 'Two', 'S2'), ...text(2, 'Done'));

  test('is sent as text and as details, with one entry for each block and its index (RE-02, RE-17)', () => {
    expect(deltas(events).slice(1, 6)).toEqual([
      { reasoning_content: 'One', reasoning_details: [{ type: 'reasoning.text', text: 'One', index: 0 }] },
      { reasoning_details: [{ type: 'reasoning.text', signature: 'S1', format: 'anthropic-claude-v1', index: 0 }] },
      { reasoning_content: 'Two', reasoning_details: [{ type: 'reasoning.text', text: 'Two', index: 1 }] },
      { reasoning_details: [{ type: 'reasoning.text', signature: 'S2', format: 'anthropic-claude-v1', index: 1 }] },
      { content: 'Done' },
    ]);
    expect(wholeMessage(events)).toEqual({
      role: 'assistant',
      content: 'Done',
      refusal: null,
      reasoning_content: 'OneTwo',
      reasoning_details: [
        { type: 'reasoning.text', text: 'One', signature: 'S1', format: 'anthropic-claude-v1', index: 0 },
        { type: 'reasoning.text', text: 'Two', signature: 'S2', format: 'anthropic-claude-v1', index: 1 },
      ],
    });
  });

  test('that has only a signature keeps it (RE-26)', () => {
    const silent = stream(
      ...item(0, reasoningContent({}), [opaqueAdded(0, 0, makeOpaque('anthropic.signature', 'S'))]),
    );
    const details = [{ type: 'reasoning.text', signature: 'S', format: 'anthropic-claude-v1', index: 0 }];
    expect(deltas(silent)[1]).toEqual({ reasoning_details: details });
    expect(wholeMessage(silent)).toMatchObject({ content: '', reasoning_details: details });
  });

  test('without other output leaves the content empty (RE-08, RE-14)', () => {
    expect(wholeMessage(stream(...reasoningItem(0, 'One', 'S1')))).toMatchObject({
      content: '',
      reasoning_content: 'One',
    });
  });
});

describe('finish', () => {
  const renderReason = (reason: FinishReason, native = ''): Json | undefined =>
    choiceIn(frames([begin, ...text(0, 'a'), finished(0, reason, { native }), end]).at(-3))['finish_reason'];

  test.each([
    [FinishReason.STOP, '', 'stop'],
    [FinishReason.LENGTH, '', 'length'],
    [FinishReason.CONTEXT_WINDOW, 'model_context_window_exceeded', 'length'],
    [FinishReason.TOOL_CALLS, '', 'tool_calls'],
    [FinishReason.CONTENT_FILTER, '', 'content_filter'],
    [FinishReason.REFUSAL, 'refusal', 'content_filter'],
    [FinishReason.OTHER, 'eos', 'stop'],
    [FinishReason.PAUSE, 'pause_turn', 'stop'],
  ])('%s (%s) is %s (FI-09, FI-18)', (reason, native, shown) => {
    expect(renderReason(reason, native)).toBe(shown);
  });

  test('that is unknown becomes tool_calls if there are calls (FI-18)', () => {
    const events = [begin, ...call(0, 'f', ['{}']), finished(0, FinishReason.OTHER, { native: 'eos' }), end];
    expect(choiceIn(frames(events).at(-3))['finish_reason']).toBe('tool_calls');
  });

  test('stop with a call stays stop (FI-02), and length with a cut call stays length (FI-03)', () => {
    const stopped = [begin, ...call(0, 'f', ['{}']), finished(0, FinishReason.STOP, { native: 'stop' }), end];
    expect(choiceIn(frames(stopped).at(-3))['finish_reason']).toBe('stop');
    const cut = [begin, ...call(0, 'f', ['{"a'], ItemStatus.INCOMPLETE), finished(0, FinishReason.LENGTH), end];
    expect(choiceIn(frames(cut).at(-3))['finish_reason']).toBe('length');
  });

  test('of a refusal: its text is in `refusal`, and `content` is null', () => {
    const content = messageContent(Role.ASSISTANT, []);
    const refusal = item(0, content, [
      partOpened(0, [0, 0], makePart(refusalContent(''))),
      delta(0, [0, 0], { kind: DeltaKind.REFUSAL, text: 'No.' }),
      partClosed(0, [0, 0]),
    ]);
    const events = [begin, ...refusal, finished(0, FinishReason.REFUSAL), end];
    expect(deltas(events)[1]).toEqual({ refusal: 'No.' });
    expect(wholeMessage(events)).toEqual({ role: 'assistant', content: null, refusal: 'No.' });
  });
});

describe('members that do not come from the model', () => {
  const extend = (scope: ExtensionScope, members: JsonObject, protocol: Protocol = Protocol.CHAT): GenerationEvent =>
    extension(0, scope, toExtra(protocol, JSON.stringify(members)));

  test('unknown members are passed on at the same path, in the chunk in which they came', () => {
    const [opened, part, first, ...rest] = text(0, 'a', 'b');
    const events = stream(
      ...[opened, part].filter(each => each !== undefined),
      extend(ExtensionScope.RESPONSE, { provider: 'X' }),
      extend(ExtensionScope.CHOICE, { native_finish_reason: null, token_ids: [1] }),
      extend(ExtensionScope.DELTA, { images: [] }),
      ...[first, ...rest].filter(each => each !== undefined),
    );
    const chunks = frames(events).slice(0, -1).map(json);
    expect(chunks[1]).toMatchObject({
      provider: 'X',
      choices: [{ token_ids: [1], delta: { content: 'a', images: [] } }],
    });
    expect(chunks[2]).not.toHaveProperty('provider');
    expect(whole(events)).toMatchObject({
      provider: 'X',
      choices: [{ token_ids: [1], message: { content: 'ab', images: [] } }],
    });
  });

  test('chunks that have only unknown members stay separate chunks', () => {
    const events = stream(
      extend(ExtensionScope.DELTA, { audio: { data: 'AA' } }),
      extend(ExtensionScope.DELTA, { audio: { data: 'BB' } }),
      extend(ExtensionScope.DELTA, { audio: { data: 'CC' } }),
    );
    expect(deltas(events).slice(1, -1)).toEqual([
      { audio: { data: 'AA' } },
      { audio: { data: 'BB' } },
      { audio: { data: 'CC' } },
    ]);
  });

  test('members of another protocol never reach a Chat client (SV-03)', () => {
    expect(
      frames(stream(extend(ExtensionScope.RESPONSE, { container: 1 }, Protocol.MESSAGES), ...text(0, 'a'))).join(''),
    ).not.toContain('container');
  });

  test('a missing fingerprint is derived from the model', () => {
    const unnamed = started({ requestId: 'req_1', model: 'acme/large' });
    const [first] = frames([unnamed, finished(0, FinishReason.STOP), end]);
    expect(json(first)['system_fingerprint']).toMatch(/^fp_[0-9a-f]{8}$/);
    expect(whole([unnamed, finished(0, FinishReason.STOP), end])['system_fingerprint']).toBe(
      json(first)['system_fingerprint'],
    );
  });

  test.each([
    [0n, '0'],
    [1n, '1e-9'],
    [12_345n, '0.000012345'],
    [100_000_000n, '0.1'],
    [300_000_000n, '0.3'],
    [1_000_000_001n, '1.000000001'],
    [999_999_999_999_999n, '999999.999999999'],
  ])('a cost of %s nano-dollars is %s', (costNanoUsd, shown) => {
    const all = frames([begin, finished(0, FinishReason.STOP), completed({ usage, costNanoUsd })]);
    expect(all.join('')).toContain(`"cost":${shown}}`);
  });

  test('the tier is the one that was charged', () => {
    for (const [serviceTier, shown] of [
      [ServiceTier.FLEX, 'flex'],
      [ServiceTier.PRIORITY, 'priority'],
      [ServiceTier.DEFAULT, 'default'],
    ] as const) {
      const events = [begin, finished(0, FinishReason.STOP), completed({ usage, serviceTier })];
      expect(whole(events)['service_tier']).toBe(shown);
      expect(json(frames(events).at(-2))['service_tier']).toBe(shown);
    }
  });
});

describe('golden streams', () => {
  const golden = (name: string): Buffer =>
    readFileSync(resolve(import.meta.dirname, `../../src/codecs/chat/fixtures/${name}.sse`));

  test.each(['completed', 'reasoning'])(
    '%s: parsed and rendered again it has the same content, chunk by chunk',
    name => {
      const bytes = golden(name);
      const events = parseChunks(chatCodec, 'acme', [bytes]);
      const again = frames(events).map(frame => (frame.includes('[DONE]') ? frame : choiceIn(frame)));
      const wanted = splitFrames(bytes)
        .map(frame => frame.replace(/^: keepalive\n/, ''))
        .map(frame => (frame.includes('[DONE]') ? frame : choiceIn(frame)));
      expect(again.slice(1)).toEqual(wanted.slice(1));
      expect(again[0]).toMatchObject({ delta: { role: 'assistant', content: '' } });
    },
  );

  test('error: a failure is rendered like the last frame of the golden stream', () => {
    const wanted = json(splitFrames(golden('error')).at(-1))['error'] as JsonObject;
    const renderer = chatCodec.renderStream(wantsEverything);
    const [frame] = splitFrames(renderer.fail(new GatewayError('upstream_error', 'upstream closed'), 'req_1'));
    expect(json(frame)).toEqual({ error: { ...wanted, code: 'upstream_error' } });
  });
});
