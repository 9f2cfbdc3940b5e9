import { ftruncateSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import type { Connection } from '../../src/lib/sqlite/database.ts';

/** A connection that compiles each text only once, because that takes longer than the runs of a short test. Statements of one text must read their rows in one form. */
class RememberingDatabase extends Database {
  readonly #prepared = new Map<string, Database.Statement>();
  readonly #compile = super.prepare.bind(this);

  override prepare = ((text: string): Database.Statement => {
    const known = this.#prepared.get(text) ?? this.#compile(text);
    this.#prepared.set(text, known);
    return known;
  }) as Database.Database['prepare'];
}

/** A ledger that has been given out, or waits for its next use. */
interface Reused {
  readonly db: Connection;
  /** Its open file, which has no name any more, so that nothing stays behind however the process ends. */
  readonly file: number;
}

/**
 * Gives out empty ledgers for tests that need hundreds of them. One that is given back is used again, with its compiled statements, which takes a tenth of the time of a new one. For that its file
 * is written anew: SQLite reads it again because its change counter differs, and keeps the statements because the schema is the same.
 */
export class ReusedLedgers {
  readonly #file: Buffer;
  readonly #free: Reused[] = [];
  readonly #used = new Map<Connection, Reused>();

  /** `file`: a ledger with empty tables, as `serialize` returns it. */
  constructor(file: Buffer) {
    this.#file = file;
  }

  /** Returns a ledger with empty tables. No one else uses it until it is given back. */
  open(): Connection {
    const ledger = this.#free.pop() ?? this.#make();
    ftruncateSync(ledger.file, this.#file.length);
    writeSync(ledger.file, this.#file, 0, this.#file.length, 0);
    this.#used.set(ledger.db, ledger);
    return ledger.db;
  }

  /** Gives a ledger back. */
  giveBack(db: Connection): void {
    const ledger = this.#used.get(db);
    if (ledger === undefined) throw new Error('this ledger is not in use');
    this.#used.delete(db);
    if (db.inTransaction) db.exec('ROLLBACK');
    this.#free.push(ledger);
  }

  #make(): Reused {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-reused-'));
    const path = join(folder, 'ledger.sqlite');
    const file = openSync(path, 'w+');
    const db = new RememberingDatabase(path);
    db.defaultSafeIntegers(true);
    db.pragma('foreign_keys = ON');
    db.pragma('journal_mode = MEMORY');
    db.pragma('synchronous = OFF');
    rmSync(folder, { recursive: true });
    return { db, file };
  }
}
