/** The operator's commands, against a running gateway. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { displayWidth } from '../../src/lib/display-width.ts';
import { runInside } from '../cli/run-inside.ts';
import { endGateway, gatewayEnvironment, root } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const canary = 'sk-canary-7f3a9c';
const config = `providers:
  acme: { protocol: chat, base_url: "http://127.0.0.1:9/v1", api_key: ${canary}, headers: { x-secret: ${canary}-header } }
`;
const gateway = await startGateway({ config, balance: '12.5' });
afterAll(() => endGateway(gateway));
const file = join(gateway.home.folder, 'gateway.yaml');

async function json(...args: string[]): Promise<Record<string, unknown>> {
  const { code, stderr, json: document } = await runInside(gateway, [...args, '--json']);
  expect([args, code, stderr]).toEqual([args, 0, '']);
  return document as Record<string, unknown>;
}

test('the JSON Schema of the configuration accepts the example and rejects what config check rejects', async () => {
  const { code, stdout } = await runInside(gateway, ['config', 'schema']);
  expect(code).toBe(0);
  const isValid = new Ajv2020({ strict: false }).compile(JSON.parse(stdout) as object);
  expect(isValid(parse(readFileSync(join(root, 'tollgate.example.yaml'), 'utf8')))).toBe(true);
  expect(isValid(parse(config))).toBe(true);
  for (const wrong of [
    'retries: -1',
    'retrys: 2',
    'providers: { a: { protocol: telepathy } }',
    'metrics: everyone',
    'strict: maybe',
  ]) {
    writeFileSync(join(gateway.home.folder, 'wrong.yaml'), `${wrong}\n`);
    const { code: checked } = await runInside(gateway, ['config', 'check', join(gateway.home.folder, 'wrong.yaml')]);
    expect([wrong, isValid(parse(wrong)), checked]).toEqual([wrong, false, 2]);
  }
});

test('config show prints every setting and no secret', async () => {
  const shown = await json('config', 'show', file);
  expect(shown).toMatchObject({
    retries: 2,
    limits: { body_bytes: '64MiB' },
    ledger: { write_off_limit: 10 },
  });
  expect(shown['providers']).toMatchObject({ acme: { base_url: 'http://127.0.0.1:9/v1' } });
  const { stdout } = await runInside(gateway, ['config', 'show', file]);
  expect(parse(stdout)).toEqual(shown);
  expect(stdout + JSON.stringify(shown)).not.toContain('canary');
});

test('status prints the address, balances and states', async () => {
  expect(await json('status')).toEqual({
    public_url: gateway.url,
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    ready: 'yes',
    accounts: 1,
    balance: 12.5,
    held: 0,
    providers: { unused: 1 },
    routes: expect.any(Object),
  });
});

interface NamedCheck {
  readonly check: string;
  readonly outcome: string;
  readonly detail: string;
}

test('doctor reports a running gateway as healthy, and a gateway that does not answer as failed', async () => {
  const { healthy, checks } = await json('doctor');
  expect(healthy).toBe(true);
  expect((checks as { check: string }[]).map(({ check }) => check)).toEqual([
    'gateway',
    'configuration',
    'data directory',
    'disk',
    'ledger',
    'providers',
    'routes',
  ]);
  const details = Object.fromEntries((checks as NamedCheck[]).map(({ check, detail }) => [check, detail]));
  // The file that the gateway runs with, wherever the command runs, and a provider that was not asked is not called good.
  expect(details['configuration']).toBe(`${file}, as the gateway uses it`);
  expect(details['providers']).toBe('0 of 1 provider answered; not asked since the start: acme');
  const { code, stdout } = await runInside(gateway, ['doctor', '--json', '--rpc-host', '127.0.0.1', '--rpc-port', '9']);
  expect(code).toBe(1);
  const found = JSON.parse(stdout) as { healthy: boolean; checks: NamedCheck[] };
  expect(found.checks.find(({ check }) => check === 'gateway')).toMatchObject({
    outcome: 'failed',
    detail: expect.stringContaining('No gateway answers on 127.0.0.1:9'),
  });
});

test('doctor reports a changed and a broken file of the gateway, and providers that answer only errors', async () => {
  const run = async (): Promise<Record<string, NamedCheck>> => {
    const { stdout } = await runInside(gateway, ['doctor', '--json']);
    const { checks } = JSON.parse(stdout) as { checks: NamedCheck[] };
    return Object.fromEntries(checks.map(check => [check.check, check]));
  };
  try {
    writeFileSync(file, `${config}retries: 3\n`);
    expect((await run())['configuration']).toMatchObject({
      outcome: 'warning',
      detail: expect.stringMatching(/has changed since it was read: run `tollgate config diff .*`tollgate reload`$/),
    });
    writeFileSync(file, `${config}retries: many\n`);
    expect((await run())['configuration']).toMatchObject({
      outcome: 'failed',
      detail: expect.stringContaining('1 problem'),
    });
  } finally {
    writeFileSync(file, config);
  }
  const tested = await runInside(gateway, ['provider', 'test', 'acme', '--json']);
  expect(tested.code).toBe(1);
});

test('a key is found by its label or its last characters, and an update changes only the given fields', async () => {
  const made = await json('keys', 'create', '--account', '1', '--label', 'Search team', '--minute-limit', '7');
  const id = String(made['api_key_id']);
  for (const text of ['search', String(made['key']).slice(-6)]) {
    const { data } = (await json('keys', 'find', text)) as { data: { api_key_id: number }[] };
    expect(data.map(key => String(key.api_key_id))).toEqual([id]);
  }
  const changed = await json(
    'keys',
    'update',
    id,
    '--label',
    '検索',
    '--balance',
    '1.5',
    '--allowed-models',
    'sim/small',
    '--no-fallback',
  );
  expect(changed).toMatchObject({
    label: '検索',
    balance: 1.5,
    allowed_models: ['sim/small'],
    fallback_to_payg: false,
    minute_limit: 7,
    use_subs_first: true,
  });
  const back = await json(
    'keys',
    'update',
    id,
    '--balance',
    'none',
    '--allowed-models',
    'all',
    '--fallback',
    '--expires',
    '2h',
  );
  expect(back).toMatchObject({
    balance: null,
    allowed_models: null,
    fallback_to_payg: true,
    expires_at: expect.any(String),
  });
  expect(await json('keys', 'update', id, '--expires', 'none')).toMatchObject({ expires_at: null });
  const nothing = await runInside(gateway, ['keys', 'update', id]);
  expect([nothing.code, nothing.stdout]).toEqual([2, '']);
});

test('a request of any account is found by its x-request-id alone', async () => {
  const account = await json('accounts', 'create', '--name', 'other', '--balance', '3');
  const { key } = await json('keys', 'create', '--account', String(account['account_id']));
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${String(key)}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim/small', messages: [{ role: 'user', content: 'One.\n!sim tokens=5' }] }),
  });
  const { usage } = (await answer.json()) as { usage: { cost: number } };
  const id = answer.headers.get('x-request-id') ?? '';
  const shown = await json('requests', 'show', id);
  expect(shown).toMatchObject({ request_id: id, cost: usage.cost, buckets: [{ kind: 'input' }, { kind: 'output' }] });
  const findLine = () =>
    gateway
      .printed()
      .split('\n')
      .find(each => each.includes(id) && each.includes('"msg":"request"'));
  await expect.poll(findLine).toBeDefined();
  expect(JSON.parse(findLine() ?? '{}')).toMatchObject({
    request_id: id,
    account_id: account['account_id'],
    cost: usage.cost,
    attempts: 1,
  });
  const { code, stderr } = await runInside(gateway, ['requests', 'show', 'req_0000000000000']);
  expect([code, stderr]).toEqual([1, expect.stringContaining('There is no activity record')]);
});

test('tables align wide characters, and right-align numbers and money', async () => {
  await json('accounts', 'create', '--name', '株式会社テスト', '--balance', '1000.000000001');
  const { stdout } = await runInside(gateway, ['accounts']);
  const lines = stdout.split('\n');
  const findEnd = (text: string): number => {
    const line = lines.find(each => each.includes(text)) ?? '';
    return displayWidth(line.slice(0, line.indexOf(text) + text.length));
  };
  expect(new Set(['BALANCE', '12.5', '1000.000000001'].map(findEnd)).size).toBe(1);
  expect(findEnd('BALANCE')).toBeGreaterThan(displayWidth('株式会社テスト'));
});

test('completion scripts work, know the commands and contain no secret', async () => {
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { code, stdout } = await runInside(gateway, ['completion', shell]);
    expect(code).toBe(0);
    for (const word of ['rotate', 'ledger', 'doctor']) expect(stdout).toContain(word);
    for (const secret of [canary, gateway.apiKey, gateway.managementKey, gateway.dataDir])
      expect(stdout).not.toContain(secret);
  }
  const { stdout } = await runInside(gateway, ['completion', 'bash']);
  const complete = (...words: string[]): string[] =>
    spawnSync(
      'bash',
      [
        '-c',
        `${stdout}\nCOMP_WORDS=("$@"); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _tollgate; echo "\${COMPREPLY[@]}"`,
        'bash',
        ...words,
      ],
      { encoding: 'utf8' },
    )
      .stdout.trim()
      .split(' ');
  expect(complete('tollgate', 'keys', 'u')).toEqual(['update']);
  expect(complete('tollgate', 'doc')).toEqual(['doctor']);
  expect(complete('tollgate', 'keys', 'update', '--no-f')).toEqual(['--no-fallback']);
});

test('a command ends without an error if the reader closes the pipe early', () => {
  const command = `${process.execPath} ${join(root, 'bin/tollgate.js')} config schema | head -1`;
  const { status, stdout, stderr } = spawnSync('bash', ['-o', 'pipefail', '-c', command], {
    encoding: 'utf8',
    cwd: gateway.home.folder,
    env: gatewayEnvironment(gateway.home),
  });
  expect([status, stdout, stderr]).toEqual([0, '{\n', '']);
});

test('an account is renamed and closed: its keys stop, their balances and those of groups move back, and a negative credit pays out the rest', async () => {
  const id = String((await json('accounts', 'create', '--name', 'Old name', '--balance', '9'))['account_id']);
  expect(await json('accounts', 'rename', id, 'New name')).toMatchObject({ name: 'New name', balance: 9 });
  const group = await json('groups', 'create', '--account', id, '--name', 'team', '--balance', '2');
  await json('groups', 'create', '--account', id, '--name', 'part', '--parent', String(group['group_id']));
  const made = await json('keys', 'create', '--account', id, '--balance', '3', '--label', 'closing');
  const manager = await json('management-keys', 'create', '--account', id, '--scopes', 'all');
  const ask = (line: string, more: object = {}) =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${String(made['key'])}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'sim/small',
        messages: [{ role: 'user', content: `One.\n!sim ${line}` }],
        ...more,
      }),
    });
  const first = (await (await ask('tokens=5')).json()) as { usage: { cost: number } };
  expect(first.usage.cost).toBeGreaterThan(0);
  // This request is still running while the account is closed.
  const running = await ask('tokens=2000 tps=50', { stream: true });
  const reader = running.body?.getReader();
  await reader?.read();
  await json('accounts', 'close', id);
  while (reader !== undefined && !(await reader.read().catch(() => ({ done: true }))).done);

  expect((await ask('tokens=5')).status).toBe(401);
  const managed = await fetch(`${gateway.url}/v1/account/balance`, {
    headers: { authorization: `Bearer ${String(manager['key'])}` },
  });
  expect(managed.status).toBe(401);
  const held = async () => (await json('accounts', 'show', id))['held'];
  await expect.poll(held).toBe(0);
  const account = await json('accounts', 'show', id);
  const [record, ...others] = (await json('usage', '--account', id))['data'] as { cost: number }[];
  expect(others).toEqual([]);
  expect(account['balance']).toBeCloseTo(9 - (record?.cost ?? 0), 9);
  expect(await json('keys', 'list', '--account', id)).toEqual({ data: [] });
  expect(await json('groups', 'list', '--account', id)).toEqual({ data: [] });
  for (const refused of [
    ['keys', 'create', '--account', id],
    ['management-keys', 'create', '--account', id, '--scopes', 'all'],
    ['subscriptions', 'start', id, '--plan', 'core', '--period', 'monthly'],
  ]) {
    const { code, stdout } = await runInside(gateway, refused);
    expect([refused, code, stdout]).toEqual([refused, 1, '']);
  }
  expect(await json('accounts', 'close', id)).toEqual(account);
  const rest = String(account['balance']);
  expect(await json('credits', 'add', id, `-${rest}`, '--note', 'paid out')).toMatchObject({ balance: 0 });
});
