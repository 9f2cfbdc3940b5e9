/** `tollgate apply`: creates what a file describes, and updates it when the file has changed. */
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { complete, ask } from '../e2e/chat-client.ts';
import { startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway({
  config: 'simulator: { tokens_per_second: 0 }\nwebhooks: { allow_private: true }\n',
});
afterAll(() => endGateway(gateway));

const path = join(gateway.home.folder, 'accounts.yaml');
const file = `
accounts:
  - name: acme
    opening_balance: 25.5
    low_balance: 5
    groups:
      - { name: engineering, tags: { team: eng }, balance: 10 }
      - name: search
        parent: engineering
        limits: [{ unit: tokens, window: day, max: 100000, time_zone: Europe/Berlin }]
    keys:
      - label: ci
        group: search
        tags: { env: ci }
        metadata: { owner: jo }
        limits:
          - { unit: usd, window: month, max: 12.5 }
          - { unit: concurrent, max: 3 }
      - { label: old, expires_at: 2030-01-01T00:00:00Z, disabled: true }
    limits: [{ unit: usd, window: day, max: 20, action: alert }]
    webhooks: [{ url: 'http://127.0.0.1:9/hook', events: [limit.threshold, balance.low] }]
webhooks: [{ url: 'http://127.0.0.1:9/operator' }]
`;

interface PlanJson {
  readonly applied: boolean;
  readonly data: readonly {
    readonly action: string;
    readonly kind: string;
    readonly name: string;
    readonly changes: readonly object[];
  }[];
}

async function apply(text: string, ...options: string[]): Promise<PlanJson> {
  writeFileSync(path, text);
  const { code, stderr, json } = await gateway.cli(['apply', path, '--json', ...options]);
  expect([code, stderr]).toEqual([0, '']);
  return json as PlanJson;
}

const steps = ({ data }: PlanJson): string[] => data.map(({ action, kind, name }) => `${action} ${kind} ${name}`);
const list = async (...args: string[]): Promise<readonly Record<string, unknown>[]> =>
  ((await gateway.cli([...args, '--json'])).json as { data: Record<string, unknown>[] }).data;

test('a dry run shows every step and changes nothing; without --dry-run the same steps run, and the secrets go to a separate file', async () => {
  const planned = await apply(file, '--dry-run');
  expect(planned.applied).toBe(false);
  expect((await list('accounts')).map(({ name }) => name)).toEqual(['default']);
  const made = await apply(file);
  expect(made).toEqual({ ...planned, applied: true });
  expect(steps(made)).toEqual([
    'create account acme',
    'create group engineering',
    'create group search',
    'create limit tokens a day of group search',
    'create key ci',
    'create limit usd a month of key ci',
    'create limit concurrent of key ci',
    'create key old',
    'update key old',
    'create limit usd a day of account acme',
    'create webhook http://127.0.0.1:9/hook',
    'create webhook http://127.0.0.1:9/operator',
  ]);
  const secretsPath = `${path}.secrets`;
  expect(statSync(secretsPath).mode & 0o777).toBe(0o600);
  const secrets = readFileSync(secretsPath, 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as Record<string, string>);
  expect(secrets.map(({ account, key, webhook }) => [account, key ?? webhook])).toEqual([
    ['acme', 'ci'],
    ['acme', 'old'],
    ['acme', 'http://127.0.0.1:9/hook'],
    [null, 'http://127.0.0.1:9/operator'],
  ]);
  expect((await complete(gateway, ask('Hello\n!sim tokens=2'), { key: secrets[0]?.['secret'] ?? '' })).status).toBe(
    200,
  );
  expect((await complete(gateway, ask('Hello\n!sim tokens=2'), { key: secrets[1]?.['secret'] ?? '' })).status).toBe(
    403,
  );
  const [, acme] = await list('accounts');
  expect(acme).toMatchObject({ name: 'acme', low_balance: 5, balance: 15.5 });
  const keys = await list('keys', 'list', '--account', '2');
  expect(keys.map(({ label, tags, metadata, expires_at }) => [label, tags, metadata, expires_at])).toEqual([
    ['ci', { env: 'ci' }, { owner: 'jo' }, null],
    ['old', {}, {}, '2030-01-01T00:00:00.000Z'],
  ]);
});

test('the same file again changes nothing', async () => {
  const before = readFileSync(`${path}.secrets`, 'utf8');
  expect(await apply(file)).toEqual({ data: [], applied: true });
  expect(readFileSync(`${path}.secrets`, 'utf8')).toBe(before);
});

test('a changed file updates only what differs, and deletes only with --prune', async () => {
  const changed = file
    .replace('max: 12.5', 'max: 15')
    .replace('          - { unit: concurrent, max: 3 }\n', '')
    .replace(/ {6}- \{ label: old.*\n/, '')
    .replace('low_balance: 5', 'low_balance: null')
    .replace('env: ci', 'env: prod');
  const kept = await apply(changed);
  expect(steps(kept)).toEqual(['update account acme', 'update key ci', 'update limit usd a month of key ci']);
  expect(kept.data.map(({ changes }) => changes)).toEqual([
    [{ field: 'low_balance', from: 5, to: null }],
    [{ field: 'tags', from: { env: 'ci' }, to: { env: 'prod' } }],
    [{ field: 'max', from: 12.5, to: 15 }],
  ]);
  const pruned = await apply(changed, '--prune');
  expect(steps(pruned)).toEqual(['delete limit concurrent of key ci', 'delete key old']);
  expect((await list('keys', 'list', '--account', '2')).map(({ label }) => label)).toEqual(['ci']);
  // Groups are deleted after their keys. A section that the file lacks is left as it is.
  const emptied = await apply('accounts: [{ name: acme, groups: [], keys: [] }]\n', '--prune');
  expect(steps(emptied)).toEqual(['delete key ci', 'delete group search', 'delete group engineering']);
  expect(await list('groups', 'list', '--account', '2')).toEqual([]);
  expect(await list('webhooks', 'list', '--account', '2')).toHaveLength(1);
});

test.each([
  ['accounts: [{ nam: acme }]', 'accounts.0'],
  ['accounts: [{ name: acme, keys: [{ label: a, balance: -1 }] }]', 'accounts.0.keys.0.balance'],
  ['accounts: [{ name: acme, keys: [{ label: a }, { label: a }] }]', 'key a of account acme is listed twice'],
  ['accounts: [', 'accounts.yaml'],
])('an invalid file changes nothing, and the error says what is wrong: %s', async (text, reason) => {
  writeFileSync(path, text);
  const { code, stderr } = await gateway.cli(['apply', path]);
  expect([code, stderr]).toEqual([2, expect.stringContaining(reason)]);
});

test('a file that the gateway would refuse changes nothing, in a dry run and without', async () => {
  const wrong = `
accounts:
  - name: refused
    opening_balance: 5
    groups:
      - { name: a, balance: 4 }
      - { name: b, parent: nowhere }
    keys:
      - { label: k, group: a, allowed_models: [sim/large, acme/nothing] }
      - { label: rich, balance: 2 }
`;
  writeFileSync(path, wrong);
  for (const options of [['--dry-run'], []]) {
    const { code, stdout, stderr } = await gateway.cli(['apply', path, ...options]);
    expect([code, stderr.split('\n')]).toEqual([
      1,
      [
        'The gateway would refuse this file:',
        'account refused: group b: its parent nowhere does not exist and is not listed before it',
        'account refused: key k: there is no model acme/nothing',
        'account refused: its groups and keys get $6, and it has $5',
        '',
      ],
    ]);
    expect(stdout).toMatch(/\nnothing was changed: 5 created, 0 changed, 0 removed, 0 unchanged\n$/);
  }
  expect((await list('accounts')).map(({ name }) => name)).not.toContain('refused');
});

test('the differences show the action of a limit, and a changed action changes the limit', async () => {
  const text = (action: string): string => `
accounts:
  - name: limited
    limits: [{ unit: usd, window: week, max: 7, action: ${action}, models: [sim/large] }]
`;
  const run = async (action: string, ...options: string[]): Promise<string> => {
    writeFileSync(path, text(action));
    const { code, stdout, stderr } = await gateway.cli(['apply', path, ...options]);
    expect([code, stderr]).toEqual([0, '']);
    return stdout;
  };
  const made = await run('alert');
  expect(made).toContain('    action: alert\n');
  expect(made).toContain('    models: ["sim/large"]\n');
  expect(made).toMatch(/\n2 created, 0 changed, 0 removed, 0 unchanged\n$/);
  expect(await run('refuse')).toMatch(/action: alert → refuse\n0 created, 1 changed, 0 removed, 1 unchanged\n$/);
  expect(await run('refuse')).toBe('0 created, 0 changed, 0 removed, 2 unchanged\n');
  const owner = (await list('accounts')).find(({ name }) => name === 'limited') ?? expect.fail('no account');
  const limits = await list('limits', 'list', '--account', String(owner['account_id']));
  expect(limits.filter(({ unit }) => unit === 'usd')).toMatchObject([{ action: 'refuse', max: 7 }]);
});
