import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-log-'));
afterAll(() => rmSync(folder, { recursive: true }));
const file = join(folder, 'log');

/** Runs a script that has a logger `log`. `command`: a command of the shell, in which `$0` and the arguments are that program. */
function run(command: string, script: string): ReturnType<typeof spawnSync> {
  const program = `
    import { createLogger } from ${JSON.stringify(join(import.meta.dirname, 'logger.ts'))};
    import { truncateSync } from 'node:fs';
    const log = createLogger({ level: 'info' });
    const wait = ms => new Promise(resolve => setTimeout(resolve, ms));
    ${script}`;
  const args = ['-c', command, process.execPath, '--input-type=module', '-e', program];
  return spawnSync('sh', args, { timeout: 60_000, killSignal: 'SIGKILL' });
}

test.each([
  ['to a full disk', 'exec "$0" "$@" 2>/dev/full'],
  // The shell waits for both commands.
  ['to a pipe without a reader', '"$0" "$@" 2>&1 | true'],
])('a process ends although its last line can’t be written %s', (_, command) => {
  const ended = run(command, "log.info('last'); process.exit(0);");
  expect([ended.status, ended.error]).toEqual([0, undefined]);
});

test('lines that can’t be written are lost, but not the process nor later lines, and their number is logged', () => {
  // No file may have more than a block; what is over it is an error, as on a full disk.
  const limited = `trap '' XFSZ; ulimit -f 1; exec "$0" "$@" 2>>${file}`;
  const ended = run(
    limited,
    `log.info('x'.repeat(5000)); log.info('and this'); await wait(400);
     truncateSync(${JSON.stringify(file)}); log.info('works again'); await wait(400);`,
  );
  expect([ended.status, ended.error]).toEqual([0, undefined]);
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  expect(lines.map(line => JSON.parse(line) as object)).toEqual([
    expect.objectContaining({ msg: 'works again' }),
    expect.objectContaining({ level: 'warn', lines: 2 }),
  ]);
});
