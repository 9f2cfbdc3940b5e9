import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createLogger } from '../telemetry/logger.ts';
import { StorageHealth } from './storage-health.ts';

const mebibyte = 1 << 20;
const checkMs = 5_000;
let freeMebibytes = 0;
let health: StorageHealth;
let lines: { level: string; msg: string; store?: string }[];

beforeEach(() => {
  // Only the interval of the checks: each also reads the real disk, which takes real time.
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  lines = [];
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(JSON.parse(chunk.toString()));
      done();
    },
  });
  // A disk of 1 GiB.
  const readSpace = async () => ({ bavail: freeMebibytes, blocks: 1024, bsize: mebibyte });
  health = new StorageHealth({ dataDir: '/tmp', logger: createLogger({ level: 'info', destination }), readSpace });
});
afterEach(() => {
  health.close();
  vi.useRealTimers();
});

const messages = (): string[] => lines.map(({ msg }) => msg);
/** Lets the time of exactly one check pass, and waits until it has found what is expected. */
const seen = async (expected: unknown): Promise<void> => {
  await vi.advanceTimersByTimeAsync(checkMs);
  await eventually(() => isDeepStrictEqual([health.reason, messages()], expected));
  expect([health.reason, messages()]).toEqual(expected);
};
/** Waits in real time: `expect.poll` would let the fake time pass too. */
const eventually = async (isSo: () => boolean): Promise<void> => {
  for (const deadline = performance.now() + 15_000; !isSo() && performance.now() < deadline;) await sleep(2);
};
const metric = (name: string): string | undefined =>
  health.metrics
    .text()
    .split('\n')
    .find(line => line.startsWith(name));

test('with less than a twentieth free the disk is low, and requests still pass; with less than 16 MiB it is full, and requests are refused; each change is reported once', async () => {
  freeMebibytes = 52;
  await health.start();
  expect([health.reason, messages(), metric('tollgate_disk_low ')]).toEqual([undefined, [], 'tollgate_disk_low 0']);
  freeMebibytes = 51;
  await seen([undefined, ['disk.low']]);
  expect(metric('tollgate_disk_low ')).toBe('tollgate_disk_low 1');
  expect(metric('tollgate_disk_free_bytes')).toBe(`tollgate_disk_free_bytes ${51 * mebibyte}`);
  freeMebibytes = 15;
  await seen(['The disk of the data directory is full.', ['disk.low', 'disk.full']]);
  freeMebibytes = 900;
  await seen([undefined, ['disk.low', 'disk.full', 'disk.fine']]);
  for (let check = 0; check < 3; check += 1) {
    await vi.advanceTimersByTimeAsync(checkMs);
    await sleep(20);
  }
  expect(messages()).toHaveLength(3);
});

test('the reason names a store that can’t be written, until it can be written again', async () => {
  freeMebibytes = 900;
  await health.start();
  health.documentWatch.failing(new Error('no'));
  expect(health.reason).toBe('The content store can’t be written.');
  health.ledgerWatch.failing(new Error('no'));
  expect([health.reason, metric('tollgate_store_writable{store="ledger"}')]).toEqual([
    'The ledger can’t be written.',
    'tollgate_store_writable{store="ledger"} 0',
  ]);
  health.ledgerWatch.failing(undefined);
  health.documentWatch.failing(undefined);
  expect([health.reason, metric('tollgate_store_writable{store="ledger"}')]).toEqual([
    undefined,
    'tollgate_store_writable{store="ledger"} 1',
  ]);
});

test('write-offs and suspensions are counted and logged; lost writes are reported to the code that ends the process', async () => {
  health.ledgerWatch.wroteOff(7, 1_500_000_000n);
  health.ledgerWatch.suspended({ accountId: 3, reason: 'write_offs' });
  expect(metric('tollgate_written_off_dollars_total')).toBe('tollgate_written_off_dollars_total 1.5');
  expect(
    ['damaged', 'write_offs'].map(reason => metric(`tollgate_account_suspensions_total{reason="${reason}"}`)),
  ).toEqual([
    'tollgate_account_suspensions_total{reason="damaged"} 0',
    'tollgate_account_suspensions_total{reason="write_offs"} 1',
  ]);
  expect(lines.map(({ level }) => level)).toEqual(['warn', 'error']);
  const cause = new Error('gone');
  health.documentWatch.lost(cause);
  expect(await health.lost).toBe(cause);
});
