import { describe, expect, test } from 'vitest';
import { brokenLoad } from '../ledger/broken-load.ts';

describe.each([0, 2])('with callers in %i workers', workers => {
  test.each([
    ['statement', 'exit'],
    ['statement', 'SQLITE_FULL'],
    ['statement', 'SQLITE_IOERR_WRITE'],
    ['statement', 'SQLITE_BUSY'],
    ['commit', 'exit'],
    ['commit', 'bug'],
    ['commit', 'SQLITE_IOERR_WRITE'],
    ['sync', 'exit'],
    ['reply', 'exit'],
    ['message', 'exit'],
  ] as const)('every single %s that fails with %s, until none is left to fail', async (point, kind) => {
    let nth = 1;
    for (; nth < 2000; nth++) {
      const { fired } = await brokenLoad({ point, kind, nth, times: 1 }, workers);
      if (fired === 0) break;
    }
    expect(nth).toBeGreaterThan(point === 'statement' ? 60 : 3);
  });
});
