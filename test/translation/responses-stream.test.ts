/**
 * Answers of Chat and Messages upstreams for Responses clients, and of Responses upstreams for clients of all protocols: the cases of
 * `test/translation/cases.json`, by their ids.
 */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { ClientCodec, Json, JsonObject, UpstreamCodec } from '../../src/codecs/codec.ts';
import { makeRequest } from '../../src/codecs/content.ts';
import { objectIn, textIn } from '../../src/codecs/json.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import type { GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import { foldEvents } from '../../src/generation/fold.ts';
import { UpstreamFailure } from '../../src/generation/upstream.ts';
import { splitFrames, parseChunks, pushAll, renderFrames } from '../contracts/codec-suite.ts';

const decoded = { request: makeRequest({ model: 'm' }), stream: true, includeUsage: true };

/** Renders events, and returns the data of the frames that a client gets, without `[DONE]`. */
function render(codec: ClientCodec, events: readonly GenerationEvent[]): JsonObject[] {
  const frames = renderFrames(codec, events, decoded).map(frame => /^data: (.*)$/m.exec(frame)?.[1] ?? '');
  return frames.filter(data => data !== '[DONE]').map(data => JSON.parse(data) as JsonObject);
}
const parse = (codec: UpstreamCodec, text: string): GenerationEvent[] =>
  parseChunks(codec, 'acme', [Buffer.from(text)]);
const readTypes = (frames: readonly JsonObject[]): string[] =>
  frames.map(({ type }) => textIn(type).replace(/^response\./, ''));
const readLast = (frames: readonly JsonObject[]): JsonObject => objectIn(frames.at(-1)?.['response']) ?? {};

const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' };
function chatStream(deltas: readonly JsonObject[], finish: string, usage?: JsonObject): string {
  const chunk = (delta: JsonObject, reason: string | null = null): string =>
    `data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`;
  const counted = usage === undefined ? '' : `data: ${JSON.stringify({ ...head, choices: [], usage })}\n\n`;
  return `${deltas.map(delta => chunk(delta)).join('')}${chunk({}, finish)}${counted}data: [DONE]\n\n`;
}
const fromChat = (deltas: readonly JsonObject[], finish: string, usage?: JsonObject): JsonObject[] =>
  render(responsesCodec, parse(chatCodec, chatStream(deltas, finish, usage)));
const call = (index: number, args: string, id?: string): JsonObject => ({
  tool_calls: [
    {
      index,
      ...(id === undefined ? {} : { id, type: 'function' }),
      function: { ...(id === undefined ? {} : { name: 'f' }), arguments: args },
    },
  ],
});

const named = (type: string, members: JsonObject = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`;

describe('Chat and Messages to Responses', () => {
  test('RP-02, RP-05, RP-06, TS-22: text and calls are separate items, in the order of the interface', () => {
    const frames = fromChat(
      [{ role: 'assistant', content: '' }, { content: 'Hi' }, call(0, '{"a"', 'c1'), call(0, ':1}')],
      'tool_calls',
    );
    expect(readTypes(frames)).toEqual([
      'created',
      'in_progress',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'output_item.added',
      'function_call_arguments.delta',
      'function_call_arguments.delta',
      'function_call_arguments.done',
      'output_item.done',
      'completed',
    ]);
    expect(frames.map(frame => frame['output_index']).filter(index => index !== undefined)).toEqual([
      0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1,
    ]);
    expect(frames.find(({ type }) => type === 'response.function_call_arguments.done')).toMatchObject({
      name: 'f',
      arguments: '{"a":1}',
    });
  });

  test('TR-07, RP-03, RP-21: the final response has every item with all its fields', () => {
    const frames = fromChat([{ content: 'Hi' }, call(0, '{}', 'c1')], 'tool_calls');
    const { output, status } = readLast(frames);
    expect(status).toBe('completed');
    expect(output).toEqual([
      {
        id: expect.stringMatching(/^msg_/),
        type: 'message',
        status: 'completed',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'Hi', annotations: [], logprobs: [] }],
        phase: 'commentary',
      },
      {
        id: expect.stringMatching(/^fc_/),
        type: 'function_call',
        status: 'completed',
        call_id: 'c1',
        name: 'f',
        arguments: '{}',
      },
    ]);
  });

  test('RP-08, RP-18: every event is numbered, and the response has all its fields, without null where null is not allowed', () => {
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
    const frames = fromChat([{ content: 'Hi' }], 'stop', usage);
    expect(frames.map(frame => frame['sequence_number'])).toEqual(frames.map((_, index) => index));
    expect(readLast(frames)).toEqual({
      id: expect.stringMatching(/^resp_/),
      object: 'response',
      created_at: expect.any(Number),
      completed_at: expect.any(Number),
      status: 'completed',
      incomplete_details: null,
      model: expect.any(String),
      previous_response_id: null,
      conversation: null,
      instructions: null,
      output: [expect.objectContaining({ type: 'message' })],
      error: null,
      tools: [],
      tool_choice: 'auto',
      truncation: 'disabled',
      parallel_tool_calls: true,
      text: { format: { type: 'text' }, verbosity: 'medium' },
      top_p: 1,
      presence_penalty: 0,
      frequency_penalty: 0,
      top_logprobs: 0,
      temperature: 1,
      reasoning: null,
      usage: expect.objectContaining({
        input_tokens: 3,
        input_tokens_details: expect.objectContaining({ cached_tokens: 0 }),
        output_tokens: 2,
        output_tokens_details: expect.objectContaining({ reasoning_tokens: 0 }),
        total_tokens: 5,
      }),
      max_output_tokens: null,
      max_tool_calls: null,
      store: false,
      background: false,
      service_tier: 'default',
      metadata: {},
      safety_identifier: null,
      prompt_cache_key: null,
    });
  });

  test('SS-13: response.created is the first event, also of a stream that fails before the model began; only comments come before it', () => {
    expect(readTypes(fromChat([{ content: 'Hi' }], 'stop'))[0]).toBe('created');
    const renderer = responsesCodec.renderStream(decoded);
    expect(renderer.keepAlive).toMatch(/^:[^\n]*\n$/);
    const frames = splitFrames(renderer.fail(new GatewayError('upstream_error', 'No.'), 'req_1'));
    expect(frames.map(frame => /^event: (.*)$/m.exec(frame)?.[1] ?? frame)).toEqual([
      'response.created',
      'error',
      'response.failed',
      'data: [DONE]\n\n',
    ]);
  });

  test('LI-06, LI-08, LI-09: wherever a stream fails, it ends with an error in both formats, a terminal event and the end mark', () => {
    const events = parse(chatCodec, chatStream([{ content: 'Hi' }, call(0, '{"a"', 'c1')], 'tool_calls'));
    for (let size = 0; size < events.length; size += 1) {
      const renderer = responsesCodec.renderStream(decoded);
      const before = splitFrames(pushAll(renderer, events.slice(0, size)));
      const frames = [...before, ...splitFrames(renderer.fail(new GatewayError('overloaded', 'Stopping.'), 'req_1'))];
      const [error, failed, done] = frames.slice(-3);
      const said = { code: 'overloaded', message: 'Stopping.', param: null };
      expect(JSON.parse(error?.split('data: ')[1] ?? 'null')).toEqual({
        type: 'error',
        sequence_number: frames.length - 3,
        ...said,
        error: { type: 'server_error', ...said, id: 'req_1' },
      });
      expect(JSON.parse(failed?.split('data: ')[1] ?? 'null')).toMatchObject({
        type: 'response.failed',
        response: { status: 'failed', error: { code: 'overloaded' } },
      });
      expect(done).toBe('data: [DONE]\n\n');
      expect(before.some(frame => frame.includes('event: response.failed'))).toBe(false);
    }
  });

  test('RP-09: all events have the same id, made by the gateway', () => {
    const frames = fromChat([{ content: 'Hi' }], 'stop');
    const ids = frames.map(frame => objectIn(frame['response'])?.['id']).filter(id => id !== undefined);
    expect(new Set(ids).size).toBe(1);
    expect(textIn(ids[0])).toMatch(/^resp_/);
  });

  test('TS-05: calls that interleave come one after the other', () => {
    const frames = fromChat(
      [call(0, '{"a"', 'c1'), call(1, '{"b"', 'c2'), call(0, ':1}'), call(1, ':2}')],
      'tool_calls',
    );
    expect((readLast(frames)['output'] as JsonObject[]).map(item => item['arguments'])).toEqual(['{"a":1}', '{"b":2}']);
    const order = frames
      .filter(({ type }) => textIn(type).startsWith('response.output_item'))
      .map(({ output_index: index }) => index);
    expect(order).toEqual([0, 0, 1, 1]);
  });

  test('FI-17: after the finish reason for length, the response and a cut call are incomplete', () => {
    const frames = fromChat([call(0, '{"a', 'c1')], 'length');
    expect(readTypes(frames).slice(-3)).toEqual(['function_call_arguments.done', 'output_item.done', 'incomplete']);
    expect(readLast(frames)).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ type: 'function_call', status: 'incomplete', arguments: '{"a' }],
      completed_at: null,
    });
  });

  test('a refusal with text is a separate part, and makes the response incomplete', () => {
    const frames = fromChat([{ refusal: 'I ' }, { refusal: 'can’t.' }], 'stop');
    expect(readTypes(frames).slice(3, -2)).toEqual(
      ['content_part.added', 'refusal.delta', 'refusal.delta', 'refusal.done', 'content_part.done'].slice(0),
    );
    expect(readLast(frames)).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'content_filter' },
      output: [{ content: [{ type: 'refusal', refusal: 'I can’t.' }] }],
    });
  });

  test('RE-07, RE-16: readable reasoning is a summary with one stable id, never encrypted content', () => {
    const frames = fromChat([{ reasoning_content: 'hm' }, { reasoning_content: 'm' }, { content: 'ok' }], 'stop');
    expect(readTypes(frames).slice(2, 8)).toEqual([
      'output_item.added',
      'reasoning_summary_part.added',
      'reasoning_summary_text.delta',
      'reasoning_summary_text.delta',
      'reasoning_summary_text.done',
      'reasoning_summary_part.done',
    ]);
    expect(new Set(frames.slice(3, 8).map(frame => frame['item_id'])).size).toBe(1);
    const [reasoning] = readLast(frames)['output'] as JsonObject[];
    expect(reasoning).toMatchObject({ type: 'reasoning', summary: [{ type: 'summary_text', text: 'hmm' }] });
    expect(reasoning).not.toHaveProperty('encrypted_content');
  });

  test('US-03: the input includes the tokens that were read from and written to the cache', () => {
    const usage = {
      prompt_tokens: 125,
      completion_tokens: 10,
      total_tokens: 135,
      prompt_tokens_details: { cached_tokens: 100, cache_write_tokens: 5 },
      completion_tokens_details: { reasoning_tokens: 4 },
    };
    expect(readLast(fromChat([{ content: 'Hi' }], 'stop', usage))['usage']).toMatchObject({
      input_tokens: 125,
      input_tokens_details: { cached_tokens: 100 },
      output_tokens: 10,
      output_tokens_details: { reasoning_tokens: 4 },
      total_tokens: 135,
    });
  });

  test('SV-02: citations are flat, each with its position', () => {
    const citation = {
      type: 'url_citation',
      url_citation: { url: 'https://a.test', title: 'A', start_index: 0, end_index: 2 },
    };
    const frames = fromChat([{ content: 'Hi' }, { annotations: [citation] }], 'stop');
    const flat = { type: 'url_citation', url: 'https://a.test', title: 'A', start_index: 0, end_index: 2 };
    expect(frames.find(({ type }) => type === 'response.output_text.annotation.added')).toMatchObject({
      annotation_index: 0,
      annotation: flat,
    });
    expect(readLast(frames)).toMatchObject({ output: [{ content: [{ annotations: [flat] }] }] });
  });

  test('UN-04: half a surrogate pair is held back until its other half comes', () => {
    const frames = fromChat([{ content: 'a\ud83d' }, { content: '\ude00b' }], 'stop');
    const deltas = frames.filter(({ type }) => type === 'response.output_text.delta').map(({ delta }) => delta);
    expect(deltas).toEqual(['a', '😀b']);
  });

  test('FI-09: reasoning, text and a full context of a Messages upstream', () => {
    const text =
      named('message_start', { message: { id: 'm', usage: { input_tokens: 5, output_tokens: 1 } } }) +
      named('content_block_start', { index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } }) +
      named('content_block_delta', { index: 0, delta: { type: 'thinking_delta', thinking: 'hm' } }) +
      named('content_block_delta', { index: 0, delta: { type: 'signature_delta', signature: 'sig' } }) +
      named('content_block_stop', { index: 0 }) +
      named('content_block_start', { index: 1, content_block: { type: 'text', text: '' } }) +
      named('content_block_delta', { index: 1, delta: { type: 'text_delta', text: 'Hi' } }) +
      named('content_block_stop', { index: 1 }) +
      named('message_delta', { delta: { stop_reason: 'model_context_window_exceeded' }, usage: { output_tokens: 9 } }) +
      named('message_stop');
    const last = readLast(render(responsesCodec, parse(messagesCodec, text)));
    expect(last).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
    expect((last['output'] as JsonObject[]).map(({ type }) => type)).toEqual(['reasoning', 'message']);
    // Only the upstream that made a signature can use it, so clients get it encrypted or not at all.
    expect(JSON.stringify(last)).not.toContain('sig"');
  });

  test('calls of tools that the upstream runs are sent only to clients of its protocol', () => {
    const text =
      named('message_start', { message: { id: 'm', usage: { input_tokens: 5, output_tokens: 1 } } }) +
      named('content_block_start', {
        index: 0,
        content_block: { type: 'server_tool_use', id: 's', name: 'web_search', input: { q: 'x' } },
      }) +
      named('content_block_stop', { index: 0 }) +
      named('content_block_start', { index: 1, content_block: { type: 'text', text: 'Hi' } }) +
      named('content_block_stop', { index: 1 }) +
      named('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 9 } }) +
      named('message_stop');
    const frames = render(responsesCodec, parse(messagesCodec, text));
    expect(readLast(frames)['output']).toMatchObject([{ type: 'message' }]);
    expect(frames.filter(({ output_index: index }) => index !== undefined && index !== 0)).toEqual([]);
  });
});

let number = 0;
const event = (type: string, members: JsonObject = {}): string => {
  number += 1;
  return named(`response.${type}`, { sequence_number: number, ...members });
};
const resource = (status: string, more: JsonObject = {}): JsonObject => ({
  response: { id: 'resp_up', object: 'response', status, model: 'm', output: [], usage: null, ...more },
});
const created = event('created', resource('in_progress'));
const completed = (more: JsonObject = {}): string => event('completed', resource('completed', more));
const itemDone = (index: number, item: JsonObject): string => event('output_item.done', { output_index: index, item });
const foldItems = (text: string): unknown[] => {
  const [choice] = foldEvents(parse(responsesCodec, text)).choices;
  return (choice?.items ?? []).map(({ content }) => content.value);
};
const catchFailure = (text: string): string => {
  try {
    parse(responsesCodec, text);
  } catch (thrown) {
    if (thrown instanceof UpstreamFailure)
      return `${thrown.kind} ${thrown.facts.status ?? ''} ${thrown.facts.message ?? ''}`;
    throw thrown;
  }
  return 'none';
};

describe('Responses upstreams', () => {
  const functionCall = {
    type: 'function_call',
    id: 'fc_1',
    call_id: 'c1',
    name: 'f',
    arguments: '{"a":1}',
    status: 'completed',
  };
  const message = {
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: 'Hi', annotations: [], logprobs: [] }],
    phase: 'commentary',
  };

  test('X45, X46: content that is only in the last event of an item is taken from there', () => {
    const text = created + itemDone(0, message) + itemDone(1, functionCall) + completed();
    expect(foldItems(text)).toMatchObject([
      { parts: [{ content: { value: { text: 'Hi' } } }], phase: 1 },
      { callId: 'c1', name: 'f', arguments: '{"a":1}' },
    ]);
  });

  test('content that is only in the final response is taken from there', () => {
    expect(foldItems(created + completed({ output: [message, functionCall] }))).toHaveLength(2);
    expect(foldItems(created + itemDone(0, message) + completed({ output: [message, functionCall] }))).toHaveLength(2);
  });

  test('deltas without a part, and deltas of raw reasoning in both formats, are added to their item', () => {
    const reasoning = { type: 'reasoning', id: 'rs_1', summary: [] };
    for (const type of ['reasoning_text.delta', 'reasoning.delta']) {
      const text =
        created +
        event('output_item.added', { output_index: 0, item: reasoning }) +
        event(type, { output_index: 0, content_index: 0, item_id: 'rs_1', delta: 'hm' }) +
        itemDone(0, { ...reasoning, content: [{ type: 'reasoning_text', text: 'hmm' }], encrypted_content: 'AA' }) +
        completed();
      expect(foldItems(text)).toMatchObject([
        {
          parts: [{ content: { case: 'reasoningText', value: { text: 'hmm' } } }],
          opaque: [
            { provider: 'acme', kind: 'openai.encrypted', data: 'AA' },
            { provider: 'acme', kind: 'openai.item_id', data: 'rs_1' },
          ],
        },
      ]);
    }
  });

  test('LI-05: a stream without a terminal event is a failure', () => {
    expect(catchFailure(created + itemDone(0, message))).toBe('truncated  ');
  });

  test('LI-06: errors in every format are failures', () => {
    expect(catchFailure(created + named('error', { code: 'server_error', message: 'no', param: null }))).toBe(
      'reported 500 no',
    );
    expect(catchFailure(created + named('error', { error: { type: 'too_many_requests', message: 'slow' } }))).toBe(
      'reported 429 slow',
    );
    const failed = resource('failed', { error: { code: 'rate_limit_exceeded', message: 'busy' } });
    expect(catchFailure(created + event('failed', failed))).toBe('reported 429 busy');
    expect(catchFailure(created + event('incomplete', resource('cancelled')))).toBe('reported  ');
  });

  test('reach clients of Chat and Messages', () => {
    const text =
      created +
      itemDone(0, message) +
      itemDone(1, functionCall) +
      completed({ usage: { input_tokens: 3, output_tokens: 2 } });
    const chat = render(chatCodec, parse(responsesCodec, text));
    expect(JSON.stringify(chat)).toContain('"finish_reason":"tool_calls"');
    expect(chat.at(-1)?.['usage']).toMatchObject({ prompt_tokens: 3, completion_tokens: 2 });
    const messages = render(messagesCodec, parse(responsesCodec, text));
    expect(messages.at(-2)).toMatchObject({
      delta: { stop_reason: 'tool_use' },
      usage: { input_tokens: 3, output_tokens: 2 },
    });
    const cut = event('incomplete', resource('incomplete', { incomplete_details: { reason: 'max_output_tokens' } }));
    expect(JSON.stringify(render(chatCodec, parse(responsesCodec, created + itemDone(0, message) + cut)))).toContain(
      '"finish_reason":"length"',
    );
  });

  test('unknown members of the response and its items are passed on to a client of the protocol', () => {
    const text = created + itemDone(0, { ...message, x_item: 1 }) + completed({ x_resource: { a: null } as Json });
    expect(readLast(render(responsesCodec, parse(responsesCodec, text)))).toMatchObject({
      x_resource: { a: null },
      output: [{ type: 'message', x_item: 1, phase: 'commentary' }],
    });
  });

  test('an answer that is not streamed has the same content', () => {
    const whole = { ...objectIn(resource('completed', { output: [message, functionCall] })['response']) };
    const { choices } = foldEvents(responsesCodec.parseWhole(whole, 'acme'));
    expect(choices[0]?.items.map(({ content }) => content.case)).toEqual(['message', 'toolCall']);
    expect(() => responsesCodec.parseWhole({ ...whole, status: 'in_progress' }, 'acme')).toThrow(UpstreamFailure);
    expect(() => responsesCodec.parseWhole({ error: { message: 'no' } }, 'acme')).toThrow('no');
  });
});
