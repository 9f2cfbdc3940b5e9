/**
 * A process whose disk fails: `node storage-load.ts DIRECTORY FILE RUN`. It writes to the ledger and the documents in the directory, and reports what was acknowledged in the file, one per
 * line: `opened`, `settled ID COST`, `credited REFERENCE`, `stored ID`, `finished ID`. Ends with code 70 if the disk lost writes.
 */
import { openSync, writeSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { IdSource } from '../../src/lib/ids.ts';
import { openSqliteLedger } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import { openSqliteDocuments } from '../../src/store/sqlite/documents/sqlite-documents.ts';
import { makeAdmitCommand, amount, plans, settleAmount } from '../ledger/commands.ts';

const [dataDir = '', file = '', run = ''] = process.argv.slice(2);
const said = openSync(file, 'a');
const say = (text: string): number => writeSync(said, `${text}\n`);
const lost = (): void => process.exit(70);
const watch = { failing: () => undefined, lost, suspended: () => undefined, wroteOff: () => undefined };

const ledger = await openSqliteLedger({ dataDir, clock: systemClock, dailyLimitUnit: 'dollars', plans, watch });
const documents = await openSqliteDocuments({ dataDir, clock: systemClock, bytesMax: 1e9, watch });
const ids = new IdSource(systemClock, ledger.lastId);
say(`opened ${ledger.violationsAtStart.length}`);

/** Repeats `work` while the storage is overloaded. Returns its result. */
async function insist<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (thrown) {
      if (!(thrown instanceof GatewayError) || thrown.code !== 'overloaded') {
        // A disk that has lost writes may return anything until `lost` ends this process, which happens at once.
        await wait(2000);
        throw thrown;
      }
      await wait(20);
    }
  }
}

async function payer(number: number): Promise<never> {
  for (let round = number; ; round += 1) {
    const id = ids.next();
    const cost = BigInt(1 + (round % 900));
    await insist(() => ledger.admit(makeAdmitCommand(id, { funds: amount(1000n) })));
    await ledger.settle(settleAmount(id, cost));
    say(`settled ${id} ${cost}`);
  }
}

async function addCredits(): Promise<never> {
  for (let round = 0; ; round += 1) {
    const reference = `${run} ${round}`;
    await insist(() => ledger.addCredit({ accountId: 1, amount: 12_345n, note: 'load', reference }));
    say(`credited ${reference}`);
    await wait(1);
  }
}

async function writer(name: string): Promise<never> {
  for (let round = 0; ; round += 1) {
    const id = `${run}-${name}-${round}`;
    const createdAtMs = systemClock.now();
    const facts = { kind: 'response', id, accountId: 1, state: 'running', finished: false } as const;
    const body = Buffer.alloc(1 + ((round * 977) % 40_000), `begun ${id} `);
    await insist(() => documents.put({ ...facts, createdAtMs, endsAtMs: createdAtMs + 86_400_000, body }));
    say(`stored ${id}`);
    await insist(() =>
      documents.update({ kind: 'response', id, state: 'done', finished: true, body: Buffer.from(id) }),
    );
    say(`finished ${id}`);
  }
}

await Promise.all([addCredits(), ...[0, 1, 2, 3].map(payer), ...['a', 'b', 'c'].map(writer)]);
