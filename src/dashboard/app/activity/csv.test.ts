import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { type ActivityRecord, ActivityRecordSchema } from '../../../gen/tollgate/v1/account_pb.ts';
import { csvField, readCsv } from './csv.ts';

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

test('all pages are read, a row that moved to the next page appears once, and a shortened file is marked', async () => {
  const record = (n: number): ActivityRecord =>
    create(ActivityRecordSchema, { requestId: `req_${n}`, model: 'a,b', costNanoUsd: BigInt(n) });
  const all = Array.from({ length: 1_500 }, (_, n) => record(n));
  // A request settles after the first page was read: the others move down by one.
  const source = {
    listActivity: ({ offset = 0, limit = 0 }) =>
      Promise.resolve((offset === 0 ? all : [record(9_999), ...all]).slice(offset, offset + limit)),
  };
  const { text, isCut } = await readCsv(source, {});
  const lines = text.trimEnd().split('\r\n');
  expect([lines.length, new Set(lines).size, isCut]).toEqual([1_501, 1_501, false]);
  expect(lines[2]).toContain('req_1,1970-01-01T00:00:00.000Z,"a,b",0,');
  expect(lines[2]).toContain(',0.000000001,');
  const endless = {
    listActivity: ({ offset = 0 }) => Promise.resolve(all.slice(0, 1_000).map((_, n) => record(offset + n))),
  };
  const cut = await readCsv(endless, {}, 2_000);
  expect([cut.isCut, cut.text.trimEnd().split('\r\n').length]).toEqual([true, 2_001]);
});
