import type { Profiler } from 'node:inspector';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { warmUp } from '../compare.ts';
import { closedLoop } from '../load/load.ts';
import { Meter } from '../load/meter.ts';
import { type Row, type Settings, formatNumber } from '../row.ts';
import { startGateway, startUpstream } from '../targets.ts';

/** The least share of the time that is printed: of a part's own time, and of a branch of the call tree. */
const shareMin = { own: 0.01, branch: 0.03 };

/** A node of the call tree, merged by owner: functions of one owner that call each other, and the functions of other owners that they call. */
interface Branch {
  readonly owner: string;
  /** Time in µs of the owner's own functions, by part of the owner. */
  readonly own: Map<string, number>;
  readonly calls: Map<string, Branch>;
}

function add(sums: Map<string, number>, name: string, us: number): void {
  sums.set(name, (sums.get(name) ?? 0) + us);
}

/** Returns the owner of a frame's code: a folder of `src`, a package or Node.js; undefined if the process was idle or the meter ran. */
function findOwner({ functionName, url }: Profiler.ProfileNode['callFrame']): string | undefined {
  if (functionName === '(idle)' || url.endsWith('/bench/servers/meter.ts')) return undefined;
  if (functionName === '(garbage collector)') return 'garbage collector';
  if (functionName === '(program)') return 'native code outside of functions';
  const source = /\/src\/(?!.*\/node_modules\/)(.+)\/[^/]+$/.exec(url)?.[1];
  if (source !== undefined) return `src/${source.split('/').slice(0, 2).join('/')}`;
  return /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? 'Node.js';
}

/** Returns the part of Node.js that a frame belongs to; for any other owner, the owner. */
function findPart({ functionName, url }: Profiler.ProfileNode['callFrame'], owner: string): string {
  if (owner !== 'Node.js') return owner;
  const module = /^node:(?:internal\/)?(\w+)/.exec(url)?.[1];
  return module === undefined ? `native ${functionName === '' ? 'function' : functionName}` : `Node.js ${module}`;
}

/** Merges the call tree by owner; returns its root. */
function merge({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile): Branch {
  const byId = new Map(nodes.map(node => [node.id, node]));
  const selfUs = new Map<number, number>();
  for (const [index, id] of samples.entries()) selfUs.set(id, (selfUs.get(id) ?? 0) + (timeDeltas[index] ?? 0));
  const root: Branch = { owner: 'root', own: new Map(), calls: new Map() };
  const walk = (node: Profiler.ProfileNode, parent: Branch): void => {
    const owner = node.callFrame.functionName === '(root)' ? parent.owner : findOwner(node.callFrame);
    if (owner === undefined) return;
    let branch = parent;
    if (owner !== parent.owner) {
      branch = parent.calls.get(owner) ?? { owner, own: new Map(), calls: new Map() };
      parent.calls.set(owner, branch);
    }
    add(branch.own, findPart(node.callFrame, owner), selfUs.get(node.id) ?? 0);
    for (const child of node.children ?? []) {
      const found = byId.get(child);
      if (found !== undefined) walk(found, branch);
    }
  };
  const [first] = nodes;
  if (first !== undefined) walk(first, root);
  return root;
}

function sumOwnUs({ own }: Branch): number {
  return [...own.values()].reduce((sum, us) => sum + us, 0);
}

function sumUs(branch: Branch): number {
  return [...branch.calls.values()].reduce((sum, each) => sum + sumUs(each), sumOwnUs(branch));
}

/** Sums the own time of each part over all branches. */
function sumByPart(branch: Branch, sums = new Map<string, number>()): Map<string, number> {
  for (const [part, us] of branch.own) add(sums, part, us);
  for (const each of branch.calls.values()) sumByPart(each, sums);
  return sums;
}

/** Returns rows with the main thread's time by part, and by call from the top down. */
function describe(root: Branch, answers: number): Row[] {
  const totalUs = sumUs(root);
  const formatTime = (us: number): string =>
    `${formatNumber(us / answers)} µs (${formatNumber((us / totalUs) * 100)} %)`;
  const select = <T>(entries: readonly (readonly [T, number])[], min: number): (readonly [T, number])[] =>
    entries.filter(([, us]) => us / totalUs >= min).toSorted(([, a], [, b]) => b - a);
  const flat = select([...sumByPart(root)], shareMin.own).map(([part, us]) => ({
    what: `profile, own time: ${part}`,
    measured: formatTime(us),
  }));
  const tree: Row[] = [];
  const list = (branch: Branch, path: string): void => {
    const calls = [...branch.calls.values()].map(call => [call, sumUs(call)] as const);
    for (const [call, us] of select(calls, shareMin.branch)) {
      const name = `${path}${call.owner}`;
      tree.push({
        what: `profile, top down: ${name}`,
        measured: `${formatTime(us)}, own ${formatTime(sumOwnUs(call))}`,
      });
      list(call, `${name} › `);
    }
  };
  list(root, '');
  return [...flat, ...tree];
}

/** Profiles the main thread under 128 connections that request whole answers. */
export async function profile(settings: Settings): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
  const meter = new Meter(folder);
  const upstream = await startUpstream();
  const gateway = await startGateway(upstream, { env: meter.environment, isFromSources: true });
  try {
    await warmUp(gateway, settings);
    let answered = 0;
    const taken = await meter.profile(async () => {
      const { answers } = await closedLoop(gateway.traffic('short'), { connections: 128, seconds: settings.seconds });
      answered = answers;
    });
    return describe(merge(taken), answered);
  } finally {
    for (const target of [gateway, upstream]) await target.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
