/** Names in lists and options of the command line, and changes with one option alone. */
import { afterAll, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { runInside } from './run-inside.ts';

const gateway = await startGateway({});
afterAll(() => endGateway(gateway));

const tollgate = (args: readonly string[]) => runInside(gateway, args);

async function json(...args: string[]): Promise<Record<string, unknown>> {
  const { code, stderr, json: document } = await tollgate([...args, '--json']);
  expect([args, code, stderr]).toEqual([args, 0, '']);
  return document as Record<string, unknown>;
}

let accounts = 0;

async function newAccount(): Promise<string> {
  accounts += 1;
  return String((await json('accounts', 'create', '--name', `account ${accounts}`))['account_id']);
}

test('keys, groups and limits are listed with names and states, and options take names', async () => {
  const account = await newAccount();
  const other = await newAccount();
  const name = (await json('accounts', 'show', account))['name'] as string;
  for (const owner of [account, other]) await json('groups', 'create', '--account', owner, '--name', 'search');
  await json('groups', 'create', '--account', account, '--name', 'prod', '--parent', 'search');
  await json('accounts', 'rename', account, `named ${name}`);
  const of = ['--account', `named ${name}`];
  const limited = ['--minute-limit', '5', '--expires', '2h'];
  const made = await json('keys', 'create', ...of, '--label', 'bot', '--group', 'search/prod', ...limited);
  const id = String(made['api_key_id']);
  const read = async (...args: string[]): Promise<string> => {
    const { code, stdout } = await tollgate(args);
    expect(code).toBe(0);
    // One space between cells.
    return stdout.replaceAll(/ +/g, ' ');
  };
  const expires = String(made['expires_at']);
  expect(await read('keys', 'list', ...of)).toContain(
    `${id} bot ${masked(made)} works search/prod ${expires} - - 5 - 0`,
  );
  await json('keys', 'update', id, '--group', 'search', '--paused');
  expect(await read('keys', 'list', ...of)).toContain(`${id} bot ${masked(made)} paused search ${expires}`);
  await json('keys', 'disable', id);
  expect(await read('keys', 'list', ...of)).toContain('disabled search');
  expect(await json('keys', 'move', id, 'prod')).toMatchObject({ group_id: expect.any(Number), state: 'disabled' });
  await json('keys', 'enable', id);
  await json('keys', 'revoke', id);
  expect(await read('keys', 'list', ...of)).toBe('none\n');
  expect(await read('keys', 'list', ...of, '--all')).toContain('revoked search/prod');
  const limit = [
    'limits',
    'create',
    ...of,
    '--scope',
    'group',
    '--id',
    'search/prod',
    '--unit',
    'usd',
    '--window',
    'day',
  ];
  const { limit_id } = await json(...limit, '--max', '3', '--action', 'alert');
  expect(await read('limits', 'list', ...of)).toContain(` ${String(limit_id)} group search/prod alert usd day 3 0 0 3`);
  expect(await read('groups', 'list', ...of)).toMatch(/\d+ prod search - \{\}/);
  for (const [args, message] of [
    [['keys', 'list', '--account', 'nobody'], 'There is no account called nobody.\n'],
    [['usage', '--group', 'nothing'], 'There is no group called nothing.\n'],
    [
      ['usage', '--group', 'search'],
      /^2 groups are called search: give one of the ids \d+ \(search\), \d+ \(search\)\.\n$/,
    ],
  ] as const) {
    const { code, stderr } = await tollgate(args);
    expect([args, code, stderr]).toEqual([args, 2, expect.stringMatching(message)]);
  }
});

test('keys find finds a secret that was rotated, and says until when it works, and a revoked key', async () => {
  const account = await newAccount();
  const made = await json('keys', 'create', '--account', account, '--label', 'rotated bot');
  const id = String(made['api_key_id']);
  const rotated = await json('keys', 'rotate', id, '--overlap-seconds', '3600');
  const secret = String(made['key']).slice(-8);
  const [found] = (await json('keys', 'find', secret))['data'] as readonly Record<string, unknown>[];
  expect(found).toMatchObject({ api_key_id: Number(id), key: masked(rotated), old_key: masked(made) });
  const leftMs = Date.parse(String(found?.['old_key_ends_at'])) - Date.now();
  expect(leftMs > 3_590_000 && leftMs <= 3_600_000).toBe(true);
  expect((await tollgate(['keys', 'find', secret])).stdout).toMatch(/ rotated +- +\d{4}-/);
  await json('keys', 'revoke', id);
  expect((await json('keys', 'find', 'rotated bot'))['data']).toMatchObject([{ state: 'revoked' }]);
});

/** Returns a secret that was shown once, as later answers show it. */
function masked({ key }: Record<string, unknown>): string {
  return `${String(key).slice(0, 10)}…${String(key).slice(-4)}`;
}

test('each option of keys update works alone, and an update without an option is wrong use', async () => {
  const account = await newAccount();
  const key = await json('keys', 'create', '--account', account);
  const id = String(key['api_key_id']);
  for (const [option, field, value] of [
    ['--paused', 'paused', true],
    ['--no-paused', 'paused', false],
    ['--no-subs-first', 'use_subs_first', false],
    ['--subs-first', 'use_subs_first', true],
    ['--no-fallback', 'fallback_to_payg', false],
    ['--fallback', 'fallback_to_payg', true],
  ] as const) {
    expect([option, (await json('keys', 'update', id, option))[field]]).toEqual([option, value]);
  }
  const group = await json('groups', 'create', '--account', account, '--name', 'g');
  const limit = ['limits', 'create', '--account', account, '--scope', 'account', '--unit', 'usd', '--window', 'day'];
  const made = await json(...limit, '--max', '1', '--raised-max', '2', '--raised-until', '2999-01-01T00:00:00Z');
  expect(await json('limits', 'update', String(made['limit_id']), '--no-raised')).toMatchObject({ raised: null });
  const webhook = await json('webhooks', 'create', '--account', account, '--url', 'https://example.com/hook');
  for (const [kind, what] of [
    ['keys', id],
    ['accounts', account],
    ['groups', String(group['group_id'])],
    ['limits', String(made['limit_id'])],
    ['webhooks', String(webhook['webhook_id'])],
  ] as const) {
    const { code, stderr } = await tollgate([kind, 'update', what]);
    expect([kind, code, stderr]).toEqual([kind, 2, `Name what to change: see tollgate ${kind} update --help.\n`]);
  }
});
