/** What the operator sees of the running gateway: its configuration, the differences to a file, its storage, its ledger. */
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { runInside } from '../cli/run-inside.ts';
import { endGateway, isOnPostgres } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const secret = 'sk-canary-7f3a9c';
const config = `retries: 1
providers:
  acme: { protocol: chat, base_url: "http://127.0.0.1:9/v1", api_key: ${secret} }
`;
const environment = { HIDDEN: 'hidden-4be1', HIDDEN_NUMBER: '7' };
const gateway = await startGateway({ config, environment });
afterAll(() => endGateway(gateway));
const file = join(gateway.home.folder, 'gateway.yaml');

test('the running configuration has every default and no secret, and stays the same until it is reloaded', async () => {
  const { json } = await runInside(gateway, ['config', 'running', '--json']);
  expect(json).toMatchObject({
    file,
    needs_restart: [],
    settings: { retries: 1, strict: false, providers: { acme: { api_key: ['***'] } } },
  });
  appendFileSync(file, 'metrics: public\nstrict: true\n');
  expect((await runInside(gateway, ['config', 'running', '--json'])).json).toMatchObject({
    settings: { strict: false },
  });
  await gateway.admin.reloadConfiguration({});
  const { stdout, json: reloaded } = await runInside(gateway, ['config', 'running', '--json']);
  expect(reloaded).toMatchObject({ needs_restart: ['metrics'], settings: { strict: true, metrics: 'public' } });
  expect(stdout).not.toContain('canary');
  writeFileSync(file, config);
  await gateway.admin.reloadConfiguration({});
});

test('a new configuration is compared setting by setting, and nothing changes', async () => {
  const text = `retries: 4
log_level: debug
providers:
  acme: { protocol: chat, base_url: "http://127.0.0.1:9/v1", api_key: sk-another }
  more: { protocol: chat, base_url: "http://127.0.0.1:8/v1", api_key: sk-another }
aliases: { small: sim/small }
`;
  const { changes, changeCount, needsRestart, problems } = await gateway.admin.checkConfiguration({ text });
  const seen = changes.map(({ path, before, after }) => [path, before, after]);
  expect(seen.filter(([path]) => path !== 'providers.more' && path !== 'providers[more]')).toEqual([
    ['log_level', '"info"', '"debug"'],
    ['retries', '1', '4'],
    ['providers.acme.api_key', '["***"]', '["***"]'],
    ['aliases.small', undefined, '"sim/small"'],
  ]);
  expect(changes.find(({ path }) => path === 'providers.more')?.after).toContain('"base_url":"http://127.0.0.1:8/v1"');
  expect([changeCount, needsRestart, problems]).toEqual([5, ['log_level'], []]);
  expect(JSON.stringify(seen)).not.toContain('sk-another');
  const same = await gateway.admin.checkConfiguration({ text: config });
  expect([same.changes, same.needsRestart]).toEqual([[], []]);
  expect(readFileSync(file, 'utf8')).toBe(config);
  expect((await runInside(gateway, ['config', 'running', '--json'])).json).toMatchObject({ settings: { retries: 1 } });
});

test('a wrong configuration is refused with each line, and the command ends with 2', async () => {
  const { problems } = await gateway.admin.checkConfiguration({ text: 'retries: 2\nretrys: 2\nstrict: maybe\n' });
  expect(problems.map(({ line, path }) => [line, path])).toEqual([
    [2, 'retrys'],
    [3, 'strict'],
  ]);
  const wrong = join(gateway.home.folder, 'wrong.yaml');
  writeFileSync(wrong, 'strict: maybe\n');
  const { code, stderr } = await runInside(gateway, ['config', 'diff', wrong]);
  expect([code, stderr]).toEqual([2, expect.stringMatching(/^.*wrong\.yaml:1: strict: is "maybe", must be true or/)]);
});

test.each([
  ['a text', 'public_url: https://example.test\naliases: {}\ntexts: { docs: "https://x.test/${HIDDEN}" }'],
  ['a number', 'retries: ${HIDDEN_NUMBER}'],
  ['the id of a model', 'models: [{ id: "${HIDDEN}", pricing: { input: 1, output: 1 }, available: false }]'],
  ['a model’s name', 'models: [{ id: a/b, name: "${HIDDEN}", pricing: { input: 1, output: 1 }, available: false }]'],
  ['a wrong value', 'aliases: { a: "${HIDDEN}" }'],
  ['a wrong type', 'strict: ${HIDDEN}'],
  [
    'a name of a provider',
    'models: [{ id: a/b, pricing: { input: 1, output: 1 }, routes: [{ provider: "${HIDDEN}", model: m }] }]',
  ],
])('values of environment variables are not returned: %s', async (_name, text) => {
  const checked = await gateway.admin.checkConfiguration({ text });
  const { changes, problems } = checked;
  expect(changes.length + problems.length).toBeGreaterThan(0);
  const shown = JSON.stringify([changes, problems], (_key, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  );
  expect(shown).not.toContain('hidden-4be1');
  expect(changes.map(({ after }) => after)).not.toContain('7');
});

test('the storage is shown with its sizes and retention times', async () => {
  const [engine, part] = isOnPostgres ? ['postgres', 'database'] : ['sqlite', 'ledger'];
  const storage = await gateway.admin.getStorage({});
  expect(storage).toMatchObject({ engine, dataDir: gateway.dataDir, problem: '' });
  expect(storage.freeBytes).toBeGreaterThan(0n);
  expect(storage.totalBytes).toBeGreaterThan(storage.freeBytes);
  expect(storage.parts.find(({ name }) => name === part)?.bytes).toBeGreaterThan(0n);
  const dayMs = 86_400_000n;
  expect(storage.retention).toContainEqual(
    expect.objectContaining({ name: 'webhook_events', lifetimeMs: 30n * dayMs, setting: '' }),
  );
  const { json } = await runInside(gateway, ['storage', '--json']);
  expect(json).toMatchObject({
    engine,
    parts: expect.arrayContaining([{ name: part, bytes: expect.any(Number) }]),
  });
  expect((await runInside(gateway, ['storage'])).stdout).toContain('retention.activity');
});

test('the sizes of the storage include the column files', async () => {
  const { parts: before } = await gateway.admin.getStorage({});
  expect(before.map(({ name }) => name)).not.toContain('columns');
  const columns = join(gateway.dataDir, 'columns', '7');
  mkdirSync(columns, { recursive: true });
  writeFileSync(join(columns, '1-2-a.columns'), Buffer.alloc(3000));
  writeFileSync(join(columns, '2-3-b.columns'), Buffer.alloc(400));
  const { parts } = await gateway.admin.getStorage({});
  expect(parts.find(({ name }) => name === 'columns')?.bytes).toBe(3400n);
  expect((await runInside(gateway, ['storage'])).stdout).toMatch(/columns +3400/);
});

test('the running gateway checks its own ledger', async () => {
  const [one, other] = await Promise.all([gateway.admin.verifyLedger({}), gateway.admin.verifyLedger({})]);
  expect(one.violations).toEqual([]);
  expect(one.startedAtMs).toBe(other.startedAtMs);
  expect((await runInside(gateway, ['ledger', 'verify', '--running', '--json'])).json).toEqual({
    valid: true,
    violations: [],
  });
});

test('the plans are listed with what they cost, as the gateway sells them', async () => {
  const { json } = await runInside(gateway, ['subscriptions', 'plans', '--json']);
  const { data } = json as { data: Record<string, unknown>[] };
  expect(data.map(({ plan, period, price, tokens }) => [plan, period, price, tokens])).toEqual([
    ['core', 'biweekly', 6.99, 15_000_000],
    ['core', 'monthly', 15.99, 35_000_000],
    ['core_pro', 'biweekly', 12.99, 28_000_000],
    ['core_pro', 'monthly', 34.99, 80_000_000],
  ]);
  expect(data[0]).toMatchObject({ free_daily_requests: 50, discount_permille: 0, models: null });
});
