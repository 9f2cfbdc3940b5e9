import { spawnSync } from 'node:child_process';
import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { createLogger, describeError } from './logger.ts';

test('errors that can repeat what others sent are described without their message', () => {
  for (const name of ['GatewayError', 'UpstreamFailure', 'ConnectError', 'SyntaxError']) {
    const described = JSON.stringify(
      describeError(Object.assign(new Error('a secret'), { name, code: 'x', kind: 'y' })),
    );
    expect(described).not.toContain('a secret');
    expect(JSON.parse(described)).toMatchObject({ name, code: 'x', kind: 'y' });
  }
});

test('an upstream’s status is reported: without it an operator can’t tell a wrong key from a wrong model', () => {
  const refused = Object.assign(new Error('a secret'), {
    name: 'UpstreamFailure',
    kind: 'status',
    facts: { status: 401 },
  });
  expect(describeError(refused)).toMatchObject({ name: 'UpstreamFailure', kind: 'status', status: 401 });
});

test('a routine failure and its causes have no stack; a defect has one', () => {
  const reset = new Error('reset', { cause: new TypeError('deep') });
  const failed = Object.assign(new Error('foreign', { cause: reset }), { name: 'UpstreamFailure', kind: 'connect' });
  expect(describeError(failed)).toEqual({
    name: 'UpstreamFailure',
    kind: 'connect',
    cause: { name: 'Error', message: 'reset', cause: { name: 'TypeError', message: 'deep' } },
  });
  expect(describeError(reset)).toHaveProperty(['at', 0], expect.stringContaining('logger.test.ts'));
});

test('causes are described only to a limited depth', () => {
  const error = new Error('outer', { cause: new Error('inner') });
  expect(describeError(error)).toMatchObject({ message: 'outer', cause: { message: 'inner' } });
  const endless = new Error('a');
  endless.cause = endless;
  expect(JSON.stringify(describeError(endless)).match(/"name"/g)).toHaveLength(6);
});

test('a thrown value that is not an error is described by its type only', () => {
  expect(describeError('a secret')).toEqual({ name: 'string' });
});

test('lines below the level are not written', () => {
  const lines: string[] = [];
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk.toString());
      done();
    },
  });
  const logger = createLogger({ level: 'warn', destination });
  logger.info('no');
  logger.warn({ error: new Error('x') }, 'yes');
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    level: 'warn',
    msg: 'yes',
    error: { name: 'Error', message: 'x' },
  });
});

test('a line from members that are already JSON is the same as from an object, and obeys the level', () => {
  const lines: string[] = [];
  const destination = { write: (line: string): void => void lines.push(line) };
  const logger = createLogger({ level: 'info', destination, clock: { now: () => 1_800_000_000_007 } });
  logger.warn({ status: 502, path: '/v1/"x"' }, 'request');
  logger.line('warn', ',"status":502,"path":"/v1/\\"x\\"","msg":"request"');
  logger.line('debug', ',"msg":"no"');
  expect(lines).toHaveLength(2);
  expect(lines[1]).toBe(lines[0]);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ level: 'warn', time: '2027-01-15T08:00:00.007Z' });
});

test('a process that ends has written its last line, on standard error, with the time', () => {
  const script = `import { createLogger } from ${JSON.stringify(import.meta.resolve('./logger.ts'))};
    createLogger({ level: 'info' }).info('the last line');`;
  const { stderr, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  const { time, ...line } = JSON.parse(stderr);
  expect(line).toEqual({ level: 'info', msg: 'the last line' });
  expect(new Date(time).toISOString()).toBe(time);
  expect(Math.abs(Date.now() - Date.parse(time))).toBeLessThan(30_000);
  expect(stdout).toBe('');
});
