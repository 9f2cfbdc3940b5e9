/** Causes faults of each kind under a mixed load on three gateways and one PostgreSQL, and checks what must hold afterwards. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { verifyDatabase } from '../../src/ledger/postgres/verify.ts';
import { allRecords, readLines } from '../e2e/batch-caller.ts';
import { type Gateway, readBalance } from '../gateway.ts';
import { Fleet, type Member, offTime } from './fleet.ts';
import { beginLoad, type Journal, limitMax } from './fleet-load.ts';

/** The kinds of faults. */
export type FaultKind = 'kill' | 'crash' | 'proxy' | 'pause' | 'clock';

/** What a run with faults has shown. */
export interface FaultReport {
  readonly answers: number;
  readonly records: number;
  readonly jobs: number;
  readonly repeated: number;
  readonly refused: number;
  readonly limited: number;
  readonly failures: Readonly<Record<string, number>>;
}

type Fault = (fleet: Fleet, nth: number) => Promise<void>;

const funds = 100_000n * 1_000_000_000n;
/** How long the end of interrupted work may take, in ms: a lease of 15 s, a check every 5 s, and time for a busy machine. */
const endedMs = 60_000;

/** Kills a gateway with signal 9 and starts it again, which ends its interrupted requests before it is ready. */
const kill: Fault = async (fleet, nth) => {
  const member = fleet.member(nth);
  await member.gateway.kill();
  const [left] = await fleet.query('SELECT coalesce(max(boot), 0) AS boot FROM instance WHERE home = $1', [
    readHome(member),
  ]);
  if (nth % 4 === 3) await sleep(1000);
  member.gateway = await startAgain(member);
  const held = await fleet.query('SELECT id FROM hold WHERE boot = $1', [String(left?.['boot'])]);
  expect(held, 'holds of a gateway that was killed and has started again').toEqual([]);
};

/** Starts a gateway as a supervisor does: if it can't reach the database in time, the start is repeated. */
async function startAgain({ start }: Member): Promise<Gateway> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await start();
    } catch (error) {
      if (tries === 3) throw error;
    }
  }
}

/** Stops the database at once, and starts it again after up to two seconds. */
const crash: Fault = async (fleet, nth) => {
  await fleet.server.crash();
  await sleep((nth * 397) % 2000);
  await fleet.server.start();
  await fleet.waitUntilReady();
};

/** Cuts connections to the database, delays data, and drops answers after a commit. */
const proxy: Fault = async (fleet, nth) => {
  const { proxy: between } = fleet.member(nth);
  if (nth % 4 === 0) between.cut();
  else if (nth % 4 === 1) {
    between.delay(100 + ((nth * 131) % 2900));
    await sleep(3000);
    between.delay(0);
  } else for (let drops = 0; drops < 3; drops += 1) between.dropNext();
  await sleep(700);
  await fleet.waitUntilReady();
};

/** Pauses a gateway until after the end of its lease. In every tenth fault the lease ends by itself; in others it is ended. */
const pause: Fault = async (fleet, nth) => {
  const member = fleet.member(nth);
  const home = readHome(member);
  process.kill(member.gateway.pid, 'SIGSTOP');
  try {
    if (nth % 10 !== 9) await fleet.query('UPDATE instance SET lease_until_ms = 0 WHERE home = $1', [home]);
    const left = async (): Promise<number> => {
      const text = 'SELECT count(*)::int AS count FROM hold h JOIN instance i USING (boot) WHERE i.home = $1';
      return Number((await fleet.query(text, [home]))[0]?.['count']);
    };
    await expect.poll(left, { timeout: endedMs, interval: 50 }).toBe(0);
  } finally {
    process.kill(member.gateway.pid, 'SIGCONT');
  }
  await sleep(500);
};

/** Sets the wall clock of a gateway an hour ahead, an hour back, or to the right time. */
const clock: Fault = async (fleet, nth) => {
  fleet.member(nth).clock?.set(offTime((Math.floor(nth / 3) % 3) - 1));
  await sleep(1500);
};

const faults: Readonly<Record<FaultKind, Fault>> = { kill, crash, proxy, pause, clock };

function readHome({ gateway }: Member): string {
  return readFileSync(`${gateway.dataDir}/instance.id`, 'utf8').trim();
}

/** Injects `times` faults under a mixed load, and expects that nothing is lost, doubled, negative or stuck. */
export async function faultFleet(kind: FaultKind, times: number): Promise<FaultReport> {
  const fleet = await Fleet.start(kind === 'clock');
  try {
    const { gateway } = fleet.member(0);
    const { key } = await gateway.admin.createApiKey({ accountId: 1n, settings: { dailyLimit: BigInt(limitMax) } });
    const { load, stop } = beginLoad(fleet, key?.key ?? '');
    for (let nth = 0; nth < times; nth += 1) {
      await sleep(300 + ((nth * 53) % 400));
      await faults[kind](fleet, nth);
      if (load.journal.wrongs.length > 0) break;
    }
    await sleep(1000);
    await stop();
    return await inspect(fleet, load.journal);
  } finally {
    await fleet.stop();
  }
}

/** Checks everything that the clients received. */
async function inspect(fleet: Fleet, journal: Journal): Promise<FaultReport> {
  const wrongs = journal.wrongs.slice(0, 5);
  if (wrongs.length > 0) throw new Error([...wrongs, listLoggedErrors(fleet)].join('\n'));
  await fleet.waitUntilReady();
  const ended: Ended[] = [];
  for (const [index, path] of [...journal.jobs].entries()) ended.push(await waitForJob(fleet, path, index));
  const held = (): Promise<unknown[]> =>
    fleet.query(
      'SELECT h.id::text, h.request, h.boot::text, h.admitted_at_ms::text AS at, h.tokens::text, e.name, i.number, p.name AS path FROM hold h LEFT JOIN end_user e ON e.id = h.end_user_id LEFT JOIN instance i USING (boot) LEFT JOIN endpoint p ON p.id = h.endpoint_id',
    );
  await expect
    .poll(held, { timeout: endedMs, interval: 100, message: 'held' })
    .toEqual([])
    .catch((error: unknown) => {
      throw new Error(`${String(error)}\n${listLoggedErrors(fleet)}`);
    });
  const { gateway } = fleet.member(1);
  const records = await allRecords(gateway);
  const charged = new Map(records.map(({ requestId, costNanoUsd }) => [requestId, Number(costNanoUsd) / 1e9]));
  expect(charged.size, 'a request has one record').toBe(records.length);
  expect(
    [...journal.answers].filter(([id, cost]) => charged.get(id) !== cost),
    'lost',
  ).toEqual([]);
  const paid = records.filter(({ costNanoUsd, batchId }) => costNanoUsd > 0n && batchId === undefined);
  const doubled = [...Map.groupBy(paid, ({ endUser }) => endUser)].filter(
    ([user, each]) => user !== undefined && each.length > 1,
  );
  expect(
    doubled.map(([user]) => user),
    'an order is charged once',
  ).toEqual([]);
  const total = records.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
  expect(funds - (await readBalance(gateway))).toBe(total);
  expect(journal.limited).toBeLessThanOrEqual(limitMax);
  const byBatch = Map.groupBy(
    records.filter(({ costNanoUsd }) => costNanoUsd > 0n),
    ({ batchId }) => batchId,
  );
  for (const { path, job } of ended) {
    const id = path.split('/').at(-1) ?? '';
    if (path.startsWith('/v1/batches')) {
      const results = await readLines(gateway, job.output_file_id ?? null);
      const errors = await readLines(gateway, job.error_file_id ?? null);
      const names = [...results, ...errors].map(({ custom_id }) => custom_id);
      expect([job.status, names.toSorted()]).toEqual(['completed', ['item-0', 'item-1', 'item-2', 'item-3']]);
      expect(byBatch.get(id)?.length ?? 0, `charges of ${path}`).toBe(results.length);
      continue;
    }
    const cost = charged.get(`req_${id.split('_').at(-1)}`) ?? 0;
    expect([path, cost > 0], `${job.status}`).toEqual([path, job.status === 'completed']);
  }
  const violations = await verifyDatabase(fleet.server.url);
  expect(violations).toEqual([]);
  return {
    answers: journal.answers.size,
    records: records.length,
    jobs: ended.length,
    repeated: journal.repeated,
    refused: journal.refused,
    limited: journal.limited,
    failures: Object.fromEntries(journal.failures),
  };
}

/** Returns the last errors in the gateways' logs. */
function listLoggedErrors({ members }: Fleet): string {
  const lines = members.flatMap(({ gateway }, index) =>
    gateway
      .printed()
      .split('\n')
      .filter(line => /"level":"?(50|60|error|fatal)/.test(line))
      .slice(-20)
      .map(line => `${index}: ${line.slice(0, 400)}`),
  );
  return lines.join('\n');
}

interface Job {
  readonly status: string;
  readonly output_file_id?: string | null;
  readonly error_file_id?: string | null;
}

interface Ended {
  readonly path: string;
  readonly job: Job;
}

/** Waits until a job has ended, and returns it. Every gateway must return the same. */
async function waitForJob(fleet: Fleet, path: string, index: number): Promise<Ended> {
  const read = async (at: number): Promise<Job> => {
    const { gateway } = fleet.member(at);
    const response = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${gateway.apiKey}` } });
    return (await response.json()) as Job;
  };
  let job: Job | undefined;
  await expect
    .poll(async () => (job = await read(index)).status, { timeout: endedMs, interval: 200, message: path })
    .toMatch(/^(completed|failed|expired|cancelled)$/);
  if (job === undefined) throw new Error('no job');
  await expect.poll(async () => (await read(index + 1)).status, { message: path }).toBe(job.status);
  return { path, job };
}
