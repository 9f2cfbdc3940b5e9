/** Answers translated between Chat and Messages, and from Messages to Messages. Titles have the ids of cases in `test/translation/cases.json`. */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { ClientCodec, JsonObject, UpstreamCodec } from '../../src/codecs/codec.ts';
import { makeRequest } from '../../src/codecs/content.ts';
import { listIn, objectIn, objectsIn, textIn } from '../../src/codecs/json.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import type { GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import { UpstreamFailure } from '../../src/generation/upstream.ts';
import { parseChunks, renderFrames } from '../contracts/codec-suite.ts';

const decoded = { request: makeRequest({}), stream: true, includeUsage: true };

/** Returns the data of the frames that a client gets. */
function render(codec: ClientCodec, events: readonly GenerationEvent[]): JsonObject[] {
  return renderFrames(codec, events, decoded).map(frame => {
    const data = /^data: (.*)$/m.exec(frame)?.[1] ?? '';
    return data === '[DONE]' ? { type: 'done' } : (JSON.parse(data) as JsonObject);
  });
}
const parse = (codec: UpstreamCodec, text: string): GenerationEvent[] =>
  parseChunks(codec, 'acme', [Buffer.from(text)]);

const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' };
function chatStream(deltas: readonly JsonObject[], finish: string): string {
  const chunk = (delta: JsonObject, reason: string | null = null): string =>
    `data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`;
  return `${deltas.map(delta => chunk(delta)).join('')}${chunk({}, finish)}data: [DONE]\n\n`;
}
const toMessages = (deltas: readonly JsonObject[], finish: string): JsonObject[] =>
  render(messagesCodec, parse(chatCodec, chatStream(deltas, finish)));

const frame = (type: string, members: JsonObject = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`;
const start = frame('message_start', { message: { id: 'm', usage: { input_tokens: 5, output_tokens: 1 } } });
function block(index: number, content: JsonObject, ...deltas: JsonObject[]): string {
  const middle = deltas.map(delta => frame('content_block_delta', { index, delta })).join('');
  return (
    frame('content_block_start', { index, content_block: content }) + middle + frame('content_block_stop', { index })
  );
}
const stop = (reason: string, more: JsonObject = {}): string =>
  frame('message_delta', {
    delta: { stop_reason: reason, stop_sequence: null, ...more },
    usage: { output_tokens: 9 },
  }) + frame('message_stop');
const toChat = (text: string): JsonObject[] => render(chatCodec, parse(messagesCodec, start + text));

/** Assembles the blocks of a stream. Fails if a delta is outside of its block. */
function readBlocks(frames: readonly JsonObject[]): JsonObject[] {
  const blocks: JsonObject[] = [];
  let open: number | undefined;
  for (const { type, index, content_block: content, delta } of frames) {
    if (type === 'content_block_start') {
      expect([open, index]).toEqual([undefined, blocks.length]);
      open = blocks.length;
      blocks.push({ ...(content as JsonObject), text: '' });
    } else if (type === 'content_block_delta') {
      expect(index).toBe(open);
      const last = blocks.at(-1) ?? {};
      const { text, thinking, partial_json: json } = delta as Record<string, string | undefined>;
      last['text'] = `${textIn(last['text'])}${text ?? thinking ?? json ?? ''}`;
    } else if (type === 'content_block_stop') {
      expect(index).toBe(open);
      open = undefined;
    }
  }
  return blocks;
}
const call = (index: number, args: string, id?: string): JsonObject => ({
  index,
  ...(id === undefined ? {} : { id, type: 'function' }),
  function: { ...(id === undefined ? {} : { name: 'f' }), arguments: args },
});

describe('Chat to Messages', () => {
  test.each([
    ['TS-01: back to back', [{ tool_calls: [call(0, '{}', 'a')] }, { tool_calls: [call(1, '{}', 'b')] }]],
    [
      'TS-05: interleaved',
      [
        { tool_calls: [call(0, '{', 'a')] },
        { tool_calls: [call(1, '{', 'b')] },
        { tool_calls: [call(0, '}')] },
        { tool_calls: [call(1, '}')] },
      ],
    ],
    ['TS-08: in one chunk', [{ tool_calls: [call(0, '{}', 'a'), call(1, '{}', 'b')] }]],
  ] satisfies [string, JsonObject[]][])(
    '%s: each call is a separate block, only one block is open at a time, and indices start at 0',
    (_, deltas) => {
      const frames = toMessages([{ content: 'x' }, ...deltas], 'tool_calls');
      expect(readBlocks(frames)).toMatchObject([
        { type: 'text', text: 'x' },
        { type: 'tool_use', id: 'a', text: '{}' },
        { type: 'tool_use', id: 'b', text: '{}' },
      ]);
      expect(frames.at(-2)).toMatchObject({ type: 'message_delta', delta: { stop_reason: 'tool_use' } });
    },
  );

  test('TS-07: three calls are three blocks', () => {
    const calls = [0, 1, 2].map(index => ({ tool_calls: [call(index, `{"n":${index}}`, `t${index}`)] }));
    expect(readBlocks(toMessages(calls, 'tool_calls')).map(({ text }) => text)).toEqual([
      '{"n":0}',
      '{"n":1}',
      '{"n":2}',
    ]);
  });

  test('TS-11: an empty list of calls starts no block', () => {
    expect(readBlocks(toMessages([{ content: 'hi', tool_calls: [] }], 'stop'))).toHaveLength(1);
  });

  test('TS-20, RO-11: there is one message_start, with a complete message', () => {
    const starts = toMessages([{ role: 'assistant' }, { role: 'assistant', content: 'x' }], 'stop').filter(
      ({ type }) => type === 'message_start',
    );
    expect(starts).toHaveLength(1);
    expect(starts[0]).toMatchObject({
      message: { type: 'message', role: 'assistant', content: [], stop_reason: null },
    });
  });

  test('RE-08, RE-19: an answer of reasoning alone is one block, which starts with empty members', () => {
    const frames = toMessages([{ reasoning_content: 'hm', content: null }], 'stop');
    expect(frames[1]).toMatchObject({ content_block: { type: 'thinking', thinking: '', signature: '' } });
    expect(readBlocks(frames)).toMatchObject([{ type: 'thinking', text: 'hm' }]);
  });

  test('FI-05: a filtered answer has stop_details', () => {
    expect(toMessages([{ content: 'x' }], 'content_filter').at(-2)).toMatchObject({
      delta: { stop_reason: 'content_filter', stop_details: { type: 'refusal', category: null, explanation: null } },
    });
  });

  test('EF-13: a stop sequence that the upstream names is rendered as stop_sequence', () => {
    const named = chatStream([{ content: 'x' }], 'stop').replace(
      '"finish_reason":"stop"',
      '"finish_reason":"stop","stop_reason":"END"',
    );
    expect(render(messagesCodec, parse(chatCodec, named)).at(-2)).toMatchObject({
      delta: { stop_reason: 'stop_sequence', stop_sequence: 'END' },
    });
    expect(toMessages([{ content: 'x' }], 'stop').at(-2)).toMatchObject({
      delta: { stop_reason: 'end_turn', stop_sequence: null },
    });
  });

  test('FI-02: an answer with calls ends with tool_use even if the upstream reports stop', () => {
    expect(toMessages([{ tool_calls: [call(0, '{}', 'a')] }], 'stop').at(-2)).toMatchObject({
      delta: { stop_reason: 'tool_use' },
    });
  });

  test('UN-03: half of an escaped surrogate pair at the end of a delta is unchanged', () => {
    const deltas = [{ tool_calls: [call(0, '{"a":"\\ud83d', 'a')] }, { tool_calls: [call(0, '\\ude00"}')] }];
    expect(readBlocks(toMessages(deltas, 'tool_calls'))).toMatchObject([{ text: '{"a":"\\ud83d\\ude00"}' }]);
  });

  test('SS-10, SS-11, LI-12: every frame names its event, and nothing follows message_stop', () => {
    const frames = renderFrames(messagesCodec, parse(chatCodec, chatStream([{ content: 'x' }], 'stop')), decoded);
    for (const each of frames) {
      const [, event, data] = /^event: (\w+)\ndata: (.*)\n\n$/.exec(each) ?? [];
      expect((JSON.parse(data ?? 'null') as JsonObject)['type']).toBe(event);
    }
    expect(frames.at(-1)).toContain('message_stop');
  });

  test('US-05: counts that the upstream sends last are 0 in message_start and complete in message_delta', () => {
    const usage = {
      prompt_tokens: 60,
      completion_tokens: 4,
      total_tokens: 64,
      prompt_tokens_details: { cached_tokens: 50, cache_write_tokens: 3 },
    };
    const counted = `data: ${JSON.stringify({ ...head, choices: [], usage })}\n\ndata: [DONE]\n\n`;
    const text = chatStream([{ content: 'x' }], 'stop').replace('data: [DONE]\n\n', counted);
    const frames = render(messagesCodec, parse(chatCodec, text));
    expect(objectIn(frames[0]?.['message'])?.['usage']).toMatchObject({ input_tokens: 0, output_tokens: 0 });
    expect(frames.at(-2)?.['usage']).toMatchObject({
      input_tokens: 7,
      cache_read_input_tokens: 50,
      cache_creation_input_tokens: 3,
      cache_creation: { ephemeral_5m_input_tokens: 3, ephemeral_1h_input_tokens: 0 },
      output_tokens: 4,
    });
  });

  test('US-09: usage counts are 0 if the upstream reports none', () => {
    const frames = toMessages([{ content: 'x' }], 'stop');
    for (const usage of [objectIn(frames[0]?.['message'])?.['usage'], frames.at(-2)?.['usage']]) {
      expect(usage).toMatchObject({
        input_tokens: 0,
        output_tokens: 0,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
      });
    }
  });

  test('SS-05: the keep-alive of a stream is a ping event, so that idle timers of clients are reset', () => {
    const { keepAlive } = messagesCodec.renderStream(decoded);
    expect(keepAlive).toBe('event: ping\ndata: {"type":"ping"}\n\n');
  });

  test.each([
    ['overloaded', 'overloaded_error'],
    ['upstream_timeout', 'api_error'],
    ['spending_limit', 'rate_limit_error'],
  ] as const)(
    'LI-09: the error frame of %s has the type %s, by which clients decide whether to retry',
    (code, type) => {
      const frame = messagesCodec.renderStream(decoded).fail(new GatewayError(code, 'No.'), 'req_1');
      expect(frame).toMatch(/^event: error\ndata: /);
      expect(JSON.parse(frame.split('data: ')[1] ?? 'null')).toMatchObject({ type: 'error', error: { type, code } });
    },
  );

  test('JS-06, FI-15: an answer that the limit truncates ends with max_tokens and message_stop', () => {
    const frames = toMessages([{ reasoning_content: 'hm' }], 'length');
    expect(frames.slice(-3).map(({ type }) => type)).toEqual(['content_block_stop', 'message_delta', 'message_stop']);
    expect(frames.at(-2)).toMatchObject({ delta: { stop_reason: 'max_tokens' } });
  });
});

/** Assembles the chunks of a stream as a Chat client does: joins texts and arguments, groups calls by index, and keeps details unchanged. */
function foldedMessage(chunks: readonly JsonObject[]): JsonObject {
  const message = {
    role: 'assistant',
    content: '',
    reasoning_details: [] as JsonObject[],
    tool_calls: [] as JsonObject[],
  };
  for (const { choices } of chunks) {
    const delta = objectIn(objectIn(listIn(choices)[0])?.['delta']);
    message.content += textIn(delta?.['content']);
    message.reasoning_details.push(...objectsIn(delta?.['reasoning_details']));
    for (const { index, function: called, ...more } of objectsIn(delta?.['tool_calls'])) {
      const known = message.tool_calls[Number(index)];
      const { arguments: args } = objectIn(called) ?? {};
      if (known === undefined) message.tool_calls.push({ ...more, function: called ?? null });
      else known['function'] = joined(objectIn(known['function']), textIn(args));
    }
  }
  return message;
}

function joined(called: JsonObject | undefined, args: string): JsonObject {
  return { ...called, arguments: textIn(called?.['arguments']) + args };
}

/** Returns the only choice of a Chat answer that was not streamed. */
function chatChoice(text: string): JsonObject {
  const whole = chatCodec.renderWhole(parse(messagesCodec, start + text), decoded);
  return (whole['choices'] as JsonObject[])[0] ?? {};
}

describe('Messages to Chat', () => {
  const tool = { type: 'tool_use', id: 't', name: 'f', input: {} };
  const input = (partial_json: string): JsonObject => ({ type: 'input_json_delta', partial_json });

  test('TS-02: calls are numbered from 0, whatever blocks precede them', () => {
    const frames = toChat(block(0, { type: 'text', text: 'x' }) + block(1, tool, input('{}')) + stop('tool_use'));
    const indices = frames.flatMap(({ choices }) =>
      ((choices ?? []) as { delta?: { tool_calls?: { index: number }[] } }[]).flatMap(
        ({ delta }) => delta?.tool_calls?.map(({ index }) => index) ?? [],
      ),
    );
    expect(new Set(indices)).toEqual(new Set([0]));
  });

  test('TS-10: the arguments of a call without input are an empty object', () => {
    expect(chatChoice(block(0, tool) + stop('tool_use'))).toMatchObject({
      message: { tool_calls: [{ function: { arguments: '{}' } }] },
    });
  });

  test('US-17: the last counts of several message_delta frames win, and a null stop reason does not replace an earlier one', () => {
    const delta = (reason: string | null, usage: JsonObject): string =>
      frame('message_delta', { delta: { stop_reason: reason, stop_sequence: null }, usage });
    const text =
      start +
      block(0, { type: 'text', text: 'x' }) +
      delta(null, { output_tokens: 2 }) +
      delta('max_tokens', { output_tokens: 5, input_tokens: 8 }) +
      delta(null, { output_tokens: 9, input_tokens: null }) +
      frame('message_stop');
    const whole = chatCodec.renderWhole(parse(messagesCodec, text), decoded);
    expect(whole).toMatchObject({
      choices: [{ finish_reason: 'length' }],
      usage: { prompt_tokens: 8, completion_tokens: 9, total_tokens: 17 },
    });
  });

  test('TS-19, SV-03: calls of the upstream’s server tools never become client tool calls', () => {
    const own = { type: 'server_tool_use', id: 's', name: 'web_search', input: {} };
    const frames = block(0, tool, input('{}')) + block(1, own, input('{"q":1}')) + stop('tool_use');
    expect(chatChoice(frames)).toMatchObject({ message: { tool_calls: [{ id: 't', function: { arguments: '{}' } }] } });
  });

  test('RE-02: two reasoning blocks stay separate, each with its signature', () => {
    const thinkingBlock = (index: number): string =>
      block(
        index,
        { type: 'thinking', thinking: '', signature: '' },
        { type: 'thinking_delta', thinking: `t${index}` },
        { type: 'signature_delta', signature: `S${index}` },
      );
    expect(
      chatChoice(thinkingBlock(0) + thinkingBlock(1) + block(2, { type: 'text', text: 'x' }) + stop('end_turn')),
    ).toMatchObject({
      message: {
        reasoning_details: [
          { text: 't0', signature: 'S0', index: 0 },
          { text: 't1', signature: 'S1', index: 1 },
        ],
      },
    });
  });

  test.each(['whole', 'streamed'])(
    'TR-20: reasoning between calls and texts keeps its order and signatures when a Chat client sends it back (%s)',
    mode => {
      const thinkingBlock = (index: number): string =>
        block(
          index,
          { type: 'thinking', thinking: '', signature: '' },
          { type: 'thinking_delta', thinking: `t${index}` },
          { type: 'signature_delta', signature: `S${index}` },
        );
      const called = (index: number): string => block(index, { ...tool, id: `c${index}` }, input('{"a":1}'));
      const textBlock = (index: number): string =>
        block(index, { type: 'text', text: '' }, { type: 'text_delta', text: '😀' });
      const text =
        thinkingBlock(0) +
        called(1) +
        thinkingBlock(2) +
        textBlock(3) +
        thinkingBlock(4) +
        textBlock(5) +
        called(6) +
        stop('tool_use');
      const message = mode === 'whole' ? objectIn(chatChoice(text)['message']) : foldedMessage(toChat(text));
      const results = ['c1', 'c6'].map(id => ({ role: 'tool', tool_call_id: id, content: 'r' }));
      const body = { model: 'm', messages: [{ role: 'user', content: 'q' }, message ?? {}, ...results] };
      const { request } = chatCodec.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} });
      const limited = { model: 'up', maxOutputTokens: 100, stream: true, provider: 'acme' };
      const sent = messagesCodec.encodeRequest({ request, ...limited });
      const thinking = (index: number): JsonObject => ({
        type: 'thinking',
        thinking: `t${index}`,
        signature: `S${index}`,
      });
      const use = (index: number): JsonObject => ({ type: 'tool_use', id: `c${index}`, name: 'f', input: { a: 1 } });
      expect((sent.body['messages'] as JsonObject[])[1]).toEqual({
        role: 'assistant',
        content: [
          thinking(0),
          use(1),
          thinking(2),
          { type: 'text', text: '😀' },
          thinking(4),
          { type: 'text', text: '😀' },
          use(6),
        ],
      });
      expect(sent.dropped).toEqual([]);
      // A Chat upstream gets the message as the client sent it.
      const same = chatCodec.encodeRequest({ request, ...limited });
      expect((same.body['messages'] as JsonObject[])[1]).toEqual(message);
    },
  );

  test.each([
    ['FI-09', 'model_context_window_exceeded', 'length'],
    ['FI-05', 'refusal', 'content_filter'],
    ['FI-18', 'strange', 'stop'],
    ['finish', 'max_tokens', 'length'],
  ])('%s: the stop reason %s becomes the finish reason %s', (_, reason, finish) => {
    expect(chatChoice(block(0, { type: 'text', text: 'x' }) + stop(reason))).toMatchObject({ finish_reason: finish });
  });

  test('FI-18: an answer with calls and an unknown stop reason ends with tool_calls', () => {
    expect(chatChoice(block(0, tool, input('{}')) + stop('strange'))).toMatchObject({ finish_reason: 'tool_calls' });
  });

  test('LI-03: a stream without message_stop is an upstream failure', () => {
    expect(() => toChat(block(0, { type: 'text', text: 'x' }))).toThrow(UpstreamFailure);
  });

  test('usage: prompt_tokens includes cache reads and writes, and writes without a lifetime count as five-minute writes', () => {
    const usage = { input_tokens: 5, cache_creation_input_tokens: 7, cache_read_input_tokens: 11, output_tokens: 1 };
    const text =
      frame('message_start', { message: { id: 'm', usage } }) +
      block(0, { type: 'text', text: 'x' }) +
      stop('end_turn');
    expect(chatCodec.renderWhole(parse(messagesCodec, text), decoded)['usage']).toMatchObject({
      prompt_tokens: 23,
      completion_tokens: 9,
      prompt_tokens_details: { cached_tokens: 11, cache_write_tokens: 7 },
    });
  });

  test('a whole answer and its stream render the same choice', () => {
    const whole = {
      id: 'm',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [
        { type: 'text', text: 'x' },
        { ...tool, input: { a: 1 } },
      ],
      stop_reason: 'tool_use',
      stop_sequence: null,
      usage: { input_tokens: 5, output_tokens: 9 },
    };
    const streamed = block(0, { type: 'text', text: 'x' }) + block(1, tool, input('{"a":1}')) + stop('tool_use');
    const rendered = chatCodec.renderWhole(messagesCodec.parseWhole(whole, 'acme'), decoded);
    expect(rendered['choices']).toEqual([chatChoice(streamed)]);
  });
});

describe('Messages to Messages', () => {
  const toMessages = (text: string): JsonObject[] => render(messagesCodec, parse(messagesCodec, start + text));

  test('TS-13, TS-14: blocks with gaps in their indices are renumbered from 0, and deltas of blocks that never started are dropped', () => {
    const piece = (index: number): string =>
      frame('content_block_delta', { index, delta: { type: 'text_delta', text: 'lost' } });
    const frames = toMessages(
      piece(0) +
        block(2, { type: 'text', text: 'a' }) +
        piece(2) +
        frame('content_block_stop', { index: 7 }) +
        block(5, { type: 'tool_use', id: 't', name: 'f', input: {} }) +
        stop('tool_use'),
    );
    expect(readBlocks(frames)).toMatchObject([
      { type: 'text', text: 'a' },
      { type: 'tool_use', id: 't', text: '{}' },
    ]);
  });

  test('SS-17: an unknown event reaches a Messages client unchanged, and a Chat client not at all', () => {
    const strange =
      frame('acme:trace', { span: 1 }) +
      block(0, { type: 'text', text: '' }, { type: 'acme_delta', text: 'no' }, { type: 'text_delta', text: 'yes' });
    const frames = toMessages(strange + stop('end_turn'));
    expect(frames.map(({ type }) => type)).toEqual([
      'message_start',
      'acme:trace',
      'content_block_start',
      'content_block_delta',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    expect(frames[1]).toEqual({ type: 'acme:trace', span: 1 });
    expect(frames[3]).toMatchObject({ index: 0, delta: { type: 'acme_delta', text: 'no' } });
    expect(readBlocks(frames.toSpliced(3, 1))).toMatchObject([{ text: 'yes' }]);
    const chat = render(chatCodec, parse(messagesCodec, start + strange + stop('end_turn')));
    expect(JSON.stringify(chat)).not.toContain('acme');
  });

  test('an unknown stop reason reaches a Messages client unchanged', () => {
    const text = block(0, { type: 'text', text: '' }, { type: 'text_delta', text: 'yes' });
    const last = toMessages(text + stop('acme_pause')).find(({ type }) => type === 'message_delta');
    expect(last?.['delta']).toMatchObject({ stop_reason: 'acme_pause' });
  });
});
