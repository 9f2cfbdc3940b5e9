import { closedLoop } from './load/load.ts';
import { type Cpu, subtractCpu } from './process.ts';
import { type Settings, formatNumber, formatFailures } from './row.ts';
import { median } from './statistics.ts';
import type { BenchModel, Target } from './targets.ts';

/** CPU time of an answer through the bare proxy on the reference scale, in µs. Targets are given on this scale. */
const proxyScaleUs = 59;
/** The least CPU time per answer, in µs, of threads that are printed. */
const threadUsMin = 1;

/** The requests that are sent to each of the two servers. */
export interface Comparison {
  readonly model: BenchModel;
  readonly connections: number;
}

/** The runs against one server: medians, and the sum of the failures. */
export interface Run {
  readonly name: string;
  readonly perSecond: number;
  /** CPU time per answer, of all threads and child processes, in µs; NaN if nothing was answered. */
  readonly cpuUs: number;
  /** CPU time per answer by thread, in µs. */
  readonly threadsUs: ReadonlyMap<string, number>;
  readonly failures: ReadonlyMap<string, number>;
}

async function runOnce(target: Target, { model, connections }: Comparison, seconds: number): Promise<Run> {
  const before = target.process.cpu();
  const { answers, failures, seconds: took } = await closedLoop(target.traffic(model), { connections, seconds });
  const cpu = subtractCpu(target.process.cpu(), before);
  return { name: target.name, perSecond: answers / took, ...eachAnswer(cpu, answers), failures };
}

function eachAnswer({ totalMs, threadsMs }: Cpu, answers: number): Pick<Run, 'cpuUs' | 'threadsUs'> {
  const us = (ms: number): number => (answers === 0 ? Number.NaN : (ms * 1000) / answers);
  return { cpuUs: us(totalMs), threadsUs: new Map([...threadsMs].map(([name, ms]) => [name, us(ms)])) };
}

function summarize(runs: readonly Run[]): Run {
  const failures = new Map<string, number>();
  for (const [reason, count] of runs.flatMap(run => [...run.failures]))
    failures.set(reason, (failures.get(reason) ?? 0) + count);
  const names = new Set(runs.flatMap(run => [...run.threadsUs.keys()]));
  const threads = [...names].map(name => [name, median(runs.map(run => run.threadsUs.get(name) ?? 0))] as const);
  return {
    name: runs[0]?.name ?? '',
    perSecond: median(runs.map(run => run.perSecond)),
    cpuUs: median(runs.map(run => run.cpuUs)),
    threadsUs: new Map(threads),
    failures,
  };
}

/** Sends non-streamed requests until V8 has optimized the code, and a tenth as many streams; for at most two minutes. */
export async function warmUp(target: Target, { warmUpAnswers }: Settings): Promise<void> {
  await closedLoop(target.traffic('short'), { connections: 128, seconds: 90, answers: warmUpAnswers });
  await closedLoop(target.traffic('burst'), { connections: 128, seconds: 30, answers: warmUpAnswers / 10 });
}

/** Loads two servers alternately, so that other load on the machine affects both equally. */
export async function compare(
  [ours, theirs]: readonly [Target, Target],
  comparison: Comparison,
  { seconds, rounds }: Settings,
): Promise<[Run, Run]> {
  const runs: [Run[], Run[]] = [[], []];
  for (const target of [ours, theirs]) await runOnce(target, comparison, seconds);
  for (let round = 0; round < rounds; round += 1) {
    runs[0].push(await runOnce(ours, comparison, seconds));
    runs[1].push(await runOnce(theirs, comparison, seconds));
  }
  return [summarize(runs[0]), summarize(runs[1])];
}

/** Formats the answers (or streams) per second of two runs, ours first, and their failures. */
export function formatRates([ours, theirs]: readonly [Run, Run], unit: string): string {
  return `${formatNumber(ours.perSecond)} : ${formatNumber(theirs.perSecond)} ${unit} a second${[ours, theirs].map(formatRunFailures).join('')}`;
}

/** Formats the CPU time per answer: the bare proxy's divided by ours, and both. */
export function formatOnProxyScale([ours, proxy]: readonly [Run, Run]): string {
  const scaled = (ours.cpuUs / proxy.cpuUs) * proxyScaleUs;
  return `${formatNumber(proxy.cpuUs / ours.cpuUs)} (proxy ${formatNumber(proxy.cpuUs)}, gateway ${formatNumber(ours.cpuUs)} µs; gateway ${formatNumber(scaled)} if the proxy took ${proxyScaleUs})`;
}

/** Formats the CPU time per answer by thread. */
export function formatThreads({ threadsUs }: Run): string {
  return [...threadsUs]
    .filter(([, us]) => us >= threadUsMin)
    .toSorted(([, a], [, b]) => b - a)
    .map(([name, us]) => `${name} ${formatNumber(us)}`)
    .join(', ');
}

function formatRunFailures({ name, failures }: Run): string {
  return failures.size === 0 ? '' : `; ${name}${formatFailures(failures).slice(1)}`;
}
