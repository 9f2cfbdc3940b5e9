/** The commands of docs/operations.md, as they stand there, and what an operator reads of usage and requests. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endGateway, environmentOf, type Gateway, recordOf, root, startGateway } from '../gateway.ts';
import { ask, complete } from './chat-client.ts';

let gateway: Gateway;
let cost = 0;
let requestId = '';
beforeAll(async () => {
  gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n' });
  const { headers, body } = await complete(gateway, ask('Say hello.'));
  requestId = headers.get('x-request-id') ?? '';
  cost = body.usage.cost;
  await recordOf(gateway, requestId);
});
afterAll(() => endGateway(gateway));

async function json(...args: string[]): Promise<unknown> {
  const { code, stderr, json: document } = await gateway.cli([...args, '--json']);
  expect([args, code, stderr]).toEqual([args, 0, '']);
  return document;
}

test('the commands of docs/operations.md work as they stand there', { timeout: 120_000 }, async () => {
  const text = readFileSync(join(root, 'docs/operations.md'), 'utf8');
  const commands = Array.from(text.matchAll(/```console\n(.*?)```/gs), ([, block = '']) =>
    block.trim().split('\n'),
  ).flat();
  expect(commands.length).toBeGreaterThan(7);
  for (const command of commands) {
    const words = command.split(' ').slice(2);
    expect(command).toBe(`$ tollgate ${words.join(' ')}`);
    const { code, stdout, stderr } = await gateway.cli(words);
    expect([command, code, stderr]).toEqual([command, 0, '']);
    expect(stdout).not.toBe('');
  }
});

test('usage adds up to the same by account, key, model and day', async () => {
  const sums = { requests: 1, failed_requests: 0, cost };
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
  const { stdout } = await gateway.cli(['usage', '--by', 'account', '--csv', '--account', '1']);
  const [header, row, rest] = stdout.split('\r\n');
  expect(header).toBe(
    'account_id,account,requests,failed_requests,cost,input_tokens,output_tokens,cache_creation_input_tokens,cache_read_input_tokens',
  );
  expect([row, rest]).toEqual([expect.stringMatching(/^1,default,1,0,0\.0\d+,\d+,\d+,0,0$/), '']);
  expect(Number(row?.split(',')[4])).toBe(cost);
});

test('a settled request is listed, and shown with its arithmetic', async () => {
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
  const unknown = await gateway.cli(['requests', 'show', 'req_nothing', '--account', '1']);
  expect([unknown.code, unknown.stdout]).toEqual([1, '']);
  const badTime = await gateway.cli(['usage', '--start', 'yesterday']);
  expect([badTime.code, badTime.stderr]).toEqual([2, expect.stringContaining('It must be a day or a time')]);
});

test('what stands alone is its list, the version is said, and a reader that has enough is no failure', async () => {
  expect(await json('accounts')).toEqual(await json('accounts', 'list'));
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  expect(await gateway.cli(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' });
  const main = join(root, 'src/main.ts');
  const { status, stdout, stderr } = spawnSync(
    'bash',
    [
      '-c',
      `set -o pipefail; "${process.execPath}" "${main}" models --json | head -n 1 | head -c 0; exec 3>&1; "${process.execPath}" "${main}" models --json | (exec 0<&-; sleep 1)`,
    ],
    {
      encoding: 'utf8',
      cwd: gateway.home.folder,
      env: environmentOf(gateway.home, { TOLLGATE_RPC_PORT: new URL(gateway.rpcUrl).port }),
    },
  );
  expect([status, stdout, stderr]).toEqual([0, '', '']);
});
