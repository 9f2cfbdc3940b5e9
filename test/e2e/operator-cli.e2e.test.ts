/** What an operator looks at and changes from the command line, against a gateway that runs. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { displayWidth } from '../../src/lib/display-width.ts';
import { endGateway, environmentOf, root, startGateway } from '../gateway.ts';

const canary = 'sk-canary-7f3a9c';
const config = `providers:
  acme: { protocol: chat, base_url: "http://127.0.0.1:9/v1", api_key: ${canary}, headers: { x-secret: ${canary}-header } }
`;
const gateway = await startGateway({ config, balance: '12.5' });
afterAll(() => endGateway(gateway));
const file = join(gateway.home.folder, 'gateway.yaml');

async function json(...args: string[]): Promise<Record<string, unknown>> {
  const { code, stderr, json: document } = await gateway.cli([...args, '--json']);
  expect([args, code, stderr]).toEqual([args, 0, '']);
  return document as Record<string, unknown>;
}

test('the JSON Schema of the configuration takes the example and refuses what config check refuses', async () => {
  const { code, stdout } = await gateway.cli(['config', 'schema']);
  expect(code).toBe(0);
  const takes = new Ajv2020({ strict: false }).compile(JSON.parse(stdout) as object);
  expect(takes(parse(readFileSync(join(root, 'tollgate.example.yaml'), 'utf8')))).toBe(true);
  expect(takes(parse(config))).toBe(true);
  for (const wrong of ['retries: -1', 'retrys: 2', 'providers: { a: {} }', 'metrics: everyone', 'strict: maybe']) {
    writeFileSync(join(gateway.home.folder, 'wrong.yaml'), `${wrong}\n`);
    const { code: checked } = await gateway.cli(['config', 'check', join(gateway.home.folder, 'wrong.yaml')]);
    expect([wrong, takes(parse(wrong)), checked]).toEqual([wrong, false, 2]);
  }
});

test('config show has every setting and no secret', async () => {
  const shown = await json('config', 'show', file);
  expect(shown).toMatchObject({
    retries: 2,
    limits: { bodyBytes: 67_108_864 },
    ledger: { writeOffMaxNanoUsd: '10000000000' },
  });
  const [acme] = shown['providers'] as Record<string, unknown>[];
  expect(acme).toMatchObject({ name: 'acme', baseUrl: 'http://127.0.0.1:9/v1' });
  const { stdout } = await gateway.cli(['config', 'show', file]);
  expect(parse(stdout)).toEqual(shown);
  expect(stdout + JSON.stringify(shown)).not.toContain('canary');
});

test('status tells the address, money and states', async () => {
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

test('doctor finds nothing wrong with a gateway that runs, and says what is wrong where none does', async () => {
  const { healthy, checks } = await json('doctor');
  expect(healthy).toBe(true);
  expect((checks as { check: string }[]).map(({ check }) => check)).toEqual([
    'configuration',
    'data directory',
    'disk',
    'ledger',
    'gateway',
    'providers',
    'routes',
  ]);
  const { code, stdout } = await gateway.cli(['doctor', '--json', '--rpc-host', '127.0.0.1', '--rpc-port', '9']);
  expect(code).toBe(1);
  const found = JSON.parse(stdout) as {
    healthy: boolean;
    checks: { check: string; outcome: string; detail: string }[];
  };
  expect(found.checks.find(({ check }) => check === 'gateway')).toMatchObject({
    outcome: 'failed',
    detail: expect.stringContaining('No gateway answers on 127.0.0.1:9'),
  });
});

test('a key is found by its label or its end, and changed where it is named', async () => {
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
  const nothing = await gateway.cli(['keys', 'update', id]);
  expect([nothing.code, nothing.stdout]).toEqual([2, '']);
});

test('a request is found by its x-request-id alone, whichever account it is of', async () => {
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
  const line = gateway
    .printed()
    .split('\n')
    .find(each => each.includes(id) && each.includes('"msg":"request"'));
  expect(JSON.parse(line ?? '{}')).toMatchObject({
    request_id: id,
    account_id: account['account_id'],
    cost: usage.cost,
    attempts: 1,
  });
  const { code, stderr } = await gateway.cli(['requests', 'show', 'req_0000000000000']);
  expect([code, stderr]).toEqual([1, expect.stringContaining('There is no activity record')]);
});

test('tables align wide characters, and numbers and money to the right', async () => {
  await json('accounts', 'create', '--name', '株式会社テスト', '--balance', '1000.000000001');
  const { stdout } = await gateway.cli(['accounts']);
  const lines = stdout.split('\n');
  const endOf = (text: string): number => {
    const line = lines.find(each => each.includes(text)) ?? '';
    return displayWidth(line.slice(0, line.indexOf(text) + text.length));
  };
  expect(new Set(['BALANCE', '12.5', '1000.000000001'].map(endOf)).size).toBe(1);
  expect(endOf('BALANCE')).toBeGreaterThan(displayWidth('株式会社テスト'));
});

test('completion scripts are sound, know the commands and hold no secret', async () => {
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { code, stdout } = await gateway.cli(['completion', shell]);
    expect(code).toBe(0);
    for (const word of ['rotate', 'ledger', 'doctor']) expect(stdout).toContain(word);
    for (const secret of [canary, gateway.apiKey, gateway.managementKey, gateway.dataDir])
      expect(stdout).not.toContain(secret);
  }
  const { stdout } = await gateway.cli(['completion', 'bash']);
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

test('a reader that has enough ends a command quietly', () => {
  const command = `${process.execPath} ${join(root, 'src/main.ts')} config schema | head -1`;
  const { status, stdout, stderr } = spawnSync('bash', ['-o', 'pipefail', '-c', command], {
    encoding: 'utf8',
    cwd: gateway.home.folder,
    env: environmentOf(gateway.home),
  });
  expect([status, stdout, stderr]).toEqual([0, '{\n', '']);
});
