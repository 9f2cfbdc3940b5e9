/** Runs the commands in the documents (blocks of `console`) unchanged against one gateway. `npm ci && npm start` is tested elsewhere. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endGateway, gatewayEnvironment, type Gateway, isOnPostgres, root, run } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { ask, complete } from '../e2e/chat-client.ts';
import { runInside } from '../cli/run-inside.ts';
import { writePrograms } from './programs.ts';

const pages = execFileSync('git', ['ls-files', '*.md'], { cwd: root, encoding: 'utf8' }).trim().split('\n');

/** Returns the commands of a page, in order. A line that ends with a backslash continues on the next line. */
function listCommands(page: string): string[] {
  const blocks = Array.from(
    readFileSync(join(root, page), 'utf8').matchAll(/^```console\n(.*?)^```/gms),
    ([, block = '']) => block,
  );
  return blocks.flatMap(block => Array.from(block.matchAll(/^\$ ((?:.*\\\n)*.*)$/gm), ([, command = '']) => command));
}

const commands = pages
  .flatMap(page => listCommands(page).map(command => [page, command] as const))
  .filter(([, command]) => !command.startsWith('npm ci'))
  // These commands are for a data directory; a database is backed up differently (docs/growth.md "Backup").
  .filter(([, command]) => !isOnPostgres || !/tollgate (?:backup|restore)\b/.test(command));

let gateway: Gateway;
/** The folder in which the commands run, with the parts of a checkout that they need. */
let folder: string;
let environment: Record<string, string>;
beforeAll(async () => {
  gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n' });
  await complete(gateway, ask('Say hello.'));
  // The pages use a second API key.
  await gateway.admin.createApiKey({ accountId: 1n });
  folder = mkdtempSync(join(tmpdir(), 'tollgate-pages-'));
  symlinkSync(gateway.dataDir, join(folder, 'data'));
  for (const name of ['LICENSE', 'examples', 'proto', 'node_modules', 'buf.yaml'])
    symlinkSync(join(root, name), join(folder, name));
  const bin = writePrograms(folder);
  environment = gatewayEnvironment(gateway.home, {
    PATH: `${bin}:${process.env['PATH'] ?? ''}`,
    TOLLGATE_RPC_PORT: new URL(gateway.rpcUrl).port,
    API_KEY: gateway.apiKey,
    KEY: gateway.apiKey,
    MANAGEMENT_KEY: gateway.managementKey,
  });
});
afterAll(() => endGateway(gateway));

test('the pages have commands', () => {
  expect(commands.length).toBeGreaterThan(40);
  expect(new Set(commands.map(([page]) => page)).size).toBeGreaterThan(6);
});

test.each(commands)('%s: %s', { timeout: 60_000 }, async (_, command) => {
  if (command.startsWith('export PATH=')) return;
  const words = command.replace(/^npx /, '').split(' ');
  // Commands with a path, a configuration or shell syntax need a shell; the others run in this process.
  if (words[0] === 'tollgate' && !/[|'"]|\.\/| (?:config|doctor)\b/.test(command)) {
    const { code, stdout, stderr } = await runInside(gateway, words.slice(1));
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).not.toBe('');
    return;
  }
  const here = command
    .replaceAll('http://127.0.0.1:8080', gateway.url)
    .replaceAll('http://127.0.0.1:9090', gateway.rpcUrl)
    .replace('metering/main.ts', `metering/main.ts --gateway ${gateway.rpcUrl}`);
  const { ended } = run(['bash', '-c', here.replace(/^curl /, 'curl --fail-with-body ')], {
    cwd: folder,
    env: environment,
  });
  const { code, stdout, stderr } = await ended;
  // A restore says with what it was compared.
  expect([code, stderr.replace(/^compared with .*\n$/, '')]).toEqual([0, '']);
  // The metering example prints nothing if no work was left unfinished.
  expect(stdout === '' && !/metering\/main.ts$/.test(command)).toBe(false);
});
