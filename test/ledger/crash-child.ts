/**
 * The process that the kill tests kill: `node crash-child.ts DIRECTORY FILE`. It opens the ledger in the directory, sends a mixed load, and writes each acknowledgement to the file, one per line,
 * before it continues: `opened CPU_MS VIOLATIONS`, `settled ID COST`, `voided ID`, `credited AMOUNT`.
 */
import { openSync, writeSync } from 'node:fs';
import { systemClock } from '../../src/lib/clock.ts';
import { IdSource } from '../../src/lib/ids.ts';
import { openSqliteLedger } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import { makeAdmitCommand, amount, estimate, plans, settleAmount, makeSettleCommand } from './commands.ts';

const callers = 16;
const [dataDir = '', file = ''] = process.argv.slice(2);
const said = openSync(file, 'w');
const say = (text: string): number => writeSync(said, `${text}\n`);

// CPU time, so that other work on the machine does not count.
const before = process.cpuUsage();
const ledger = await openSqliteLedger({ dataDir, clock: systemClock, dailyLimitUnit: 'dollars', plans });
const { user, system } = process.cpuUsage(before);
say(`opened ${Math.ceil((user + system) / 1000)} ${ledger.violationsAtStart.length}`);
const ids = new IdSource(systemClock, ledger.lastId);

async function caller(number: number): Promise<never> {
  for (let round = number; ; round++) {
    const id = ids.next();
    if (round % 4 === 0) {
      await payByPlan(id, round);
      continue;
    }
    await ledger.admit(makeAdmitCommand(id, { funds: amount(1000n) }));
    if (round % 3 === 0) await ledger.extend({ id, nanoUsd: 100n });
    if (round % 7 === 0) {
      await ledger.void(id, 'cancelled');
      say(`voided ${id}`);
    } else {
      const { costNanoUsd } = await ledger.settle(settleAmount(id, BigInt(1 + (round % 2000))));
      say(`settled ${id} ${costNanoUsd}`);
    }
  }
}

/** Runs one request, paid by one of the day's free requests or by the plan's tokens. */
async function payByPlan(id: number, round: number): Promise<void> {
  const funds = estimate({ outputTokensWanted: 20, freeDaily: round % 8 === 0 });
  await ledger.admit(makeAdmitCommand(id, { funds }, 'planned'));
  await ledger.extend({ id, outputTokens: 30 });
  const { costNanoUsd } = await ledger.settle(makeSettleCommand(id, round % 60));
  say(`settled ${id} ${costNanoUsd}`);
}

async function addCredits(): Promise<never> {
  for (;;) {
    await ledger.addCredit({ accountId: 1, amount: 12_345n, note: 'load' });
    say('credited 12345');
  }
}

await Promise.all([addCredits(), ...Array.from({ length: callers }, (_, number) => caller(number))]);
