/** Each command of a batch sees the changes of earlier commands, even if the engine writes in the middle of the batch because it has to look something up, for example the hash of a new key. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openPostgresLedger, type PostgresLedger } from '../../src/ledger/postgres/postgres-ledger.ts';
import type { KeyRow } from '../../src/ledger/ledger.ts';
import {
  amount,
  dollar,
  estimate,
  makeAdmitCommand,
  makeHash,
  makeLimit,
  plans,
  settleAmount,
  TestClock,
} from '../ledger/fixture.ts';
import { createLedgerDatabase } from './ledger-database.ts';

const clock = new TestClock();
let ledger: PostgresLedger;
let lastId = 1000;

beforeAll(async () => {
  const url = await createLedgerDatabase();
  ledger = await openPostgresLedger({ url, clock, dailyLimitUnit: 'dollars', plans, drivesTime: true });
});

afterAll(async () => {
  expect(await ledger.verify()).toEqual([]);
  await ledger.close();
});

/** Makes a key. Before that, the engine writes what the batch has changed up to there. */
async function createKey(accountId: number): Promise<KeyRow> {
  lastId += 1;
  const key = await ledger.createKey({ accountId, hash: makeHash(`key ${lastId}`), masked: 'sk', settings: {} });
  if (typeof key === 'string') throw new Error(key);
  return key;
}

async function makeAccount(): Promise<{ accountId: number; keyId: number; key: { id: number; accountId: number } }> {
  const { accountId } = await ledger.createAccount({ name: 'one', balance: dollar });
  const { keyId } = await createKey(accountId);
  return { accountId, keyId, key: { id: keyId, accountId } };
}

test('a new limit applies to later requests of the same batch', async () => {
  const { accountId, key } = await makeAccount();
  const ids = [++lastId, ++lastId];
  const [limit, , ...admitted] = await Promise.all([
    makeLimit(ledger, { accountId, scope: 'account', scopeId: accountId }),
    createKey(accountId),
    ...ids.map(id => ledger.admit(makeAdmitCommand(id, { key }))),
  ]);
  expect(admitted.map(({ kind }) => kind)).toEqual(['admitted', 'denied']);
  expect(limit).toMatchObject({ unit: 'requests' });
  expect((await ledger.listLimits({ accountId })).at(-1)).toMatchObject({ used: 1n, remaining: 0n });
});

test('a hold that a batch has extended is released completely', async () => {
  const { accountId, key } = await makeAccount();
  const id = ++lastId;
  await ledger.admit(makeAdmitCommand(id, { key, funds: estimate({ outputTokensWanted: 16 }) }));
  await Promise.all([ledger.extend({ id, nanoUsd: 500_000_000n }), createKey(accountId)]);
  expect((await ledger.findAccount(accountId))?.held).toBeGreaterThanOrEqual(500_000_000n);
  await ledger.settle(settleAmount(id, 1n));
  expect(await ledger.findAccount(accountId)).toMatchObject({ balance: dollar - 1n, held: 0n });
});

test('a new limit does not count a hold that ended before the limit was made', async () => {
  const { accountId, key } = await makeAccount();
  const id = ++lastId;
  const admission = ledger.admit(makeAdmitCommand(id, { key, funds: amount(1n), expiresAtMs: clock.now() + 1 }));
  clock.step(1);
  const limit = makeLimit(ledger, {
    accountId,
    scope: 'account',
    scopeId: accountId,
    unit: 'concurrent',
    window: null,
  });
  await Promise.all([admission, limit]);
  expect((await ledger.listLimits({ accountId })).at(-1)).toMatchObject({ unit: 'concurrent', used: 0n });
});
