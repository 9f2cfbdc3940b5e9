import { copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AdminCall } from '../../src/ledger/rules/administration.ts';
import { Engine } from '../../src/ledger/sqlite/engine.ts';
import { checkInvariants } from '../../src/ledger/sqlite/invariants.ts';
import { migrateLedger } from '../../src/ledger/sqlite/schema.ts';
import { WalSync } from '../../src/ledger/sqlite/wal-sync.ts';
import { encodeAdmit, encodeSettle, waitsForSync, type WireCommand } from '../../src/ledger/sqlite/wire.ts';
import { type Connection, openForWriting } from '../../src/lib/sqlite/database.ts';
import { writeEmptyLedger } from './empty-ledger.ts';
import { makeAdmitCommand, amount, makeHash, plans, settleAmount, temporaryDirectory } from './fixture.ts';

/**
 * Simulates power cuts. What the WAL contained when a sync began is on the disk after the sync; what was written later may be there, be missing or be torn. Nothing that was reported as durable may be lost, and every invariant must hold for the remaining data.
 */

const now = Date.parse('2026-05-10T12:00:00Z');
const owner = { id: 1, accountId: 1 };
const options = { dailyLimitUnit: 'dollars', plans } as const;
const sectorBytes = 512;

/** What a power cut does to the bytes after the last sync: it keeps some of them, and damages some of their sectors. */
interface Cut {
  readonly kept: number;
  readonly spoiled: readonly number[];
}

type Step = 'admit' | 'durable' | 'settle' | 'credit' | 'sync' | 'checkpoint';

class Machine {
  readonly #directory = temporaryDirectory();
  readonly #path = join(this.#directory.path, 'ledger.sqlite');
  readonly #db: Connection;
  readonly #engine: Engine;
  readonly #sync: WalSync;
  #nextId = 1;
  #live: number[] = [];
  /** The number of bytes of the WAL that are on the disk. */
  #syncedBytes = 0;
  /** Changes that are not synced yet. */
  #done: Reported = { settled: [], held: [], credits: 0n };
  reported: Reported = { settled: [], held: [], credits: 0n };

  constructor() {
    writeEmptyLedger(this.#directory.path);
    this.#db = openForWriting(this.#path, 'NORMAL');
    migrateLedger(this.#db, now);
    this.#engine = new Engine(this.#db, options);
    this.#sync = new WalSync(this.#path);
    const made = { id: 'account', name: 'createAccount', command: { name: 'a', balance: 1_000_000n } } as AdminCall;
    const key = { accountId: 1, hash: makeHash('key'), masked: '', settings: {} };
    this.#engine.run([
      ['admin', now, made],
      ['admin', now, { id: 'key', name: 'createKey', command: key }],
    ]);
    this.checkpoint();
  }

  step(step: Step): Promise<void> | void {
    if (step === 'sync') return this.sync();
    if (step === 'checkpoint') return this.checkpoint();
    const [command, done] = this.#command(step);
    expect(this.#engine.run([command])).toMatchObject([['done', expect.anything()]]);
    expect(waitsForSync(command)).toBe(step !== 'admit');
    this.#done = done;
  }

  #command(step: 'admit' | 'durable' | 'settle' | 'credit'): [WireCommand, Reported] {
    const { settled, held, credits } = this.#done;
    if (step === 'credit') {
      const credit = { accountId: 1, amount: 7n, note: 'load' };
      const order = { id: `credit ${this.#nextId++}`, name: 'addCredit', command: credit } as AdminCall;
      return [['admin', now, order], { settled, held, credits: credits + 7n }];
    }
    const ended = step === 'settle' ? this.#live.shift() : undefined;
    if (ended !== undefined) {
      const done = { settled: [...settled, ended], held: held.filter(id => id !== ended), credits };
      return [encodeSettle(settleAmount(ended, 5n), now), done];
    }
    const id = this.#nextId++;
    this.#live.push(id);
    const isDurable = step !== 'admit';
    const command = makeAdmitCommand(id, { funds: amount(9n), ...(isDurable ? { durable: true } : {}) });
    return [encodeAdmit(command, owner, now), { settled, held: isDurable ? [...held, id] : held, credits }];
  }

  /** Syncs the WAL, as the writer's thread does before it replies. */
  async sync(): Promise<void> {
    const bytes = statSync(`${this.#path}-wal`).size;
    const done = this.#done;
    await new Promise<void>((resolve, reject) => {
      this.#sync.run(error => (error === null ? resolve() : reject(error)));
    });
    this.#syncedBytes = bytes;
    this.reported = done;
  }

  /** Makes a checkpoint: SQLite syncs the WAL, then the file, before it starts the WAL again. */
  checkpoint(): void {
    this.#db.pragma('wal_checkpoint(TRUNCATE)');
    this.#syncedBytes = 0;
    this.reported = this.#done;
  }

  /** Opens the database as it is on the disk after the power cut. */
  reopen({ kept, spoiled }: Cut): Connection {
    const path = join(this.#directory.path, 'after.sqlite');
    copyFileSync(this.#path, path);
    const log = readFileSync(`${this.#path}-wal`);
    const end = this.#syncedBytes + Math.min(kept, log.length - this.#syncedBytes);
    const left = Buffer.from(log.subarray(0, end));
    for (const sector of spoiled) {
      const at = this.#syncedBytes + sector * sectorBytes;
      if (at < end) left.fill(0xa5, at, Math.min(at + sectorBytes, end));
    }
    writeFileSync(`${path}-wal`, left);
    return openForWriting(path);
  }

  close(): void {
    this.#sync.close();
    this.#db.close();
    this.#directory.remove();
  }
}

/** What was reported to callers. */
interface Reported {
  readonly settled: readonly number[];
  /** Admissions that were reported before their settle. */
  readonly held: readonly number[];
  readonly credits: bigint;
}

const steps = fc.array(
  fc.constantFrom<Step[]>(
    'admit',
    'admit',
    'admit',
    'durable',
    'settle',
    'settle',
    'credit',
    'sync',
    'sync',
    'checkpoint',
  ),
  { minLength: 5, maxLength: 40 },
);
const cut = fc.record({ kept: fc.nat(200_000), spoiled: fc.array(fc.nat(300), { maxLength: 4 }) });

test('after a power cut nothing acknowledged is lost, and every invariant holds', async () => {
  let reported = 0;
  let lost = 0;
  await fc.assert(
    fc.asyncProperty(steps, fc.array(cut, { minLength: 1, maxLength: 3 }), async (all, cuts) => {
      const machine = new Machine();
      for (const step of all) await machine.step(step);
      for (const each of [...cuts, { kept: 0, spoiled: [] }]) {
        const db = machine.reopen(each);
        const ids = (table: string): number[] => db.prepare(`SELECT id FROM ${table}`).pluck().all().map(Number);
        const [settled, held] = [new Set(ids('usage')), new Set(ids('hold'))];
        expect(machine.reported.settled.filter(id => !settled.has(id))).toEqual([]);
        // Its settle may have been written later without being reported.
        expect(machine.reported.held.filter(id => !held.has(id) && !settled.has(id))).toEqual([]);
        const credits = db.prepare("SELECT coalesce(sum(amount), 0) FROM entry WHERE note = 'load'").pluck().get();
        expect(Number(credits)).toBeGreaterThanOrEqual(Number(machine.reported.credits));
        expect(checkInvariants(db, 'full')).toEqual([]);
        new Engine(db, options).recover(now);
        expect(checkInvariants(db, 'full')).toEqual([]);
        reported += machine.reported.settled.length;
        lost += all.filter(step => step === 'settle').length - settled.size;
        db.close();
      }
      machine.close();
    }),
    { numRuns: 25 },
  );
  // The test covers something only if the cuts removed bytes and something was reported.
  expect([reported > 30, lost > 30]).toEqual([true, true]);
});
