import { expect, test } from 'vitest';
import { brokenLoad } from '../ledger/broken-load.ts';

test.each([
  ['statement', 'exit'],
  ['statement', 'SQLITE_FULL'],
  ['statement', 'SQLITE_IOERR_WRITE'],
  ['statement', 'SQLITE_BUSY'],
  ['commit', 'exit'],
  ['commit', 'SQLITE_IOERR_WRITE'],
  ['reply', 'exit'],
  ['message', 'exit'],
] as const)('every single %s that fails with %s, until none is left to fail', async (point, kind) => {
  let nth = 1;
  for (; nth < 2000; nth++) {
    const { fired } = await brokenLoad({ point, kind, nth, times: 1 });
    if (fired === 0) break;
  }
  expect(nth).toBeGreaterThan(point === 'statement' ? 60 : 3);
});
