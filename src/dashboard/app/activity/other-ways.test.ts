import { expect, test } from 'vitest';
import type { Viewer } from '../data/viewer.ts';
import { listOtherWays } from './other-ways.ts';
import { nowMs } from '../data/time.ts';
import { readSpan } from './search.ts';

const operator = { role: 'operator', accountId: 4n, publicUrl: 'http://gateway' } as Viewer;
const search = { from: '2026-11-20', to: '2026-11-22', key: 3, endpoint: '/v1/messages', end_user: "o'neil" } as const;

test('calls for the page’s sums and for its list are offered, each with the filters of the address', () => {
  const [sums, list] = listOtherWays(operator, search, readSpan(search, nowMs()));
  const filters = 'api_key_id=3&endpoint=%2Fv1%2Fmessages&end_user=o%27neil';
  const span = 'start=2026-11-20T00%3A00%3A00.000Z&end=2026-11-23T00%3A00%3A00.000Z';
  expect(sums?.curl).toContain(
    `'http://gateway/v1/account/analytics?${span}&granularity=day&group_by=api_key&${filters}'`,
  );
  expect(list?.curl).toContain(`'http://gateway/v1/account/activity?${span}&${filters}'`);
  const words =
    "--account 4 --start 2026-11-20T00:00:00.000Z --end 2026-11-23T00:00:00.000Z --key 3 --endpoint /v1/messages --end-user 'o'\\''neil'";
  expect(sums?.cli).toBe(`tollgate usage --by key ${words}`);
  expect(list?.cli).toBe(`tollgate requests list ${words}`);
});

test('calls for sums by the values of a tag name the tag; a tag without a value filters nothing', () => {
  const [sums] = listOtherWays(operator, { by: 'tag', tag: 'team' }, readSpan(search, nowMs()));
  expect(sums?.curl).toContain('group_by=tag%3Ateam');
  expect(sums?.cli).toContain('usage --by tag:team --account 4');
  expect(sums?.cli).not.toContain('--tag');
});

test('a key’s holder gets calls for that key, and no command line', () => {
  const [sums, list] = listOtherWays({ ...operator, role: 'holder' }, {}, readSpan({}, nowMs()));
  expect([sums?.cli, list?.cli]).toEqual([undefined, undefined]);
  expect(sums?.curl).toContain('/v1/key/analytics?');
  expect(list?.curl).toContain('/v1/key/activity?');
});
