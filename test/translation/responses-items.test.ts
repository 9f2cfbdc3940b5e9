/** Items of Responses upstreams that omit indexes, repeat items or contradict themselves (docs/interfaces/responses.md "Stream"). */
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/codecs/codec.ts';
import { textIn } from '../../src/codecs/json.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import { ItemStatus } from '../../src/gen/tollgate/v1/content_pb.ts';
import { FinishReason } from '../../src/gen/tollgate/v1/event_pb.ts';
import { foldEvents } from '../../src/generation/fold.ts';
import { Guard } from '../../src/generation/guard/guard.ts';
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
    expect(items).toEqual([JSON.stringify(search), 'f({})']);
  });
});

/** Returns the events that a Responses client gets for the frames of a Responses upstream. */
function relay(...frames: string[]): JsonObject[] {
  const request = responsesCodec.decodeRequest({
    body: { model: 'm', input: 'x' },
    raw: Buffer.from('{}'),
    headers: {},
  });
  const guard = new Guard(request.request, { limit: Infinity });
  const renderer = responsesCodec.renderStream(request);
  const events = guard.push(parseChunks(responsesCodec, 'acme', [Buffer.from(frames.join(''))]));
  const sent = events.map(event => renderer.push(event)).join('') + renderer.end();
  return [...sent.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json ?? '') as JsonObject);
}
const summarise = (events: readonly JsonObject[]): string[] =>
  events.slice(2, -1).map(({ type, output_index }) => `${JSON.stringify(output_index)} ${textIn(type).slice(9)}`);
const stateEvent = (name: string, id: string, index: number): string =>
  frame(`response.${name}`, { item_id: id, output_index: index });

describe('tools that the provider runs', () => {
  // As OpenAI and xAI stream them (2026-07).
  const search = { id: 'ws', type: 'web_search_call', status: 'in_progress' };
  const searched = { ...search, status: 'completed', action: { type: 'search', query: 'x' } };

  test('open when the provider says so, before their events', () => {
    const events = relay(
      added(search, { output_index: 0 }),
      stateEvent('web_search_call.in_progress', 'ws', 0),
      stateEvent('web_search_call.completed', 'ws', 0),
      done(searched, { output_index: 0 }),
      added(message('m'), { output_index: 1 }),
      said('m', 'Hi', { output_index: 1 }),
      done(message('m', text('Hi')), { output_index: 1 }),
      ended([searched, message('m', text('Hi'))]),
    );
    expect(summarise(events).slice(0, 5)).toEqual([
      '0 output_item.added',
      '0 web_search_call.in_progress',
      '0 web_search_call.completed',
      '0 output_item.done',
      '1 output_item.added',
    ]);
    expect(events[2]).toMatchObject({ item: search });
    expect(events[5]).toMatchObject({ item: searched });
    expect(events.at(-1)).toMatchObject({ response: { output: [searched, { type: 'message' }] } });
  });

  test('hold back neither other items nor their own events when they run at the same time', () => {
    const [first, second] = ['a', 'b'].map(id => ({ id, type: 'mcp_list_tools', server_label: id, tools: [] }));
    const whole = { ...first, tools: [{ name: 't' }] };
    const events = relay(
      added(call('c', 'f'), { output_index: 0 }),
      added(first ?? {}, { output_index: 1 }),
      stateEvent('mcp_list_tools.in_progress', 'a', 1),
      done(call('c', 'f', '{"x":1}'), { output_index: 0 }),
      added(second ?? {}, { output_index: 2 }),
      added(message('m'), { output_index: 3 }),
      said('m', 'Hi', { output_index: 3 }),
      stateEvent('mcp_list_tools.completed', 'b', 2),
      done(second ?? {}, { output_index: 2 }),
      said('m', ' there', { output_index: 3 }),
      ended([call('c', 'f', '{"x":1}'), whole, second ?? {}, message('m', text('Hi there'))]),
    );
    expect(summarise(events)).toEqual([
      '0 output_item.added',
      '0 function_call_arguments.delta',
      '0 function_call_arguments.done',
      '0 output_item.done',
      '1 output_item.added',
      '1 mcp_list_tools.in_progress',
      '2 output_item.added',
      '3 output_item.added',
      '3 content_part.added',
      '3 output_text.delta',
      '2 mcp_list_tools.completed',
      '2 output_item.done',
      '3 output_text.delta',
      '1 output_item.done',
      '3 output_text.done',
      '3 content_part.done',
      '3 output_item.done',
    ]);
    expect(events.find(({ type, output_index }) => type === 'response.output_item.done' && output_index === 1)).toEqual(
      expect.objectContaining({ item: whole }),
    );
  });
});

test('a part whose index does not begin at 0 is shown once, and parts are matched by their order', () => {
  const place = { output_index: 0, content_index: 1 };
  expect(
    foldItems(
      added(message('m'), place),
      frame('response.content_part.added', { item_id: 'm', ...place, part: text('') }),
      said('m', 'It is ', place),
      said('m', 'Rome.', place),
      frame('response.content_part.done', { item_id: 'm', ...place, part: text('It is Rome.') }),
      done(message('m', text('It is Rome.')), { output_index: 0 }),
      ended([message('m', text('It is Rome.'))]),
    ),
  ).toEqual(['text: It is Rome.']);
  const second = { ...place, content_index: 2 };
  const whole = message('m', text('One.'), text('Two.'), text('Three.'));
  expect(
    foldItems(added(message('m')), said('m', 'One.', place), said('m', 'Two.', second), done(whole), ended([whole])),
  ).toEqual(['text: One., text: Two., text: Three.']);
});

test('a complete part at another index than its deltas is not another part', () => {
  const part = { item_id: 'm', content_index: 0, part: text('Rome.') };
  expect(
    foldItems(
      added(message('m')),
      said('m', 'Ro', { content_index: 1 }),
      frame('response.content_part.done', part),
      ended([message('m', text('Rome.'))]),
    ),
  ).toEqual(['text: Rome.']);
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
