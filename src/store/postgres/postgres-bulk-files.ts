import type { GatewayError } from '../../errors/gateway-error.ts';
import { overloaded } from '../../errors/overloaded.ts';
import { isMissingReference } from '../../lib/postgres/errors.ts';
import type { Sendable } from '../../lib/postgres/values.ts';
import type { BulkFiles, BulkReader, BulkWriter, Journal } from '../bulk-files.ts';
import { isAlive, query, type StoreDatabase, toBytes } from './database.ts';
import { PostgresJournal } from './postgres-journal.ts';

/** The largest piece of a file, and the unit in which space is reserved for an unfinished file. */
const pieceBytes = 1 << 20;
/** The interval at which files are removed that have no name and that no running gateway is writing. */
const sweepMs = 60_000;

const nameText = `INSERT INTO bulk_name (name, file) VALUES ($1::text, $2::bigint) ON CONFLICT (name) DO UPDATE SET file = excluded.file`;
const linkText = `INSERT INTO bulk_name (name, file) SELECT $2::text, file FROM bulk_name WHERE name = $1::text AND file IS NOT NULL
  ON CONFLICT (name) DO UPDATE SET file = excluded.file RETURNING name`;
const openText = 'SELECT f.file, f.size FROM bulk_name n JOIN bulk_file f ON f.file = n.file WHERE n.name = $1::text';
/**
 * Reserves space for an unfinished file if the total of all files, with what is reserved for others, stays within `bytesMax`. Two reservations at the same moment do not see each other, so together they
 * can exceed it.
 */
const reserveText = `UPDATE bulk_file SET size = $2::bigint WHERE file = $1::bigint
  AND (SELECT coalesce(sum(size), 0) FROM bulk_file WHERE file <> $1::bigint) + $2::bigint <= $3::bigint RETURNING file`;
const pieceText = 'SELECT content FROM bulk_piece WHERE file = $1::bigint AND seq = $2::bigint';
/** `boot`: the number of the gateway that writes the file; null once it is finished. */
const sweepText = `DELETE FROM bulk_file f WHERE NOT EXISTS (SELECT 1 FROM bulk_name n WHERE n.file = f.file) AND (f.boot IS NULL OR NOT ${isAlive('f.boot')})`;

/** Opens the large files and journals that all gateways of a database share. `bytesMax`: the most bytes of all files together. */
export function openPostgresBulkFiles(database: StoreDatabase, bytesMax: () => number): BulkFiles & { close(): void } {
  // If a removal fails, the next run repeats it.
  const timer = setInterval(() => void query(database, sweepText).catch(() => undefined), sweepMs).unref();
  return {
    async create(name, share = 1) {
      const [made] = await query(database, 'INSERT INTO bulk_file (boot) VALUES ($1::bigint) RETURNING file', [
        database.boot(),
      ]);
      return new PieceWriter(database, name, {
        file: Number(made?.['file']),
        bytesMax: () => Math.floor(bytesMax() * share),
      });
    },
    async link(name, second) {
      return (await query(database, linkText, [name, second])).length > 0 ? 'linked' : 'not_found';
    },
    async open(name) {
      const [found] = await query(database, openText, [name]);
      return found && new PieceReader(database, Number(found['file']), Number(found['size']));
    },
    async openJournal(name): Promise<Journal> {
      await query(database, 'INSERT INTO bulk_name (name) VALUES ($1::text) ON CONFLICT (name) DO NOTHING', [name]);
      return new PostgresJournal(database, name);
    },
    async delete(name) {
      await query(database, 'DELETE FROM bulk_name WHERE name = $1::text', [name]);
      await query(database, sweepText);
    },
    async list() {
      return (await query(database, 'SELECT name FROM bulk_name')).map(row => String(row['name']));
    },
    close() {
      clearInterval(timer);
    },
  };
}

class PieceWriter implements BulkWriter {
  readonly #database: StoreDatabase;
  readonly #name: string;
  readonly #file: number;
  readonly #bytesMax: () => number;
  #seq = 0;
  /** The number of bytes that are reserved for the file. */
  #reserved = 0;
  #isOver = false;
  size = 0;

  constructor(
    database: StoreDatabase,
    name: string,
    { file, bytesMax }: { readonly file: number; readonly bytesMax: () => number },
  ) {
    this.#database = database;
    this.#name = name;
    this.#file = file;
    this.#bytesMax = bytesMax;
  }

  async append(bytes: Uint8Array): Promise<void> {
    await this.#reserve(this.size + bytes.length);
    this.size += bytes.length;
    for (let at = 0; at < bytes.length; at += pieceBytes) {
      const text = 'INSERT INTO bulk_piece VALUES ($1::bigint, $2::bigint, $3::bytea)';
      await this.#store(text, [this.#file, this.#seq, bytes.subarray(at, at + pieceBytes)]);
      this.#seq += 1;
    }
  }

  /** Reserves space for a size, rounded up to whole units of `pieceBytes` if there is enough for that. Throws `overloaded` if there is not enough for the size. */
  async #reserve(size: number): Promise<void> {
    if (size <= this.#reserved) return;
    for (const wanted of [Math.ceil(size / pieceBytes) * pieceBytes, size]) {
      if ((await query(this.#database, reserveText, [this.#file, wanted, this.#bytesMax()])).length === 0) continue;
      this.#reserved = wanted;
      return;
    }
    const unfinished = await query(this.#database, 'SELECT file FROM bulk_file WHERE file = $1::bigint', [this.#file]);
    throw unfinished.length === 0 ? leaseEnded() : overloaded('The gateway has no room for more files now.');
  }

  async finish(): Promise<void> {
    await query(this.#database, 'UPDATE bulk_file SET size = $2::bigint WHERE file = $1::bigint', [
      this.#file,
      this.size,
    ]);
    await this.#store(nameText, [this.#name, this.#file]);
    await query(this.#database, 'UPDATE bulk_file SET boot = NULL WHERE file = $1::bigint', [this.#file]);
    this.#isOver = true;
  }

  /** Runs a statement that refers to the unfinished file. Throws `overloaded` if another gateway has removed that file because this one's lease had ended. */
  async #store(text: string, values: readonly Sendable[]): Promise<void> {
    try {
      await query(this.#database, text, values);
    } catch (thrown) {
      throw isMissingReference(thrown) ? leaseEnded(thrown) : thrown;
    }
  }

  async discard(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    // If the file can't be removed now, it is removed when this gateway has ended.
    await query(this.#database, 'DELETE FROM bulk_file WHERE file = $1::bigint', [this.#file]).catch(() => undefined);
  }
}

function leaseEnded(cause?: unknown): GatewayError {
  return overloaded('The upload was lost because this gateway lost its lease on the database. Send it again.', cause);
}

class PieceReader implements BulkReader {
  readonly #database: StoreDatabase;
  readonly #file: number;
  readonly size: number;
  #seq = 0;

  constructor(database: StoreDatabase, file: number, size: number) {
    this.#database = database;
    this.#file = file;
    this.size = size;
  }

  async read(): Promise<Buffer> {
    const [piece] = await query(this.#database, pieceText, [this.#file, this.#seq]);
    this.#seq += 1;
    return piece === undefined ? Buffer.alloc(0) : Buffer.from(toBytes(piece['content']));
  }

  async close(): Promise<void> {
    // Nothing is open between reads.
  }
}
