import { afterEach, expect, test } from 'vitest';
import { checkInvariants } from '../../src/ledger/sqlite/invariants.ts';
import { encodeAdmit, type WireCommand, type WireReply } from '../../src/ledger/sqlite/wire.ts';
import {
  closeDatabase,
  engineWith,
  failAtSteps,
  faultPlans,
  first,
  newDatabase,
  now,
  periodMs,
  runAll,
} from './engine-fault-steps.ts';
import { amount, makeAdmitCommand } from './fixture.ts';

afterEach(closeDatabase);

// Here each statement fails with one kind of failure, in `test/long` with every kind.
test.each(faultPlans.map((plan, index) => ({ ...plan, index })))(
  'after a failure ($kind, $times times in a row) at any $point, sending the commands again has the same result as without the failure',
  ({ index, ...plan }) =>
    failAtSteps(plan, plan.point === 'commit' ? { from: 1, by: 1 } : { from: 1 + (index % 5), by: 5 }),
);

test('a command that throws fails alone; the others of its batch are done', () => {
  const connection = newDatabase();
  const engine = engineWith(connection);
  runAll(engine);
  const batch: WireCommand[] = [
    encodeAdmit(makeAdmitCommand(100, { funds: amount(1n) }), first, now + 70_000),
    encodeAdmit(makeAdmitCommand(101, { funds: amount(-1n) }), first, now + 70_000),
    encodeAdmit(makeAdmitCommand(102, { funds: amount(1n) }), first, now + 70_000),
  ];
  expect(engine.run(batch).map(([outcome]) => outcome)).toEqual(['done', 'failed', 'done']);
  expect(connection.prepare('SELECT id FROM hold ORDER BY id').pluck().all()).toEqual([100n, 102n]);
  expect(engine.run([['windows', now + 70_000, 1, false]])).toMatchObject([
    ['done', [{ limit: 'minute_limit', remaining: 3 }]],
  ]);
});

test('while the disk is full, batches are refused and earlier ones stay; when there is room, the engine continues', () => {
  const connection = newDatabase();
  const engine = engineWith(connection);
  runAll(engine);
  const pages = connection.pragma('page_count', { simple: true }) as bigint;
  connection.pragma(`max_page_count = ${pages + 2n}`);
  let done = 0;
  let full: WireReply | undefined;
  const later = now + 86_400_000;
  for (let id = 1000; full === undefined; id++) {
    const [admitted] = engine.run([
      encodeAdmit(makeAdmitCommand(id, { funds: amount(1n) }), first, later + id * 60_000),
    ]);
    if (admitted?.[0] === 'done') done++;
    else full = admitted;
  }
  expect(full).toMatchObject(['storage', 'database or disk is full', 'SQLITE_FULL']);
  expect(connection.prepare('SELECT count(*) FROM hold').pluck().get()).toBe(BigInt(done));
  expect(checkInvariants(connection, 'full')).toEqual([]);
  connection.pragma('max_page_count = 100000');
  const [again] = engine.run([encodeAdmit(makeAdmitCommand(5000, { funds: amount(1n) }), first, later * 2)]);
  expect(again?.[0]).toBe('done');
  expect(connection.prepare('SELECT count(*) FROM hold').pluck().get()).toBe(BigInt(done + 1));
});

test('an expiry takes effect even if the command that noticed it fails', () => {
  const connection = newDatabase();
  const engine = engineWith(connection);
  runAll(engine);
  const later = now + 2 * periodMs;
  engine.run([encodeAdmit(makeAdmitCommand(100, { funds: amount(1n), expiresAtMs: later + 1 }), first, later)]);
  const broken = encodeAdmit(makeAdmitCommand(101, { funds: amount(-1n) }), first, later + 1);
  expect(engine.run([broken]).map(([outcome]) => outcome)).toEqual(['failed']);
  expect(connection.prepare('SELECT reason FROM voided WHERE id = 100').pluck().all()).toEqual(['expired']);
});
