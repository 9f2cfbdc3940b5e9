import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import type { FaultPlan } from '../../src/ledger/sqlite/fault.ts';
import { openSqliteLedger } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import { makeAdmitCommand, amount, openFixture, plans, settleAmount } from './fixture.ts';

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
 * Returns how many times the step failed and how many admits were refused.
 */
export async function brokenLoad(plan: Omit<FaultPlan, 'fired'>): Promise<{ fired: number; refused: number }> {
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
  const charges = new Map<number, bigint>();
  let nextId = 1;
  let refused = 0;
  let credited = 0n;

  const admitted = async (): Promise<number> => {
    for (;;) {
      const id = nextId++;
      try {
        const reply = await ledger.admit(makeAdmitCommand(id, { funds: amount(1000n) }));
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
      const id = await admitted();
      const held = await ledger.extend({ id, nanoUsd: 500n }).then(
        reply => reply.heldNanoUsd,
        (error: unknown) => (isOverloaded(error) ? 1000n : 0n),
      );
      assert(held === 1000n || held === 1500n, `held ${held}`);
      if ((number + round) % 3 === 0) assert.equal(await ledger.void(id, 'cancelled'), 'voided');
      else {
        const cost = BigInt(700 + number);
        assert.equal((await ledger.settle(settleAmount(id, cost))).costNanoUsd, cost);
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
