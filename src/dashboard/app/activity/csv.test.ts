import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { type ActivityRecord, ActivityRecordSchema } from '../../../gen/tollgate/v1/account_pb.ts';
import type { ActivityQuery } from '../data/source.ts';
import { csvField, readCsv } from './csv.ts';
import { RecordList } from './record-list.ts';

test('a field is quoted where it must be, and no spreadsheet reads it as a formula', () => {
  expect(['plain', 'a,b', 'say "hi"', '=1+1', '@cmd', '-2'].map(csvField)).toEqual([
    'plain',
    '"a,b"',
    '"say ""hi"""',
    "'=1+1",
    "'@cmd",
    "'-2",
  ]);
});

/** Records that are admitted `perMs` in each millisecond, from time 0 on, oldest first. */
function admit(numbers: number, perMs: number): ActivityRecord[] {
  return Array.from({ length: numbers }, (_, n) =>
    create(ActivityRecordSchema, {
      requestId: `req_${n}`,
      createdAtMs: BigInt(Math.floor(n / perMs)),
      model: 'a,b',
      costNanoUsd: BigInt(n),
    }),
  );
}

test('all pages are read, each row once, while requests settle; a shortened file is marked', async () => {
  // 999 divides no page: the edges of all pages are within one millisecond.
  const list = new RecordList(admit(4_000, 999));
  const source = {
    listActivity: (query: ActivityQuery) => {
      const page = list.listActivity(query);
      // After each page a new request settles, and one that was admitted a while ago.
      const others = { model: 'a,b', costNanoUsd: 7n };
      list.add(create(ActivityRecordSchema, { ...others, requestId: `req_new_${list.size}`, createdAtMs: 9n }));
      list.add(create(ActivityRecordSchema, { ...others, requestId: `req_late_${list.size}`, createdAtMs: 3n }));
      return page;
    },
  };
  const { text, isCut } = await readCsv(source, {});
  const lines = text.trimEnd().split('\r\n');
  expect([new Set(lines).size, isCut]).toEqual([lines.length, false]);
  const there = lines.filter(line => /^req_\d/.test(line)).map(line => line.split(',', 1)[0]);
  expect(there).toEqual(Array.from({ length: 4_000 }, (_, n) => `req_${3_999 - n}`));
  expect(lines.some(line => line.startsWith('req_new'))).toBe(false);
  expect(lines[1]).toContain('req_3999,1970-01-01T00:00:00.004Z,"a,b",0,');
  expect(lines[1]).toContain(',0.000003999,');
  const cut = await readCsv(new RecordList(admit(5_000, 1)), {}, 2_500);
  expect([cut.isCut, cut.text.trimEnd().split('\r\n').length]).toEqual([true, 2_501]);
});
