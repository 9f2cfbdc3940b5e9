/** Sums of requests that match several filters at once: over REST, RPC and the command line they equal the sums of the records. */
import { afterAll, expect, test } from 'vitest';
import type { AnalyticsFilterSchema, ActivityRecord } from '../../src/gen/tollgate/v1/account_pb.ts';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { runInside } from '../cli/run-inside.ts';
import { endGateway, makeKey, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway();
afterAll(() => endGateway(gateway));

const { group } = await gateway.admin.createAccountGroup({ accountId: 1n, settings: { name: 'team' } });
const inGroup = await makeKey(gateway, { label: 'in a group', ...(group && { groupId: group.groupId }) });
const alone = await makeKey(gateway, { tags: { tags: { team: 'search' } } });

/** A settled request, with the properties that filters use. */
interface Sent {
  readonly record: ActivityRecord;
  readonly keyId: bigint;
  readonly model: string;
  readonly endUser: string;
  readonly tag: string;
  readonly isGrouped: boolean;
}

async function send(index: number): Promise<Sent> {
  const isGrouped = index % 2 === 0;
  const { key, id: keyId } = isGrouped ? inGroup : alone;
  const model = ['sim/small', 'sim/large', 'sim/writer'][index % 3] ?? '';
  const endUser = `user ${index % 4}`;
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, user: endUser, messages: [{ role: 'user', content: `Say ${index}.` }] }),
  });
  await answer.text();
  const record = await readRecord(gateway, answer.headers.get('x-request-id') ?? '');
  return { record, keyId, model, endUser, tag: isGrouped ? '' : 'team:search', isGrouped };
}

const sent = await Promise.all(Array.from({ length: 24 }, (_, index) => send(index)));
const groupId = group?.groupId ?? 0n;

/** Filters, each with a predicate for the requests that match it. */
const cases: readonly (readonly [
  filter: MessageInitShape<typeof AnalyticsFilterSchema>,
  passes: (each: Sent) => boolean,
])[] = [
  [{}, () => true],
  [{ model: 'sim/large' }, ({ model }) => model === 'sim/large'],
  [{ apiKeyId: alone.id }, ({ keyId }) => keyId === alone.id],
  [{ apiKeyId: alone.id, model: 'sim/large' }, ({ keyId, model }) => keyId === alone.id && model === 'sim/large'],
  [{ tag: 'team:search', endUser: 'user 1' }, ({ tag, endUser }) => tag !== '' && endUser === 'user 1'],
  [{ groupId, model: 'sim/small' }, ({ isGrouped, model }) => isGrouped && model === 'sim/small'],
  [{ groupId, tag: 'team:search' }, () => false],
  [
    { endpoint: '/v1/chat/completions', model: 'sim/writer', endUser: 'user 2' },
    ({ model, endUser }) => model === 'sim/writer' && endUser === 'user 2',
  ],
  [{ endpoint: '/v1/messages' }, () => false],
];

/** Returns the filter as query parameters of REST. */
function toQuery(filter: (typeof cases)[number][0]): URLSearchParams {
  const { model, apiKeyId, groupId: inside, tag, endUser, endpoint } = filter;
  const fields = { model, api_key_id: apiKeyId, group_id: inside, tag, end_user: endUser, endpoint };
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
}

test.each(cases)('sums of %o', async (filter, passes) => {
  const kept = sent.filter(passes);
  const cost = kept.reduce((sum, { record }) => sum + record.costNanoUsd, 0n);
  const { analytics } = await gateway.admin.getAccountAnalytics({ accountId: 1n, query: { filter } });
  expect([analytics?.metrics?.requests, analytics?.metrics?.costNanoUsd]).toEqual([BigInt(kept.length), cost]);

  const query = toQuery(filter);
  const models = new Map([...Map.groupBy(kept, ({ model }) => model)].map(([model, all]) => [model, all.length]));
  const answer = await fetch(`${gateway.url}/v1/account/analytics?group_by=model&${query}`, {
    headers: { authorization: `Bearer ${gateway.managementKey}` },
  });
  const { series } = (await answer.json()) as { series: { group: string; requests: number }[] };
  expect(new Map(series.map(row => [row.group, row.requests]))).toEqual(models);

  const words = [...query].flatMap(([name, value]) => [
    `--${name.replace(/_id$/, '').replace('api_', '').replace('_', '-')}`,
    value,
  ]);
  const { json } = await runInside(gateway, ['usage', '--by', 'day', ...words, '--json']);
  const { data } = json as { data: { requests: number }[] };
  expect(data.reduce((sum, { requests }) => sum + requests, 0)).toBe(kept.length);
});

test('with an API key, only the requests of that key are summed, whatever key the filter names', async () => {
  const own = sent.filter(({ keyId, model }) => keyId === alone.id && model === 'sim/small');
  const answer = await fetch(`${gateway.url}/v1/key/analytics?api_key_id=${inGroup.id}&model=sim/small`, {
    headers: { authorization: `Bearer ${alone.key}` },
  });
  const { metrics } = (await answer.json()) as { metrics: { requests: number } };
  expect(metrics.requests).toBe(own.length);
});

test('an invalid filter is refused', async () => {
  const answer = await fetch(`${gateway.url}/v1/account/analytics?tag=team`, {
    headers: { authorization: `Bearer ${gateway.managementKey}` },
  });
  expect(answer.status).toBe(400);
});
