/** Secrets in files: a changed provider's key takes effect without a restart, and the first keys can be written to a file instead of printed. */
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import {
  endGateway,
  makeHome,
  run,
  gatewayEnvironment,
  root,
  startGateway,
  expectVerified,
  type Gateway,
  prepareDatabase,
} from '../gateway.ts';
import { RawUpstream, whole } from '../upstreams/raw-upstream.ts';

const answer = JSON.stringify({
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

const model = (id: string, provider: string): string =>
  `  - { id: acme/${id}, pricing: { input: 1, output: 1 }, endpoints: [/v1/chat/completions], routes: [{ provider: ${provider}, model: m }] }`;

async function say({ url, apiKey }: Gateway, id: string): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: id, messages: [{ role: 'user', content: 'hi' }] }),
  });
  await response.arrayBuffer();
  return response.status;
}

test('a changed key file takes effect within 5 seconds, without a restart or signal; a deleted file changes nothing', async () => {
  const seen: string[] = [];
  const upstream = await RawUpstream.start((socket, { headers }) => {
    seen.push(headers['authorization']?.slice('Bearer '.length) ?? '');
    socket.write(whole(200, answer));
  });
  const home = makeHome();
  await prepareDatabase(home);
  const keyFile = join(home.folder, 'one.key');
  const twin = join(home.folder, 'two.key');
  writeFileSync(keyFile, 'canary-old-one\n');
  writeFileSync(twin, 'canary-old-two');
  const gateway = await startGateway({
    home,
    environment: { UP_KEY_FILE: twin },
    config: `
providers:
  one: { protocol: chat, base_url: "${upstream.baseUrl}", api_key_file: one.key }
  two: { protocol: chat, base_url: "${upstream.baseUrl}", api_key: "\${UP_KEY}" }
models:
${model('one', 'one')}
${model('two', 'two')}
`,
  });
  const keys = async (): Promise<string[]> => {
    seen.length = 0;
    expect([await say(gateway, 'acme/one'), await say(gateway, 'acme/two')]).toEqual([200, 200]);
    return [...seen];
  };
  expect(await keys()).toEqual(['canary-old-one', 'canary-old-two']);
  writeFileSync(keyFile, 'canary-new-one\n');
  writeFileSync(twin, 'canary-new-two\n');
  await expect.poll(keys, { timeout: 5_000 }).toEqual(['canary-new-one', 'canary-new-two']);
  writeFileSync(keyFile, '');
  await sleep(3_000);
  expect(await keys()).toEqual(['canary-new-one', 'canary-new-two']);
  expect(gateway.printed()).not.toContain('canary');
  await endGateway(gateway);
  await upstream.stop();
});

test('the first keys can be written to a file that only its owner can read, and the printed curl command works', async () => {
  const home = makeHome();
  await prepareDatabase(home);
  mkdirSync(home.folder, { recursive: true });
  const file = join(home.folder, 'first keys');
  const { child, output, ended } = run([process.execPath, join(root, 'bin/tollgate.js'), 'serve'], {
    cwd: home.folder,
    env: gatewayEnvironment(home, { TOLLGATE_BOOTSTRAP_FILE: file }),
  });
  for (const until = performance.now() + 90_000; !output.stdout.includes('-d ') && performance.now() < until;)
    await sleep(20);
  const text = readFileSync(file, 'utf8');
  expect(text).toMatch(/^TOLLGATE_API_KEY=sk-tg-[0-9A-Za-z]{43}\nTOLLGATE_MANAGEMENT_KEY=mk-tg-[0-9A-Za-z]{43}\n$/);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(output.stdout).toContain(`Keys of account 1 are in ${file}.`);
  // The sign-in link is not printed either, because the output goes to a journal.
  expect(output.stdout + output.stderr).not.toMatch(/[sml]k-tg-/);
  expect(output.stdout).toContain('to sign in: npx tollgate dashboard');
  const command = output.stdout.slice(output.stdout.indexOf('curl '));
  const tried = run(['sh', '-c', `${command.trim()} -s`], {
    cwd: home.folder,
    env: { PATH: process.env['PATH'] ?? '' },
  });
  expect(JSON.parse((await tried.ended).stdout)).toMatchObject({ object: 'chat.completion' });
  child.kill('SIGTERM');
  expect((await ended).code).toBe(0);
  await expectVerified(home);
});

test('if the file for the first keys can’t be written, the start fails as for a wrong configuration, and the next start still counts as the first', async () => {
  const home = makeHome();
  await prepareDatabase(home);
  const start = (file: string) =>
    run([process.execPath, join(root, 'bin/tollgate.js'), 'serve'], {
      cwd: home.folder,
      env: gatewayEnvironment(home, { TOLLGATE_BOOTSTRAP_FILE: file }),
    });
  const { code, stderr } = await start('/proc/nowhere/keys').ended;
  expect([code, stderr]).toEqual([
    2,
    expect.stringContaining('TOLLGATE_BOOTSTRAP_FILE: names a file that can’t be written'.replace('’', "'")),
  ]);
  const again = start(join(home.folder, 'keys'));
  for (const until = performance.now() + 90_000; !again.output.stdout.includes('-d ') && performance.now() < until;)
    await sleep(20);
  expect(readFileSync(join(home.folder, 'keys'), 'utf8')).toContain('TOLLGATE_API_KEY=');
  again.child.kill('SIGTERM');
  expect((await again.ended).code).toBe(0);
  await expectVerified(home);
});
