/**
 * `npm run test:soak -- SECONDS` (default 1800) runs a gateway under mixed traffic with aborts, failing disks and, in the last third, kills. Prints a line every ten seconds. Exits with 1 and the reason if
 * something is stuck, lost or charged twice, an invariant is violated, or memory, file descriptors or logs grow.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { verifyLedgerFile } from '../../src/ledger/sqlite/verify.ts';
import { makeStorageFaults, type StorageFault } from '../storage/storage-faults.ts';
import { type Gateway, startGateway } from './soak-gateway.ts';
import { type Known, Traffic } from './soak-traffic.ts';

const seconds = Number(process.argv[2] ?? 1800);
const faultEverySeconds = 12;
const faultMs = 1_500;
const killEverySeconds = 8;
/** An increase of memory counts as growth only if it is more than this and more than a tenth. */
const slackBytes = 24 << 20;
const logBytesMax = 96 << 20;
const descriptorsMax = 400;

interface Sample {
  readonly memoryBytes: number;
  readonly descriptors: number;
  readonly logBytes: number;
}

const faultKinds: readonly StorageFault[] = [
  { calls: ['writes'], error: 'ENOSPC', path: 'ledger.sqlite-wal' },
  { calls: ['writes'], error: 'EIO', path: 'content.db-wal' },
  { calls: ['writes'], error: 'ENOSPC', path: '-wal' },
  { calls: ['writes'], error: 'short', path: '-wal', times: 3 },
];

const faults = makeStorageFaults();
const known: Known = {
  charged: new Map(),
  counts: { whole: 0, streamed: 0, aborted: 0, background: 0, images: 0, refused: 0 },
};
const samples: Sample[] = [];
let gateway = await startGateway(faults.environment);
const traffic = new Traffic(() => gateway, known);

function measure({ pid, dataDir }: Gateway): Sample {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kilobytes = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0);
  const logs = ['ledger.sqlite-wal', 'content.db-wal'].map(
    name => statSync(join(dataDir, name), { throwIfNoEntry: false })?.size ?? 0,
  );
  return {
    memoryBytes: kilobytes * 1024,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    logBytes: Math.max(...logs),
  };
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;

/** Compares the memory in the second quarter of the time without kills with that in the last quarter. */
function expectNoGrowth(): void {
  const memory = samples.map(sample => sample.memoryBytes);
  const quarter = Math.floor(memory.length / 4);
  const [before, after] = [median(memory.slice(quarter, 2 * quarter)), median(memory.slice(3 * quarter))];
  console.log(`memory: ${before >> 20} MiB in the second quarter, ${after >> 20} MiB in the last`);
  assert(after <= before * 1.1 || after - before < slackBytes, 'memory grows');
  assert(Math.max(...samples.map(sample => sample.descriptors)) < descriptorsMax, 'file descriptors grow');
  assert(Math.max(...samples.map(sample => sample.logBytes)) < logBytesMax, 'a log grows');
}

async function soak(untilMs: number, everySecond: (second: number) => Promise<void>): Promise<void> {
  for (let second = 0; performance.now() < untilMs; second += 1) {
    await everySecond(second);
    await wait(1_000);
    if (second % 10 === 9)
      console.log(JSON.stringify({ ...known.counts, charged: known.charged.size, ...measure(gateway) }));
  }
}

const startedMs = performance.now();
const quietMs = startedMs + (seconds * 2_000) / 3;
let injected = 0;
try {
  traffic.start();
  await soak(quietMs, async second => {
    samples.push(measure(gateway));
    if (second % faultEverySeconds !== faultEverySeconds - 1) return;
    faults.arm(faultKinds[injected++ % faultKinds.length] ?? { calls: ['writes'], error: 'EIO' });
    await wait(faultMs);
    faults.clear();
  });
  expectNoGrowth();
  await soak(startedMs + seconds * 1_000, async second => {
    if (second % killEverySeconds !== killEverySeconds - 1) return;
    // In every second fault the disk loses writes, so that the gateway ends itself.
    if (second % (2 * killEverySeconds) === killEverySeconds - 1) await gateway.kill();
    else {
      faults.arm({ calls: ['syncs'], error: 'EIO', path: 'ledger.sqlite', times: 1, loses: true });
      assert.equal(await gateway.ended, 1, 'it ends because writes were lost');
      faults.clear();
    }
    gateway = await startGateway(faults.environment, gateway);
  });
  await traffic.stop();
  await traffic.expectNothingStuck();
  await traffic.expectChargesCorrect();
  assert.equal(await gateway.stop(), 0, 'it stops by itself');
  assert.deepEqual(verifyLedgerFile(gateway.dataDir), []);
  console.log(
    `soak: ${seconds} s, ${injected} faults, ${known.charged.size} charged answers, nothing lost, doubled, stuck or growing`,
  );
} finally {
  await gateway.kill();
  faults.remove();
  rmSync(gateway.folder, { recursive: true, force: true });
}
