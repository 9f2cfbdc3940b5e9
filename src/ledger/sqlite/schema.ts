import { requestPart } from '../../lib/ids.ts';
import type { Connection } from '../../lib/sqlite/database.ts';
import { migrate, type Migration, readMigrations } from '../../lib/sqlite/migrations.ts';
import type { DailyLimitUnit } from '../plans.ts';
import type { Rolling } from '../rules/rolling.ts';

/** Returns the ledger's migrations, in order. */
export function ledgerMigrations(): Migration[] {
  return readMigrations(new URL('migrations/', import.meta.url));
}

/**
 * Migrates a ledger's file. Foreign keys are not enforced afterwards: the rules ensure them, each check would cost as much as a row, and
 * `verify` checks them all. `unit`: the unit of the field `daily_limit`, for existing keys, too. Throws `LedgerStartError` or SQLite's
 * error.
 */
export function migrateLedger(db: Connection, nowMs: number, unit: DailyLimitUnit = 'dollars'): void {
  const dailyUnit = unit === 'dollars' ? 'usd' : 'requests';
  db.pragma('foreign_keys = OFF');
  db.function('now_ms', () => BigInt(nowMs));
  db.function('daily_unit', () => dailyUnit);
  db.function('request_part', (id: unknown, requestId: unknown) => requestPart(Number(id), String(requestId)));
  // Older migrations need this function: they build rolling minutes, which later migrations drop.
  db.aggregate<null>('rolling_minute', {
    start: null,
    step: (none, _atMs: unknown) => none,
    result: () => Buffer.alloc(0),
  });
  migrate(db, ledgerMigrations(), nowMs, 'ledger');
  readDailyLimitsAs(db, dailyUnit);
}

/**
 * Applies the configured unit of `daily_limit`: the number stays the same, its limits get the new unit. Limits that the field can't express
 * are not changed.
 */
function readDailyLimitsAs(db: Connection, unit: 'usd' | 'requests'): void {
  const isExpressible = `time_zone = 'UTC' AND models IS NULL AND end_users = 'all' AND action = 'refuse'
    AND max > 0 AND (unit = 'requests' OR max % 1000000000 = 0)`;
  const where = `field = 'daily_limit' AND unit <> '${unit}' AND removed = 0 AND ${isExpressible}`;
  const factor = unit === 'usd' ? '* 1000000000' : '/ 1000000000';
  db.exec(`DELETE FROM limit_use WHERE limit_id IN (SELECT id FROM usage_limit WHERE ${where});
    UPDATE usage_limit SET unit = '${unit}', max = max ${factor}, raised_max = raised_max ${factor} WHERE ${where}`);
}

/** Encodes a rolling minute for the file. */
export function encodeRolling({ buffer, byteOffset, byteLength }: Rolling): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** Decodes a stored rolling minute. */
export function decodeRolling(stored: Uint8Array): Rolling {
  // Copied, because doubles must be aligned in their buffer.
  return new Float64Array(Uint8Array.from(stored).buffer);
}
