/** Tool calls of Chat upstreams, in all ways in which servers distinguish them. Ids name cases of `test/translation/cases.json`. */
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/codecs/codec.ts';
import { ItemStatus, ToolKind } from '../../src/gen/tollgate/v1/content_pb.ts';
import { FinishReason } from '../../src/gen/tollgate/v1/event_pb.ts';
import { foldEvents } from '../../src/generation/fold.ts';
import {
  args,
  called,
  calls,
  chunk,
  done,
  events,
  catchFailure,
  finish,
  foldItems,
  parsed,
  short,
  foldShort,
  tool,
} from './chat-chunks.ts';

describe('tool calls', () => {
  test('of the official form', () => {
    expect(foldShort(calls(tool(0, 'a', 'f')), calls(args(0, '{"x"')), calls(args(0, ':1}')), called, done)).toEqual([
      'a:f({"x":1})',
    ]);
  });

  test('that come one after the other are passed on at once: a call is closed when the next one opens (TS-01)', () => {
    const kinds = parsed(calls(tool(0, 'a', 'f', '{}')), calls(tool(1, 'b', 'g', '{}')), called, done).map(
      ({ event }) => event.case,
    );
    expect(kinds).toEqual([
      'started',
      'itemOpened',
      'delta',
      'itemClosed',
      'itemOpened',
      'delta',
      'itemClosed',
      'finished',
      'completed',
    ]);
  });

  test('with all arguments in the first entry (TS-17)', () => {
    expect(foldShort(calls(tool(0, 'a', 'f', '{"x":1}')), called, done)).toEqual(['a:f({"x":1})']);
  });

  test('several in one chunk (TS-08)', () => {
    expect(foldShort(calls(tool(0, 'a', 'f', '{}'), tool(1, 'b', 'g', '{}')), called, done)).toEqual([
      'a:f({})',
      'b:g({})',
    ]);
  });

  test('interleaved: each has its own arguments, one after the other (TS-05, TS-07)', () => {
    const mixed = [
      calls(tool(0, 'a', 'f'), tool(1, 'b', 'g')),
      calls(args(0, '{"x"')),
      calls(args(1, '{"y"')),
      calls(args(0, ':1}'), args(1, ':2}')),
    ];
    expect(foldShort(...mixed, called, done)).toEqual(['a:f({"x":1})', 'b:g({"y":2})']);
  });

  test('without index are distinguished by id (TS-04)', () => {
    const entry = (id: string, name: string, text: string): JsonObject => ({
      id,
      type: 'function',
      function: { name, arguments: text },
    });
    expect(
      foldShort(
        calls(entry('a', 'f', '{"x":')),
        calls(entry('a', 'f', '1}')),
        calls(entry('b', 'g', '{}')),
        called,
        done,
      ),
    ).toEqual(['a:f({"x":1})', 'b:g({})']);
  });

  test('without index and id: a name begins another call, everything else continues the last (TS-04)', () => {
    const stream = [
      calls({ id: 'a', function: { name: 'f', arguments: '{"x"' } }),
      calls({ function: { arguments: ':1}' } }),
      calls({ id: 'b', function: { name: 'g' } }),
      calls({ function: { arguments: '{}' } }),
    ];
    expect(foldShort(...stream, called, done)).toEqual(['a:f({"x":1})', 'b:g({})']);
    const nameless = foldItems(
      calls({ function: { name: 'f', arguments: '{}' } }),
      calls({ function: { name: 'g', arguments: '{}' } }),
      called,
      done,
    );
    expect(short(nameless).map(text => text.replace(/^call_[0-9a-f]{24}:/, ''))).toEqual(['f({})', 'g({})']);
  });

  test('without index and id are distinguished by their position in the list (TS-04)', () => {
    const two = [
      calls({ function: { name: 'f' } }, { function: { name: 'g' } }),
      calls({ function: { arguments: '{"x":1}' } }, { function: { arguments: '{"y":2}' } }),
    ];
    expect(short(foldItems(...two, called, done)).map(text => text.replace(/^call_[0-9a-f]{24}:/, ''))).toEqual([
      'f({"x":1})',
      'g({"y":2})',
    ]);
  });

  test('that share the index 0 are distinguished by id (B1)', () => {
    expect(
      foldShort(calls(tool(0, 'a', 'f', '{}')), calls(tool(0, 'b', 'g', '{"y"')), calls(args(0, ':2}')), called, done),
    ).toEqual(['a:f({})', 'b:g({"y":2})']);
  });

  test('with id, type and name in every delta have them once (TS-24)', () => {
    expect(
      foldShort(
        calls(tool(0, 'a', 'f', '{"x"')),
        calls(tool(0, 'a', 'f', ':1}')),
        calls(tool(0, 'a', 'f', '')),
        called,
        done,
      ),
    ).toEqual(['a:f({"x":1})']);
  });

  test('with the name but no id in every delta, also in the last one, are one call (TS-24)', () => {
    const repeated = (text: string): string => calls({ index: 0, function: { name: 'f', arguments: text } });
    const found = foldShort(repeated('{"x"'), repeated(':1}'), repeated(''), called, done);
    expect(found.map(text => text.replace(/^call_[0-9a-f]{24}:/, ''))).toEqual(['f({"x":1})']);
  });

  test('with null and empty members in later deltas (TS-16)', () => {
    const continued = { index: 0, id: null, type: null, function: { name: null, arguments: ':1}' } };
    const empty = { index: 0, id: '', type: '', function: { name: '', arguments: '' } };
    expect(foldShort(calls(tool(0, 'a', 'f', '{"x"')), calls(continued), calls(empty), called, done)).toEqual([
      'a:f({"x":1})',
    ]);
  });

  test('whose name comes in the second chunk only (TS-16)', () => {
    expect(
      foldShort(
        calls({ index: 0, id: 'a', type: 'function' }),
        calls({ index: 0, function: { name: 'f', arguments: '{}' } }),
        called,
        done,
      ),
    ).toEqual(['a:f({})']);
  });

  test('whose first index is 1 (B1)', () => {
    expect(foldShort(calls(tool(1, 'a', 'f', '{}')), calls(tool(2, 'b', 'g', '{}')), called, done)).toEqual([
      'a:f({})',
      'b:g({})',
    ]);
  });

  test('without an id get one, the same for the same answer (TR-10)', () => {
    const stream = [
      calls({ index: 0, function: { name: 'f', arguments: '{}' } }),
      calls({ index: 1, function: { name: 'f', arguments: '{}' } }),
      called,
      done,
    ];
    const [first = '', second = ''] = foldShort(...stream);
    expect(first).toMatch(/^call_[0-9a-f]{24}:f\(\{\}\)$/);
    expect(second).not.toBe(first);
    expect(foldShort(...stream)).toEqual([first, second]);
    const other = stream.map(each => each.replace('chatcmpl-up', 'chatcmpl-other'));
    expect(foldShort(...other)[0]).not.toBe(first);
  });

  test('without arguments get {} (TS-10)', () => {
    expect(
      foldShort(
        calls(tool(0, 'a', 'f')),
        calls({ index: 1, id: 'b', type: 'function', function: { name: 'g' } }),
        called,
        done,
      ),
    ).toEqual(['a:f({})', 'b:g({})']);
  });

  test('whose arguments are a JSON object instead of text', () => {
    expect(foldShort(calls({ index: 0, id: 'a', function: { name: 'f', arguments: { x: 1 } } }), called, done)).toEqual(
      ['a:f({"x":1})'],
    );
  });

  test('of the deprecated form', () => {
    const stream = [
      chunk({ function_call: { name: 'f', arguments: '' } }),
      chunk({ function_call: { arguments: '{"x":1}' } }),
    ];
    const answer = foldEvents(events(...stream, finish('function_call'), done));
    expect(short(answer.choices[0]?.items ?? [])[0]).toMatch(/^call_[0-9a-f]{24}:f\(\{"x":1\}\)$/);
    expect(answer.choices[0]?.finished).toMatchObject({ reason: FinishReason.TOOL_CALLS, native: 'function_call' });
  });

  test('of custom tools', () => {
    const stream = [
      calls({ index: 0, id: 'a', type: 'custom', custom: { name: 'sql', input: 'SELECT' } }),
      calls({ index: 0, custom: { input: ' 1' } }),
    ];
    const [item] = foldItems(...stream, called, done);
    expect(item?.content.value).toMatchObject({ callId: 'a', kind: ToolKind.CUSTOM, arguments: 'SELECT 1' });
  });

  test('in an empty list make no item (TS-11)', () => {
    expect(foldShort(chunk({ content: 'hi', tool_calls: [] }), finish('stop'), done)).toEqual(['hi']);
  });

  test('with Gemini’s signature carry it as an opaque blob of the provider (RE-23)', () => {
    const signed = { ...tool(0, 'a', 'f', '{}'), extra_content: { google: { thought_signature: 'SIG' } } };
    const [item] = foldItems(calls(signed), called, done);
    expect(item?.content.value).toMatchObject({
      signature: { provider: 'acme', kind: 'gemini.thought_signature', data: 'SIG' },
    });
    expect(item?.extra).toBeUndefined();
  });

  test('cut by the limit are incomplete, never {} (FI-03)', () => {
    const [whole, cut] = foldItems(
      calls(tool(0, 'a', 'f', '{}')),
      calls(tool(1, 'b', 'g', '{"y"')),
      finish('length'),
      done,
    );
    expect([whole?.status, cut?.status]).toEqual([ItemStatus.COMPLETED, ItemStatus.INCOMPLETE]);
    expect(short(cut === undefined ? [] : [cut])).toEqual(['b:g({"y")']);
  });

  test('a call that continues after its arguments were complete is malformed; whitespace after it is ignored', () => {
    const stream = [calls(tool(0, 'a', 'f', '{}')), calls(tool(1, 'b', 'g', '{}'))];
    expect(catchFailure(() => events(...stream, calls(args(0, '{"z":1}')), called, done)).kind).toBe('malformed');
    expect(foldShort(...stream, calls(args(0, '\n')), called, done)).toEqual(['a:f({})', 'b:g({})']);
  });

  test('the finish reason for calls without a call is malformed (FI-12)', () => {
    expect(catchFailure(() => events(chunk({ content: 'hi' }), called, done)).kind).toBe('malformed');
  });

  test('a call that never gets a name is malformed', () => {
    expect(
      catchFailure(() => events(calls({ index: 0, id: 'a', function: { arguments: '{}' } }), called, done)).kind,
    ).toBe('malformed');
  });
});
