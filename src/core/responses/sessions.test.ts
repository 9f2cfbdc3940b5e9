import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { type Item, ItemSchema } from '../../gen/tollgate/v1/content_pb.ts';
import { systemClock } from '../../lib/clock.ts';
import { Sessions } from './sessions.ts';

const sessions = (): Sessions => new Sessions(systemClock, () => ({ max: 10_000, ownerMax: 5_000 }));
/** Makes an item of about `bytes` bytes. */
const item = (bytes: number): Item =>
  create(ItemSchema, { content: { case: 'serverTool', value: { json: 'x'.repeat(bytes) } } });
const of = (accountId: number, session: string) => ({ accountId, session });

test('an account’s oldest session is evicted for its new ones, and no other account’s is', () => {
  const all = sessions();
  all.keep(of(2, 'other'), 'other', { items: [item(2_000)], ownCount: 1 });
  for (const name of ['a', 'b', 'c']) all.keep(of(1, name), name, { items: [item(2_000)], ownCount: 1 });
  expect(['a', 'b', 'c'].map(name => all.find(of(1, name), name) !== undefined)).toEqual([false, true, true]);
  expect(all.find(of(2, 'other'), 'other')).toBeDefined();
});

test('all accounts together keep no more than the limit: the oldest session is evicted first', () => {
  const all = sessions();
  for (const account of [1, 2, 3]) all.keep(of(account, 's'), 'r', { items: [item(4_000)], ownCount: 1 });
  expect([1, 2, 3].map(account => all.find(of(account, 's'), 'r') !== undefined)).toEqual([false, true, true]);
});

test('sessions that end or are evicted free their memory', () => {
  const all = sessions();
  for (let turn = 0; turn < 20; turn += 1) {
    all.keep(of(1, 'a'), 'r', { items: [item(4_000)], ownCount: 1 });
    if (turn % 2 === 0) all.evict(of(1, 'a'), 'r');
    else all.end(of(1, 'a'));
  }
  all.keep(of(1, 'a'), 'r', { items: [item(4_000)], ownCount: 1 });
  expect(all.find(of(1, 'a'), 'r')).toBeDefined();
});
