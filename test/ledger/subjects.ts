import type * as readsModule from '../../src/ledger/reader/reads.ts';
import type { AdmitCommand, ExtendCommand, KeyOwner, SettleCommand, VoidReason } from '../../src/ledger/ledger.ts';
import type { Plans } from '../../src/ledger/plans.ts';
import type * as administrationModule from '../../src/ledger/rules/administration.ts';
import type * as admitModule from '../../src/ledger/rules/admit.ts';
import type * as extendModule from '../../src/ledger/rules/extend.ts';
import type * as limitsModule from '../../src/ledger/rules/limits.ts';
import type * as calendarModule from '../../src/ledger/rules/calendar.ts';
import type * as settleModule from '../../src/ledger/rules/settle.ts';
import type * as sweepModule from '../../src/ledger/rules/sweep.ts';
import type * as windowsModule from '../../src/ledger/rules/windows.ts';
import type * as engineModule from '../../src/ledger/sqlite/engine.ts';
import type * as invariantsModule from '../../src/ledger/sqlite/invariants.ts';
import type * as schemaModule from '../../src/ledger/sqlite/schema.ts';
import type * as wireModule from '../../src/ledger/sqlite/wire.ts';
import type * as databaseModule from '../../src/lib/sqlite/database.ts';
import { checkRows } from './memory-invariants.ts';
import { MemoryRows } from './memory-rows.ts';
import { ReusedLedgers } from './reused-ledgers.ts';

/** The ledgers that traces are run on: the rules on rows in memory, and the SQLite engine on a file. The PostgreSQL engine is in `../postgres/ledger-subject.ts`. */

/** A command with its time. */
export type Command =
  | { readonly kind: 'admit'; readonly command: Omit<AdmitCommand, 'key'> & { readonly key: KeyOwner } }
  | { readonly kind: 'settle'; readonly command: SettleCommand }
  | { readonly kind: 'extend'; readonly command: ExtendCommand }
  | { readonly kind: 'void'; readonly id: number; readonly reason: VoidReason }
  | { readonly kind: 'windows'; readonly keyId: number; readonly free: boolean }
  | { readonly kind: 'admin'; readonly call: administrationModule.AdminCall };

export type TimedCommand = Command & { readonly nowMs: number; readonly seq: number };

/** Subjects in memory return values, others promises. */
type Soon<T> = T | Promise<T>;

/** A ledger that runs batches of commands, and whose stored data can be read. */
export interface Subject {
  /** Returns each command's answer, or 'failed'. */
  run(batch: readonly TimedCommand[]): Soon<unknown[]>;
  /** Restarts the ledger as in a new process. Returns how many holds were voided. */
  restart(nowMs: number): Soon<number>;
  account(accountId: number): Soon<{ readonly balance: bigint; readonly held: bigint } | undefined>;
  subscription(accountId: number, nowMs: number): unknown;
  key(
    keyId: number,
    nowMs: number,
  ): Soon<{ readonly balance: bigint | null; readonly usageToday: bigint; readonly usageMinute: number } | undefined>;
  group(groupId: number): Soon<{ readonly balance: bigint | null; readonly held: bigint } | undefined>;
  /** Returns the current use of a limit; undefined if its window was never read. */
  limit(limitId: number, nowMs: number): Soon<{ readonly used: bigint; readonly held: bigint } | undefined>;
  /** Returns the values of a key's limit fields; undefined if the subject can't return them. */
  fields(keyId: number, nowMs: number): Soon<readonly (number | bigint | null | undefined)[] | undefined>;
  violations(): Soon<string[]>;
  close(): Soon<void>;
}

export type OpenSubject = (plans: Plans, unit: 'dollars' | 'requests') => Subject;

/** The two subjects. `src` is the absolute path of the modules: those of the checkout or of a mutant. */
export const subjects = {
  rules: openRules,
  engine: openEngine,
} satisfies Record<string, (src: string) => Promise<OpenSubject>>;

const failed = 'failed';

async function openRules(src: string): Promise<OpenSubject> {
  const load = (name: string): Promise<unknown> => import(`${src}/ledger/rules/${name}.ts`);
  const names = ['administration', 'calendar', 'limits', 'admit', 'extend', 'settle', 'sweep', 'windows'];
  const modules = Object.assign({}, ...(await Promise.all(names.map(load)))) as typeof administrationModule &
    typeof calendarModule &
    typeof limitsModule &
    typeof admitModule &
    typeof extendModule &
    typeof settleModule &
    typeof sweepModule &
    typeof windowsModule;
  return (plans, dailyLimitUnit) => {
    const rows = new MemoryRows();
    const context = { rows, plans, dailyLimitUnit };
    const { models } = rows;
    const endUsers: string[] = [];
    const endpoints: string[] = [];
    const execute = (timed: TimedCommand): unknown => {
      const { nowMs } = timed;
      switch (timed.kind) {
        case 'admit': {
          const { key: owner, endUser, endpoint = '', batchId: batch, ...command } = timed.command;
          if (!endpoints.includes(endpoint)) endpoints.push(endpoint);
          const endpointId = endpoints.indexOf(endpoint) + 1;
          if (!models.includes(command.model)) models.push(command.model);
          if (endUser !== undefined && !endUsers.includes(endUser)) endUsers.push(endUser);
          const endUserId = endUser === undefined ? null : endUsers.indexOf(endUser) + 1;
          const modelId = models.indexOf(command.model) + 1;
          const batchId = batch === undefined ? null : 1;
          return modules.admit(context, { ...command, owner, modelId, endUserId, endpointId, batchId }, nowMs);
        }
        case 'settle':
          return modules.settle(context, { ...timed.command, priceId: 1, providerId: 1 }, nowMs);
        case 'extend':
          return modules.extend(context, { command: timed.command, extension: timed.seq }, nowMs);
        case 'void':
          return modules.voidRequest(context, timed.id, timed.reason, nowMs);
        case 'windows': {
          const key = rows.keys.get(timed.keyId);
          return key === undefined ? [] : modules.readWindows(rows, key, timed.free, nowMs);
        }
        case 'admin':
          return modules.administer(context, timed.call, nowMs);
      }
    };
    const toDay = (ms: number): number => Math.floor(ms / 86_400_000);
    return {
      run: batch =>
        batch.map(command => {
          modules.sweep(context, command.nowMs);
          try {
            return rows.attempt(() => execute(command));
          } catch {
            return failed;
          }
        }),
      restart: nowMs => modules.recover(context, nowMs),
      account: accountId => rows.accounts.get(accountId),
      subscription(accountId, nowMs) {
        const period = rows.periods.get(accountId, rows.accounts.get(accountId)?.period ?? 0);
        const subscription = rows.subscriptions.get(accountId, period?.subscription ?? 0);
        if (period === undefined || subscription === undefined) return undefined;
        const taken = rows.planDays.get(accountId, toDay(nowMs))?.requests ?? 0;
        return {
          accountId,
          plan: subscription.plan,
          period: subscription.period,
          startedAtMs: subscription.startedAtMs,
          cancelled: subscription.state === 'cancelled',
          periodStartMs: period.startMs,
          periodEndMs: period.endMs,
          tokens: period.tokens,
          tokensUsed: period.used,
          tokensHeld: period.held,
          freeLeftToday: Math.max(0, plans[subscription.plan].freeDailyRequests - taken),
        };
      },
      key(keyId, nowMs) {
        const balance = rows.keys.get(keyId)?.balance ?? null;
        const usageToday = rows.keyDays.get(keyId, toDay(nowMs))?.spent ?? 0n;
        const admitted = [...rows.holds.all(), ...rows.usage.all(), ...rows.voids];
        const young = admitted.filter(each => each.keyId === keyId && each.admittedAtMs > nowMs - 60_000);
        return { balance, usageToday, usageMinute: young.length };
      },
      group: groupId => rows.groups.get(groupId),
      limit(limitId, nowMs) {
        const limit = rows.limits.get(limitId);
        if (limit === undefined || limit.removed) return undefined;
        const { number } = modules.windowAt(limit.per, limit.timeZone, nowMs);
        const uses = rows.limitUses.all().filter(use => use.limitId === limitId && use.number === number);
        const amounts = uses.map(use => modules.readAmounts(use, nowMs));
        return amounts.sort((a, b) => Number(a.used + a.held - b.used - b.held)).at(-1);
      },
      fields: () => undefined,
      violations: () => checkRows(rows),
      close: () => undefined,
    };
  };
}

async function openEngine(src: string): Promise<OpenSubject> {
  const { Engine } = (await import(`${src}/ledger/sqlite/engine.ts`)) as typeof engineModule;
  const { checkInvariants } = (await import(`${src}/ledger/sqlite/invariants.ts`)) as typeof invariantsModule;
  const { migrateLedger } = (await import(`${src}/ledger/sqlite/schema.ts`)) as typeof schemaModule;
  const { openForWriting } = (await import(`${src}/lib/sqlite/database.ts`)) as typeof databaseModule;
  const { prepareReads } = (await import(`${src}/ledger/reader/reads.ts`)) as typeof readsModule;
  const wire = (await import(`${src}/ledger/sqlite/wire.ts`)) as typeof wireModule;
  // A file with empty tables, made only once, because that takes longer than most traces.
  const db = openForWriting(':memory:');
  migrateLedger(db, 0);
  const ledgers = new ReusedLedgers(db.serialize());
  db.close();
  return (plans, dailyLimitUnit) => {
    const file = ledgers.open();
    let engine = new Engine(file, { dailyLimitUnit, plans });
    const reads = prepareReads(file, plans);
    return {
      run(batch) {
        const replies = engine.run(batch.map(command => encode(wire, command)));
        return replies.map(([outcome, value], index) =>
          outcome === 'done' ? decode(wire, batch[index]?.kind, value) : outcome,
        );
      },
      restart(nowMs) {
        engine = new Engine(file, { dailyLimitUnit, plans });
        return engine.recover(nowMs);
      },
      account: accountId => reads.account(accountId),
      subscription: (accountId, nowMs) => reads.subscription(accountId, nowMs),
      key: (keyId, nowMs) => reads.storedKey(keyId, nowMs),
      group: groupId => reads.group(groupId, undefined),
      limit(limitId, nowMs) {
        engine.run([['uses', nowMs, limitId]]);
        const row = reads.limit(limitId, undefined, nowMs);
        // A `concurrent` limit has running requests as its use.
        return row?.unit === 'concurrent' ? { used: 0n, held: row.used } : row;
      },
      fields(keyId, nowMs) {
        const row = reads.storedKey(keyId, nowMs);
        return row && [row.minuteLimit, row.dailyLimit, row.monthlyLimit];
      },
      violations() {
        engine.finish();
        return checkInvariants(file, 'full');
      },
      close: () => ledgers.giveBack(file),
    };
  };
}

/** Encodes a command as it is sent to an engine. */
export function encode(wire: typeof wireModule, timed: TimedCommand): wireModule.WireCommand {
  const { nowMs, seq } = timed;
  switch (timed.kind) {
    case 'admit':
      return wire.encodeAdmit(timed.command, timed.command.key, nowMs);
    case 'settle':
      return wire.encodeSettle(timed.command, nowMs);
    case 'extend':
      return ['extend', nowMs, timed.command, seq];
    case 'void':
      return ['void', nowMs, timed.id, timed.reason];
    case 'windows':
      return ['windows', nowMs, timed.keyId, timed.free];
    case 'admin':
      return ['admin', nowMs, timed.call];
  }
}

/** Decodes the engine's answer to a command of a kind. */
export function decode(wire: typeof wireModule, kind: Command['kind'] | undefined, value: unknown): unknown {
  if (kind === 'admit') return wire.decodeAdmitReply(value as wireModule.AdmitReply);
  return kind === 'settle' ? wire.decodeSettleReply(value as wireModule.SettleReply) : value;
}
