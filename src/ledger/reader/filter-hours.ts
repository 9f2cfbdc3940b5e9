import type { Connection, Query } from '../../lib/sqlite/database.ts';
import type { ActivityFilter } from '../ledger.ts';
import { hourMs } from '../rules/calendar.ts';
import { codes } from '../sqlite/codes.ts';

type Values = {
  account: number;
  first: number;
  last: number;
  provider: string;
  endpoint: string;
  tag: string;
  value: string;
};

/** The group of a day's sums for tags beyond the maximum number. */
export const others = '(other)';
const hour = codes.period.indexOf('hour');

/** Returns the statement that finds the hours, newest first, in which a sum has one of these groups. */
function hoursText(grouped: (typeof codes.grouped)[number], groups: string): string {
  return `SELECT DISTINCT number FROM usage_sum WHERE account_id = @account AND period = ${hour} AND grouped = ${codes.grouped.indexOf(grouped)}
    AND number >= @first AND number <= @last AND group_id IN (${groups}) ORDER BY number DESC`;
}

/** Finds in the stored sums when requests of a provider, an endpoint, a group or a tag were made: their records have no index of their own. */
export class FilterHours {
  readonly #ofProvider: Query<[Values], { number: bigint }>;
  readonly #ofEndpoint: Query<[Values], { number: bigint }>;
  /**
   * For records of any group: a record also belongs to the groups that its own group lay in when it was admitted, which sums do not store.
   */
  readonly #ofGroups: Query<[Values], { number: bigint }>;
  readonly #ofTag: Query<[Values], { number: bigint }>;

  constructor(db: Connection) {
    this.#ofProvider = db.prepare(
      hoursText(
        'kind',
        'SELECT id FROM call_kind WHERE provider_id = (SELECT id FROM provider WHERE name = @provider)',
      ),
    );
    this.#ofEndpoint = db.prepare(
      hoursText(
        'kind',
        'SELECT id FROM call_kind WHERE endpoint_id = (SELECT id FROM endpoint WHERE name = @endpoint)',
      ),
    );
    this.#ofGroups = db.prepare(hoursText('group', 'group_id'));
    this.#ofTag = db.prepare(
      hoursText('tag', `SELECT id FROM tag WHERE name = @tag AND value IN (@value, '${others}')`),
    );
  }

  /** Returns the UTC hours since 1970 that can have records of a filter, newest first; undefined: the filter has an index, or is empty. */
  find(filter: Omit<ActivityFilter, 'limit' | 'offset'>): number[] | undefined {
    const { accountId, provider, endpoint, tag, groupId, endUser, batchId } = filter;
    if (endUser !== undefined || batchId !== undefined) return undefined;
    const query =
      tag !== undefined
        ? this.#ofTag
        : provider !== undefined
          ? this.#ofProvider
          : endpoint !== undefined
            ? this.#ofEndpoint
            : groupId !== undefined
              ? this.#ofGroups
              : undefined;
    if (query === undefined) return undefined;
    const rows = query.all({
      account: accountId,
      first: Math.floor((filter.startMs ?? 0) / hourMs),
      last: Math.floor((filter.endMs ?? Number.MAX_SAFE_INTEGER) / hourMs),
      provider: provider ?? '',
      endpoint: endpoint ?? '',
      tag: tag?.name ?? '',
      value: tag?.value ?? '',
    });
    return rows.map(({ number }) => Number(number));
  }
}
