/** How an operator reloads the configuration, and sees usage and requests. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endGateway, gatewayEnvironment, type Gateway, readRecord, root } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { runInside } from '../cli/run-inside.ts';
import { ask, complete } from './chat-client.ts';

let gateway: Gateway;
let cost = 0;
let requestId = '';
beforeAll(async () => {
  gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n' });
  const { headers, body } = await complete(gateway, ask('Say hello.'));
  requestId = headers.get('x-request-id') ?? '';
  cost = body.usage.cost;
  await readRecord(gateway, requestId);
});
afterAll(() => endGateway(gateway));

async function json(...args: string[]): Promise<unknown> {
  const { code, stderr, json: document } = await runInside(gateway, [...args, '--json']);
  expect([args, code, stderr]).toEqual([args, 0, '']);
  return document;
}

test('reload prints what was read; a bad file changes nothing, and the error names it', async () => {
  const path = join(gateway.home.folder, 'gateway.yaml');
  const before = readFileSync(path, 'utf8');
  expect(await json('reload')).toEqual({ file: path, providers: 0, models: 11, needs_restart: [] });
  writeFileSync(path, `${before}metrics: outside\n`);
  const refused = await runInside(gateway, ['reload']);
  expect([refused.code, refused.stdout]).toEqual([1, '']);
  expect(refused.stderr).toContain('metrics: is "outside", must be internal or public');
  writeFileSync(path, `${before}metrics: public\n`);
  expect(await json('reload')).toMatchObject({ needs_restart: ['metrics'] });
  writeFileSync(path, before);
  expect(await json('reload')).toMatchObject({ needs_restart: [] });
});

test('usage adds up to the same by account, key, model and day', async () => {
  const sums = { requests: 1, failed_requests: 0, cost, provider_cost: 0, margin: 0 };
  const name = { account_id: 1, account: 'default' };
  const day = new Date().toISOString().slice(0, 10);
  const rows = { account: name, key: { ...name, api_key_id: 1 }, model: { model: 'sim/large' }, day: { day } };
  for (const [by, names] of Object.entries(rows)) {
    const { data } = (await json('usage', '--by', by)) as { data: object[] };
    expect(data).toEqual([
      {
        ...names,
        ...sums,
        input_tokens: expect.any(Number),
        output_tokens: expect.any(Number),
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
      },
    ]);
  }
  expect(await json('usage', '--end', '2026-01-01', '--start', '2025-01-01')).toEqual({ data: [] });
  const { stdout } = await runInside(gateway, ['usage', '--by', 'account', '--csv', '--account', '1']);
  const [header, row, rest] = stdout.split('\r\n');
  expect(header).toBe(
    'account_id,account,requests,failed_requests,cost,provider_cost,margin,input_tokens,output_tokens,cache_creation_input_tokens,cache_read_input_tokens',
  );
  expect([row, rest]).toEqual([expect.stringMatching(/^1,default,1,0,0\.0\d+,0,0,\d+,\d+,0,0$/), '']);
  expect(Number(row?.split(',')[4])).toBe(cost);
});

test('usage by group names each group, and the requests without a group', async () => {
  const { admin } = gateway;
  const { group } = await admin.createAccountGroup({ accountId: 1n, settings: { name: 'Search' } });
  const settings = { groupId: group?.groupId ?? 0n, label: 'grouped' };
  const { key } = await admin.createApiKey({ accountId: 1n, settings });
  const { body } = await complete(gateway, ask('Say hello.'), { key: key?.key ?? '' });
  const { data } = (await json('usage', '--by', 'group')) as { data: object[] };
  expect(data).toMatchObject([
    { account_id: 1, group_id: Number(group?.groupId), group: 'Search', requests: 1, cost: body.usage.cost },
    { account_id: 1, group_id: null, group: null, requests: 1, cost },
  ]);
});

test('a settled request is listed, and shown with the calculation of its cost', async () => {
  const { data } = (await json('requests', 'list', '--account', '1', '--key', '1', '--model', 'sim/large')) as {
    data: object[];
  };
  expect(data).toMatchObject([{ request_id: requestId, cost, state: 'completed', api_key_id: 1 }]);
  expect(await json('requests', 'show', requestId, '--account', '1')).toMatchObject({
    ...data[0],
    buckets: [
      { kind: 'input', paid_by: 'account' },
      { kind: 'output', paid_by: 'account' },
    ],
  });
  expect(await json('keys', 'show', '1')).toMatchObject({ api_key_id: 1, account_id: 1 });
  expect(await json('holds')).toEqual({ data: [] });
  const unknown = await runInside(gateway, ['requests', 'show', 'req_nothing', '--account', '1']);
  expect([unknown.code, unknown.stdout]).toEqual([1, '']);
  const badTime = await runInside(gateway, ['usage', '--start', 'yesterday']);
  expect([badTime.code, badTime.stderr]).toEqual([2, expect.stringContaining('It must be a day or a time')]);
});

test('a command without a subcommand lists, --version prints the version, and a reader that closes the pipe early causes no failure', async () => {
  // Without limits: the reset time of a rolling limit changes with the clock.
  const ofAccount = ['credits', 'keys', 'groups', 'management-keys', 'entries', 'requests', 'webhooks'];
  const commands = [
    ...['accounts', 'models', 'holds', 'audit', 'sessions'].map(name => [name]),
    ...ofAccount.map(name => [name, '--account', '1']),
  ];
  for (const [name = '', ...rest] of commands) {
    // Each command prints one JSON document, which `json` has parsed.
    expect([name, await json(name, ...rest)]).toEqual([name, await json(name, 'list', ...rest)]);
  }
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  expect(await gateway.cli(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' });
  const main = join(root, 'bin/tollgate.js');
  const { status, stdout, stderr } = spawnSync(
    'bash',
    [
      '-c',
      `set -o pipefail; "${process.execPath}" "${main}" models --json | head -n 1 | head -c 0; exec 3>&1; "${process.execPath}" "${main}" models --json | (exec 0<&-; sleep 1)`,
    ],
    {
      encoding: 'utf8',
      cwd: gateway.home.folder,
      env: gatewayEnvironment(gateway.home, { TOLLGATE_RPC_PORT: new URL(gateway.rpcUrl).port }),
    },
  );
  expect([status, stdout, stderr]).toEqual([0, '', '']);
});
