import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Item, ItemStatus, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { completed, delta, finished, itemClosed, itemOpened, started } from '../events.ts';
import { through } from './answers.fixtures.ts';
import { itemNumber, Serialiser } from './serialise.ts';
import { Validator } from './validate.ts';

function call(name: string, kind: ToolKind = ToolKind.FUNCTION): Item {
  return {
    $typeName: 'tollgate.v1.Item',
    id: '',
    status: ItemStatus.IN_PROGRESS,
    turn: 0,
    content: {
      case: 'toolCall',
      value: { $typeName: 'tollgate.v1.ToolCall', callId: `call_${name}`, name, kind, arguments: '' },
    },
  };
}

const argumentsDelta = (item: number, value: string): GenerationEvent =>
  delta(0, [item, 0], { kind: DeltaKind.ARGUMENTS, text: value });

function serialised(events: readonly GenerationEvent[]): GenerationEvent[] {
  return through(next => new Serialiser(next), events);
}

/** Returns the arguments of each call, by the number of its item. */
function readArguments(events: readonly GenerationEvent[]): string[] {
  const texts: string[] = [];
  for (const { event } of events) {
    if (event.case === 'itemOpened') texts[event.value.item] = '';
    if (event.case === 'delta') texts[event.value.item] = (texts[event.value.item] ?? '') + event.value.text;
  }
  return texts;
}

describe('Serialiser', () => {
  test('two interleaved calls come out one after the other, in the order in which they opened', () => {
    const events = serialised([
      itemOpened(0, 0, call('a')),
      argumentsDelta(0, '{"x"'),
      itemOpened(0, 1, call('b')),
      argumentsDelta(1, '{"y"'),
      argumentsDelta(0, ':1}'),
      argumentsDelta(1, ':2}'),
      itemClosed(0, 0),
      itemClosed(0, 1),
    ]);
    expect(events.map(event => [event.event.case, itemNumber(event)])).toEqual([
      ['itemOpened', 0],
      ['delta', 0],
      ['delta', 0],
      ['itemClosed', 0],
      ['itemOpened', 1],
      ['delta', 1],
      ['delta', 1],
      ['itemClosed', 1],
    ]);
    expect(readArguments(events)).toEqual(['{"x":1}', '{"y":2}']);
  });

  test('a complete function call without arguments gets {}; a custom call or an incomplete one does not', () => {
    const closing = (kind: ToolKind, status: ItemStatus): string[] =>
      readArguments(serialised([itemOpened(0, 0, call('a', kind)), argumentsDelta(0, ''), itemClosed(0, 0, status)]));
    expect(closing(ToolKind.FUNCTION, ItemStatus.COMPLETED)).toEqual(['{}']);
    expect(closing(ToolKind.CUSTOM, ItemStatus.COMPLETED)).toEqual(['']);
    expect(closing(ToolKind.FUNCTION, ItemStatus.INCOMPLETE)).toEqual(['']);
  });

  test('any interleaving of calls comes out in a valid order, each with its complete arguments', () => {
    const schedule = fc.array(fc.array(fc.string({ minLength: 1, maxLength: 3 }), { maxLength: 4 }), {
      minLength: 1,
      maxLength: 5,
    });
    fc.assert(
      fc.property(schedule, fc.infiniteStream(fc.nat()), (items, picks) => {
        const events = interleave(items, picks);
        const out = serialised(events);
        const validator = new Validator([]);
        for (const event of [started({}), ...out, finished(0, FinishReason.TOOL_CALLS), completed({})])
          validator.push(event);
        validator.end();
        const wanted = items.map(parts => parts.join('') || '{}');
        expect(readArguments(out).toSorted()).toEqual(wanted.toSorted());
      }),
    );
  });
});

/** Interleaves the events of items, which open, emit their parts and close. `picks` selects the item of each event. */
function interleave(items: readonly (readonly string[])[], picks: Iterable<number>): GenerationEvent[] {
  const queues = items.map((parts, item) => [
    itemOpened(0, item, call(`t${item}`)),
    ...parts.map(part => argumentsDelta(item, part)),
    itemClosed(0, item),
  ]);
  const events: GenerationEvent[] = [];
  for (const pick of picks) {
    const left = queues.filter(queue => queue.length > 0);
    const next = left[pick % left.length]?.shift();
    if (next === undefined) break;
    events.push(next);
  }
  return events;
}
