import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { systemClock } from '../../src/lib/clock.ts';
import { verifyLedgerFile } from '../../src/ledger/sqlite/verify.ts';
import { openSqliteDocuments } from '../../src/store/sqlite/documents/sqlite-documents.ts';
import { openFixture } from '../ledger/fixture.ts';
import { makeStorageFaults, type StorageFault, type StorageFaults } from './storage-faults.ts';
import { uncounted } from '../../src/store/documents.ts';

const program = join(import.meta.dirname, 'storage-load.ts');
const faultsOfRun = 4;
const faultMs = 150;
/** How long a process may make no progress after a fault, in ms. */
const stuckMs = 60_000;
const lostCode = 70;

/** The writes that were acknowledged, over all runs. */
interface Acknowledged {
  readonly settled: Map<string, bigint>;
  readonly credited: Set<string>;
  readonly stored: Set<string>;
  readonly finished: Set<string>;
}

/** What happened after the faults. */
export interface Injected {
  readonly faults: number;
  /** The number of faults that made a system call fail. */
  readonly fired: number;
  /** The number of processes that ended because writes were lost. */
  readonly lost: number;
  readonly settled: number;
}

const paths = ['ledger.sqlite', 'ledger.sqlite-wal', 'content.db', 'content.db-wal'];
const kinds: readonly Omit<StorageFault, 'path'>[] = [
  { calls: ['writes'], error: 'EIO' },
  { calls: ['writes'], error: 'ENOSPC' },
  { calls: ['writes', 'syncs', 'truncates'], error: 'EROFS' },
  { calls: ['writes'], error: 'short', times: 3 },
  { calls: ['syncs'], error: 'EIO', times: 1, loses: true },
  { calls: ['writes'], error: 'EIO', times: 1 },
];

/** Returns the fault with a number. The numbers cycle through all kinds of faults, files and delays. */
function chooseFault(number: number): StorageFault {
  const kind = kinds[number % kinds.length] ?? kinds[0];
  const path = paths[Math.floor(number / kinds.length) % paths.length] ?? '';
  assert(kind !== undefined);
  return { ...kind, path, skip: (number * 7) % 23 };
}

/** A process under load, and the file to which it writes what was acknowledged. */
class Load {
  readonly #child: ChildProcess;
  readonly #file: string;

  constructor(dataDir: string, run: number, faults: StorageFaults) {
    this.#file = join(dataDir, `said-${run}.txt`);
    writeFileSync(this.#file, '');
    const env = { ...process.env, ...faults.environment };
    this.#child = spawn(process.execPath, [program, dataDir, this.#file, `run${run}`], { env, stdio: 'inherit' });
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null;
  }

  get code(): number | null {
    return this.#child.exitCode;
  }

  lines(): string[] {
    return readFileSync(this.#file, 'utf8').split('\n').slice(0, -1);
  }

  count(word: string): number {
    return this.lines().filter(line => line.startsWith(word)).length;
  }

  /** Waits until the file has `more` further lines with each of the words, or the process has ended. */
  async until(words: readonly string[], more: number): Promise<void> {
    const goals = words.map(word => [word, this.count(word) + more] as const);
    const deadline = performance.now() + stuckMs;
    while (!this.hasEnded && goals.some(([word, goal]) => this.count(word) < goal)) {
      assert(performance.now() < deadline, `stuck: ${words.join(', ')} after ${this.lines().length} lines`);
      await wait(10);
    }
  }

  async kill(): Promise<void> {
    if (this.hasEnded) return;
    this.#child.kill('SIGKILL');
    await once(this.#child, 'close');
  }
}

/** Adds what the lines acknowledge to `acknowledged`. */
function collect(lines: readonly string[], acknowledged: Acknowledged): void {
  for (const line of lines) {
    const [word, first = '', second = ''] = line.split(' ');
    if (word === 'opened') assert.equal(first, '0', 'invariants hold at the start');
    else if (word === 'settled') acknowledged.settled.set(first, BigInt(second));
    else if (word === 'credited') acknowledged.credited.add(`${first} ${second}`);
    else if (word === 'stored') acknowledged.stored.add(first);
    else if (word === 'finished') acknowledged.finished.add(first);
  }
}

/** Checks that everything acknowledged is stored exactly once, and that nothing is damaged. */
async function checkStored(dataDir: string, acknowledged: Acknowledged): Promise<void> {
  assert.deepEqual(verifyLedgerFile(dataDir), []);
  const db = new Database(join(dataDir, 'ledger.sqlite'), { readonly: true });
  db.defaultSafeIntegers(true);
  const paid = db.prepare<[], { id: bigint; cost: bigint }>('SELECT id, cost FROM usage').all();
  const charged = new Map(paid.map(({ id, cost }) => [String(id), cost]));
  for (const [id, cost] of acknowledged.settled) assert.equal(charged.get(id), cost, `settled ${id}`);
  const references = db.prepare<[], string>("SELECT reference FROM entry WHERE note = 'load'").pluck().all();
  assert.equal(new Set(references).size, references.length, 'no credit is stored twice');
  assert.deepEqual(
    [...acknowledged.credited].filter(reference => !references.includes(reference)),
    [],
  );
  db.close();
  const documents = await openSqliteDocuments({ dataDir, clock: systemClock, bytesMax: 1e9 });
  for (const id of acknowledged.stored) {
    const found = await documents.find({ kind: 'response', id }, uncounted);
    assert(found !== undefined, `stored ${id}`);
    if (acknowledged.finished.has(id)) assert.equal(Buffer.from(found.body).toString(), id);
  }
  await documents.close();
}

/**
 * Injects `count` storage faults into processes under load, a few into each before it is killed. All processes use the
 * same directory. Throws if something acknowledged is lost or stored twice, a start finds damage, or a process makes no
 * progress for a minute after a fault.
 */
export async function injectFaults(count: number): Promise<Injected> {
  const fixture = await openFixture();
  await fixture.ledger.close();
  const faults = makeStorageFaults();
  const acknowledged: Acknowledged = {
    settled: new Map(),
    credited: new Set(),
    stored: new Set(),
    finished: new Set(),
  };
  let [fired, lost] = [0, 0];
  for (let [done, run] = [0, 0]; done < count; run += 1) {
    const load = new Load(fixture.dataDir, run, faults);
    await load.until(['opened', 'settled', 'credited', 'stored', 'finished'], 1);
    assert(!load.hasEnded, `the process did not start (${load.code})`);
    for (let n = 0; n < faultsOfRun && done < count && !load.hasEnded; n += 1, done += 1) {
      faults.arm(chooseFault(done));
      await wait(faultMs);
      faults.clear();
      fired += Number(faults.countFired() > 0);
      await load.until(['settled', 'credited', 'stored', 'finished'], 2);
    }
    if (load.hasEnded) {
      assert.equal(load.code, lostCode, 'it ends only because writes were lost');
      lost += 1;
    }
    await load.kill();
    collect(load.lines(), acknowledged);
    await checkStored(fixture.dataDir, acknowledged);
  }
  faults.remove();
  fixture.clock.nowMs = systemClock.now();
  await fixture.open();
  await fixture.end();
  return { faults: count, fired, lost, settled: acknowledged.settled.size };
}
