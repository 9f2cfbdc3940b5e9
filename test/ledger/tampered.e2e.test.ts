/** `tollgate ledger verify` on copies of a ledger that were changed by hand. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { runCommand, startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n', balance: '10' });
afterAll(() => endGateway(gateway));

test('a ledger with a chain of actions and a credit', async () => {
  await gateway.cli(['credits', 'add', '1', '5']);
  for (let key = 0; key < 6; key++) await gateway.cli(['keys', 'create', '--account', '1', '--label', `key ${key}`]);
  const { records } = await gateway.admin.listAccountAudit({ accountId: 1n });
  expect(records.length).toBeGreaterThanOrEqual(7);
});

test.each([
  ['a changed row', "UPDATE audit SET action = 'key.read' WHERE account_id = 1 AND audit_id = 4", 'row 4 of account 1'],
  ['a removed row', 'DELETE FROM audit WHERE account_id = 1 AND audit_id = 5', 'before row 6 of account 1'],
  ['a removed first row', 'DELETE FROM audit WHERE account_id = 1 AND audit_id = 1', 'before row 2 of account 1'],
  [
    'a removed last row',
    'DELETE FROM audit WHERE rowid = (SELECT max(rowid) FROM audit WHERE account_id = 1)',
    'the end of account 1',
  ],
  [
    'a changed entry',
    "DROP TRIGGER entry_is_never_changed; UPDATE entry SET amount = amount + 1 WHERE kind = 'credit'",
    'account 1',
  ],
])('%s makes `ledger verify` exit with 1 and report the position', async (_, change, place) => {
  const copy = join(gateway.home.folder, 'copy');
  const backup = await gateway.cli(['backup', copy]);
  expect([backup.code, backup.stderr]).toEqual([0, '']);
  const verify = () => runCommand(gateway.home, ['ledger', 'verify', '--data-dir', copy, '--json']);
  expect((await verify()).code).toBe(0);
  const db = new Database(join(copy, 'ledger.sqlite'));
  db.exec(change);
  db.close();
  const { code, json } = await verify();
  expect(code).toBe(1);
  expect((json as { violations: string[] }).violations.join('\n')).toContain(place);
  rmSync(copy, { recursive: true });
});
