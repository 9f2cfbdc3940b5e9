import { closedLoop } from '../load/load.ts';
import { type Row, type Settings, shown } from '../row.ts';
import { median } from '../statistics.ts';
import { type BenchModel, startGateway, startPortkey, startProxy, startUpstream, type Target } from '../targets.ts';

/** One run against one target. */
interface Run {
  readonly perSecond: number;
  /** Time on the processor for one answer, all threads, in µs. */
  readonly cpuUs: number;
  readonly failures: number;
}

/** What is compared. */
interface Comparison {
  readonly model: BenchModel;
  readonly connections: number;
}

async function runOnce(target: Target, { model, connections }: Comparison, seconds: number): Promise<Run> {
  const cpuBefore = target.process.cpuMs();
  const { answers, failures, seconds: took } = await closedLoop(target.aim(model), { connections, seconds });
  const cpuMs = target.process.cpuMs() - cpuBefore;
  return { perSecond: answers / took, cpuUs: (cpuMs * 1000) / answers, failures };
}

/** By turns, so that what else the machine does falls on all alike. */
async function compare(targets: readonly Target[], comparison: Comparison, settings: Settings): Promise<Run[]> {
  const runs = targets.map((): Run[] => []);
  for (const target of targets) await runOnce(target, comparison, settings.warmUpSeconds);
  for (let round = 0; round < settings.rounds; round += 1) {
    for (const [index, target] of targets.entries())
      runs[index]?.push(await runOnce(target, comparison, settings.seconds));
  }
  return runs.map(each => ({
    perSecond: median(each.map(run => run.perSecond)),
    cpuUs: median(each.map(run => run.cpuUs)),
    failures: each.reduce((sum, run) => sum + run.failures, 0),
  }));
}

function told(gateway: Run, other: Run, unit: string): string {
  const failures = gateway.failures === 0 ? '' : `; ${gateway.failures} failures`;
  const ratio = gateway.perSecond / other.perSecond;
  const cpu = `CPU ${shown(gateway.cpuUs)} : ${shown(other.cpuUs)} µs an answer (${shown(other.cpuUs / gateway.cpuUs)})`;
  return `${shown(ratio)} (${shown(gateway.perSecond)} : ${shown(other.perSecond)} ${unit}/s; ${cpu}${failures})`;
}

/** Answers whole, and streams, as a ratio to the bare proxy. */
export async function throughput(settings: Settings): Promise<Row[]> {
  const upstream = await startUpstream();
  const proxy = await startProxy(upstream);
  const gateway = await startGateway(upstream);
  try {
    const pair = [gateway, proxy];
    const short = await pairOf(pair, { model: 'short', connections: 128 }, settings);
    const words = await pairOf(pair, { model: 'words', connections: 128 }, settings);
    const stream = await pairOf(pair, { model: 'stream', connections: 64 }, settings);
    const ratio = ([ours, theirs]: readonly [Run, Run]): number => ours.perSecond / theirs.perSecond;
    return [
      {
        what: 'chat whole, everything on, against the bare proxy',
        found: told(...short, 'answers'),
        target: 'at least 0.4',
        reached: ratio(short) >= 0.4,
      },
      { what: 'the same, the upstream’s answer in 40 deltas', found: told(...words, 'answers') },
      {
        what: 'streams of 200 deltas, against the bare proxy',
        found: told(...stream, 'streams'),
        target: 'at least 0.5',
        reached: ratio(stream) >= 0.5,
      },
      ...(settings.peers ? await againstPeer(upstream, gateway, settings) : []),
    ];
  } finally {
    for (const target of [gateway, proxy, upstream]) await target.stop();
  }
}

async function pairOf(
  [ours, theirs]: readonly Target[],
  comparison: Comparison,
  settings: Settings,
): Promise<[Run, Run]> {
  if (ours === undefined || theirs === undefined) throw new Error('two targets are compared');
  const [first, second] = await compare([ours, theirs], comparison, settings);
  if (first === undefined || second === undefined) throw new Error('two targets were compared');
  return [first, second];
}

async function againstPeer(upstream: Target, gateway: Target, settings: Settings): Promise<Row[]> {
  const portkey = await startPortkey(upstream);
  try {
    const runs = await pairOf([gateway, portkey], { model: 'short', connections: 128 }, settings);
    const ratio = runs[0].perSecond / runs[1].perSecond;
    return [
      {
        what: 'chat whole, against Portkey’s gateway',
        found: told(...runs, 'answers'),
        target: 'at least 4',
        reached: ratio >= 4,
      },
    ];
  } finally {
    await portkey.stop();
  }
}
