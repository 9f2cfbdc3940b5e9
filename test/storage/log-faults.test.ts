/** Gateways whose log can't be written: that neither ends them nor keeps them from ending. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { gatewayEnvironment, makeHome, root, run, type Home } from '../gateway.ts';

const main = join(root, 'bin/tollgate.js');
let home: Home;
let running: ReturnType<typeof run>;
afterEach(async () => {
  running.child.kill('SIGKILL');
  await running.ended;
  rmSync(home.folder, { recursive: true, force: true });
});

/** Starts a gateway from a shell, in which `$0` and `$1` are its program. Returns its URL once it is ready. */
async function start(command: string): Promise<string> {
  home = makeHome();
  running = run(['sh', '-c', command, process.execPath, main], {
    cwd: home.folder,
    env: gatewayEnvironment(home, { TOLLGATE_BOOTSTRAP_API_KEY: home.apiKey, TOLLGATE_BOOTSTRAP_BALANCE: '10' }),
  });
  const findUrl = (): string => /^\s*public\s+(http:\S+)/m.exec(running.output.stdout)?.[1] ?? '';
  await expect.poll(findUrl, { timeout: 120_000 }).not.toBe('');
  return findUrl();
}

async function ask(url: string): Promise<number> {
  const headers = { authorization: `Bearer ${home.apiKey}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ model: 'sim/small', messages: [{ role: 'user', content: 'x' }] });
  return (await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })).status;
}

/** Stops the gateway and returns its exit code; undefined: it does not end. */
async function stop(): Promise<number | null | undefined> {
  let code: number | null | undefined;
  running.child.once('exit', exited => (code = exited));
  running.child.kill('SIGTERM');
  await expect.poll(() => code, { timeout: 30_000 }).toBeDefined();
  return code;
}

test('on a full disk a gateway answers requests, and ends when it is stopped', async () => {
  const url = await start('exec "$0" "$1" serve 2>/dev/full');
  // Each line is written within 100 ms.
  for (let count = 0; count < 5; count += 1) {
    expect(await ask(url)).toBe(200);
    await wait(150);
  }
  expect(await stop()).toBe(0);
});

test('a gateway whose log is no longer read answers requests, and ends when it is stopped', async () => {
  const url = await start('exec "$0" "$1" serve');
  running.child.stderr?.destroy();
  expect(await ask(url)).toBe(200);
  await wait(300);
  expect(await ask(url)).toBe(200);
  expect(await stop()).toBe(0);
});
