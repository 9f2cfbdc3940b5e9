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

/** Returns what breaks them; empty: all hold. */
export function checkRows(rows: MemoryRows): string[] {
  const [holds, usage, voids] = [rows.holds.all(), rows.usage.all(), rows.voids];
  const found: string[] = [];
  const same = (what: string, is: unknown, due: unknown): void => {
    if (!isDeepStrictEqual(is, due)) found.push(`${what}: ${String(is)} instead of ${String(due)}`);
  };
  const sumEntries = (of: (entry: Entry) => boolean): bigint => total(rows.entries.filter(of), entry => entry.amount);

  for (const { id, balance, held, entries } of rows.accounts.all()) {
    const own = (entry: Entry): boolean => entry.accountId === id;
    const paid = usage.filter(({ accountId, payer }) => accountId === id && payer === 'account');
    const moved = sumEntries(entry => own(entry) && entry.keyId === null && entry.groupId === null);
    same(`balance of account ${id}`, balance, moved - total(paid, record => record.cost));
    const live = holds.filter(({ accountId, payer }) => accountId === id && payer === 'account');
    same(
      `held of account ${id}`,
      held,
      total(live, hold => hold.held),
    );
    same(
      `numbers of account ${id}`,
      rows.entries.filter(own).map(({ number }) => number),
      countTo(entries),
    );
  }
  for (const { id, balance, held } of rows.keys.all()) {
    const own = ({ keyId, payer }: Request): boolean => keyId === id && payer === 'key_balance';
    const moved = sumEntries(entry => entry.keyId === id);
    same(`balance of key ${id}`, balance ?? 0n, moved - total(usage.filter(own), record => record.cost));
    same(
      `held of key ${id}`,
      held,
      total(holds.filter(own), hold => hold.held),
    );
  }
  for (const { id, balance, held, spent, running } of rows.groups.all()) {
    const own = ({ payerGroup }: Request): boolean => payerGroup === id;
    const moved = sumEntries(entry => entry.groupId === id);
    const paid = total(usage.filter(own), record => record.cost);
    const live = holds.filter(own);
    same(`balance and spending of group ${id}`, [balance ?? 0n, spent], [moved - paid, paid]);
    same(
      `held of group ${id}`,
      [held, running],
      [total(live, hold => hold.held), live.filter(({ tokens }) => tokens !== null).length],
    );
  }
  for (const { keyId, day, ...sums } of rows.keyDays.all()) {
    const on = (row: { readonly keyId: number; readonly admittedAtMs: number }): boolean =>
      row.keyId === keyId && toDay(row.admittedAtMs) === day;
    const records = usage.filter(on);
    const own = records.filter(({ payer }) => payer === 'key_balance');
    const due = [
      holds.filter(on).length + records.length + voids.filter(on).length,
      total(records, record => record.cost),
      total(own, record => record.cost),
      total(holds.filter(on), hold => hold.held),
    ];
    same(`day ${day} of key ${keyId}`, [sums.requests, sums.spent, sums.spentOwn, sums.held], due);
  }
  for (const { accountId, number, held, used } of rows.periods.all()) {
    const of = (request: Request): boolean => request.accountId === accountId && request.period === number;
    const tokens = (counts: number[]): number => counts.reduce((sum, count) => sum + count, 0);
    const due = [
      tokens(holds.filter(of).map(hold => hold.planHeld)),
      tokens(usage.filter(of).map(record => record.planTokens)),
    ];
    same(`period ${number} of account ${accountId}`, [held, used], due);
  }
  const writtenOff = usage
    .filter(record => record.writtenOff > 0n)
    .map(({ id, writtenOff: off, payer, keyId, payerGroup }) =>
      [id, off, payer === 'key_balance' ? keyId : null, payerGroup].join(),
    );
  const entries = rows.entries.filter(({ kind }) => kind === 'write_off');
  same(
    'write-offs',
    entries.map(({ usageId, writtenOff: off, keyId, groupId }) => [usageId, off, keyId, groupId].join()).sort(),
    writtenOff.sort(),
  );
  found.push(...checkEntries(rows), ...checkChains(rows));
  same(
    'sums',
    rows.sums.map(sum => [describePlace(sum), sum.usage.id].join()).sort(),
    usage.flatMap(record => sumsDue(rows, record)).sort(),
  );
  return found;
}

/** Each entry of a pocket that no request was debited to begins with what the entry before it has left. */
function checkEntries({ entries, usage }: MemoryRows): string[] {
  const debited = new Set(
    usage
      .all()
      .map(({ payer, keyId, payerGroup, accountId }) =>
        namePocket(payer === 'key_balance' ? keyId : null, payerGroup, accountId),
      ),
  );
  const balances = new Map<string, bigint>();
  return entries.flatMap(({ accountId, keyId, groupId, amount, balanceAfter, number }) => {
    const pocket = namePocket(keyId, groupId, accountId);
    const due = (balances.get(pocket) ?? 0n) + amount;
    balances.set(pocket, balanceAfter);
    const isWrong = debited.has(pocket) ? balanceAfter > due : balanceAfter !== due;
    return isWrong ? [`entry ${number} of account ${accountId}: ${balanceAfter} instead of ${due}`] : [];
  });
}

function namePocket(keyId: number | null, groupId: number | null, accountId: number): string {
  return [keyId ?? '', groupId ?? '', accountId].join();
}

/** Each row of the audit follows the one before it, and its chain knows the last one. */
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
    ...broken.map(({ accountId, auditId }) => `audit row ${auditId} of account ${accountId} follows no other`),
    ...ends.map(({ accountId }) => `the audit of account ${accountId} ends otherwise`),
  ];
}

function countTo(last: number): number[] {
  return Array.from({ length: last }, (_, index) => index + 1);
}

function describePlace(sum: MemoryRows['sums'][number]): string {
  return [sum.accountId, sum.period, sum.grouped, sum.number, sum.groupId].join();
}

function sumsDue(rows: MemoryRows, usage: Usage): string[] {
  const { id, accountId, admittedAtMs, modelId, providerId, endpointId, keyId, groups, endUserId, tagsId } = usage;
  const periods = [
    ['hour', toHour(admittedAtMs)],
    ['day', toDay(admittedAtMs)],
  ] as const;
  const tags = tagsId === null ? [] : Object.entries(JSON.parse(rows.tagSets[tagsId - 1] ?? '{}') as object);
  const divided = [
    ['kind', rows.kinds.indexOf([modelId, providerId, endpointId].join()) + 1],
    ['key', keyId],
    ...groups.slice(0, 1).map(group => ['group', group]),
    ...(endUserId === null ? [] : [['end_user', endUserId]]),
    ...tags.map(tag => ['tag', rows.tags.indexOf(tag.join()) + 1]),
  ];
  return periods.flatMap(([period, number]) =>
    divided.map(([grouped, group]) => [accountId, period, grouped, number, group, id].join()),
  );
}
