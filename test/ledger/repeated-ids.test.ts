/** Two requests of the gateway with the same id: the second one is refused as a defect, or reported by `verify` if the ledger could not notice it. */
import { join, resolve } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, expect, test } from 'vitest';
import type { AdminCommands, AdminCall } from '../../src/ledger/rules/administration.ts';
import { publicRequestId } from '../../src/lib/ids.ts';
import { verifyLedgerFile } from '../../src/ledger/sqlite/verify.ts';
import { isOnPostgres, makeAdmitCommand, makeHash, openFixture, plans, settleAmount } from './fixture.ts';
import { type Command, type Subject, subjects } from './subjects.ts';

const nowMs = Date.parse('2026-03-01T12:00:00Z');
const id = 1_790_000_000_000 * 4096;
let subject: Subject | undefined;
afterEach(async () => {
  await subject?.close();
  subject = undefined;
});

/** Opens a subject with the keys 1 and 2 of account 1. */
async function open(openSubject: (typeof subjects)[keyof typeof subjects]) {
  const opened = (await openSubject(resolve(import.meta.dirname, '../../src')))(plans, 'dollars');
  subject = opened;
  let seq = 1;
  const run = async (command: Command): Promise<unknown> => (await opened.run([{ ...command, nowMs, seq: seq++ }]))[0];
  const administer = <K extends keyof AdminCommands>(name: K, command: AdminCommands[K]): Promise<unknown> =>
    run({ kind: 'admin', call: { id: `admin ${seq}`, name, command } as AdminCall });
  await administer('createAccount', { name: 'a', balance: 10_000_000_000n });
  for (const name of ['one', 'two'])
    await administer('createKey', { accountId: 1, hash: makeHash(name), masked: '', settings: {} });
  const admit = (keyId: number, requestId: string): Promise<unknown> =>
    run({ kind: 'admit', command: { ...makeAdmitCommand(id, { requestId }), key: { id: keyId, accountId: 1 } } });
  return { run, admit, violations: () => opened.violations() };
}

test.each(Object.entries(subjects))(
  '%s: a request with the id of another one that has ended is a defect',
  async (_, openSubject) => {
    const { run, admit, violations } = await open(openSubject);
    const requestId = publicRequestId(id);
    expect(await admit(1, requestId)).toMatchObject({ kind: 'admitted' });
    expect(await run({ kind: 'settle', command: settleAmount(id, 5n) })).toMatchObject({
      kind: 'settled',
      costNanoUsd: 5n,
    });
    expect(await admit(1, requestId)).toMatchObject({ kind: 'admitted' });
    expect(await admit(1, publicRequestId(id))).toBe('failed');
    expect(await violations()).toEqual([]);
  },
);

test.each(Object.entries(subjects))(
  '%s: verify reports an id that a voided request of another key has',
  async (_, openSubject) => {
    const { run, admit, violations } = await open(openSubject);
    await admit(1, publicRequestId(id));
    expect(await run({ kind: 'void', id, reason: 'restarted' })).toBe('voided');
    // An interrupted task may be admitted again with the same id.
    expect(await admit(1, publicRequestId(id))).toMatchObject({ kind: 'admitted' });
    expect(await violations()).toEqual([]);
    expect(await run({ kind: 'void', id, reason: 'restarted' })).toBe('voided');
    expect(await admit(2, publicRequestId(id))).toMatchObject({ kind: 'admitted' });
    expect((await violations()).join('\n')).toContain(String(id));
    expect(await run({ kind: 'settle', command: settleAmount(id, 5n) })).toMatchObject({ kind: 'settled' });
    expect((await violations()).join('\n')).toContain(String(id));
  },
);

// Only SQLite has a ledger file.
test.skipIf(isOnPostgres)('verify of a file reports a request that is live and settled', async () => {
  const fixture = await openFixture();
  await fixture.ledger.admit(makeAdmitCommand(1, { funds: undefined }));
  await fixture.ledger.settle(settleAmount(1, 0n));
  await fixture.ledger.admit(makeAdmitCommand(2, { funds: undefined, expiresAtMs: fixture.clock.nowMs + 1000 }));
  await fixture.ledger.close();
  expect(verifyLedgerFile(fixture.dataDir)).toEqual([]);
  const db = new Database(join(fixture.dataDir, 'ledger.sqlite'));
  db.exec('UPDATE hold SET id = 1');
  expect(verifyLedgerFile(fixture.dataDir)).toEqual(['violated: a request is live or settled, never both; request 1']);
  db.exec('UPDATE hold SET id = 2');
  db.close();
  await fixture.open();
  await fixture.ledger.void(2, 'cancelled');
  await fixture.end();
});
