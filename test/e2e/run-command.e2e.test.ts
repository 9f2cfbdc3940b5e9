/** `tollgate run`: runs a command with a temporary key that has its own balance and expiry. */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { clockAhead } from '../fake-clock.ts';
import {
  readBalance,
  type Ended,
  endGateway,
  gatewayEnvironment,
  type Gateway,
  run,
  startGateway,
} from '../gateway.ts';

const main = resolve(import.meta.dirname, '../../bin/tollgate.js');
/** The clock of the gateway and of the commands. */
const clock = clockAhead(0);
let gateway: Gateway;
/** The path of a program with three arguments: a prompt that it sends, how many times, and its exit code. */
let agent = '';

beforeAll(async () => {
  gateway = await startGateway({
    config: 'simulator: { tokens_per_second: 0 }\n',
    environment: clock.environment,
  });
  agent = join(gateway.home.folder, 'agent.mjs');
  writeFileSync(
    agent,
    `
const { OPENAI_BASE_URL: base, OPENAI_API_KEY: key, ANTHROPIC_BASE_URL, ANTHROPIC_AUTH_TOKEN, ANTHROPIC_MODEL: model, ANTHROPIC_API_KEY } = process.env;
const [content, times, code] = process.argv.slice(2);
console.log(JSON.stringify({ base, key, ANTHROPIC_BASE_URL, same: key === ANTHROPIC_AUTH_TOKEN, model, ANTHROPIC_API_KEY }));
for (let n = 0; n < Number(times); n += 1) {
  const response = await fetch(base + '/chat/completions', {
    method: 'POST',
    headers: { authorization: 'Bearer ' + key, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content }] }),
  });
  const body = await response.json();
  console.log(response.status + ' ' + (body.error?.code ?? 'answered'));
  if (!response.ok) break;
}
if (code === 'wait') {
  process.on('SIGTERM', () => process.exit(5));
  console.log('waiting ' + process.pid);
  setTimeout(() => undefined, 60_000);
} else process.exitCode = Number(code);
`,
  );
});
afterAll(async () => {
  await endGateway(gateway);
  clock.remove();
});

const environment = (): Record<string, string> =>
  gatewayEnvironment(gateway.home, {
    TOLLGATE_RPC_PORT: new URL(gateway.rpcUrl).port,
    ANTHROPIC_API_KEY: 'another',
    ...clock.environment,
  });

function start(...args: string[]) {
  const command = [process.execPath, main, 'run', ...args] as const;
  return run([...command], { cwd: gateway.home.folder, env: environment() });
}
const finished = (...args: string[]): Promise<Ended> => start(...args).ended;
const keys = async () => (await gateway.admin.listApiKeys({ accountId: 1n })).keys.filter(({ label }) => label !== '');

test('the command finds the gateway in its environment; its exit code is passed on, its cost is printed, and the rest of the budget moves back', async () => {
  const before = await readBalance(gateway);
  const command = [process.execPath, agent, 'Tolls\n!sim tokens=100', '3', '7'];
  const { code, stdout, stderr } = await finished('--budget', '0.5', '--model', 'sim/large', '--', ...command);
  expect(code).toBe(7);
  const [first = '', ...answers] = stdout.trim().split('\n');
  expect(JSON.parse(first)).toEqual({
    base: `${gateway.url}/v1`,
    key: expect.stringMatching(/^sk-tg-\w{43}$/) as unknown,
    ANTHROPIC_BASE_URL: gateway.url,
    same: true,
    model: 'sim/large',
  });
  expect(answers).toEqual(['200 answered', '200 answered', '200 answered']);
  const spent = before - (await readBalance(gateway));
  expect(spent).toBeGreaterThan(0n);
  const [, said, back] =
    /\$(\S+) spent, \$(\S+) of \$0\.5 returned to the account; the key is revoked/.exec(stderr) ?? [];
  expect(Number(said)).toBeCloseTo(Number(spent) / 1e9, 9);
  expect(Number(said) + Number(back)).toBeCloseTo(0.5, 9);
  expect(stderr).toMatch(/^sim\/large +3 +\d+ +300 +\$0\.\d+$/m);
  expect(await keys()).toEqual([]);
  const { key } = JSON.parse(first) as { key: string };
  const headers = { authorization: `Bearer ${key}` };
  expect((await fetch(`${gateway.url}/v1/models`, { headers })).status).toBe(401);
});

test('the key is labelled with the program alone, because the arguments can have secrets', async () => {
  await finished('--', '/bin/sh', '-c', 'true # PASSWORD=x');
  const { stdout } = await run([process.execPath, main, 'audit', '--json'], {
    cwd: gateway.home.folder,
    env: environment(),
  }).ended;
  expect(stdout).toContain('"run: sh"');
  expect(stdout).not.toContain('PASSWORD');
});

test('Gemini CLI gets the gateway in Vertex mode, other programs as the address of Gemini’s interface', async () => {
  const script =
    '#!/bin/sh\necho "$GOOGLE_GEMINI_BASE_URL $GEMINI_MODEL [$GOOGLE_GENAI_USE_VERTEXAI] $GOOGLE_VERTEX_BASE_URL"\n' +
    'test "$GOOGLE_API_KEY" = "$GEMINI_API_KEY" && echo same\n';
  for (const name of ['gemini', 'another']) {
    const path = join(gateway.home.folder, name);
    writeFileSync(path, script, { mode: 0o755 });
    const { stdout } = await finished('--model', 'sim/large', '--', path);
    const { url } = gateway;
    const vertex = name === 'gemini' ? `[true] ${url}\nsame` : '[] ';
    expect(stdout.trim()).toBe(`${url} sim/large ${vertex}`.trim());
  }
});

test('the command does not use the gateway’s Node.js, which npx puts first in PATH', async () => {
  const own = join(dirname(dirname(main)), 'node_modules/.bin');
  const env = { ...environment(), PATH: `${own}:/usr/local/bin:/usr/bin:/bin` };
  const command = [process.execPath, main, 'run', '--', '/bin/sh', '-c', 'echo "$PATH"'] as const;
  const { stdout } = await run([...command], { cwd: gateway.home.folder, env }).ended;
  expect(stdout.trim()).toBe('/usr/local/bin:/usr/bin:/bin');
});

test('once the budget is used up, the command’s requests are refused, and no more is spent', async () => {
  const before = await readBalance(gateway);
  const command = [process.execPath, agent, 'Tolls\n!sim tokens=300', '50', '0'];
  const { stdout, stderr } = await finished('--budget', '0.002', '--model', 'sim/large', '--', ...command);
  expect(stdout.trim().split('\n').at(-1)).toBe('429 insufficient_balance');
  expect(before - (await readBalance(gateway))).toBeLessThanOrEqual(2_000_000n);
  expect(stderr).toContain('of $0.002 returned to the account');
});

test('without a model in the options, the first model that can call tools is used', async () => {
  const { code, stdout } = await finished('--', process.execPath, agent, '', '0', '0');
  const { model } = JSON.parse(stdout) as { model: string };
  const headers = { authorization: `Bearer ${gateway.apiKey}` };
  const found = await fetch(`${gateway.url}/v1/models/${model}`, { headers });
  expect([code, await found.json()]).toMatchObject([0, { available: true, capabilities: { function_call: true } }]);
});

test('a signal is passed on to the command, and its cost is still printed', async () => {
  const running = start('--budget', '0.5', '--', process.execPath, agent, 'hi', '1', 'wait');
  await expect.poll(() => running.output.stdout, { timeout: 20_000 }).toContain('waiting');
  expect(await keys()).toMatchObject([
    { label: expect.stringMatching(/^run: /) as unknown, balanceNanoUsd: expect.any(BigInt) as unknown },
  ]);
  running.child.kill('SIGTERM');
  const { code, stderr } = await running.ended;
  expect(code).toBe(5);
  expect(stderr).toContain('the key is revoked');
  expect(await keys()).toEqual([]);
});

test('if `tollgate run` is killed, its key expires and the rest of the budget moves back', async () => {
  const before = await readBalance(gateway);
  const running = start('--budget', '1', '--for', '10m', '--', process.execPath, agent, 'hi', '1', 'wait');
  await expect.poll(() => running.output.stdout, { timeout: 20_000 }).toContain('waiting');
  const { key } = JSON.parse(running.output.stdout.split('\n')[0] ?? '') as { key: string };
  const pid = Number(/waiting (\d+)/.exec(running.output.stdout)?.[1]);
  running.child.kill('SIGKILL');
  await once(running.child, 'exit');
  const ask = () => fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
  expect((await ask()).status).toBe(200);
  expect(before - (await readBalance(gateway))).toBe(1_000_000_000n);
  clock.set(new Date(Date.now() + 11 * 60_000).toISOString());
  const refused = await ask();
  expect([refused.status, ((await refused.json()) as { error: { message: string } }).error.message]).toEqual([
    401,
    expect.stringContaining('expired') as unknown,
  ]);
  expect(before - (await readBalance(gateway))).toBeLessThan(10_000_000n);
  // The command outlived `tollgate run`.
  process.kill(pid);
  await running.ended;
});

test.each([
  [['--budget', '0.1', '--', 'there-is-no-such-program'], 1, 'there-is-no-such-program can’t be started'],
  [['--model', 'acme/none', '--', 'true'], 1, 'There is no such model.'],
  [['--budget', '1000000', '--', 'true'], 1, 'balance'],
  [['--for', 'soon', '--', 'true'], 2, 'It must be a time span'],
  [[], 2, 'command'],
] as const)('%j is refused before or without a key that stays', async (args, code, message) => {
  const before = await readBalance(gateway);
  const ended = await finished(...args);
  expect([ended.code, ended.stderr]).toEqual([code, expect.stringContaining(message)]);
  expect(await keys()).toHaveLength(1);
  expect(await readBalance(gateway)).toBe(before);
});
