import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { verifyDatabase } from '../../src/ledger/postgres/verify.ts';
import { verifyLedgerFile } from '../../src/ledger/sqlite/verify.ts';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { createDatabase, type PostgresServer, startPostgres } from '../../test/postgres/server.ts';
import { closedLoop } from '../load/load.ts';
import { LedgerProcess } from '../load/ledger-process.ts';
import { pinSelf, readCpu, spreadSelf } from '../process.ts';
import { type Row, type Settings, formatNumber, formatFailures } from '../row.ts';
import type { LoadKey, LoadReport } from '../servers/ledger-load.ts';
import { median } from '../statistics.ts';
import { type GatewayTarget, startGateway, startUpstream, type Target } from '../targets.ts';

/** Settings of PostgreSQL as in production (it waits for the disk), but without checkpoints during a run. */
const durable = {
  fsync: 'on',
  full_page_writes: 'on',
  shared_buffers: '256MB',
  max_wal_size: '8GB',
  checkpoint_timeout: '1h',
};
const shapes = [
  { name: 'one hot account', accounts: 1 },
  { name: '1,000 accounts', accounts: 1000 },
] as const;
const gatewaysMax = 3;
const ratePerSecond = 1000;
const callers = 256;
const warmUpSeconds = 5;
const connections = 128;

/** The cost of an answer in a run of a load on one engine. */
interface Cost {
  readonly perSecond: number;
  readonly refused: number;
  readonly gatewayUs: number;
  readonly databaseUs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly roundTrips: number;
  readonly batchSize: number;
  readonly walBytes: number;
}

/** An engine with a load. */
interface Subject {
  readonly name: string;
  readonly ledgers: readonly LedgerProcess[];
  readonly keys: readonly LoadKey[];
  /** The database; absent on SQLite. */
  readonly database?: Database;
}

/** A database whose counters a run reads. */
interface Database {
  readonly server: PostgresServer;
  readonly connection: PostgresConnection;
}

async function readWal({ connection }: Database): Promise<number> {
  const [row] = await connection.query("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint AS bytes");
  return Number(row?.['bytes']);
}

async function readDatabase(database: Database | undefined): Promise<{ readonly cpuMs: number; readonly wal: number }> {
  if (database === undefined) return { cpuMs: 0, wal: 0 };
  return { cpuMs: readCpu(database.server.pid).totalMs, wal: await readWal(database) };
}

async function runOnce({ ledgers, keys, database }: Subject, seconds: number, rate?: number): Promise<Cost> {
  const before = await readDatabase(database);
  const each = { keys, seconds, callers: Math.ceil(callers / ledgers.length) };
  const own = rate === undefined ? each : { ...each, rate: rate / ledgers.length };
  const reports = await Promise.all(ledgers.map(ledger => ledger.run(own)));
  const after = await readDatabase(database);
  const sum = (read: (report: LoadReport) => number): number => reports.reduce((all, report) => all + read(report), 0);
  const answers = sum(report => report.answers);
  return {
    perSecond: sum(report => report.answers / report.seconds),
    refused: sum(report => report.refused),
    gatewayUs: (sum(report => report.cpuMs) * 1000) / answers,
    databaseUs: ((after.cpuMs - before.cpuMs) * 1000) / answers,
    p50Ms: median(reports.map(report => report.admitP50Ms)),
    p99Ms: Math.max(...reports.map(report => report.admitP99Ms)),
    roundTrips: sum(report => report.stats.roundTrips) / answers,
    batchSize:
      sum(report => report.stats.commands) /
      Math.max(
        1,
        sum(report => report.stats.batches),
      ),
    walBytes: (after.wal - before.wal) / answers,
  };
}

function findMedian(costs: readonly Cost[]): Cost {
  const of = (name: keyof Cost): number => median(costs.map(cost => cost[name]));
  return {
    perSecond: of('perSecond'),
    refused: costs.reduce((sum, cost) => sum + cost.refused, 0),
    gatewayUs: of('gatewayUs'),
    databaseUs: of('databaseUs'),
    p50Ms: of('p50Ms'),
    p99Ms: of('p99Ms'),
    roundTrips: of('roundTrips'),
    batchSize: of('batchSize'),
    walBytes: of('walBytes'),
  };
}

/** The runs of one subject: at a fixed rate, and at full speed. */
interface Measured {
  readonly subject: Subject;
  readonly steady: Cost[];
  readonly fast: Cost[];
}

function formatCost(cost: Cost, hasDatabase: boolean): string {
  const refused = cost.refused === 0 ? '' : `${cost.refused} refused; `;
  const cpu = `${refused}CPU of an answer ${formatNumber(cost.gatewayUs)} µs`;
  if (!hasDatabase) return cpu;
  const trips = `${formatNumber(cost.roundTrips)} round trips, ${formatNumber(cost.batchSize)} commands a batch`;
  return `${cpu} + ${formatNumber(cost.databaseUs)} µs in the database, ${trips}, ${formatNumber(cost.walBytes)} bytes of WAL`;
}

function toRows(shape: string, { subject, steady, fast }: Measured, sqlite: Cost): Row[] {
  const isDatabase = subject.database !== undefined;
  const count = subject.ledgers.length;
  const [slow, quick] = [findMedian(steady), findMedian(fast)];
  const isHot = shape === shapes[0].name;
  const p50Max = isHot ? 20 : 5;
  const hasP50Target = isDatabase && (isHot ? count === gatewaysMax : count === 1);
  const ratio = quick.perSecond / sqlite.perSecond;
  return [
    {
      what: `${shape}, ${subject.name}, ${ratePerSecond} answers a second`,
      measured: `admission p50 ${formatNumber(slow.p50Ms)} ms, p99 ${formatNumber(slow.p99Ms)} ms; ${formatCost(slow, isDatabase)}`,
      ...(hasP50Target ? { target: `p50 under ${p50Max} ms`, reached: slow.p50Ms < p50Max } : {}),
    },
    {
      what: `… as fast as it can, ${callers} callers`,
      measured: `${formatNumber(quick.perSecond)} answers a second (${formatNumber(ratio)} of SQLite’s); ${formatCost(quick, isDatabase)}`,
    },
  ];
}

/** Measures an admission and a settle on the ledger without a gateway: on SQLite, and with one to three ledgers on one PostgreSQL. */
async function ledgerRows(server: PostgresServer, settings: Settings): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-growth-'));
  const url = await createDatabase(server.url);
  const sqlite = await LedgerProcess.open('sqlite', folder);
  const onPostgres: LedgerProcess[] = [];
  for (let count = 0; count < gatewaysMax; count += 1) onPostgres.push(await LedgerProcess.open('postgres', url));
  const database = { server, connection: await PostgresConnection.open({ url, timeoutMs: 60_000 }) };
  try {
    const rows: Row[] = [];
    for (const { name, accounts } of shapes) {
      const keys = await onPostgres[0]?.make(accounts);
      const measured: Measured[] = [
        { subject: { name: 'SQLite', ledgers: [sqlite], keys: await sqlite.make(accounts) }, steady: [], fast: [] },
      ];
      for (let count = 1; count <= gatewaysMax; count += 1) {
        const subject = { ledgers: onPostgres.slice(0, count), keys: keys ?? [], database };
        const plural = count === 1 ? '1 gateway' : `${count} gateways`;
        measured.push({ subject: { name: `PostgreSQL, ${plural}`, ...subject }, steady: [], fast: [] });
      }
      await database.connection.script('CHECKPOINT', 60_000);
      for (const { subject } of measured) await runOnce(subject, warmUpSeconds, ratePerSecond);
      for (let round = 0; round < settings.rounds; round += 1) {
        for (const { subject, steady, fast } of measured) {
          steady.push(await runOnce(subject, settings.seconds, ratePerSecond));
          fast.push(await runOnce(subject, settings.seconds));
        }
      }
      const [first] = measured;
      const beside = findMedian(first?.fast ?? []);
      rows.push(...measured.flatMap(each => toRows(name, each, beside)));
    }
    rows.push(await conflictRow(database));
    for (const ledger of [sqlite, ...onPostgres]) await ledger.close();
    const violations = [...verifyLedgerFile(folder), ...(await verifyDatabase(url))];
    if (violations.length > 0) throw new Error(violations.join('\n'));
    return rows;
  } finally {
    await database.connection.end();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function conflictRow({ connection }: Database): Promise<Row> {
  const [row] = await connection.query(
    'SELECT deadlocks, xact_rollback AS undone FROM pg_stat_database WHERE datname = current_database()',
  );
  const deadlocks = Number(row?.['deadlocks']);
  return {
    what: 'deadlocks in all of that',
    measured: `${deadlocks}; ${Number(row?.['undone'])} transactions undone`,
    target: '0',
    reached: deadlocks === 0,
  };
}

/** Measures whole answers of one account over HTTP: one gateway with SQLite, and one and three gateways on PostgreSQL. */
async function gatewayRows(server: PostgresServer, settings: Settings): Promise<Row[]> {
  const upstream = await startUpstream();
  const opened: Target[] = [upstream];
  const start = async (env: Readonly<Record<string, string>>): Promise<GatewayTarget> => {
    const gateway = await startGateway(upstream, { env, isSpread: true });
    opened.push(gateway);
    return gateway;
  };
  try {
    const env = { TOLLGATE_DATABASE_URL: await createDatabase(server.url) };
    const sqlite = await start({});
    const all: GatewayTarget[] = [];
    for (let count = 0; count < gatewaysMax; count += 1) all.push(await start(env));
    const subjects = [
      { name: 'SQLite', gateways: [sqlite] },
      { name: 'PostgreSQL, 1 gateway', gateways: all.slice(0, 1) },
      { name: 'PostgreSQL, 3 gateways', gateways: all },
    ].map(subject => ({ ...subject, runs: [] as HttpRun[] }));
    const warmUp = { connections, seconds: 30, answers: settings.warmUpAnswers / 5 };
    for (const gateway of [sqlite, ...all]) await closedLoop(gateway.traffic('short'), warmUp);
    for (let round = 0; round < settings.rounds; round += 1)
      for (const { gateways, runs } of subjects) runs.push(await runHttp(gateways, server, settings.seconds));
    const medianRate = (runs: readonly HttpRun[]): number => median(runs.map(run => run.perSecond));
    return subjects.map(({ name, gateways, runs }) => {
      const ratio = medianRate(runs) / medianRate(subjects[0]?.runs ?? []);
      const hasTarget = gateways.length === 1 && gateways[0] !== sqlite;
      const of = (read: (run: HttpRun) => number): string => formatNumber(median(runs.map(read)));
      const failures = new Map(runs.flatMap(run => [...run.failures]));
      const cpu = `${of(run => run.gatewayUs)} µs + ${of(run => run.databaseUs)} µs in the database`;
      return {
        what: `whole answers over HTTP, one account, ${connections} connections, ${name}`,
        measured: `${of(run => run.perSecond)} answers a second (${formatNumber(ratio)} of SQLite’s), CPU of an answer ${cpu}${formatFailures(failures)}`,
        ...(hasTarget ? { target: 'at least 0.5 of SQLite’s', reached: ratio >= 0.5 } : {}),
      };
    });
  } finally {
    for (const target of opened.toReversed()) await target.stop();
  }
}

interface HttpRun {
  readonly perSecond: number;
  readonly gatewayUs: number;
  readonly databaseUs: number;
  readonly failures: ReadonlyMap<string, number>;
}

async function runHttp(gateways: readonly GatewayTarget[], server: PostgresServer, seconds: number): Promise<HttpRun> {
  const readCpus = (): readonly [number, number] => [
    gateways.reduce((sum, { process }) => sum + process.cpu().totalMs, 0),
    readCpu(server.pid).totalMs,
  ];
  const [gatewaysBefore, databaseBefore] = readCpus();
  const each = Math.floor(connections / gateways.length);
  const results = await Promise.all(
    gateways.map(gateway => closedLoop(gateway.traffic('short'), { connections: each, seconds })),
  );
  const [gatewaysAfter, databaseAfter] = readCpus();
  const answers = results.reduce((sum, result) => sum + result.answers, 0);
  return {
    perSecond: results.reduce((sum, result) => sum + result.answers / result.seconds, 0),
    gatewayUs: ((gatewaysAfter - gatewaysBefore) * 1000) / answers,
    databaseUs: ((databaseAfter - databaseBefore) * 1000) / answers,
    failures: new Map(results.flatMap(({ failures }) => [...failures])),
  };
}

/** Measures what answers cost with PostgreSQL, compared with SQLite in the same run. */
export async function postgres(settings: Settings): Promise<Row[]> {
  spreadSelf();
  const server = await startPostgres(durable);
  try {
    const ofLedgers = await ledgerRows(server, settings);
    pinSelf(1);
    return [...ofLedgers, ...(await gatewayRows(server, settings))];
  } finally {
    await server.stop();
  }
}
