/** The ledger as workers have it: they send commands directly to its thread, and through the main thread if that fails (docs/decisions/2026-11-23-workers-are-threads.md). */
import type { MessagePort } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { admissionsMax } from '../../src/ledger/fair-batches.ts';
import { unwatched } from '../../src/ledger/sqlite/ledger-watch.ts';
import { LogState } from '../../src/ledger/sqlite/log-state.ts';
import { openSqliteLedger, type SqliteLedger } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import { ledgerPath } from '../../src/ledger/sqlite/verify.ts';
import { Writer } from '../../src/ledger/sqlite/writer.ts';
import {
  amount,
  dollar,
  type LedgerFixture,
  makeAdmitCommand,
  makeHash,
  openFixture,
  plans,
  settleAmount,
} from './fixture.ts';
import { openWorkerLedger, type WorkerLedger } from './worker-ledger.ts';

let fixture: LedgerFixture | undefined;
const workers: WorkerLedger[] = [];
afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.close();
  await fixture?.end();
  fixture = undefined;
});

/** Opens a ledger and `count` workers of it. `connect` replaces the ledger's own. */
async function open(count: number, connect?: SqliteLedger['connect']) {
  fixture ??= await openFixture();
  const { dataDir, clock } = fixture;
  // The cast holds: this file is not among those that run on PostgreSQL, which has no workers.
  const ledger = fixture.ledger as SqliteLedger;
  const lent = connect === undefined ? ledger : { ...ledgerParts(ledger), connect };
  for (let each = 0; each < count; each += 1) workers.push(openWorkerLedger(lent, dataDir, clock, 50));
  return { ledger, workers };
}

const ledgerParts = ({ relay, credentialVersion }: SqliteLedger) => ({ relay, credentialVersion });

const firstOf = (all: readonly WorkerLedger[]): WorkerLedger => all[0] ?? expect.fail('there is no worker');

async function refused(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    value => value,
    (error: unknown) => (error instanceof GatewayError ? error.code : error),
  );
}

test('requests of workers do not use the main thread, and what they were told is durable for its readers', async () => {
  const { ledger } = await open(2);
  const run = async (worker: WorkerLedger, id: number): Promise<void> => {
    expect(await worker.requests.admit(makeAdmitCommand(id, { funds: amount(1000n) }))).toMatchObject({
      kind: 'admitted',
    });
    expect(worker.listHeld()).toContain(id);
    await worker.requests.settle(settleAmount(id, 700n));
    expect(worker.listHeld()).not.toContain(id);
  };
  await Promise.all(workers.flatMap((worker, index) => [1, 2, 3].map(each => run(worker, index * 10 + each))));
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 10n * dollar - 6n * 700n, held: 0n });
  expect(workers.map(worker => worker.countRelayed())).toEqual([0, 0]);
});

test('a denied admission leaves nothing in the memory of the worker', async () => {
  const { requests, listHeld } = firstOf((await open(1)).workers);
  const command = makeAdmitCommand(1, { funds: amount(11n * dollar) });
  expect(await requests.admit(command)).toMatchObject({ kind: 'denied' });
  expect(listHeld()).toEqual([]);
});

test('when a worker ends, its holds are voided, also those whose admission was still under way', async () => {
  const { ledger } = await open(2);
  const [ending, other] = workers;
  await ending?.requests.admit(makeAdmitCommand(1, { funds: amount(1000n) }));
  await other?.requests.admit(makeAdmitCommand(2, { funds: amount(500n) }));
  const underWay = ending?.requests.admit(makeAdmitCommand(3, { funds: amount(1000n) }));
  // The admission is sent at the end of this turn.
  await new Promise(resolve => {
    setImmediate(resolve);
  });
  ending?.end();
  await underWay;
  expect(await ledger.findAccount(1)).toMatchObject({ held: 500n });
});

test('while the disk is full, admits of workers are refused and settles wait; then they use the ledger’s thread again', async () => {
  fixture = await openFixture();
  const { dataDir, clock } = fixture;
  await fixture.ledger.close();
  // The first commit is that of the admit; the next four fail.
  const fault = { point: 'commit', kind: 'SQLITE_FULL', nth: 2, times: 4 } as const;
  fixture.ledger = await openSqliteLedger({ dataDir, clock, dailyLimitUnit: 'dollars', plans, fault });
  const worker = firstOf((await open(1)).workers);
  const { requests } = worker;
  await requests.admit(makeAdmitCommand(1, { funds: amount(5n) }));
  const settle = requests.settle(settleAmount(1, 5n));
  expect(await refused(requests.admit(makeAdmitCommand(2, { funds: amount(5n) })))).toBe('overloaded');
  expect(await settle).toEqual({ kind: 'settled', costNanoUsd: 5n, writtenOffNanoUsd: 0n });
  await expect.poll(() => worker.countConnected()).toBeGreaterThan(1);
  await expect.poll(() => refused(fixture?.ledger.findAccount(1) ?? Promise.resolve())).toMatchObject({ held: 0n });
  await expect
    .poll(async () => {
      const relayed = worker.countRelayed();
      await requests.admit(makeAdmitCommand(3, { funds: undefined }));
      await requests.void(3, 'cancelled');
      return worker.countRelayed() - relayed;
    })
    .toBe(0);
  expect(worker.listHeld()).toEqual([]);
});

test('a settle that waits too long is refused, and is done nevertheless once the ledger’s thread gets it', async () => {
  const offered: MessagePort[] = [];
  const { ledger } = await open(1, port => void offered.push(port));
  const { requests } = firstOf(workers);
  await ledger.admit(makeAdmitCommand(1, { funds: amount(1000n) }));
  expect(await refused(requests.settle(settleAmount(1, 700n), 'bounded'))).toBe('overloaded');
  for (const port of offered) ledger.connect(port);
  expect(await requests.settle(settleAmount(1, 700n))).toMatchObject({ kind: 'settled', costNanoUsd: 700n });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 10n * dollar - 700n, held: 0n });
});

test('with 20,000 commands waiting, further admits of a worker are refused', async () => {
  const { requests } = firstOf((await open(1, () => undefined)).workers);
  for (let id = 1; id <= admissionsMax; id += 1) void requests.admit(makeAdmitCommand(id, { funds: undefined }));
  await new Promise(resolve => {
    setImmediate(resolve);
  });
  expect(await refused(requests.admit(makeAdmitCommand(admissionsMax + 1, { funds: undefined })))).toBe('overloaded');
});

test('many admits of one account at one worker do not delay those of another account at another worker', async () => {
  const { ledger } = await open(2);
  const other = await ledger.createAccount({ name: 'other', balance: dollar });
  await ledger.createKey({ accountId: other.accountId, hash: makeHash('other'), masked: 'sk-tg-…', settings: {} });
  const [busy, quiet] = workers;
  const many = 2_000;
  let answered = 0;
  const all = Array.from({ length: many }, async (_, index) => {
    await busy?.requests.admit(makeAdmitCommand(10 + index, { funds: undefined }));
    answered += 1;
  });
  await quiet?.requests.admit(makeAdmitCommand(1, { funds: undefined }, 'other'));
  expect(answered).toBeLessThan(many / 2);
  await Promise.all(all);
});

test('after a checkpoint has lost writes, nothing of a worker is executed any more', async () => {
  fixture = await openFixture();
  const { dataDir, clock } = fixture;
  await fixture.ledger.close();
  const files = { path: ledgerPath(dataDir), log: new LogState().memory, checksFile: false, fault: undefined };
  const settings = { dailyLimitUnit: 'dollars', plans, writeOffMax: undefined } as const;
  const tools = { now: () => clock.now(), observe: undefined, settleMs: 50, watch: unwatched };
  const { writer } = await Writer.start({ ...files, ...settings }, tools);
  const lent = {
    relay: writer.relay.bind(writer),
    connect: writer.connect.bind(writer),
    credentialVersion: new SharedArrayBuffer(4),
  };
  const { requests, close } = openWorkerLedger(lent, dataDir, clock, 50);
  await requests.admit(makeAdmitCommand(1, { funds: amount(1000n) }));
  writer.lose(new Error('a checkpoint failed'));
  expect(await refused(requests.settle(settleAmount(1, 700n), 'bounded'))).toBe('overloaded');
  expect(await refused(requests.admit(makeAdmitCommand(2, { funds: amount(1000n) })))).toBe('overloaded');
  await close();
  await writer.close();
  await fixture.open();
  expect(await fixture.ledger.findAccount(1)).toMatchObject({ balance: 10n * dollar, held: 0n });
});
