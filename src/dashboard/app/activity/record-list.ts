import type { ActivityRecord } from '../../../gen/tollgate/v1/account_pb.ts';
import type { ActivityQuery } from '../data/source.ts';

/** Records for tests, listed as the contract says: newest first, those of the same millisecond the last added first. */
export class RecordList {
  readonly #records: ActivityRecord[];

  constructor(records: readonly ActivityRecord[]) {
    this.#records = [...records];
  }

  get size(): number {
    return this.#records.length;
  }

  /** Adds a record, which can be older than others. `place`: among those of its millisecond. */
  add(record: ActivityRecord, place: 'first' | 'last' = 'first'): void {
    if (place === 'first') this.#records.push(record);
    else this.#records.unshift(record);
  }

  /** Returns a page; of the filters only the times count. */
  readonly listActivity = ({ endMs, offset = 0, limit = 0 }: ActivityQuery): Promise<readonly ActivityRecord[]> => {
    const selected = this.#records.filter(({ createdAtMs }) => endMs === undefined || createdAtMs < endMs);
    const sorted = selected.toReversed().toSorted((one, other) => Number(other.createdAtMs - one.createdAtMs));
    return Promise.resolve(sorted.slice(offset, offset + limit));
  };
}
