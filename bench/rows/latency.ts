import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { warmUp } from '../compare.ts';
import { type LoadResult, openLoop } from '../load/load.ts';
import { type Row, type Settings, formatNumber, formatFailures } from '../row.ts';
import { median, percentile } from '../statistics.ts';
import { startGateway, startUpstream, type Target } from '../targets.ts';

const rates = [100, 500, 1000];
/**
 * The rate of streams whose first event is timed, and the rate of additional non-streamed answers for a busy gateway, both per second.
 */
const firstEvents = { rate: 10, busyRate: 500 };

/** Percentiles in ms: each is the median over several runs. */
interface Latency {
  readonly p50: number;
  readonly p99: number;
  readonly failures: string;
}

type Times = 'firstMs' | 'endMs';
type Measure = (target: Target) => Promise<LoadResult>;

function summarize(runs: readonly LoadResult[], times: Times): Latency {
  return {
    p50: median(runs.map(run => percentile(run[times], 0.5))),
    p99: median(runs.map(run => percentile(run[times], 0.99))),
    failures: runs.map(({ failures }) => formatFailures(failures)).join(''),
  };
}

/**
 * Returns how long it takes on this machine to let another thread write and sync a page, `rate` times a second, in ms. This is the shortest time that a durable
 * answer can wait for a ledger that does not block the serving thread.
 */
async function measureSync(rate: number): Promise<Latency> {
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
  return { p50: percentile(took, 0.5), p99: percentile(took, 0.99), failures: '' };
}

/** The servers that are measured alternately. */
interface Targets {
  readonly direct: Target;
  /** A gateway whose threads run on two cores. */
  readonly spread: Target;
  /** A gateway whose threads all run on one core. */
  readonly single: Target;
}

async function alternate(
  { direct, spread, single }: Targets,
  rounds: number,
  measure: Measure,
): Promise<Record<keyof Targets, LoadResult[]>> {
  const runs: Record<keyof Targets, LoadResult[]> = { direct: [], spread: [], single: [] };
  for (let round = 0; round < rounds; round += 1) {
    runs.direct.push(await measure(direct));
    runs.spread.push(await measure(spread));
    runs.single.push(await measure(single));
  }
  return runs;
}

function describe(gateway: Latency, direct: Latency): string {
  const added = `p50 ${formatNumber(gateway.p50 - direct.p50)} ms, p99 ${formatNumber(gateway.p99 - direct.p99)} ms`;
  return `${added} (gateway ${formatNumber(gateway.p50)} / ${formatNumber(gateway.p99)}, direct ${formatNumber(direct.p50)} / ${formatNumber(direct.p99)}${gateway.failures})`;
}

async function addedLatency(targets: Targets, { seconds, rounds }: Settings): Promise<Row[]> {
  const rows: Row[] = [];
  for (const rate of rates) {
    const runs = await alternate(targets, rounds, target => openLoop(target.traffic('short'), { rate, seconds }));
    const direct = summarize(runs.direct, 'endMs');
    for (const [name, where, limit] of [
      ['spread', 'threads on two cores', { p50: 0.5, p99: 2 }],
      ['single', 'all on one core', { p50: 1, p99: 5 }],
    ] as const) {
      const gateway = summarize(runs[name], 'endMs');
      const isReached = gateway.p50 - direct.p50 < limit.p50 && gateway.p99 - direct.p99 < limit.p99;
      rows.push({
        what: `added latency at ${rate} requests a second, ${where}`,
        measured: describe(gateway, direct),
        ...(rate === 1000 ? { target: `under ${limit.p50} / ${limit.p99} ms`, reached: isReached } : {}),
      });
    }
  }
  return rows;
}

/** Times the first events of streams, of an idle and of a busy gateway, on two cores and on one. */
async function addedFirstEvent(targets: Targets, { seconds, rounds }: Settings): Promise<Row[]> {
  const first: Measure = target => openLoop(target.traffic('first'), { rate: firstEvents.rate, seconds });
  const besideWhole: Measure = async target => {
    const [result] = await Promise.all([
      first(target),
      openLoop(target.traffic('short'), { rate: firstEvents.busyRate, seconds }),
    ]);
    return result;
  };
  const rows: Row[] = [];
  for (const [how, measure, limitMs] of [
    ['nothing else running', first, 0.4],
    [`${firstEvents.busyRate} whole answers a second running`, besideWhole, 1],
  ] as const) {
    const runs = await alternate(targets, rounds, measure);
    const direct = summarize(runs.direct, 'firstMs');
    const [spread, single] = [summarize(runs.spread, 'firstMs'), summarize(runs.single, 'firstMs')];
    rows.push({
      what: `added time to first event, ${how} (first with threads on two cores, then all on one)`,
      measured: `${describe(spread, direct)}; ${describe(single, direct)}`,
      target: `p50 under ${limitMs} ms`,
      reached: spread.p50 - direct.p50 < limitMs,
    });
  }
  return rows;
}

/** Measures the latency that the gateway adds to an answer and to a stream's first event, at fixed rates. */
export async function latency(settings: Settings): Promise<Row[]> {
  const syncs: string[] = [];
  for (const rate of rates) {
    const { p50, p99 } = await measureSync(rate);
    syncs.push(`${formatNumber(p50)} / ${formatNumber(p99)} ms`);
  }
  const direct = await startUpstream();
  const spread = await startGateway(direct, { isSpread: true });
  const single = await startGateway(direct);
  const targets = { direct, spread, single };
  try {
    for (const target of [spread, single]) await warmUp(target, settings);
    return [
      {
        what: `time until another thread has synced a page, at ${rates.join(', ')} syncs a second, p50 / p99`,
        measured: syncs.join(', '),
      },
      ...(await addedLatency(targets, settings)),
      ...(await addedFirstEvent(targets, settings)),
    ];
  } finally {
    for (const target of [spread, single, direct]) await target.stop();
  }
}
