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

/** The value of a tag under which its usage is summed after a day has reached the maximum number of different tags. */
export const others = '(other)';
const hour = codes.period.indexOf('hour');

/** Returns the statement that finds the hours, newest first, that have a sum for one of these ids. */
function hoursText(grouped: (typeof codes.grouped)[number], groups: string): string {
  return `SELECT DISTINCT number FROM usage_sum WHERE account_id = @account AND period = ${hour} AND grouped = ${codes.grouped.indexOf(grouped)}
    AND number >= @first AND number <= @last AND group_id IN (${groups}) ORDER BY number DESC`;
}

/** Finds, from the stored sums, the hours in which requests of a provider, an endpoint, a group or a tag were made: records are not indexed by these. */
export class FilterHours {
  readonly #ofProvider: Query<[Values], { number: bigint }>;
  readonly #ofEndpoint: Query<[Values], { number: bigint }>;
  /**
   * Finds the hours with requests of any group: a request also belongs to the groups above its own at the time of its admission, which the sums do not store.
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

  /** Returns the hours (counted from 1970, UTC) that can have records of a filter, newest first; undefined if the records have an index for the filter, or it is empty. */
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
