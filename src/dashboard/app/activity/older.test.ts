import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type ActivityRecord, ActivityRecordSchema } from '../../../gen/tollgate/v1/account_pb.ts';
import { findNextPage, newest, type PageStart, toPageQuery, withoutRepeats } from './older.ts';
import { RecordList } from './record-list.ts';

const record = (createdAtMs: number, n: number): ActivityRecord =>
  create(ActivityRecordSchema, { requestId: `req_${n}`, createdAtMs: BigInt(createdAtMs) });
const limit = 4;

/** Reads all pages. Before each page except the first, the requests admitted at the times `late[page]` settle. */
async function readAll(list: RecordList, late: readonly (readonly number[])[]): Promise<ActivityRecord[]> {
  const rows: ActivityRecord[] = [];
  let start: PageStart | undefined = newest;
  for (let page = 0; start !== undefined; page += 1) {
    expect(page).toBeLessThan(200);
    const read: readonly ActivityRecord[] = await list.listActivity(toPageQuery({}, start, limit));
    rows.push(...read);
    start = findNextPage(read, start, limit);
    for (const createdAtMs of late[page] ?? []) {
      list.add(record(createdAtMs, list.size), list.size % 2 === 0 ? 'first' : 'last');
    }
  }
  return rows;
}

test('every record that was there when the first page was read is listed once and in order, whatever settles meanwhile', async () => {
  // Few milliseconds, so that most pages end within one.
  const times = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(times, fc.array(times, { maxLength: 8 }), async (admitted, late) => {
      const there = admitted.map(record);
      const first = new RecordList(there);
      const sorted = await first.listActivity({ limit: there.length });
      const rows = withoutRepeats(await readAll(first, late)).map(({ requestId }) => requestId);
      expect(new Set(rows).size).toBe(rows.length);
      const old = new Set(there.map(({ requestId }) => requestId));
      expect(rows.filter(id => old.has(id))).toEqual(sorted.map(({ requestId }) => requestId));
    }),
    { numRuns: 500 },
  );
});

test('records that are newer than the first page move no page, so that no row is read twice', async () => {
  const list = new RecordList([0, 0, 0, 1, 1, 1, 1, 1, 1, 2].map(record));
  const rows = await readAll(list, [[3, 3, 3, 3, 3], [4]]);
  expect(rows.map(({ requestId }) => requestId)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0].map(n => `req_${n}`));
});
