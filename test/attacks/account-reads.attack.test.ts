/** Expensive reads of an account run on the reader's thread and do not delay others (docs/security.md "Overload"). */
import { createClient } from '@connectrpc/connect';
import { afterAll, expect, test } from 'vitest';
import { fillRecords } from '../../bench/ledger.ts';
import { AccountService, AnalyticsGranularity, AnalyticsGroup } from '../../src/gen/tollgate/v1/account_pb.ts';
import { endGateway, isOnPostgres, makeHome, openTransport, startGateway } from '../gateway.ts';
import { LoopHolds } from './loop-holds.ts';
import { testPeak } from './peak-memory.ts';
import { attackSize } from './scale.ts';

const config = 'simulator: { tokens_per_second: 0 }\n';
const balance = '10000';
const records = attackSize(1_000_000, 300_000);
/** The longest time that the main thread may compute without a pause, in ms: 50 on a quiet machine, and twice as long if other programs share the cores. */
const heldMsMax = 100;
const readsAtOnce = 24;

const home = makeHome();
const first = await startGateway({ home, config, balance });
expect((await first.stop()).code).toBe(0);
// The records are written into SQLite’s file.
if (!isOnPostgres) fillRecords(home.dataDir, { accounts: 1, keys: 1, models: 50 }, records);
const holds = new LoopHolds();
const gateway = await startGateway({ home, config, balance, environment: holds.environment() });
afterAll(() => holds.remove());
afterAll(() => endGateway(gateway));

test.skipIf(isOnPostgres)(
  'sums and pages of a large account, by REST and RPC, do not hold the event loop',
  async () => {
    const account = createClient(AccountService, openTransport(gateway.rpcUrl, gateway.managementKey));
    const get = async (path: string): Promise<number> => {
      const headers = { authorization: `Bearer ${gateway.managementKey}` };
      const answer = await fetch(`${gateway.url}/v1/account${path}`, { headers });
      await answer.text();
      return answer.status;
    };
    // The first read of each kind compiles the code and builds the column files.
    await get('/analytics?group_by=model&tag=team');
    await account.getAnalytics({ groupBy: AnalyticsGroup.END_USER });

    const sinceMs = Date.now();
    const began = performance.now();
    let isOver = false;
    const reads = Array.from({ length: readsAtOnce }, (_, number) => [
      get(`/analytics?group_by=end_user&granularity=hour&model=acme/${number}`),
      get(`/activity?limit=100&offset=${9900 - number}`),
      account.getAnalytics({
        granularity: AnalyticsGranularity.HOUR,
        groupBy: AnalyticsGroup.END_USER,
        filter: { model: `acme/${25 + number}` },
      }),
      account.listActivity({ limit: 100, offset: 9900 - number, model: 'acme/7' }),
    ]).flat();
    const done = Promise.all(reads).finally(() => (isOver = true));
    let healthy = 0;
    while (!isOver) {
      expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
      healthy += 1;
    }
    const answers = await done;
    const tookMs = performance.now() - began;
    expect(answers.filter(answer => typeof answer === 'number').every(status => status === 200)).toBe(true);
    expect(await holds.longest(gateway.url, sinceMs)).toBeLessThan(heldMsMax);
    // On the main thread, the reads would have blocked it for this long.
    expect(tookMs).toBeGreaterThan(2 * heldMsMax);
    expect(healthy).toBeGreaterThan(1);
  },
  300_000,
);

testPeak(gateway);
