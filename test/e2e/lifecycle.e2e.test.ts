/** First start, restart, stop and wrong configuration, as an operator sees them (docs/architecture.md "Starting and stopping"). */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import {
  isOnPostgres,
  type Ended,
  endGateway,
  gatewayEnvironment,
  expectStreams,
  expectVerified,
  type Gateway,
  heldBy,
  type Home,
  makeHome,
  readRecord,
  root,
  run,
  runCommand,
  startGateway,
  prepareDatabase,
} from '../gateway.ts';
import { runCommand as runInside, startGateway as startShared } from '../hosted-gateway.ts';
import { ask, complete, stream } from './chat-client.ts';

const homes: Home[] = [];
function newHome(): Home {
  const home = makeHome();
  homes.push(home);
  return home;
}
afterAll(() => {
  for (const { folder } of homes) rmSync(folder, { recursive: true, force: true });
});

const steer = (line: string): Record<string, unknown> => ask(`Tolls\n!sim ${line}`);

/** Starts the gateway without keys in the environment, so that it makes and prints its own. */
async function startOnItsOwn(home: Home, command: readonly [string, ...string[]], cwd: string) {
  await prepareDatabase(home);
  const running = run(command, { cwd, env: gatewayEnvironment(home) });
  await expect.poll(() => running.output.stdout, { timeout: 100_000 }).toMatch(/^\s*internal\s+http/m);
  const url = /^\s*public\s+(http:\S+)/m.exec(running.output.stdout)?.[1] ?? '';
  await expect
    .poll(async () => (await fetch(`${url}/readyz`).catch(() => undefined))?.status, { timeout: 60_000 })
    .toBe(200);
  return { ...running, url };
}

const serve = [process.execPath, join(root, 'bin/tollgate.js'), 'serve'] as const;
const keysIn = (text: string): string[] => text.match(/\b[sm]k-tg-[0-9A-Za-z]{43}\b/g) ?? [];

describe('the first steps', () => {
  const home = newHome();

  test('the first start prints two keys and a curl command that works when pasted', async () => {
    const { output, child, ended, url } = await startOnItsOwn(home, serve, home.folder);
    const [apiKey, managementKey, ...more] = [...new Set(keysIn(output.stdout))];
    expect(apiKey).toMatch(/^sk-tg-/);
    expect(managementKey).toMatch(/^mk-tg-/);
    expect(more).toEqual([]);
    const lines = output.stdout.split('\n');
    const first = lines.findIndex(line => line.startsWith('curl'));
    expect(first).toBeGreaterThan(-1);
    const last = lines.findIndex((line, index) => index >= first && !line.endsWith('\\'));
    const pasted = spawnSync('sh', ['-c', lines.slice(first, last + 1).join('\n')], { encoding: 'utf8' });
    expect(pasted.status, `${pasted.stderr}`).toBe(0);
    const answer = pasted.stdout;
    expect(answer).toContain(answer.includes('data: ') ? '[DONE]' : '"choices"');
    const models = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${managementKey}` } });
    expect(models.status).toBe(200);
    // Ctrl-C.
    child.kill('SIGINT');
    expect((await ended).code).toBe(0);
    writeFileSync(join(home.folder, 'key'), apiKey ?? '');
  });

  test('the keys are not in the data directory', () => {
    const key = readFileSync(join(home.folder, 'key'), 'utf8');
    for (const name of readdirSync(home.dataDir, { recursive: true, encoding: 'utf8' })) {
      if (statSync(join(home.dataDir, name)).isDirectory()) continue;
      expect(readFileSync(join(home.dataDir, name)).includes(key), `${name}`).toBe(false);
    }
  });

  test('after npm start again, the same keys work and none is printed; SIGTERM to npm ends both with 0', async () => {
    const { output, child, ended, url } = await startOnItsOwn(home, ['npm', 'start', '--silent'], root);
    expect(keysIn(output.stdout + output.stderr)).toEqual([]);
    const key = readFileSync(join(home.folder, 'key'), 'utf8');
    const gateway = { url, apiKey: key } as Gateway;
    expect((await complete(gateway, steer('tokens=3'))).status).toBe(200);
    child.kill('SIGTERM');
    expect((await ended).code).toBe(0);
    await expect(fetch(`${url}/healthz`)).rejects.toThrow();
  });

  test('ledger verify needs no running gateway', async () => {
    const { code, stdout, stderr } = await runCommand(home, ['ledger', 'verify']);
    expect(code, `${stdout}${stderr}`).toBe(0);
  });
});

describe('probes', () => {
  test('both listeners answer /healthz and /readyz without a key; the public /readyz is 503 while the gateway drains', async () => {
    const gateway = await startGateway({ config: 'shutdown_grace: 10s\n' });
    const probe = async (origin: string, path: string): Promise<number> => (await fetch(`${origin}${path}`)).status;
    for (const origin of [gateway.url, gateway.rpcUrl]) {
      expect([await probe(origin, '/healthz'), await probe(origin, '/readyz')]).toEqual([200, 200]);
    }
    expect((await fetch(`${gateway.rpcUrl}/metrics`)).status).toBe(200);
    expect((await fetch(`${gateway.url}/metrics`)).status).toBe(404);
    // A running stream keeps the gateway from ending at once.
    const open = stream(gateway, steer('tokens=300 tps=100'));
    await expectStreams(gateway, 1);
    const ended = gateway.stop();
    await expect.poll(() => probe(gateway.url, '/readyz')).toBe(503);
    const refused = await complete(gateway, steer('tokens=3'));
    expect([refused.status, refused.body.error.code]).toEqual([503, 'overloaded']);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    const { done, usage } = await open;
    expect({ done, tokens: usage?.completion_tokens }).toEqual({ done: true, tokens: 300 });
    expect((await ended).code).toBe(0);
    await expectVerified(gateway.home);
    rmSync(gateway.home.folder, { recursive: true, force: true });
  });
});

describe('streams that run when the gateway is stopped', () => {
  test('are cut after the grace period with an `overloaded` event and charged as delivered, and the process exits with 0', async () => {
    const gateway = await startGateway({ config: 'shutdown_grace: 1s\n' });
    const begun = new Set<number>();
    const streams = Array.from({ length: 5 }, (_, index) =>
      stream(gateway, steer('tokens=9000 tps=100'), {
        until: chunks => {
          if (chunks.some(({ choices }) => choices.some(({ delta }) => (delta.content ?? '') !== ''))) begun.add(index);
          return false;
        },
      }),
    );
    const whole = complete(gateway, steer('tokens=9000 tps=100'));
    await expect.poll(() => begun.size).toBe(5);
    const began = performance.now();
    const { code, stderr } = await gateway.stop();
    expect(code, `${stderr}`).toBe(0);
    expect(performance.now() - began).toBeGreaterThan(900);
    expect(performance.now() - began).toBeLessThan(5_000);
    const cut = await Promise.all(streams);
    for (const { status, error, text, done } of cut) {
      expect({ status, code: error?.code, done }).toEqual({ status: 200, code: 'overloaded', done: false });
      expect(text).not.toBe('');
    }
    expect([(await whole).status, (await whole).body.error?.code]).toEqual([503, 'overloaded']);
    const again = await startShared({ home: gateway.home });
    for (const { headers } of cut) {
      const record = await readRecord(again, headers.get('x-request-id') ?? '');
      expect(record.state).toBe(RecordState.INCOMPLETE);
      expect(record.costNanoUsd).toBeGreaterThan(0n);
      expect(record.usage?.outputTokens).toBeLessThan(400);
    }
    expect(await heldBy(again)).toBe(0n);
    expect((await again.admin.listVoidedHolds({})).holds).toEqual([]);
    await endGateway(again);
  });

  test('are whole if they end within the grace period, even if they were not admitted yet', async () => {
    const gateway = await startGateway();
    // So long that its tokens are counted in many turns of the event loop, before the request is admitted.
    const long = stream(gateway, { ...ask(`${'a word '.repeat(30_000)}\n!sim tokens=300 tps=100`), model: 'sim/long' });
    await expectStreams(gateway, 1);
    expect((await gateway.stop()).code).toBe(0);
    expect((await long).done).toBe(true);
    await expectVerified(gateway.home);
    rmSync(gateway.home.folder, { recursive: true, force: true });
  });

  test('are whole if they end within the grace period', async () => {
    const gateway = await startGateway();
    const short = stream(gateway, steer('tokens=150 tps=100'));
    await expectStreams(gateway, 1);
    expect((await gateway.stop('SIGINT')).code).toBe(0);
    expect((await short).done).toBe(true);
    await expectVerified(gateway.home);
    rmSync(gateway.home.folder, { recursive: true, force: true });
  });
});

describe('a gateway that can’t start says why and exits 2', () => {
  // In the process that test files share, where nothing but the exit of the process differs; the two tests after these see that.
  const start = (home: Home, args: readonly string[], environment: Record<string, string> = {}): Promise<Ended> =>
    runInside(home, ['serve', ...args], environment);
  const withFile = (text: string): { home: Home; file: string } => {
    const home = newHome();
    const file = join(home.folder, 'bad.yaml');
    writeFileSync(file, text);
    return { home, file };
  };

  test.each([
    ['an unknown member', 'shutdown_grace: 30s\nshutdown_grase: 1s\n', /bad\.yaml:2.*shutdown_grase/s],
    ['a wrong type', 'retries: many\n', /bad\.yaml:1.*retries/s],
    ['a wrong duration', 'timeouts:\n  idle: soon\n', /bad\.yaml:2.*timeouts\.idle/s],
    [
      'a PAYG model without a price',
      'models:\n  - id: acme/a\n    endpoints: [/v1/chat/completions]\n',
      /bad\.yaml:2.*(models\.0|models\[0\]).*pric/s,
    ],
    [
      'a price on a :free id',
      'models:\n  - { id: "acme/a:free", endpoints: [/v1/chat/completions], pricing: { input: 1, output: 1 } }\n',
      /bad\.yaml:2.*free/s,
    ],
    ['an unset variable', 'public_url: "${NOBODY_SET_THIS}"\n', /bad\.yaml:1.*NOBODY_SET_THIS/s],
    ['invalid YAML', 'a: [1\n', /bad\.yaml:\d/],
  ])('%s, with file, line and path; config check too', async (_, text, shown) => {
    const { home, file } = withFile(text);
    const ends = await Promise.all([start(home, ['--config', file]), runInside(home, ['config', 'check', file])]);
    for (const { code, stdout, stderr } of ends) {
      expect(code, `${stderr}`).toBe(2);
      expect(stdout + stderr).toMatch(shown);
    }
  });

  test('a configuration file that does not exist', async () => {
    const home = newHome();
    const [byFlag, byVariable] = await Promise.all([
      runCommand(home, ['serve', '--config', join(home.folder, 'none.yaml')]),
      runCommand(home, ['serve'], { TOLLGATE_CONFIG: join(home.folder, 'none.yaml') }),
    ]);
    expect([byFlag.code, byVariable.code]).toEqual([2, 2]);
    expect(byFlag.stderr).toContain('none.yaml');
  });

  test.each([
    [{ TOLLGATE_BOOTSTRAP_API_KEY: 'sk-tg-short' }, /TOLLGATE_BOOTSTRAP_API_KEY/],
    [{ TOLLGATE_BOOTSTRAP_API_KEY: `mk-tg-${'a'.repeat(43)}` }, /TOLLGATE_BOOTSTRAP_API_KEY/],
    [{ TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: `sk-tg-${'a'.repeat(43)}` }, /TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY/],
    [{ TOLLGATE_BOOTSTRAP_BALANCE: 'plenty' }, /TOLLGATE_BOOTSTRAP_BALANCE/],
    [{ TOLLGATE_PORT: '70000' }, /TOLLGATE_PORT/],
  ])('%j', async (environment, shown) => {
    const { code, stderr } = await start(newHome(), [], environment);
    expect(code, `${stderr}`).toBe(2);
    expect(stderr).toMatch(shown);
    // A refused key is not printed.
    for (const value of Object.values(environment)) if (value.length > 20) expect(stderr).not.toContain(value);
  });
});

test('the example configuration starts', async () => {
  const config = readFileSync(join(root, 'tollgate.example.yaml'), 'utf8');
  const gateway = await startShared({ config });
  expect((await complete(gateway, steer('tokens=3'))).status).toBe(200);
  await endGateway(gateway);
});

test.each(['SIGTERM', 'SIGINT'] as const)('%s as soon as the banner can be read ends with 0', async signal => {
  const home = newHome();
  await prepareDatabase(home);
  const { child, ended } = run(serve, { cwd: root, env: gatewayEnvironment(home) });
  child.stdout?.once('data', () => child.kill(signal));
  expect((await ended).code).toBe(0);
});

test('SIGTERM while the gateway starts ends it with 0, and the new keys are still printed', async () => {
  const home = newHome();
  await prepareDatabase(home);
  const { child, ended } = run(serve, { cwd: home.folder, env: gatewayEnvironment(home) });
  // The data directory is the first thing that a start creates.
  await expect.poll(() => existsSync(home.dataDir), { interval: 1, timeout: 50_000 }).toBe(true);
  child.kill('SIGTERM');
  const { code, stdout } = await ended;
  expect(code).toBe(0);
  expect(new Set(keysIn(stdout)).size).toBe(2);
});

// On PostgreSQL, several gateways can share a database.
test.skipIf(isOnPostgres)(
  'a second gateway on the same data directory is refused, and the first one continues',
  async () => {
    const gateway = await startGateway();
    const second = await runCommand(gateway.home, ['serve']);
    expect(second.code).not.toBe(0);
    expect(second.stderr).toMatch(/data|in use|running|lock/i);
    expect((await complete(gateway, steer('tokens=3'))).status).toBe(200);
    const verified = await gateway.cli(['ledger', 'verify', '--json']);
    expect(verified.code, `${verified.stderr}`).toBe(0);
    expect(verified.json).toBeDefined();
    await endGateway(gateway);
  },
);

test('a taken port is reported and the process ends; the next start still counts as the first and prints the new keys', async () => {
  const gateway = await startGateway();
  const home = newHome();
  await prepareDatabase(home);
  mkdirSync(home.dataDir, { recursive: true });
  const other = await runCommand(home, ['serve'], { TOLLGATE_PORT: new URL(gateway.url).port });
  expect(other.code).not.toBe(0);
  expect(other.stderr).toMatch(/EADDRINUSE|in use/i);
  expect(keysIn(other.stdout)).toEqual([]);
  await endGateway(gateway);
  const { output, child, ended } = await startOnItsOwn(home, serve, home.folder);
  expect(new Set(keysIn(output.stdout)).size).toBe(2);
  child.kill('SIGTERM');
  expect((await ended).code).toBe(0);
});

test.each([
  [
    'a data directory that is a file',
    { TOLLGATE_DATA_DIR: import.meta.filename },
    /^The data directory .* can’t be used/,
  ],
  [
    'a data directory that can’t be made',
    { TOLLGATE_DATA_DIR: '/dev/null/data' },
    /^The data directory .* can’t be used/,
  ],
  ['a host that nobody knows', { TOLLGATE_HOST: 'no.such.host.invalid' }, /^getaddrinfo .* TOLLGATE_HOST/],
])('%s is reported in one line', async (_, environment, shown) => {
  const { code, stderr } = await runCommand(newHome(), ['serve'], environment);
  expect(code).toBe(1);
  expect(stderr).toMatch(shown);
  expect(stderr.trimEnd().split('\n')).toHaveLength(1);
});

test('only the operator can read the files of the data directory, even if others can enter it', async () => {
  const home = makeHome();
  mkdirSync(home.dataDir, { recursive: true });
  chmodSync(home.dataDir, 0o755);
  const gateway = await startGateway({ home });
  const found = readdirSync(home.dataDir, { recursive: true, encoding: 'utf8' }).map(name =>
    statSync(join(home.dataDir, name)),
  );
  expect(found.length).toBeGreaterThan(2);
  for (const entry of found) expect(entry.mode & 0o777).toBe(entry.isDirectory() ? 0o700 : 0o600);
  await endGateway(gateway);
  rmSync(home.folder, { recursive: true, force: true });
});
