import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ApiKeySchema, GroupSchema, LimitSchema } from '../../../gen/tollgate/v1/account_pb.ts';
import { bindingLimits, groupsAbove, payersInOrder } from './order.ts';

const outer = create(GroupSchema, { groupId: 1n, name: 'outer', balanceNanoUsd: 5n });
const inner = create(GroupSchema, { groupId: 2n, name: 'inner', parentGroupId: 1n });
const apiKey = create(ApiKeySchema, {
  apiKeyId: 9n,
  accountId: 3n,
  groupId: 2n,
  useSubsFirst: true,
  fallbackToPayg: true,
});

test('limits decide from the key up, and only those that count the model', () => {
  const limits = [
    create(LimitSchema, { limitId: 1n, scope: 'account', scopeId: 3n }),
    create(LimitSchema, { limitId: 2n, scope: 'group', scopeId: 1n, models: { models: ['sim/*'] } }),
    create(LimitSchema, { limitId: 3n, scope: 'key', scopeId: 9n, models: { models: ['other'] } }),
    create(LimitSchema, { limitId: 4n, scope: 'key', scopeId: 9n }),
    create(LimitSchema, { limitId: 5n, scope: 'key', scopeId: 8n }),
  ];
  const groups = groupsAbove(apiKey, [outer, inner]);
  expect(groups.map(({ name }) => name)).toEqual(['inner', 'outer']);
  expect(bindingLimits(limits, { apiKey, groups, model: 'sim/large' }).map(({ limitId }) => limitId)).toEqual([
    4n,
    2n,
    1n,
  ]);
  expect(bindingLimits(limits, { apiKey, groups, model: 'simple' }).map(({ limitId }) => limitId)).toEqual([4n, 1n]);
});

test('the nearest balance stands in place of the account’s, and the flags say when money pays', () => {
  const names = (key: typeof apiKey): string[] =>
    payersInOrder(key, [inner, outer], 7n).map(({ name }) => name.split(' of the account')[0] ?? '');
  expect(names(apiKey)).toEqual(['Free daily requests', 'The tokens', 'The balance of group outer']);
  expect(names({ ...apiKey, balanceNanoUsd: 0n })).toEqual([
    'Free daily requests',
    'The tokens',
    'The key’s own balance',
  ]);
  expect(names({ ...apiKey, useSubsFirst: false })).toEqual([
    'Free daily requests',
    'The balance of group outer',
    'The tokens',
  ]);
  expect(names({ ...apiKey, fallbackToPayg: false })).toEqual(['Free daily requests', 'The tokens']);
});
