import { toArray } from '../../lib/postgres/values.ts';
import type { Journal } from '../bulk-files.ts';
import { query, type StoreDatabase, toBytes } from './database.ts';

const scannedMax = 200;
const appendText = `INSERT INTO journal_record (name, place, content)
  SELECT $1::text, u.place, u.content FROM unnest($2::bigint[], $3::bytea[]) AS u (place, content)`;
const scanText =
  'SELECT place, content FROM journal_record WHERE name = $1::text AND place > $2::bigint ORDER BY place LIMIT $3::bigint';
const readText = 'SELECT content FROM journal_record WHERE name = $1::text AND place = $2::bigint';

interface Waiting {
  readonly place: number;
  readonly record: Uint8Array;
  readonly resolve: () => void;
  readonly reject: (thrown: unknown) => void;
}

/** A journal in the database, with numbered records. Every record is durable. If two processes write a record with the same number, only one of them succeeds. */
export class PostgresJournal implements Journal {
  readonly #database: StoreDatabase;
  readonly #name: string;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  #next = 1;
  #failure: Error | undefined;

  constructor(database: StoreDatabase, name: string) {
    this.#database = database;
    this.#name = name;
  }

  async scan(visit: (record: Uint8Array, place: number) => void): Promise<void> {
    for (;;) {
      const rows = await query(this.#database, scanText, [this.#name, this.#next - 1, scannedMax]);
      for (const row of rows) {
        const place = Number(row['place']);
        visit(toBytes(row['content']), place);
        this.#next = place + 1;
      }
      if (rows.length < scannedMax) return;
    }
  }

  async append(record: Uint8Array): Promise<number> {
    if (this.#failure !== undefined) throw this.#failure;
    const place = this.#next;
    this.#next += 1;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.push({ place, record, resolve, reject });
    this.#writing ??= this.#write();
    await promise;
    return place;
  }

  async read(place: number): Promise<Uint8Array> {
    const [row] = await query(this.#database, readText, [this.#name, place]);
    if (row === undefined) throw new Error(`the journal has no record at ${place}`);
    return toBytes(row['content']);
  }

  async close(): Promise<void> {
    this.#failure ??= new Error('the journal is closed');
    await this.#writing;
  }

  /** Writes the waiting records and those that arrive meanwhile. Never rejects. */
  async #write(): Promise<void> {
    let batch: Waiting[] = [];
    try {
      while (this.#waiting.length > 0) {
        batch = this.#waiting;
        this.#waiting = [];
        const places = toArray(batch.map(({ place }) => place));
        await query(this.#database, appendText, [this.#name, places, toArray(batch.map(({ record }) => record))]);
        for (const { resolve } of batch) resolve();
      }
    } catch (thrown) {
      this.#failure ??= thrown instanceof Error ? thrown : new Error(String(thrown));
      for (const { reject } of [...batch, ...this.#waiting.splice(0)]) reject(this.#failure);
    } finally {
      this.#writing = undefined;
    }
  }
}
