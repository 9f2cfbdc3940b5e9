/**
 * A process with a ledger and a load on it, without HTTP or upstreams. An answer is an admission, 40 ms of waiting, and a settle. It gets orders (`LoadOrder`) from its
 * parent process, one after the other, and answers each with a message.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { IdSource, publicRequestId } from '../../src/lib/ids.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openPostgresLedger, type PostgresStats } from '../../src/ledger/postgres/postgres-ledger.ts';
import { openSqliteLedger } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import { makeAdmitCommand, makeHash, makeSettleCommand, plans } from '../../test/ledger/fixture.ts';
import { percentile } from '../statistics.ts';

/** A key of a load, with its account. */
export interface LoadKey {
  readonly id: number;
  readonly accountId: number;
}

/** A run that the parent process requests. */
export type LoadOrder =
  | { readonly kind: 'open'; readonly engine: 'sqlite' | 'postgres'; readonly at: string }
  | { readonly kind: 'make'; readonly accounts: number }
  | {
      readonly kind: 'run';
      readonly keys: readonly LoadKey[];
      readonly seconds: number;
      /** New answers per second, whether earlier ones have ended or not; absent: each caller starts its next answer at once, without the 40 ms. */
      readonly rate?: number;
      readonly callers?: number;
    }
  | { readonly kind: 'close' };

/** The result of a run. */
export interface LoadReport {
  readonly answers: number;
  /** The number of admissions that were refused because the ledger was overloaded. */
  readonly refused: number;
  readonly seconds: number;
  /** CPU time of this process, all threads. */
  readonly cpuMs: number;
  readonly admitP50Ms: number;
  readonly admitP99Ms: number;
  /** All 0 on SQLite, which has no round trips. */
  readonly stats: PostgresStats;
}

const answerMs = 40;
const none: PostgresStats = { batches: 0, commands: 0, roundTrips: 0 };
let ledger: Ledger & { readonly stats?: PostgresStats };
let ids: IdSource;

async function open({ engine, at }: Extract<LoadOrder, { kind: 'open' }>): Promise<void> {
  const options = { clock: systemClock, dailyLimitUnit: 'dollars', plans } as const;
  if (engine === 'sqlite') {
    ledger = await openSqliteLedger({ ...options, dataDir: at });
    ids = new IdSource(systemClock, ledger.lastId);
    return;
  }
  const opened = await openPostgresLedger({ ...options, url: at });
  ledger = opened;
  ids = new IdSource(systemClock, opened.lastId, { instance: opened.instanceNumber });
}

async function make(accounts: number): Promise<LoadKey[]> {
  const keys: LoadKey[] = [];
  for (let number = 0; number < accounts; number += 1) {
    const { accountId } = await ledger.createAccount({ name: `account ${number}`, balance: 10n ** 15n });
    const hash = makeHash(`${accounts} ${number}`);
    const made = await ledger.createKey({ accountId, hash, masked: '', settings: {} });
    if (typeof made === 'string') throw new Error(made);
    keys.push({ id: made.keyId, accountId });
  }
  return keys;
}

async function run(order: Extract<LoadOrder, { kind: 'run' }>): Promise<LoadReport> {
  const { keys, seconds, rate, callers = 1 } = order;
  const admitMs: number[] = [];
  let sent = 0;
  let refused = 0;
  const answer = async (lengthMs: number): Promise<void> => {
    const key = keys[sent % keys.length];
    sent += 1;
    const id = ids.next();
    const startMs = performance.now();
    const command = makeAdmitCommand(id, { key: key ?? { id: 1, accountId: 1 }, requestId: publicRequestId(id) });
    const admitted = await ledger.admit(command).catch((error: unknown) => {
      if (error instanceof GatewayError && error.code === 'overloaded') return undefined;
      throw error;
    });
    admitMs.push(performance.now() - startMs);
    if (admitted === undefined) {
      refused += 1;
      return;
    }
    if (admitted.kind !== 'admitted') throw new Error(`refused: ${JSON.stringify(admitted)}`);
    if (lengthMs > 0) await sleep(lengthMs);
    const settled = await ledger.settle(makeSettleCommand(id, 20));
    if (settled.kind !== 'settled') throw new Error(`not settled: ${settled.kind}`);
  };
  const before = { ...(ledger.stats ?? none) };
  const cpu = process.cpuUsage();
  const beganMs = performance.now();
  const untilMs = beganMs + seconds * 1000;
  const under: Promise<void>[] = [];
  if (rate === undefined) {
    const call = async (): Promise<void> => {
      while (performance.now() < untilMs) await answer(0);
    };
    for (let caller = 0; caller < callers; caller += 1) under.push(call());
  } else {
    while (performance.now() < untilMs) {
      const due = ((performance.now() - beganMs) / 1000) * rate;
      while (sent < due) under.push(answer(answerMs));
      await sleep(1);
    }
  }
  await Promise.all(under);
  const { user, system } = process.cpuUsage(cpu);
  const after = ledger.stats ?? none;
  admitMs.sort((a, b) => a - b);
  return {
    answers: sent - refused,
    refused,
    seconds: (performance.now() - beganMs) / 1000,
    cpuMs: (user + system) / 1000,
    admitP50Ms: percentile(admitMs, 0.5),
    admitP99Ms: percentile(admitMs, 0.99),
    stats: {
      batches: after.batches - before.batches,
      commands: after.commands - before.commands,
      roundTrips: after.roundTrips - before.roundTrips,
    },
  };
}

async function obey(order: LoadOrder): Promise<unknown> {
  if (order.kind === 'open') return open(order);
  if (order.kind === 'make') return make(order.accounts);
  if (order.kind === 'run') return run(order);
  await ledger.close();
  return process.disconnect?.();
}

process.on('message', order => {
  obey(order as LoadOrder).then(
    reply => process.connected && process.send?.({ reply }),
    (error: unknown) => process.send?.({ error: String(error) }),
  );
});
