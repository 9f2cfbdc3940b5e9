import { requestPart } from '../../lib/ids.ts';
import type { Connection } from '../../lib/sqlite/database.ts';
import { migrate, type Migration, readMigrations } from '../../lib/sqlite/migrations.ts';
import { type Admissions, withAdmission } from '../rules/minutes.ts';

/** Returns the ledger's migrations in their order. */
export function ledgerMigrations(): Migration[] {
  return readMigrations(new URL('migrations/', import.meta.url));
}

/**
 * Brings a ledger's file up to date. References are not enforced from then on: the rules know what they refer to, each check costs as much as a row, and
 * `verify` checks them all. Throws `LedgerStartError`, or what SQLite throws.
 */
export function migrateLedger(db: Connection, nowMs: number): void {
  db.pragma('foreign_keys = OFF');
  db.function('now_ms', () => BigInt(nowMs));
  db.function('request_part', (id: unknown, requestId: unknown) => requestPart(Number(id), String(requestId)));
  db.aggregate<number[]>('rolling_minute', {
    start: () => [],
    step: (times, at: unknown) => {
      times.push(Number(at));
      return times;
    },
    result: times => {
      let admissions: Admissions | undefined;
      for (const time of times.sort((a, b) => a - b)) admissions = withAdmission(admissions, time);
      return encodeAdmissions(admissions ?? new Float64Array(0));
    },
  });
  migrate(db, ledgerMigrations(), nowMs, 'ledger');
}

/** Admissions as the file stores them. */
export function encodeAdmissions({ buffer, byteOffset, byteLength }: Admissions): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** Returns stored admissions. */
export function decodeAdmissions(stored: Uint8Array): Admissions {
  // A copy, because doubles must be aligned in their buffer.
  return new Float64Array(Uint8Array.from(stored).buffer);
}
