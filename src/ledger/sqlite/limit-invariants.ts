import type { Connection } from '../../lib/sqlite/database.ts';
import type { Limit } from '../rows.ts';
import { type Window, windowAt, windowByNumber } from '../rules/calendar.ts';
import { sumRequests } from '../rules/limits.ts';
import { RowCodec, type Stored } from './columns.ts';
import { Sql } from './sql.ts';
import { activityStart } from './plan-invariants.ts';
import { limitTable, limitUseTable } from './tables.ts';
import { Tallies } from './tallies.ts';

const limits = new RowCodec(limitTable);
const uses = new RowCodec(limitUseTable);

/** Returns the limits whose uses differ from the sums of their requests. Skips rolling minutes, which drop old amounts. */
export function checkLimitUses(db: Connection): string[] {
  const whole = db.prepare<[], { value: bigint }>("SELECT value FROM meta WHERE name = 'uses'").get();
  // Unless `uses` is 1, the writer has newer uses in memory only.
  if (whole?.value !== 1n) return [];
  return listCountedLimits(db).flatMap(limit => checkLimit(db, limit));
}

/** Returns the limits whose uses are stored for each window: all except those of a rolling minute. */
export function listCountedLimits(db: Connection): Limit[] {
  const counted = db
    .prepare<[], Stored[]>(
      `SELECT ${limits.names.join(', ')} FROM usage_limit WHERE removed = 0 AND per IS DISTINCT FROM 'minute' ORDER BY id`,
    )
    .raw();
  return counted.all().map(stored => limits.read(stored));
}

/** Returns how a limit's uses differ from the sums of its requests. */
export function checkLimit(db: Connection, limit: Limit): string[] {
  const [{ start: startedAt } = { start: 0n }] = db
    .prepare<[], { start: bigint }>(`SELECT ${activityStart} AS start`)
    .all();
  const start = Number(startedAt);
  const tallies = new Tallies(new Sql(db));
  const modelNameQuery = db.prepare<[number], { name: string }>('SELECT name FROM model WHERE id = ?');
  const usesQuery = db
    .prepare<[number], Stored[]>(
      `SELECT ${uses.names.join(', ')} FROM limit_use WHERE limit_id = ? ORDER BY number, end_user`,
    )
    .raw();
  const byWindow = Map.groupBy(
    usesQuery.all(limit.id).map(use => uses.read(use)),
    use => use.number,
  );
  return [...byWindow].flatMap(([number, kept]) => {
    const window = toWindow(limit, number);
    // Some of its requests have been removed.
    if (start > 0 && window.startMs < start) return [];
    const made = sumRequests(limit, {
      window,
      nowMs: 0,
      tally: span => tallies.read(span),
      modelName: id => modelNameQuery.get(id)?.name ?? '',
    });
    const wrong = kept.some(({ endUser, used, held }) => {
      const due = made.get(endUser);
      return used !== (due?.used ?? 0n) || held !== (due?.held ?? 0n);
    });
    const missing = [...made.values()].some(
      ({ endUser, used, held }) => used + held > 0n && !kept.some(use => use.endUser === endUser),
    );
    if (!wrong && !missing) return [];
    return [
      `violated: the used and held amounts of a limit are the sums over its requests; limit ${limit.id}, window ${number}`,
    ];
  });
}

function toWindow({ per, timeZone }: Limit, number: number): Window {
  if (per === null || per === 'minute' || per === 'total') return windowAt(per, timeZone, 0);
  return windowByNumber(per, timeZone, number);
}
