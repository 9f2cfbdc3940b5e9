/** Pauses or kills one of two gateways on the same database; the other gateway ends its interrupted work. */
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { openPostgresLedger } from '../../src/ledger/postgres/postgres-ledger.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { readBalance, heldBy, makeHome, startGateway, type Gateway } from '../gateway.ts';
import { plans } from '../ledger/fixture.ts';

/** Ends the lease of a gateway, or waits until it has ended. */
export type EndLease = () => Promise<void>;

/** How long the end of interrupted work may take, in ms: a lease of 15 s, a check every 5 s, and time for a busy machine. */
const endedMs = 30_000;

/** Returns a function that ends the lease of the last started gateway, as if it had expired. */
export function makeEndLease(url: string): EndLease {
  return async () => {
    const connection = await PostgresConnection.open({ url });
    await connection.query('UPDATE instance SET lease_until_ms = 0 WHERE boot = (SELECT max(boot) FROM instance)');
    await connection.end();
  };
}

/** Starts two gateways. */
export async function startTwo(url: string): Promise<readonly [one: Gateway, other: Gateway]> {
  const home = makeHome();
  const start = (folder: string) =>
    startGateway({
      home: { ...home, folder, dataDir: `${folder}/data` },
      config: 'simulator: { steering: true }\n',
      environment: { TOLLGATE_DATABASE_URL: url },
    });
  return [await start(home.folder), await start(makeHome().folder)];
}

/** Expects every invariant of the ledger to hold. */
export async function expectSound(url: string): Promise<void> {
  const ledger = await openPostgresLedger({ url, clock: systemClock, dailyLimitUnit: 'dollars', plans });
  expect(await ledger.verify()).toEqual([]);
  await ledger.close();
}

/** Pauses a gateway with a running stream for longer than its lease. */
export async function pauseGateway(url: string, endLease: EndLease): Promise<void> {
  const [one, other] = await startTwo(url);
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
  await expect.poll(() => heldBy(one)).toBeGreaterThan(0n);
  process.kill(other.pid, 'SIGSTOP');
  await endLease();
  await expect.poll(() => heldBy(one), { timeout: endedMs, interval: 100 }).toBe(0n);
  process.kill(other.pid, 'SIGCONT');
  expect(await stream).toContain('"code":"overloaded"');
  expect([await readBalance(one), await heldBy(one)]).toEqual([before, 0n]);
  // It continues as another instance.
  expect(await ask('Hello.')).toContain('[DONE]');
  expect(await readBalance(one)).toBeLessThan(before);
  await other.stop();
  await one.stop();
  await expectSound(url);
}

/** Kills the second of two gateways while it runs a response in the background. */
export async function killGateway([one, other]: readonly [Gateway, Gateway], endLease: EndLease): Promise<void> {
  const headers = { authorization: `Bearer ${one.apiKey}`, 'content-type': 'application/json' };
  const slow = { model: 'sim/large', input: '!sim tokens=4000 tps=20\nTell.', background: true };
  const begun = await fetch(`${other.url}/v1/responses`, { method: 'POST', headers, body: JSON.stringify(slow) });
  const { id } = (await begun.json()) as { readonly id: string };
  await sleep(500);
  await other.kill();
  await endLease();
  const read = async (): Promise<unknown> => (await fetch(`${one.url}/v1/responses/${id}`, { headers })).json();
  await expect
    .poll(read, { timeout: endedMs, interval: 100 })
    .toMatchObject({ status: 'failed', error: { code: 'server_restarted' } });
}
