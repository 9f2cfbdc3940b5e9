import type { ActivityRecord } from '../../../gen/tollgate/v1/account_pb.ts';
import type { ActivityQuery } from '../data/source.ts';

/** Where a page of the list begins: behind the first `offset` records of those before `endMs`; absent: of all that the filters select. */
export interface PageStart {
  readonly endMs?: bigint;
  readonly offset: number;
}

/** The start of the first page. */
export const newest: PageStart = { offset: 0 };

/** Returns the query for one page of the records that `query` selects. */
export function toPageQuery(query: ActivityQuery, start: PageStart, limit: number): ActivityQuery {
  return { ...query, ...start, limit };
}

/**
 * Returns where the page after `page` begins, which began at `start`; undefined if it was not full and thus the last. Records are listed by the time of their admission, so the next page
 * is asked for by the last record's time, and the number of records with the same time that were read: newer records do not move it. A record that is settled late can appear among older
 * ones; at most it repeats some of the records with the page's last time, which the caller removes (`withoutRepeats`), and it hides none.
 */
export function findNextPage(
  page: readonly ActivityRecord[],
  start: PageStart,
  limit: number,
): { readonly endMs: bigint; readonly offset: number } | undefined {
  const last = page.at(-1);
  if (last === undefined || page.length < limit) return undefined;
  // Ends are exclusive.
  const endMs = last.createdAtMs + 1n;
  const read = page.filter(({ createdAtMs }) => createdAtMs === last.createdAtMs).length;
  return { endMs, offset: start.endMs === endMs ? start.offset + read : read };
}

/** Returns the records in their order, each once. */
export function withoutRepeats(records: readonly ActivityRecord[]): readonly ActivityRecord[] {
  return [...new Map(records.map(record => [record.requestId, record])).values()];
}
