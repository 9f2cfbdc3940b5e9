import { isDeepStrictEqual } from 'node:util';
import type { AuditRow } from '../../src/ledger/history.ts';
import type { Entry, Request, Usage } from '../../src/ledger/rows.ts';
import type { MemoryRows } from './memory-rows.ts';

/** Invariants of the rows that rules have written, as `src/ledger/sqlite/invariants.ts` checks them in a file. */

const toDay = (ms: number): number => Math.floor(ms / 86_400_000);
const toHour = (ms: number): number => Math.floor(ms / 3_600_000);

function total<T>(rows: readonly T[], value: (row: T) => bigint): bigint {
  return rows.reduce((sum, row) => sum + value(row), 0n);
}

/** Returns a message for each broken invariant; empty if there is none. */
export function checkRows(rows: MemoryRows): string[] {
  const [holds, usage, voids] = [rows.holds.all(), rows.usage.all(), rows.voids];
  const found: string[] = [];
  const expectSame = (what: string, actual: unknown, expected: unknown): void => {
    if (!isDeepStrictEqual(actual, expected)) found.push(`${what}: ${String(actual)} instead of ${String(expected)}`);
  };
  const sumEntries = (isCounted: (entry: Entry) => boolean): bigint =>
    total(rows.entries.filter(isCounted), entry => entry.amount);

  for (const { id, balance, held, entries } of rows.accounts.all()) {
    const isOfAccount = (entry: Entry): boolean => entry.accountId === id;
    const paid = usage.filter(({ accountId, payer }) => accountId === id && payer === 'account');
    const moved = sumEntries(entry => isOfAccount(entry) && entry.keyId === null && entry.groupId === null);
    expectSame(`balance of account ${id}`, balance, moved - total(paid, record => record.cost));
    const live = holds.filter(({ accountId, payer }) => accountId === id && payer === 'account');
    expectSame(
      `held of account ${id}`,
      held,
      total(live, hold => hold.held),
    );
    expectSame(
      `entry numbers of account ${id}`,
      rows.entries.filter(isOfAccount).map(({ number }) => number),
      countTo(entries),
    );
  }
  for (const { id, balance, held } of rows.keys.all()) {
    const isOfKey = ({ keyId, payer }: Request): boolean => keyId === id && payer === 'key_balance';
    const moved = sumEntries(entry => entry.keyId === id);
    expectSame(`balance of key ${id}`, balance ?? 0n, moved - total(usage.filter(isOfKey), record => record.cost));
    expectSame(
      `held of key ${id}`,
      held,
      total(holds.filter(isOfKey), hold => hold.held),
    );
  }
  for (const { id, balance, held, spent, running } of rows.groups.all()) {
    const isOfGroup = ({ payerGroup }: Request): boolean => payerGroup === id;
    const moved = sumEntries(entry => entry.groupId === id);
    const paid = total(usage.filter(isOfGroup), record => record.cost);
    const live = holds.filter(isOfGroup);
    expectSame(`balance and spending of group ${id}`, [balance ?? 0n, spent], [moved - paid, paid]);
    expectSame(
      `held of group ${id}`,
      [held, running],
      [total(live, hold => hold.held), live.filter(({ tokens }) => tokens !== null).length],
    );
  }
  found.push(...checkIds(rows));
  for (const { keyId, day, ...sums } of rows.keyDays.all()) {
    const isOnDay = (row: { readonly keyId: number; readonly admittedAtMs: number }): boolean =>
      row.keyId === keyId && toDay(row.admittedAtMs) === day;
    const records = usage.filter(isOnDay);
    const paidByKey = records.filter(({ payer }) => payer === 'key_balance');
    const due = [
      holds.filter(isOnDay).length + records.length + voids.filter(isOnDay).length,
      total(records, record => record.cost),
      total(paidByKey, record => record.cost),
      total(holds.filter(isOnDay), hold => hold.held),
    ];
    expectSame(`day ${day} of key ${keyId}`, [sums.requests, sums.spent, sums.spentOwn, sums.held], due);
  }
  for (const { accountId, number, held, used } of rows.periods.all()) {
    const isInPeriod = (request: Request): boolean => request.accountId === accountId && request.period === number;
    const tokens = (counts: number[]): number => counts.reduce((sum, count) => sum + count, 0);
    const due = [
      tokens(holds.filter(isInPeriod).map(hold => hold.planHeld)),
      tokens(usage.filter(isInPeriod).map(record => record.planTokens)),
    ];
    expectSame(`period ${number} of account ${accountId}`, [held, used], due);
  }
  const writtenOff = usage
    .filter(record => record.writtenOff > 0n)
    .map(({ id, writtenOff: amount, payer, keyId, payerGroup }) =>
      [id, amount, payer === 'key_balance' ? keyId : null, payerGroup].join(),
    );
  const entries = rows.entries.filter(({ kind }) => kind === 'write_off');
  expectSame(
    'write-offs',
    entries.map(({ usageId, writtenOff: amount, keyId, groupId }) => [usageId, amount, keyId, groupId].join()).sort(),
    writtenOff.sort(),
  );
  found.push(...checkEntries(rows), ...checkChains(rows));
  expectSame(
    'sums',
    rows.sums.map(sum => [describePlace(sum), sum.usage.id].join()).sort(),
    usage.flatMap(record => sumsDue(rows, record)).sort(),
  );
  return found;
}

/** Returns a message for each id of the gateway that two requests have: a live one and a settled one, or a voided one and another with a different key or model. */
function checkIds(rows: MemoryRows): string[] {
  const [holds, usage] = [rows.holds.all(), rows.usage.all()];
  const settled = new Set(usage.map(({ id }) => id));
  const own = new Map([...holds, ...usage].filter(each => each.expiresAtMs === null).map(each => [each.id, each]));
  const others = rows.voids.filter(({ id, keyId, modelId }) => {
    const request = own.get(id);
    return request !== undefined && (request.keyId !== keyId || request.modelId !== modelId);
  });
  return [...holds.filter(({ id }) => settled.has(id)), ...others].map(({ id }) => `two requests have the id ${id}`);
}

/**
 * Returns a message for each entry whose balance is not the previous balance plus its amount. If requests were debited from the balance in between, it may be lower.
 */
function checkEntries({ entries, usage }: MemoryRows): string[] {
  const debited = new Set(
    usage
      .all()
      .map(({ payer, keyId, payerGroup, accountId }) =>
        nameBalance(payer === 'key_balance' ? keyId : null, payerGroup, accountId),
      ),
  );
  const balances = new Map<string, bigint>();
  return entries.flatMap(({ accountId, keyId, groupId, amount, balanceAfter, number }) => {
    const balanceName = nameBalance(keyId, groupId, accountId);
    const due = (balances.get(balanceName) ?? 0n) + amount;
    balances.set(balanceName, balanceAfter);
    const isWrong = debited.has(balanceName) ? balanceAfter > due : balanceAfter !== due;
    return isWrong ? [`entry ${number} of account ${accountId}: ${balanceAfter} instead of ${due}`] : [];
  });
}

function nameBalance(keyId: number | null, groupId: number | null, accountId: number): string {
  return [keyId ?? '', groupId ?? '', accountId].join();
}

/** Returns a message for each audit row that does not follow the row before it, and for each account whose chain row lacks the number and hash of its last row. */
function checkChains({ audit, auditChains }: MemoryRows): string[] {
  const last = new Map<number, AuditRow>();
  const broken = audit.filter(row => {
    const before = last.get(row.accountId);
    last.set(row.accountId, row);
    return row.auditId !== (before?.auditId ?? 0) + 1 || row.previousHash !== (before?.hash ?? '');
  });
  const ends = auditChains.all().filter(({ accountId, number, hash }) => {
    const row = last.get(accountId);
    return row?.auditId !== number || row.hash !== hash;
  });
  return [
    ...broken.map(
      ({ accountId, auditId }) => `audit row ${auditId} of account ${accountId} does not follow the row before it`,
    ),
    ...ends.map(({ accountId }) => `the chain of account ${accountId} does not name its last audit row`),
  ];
}

function countTo(last: number): number[] {
  return Array.from({ length: last }, (_, index) => index + 1);
}

function describePlace(sum: MemoryRows['sums'][number]): string {
  return [sum.accountId, sum.period, sum.grouped, sum.number, sum.valueId].join();
}

function sumsDue(rows: MemoryRows, usage: Usage): string[] {
  const { id, accountId, admittedAtMs, modelId, providerId, endpointId, keyId, groups, endUserId, tagsId } = usage;
  const periods = [
    ['hour', toHour(admittedAtMs)],
    ['day', toDay(admittedAtMs)],
  ] as const;
  const tags = tagsId === null ? [] : Object.entries(JSON.parse(rows.tagSets[tagsId - 1] ?? '{}') as object);
  const groupings = [
    ['kind', rows.kinds.indexOf([modelId, providerId, endpointId].join()) + 1],
    ['key', keyId],
    ...groups.slice(0, 1).map(group => ['group', group]),
    ...(endUserId === null ? [] : [['end_user', endUserId]]),
    ...tags.map(tag => ['tag', rows.tags.indexOf(tag.join()) + 1]),
  ];
  return periods.flatMap(([period, number]) =>
    groupings.map(([grouped, group]) => [accountId, period, grouped, number, group, id].join()),
  );
}
