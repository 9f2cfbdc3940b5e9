import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import type { FaultPlan } from '../../src/ledger/sqlite/fault.ts';
import { openSqliteLedger } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import type { LedgerRequests } from '../../src/ledger/ledger-requests.ts';
import { makeAdmitCommand, amount, openFixture, plans, settleAmount } from './fixture.ts';
import { openWorkerLedger, type WorkerLedger } from './worker-ledger.ts';

const callers = 4;
const rounds = 3;

/** Returns true if a command was refused as `overloaded`; rethrows any other error. */
function isOverloaded(error: unknown): boolean {
  if (error instanceof GatewayError && error.code === 'overloaded') return true;
  throw error;
}

/**
 * Runs callers that admit, extend, settle and void while a step of the writer fails. Throws if a reply was wrong: an
 * acknowledged charge or credit is missing or doubled, or a refused admit or an ended request is still held.
 * Returns how many times the step failed and how many admits were refused. `workers`: the number of workers whose threads
 * the callers are in; 0: they are in the thread that opened the ledger.
 */
export async function brokenLoad(
  plan: Omit<FaultPlan, 'fired'>,
  workers = 0,
): Promise<{ fired: number; refused: number }> {
  // Only the ledger whose steps fail has threads: before it, the first account is made, and after it the stored data is read.
  const fixture = await openFixture({ isInline: true });
  await fixture.ledger.close();
  const fired = new SharedArrayBuffer(4);
  const { dataDir, clock } = fixture;
  fixture.ledger = await openSqliteLedger({
    dataDir,
    clock,
    dailyLimitUnit: 'dollars',
    plans,
    fault: { ...plan, fired },
  });
  const { ledger } = fixture;
  const lent = Array.from({ length: workers }, () => openWorkerLedger(ledger, dataDir, clock));
  const ledgerOf = (caller: number): Pick<LedgerRequests, 'admit' | 'extend' | 'settle' | 'void'> =>
    lent[caller % workers]?.requests ?? ledger;
  const charges = new Map<number, bigint>();
  let nextId = 1;
  let refused = 0;
  let credited = 0n;

  const admitted = async (number: number): Promise<number> => {
    for (;;) {
      const id = nextId++;
      try {
        const reply = await ledgerOf(number).admit(makeAdmitCommand(id, { funds: amount(1000n) }));
        assert.equal(reply.kind, 'admitted');
        return id;
      } catch (error) {
        isOverloaded(error);
        refused++;
        await wait(10);
      }
    }
  };
  const caller = async (number: number): Promise<void> => {
    for (let round = 0; round < rounds; round++) {
      const own = ledgerOf(number);
      const id = await admitted(number);
      const held = await own.extend({ id, nanoUsd: 500n }).then(
        reply => reply.heldNanoUsd,
        (error: unknown) => (isOverloaded(error) ? 1000n : 0n),
      );
      assert(held === 1000n || held === 1500n, `held ${held}`);
      if ((number + round) % 3 === 0) assert.equal(await own.void(id, 'cancelled'), 'voided');
      else {
        const cost = BigInt(700 + number);
        assert.equal((await own.settle(settleAmount(id, cost))).costNanoUsd, cost);
        charges.set(id, cost);
      }
    }
  };
  const addCredits = async (): Promise<void> => {
    for (let round = 0; round < rounds; round++) {
      const done = await ledger.addCredit({ accountId: 1, amount: 3n, note: '' }).catch(isOverloaded);
      if (typeof done === 'object') credited += 3n;
    }
  };
  try {
    await Promise.all([addCredits(), ...Array.from({ length: callers }, (_, number) => caller(number))]);
    for (const each of lent) await endWorker(each);
    await fixture.reopen();
    const account = await fixture.ledger.findAccount(1);
    const spent = [...charges.values()].reduce((sum, cost) => sum + cost, 0n);
    assert.deepEqual([account?.balance, account?.held], [10_000_000_000n + credited - spent, 0n]);
    assert.equal(fixture.ledger.voidedHoldsAtStart, 0);
    const records = await fixture.ledger.listActivity({ accountId: 1, limit: 1000, offset: 0 });
    const charged = records.map(record => `${record.requestId}: ${record.costNanoUsd}`);
    assert.deepEqual(charged.sort(), [...charges].map(([id, cost]) => `req_${id}: ${cost}`).sort());
  } finally {
    await fixture.end();
  }
  return { fired: Atomics.load(new Int32Array(fired), 0), refused };
}

/** Checks that a worker's memory has no id of an ended request. */
async function endWorker(worker: WorkerLedger): Promise<void> {
  assert.deepEqual(worker.listHeld(), []);
  await worker.close();
}
