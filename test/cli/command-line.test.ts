import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runCommandLine } from '../../src/cli/program.ts';
import { AccountService } from '../../src/gen/tollgate/v1/account_pb.ts';
import { type ControlPlane, startControlPlane } from '../rpc/control-plane.ts';
import { makePorts } from './ports.ts';

const entry = resolve(import.meta.dirname, 'process.ts');
let plane: ControlPlane;
let folder = '';

beforeAll(async () => {
  plane = await startControlPlane();
  folder = mkdtempSync(join(tmpdir(), 'tollgate-cli-'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await plane.close();
});

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

type Json = Readonly<Record<string, unknown>>;

/** Runs `tollgate ARGS` against the running services in this process, because a process for each command would take a minute. */
async function tollgate(args: readonly string[], environment: Record<string, string> = {}): Promise<Ended> {
  const printed = { stdout: '', stderr: '' };
  const variables = { ...own(), ...environment };
  const code = await runCommandLine(args, {
    ...makePorts(variables),
    streams: { out: text => void (printed.stdout += text), err: text => void (printed.stderr += text) },
  });
  return { code, ...printed };
}

const own = (): Record<string, string> => ({
  TOLLGATE_RPC_PORT: String(plane.port),
  TOLLGATE_DATA_DIR: plane.dataDir,
  ...plane.environment,
});

/** Runs `tollgate ARGS` as a process, in a folder without a configuration. */
function runProcess(args: readonly string[], environment: Record<string, string> = {}): Promise<Ended> {
  const child = spawn(process.execPath, [entry, ...args], {
    cwd: folder,
    env: { ...own(), ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((done, failed) => {
    child.once('error', failed);
    child.once('close', code => done({ code, stdout, stderr }));
  });
}

/** Returns the document that a command with `--json` prints. The command must succeed and print nothing else. */
async function json(...args: string[]): Promise<Json> {
  const { code, stdout, stderr } = await tollgate([...args, '--json']);
  expect([args.join(' '), code, stderr]).toEqual([args.join(' '), 0, '']);
  return JSON.parse(stdout) as Json;
}

const iso = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as unknown;

async function newAccount(balance = '10'): Promise<string> {
  const { account_id: id } = await json('accounts', 'create', '--name', 'someone', '--balance', balance);
  return String(id);
}

test('accounts are created, listed, shown and credited', async () => {
  const created = await json('accounts', 'create', '--name', 'Acme Inc', '--balance', '12.5');
  expect(created).toEqual({
    account_id: expect.any(Number),
    name: 'Acme Inc',
    balance: 12.5,
    held: 0,
    created_at: iso,
  });
  const id = String(created['account_id']);
  expect(await json('accounts', 'show', id)).toEqual(created);
  expect((await json('accounts', 'list'))['data']).toContainEqual(created);
  expect(await json('credits', 'add', id, '0.1', '--note', 'gift')).toEqual({ ...created, balance: 12.6 });
  expect(await json('credits', 'add', id, '-12.6')).toEqual({ ...created, balance: 0 });
  expect(await json('credits', 'add', id, '0.0000000005')).toEqual({ ...created, balance: 0.000000001 });
});

test('a credit whose answer was lost can be repeated with the reference that the command made, and is added once', async () => {
  const id = await newAccount('1');
  const lost = await tollgate(['credits', 'add', id, '3', '--rpc-port', '1']);
  const reference = /--reference ([0-9a-f-]{36});/.exec(lost.stderr)?.[1] ?? expect.fail(lost.stderr);
  const repeat = () => json('credits', 'add', id, '3', '--reference', reference);
  expect(await repeat()).toMatchObject({ balance: 4 });
  expect(await repeat()).toMatchObject({ balance: 4 });
  // Each command makes another reference.
  const next = await tollgate(['credits', 'add', id, '3', '--rpc-port', '1']);
  expect(next.stderr).not.toContain(reference);
});

test('an API key is shown whole once, and its settings as they were given', async () => {
  const account = await newAccount();
  const created = await json('keys', 'create', '--account', account);
  const key = created['key'] as string;
  expect(created).toEqual({
    api_key_id: expect.any(Number),
    account_id: Number(account),
    key: expect.stringMatching(/^sk-tg-[0-9A-Za-z]{43}$/),
    created_at: iso,
    label: '',
    daily_limit: 0,
    minute_limit: 0,
    monthly_limit: null,
    low_balance: null,
    expires_at: null,
    balance: null,
    usage_today: 0,
    usage_minute: 0,
    last_used_at: null,
    use_subs_first: true,
    fallback_to_payg: true,
    allowed_models: null,
    disabled: false,
    group_id: null,
    state: 'works',
    tags: {},
    metadata: {},
    keep_bodies: null,
    paused: false,
  });
  const masked = { ...created, key: `${key.slice(0, 10)}…${key.slice(-4)}` };
  expect(await json('keys', 'list', '--account', account)).toEqual({ data: [{ ...masked, group: null }] });
  const settings = ['--label', 'ci', '--daily-limit', '5', '--minute-limit', '60', '--balance', '2.5'];
  const more = ['--allowed-models', 'large, acme/small:free', '--no-subs-first', '--no-fallback'];
  expect(await json('keys', 'create', '--account', account, ...settings, ...more)).toMatchObject({
    label: 'ci',
    daily_limit: 5,
    minute_limit: 60,
    balance: 2.5,
    allowed_models: ['acme/large', 'acme/small:free'],
    use_subs_first: false,
    fallback_to_payg: false,
  });
  expect(await json('accounts', 'show', account)).toMatchObject({ balance: 7.5 });
});

test('an API key expires at a time or after a time span', async () => {
  const create = ['keys', 'create', '--account', await newAccount(), '--expires'];
  expect(await json(...create, '2031-05-01T12:00+02:00')).toMatchObject({ expires_at: '2031-05-01T10:00:00.000Z' });
  const hours = (Date.parse(String((await json(...create, '2h'))['expires_at'])) - Date.now()) / 3_600_000;
  expect(hours).toBeGreaterThan(1.9);
  expect(hours).toBeLessThanOrEqual(2);
  const wrong = await tollgate([...create, 'soon']);
  expect([wrong.code, wrong.stdout]).toEqual([2, '']);
  expect(wrong.stderr).toContain('It must be a time such as 2026-12-31T23:59Z, or a time span such as 30m, 2h, 7d.');
});

test('API keys are disabled, enabled, limited and revoked', async () => {
  const account = await newAccount();
  const id = String((await json('keys', 'create', '--account', account))['api_key_id']);
  expect(await json('keys', 'disable', id)).toMatchObject({ api_key_id: Number(id), disabled: true });
  expect(await json('keys', 'enable', id)).toMatchObject({ disabled: false });
  expect(await json('keys', 'monthly-limit', id, '0.05')).toMatchObject({ monthly_limit: 0.05 });
  expect(await json('keys', 'monthly-limit', id, 'none')).toMatchObject({ monthly_limit: null });
  expect(await json('keys', 'revoke', id)).toMatchObject({ api_key_id: Number(id) });
  expect(await json('keys', 'list', '--account', account)).toEqual({ data: [] });
  expect((await tollgate(['keys', 'enable', id])).code).toBe(1);
});

test('an API key gets another secret, a group and tags', async () => {
  const account = await newAccount();
  const group = await json(
    'groups',
    'create',
    '--account',
    account,
    '--name',
    'team',
    '--tags',
    'team=a',
    '--balance',
    '1',
  );
  expect(group).toEqual({
    group_id: expect.any(Number),
    account_id: Number(account),
    name: 'team',
    parent_group_id: null,
    low_balance: null,
    tags: { team: 'a' },
    balance: 1,
    created_at: iso,
  });
  const groupId = String(group['group_id']);
  const more = ['--group', groupId, '--tags', 'env=prod,job=x', '--metadata', '{"owner":"ann"}'];
  const key = await json('keys', 'create', '--account', account, ...more);
  expect(key).toMatchObject({
    group_id: group['group_id'],
    tags: { env: 'prod', job: 'x' },
    metadata: { owner: 'ann' },
  });
  const id = String(key['api_key_id']);
  const rotated = await json('keys', 'rotate', id, '--overlap-seconds', '60');
  expect(rotated).toMatchObject({
    api_key_id: key['api_key_id'],
    key: expect.stringMatching(/^sk-tg-[0-9A-Za-z]{43}$/),
  });
  expect(rotated['key']).not.toBe(key['key']);
  expect(await json('keys', 'move', id, 'none')).toMatchObject({ group_id: null });
  const child = await json('groups', 'create', '--account', account, '--name', 'child', '--parent', groupId);
  expect(await json('groups', 'update', groupId, '--balance', 'none', '--name', 'all')).toMatchObject({
    balance: null,
    name: 'all',
  });
  const listed = await json('groups', 'list', '--account', account);
  expect(listed['data']).toMatchObject([{ name: 'all' }, { name: 'child', parent_group_id: group['group_id'] }]);
  expect((await tollgate(['groups', 'delete', groupId])).code).toBe(1);
  expect(await json('groups', 'delete', String(child['group_id']))).toEqual({
    message: `group ${String(child['group_id'])} deleted`,
  });
});

test('limits are made for accounts, groups and keys, changed, raised and deleted', async () => {
  const account = await newAccount();
  const of = ['--account', account, '--scope', 'account'];
  const made = await json('limits', 'create', ...of, '--unit', 'usd', '--window', 'day', '--max', '2.5', '--locked');
  expect(made).toEqual({
    limit_id: expect.any(Number),
    account_id: Number(account),
    scope: { type: 'account', id: Number(account) },
    unit: 'usd',
    window: 'day',
    time_zone: 'UTC',
    max: 2.5,
    models: null,
    end_users: 'all',
    action: 'refuse',
    locked: true,
    raised: null,
    used: 0,
    held: 0,
    remaining: 2.5,
    resets_at: iso,
    created_at: iso,
  });
  const id = String(made['limit_id']);
  const raise = ['--raised-max', '10', '--raised-until', '2999-01-01T00:00:00Z', '--time-zone', 'Europe/Berlin'];
  expect(await json('limits', 'update', id, '--max', '1', ...raise)).toMatchObject({
    max: 1,
    time_zone: 'Europe/Berlin',
    raised: { max: 10, until: '2999-01-01T00:00:00.000Z' },
    remaining: 10,
  });
  expect(await json('limits', 'update', id, '--no-raised', '--models', 'acme/*')).toMatchObject({
    raised: null,
    models: ['acme/*'],
  });
  const tokens = ['--unit', 'tokens', '--window', 'minute', '--max', '100', '--end-users', 'each', '--action', 'alert'];
  expect(await json('limits', 'create', ...of, ...tokens)).toMatchObject({
    unit: 'tokens',
    max: 100,
    end_users: 'each',
    action: 'alert',
    locked: false,
  });
  const running = await json('limits', 'create', ...of, '--unit', 'concurrent', '--max', '3');
  expect(running).toMatchObject({ window: null, resets_at: null });
  const listed = (await json('limits', 'list', '--account', account))['data'] as readonly { unit: string }[];
  expect(listed.map(({ unit }) => unit)).toEqual(['requests', 'requests', 'usd', 'tokens', 'concurrent']);
  expect(await json('limits', 'delete', id)).toEqual({ message: `limit ${id} deleted` });
  for (const wrong of [
    ['--unit', 'usd', '--max', '1'],
    ['--unit', 'concurrent', '--window', 'day', '--max', '1'],
    ['--unit', 'requests', '--window', 'day', '--max', '1.5'],
  ]) {
    expect((await tollgate(['limits', 'create', ...of, ...wrong])).code).toBe(2);
  }
});

test('management keys are created with scopes or all of them, changed, disabled and revoked, and work', async () => {
  const account = await newAccount('3');
  const created = await json('management-keys', 'create', '--account', account, '--scopes', 'all');
  expect(created).toEqual({
    management_key_id: expect.any(Number),
    account_id: Number(account),
    key: expect.stringMatching(/^mk-tg-[0-9A-Za-z]{43}$/),
    scopes: [
      'keys:create',
      'keys:read',
      'keys:update',
      'keys:delete',
      'account:read',
      'account:activity',
      'account:balance',
      'account:bodies',
      'limits:read',
      'limits:write',
      'groups:read',
      'groups:write',
      'audit:read',
      'webhooks:read',
      'webhooks:write',
    ],
    disabled: false,
    created_at: iso,
  });
  const client = plane.client(AccountService, created['key'] as string);
  expect((await client.getBalance({})).balanceNanoUsd).toBe(3_000_000_000n);
  const id = String(created['management_key_id']);
  expect(await json('management-keys', 'set-scopes', id, 'keys:read,account:balance')).toMatchObject({
    scopes: ['keys:read', 'account:balance'],
  });
  expect(await json('management-keys', 'disable', id)).toMatchObject({ disabled: true });
  expect(await json('management-keys', 'enable', id)).toMatchObject({ disabled: false });
  expect(((await json('management-keys', 'list', '--account', account))['data'] as Json[])[0]).toMatchObject({
    management_key_id: Number(id),
    key: expect.stringMatching(/^mk-tg-.{4}….{4}$/),
  });
  await json('management-keys', 'revoke', id);
  expect(await json('management-keys', 'list', '--account', account)).toEqual({ data: [] });
});

test('a plan is started, shown and cancelled', async () => {
  const account = await newAccount('20');
  const started = await json('subscriptions', 'start', account, '--plan', 'core_pro', '--period', 'biweekly');
  expect(started).toEqual({
    account_id: Number(account),
    plan: 'core_pro',
    period: 'biweekly',
    tokens: 28_000_000,
    tokens_left: 28_000_000,
    renews_at: iso,
    ends_at: null,
    free_left_today: 150,
    started_at: iso,
  });
  expect(await json('subscriptions', 'show', account)).toEqual(started);
  expect(await json('accounts', 'show', account)).toMatchObject({ balance: 7.01 });
  const renewsAt = started['renews_at'];
  expect(await json('subscriptions', 'cancel', account)).toEqual({ ...started, renews_at: null, ends_at: renewsAt });
});

test('models are listed with their prices', async () => {
  const { data } = await json('models', 'list');
  expect(data).toMatchObject([
    {
      id: 'acme/large',
      endpoints: ['/v1/chat/completions', '/v1/messages'],
      available: true,
      capabilities: { service_tiers: ['flex'] },
      pricing: {
        input: 1.25,
        output: 10,
        image: null,
        caching: { read: 0.125, write_5m: 1.5625, write_1h: null },
        above: [{ input_tokens: 200_000, input: 2.5, output: 15, caching: null }],
      },
    },
    { id: 'acme/small:free' },
  ]);
});

test('tables are printed without control characters that could affect the terminal', async () => {
  const account = await newAccount();
  await json('keys', 'create', '--account', account, '--label', '\u001B[31mred\u202E');
  const { stdout } = await tollgate(['keys', 'list', '--account', account]);
  const [head, row, ...rest] = stdout.trimEnd().split('\n');
  expect(head).toMatch(/^API_KEY_ID +NAME +KEY +STATE +GROUP +EXPIRES +BALANCE +DAILY_LIMIT /);
  expect(row).toMatch(/^ +\d+ +□\[31mred□ +sk-tg-.{4}….{4} +works +- +- +- +- /);
  expect(rest).toEqual([]);
  const shown = await tollgate(['accounts', 'show', account]);
  expect(shown.stdout).toMatch(/^account_id {2}\d+\nname {8}someone\nbalance {5}10\nheld {8}0\ncreated_at {2}\d{4}-/);
  expect((await tollgate(['keys', 'list', '--account', await newAccount()])).stdout).toBe('none\n');
});

test('amounts have all digits, in tables and in JSON, however large or small', async () => {
  for (const balance of ['1000000000.123456789', '0.000000001']) {
    const command = ['accounts', 'show', await newAccount(balance)];
    expect((await tollgate(command)).stdout).toContain(`\nbalance     ${balance}\n`);
    expect((await tollgate([...command, '--json'])).stdout).toContain(`\n  "balance": ${balance},\n`);
  }
});

test('a usage error ends with 2, a message on standard error and nothing on standard output', async () => {
  const account = await newAccount();
  const wrong = [
    [],
    ['nonsense'],
    ['keys'],
    ['keys', 'nonsense'],
    ['keys', 'list'],
    ['keys', 'list', '--account'],
    ['keys', 'list', '--account', 'one'],
    ['keys', 'list', '--account', '0'],
    ['keys', 'list', '--account', '1', '--nonsense'],
    ['keys', 'list', '--account', '1', 'more'],
    ['keys', 'disable'],
    ['keys', 'disable', '1.5'],
    ['keys', 'disable', '99999999999999999'],
    ['keys', 'monthly-limit', '1', 'much'],
    ['keys', 'monthly-limit', '1', '-1'],
    ['keys', 'create', '--account', account, '--daily-limit', '-5'],
    ['keys', 'create', '--account', account, '--balance', '1e3'],
    ['keys', 'create', '--account', account, '--label', 'x'.repeat(201)],
    ['keys', 'create', '--account', account, '--allowed-models', 'acme/larg'],
    ['accounts', 'create'],
    ['accounts', 'create', '--name', ''],
    ['accounts', 'create', '--name', 'x', '--balance', '-1'],
    ['credits', 'add', account, '0'],
    ['credits', 'add', account, '1,5'],
    ['credits', 'add', account, '99999999999'],
    ['management-keys', 'create', '--account', account, '--scopes', 'root'],
    ['management-keys', 'create', '--account', account, '--scopes', ','],
    ['management-keys', 'create', '--account', account],
    ['keys', 'create', '--account', account, '--allowed-models', 'acme/larg'],
    ['subscriptions', 'start', account, '--plan', 'gold', '--period', 'monthly'],
    ['subscriptions', 'start', account, '--plan', 'core', '--period', 'daily'],
    ['subscriptions', 'start', account, '--plan', 'core'],
    ['subscriptions', 'show'],
    ['models', 'list', '--rpc-port', '70000'],
  ];
  for (const args of wrong) {
    const { code, stdout, stderr } = await tollgate(args);
    expect([args, code, stdout]).toEqual([args, 2, '']);
    expect(stderr).not.toBe('');
  }
});

test('a refusal by the gateway ends with 1, the reason and a tip', async () => {
  const account = await newAccount('1');
  const failed: [string[], string][] = [
    [['accounts', 'show', '424242'], 'There is no account 424242.'],
    [['keys', 'list', '--account', '424242'], 'There is no account 424242.'],
    [['keys', 'revoke', '424242'], 'There is no API key 424242.'],
    [['management-keys', 'disable', '424242'], 'There is no management key 424242.'],
    [['subscriptions', 'show', '424242'], 'There is no account 424242.'],
    [['subscriptions', 'cancel', account], `Account ${account} has no subscription.`],
    [['subscriptions', 'start', account, '--plan', 'core', '--period', 'monthly'], 'npx tollgate credits add'],
    [['credits', 'add', account, '-2'], 'Insufficient funds: the account has less'],
    [['keys', 'create', '--account', account, '--balance', '2'], 'npx tollgate credits add'],
  ];
  for (const [args, reason] of failed) {
    const { code, stdout, stderr } = await tollgate([...args, '--json']);
    expect([args, code, stdout]).toEqual([args, 1, '']);
    expect(stderr).toContain(reason);
  }
});

test('a missing token, the token of another gateway and a port where nothing answers have different errors', async () => {
  const missing = await tollgate(['accounts', 'list', '--data-dir', join(folder, 'nowhere')]);
  expect([missing.code, missing.stderr]).toEqual([
    1,
    expect.stringContaining(`The operator token ${join(folder, 'nowhere', 'operator.token')} does not exist.`),
  ]);
  writeFileSync(join(folder, 'operator.token'), 'op-tg-foreign\n');
  const foreign = await tollgate(['accounts', 'list', '--data-dir', folder]);
  expect([foreign.code, foreign.stderr]).toEqual([1, expect.stringContaining('refuses the operator token')]);
  writeFileSync(join(folder, 'operator.token'), '');
  const empty = await tollgate(['accounts', 'list', '--data-dir', folder]);
  expect([empty.code, empty.stderr]).toEqual([1, expect.stringContaining('does not contain a token')]);
  const port = await freePort();
  const silent = await tollgate(['accounts', 'list', '--rpc-port', String(port)]);
  expect([silent.code, silent.stderr]).toEqual([
    1,
    expect.stringContaining(`No gateway answers on 127.0.0.1:${port}.`),
  ]);
});

test('options take precedence over environment variables', async () => {
  const environment = { TOLLGATE_RPC_PORT: String(await freePort()), TOLLGATE_DATA_DIR: folder };
  const flags = ['--rpc-host', 'localhost', '--rpc-port', String(plane.port), '--data-dir', plane.dataDir];
  expect((await tollgate(['accounts', 'list', ...flags, '--json'], environment)).code).toBe(0);
});

/** Prints the help of a command and of every command below it; returns their names. */
async function printHelp(path: readonly string[]): Promise<string[]> {
  const help = await tollgate([...path, '--help']);
  expect([path, help.code, help.stderr]).toEqual([path, 0, '']);
  const listed = /\nCommands:\n([^]*)$/.exec(help.stdout)?.[1] ?? '';
  const below = Array.from(listed.matchAll(/^ {2}([a-z][\w-]*)/gm), ([, name = '']) => name);
  const names = [path.join(' ')];
  for (const name of below.filter(each => each !== 'help')) names.push(...(await printHelp([...path, name])));
  return names;
}

test('every command has help', { timeout: 60_000 }, async () => {
  const names = await printHelp([]);
  expect(names).toEqual(expect.arrayContaining(['run', 'connect', 'keys update', 'limits create']));
  expect(names.length).toBeGreaterThan(80);
});

test('wrong environment variables end with 2, and help needs no environment', async () => {
  const environment = { TOLLGATE_RPC_PORT: 'nine' };
  const wrong = await tollgate(['accounts', 'list'], environment);
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('TOLLGATE_RPC_PORT')]);
  for (const args of [['--help'], ['help'], ['keys', 'create', '--help']]) {
    const help = await tollgate(args, environment);
    expect([args, help.code, help.stderr]).toEqual([args, 0, '']);
    expect(help.stdout).toContain('Usage: tollgate');
  }
});

test('serve gets its configuration file, and its exit code is that of the command', async () => {
  expect(await tollgate(['serve'])).toEqual({ code: 3, stdout: '', stderr: '' });
  expect(await tollgate(['serve', '--config', 'a.yaml'])).toEqual({ code: 4, stdout: '', stderr: '' });
  expect((await tollgate(['serve', '--conf', 'a.yaml'])).code).toBe(2);
});

test('config check needs no gateway; a bad file ends with 2 and a message that says what is wrong', async () => {
  const good = join(folder, 'good.yaml');
  const bad = join(folder, 'bad.yaml');
  writeFileSync(good, 'retries: 1\n');
  writeFileSync(bad, 'retries: 1\nretrys: 2\n');
  const environment = { TOLLGATE_RPC_PORT: String(await freePort()) };
  const check = (...args: string[]) => tollgate(['config', 'check', ...args], environment);
  expect(await check(good)).toMatchObject({ code: 0, stdout: expect.stringContaining(`${good} is valid`) });
  const document = JSON.parse((await check(good, '--json')).stdout) as Json;
  expect(document).toEqual({ valid: true, file: good, providers: 0, models: 0, problems: [], warnings: [] });
  const open = join(folder, 'open.yaml');
  writeFileSync(
    open,
    'providers: { mine: { protocol: chat, base_url: "http://127.0.0.1:9", api_key: k, passthrough: all } }\n',
  );
  const warned = await check(open);
  expect([warned.code, warned.stdout]).toEqual([0, expect.stringMatching(/^warning: mine has passthrough: all: /m)]);
  expect(JSON.parse((await check(open, '--json')).stdout)).toMatchObject({
    warnings: [expect.stringContaining('mine')],
  });
  const wrong = await check(bad);
  expect([wrong.code, wrong.stdout]).toEqual([2, '']);
  expect(wrong.stderr).toContain(`${bad}:2: retrys`);
  const listed = await check(bad, '--json');
  expect(listed.code).toBe(2);
  expect(JSON.parse(listed.stdout)).toMatchObject({ valid: false, problems: [{ file: bad, line: 2, path: 'retrys' }] });
  expect((await check(join(folder, 'missing.yaml'))).code).toBe(2);
  // The configuration in use is searched for in the working directory of the process.
  expect(await runProcess(['config', 'check'])).toMatchObject({ code: 0, stdout: expect.stringMatching(/^no file: /) });
});

test('as a process it ends with the exit code and prints only the document on standard output', async () => {
  const listed = await runProcess(['accounts', 'list', '--json']);
  expect([listed.code, listed.stderr]).toEqual([0, '']);
  expect(JSON.parse(listed.stdout)).toEqual(await json('accounts', 'list'));
  expect(await runProcess(['accounts', 'show', '424242', '--json'])).toMatchObject({ code: 1, stdout: '' });
  expect(await runProcess(['accounts', 'show', 'me', '--json'])).toMatchObject({ code: 2, stdout: '' });
});

test('ledger verify works while the gateway runs, and says in which directory there is no ledger', async () => {
  expect(await json('ledger', 'verify')).toEqual({ valid: true, violations: [] });
  expect(await tollgate(['ledger', 'verify'])).toEqual({ code: 0, stdout: 'all invariants hold\n', stderr: '' });
  const none = await tollgate(['ledger', 'verify', '--data-dir', folder], { TOLLGATE_DATABASE_URL: '' });
  expect([none.code, none.stdout, none.stderr]).toEqual([1, '', expect.stringContaining('There is no ledger in')]);
});

test('the operator token is a file that only its owner can read', () => {
  const path = join(plane.dataDir, 'operator.token');
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

function freePort(): Promise<number> {
  return new Promise(done => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => done(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}
