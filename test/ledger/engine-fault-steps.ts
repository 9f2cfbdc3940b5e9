import Database from 'better-sqlite3';
import { expect } from 'vitest';
import type { AdmitCommand } from '../../src/ledger/ledger.ts';
import type { AdminCommands, AdminCall } from '../../src/ledger/rules/administration.ts';
import { type Connection, openForWriting, injectedSqliteError } from '../../src/lib/sqlite/database.ts';
import { Engine } from '../../src/ledger/sqlite/engine.ts';
import { type FaultPlan, Faults } from '../../src/ledger/sqlite/fault.ts';
import { checkInvariants } from '../../src/ledger/sqlite/invariants.ts';
import { migrateLedger } from '../../src/ledger/sqlite/schema.ts';
import { encodeAdmit, encodeSettle, type WireCommand, type WireReply } from '../../src/ledger/sqlite/wire.ts';
import { ReusedLedgers } from './reused-ledgers.ts';
import {
  makeAdmitCommand,
  amount,
  estimate,
  makeHash,
  noUsage,
  plans,
  settleAmount,
  makeSettleCommand,
} from './fixture.ts';

export const now = Date.parse('2026-05-10T12:00:00Z');
export const periodMs = 14 * 86_400_000;
const smallPlans = {
  ...plans,
  core: { ...plans.core, biweekly: { priceNanoUsd: 1_000_000n, tokens: 500 }, freeDailyRequests: 1 },
};
/** The key of the first account. */
export const first = { id: 1, accountId: 1 };
let db: Connection | undefined;

export function closeDatabase(): void {
  db?.close();
}

/** A ledger file with empty tables. It is made only once, because that takes longer than a whole run. */
const empty = ((): Buffer => {
  const opened = openForWriting(':memory:');
  migrateLedger(opened, now);
  const file = opened.serialize();
  opened.close();
  return file;
})();

/** The ledgers of `failAtSteps`, which needs hundreds. */
const ledgers = new ReusedLedgers(empty);

/** Closes the previous ledger and returns a new one in memory. */
export function newDatabase(): Connection {
  db?.close();
  const opened = new Database(empty);
  opened.defaultSafeIntegers(true);
  opened.pragma('foreign_keys = ON');
  db = opened;
  return opened;
}

/** Returns batches of commands that change every table, encoded as they are sent to the engine. */
function workload(): WireCommand[][] {
  let seq = 0;
  const admin = <K extends keyof AdminCommands>(name: K, command: AdminCommands[K]): WireCommand => [
    'admin',
    now,
    { id: `admin ${++seq}`, name, command } as AdminCall,
  ];
  const admit = (id: number, change: Partial<AdmitCommand> = {}, key = 1): WireCommand =>
    encodeAdmit(makeAdmitCommand(id, change), { id: key, accountId: 1 }, now);
  const key = { masked: '', settings: {} };
  return [
    [
      admin('createAccount', { name: 'a', balance: 10_000_000n }),
      admin('createKey', { ...key, accountId: 1, hash: makeHash('key') }),
    ],
    [
      admin('createKey', {
        accountId: 1,
        hash: makeHash('own'),
        masked: '',
        settings: { balance: 5000n, minuteLimit: 9 },
      }),
      admin('createManagementKey', { accountId: 1, hash: makeHash('m'), masked: '', scopes: [] }),
      admin('updateKey', { keyId: 1, accountId: 1, settings: { minuteLimit: 5, dailyLimit: 3 } }),
    ],
    [
      admit(1),
      admit(2, { funds: undefined, free: true }),
      admit(3, { funds: amount(4000n) }, 2),
      admit(4, { expiresAtMs: now + 5 }),
    ],
    [
      ['extend', now, { id: 1, outputTokens: 100 }, 1],
      ['void', now, 2, 'rejected'],
      ['probe', now],
    ],
    [
      encodeSettle(makeSettleCommand(1, 2000), now),
      admin('setKeyState', { keyId: 2, accountId: 1, state: 'revoked' }),
      encodeSettle(settleAmount(3, 9000n), now),
      ['windows', now + 5, 1, true],
      admin('addCredit', { accountId: 1, amount: -5n, note: '' }),
    ],
    ...planned(() => ++seq),
  ];
}

/** Returns batches in which a plan is started, pays together with money, is renewed and cancelled. */
function planned(next: () => number): WireCommand[][] {
  const later = now + periodMs + 1;
  const admin = <K extends keyof AdminCommands>(name: K, command: AdminCommands[K], at = now): WireCommand => [
    'admin',
    at,
    { id: `admin ${next()}`, name, command } as AdminCall,
  ];
  const admit = (id: number, freeDaily: boolean, at = now): WireCommand =>
    encodeAdmit(makeAdmitCommand(id, { funds: estimate({ freeDaily }) }), { id: 3, accountId: 2 }, at);
  const failed = { usage: noUsage, state: 'upstream_failed' } as const;
  return [
    [
      admin('createAccount', { name: 'b', balance: 10_000_000n }),
      admin('createKey', { accountId: 2, hash: makeHash('planned'), masked: '', settings: {} }),
      admin('startSubscription', { accountId: 2, plan: 'core', period: 'biweekly' }),
      admin('startSubscription', { accountId: 2, plan: 'core', period: 'monthly' }),
    ],
    [admit(11, true), admit(12, false), encodeSettle(makeSettleCommand(11, 0, failed), now), admit(13, true)],
    [['extend', now, { id: 12, outputTokens: 100 }, 2], encodeSettle(makeSettleCommand(13, 9000), now)],
    [encodeSettle(makeSettleCommand(12, 700), later), admit(14, false, later)],
    [
      admin('cancelSubscription', { accountId: 2 }, later),
      ['void', later, 14, 'cancelled'],
      ['sweep', later + periodMs],
    ],
  ];
}

/** Runs the workload, and sends failed commands again, as the calling thread does. Returns the last reply to each command, and how many commands had to be sent again. */
export function runAll(engine: Engine): { replies: Map<string, unknown>; undone: number } {
  const replies = new Map<string, unknown>();
  let undone = 0;
  for (const [number, batch] of workload().entries()) {
    let rest = batch.map((command, index) => ({ command, name: `${number} ${index}` }));
    for (let tries = 0; rest.length > 0 && tries < 9; tries++) {
      const said: WireReply[] = engine.run(rest.map(({ command }) => command));
      for (const [index, { name }] of rest.entries()) {
        if (said[index]?.[0] === 'done') replies.set(name, said[index][1]);
      }
      rest = rest.filter((_, index) => said[index]?.[0] !== 'done');
      undone += rest.length;
    }
  }
  return { replies, undone };
}

function dump(connection: Connection): unknown {
  const tables = [
    'account',
    'api_key',
    'management_key',
    'key_day',
    'subscription',
    'plan_period',
    'plan_day',
    'hold',
    'usage',
    'usage_sum',
    'usage_limit',
    'limit_use',
    'end_user',
    'provider',
    'meta',
    'price',
    'model',
  ];
  return [
    ...tables.map(table => connection.prepare(`SELECT * FROM ${table} ORDER BY 1, 2`).all()),
    connection.prepare('SELECT id, held, reason FROM voided ORDER BY id').all(),
    connection
      .prepare('SELECT kind, account_id, number, key_id, amount, usage_id, period FROM entry ORDER BY 1, 3, 4')
      .all(),
  ];
}

/** Returns an engine on the connection that fails as the plan says. */
export function engineWith(connection: Connection, plan?: FaultPlan): Engine {
  const faults = plan === undefined ? {} : { faults: new Faults(plan, injectedSqliteError) };
  return new Engine(connection, { dailyLimitUnit: 'dollars', plans: smallPlans, ...faults });
}

const kinds = ['SQLITE_FULL', 'SQLITE_IOERR_WRITE', 'SQLITE_BUSY', 'SQLITE_CONSTRAINT_CHECK', 'bug'] as const;
/** Every kind of failure, at statements and at commits. */
export const faultPlans = [
  ...kinds.map(kind => ({ point: 'statement' as const, kind, times: 1 })),
  // The second failure happens when each command of the batch runs by itself.
  { point: 'statement' as const, kind: 'SQLITE_CONSTRAINT_CHECK' as const, times: 2 },
  { point: 'statement' as const, kind: 'SQLITE_FULL' as const, times: 2 },
  ...kinds.map(kind => ({ point: 'commit' as const, kind, times: 1 })),
];

/**
 * Makes the steps `from`, `from + by`, … of the workload fail as the plan says, each in a new ledger, and expects that after the failed commands are sent again, the result is the same as without the failure.
 */
export function failAtSteps(plan: (typeof faultPlans)[number], { from, by }: { from: number; by: number }): void {
  const clean = ledgers.open();
  const { replies } = runAll(engineWith(clean));
  const expected = dump(clean);
  ledgers.giveBack(clean);
  const fired = new SharedArrayBuffer(4);
  let nth = from;
  for (; nth < 1000; nth += by) {
    new Int32Array(fired)[0] = 0;
    const faulty = ledgers.open();
    const result = runAll(engineWith(faulty, { ...plan, nth, fired }));
    if (new Int32Array(fired)[0] !== 0) {
      expect(dump(faulty)).toEqual(expected);
      expect(result.replies).toEqual(replies);
      expect(checkInvariants(faulty, 'full')).toEqual([]);
    }
    ledgers.giveBack(faulty);
    if (new Int32Array(fired)[0] === 0) break;
  }
  expect(nth).toBeGreaterThan(plan.point === 'commit' ? 5 : 50);
}
