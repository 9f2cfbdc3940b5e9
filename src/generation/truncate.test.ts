import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Item, ItemSchema, Role } from '../gen/tollgate/v1/content_pb.ts';
import { withoutOldest } from './truncate.ts';
import { renumberTurns } from './turns.ts';

const message = (role: Role, id: string): Item =>
  create(ItemSchema, { id, content: { case: 'message', value: { role } } });
const call = (callId: string): Item =>
  create(ItemSchema, { id: `call ${callId}`, content: { case: 'toolCall', value: { callId } } });
const result = (callId: string): Item =>
  create(ItemSchema, { id: `result ${callId}`, content: { case: 'toolResult', value: { callId } } });

/** Returns the ids of the items that are kept; each item counts 10 tokens. */
function kept(items: readonly Item[], surplus: number): string[] | undefined {
  const counted = renumberTurns(items).map(item => ({ item, tokens: 10 }));
  return withoutOldest(counted, surplus)?.map(({ id }) => id);
}

const conversation = [
  message(Role.DEVELOPER, 'rules'),
  message(Role.USER, 'first'),
  message(Role.ASSISTANT, 'thinking aloud'),
  call('a'),
  result('a'),
  message(Role.ASSISTANT, 'answer'),
  message(Role.USER, 'last'),
];

test('the oldest items are dropped, but never system and developer messages', () => {
  expect(kept(conversation, 0)).toHaveLength(7);
  expect(kept(conversation, 1)).toEqual(['rules', 'thinking aloud', 'call a', 'result a', 'answer', 'last']);
});

test('a call is dropped together with its result and the content of its turn', () => {
  expect(kept(conversation, 11)).toEqual(['rules', 'answer', 'last']);
});

test('RE-11: reasoning is dropped or kept together with the output that it led to', () => {
  const reasoning = (id: string): Item => create(ItemSchema, { id, content: { case: 'reasoning', value: {} } });
  const items = [
    message(Role.USER, 'first'),
    reasoning('of a'),
    call('a'),
    result('a'),
    reasoning('of answer'),
    message(Role.ASSISTANT, 'answer'),
    message(Role.USER, 'last'),
  ];
  expect(kept(items, 10)).toEqual(['of a', 'call a', 'result a', 'of answer', 'answer', 'last']);
  expect(kept(items, 11)).toEqual(['of answer', 'answer', 'last']);
  expect(kept(items, 41)).toEqual(['last']);
});

test('the last item is kept, even if it alone is too long', () => {
  expect(kept(conversation, 50)).toEqual(['rules', 'last']);
  expect(kept(conversation, 51)).toBeUndefined();
});

test('a call is never kept without its result, and no more is dropped than necessary', () => {
  const step = fc.oneof(
    fc.constant('user' as const),
    fc.constant('assistant' as const),
    fc.constant('developer' as const),
    fc.integer({ min: 1, max: 3 }),
  );
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), fc.nat(150), (steps, surplus) => {
      const items: Item[] = [];
      for (const [at, each] of steps.entries()) {
        if (typeof each === 'number') {
          const ids = Array.from({ length: each }, (_, n) => `${at}.${n}`);
          items.push(...ids.map(call), ...ids.map(result));
        } else items.push(message(Role[each.toUpperCase() as 'USER'], `${each} ${at}`));
      }
      const stays = kept(items, surplus);
      if (stays === undefined) return;
      const gone = items.length - stays.length;
      expect(gone * 10).toBeGreaterThanOrEqual(surplus);
      for (const id of stays) {
        if (id.startsWith('call ')) expect(stays).toContain(id.replace('call', 'result'));
        if (id.startsWith('result ')) expect(stays).toContain(id.replace('result', 'call'));
      }
      expect(stays.filter(id => id.startsWith('developer'))).toHaveLength(
        items.filter(({ id }) => id.startsWith('developer')).length,
      );
      expect(stays.at(-1)).toBe(items.at(-1)?.id);
    }),
  );
});
