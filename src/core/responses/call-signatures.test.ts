import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Item, ItemSchema } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { delta, finished, itemClosed, itemOpened, started } from '../../generation/events.ts';
import { foldEvents } from '../../generation/fold.ts';
import { CallSignatures, withCallSignatures } from './call-signatures.ts';

const message = (): Item => create(ItemSchema, { content: { case: 'message', value: {} } });
const call = (callId: string, signature?: string): Item =>
  create(ItemSchema, {
    content: {
      case: 'toolCall',
      value: {
        callId,
        name: 'f',
        ...(signature === undefined
          ? {}
          : { signature: { provider: 'p', kind: 'gemini.thought_signature', data: signature } }),
      },
    },
  });

/** Makes an answer of the items; each call has its id as arguments. */
function answer(items: readonly Item[]): GenerationEvent[] {
  const said = items.flatMap((item, number) => [
    itemOpened(0, number, item),
    ...(item.content.case === 'toolCall'
      ? [delta(0, [number, 0], { kind: DeltaKind.ARGUMENTS, text: item.content.value.callId })]
      : []),
    itemClosed(0, number),
  ]);
  return [started({}), ...said, finished(0, FinishReason.STOP)];
}

/** Describes items in short: a message as 'm', a reasoning item as its blobs, a call as its id and arguments. */
function short(events: readonly GenerationEvent[]): string[] {
  return (foldEvents(events).choices[0]?.items ?? []).map(({ content }) => {
    if (content.case === 'reasoning') return `<${content.value.opaque.map(({ data }) => data).join()}>`;
    if (content.case !== 'toolCall') return 'm';
    const { callId, arguments: text, signature } = content.value;
    return `${callId}(${text})${signature === undefined ? '' : '!'}`;
  });
}

test('an answer without signatures passes unchanged, as the same objects', () => {
  const events = answer([message(), call('a'), call('b')]);
  const signatures = new CallSignatures();
  expect(signatures.push(events)).toEqual(events);
});

test('a signature comes before its call, as a separate item', () => {
  const signatures = new CallSignatures();
  const events = answer([message(), call('a', 'S1'), call('b'), call('c', 'S2')]);
  expect(short(signatures.push(events))).toEqual(['m', '<S1>', 'a(a)', 'b(b)', '<S2>', 'c(c)']);
});

test('items are numbered without gaps, events are in a valid order, and the same events pushed twice give the same result', () => {
  const item = fc.oneof(
    fc.constant('m' as const),
    fc.record({ id: fc.string({ minLength: 1, maxLength: 4 }), signature: fc.option(fc.string({ minLength: 1 })) }),
  );
  fc.assert(
    fc.property(fc.array(item, { maxLength: 8 }), fc.nat(), (items, cut) => {
      const events = answer(items.map(each => (each === 'm' ? message() : call(each.id, each.signature ?? undefined))));
      const signatures = new CallSignatures();
      const all = signatures.push(events);
      const opened = all.flatMap(({ event }) => (event.case === 'itemOpened' ? [event.value.item] : []));
      expect(opened).toEqual(opened.map((_, index) => index));
      const expected = items.flatMap(each => {
        if (each === 'm') return ['m'];
        return [...(each.signature === null ? [] : [`<${each.signature}>`]), `${each.id}(${each.id})`];
      });
      expect(short(all)).toEqual(expected);
      const rest = events.slice(cut % (events.length + 1));
      const again = signatures.push(rest);
      expect(again).toEqual(all.slice(all.length - again.length));
    }),
  );
});

describe('on the way back', () => {
  const reasoning = (...blobs: readonly (readonly [kind: string, data: string])[]): Item =>
    create(ItemSchema, {
      content: {
        case: 'reasoning',
        value: { opaque: blobs.map(([kind, data]) => ({ provider: 'p', kind, data })) },
      },
    });
  const seen = (items: readonly Item[]): string[] =>
    items.map(({ content }) => {
      if (content.case === 'reasoning') return `<${content.value.opaque.map(({ data }) => data).join()}>`;
      return content.case === 'toolCall' ? `${content.value.callId}${content.value.signature?.data ?? ''}` : 'm';
    });

  test('each call has its signature again', () => {
    fc.assert(
      fc.property(fc.array(fc.option(fc.option(fc.constantFrom('S1', 'S2')))), signs => {
        const items = signs.map((sign, index) => (sign === null ? message() : call(`${index}`, sign ?? undefined)));
        const signatures = new CallSignatures();
        const events = signatures.push(answer(items));
        const shown = foldEvents(events).choices[0]?.items ?? [];
        expect(seen(withCallSignatures(shown))).toEqual(seen(items));
      }),
    );
  });

  test.each<[string, Item[], string[]]>([
    [
      'reasoning with other content',
      [reasoning(['gemini.thought_signature', 'S'], ['x', 'Y']), call('a')],
      ['<S,Y>', 'a'],
    ],
    ['reasoning of another kind', [reasoning(['openai.encrypted', 'E']), call('a')], ['<E>', 'a']],
    ['a signature before a text', [reasoning(['gemini.thought_signature', 'S']), message()], ['<S>', 'm']],
    ['a signature at the end', [reasoning(['gemini.thought_signature', 'S'])], ['<S>']],
    [
      'a call that already has a signature',
      [reasoning(['gemini.thought_signature', 'S']), call('a', 'T')],
      ['<S>', 'aT'],
    ],
  ])('%s stay as they are', (_, items, expected) => {
    expect(seen(withCallSignatures(items))).toEqual(expected);
  });
});
