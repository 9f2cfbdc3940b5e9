/** Items of Responses upstreams that omit indexes, repeat items or contradict themselves (docs/interfaces/responses.md "Stream"). */
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/codecs/codec.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import { ItemStatus } from '../../src/gen/tollgate/v1/content_pb.ts';
import { FinishReason } from '../../src/gen/tollgate/v1/event_pb.ts';
import { foldEvents } from '../../src/generation/fold.ts';
import { parseChunks } from '../contracts/codec-suite.ts';

const frame = (type: string, members: JsonObject): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`;
const added = (item: JsonObject, more: JsonObject = {}): string =>
  frame('response.output_item.added', { item, ...more });
const done = (item: JsonObject, more: JsonObject = {}): string => frame('response.output_item.done', { item, ...more });
const more = (item_id: string, delta: string, place: JsonObject = {}): string =>
  frame('response.function_call_arguments.delta', { item_id, delta, ...place });
const said = (item_id: string, delta: string, place: JsonObject = {}): string =>
  frame('response.output_text.delta', { item_id, content_index: 0, delta, ...place });
const ended = (output: JsonObject[], members: JsonObject = {}): string =>
  frame('response.completed', { response: { object: 'response', status: 'completed', output, ...members } });
const call = (id: string, name: string, args = ''): JsonObject => ({
  id,
  type: 'function_call',
  call_id: `call_${id}`,
  name,
  arguments: args,
});
const message = (id: string, ...content: JsonObject[]): JsonObject => ({
  id,
  type: 'message',
  role: 'assistant',
  content,
});
const text = (value: string): JsonObject => ({ type: 'output_text', text: value, annotations: [] });

/** Parses frames, and returns a summary of the items. */
function foldItems(...frames: string[]): string[] {
  const { choices } = foldEvents(parseChunks(responsesCodec, 'acme', [Buffer.from(frames.join(''))]));
  return (choices[0]?.items ?? []).map(({ content }) => {
    if (content.case === 'toolCall') return `${content.value.name}(${content.value.arguments})`;
    if (content.case === 'serverTool') return content.value.json;
    const parts = content.case === 'message' || content.case === 'reasoning' ? content.value.parts : [];
    return parts.map(part => `${part.content.case}: ${(part.content.value as { text: string }).text}`).join(', ');
  });
}

describe('a server without output_index', () => {
  test('has its calls distinguished by their ids, also if they interleave', () => {
    const [first, second] = [call('a', 'f', '{"x":1}'), call('b', 'g', '{"y":2}')];
    const items = foldItems(
      added(call('a', 'f')),
      added(call('b', 'g')),
      more('a', '{"x"'),
      more('b', '{"y"'),
      more('a', ':1}'),
      more('b', ':2}'),
      done(first),
      done(second),
      ended([first, second]),
    );
    expect(items).toEqual(['f({"x":1})', 'g({"y":2})']);
  });

  test('and without ids in deltas: each delta continues the item that began last', () => {
    const items = foldItems(
      added(message('m')),
      frame('response.output_text.delta', { delta: 'Hello' }),
      done(message('m', text('Hello'))),
      added(call('a', 'f')),
      frame('response.function_call_arguments.delta', { delta: '{}' }),
      ended([message('m', text('Hello')), call('a', 'f', '{}')]),
    );
    expect(items).toEqual(['text: Hello', 'f({})']);
  });

  test('that sends 0 for every item: items are distinguished by their ids', () => {
    const at = { output_index: 0 };
    const items = foldItems(
      added(call('a', 'f'), at),
      added(call('b', 'g'), at),
      more('a', '{"x":1}', at),
      more('b', '{"y":2}', at),
      done(call('a', 'f', '{"x":1}'), at),
      done(call('b', 'g', '{"y":2}'), at),
      ended([call('a', 'f', '{"x":1}'), call('b', 'g', '{"y":2}')]),
    );
    expect(items).toEqual(['f({"x":1})', 'g({"y":2})']);
  });
});

describe('a final output that differs from what was streamed', () => {
  test('with an item of another kind at the same index loses nothing', () => {
    const items = foldItems(
      added(message('m'), { output_index: 0 }),
      said('m', 'Hello', { output_index: 0 }),
      ended([call('a', 'f', '{}')]),
    );
    expect(items).toEqual(['text: Hello', 'f({})']);
  });

  test('with new ids is recognized as the same output', () => {
    const items = foldItems(
      added(message('m1'), { output_index: 0 }),
      said('m1', 'Hello', { output_index: 0 }),
      done(message('m2', text('Hello')), { output_index: 0 }),
      added(call('c1', 'f'), { output_index: 1 }),
      more('c1', '{}', { output_index: 1 }),
      ended([message('m3', text('Hello')), { ...call('c2', 'f', '{}'), call_id: 'call_c1' }]),
    );
    expect(items).toEqual(['text: Hello', 'f({})']);
  });

  test('with another message than the streamed one has both', () => {
    const items = foldItems(
      added(message('m1'), { output_index: 0 }),
      said('m1', 'Hello', { output_index: 0 }),
      done(message('m1', text('Hello')), { output_index: 0 }),
      ended([message('m9', text('Bye'))]),
    );
    expect(items).toEqual(['text: Hello', 'text: Bye']);
  });

  test('with a part of another kind adds that part', () => {
    const refusal = { type: 'refusal', refusal: 'No.' };
    const streamed = [added(message('m'), { output_index: 0 }), said('m', 'Well', { output_index: 0 })];
    expect(foldItems(...streamed, ended([message('m', refusal)]))).toEqual(['text: Well, refusal: No.']);
    const whole = [...streamed, done(message('m', text('Well')), { output_index: 0 })];
    expect(foldItems(...whole, ended([message('m', text('Well'), refusal)]))).toEqual(['text: Well', 'refusal: No.']);
  });

  test('that lacks a streamed item keeps it', () => {
    const search = { id: 'ws', type: 'web_search_call', status: 'in_progress' };
    const items = foldItems(added(search, { output_index: 0 }), added(call('a', 'f'), { output_index: 1 }), ended([]));
    expect(items).toEqual(['f({})', JSON.stringify(search)]);
  });
});

test('a call without arguments is incomplete at the end of a cut answer, and complete elsewhere', () => {
  const listStatuses = (...frames: string[]): (ItemStatus | undefined)[] => {
    const { choices } = foldEvents(parseChunks(responsesCodec, 'acme', [Buffer.from(frames.join(''))]));
    return (choices[0]?.items ?? []).map(({ status }) => status);
  };
  const items = [call('a', 'f'), call('b', 'g')];
  const cut = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };
  expect(listStatuses(...items.map(item => done(item)), ended(items, cut))).toEqual([
    ItemStatus.COMPLETED,
    ItemStatus.INCOMPLETE,
  ]);
  expect(listStatuses(...items.map(item => done(item)), ended(items))).toEqual([
    ItemStatus.COMPLETED,
    ItemStatus.COMPLETED,
  ]);
});

test('unknown events reach a client of Responses unchanged', () => {
  const strange = { type: 'response.web_search_call.searching', item_id: 'ws', output_index: 0, query: { q: 'x' } };
  const reason = { status: 'incomplete', incomplete_details: { reason: 'acme_quota' } };
  const frames = [
    added(message('m')),
    frame(strange.type, strange),
    said('m', 'Hi'),
    ended([message('m', text('Hi'))], reason),
  ];
  const events = parseChunks(responsesCodec, 'acme', [Buffer.from(frames.join(''))]);
  expect(foldEvents(events).choices[0]?.finished).toMatchObject({ reason: FinishReason.LENGTH, native: 'acme_quota' });
  const request = responsesCodec.decodeRequest({
    body: { model: 'm', input: 'x' },
    raw: Buffer.from('{}'),
    headers: {},
  });
  const renderer = responsesCodec.renderStream(request);
  const reported = events.map(event => renderer.push(event)).join('') + renderer.end();
  const data = [...reported.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json ?? '') as JsonObject);
  expect(data.map(each => each['sequence_number'])).toEqual(data.map((_, index) => index));
  expect(data).toContainEqual({ ...strange, sequence_number: expect.any(Number) });
  expect(data.at(-1)).toMatchObject({ response: { incomplete_details: { reason: 'acme_quota' } } });
});
