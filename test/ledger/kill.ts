import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { systemClock } from '../../src/lib/clock.ts';
import { verifyLedgerFile } from '../../src/ledger/sqlite/verify.ts';
import { makeHash, openFixture } from './fixture.ts';

const child = join(import.meta.dirname, 'crash-child.ts');

/** The least number of lines that a process has reported when it is killed. */
const linesMin = 12;

const countLines = (file: string): number => readFileSync(file, 'utf8').split('\n').length;

/** What the killed processes reported. */
interface Acknowledged {
  readonly settled: Map<string, bigint>;
  readonly voided: Set<string>;
  credited: bigint;
  /** CPU time of each opening of the ledger, in ms. */
  readonly openingCpuMs: number[];
}

/** Starts a process with the load, kills it `afterMs` after it is ready, and adds what it reported to `said`. */
async function runAndKill(dataDir: string, afterMs: number, said: Acknowledged): Promise<void> {
  const file = join(dataDir, 'said.txt');
  writeFileSync(file, '');
  const load = spawn(process.execPath, [child, dataDir, file], { stdio: 'inherit' });
  while (statSync(file).size === 0 && load.exitCode === null) await wait(2);
  await wait(afterMs);
  // A busy machine does little in `afterMs`.
  while (countLines(file) < linesMin && load.exitCode === null) await wait(2);
  assert.equal(load.exitCode, null, 'the load ran until it was killed');
  load.kill('SIGKILL');
  await once(load, 'close');
  const text = readFileSync(file, 'utf8');
  // What follows the last line end was cut off.
  for (const line of text.split('\n').slice(0, -1)) {
    const [word, first = '', second = ''] = line.split(' ');
    if (word === 'opened') {
      said.openingCpuMs.push(Number(first));
      assert.equal(second, '0', 'invariants hold at the start');
    } else if (word === 'settled') said.settled.set(first, BigInt(second));
    else if (word === 'voided') said.voided.add(first);
    else said.credited += BigInt(first);
  }
}

/**
 * Runs and kills processes under load, `times` times on the same directory. Throws if something acknowledged is missing or doubled, to
 * the nano-dollar, or if an invariant is violated. Returns how many settles were acknowledged and the median CPU time of an opening
 * (the slowest one depends on the machine).
 */
export async function killOften(times: number): Promise<{ settled: number; openingCpuMs: number }> {
  const fixture = await openFixture();
  const { accountId } = await fixture.ledger.createAccount({ name: 'planned', balance: 20_000_000_000n });
  await fixture.ledger.createKey({ accountId, hash: makeHash('planned'), masked: '', settings: {} });
  // The killed processes use the system clock.
  fixture.clock.nowMs = systemClock.now();
  await fixture.ledger.startSubscription({ accountId, plan: 'core', period: 'monthly' });
  await fixture.ledger.close();
  const said: Acknowledged = { settled: new Map(), voided: new Set(), credited: 0n, openingCpuMs: [] };
  for (let kill = 0; kill < times; kill++) {
    await runAndKill(fixture.dataDir, 20 + ((kill * 37) % 180), said);
    assert.deepEqual(verifyLedgerFile(fixture.dataDir), []);
    const db = new Database(join(fixture.dataDir, 'ledger.sqlite'), { readonly: true });
    db.defaultSafeIntegers(true);
    const charged = new Map(
      db
        .prepare<[], { id: bigint; cost: bigint }>('SELECT id, cost FROM usage')
        .all()
        .map(({ id, cost }) => [String(id), cost]),
    );
    for (const [id, cost] of said.settled) assert.equal(charged.get(id), cost, `settled ${id}`);
    for (const id of said.voided) assert(!charged.has(id), `voided ${id}`);
    const credits = db.prepare<[], bigint>("SELECT sum(amount) FROM entry WHERE note = 'load'").pluck().get() ?? 0n;
    assert(credits >= said.credited, 'credits');
    db.close();
  }
  await fixture.open();
  await fixture.end();
  const openings = said.openingCpuMs.sort((a, b) => a - b);
  return { settled: said.settled.size, openingCpuMs: openings[openings.length >> 1] ?? Infinity };
}
