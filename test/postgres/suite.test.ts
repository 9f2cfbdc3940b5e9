import { expect, test } from 'vitest';
import { leftOut, listEngineTests, listPostgresTests } from './suite.ts';

test('every test that starts a gateway or opens a ledger runs on PostgreSQL, except those that are listed with a reason', () => {
  const tests = listEngineTests();
  for (const path of [
    'test/attacks/overload.attack.test.ts',
    'test/browser/dashboard.test.ts',
    // These import the gateway through other files.
    'test/clients/second-gateway-agents.e2e.test.ts',
    'test/e2e/crash.e2e.test.ts',
    'test/e2e/upstream-faults-chat.e2e.test.ts',
    'test/ledger/schemas.test.ts',
    'test/responses/two-gateways.test.ts',
    'test/rpc/account.test.ts',
  ]) {
    expect(tests).toContain(path);
  }
  // A file that was removed or renamed, or that no longer starts a gateway or opens a ledger, must not stay in the list.
  expect(Object.keys(leftOut).filter(path => !tests.includes(path))).toEqual([]);
  expect(Object.values(leftOut).filter(reason => reason.length < 20)).toEqual([]);
  expect(listPostgresTests().toSorted()).toEqual(tests.filter(path => leftOut[path] === undefined).toSorted());
});
