/** The process that a test kills: a gateway's ledger with 100 holds of 5 nano-dollars each. */
import { lockHome } from '../../src/ledger/postgres/home-lock.ts';
import { openPostgresLedger } from '../../src/ledger/postgres/postgres-ledger.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { IdSource } from '../../src/lib/ids.ts';
import { makeAdmitCommand, amount, plans } from '../ledger/fixture.ts';

const [url = '', accountId, keyId, dataDir] = process.argv.slice(2);
// Without a data directory nothing but the end of the lease tells others that this process has ended, so the lease is short. With one, the next gateway that locks the directory ends
// the lease, so it is longer than the test.
const home = dataDir === undefined ? undefined : lockHome(dataDir);
const lease = { leaseMs: home === undefined ? 4000 : 600_000, renewMs: 200 };
const ledger = await openPostgresLedger({ url, clock: systemClock, dailyLimitUnit: 'dollars', plans, lease, home });
const ids = new IdSource(systemClock, ledger.lastId, { instance: ledger.instanceNumber });
const key = { id: Number(keyId), accountId: Number(accountId) };
await Promise.all(
  Array.from({ length: 100 }, () => ledger.admit(makeAdmitCommand(ids.next(), { key, funds: amount(5n) }))),
);
process.send?.('held');
