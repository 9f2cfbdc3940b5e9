/** A gateway that is paused for longer than its lease: the other one gives back what it held, and it charges nothing when it wakes. */
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, inject, test } from 'vitest';
import { openPostgresLedger } from '../../src/ledger/postgres/postgres-ledger.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { readBalance, heldBy, makeHome, startGateway } from '../gateway.ts';
import { plans } from '../ledger/fixture.ts';
import { createDatabase } from './server.ts';

test('a gateway that wakes after its lease ends its streams with overloaded, charges nothing of them, and goes on', async () => {
  const url = await createDatabase(inject('postgresUrl'));
  const home = makeHome();
  const start = (folder: string) =>
    startGateway({
      home: { ...home, folder, dataDir: `${folder}/data` },
      config: 'simulator: { steering: true }\n',
      environment: { TOLLGATE_DATABASE_URL: url },
    });
  const one = await start(home.folder);
  const other = await start(makeHome().folder);
  const ask = async (content: string): Promise<string> => {
    const body = { model: 'sim/large', stream: true, messages: [{ role: 'user', content }] };
    const headers = { authorization: `Bearer ${one.apiKey}`, 'content-type': 'application/json' };
    const response = await fetch(`${other.url}/v1/chat/completions`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    return response.text();
  };
  const before = await readBalance(one);
  const stream = ask('!sim tokens=3000 tps=40\nTell.');
  await sleep(1_500);
  expect(await heldBy(one)).toBeGreaterThan(0n);
  process.kill(other.pid, 'SIGSTOP');
  await expect.poll(() => heldBy(one), { timeout: 30_000, interval: 500 }).toBe(0n);
  process.kill(other.pid, 'SIGCONT');
  expect(await stream).toContain('"code":"overloaded"');
  expect([await readBalance(one), await heldBy(one)]).toEqual([before, 0n]);
  // It goes on as another instance.
  expect(await ask('Hello.')).toContain('[DONE]');
  expect(await readBalance(one)).toBeLessThan(before);
  await other.stop();
  await one.stop();
  const ledger = await openPostgresLedger({ url, clock: systemClock, dailyLimitUnit: 'dollars', plans });
  expect(await ledger.verify()).toEqual([]);
  await ledger.close();
}, 90_000);
