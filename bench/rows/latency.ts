import { once } from 'node:events';
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { closedLoop, type LoadResult, openLoop } from '../load/load.ts';
import { type Row, type Settings, shown } from '../row.ts';
import { median, percentile } from '../statistics.ts';
import { startGateway, startUpstream, type Target } from '../targets.ts';

/** Percentiles of several runs: the median of each run's. */
interface Latency {
  readonly p50: number;
  readonly p99: number;
  readonly failures: number;
}

type Times = 'firstMs' | 'endMs';

function latencyOf(runs: readonly LoadResult[], times: Times): Latency {
  return {
    p50: median(runs.map(run => percentile(run[times], 0.5))),
    p99: median(runs.map(run => percentile(run[times], 0.99))),
    failures: runs.reduce((sum, run) => sum + run.failures, 0),
  };
}

/** What a sync of a page costs here, where the gateway's data lies in these benches, in ms. */
function syncLatency(): Latency {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
  const file = openSync(join(folder, 'sync'), 'w');
  const page = Buffer.alloc(4096, 1);
  const took: number[] = [];
  try {
    for (let count = 0; count < 500; count += 1) {
      const began = performance.now();
      writeSync(file, page);
      fdatasyncSync(file);
      took.push(performance.now() - began);
    }
  } finally {
    closeSync(file);
    rmSync(folder, { recursive: true, force: true });
  }
  took.sort((a, b) => a - b);
  return { p50: percentile(took, 0.5), p99: percentile(took, 0.99), failures: 0 };
}

/**
 * What a page synced by another thread costs here, asked `rate` times a second, in ms: the least that a durable answer can wait for a ledger that does not block the
 * thread which serves.
 */
async function threadSyncLatency(rate: number): Promise<Latency> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
  const script = resolve(import.meta.dirname, '../servers/syncing.ts');
  const worker = new Worker(script, { workerData: join(folder, 'sync') });
  const took: number[] = [];
  try {
    await once(worker, 'online');
    for (let count = 0; count < 300; count += 1) {
      await sleep(1000 / rate);
      const began = performance.now();
      worker.postMessage(count);
      await once(worker, 'message');
      took.push(performance.now() - began);
    }
  } finally {
    await worker.terminate();
    rmSync(folder, { recursive: true, force: true });
  }
  took.sort((a, b) => a - b);
  return { p50: percentile(took, 0.5), p99: percentile(took, 0.99), failures: 0 };
}

async function alternate(
  targets: { gateway: Target; direct: Target },
  { model, times, rate }: { model: 'short' | 'stream'; times: Times; rate: number },
  { seconds, rounds }: Settings,
): Promise<{ gateway: Latency; direct: Latency }> {
  const runs = { gateway: [] as LoadResult[], direct: [] as LoadResult[] };
  for (let round = 0; round < rounds; round += 1) {
    for (const name of ['direct', 'gateway'] as const) {
      runs[name].push(await openLoop(targets[name].aim(model), { rate, seconds }));
    }
  }
  return { gateway: latencyOf(runs.gateway, times), direct: latencyOf(runs.direct, times) };
}

function told({ gateway, direct }: { gateway: Latency; direct: Latency }): string {
  const failures = gateway.failures === 0 ? '' : `; ${gateway.failures} failures`;
  const added = `p50 ${shown(gateway.p50 - direct.p50)} ms, p99 ${shown(gateway.p99 - direct.p99)} ms`;
  return `${added} (gateway ${shown(gateway.p50)} / ${shown(gateway.p99)}, direct ${shown(direct.p50)} / ${shown(direct.p99)}${failures})`;
}

/** What the gateway adds to an answer and to a stream's first event, at fixed rates. */
export async function latency(settings: Settings): Promise<Row[]> {
  const sync = syncLatency();
  const direct = await startUpstream();
  const gateway = await startGateway(direct);
  try {
    for (const model of ['short', 'stream'] as const) {
      await closedLoop(gateway.aim(model), { connections: 64, seconds: settings.warmUpSeconds });
    }
    const rows: Row[] = [{ what: 'a sync of the disk', found: `p50 ${shown(sync.p50)} ms, p99 ${shown(sync.p99)} ms` }];
    for (const rate of [100, 500, 1000]) {
      const { p50, p99 } = await threadSyncLatency(rate);
      rows.push({
        what: `a sync by another thread, ${rate} a second`,
        found: `p50 ${shown(p50)} ms, p99 ${shown(p99)} ms`,
      });
    }
    for (const rate of [100, 500, 1000]) {
      const found = await alternate({ gateway, direct }, { model: 'short', times: 'endMs', rate }, settings);
      const [p50, p99] = [
        found.gateway.p50 - found.direct.p50 - 2 * sync.p50,
        found.gateway.p99 - found.direct.p99 - 2 * sync.p99,
      ];
      rows.push({
        what: `added latency at ${rate} requests a second`,
        found: told(found),
        ...(rate === 1000
          ? { target: 'p50 under 1 ms, p99 under 5 ms, beside two syncs', reached: p50 < 1 && p99 < 5 }
          : {}),
      });
    }
    const first = await alternate({ gateway, direct }, { model: 'stream', times: 'firstMs', rate: 20 }, settings);
    rows.push({
      what: 'time to first event added, 20 streams a second',
      found: told(first),
      target: 'p50 under 1 ms, beside the sync of the hold',
      reached: first.gateway.p50 - first.direct.p50 - sync.p50 < 1,
    });
    return rows;
  } finally {
    for (const target of [gateway, direct]) await target.stop();
  }
}
