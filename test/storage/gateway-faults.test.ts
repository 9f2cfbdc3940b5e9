import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import {
  endGateway,
  expectVerified,
  type Gateway,
  type Home,
  makeHome,
  readBalance,
  runCommand,
  startGateway,
} from '../gateway.ts';
import { runCommand as runShared, startGateway as startShared } from '../hosted-gateway.ts';
import { canMakeFaults, makeStorageFaults, type StorageFault } from './storage-faults.ts';

/** A gateway whose disk fails and recovers, as clients and the operator see it. */

const config = 'ledger: { settle_timeout: 1s }\nshutdown_grace: 1s\n';
const readOnly: StorageFault = { calls: ['writes', 'truncates'], error: 'EROFS', path: '-wal' };
/** How long the disk fails, in ms: longer than a few quick retries, because the end of a background response must be stored again until the disk works. */
const faultMs = 5_500;

async function send({ url, apiKey }: Gateway, path: string, body: object): Promise<Response> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  return fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
}

async function readStatus({ url, apiKey }: Gateway, path: string): Promise<string> {
  const answer = await fetch(url + path, { headers: { authorization: `Bearer ${apiKey}` } });
  const { status } = (await answer.json()) as { status: string };
  return status;
}

async function readMetric({ rpcUrl }: Gateway, name: string): Promise<string | undefined> {
  const text = await (await fetch(`${rpcUrl}/metrics`)).text();
  return text.split('\n').find(line => line.startsWith(name));
}

describe.runIf(canMakeFaults)('a disk that fails', () => {
  const faults = canMakeFaults ? makeStorageFaults() : undefined;
  let gateway: Gateway;
  const start = async (home: Home = makeHome(), text = config): Promise<Gateway> =>
    (gateway = await startGateway({ home, config: text, environment: faults?.environment ?? {} }));
  afterEach(async () => {
    faults?.clear();
    await gateway.kill();
  });
  afterAll(() => faults?.remove());

  test('is reported by /readyz, metrics and log, and the work that it interrupted ends without a restart', async () => {
    await start();
    const input = '!sim tokens=600 tps=150\nx';
    const background = await send(gateway, '/v1/responses', { model: 'sim/large', input, background: true });
    const { id } = (await background.json()) as { id: string };
    const image = { model: 'sim/image', size: '64x64', async: true, prompt: '!sim delay_ms=1000\nx' };
    const { task_id: task } = (await (await send(gateway, '/v1/images/generations', image)).json()) as {
      task_id: string;
    };
    const follower = await fetch(`${gateway.url}/v1/responses/${id}?stream=true`, {
      headers: { authorization: `Bearer ${gateway.apiKey}` },
    });
    const chat = {
      model: 'sim/large',
      stream: true,
      messages: [{ role: 'user', content: '!sim tokens=200 tps=150\nx' }],
    };
    const streamed = await send(gateway, '/v1/chat/completions', chat);
    faults?.arm(readOnly);
    // The stream ends with an error event, not a reset, within a limited time after the model's end.
    const answered = await streamed.text();
    expect(answered).toContain('"code":"overloaded"');
    expect(answered).not.toContain('[DONE]');
    expect((await fetch(`${gateway.url}/readyz`)).status).toBe(503);
    const internal = await fetch(`${gateway.rpcUrl}/readyz`);
    expect([internal.status, await internal.json()]).toEqual([
      503,
      { status: 'unready', reason: 'The ledger can’t be written.' },
    ]);
    expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
    expect(await readMetric(gateway, 'tollgate_store_writable{store="ledger"}')).toMatch(/ 0$/);
    await wait(faultMs);
    expect(await readMetric(gateway, 'tollgate_store_writable{store="content"}')).toMatch(/ 0$/);
    faults?.clear();
    await expect.poll(() => readStatus(gateway, `/v1/responses/${id}`), { timeout: 30_000 }).toBe('failed');
    await expect
      .poll(() => readStatus(gateway, `/v1/images/tasks/${task}`), { timeout: 30_000 })
      .toMatch(/^(completed|failed)$/);
    expect(await follower.text()).toMatch(/event: response\.failed\n/);
    await expect.poll(async () => (await fetch(`${gateway.url}/readyz`)).status).toBe(200);
    expect(await readMetric(gateway, 'tollgate_disk_free_bytes')).toMatch(/ [1-9]\d{6,}$/);
    // The gateway writes its log up to a tenth of a second later.
    await expect.poll(() => gateway.printed()).toContain('a store can be written again');
    expect(gateway.printed()).toContain('a store can’t be written');
    await endGateway(gateway);
  });

  test.each([
    { limit: '500ms', isExceeded: true },
    { limit: '60s', isExceeded: false },
  ])(
    'delays a charge for at most ledger.settle_timeout ($limit); then the response is an error, and free',
    async ({ limit, isExceeded }) => {
      await start(makeHome(), `ledger: { settle_timeout: ${limit} }\n`);
      const before = await readBalance(gateway);
      const messages = [{ role: 'user', content: '!sim tokens=150 tps=100\nx' }];
      const chat = { model: 'sim/large', stream: true, max_tokens: 200, messages };
      const streamed = await send(gateway, '/v1/chat/completions', chat);
      faults?.arm(readOnly);
      const answer = streamed.text();
      await expect.poll(() => faults?.countFired()).toBeGreaterThan(0);
      // Between the two limits, and below the default.
      await wait(3_000);
      faults?.clear();
      const text = await answer;
      expect([text.includes('"code":"overloaded"'), text.includes('[DONE]')]).toEqual([isExceeded, !isExceeded]);
      await expect.poll(async () => (await fetch(`${gateway.url}/readyz`)).status).toBe(200);
      const { records } = await gateway.account.listActivity({});
      expect(records).toHaveLength(isExceeded ? 0 : 1);
      expect(before - (await readBalance(gateway))).toBe(records[0]?.costNanoUsd ?? 0n);
      await endGateway(gateway);
    },
  );

  test('that loses writes ends the process at once, and the next start has everything that was acknowledged', async () => {
    await start();
    const { home } = gateway;
    const cli = (args: readonly string[]) => runShared(home, args, { TOLLGATE_RPC_PORT: new URL(gateway.rpcUrl).port });
    expect((await cli(['credits', 'add', '1', '3', '--reference', 'first'])).code).toBe(0);
    faults?.arm({ calls: ['syncs'], error: 'EIO', path: 'ledger.sqlite', times: 1, loses: true });
    const refused = await cli(['credits', 'add', '1', '4', '--reference', 'second']);
    const { code, stderr } = await gateway.ended;
    expect(code).toBe(1);
    expect(stderr).toContain('the disk lost writes');
    faults?.clear();
    await start(home);
    // Whether or not the first attempt succeeded, the key exists once, however many times the command is repeated.
    if (refused.code !== 0) expect(refused.stderr).toContain('--reference second');
    for (let n = 0; n < 2; n += 1)
      expect((await cli(['credits', 'add', '1', '4', '--reference', 'second'])).code).toBe(0);
    const shown = await cli(['accounts', 'show', '1', '--json']);
    expect(shown.json).toMatchObject({ balance: 17 });
    const other = await cli(['credits', 'add', '1', '5', '--reference', 'second']);
    expect([other.code, other.stderr]).toEqual([1, expect.stringContaining('belongs to another credit')]);
    await endGateway(gateway);
  });

  test('that can’t be written while the gateway is stopped makes it exit with 1', async () => {
    await start();
    faults?.arm(readOnly);
    expect(
      (await send(gateway, '/v1/chat/completions', { model: 'sim/small', messages: [{ role: 'user', content: 'x' }] }))
        .status,
    ).toBe(503);
    await expect.poll(async () => (await fetch(`${gateway.url}/readyz`)).status).toBe(503);
    expect((await gateway.stop()).code).toBe(1);
    faults?.clear();
    await expectVerified(gateway.home);
    rmSync(gateway.home.folder, { recursive: true, force: true });
  });
});

test('a missing ledger beside stored content is not treated as a first start', async () => {
  const gateway = await startShared({ config });
  await send(gateway, '/v1/responses', { model: 'sim/small', input: 'x', store: true });
  await gateway.stop();
  await expectVerified(gateway.home);
  rmSync(join(gateway.dataDir, 'ledger.sqlite'));
  const { code, stderr } = await runCommand(gateway.home, ['serve']);
  expect(code).toBe(1);
  expect(stderr).toContain('There is no ledger');
  expect(stderr).toContain(
    'content.db in the same directory has 1 documents that belong to one. Restore ledger.sqlite from a backup',
  );
  rmSync(gateway.home.folder, { recursive: true, force: true });
});
