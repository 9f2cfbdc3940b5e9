/** Entries and the audit, as REST clients and the operator see them (docs/interfaces/account.md "Entries and audit"). */
import { afterAll, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { call, type GroupJson, newKey } from './account-client.ts';
import { ask, complete } from './chat-client.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n', balance: '10' });
afterAll(() => endGateway(gateway));

interface EntryJson {
  readonly entry_id: number | null;
  readonly kind: string;
  readonly amount: number;
  readonly balance_after: number;
  readonly note: string;
  readonly api_key_id?: number;
  readonly group_id?: number;
  readonly request_id?: string;
}

interface AuditJson {
  readonly audit_id: number;
  readonly actor: { readonly type: string; readonly id: string | null };
  readonly action: string;
  readonly resource: { readonly type: string; readonly id: string | null };
  readonly before: Readonly<Record<string, unknown>> | null;
  readonly after: Readonly<Record<string, unknown>> | null;
  readonly address: string | null;
  readonly request_id: string | null;
  readonly previous_hash: string | null;
  readonly hash: string;
}

const readEntries = async (query = ''): Promise<readonly EntryJson[]> =>
  (await call<{ data: EntryJson[] }>(gateway, 'GET', `/entries${query}`)).body.data;
const readAudit = async (query = ''): Promise<readonly AuditJson[]> =>
  (await call<{ data: AuditJson[] }>(gateway, 'GET', `/audit${query}`)).body.data;

test('every change of a balance is an entry of that balance; entries and charges add up to each balance', async () => {
  const group = (await call<{ data: GroupJson }>(gateway, 'POST', '/groups', { body: { name: 'g', balance: 2 } })).body
    .data;
  const key = await newKey(gateway, { label: 'own', balance: 1.5 });
  await gateway.cli(['credits', 'add', '1', '5', '--note', 'November']);
  await complete(gateway, ask('Hello\n!sim tokens=9'), { key: key.key });
  await complete(gateway, ask('Hello\n!sim tokens=9'), { key: gateway.apiKey });
  await call(gateway, 'PATCH', `/groups/${group.group_id}`, { body: { balance: 0.5 } });
  const entries = await readEntries();
  const shown = entries.map(({ kind, amount, balance_after, note, api_key_id: k, group_id: g }) => [
    kind,
    amount,
    balance_after,
    note,
    k ?? g,
  ]);
  const spent = 10 - 2 - 1.5 + 5 + 1.5 - (await call<{ balance: number }>(gateway, 'GET', '/balance')).body.balance;
  expect(spent).toBeGreaterThan(0);
  expect(shown).toEqual([
    ['move', -1.5, 0.5, '', group.group_id],
    ['move', 1.5, expect.closeTo(13 - spent, 9), `from group ${group.group_id}`, undefined],
    ['credit', 5, 11.5, 'November', undefined],
    ['move', 1.5, 1.5, '', key.api_key_id],
    ['move', -1.5, 6.5, `to key ${key.api_key_id}`, undefined],
    ['move', 2, 2, '', group.group_id],
    ['move', -2, 8, `to group ${group.group_id}`, undefined],
    ['opening', 10, 10, 'first balance', undefined],
  ]);
  expect(entries.map(({ entry_id }) => entry_id)).toEqual([8, 7, 6, 5, 4, 3, 2, 1]);
  expect((await readEntries('?limit=1&offset=7')).map(({ kind }) => kind)).toEqual(['opening']);

  const all = (await gateway.cli(['entries', '--account', '1', '--all', '--json'])).json as { data: EntryJson[] };
  const charges = all.data.filter(({ kind }) => kind === 'charge');
  expect(charges).toHaveLength(2);
  for (const pocket of [undefined, key.api_key_id]) {
    const own = all.data.filter(each => each.api_key_id === pocket && each.group_id === undefined).toReversed();
    let balance = 0;
    for (const { amount, balance_after } of own) {
      balance += amount;
      expect(balance_after).toBeCloseTo(balance, 9);
    }
  }
  const credits = (await gateway.cli(['credits', 'list', '--account', '1', '--json'])).json as { data: EntryJson[] };
  expect(credits.data.map(({ kind, amount }) => [kind, amount])).toEqual([
    ['credit', 5],
    ['opening', 10],
  ]);
});

test('pages of entries and charges are parts of the whole list with the same balances, even if requests ran at the same time', async () => {
  const { key } = await newKey(gateway, { label: 'paged', balance: 1 });
  // The requests start together and end one after the other, the first one last.
  await Promise.all(
    [50, 40, 30, 20, 10, 5].map(tokens => complete(gateway, ask(`Hello\n!sim tokens=${tokens} rate=200`), { key })),
  );
  await gateway.cli(['credits', 'add', '1', '1']);
  for (let time = 0; time < 6; time++) await complete(gateway, ask('Hello\n!sim tokens=3'), { key: gateway.apiKey });
  const list = async (query: { limit: number; offset?: number; startMs?: bigint; endMs?: bigint }) => {
    const { entries } = await gateway.admin.listAccountEntries({ accountId: 1n, charges: true, query });
    return entries.map(({ entryId, requestId, balanceAfterNanoUsd }) => [entryId, requestId, balanceAfterNanoUsd]);
  };
  const { entries } = await gateway.admin.listAccountEntries({ accountId: 1n, charges: true, query: { limit: 1000 } });
  const whole = await list({ limit: 1000 });
  expect(whole.length).toBeGreaterThan(15);
  for (const limit of [1, 2, 3, 7]) {
    const pages: unknown[] = [];
    for (let offset = 0; offset < whole.length; offset += limit) pages.push(...(await list({ limit, offset })));
    expect(pages).toEqual(whole);
  }
  // Lists that end before each entry.
  for (const [at, { createdAtMs: endMs }] of entries.entries()) {
    const earlier = whole.filter((_, index) => (entries[index]?.createdAtMs ?? 0n) < endMs);
    expect([at, await list({ limit: 3, endMs })]).toEqual([at, earlier.slice(0, 3)]);
  }
});

test('the audit shows who did what: the operator and management keys, with the values before and after', async () => {
  const { api_key_id: id, key: secret } = await newKey(gateway, { label: 'audited' });
  await call(gateway, 'PATCH', `/keys/${id}`, { body: { label: 'renamed', minute_limit: 7 } });
  await call(gateway, 'PATCH', `/keys/${id}`, { body: { label: 'renamed' } });
  await call(gateway, 'PATCH', `/keys/${id}`, { body: { balance: 1_000_000 } });
  await call(gateway, 'POST', `/keys/${id}/rotate`, { body: {} });
  const disabled = await gateway.cli(['keys', 'disable', String(id)]);
  expect(disabled.code).toBe(0);
  await call(gateway, 'DELETE', `/keys/${id}`);
  const rows = (await readAudit('?limit=5')).toReversed();
  expect(rows.map(({ actor, action, resource }) => [actor.type, actor.id, action, resource.type, resource.id])).toEqual(
    [
      ['management_key', '1', 'key.create', 'api_key', String(id)],
      ['management_key', '1', 'key.update', 'api_key', String(id)],
      ['management_key', '1', 'key.rotate', 'api_key', String(id)],
      ['operator', null, 'key.disable', 'api_key', String(id)],
      ['management_key', '1', 'key.revoke', 'api_key', String(id)],
    ],
  );
  const [made, changed] = rows;
  expect([made?.before, made?.after]).toMatchObject([null, { label: 'audited', state: 'enabled', balance: null }]);
  expect([changed?.before?.['label'], changed?.after?.['label'], changed?.after?.['minute_limit']]).toEqual([
    'audited',
    'renamed',
    7,
  ]);
  expect(made?.address).toBe('127.0.0.1');
  expect(made?.request_id).toMatch(/^req_/);
  for (const [index, row] of rows.entries()) if (index > 0) expect(row.previous_hash).toBe(rows[index - 1]?.hash);
  expect(JSON.stringify(rows)).not.toContain(secret.slice(12, 40));

  const printed = (await gateway.cli(['audit', '--account', '1', '--limit', '1', '--json'])).json as {
    data: AuditJson[];
  };
  expect(printed.data[0]).toMatchObject({ account_id: 1, action: 'key.revoke', hash: rows.at(-1)?.hash });
});

test('actions of the operator that belong to no account have a separate hash chain', async () => {
  expect((await gateway.admin.reloadConfiguration({})).file).not.toBe('');
  const { records } = await gateway.admin.listAccountAudit({ accountId: 0n });
  expect(records.map(({ action, actorType, auditId }) => [action, actorType, auditId])).toEqual([
    ['configuration.reload', 'operator', 1n],
  ]);
  expect((await readAudit()).some(({ action }) => action === 'configuration.reload')).toBe(false);
});
