/**
 * Measures how fast the dashboard's pages get their data: `node bench/dashboard.ts DATA_DIR [PART_OF_NAME]` starts a gateway on a data directory that `bench/dashboard-rows.ts` has filled, makes the calls of
 * each page (of those whose name contains PART_OF_NAME), and prints their times and the CPU time of the gateway for each.
 */
import { createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { AdminService } from '../src/gen/tollgate/v1/admin_pb.ts';
import { AnalyticsGranularity, AnalyticsGroup } from '../src/gen/tollgate/v1/account_pb.ts';
import { CatalogService } from '../src/gen/tollgate/v1/catalog_pb.ts';
import { DashboardService } from '../src/gen/tollgate/v1/dashboard_pb.ts';
import { percentile } from './statistics.ts';

const [dataDir = '', only = ''] = process.argv.slice(2);
const rounds = 15;
const dayMs = 86_400_000;
const hourMs = 3_600_000;
const waitMs = 600_000;

const environment = { ...process.env, TOLLGATE_DATA_DIR: dataDir, TOLLGATE_PORT: '0', TOLLGATE_RPC_PORT: '0' };
const gateway = spawn(process.execPath, ['bin/tollgate.js', 'serve'], { env: environment });
const rpcUrl = await new Promise<string>((resolve, reject) => {
  let printed = '';
  gateway.stderr.on('data', (chunk: Buffer) => {
    printed += chunk.toString();
    const found = /"rpc_url":"([^"]+)"/.exec(printed)?.[1];
    if (found !== undefined) resolve(found);
  });
  gateway.stdout.resume();
  gateway.once('exit', code => reject(new Error(`the gateway ended with ${String(code)}: ${printed}`)));
});

let cookie = '';
const transport = createConnectTransport({
  baseUrl: `${rpcUrl}/dashboard/rpc`,
  httpVersion: '1.1',
  // Like the pages.
  useBinaryFormat: true,
  interceptors: [
    next => async request => {
      request.header.set('sec-fetch-site', 'same-origin');
      request.header.set('x-tollgate-account-id', '1');
      if (cookie !== '') request.header.set('cookie', cookie);
      const response = await next(request);
      for (const each of response.header.getSetCookie()) cookie = each.split(';', 1)[0] ?? '';
      return response;
    },
  ],
});
const admin = createClient(AdminService, transport);
const dashboard = createClient(DashboardService, transport);
const catalog = createClient(CatalogService, transport);

async function signIn(): Promise<void> {
  const command = spawn(process.execPath, ['bin/tollgate.js', 'dashboard'], {
    env: { ...environment, TOLLGATE_RPC_PORT: new URL(rpcUrl).port, BROWSER: 'none' },
  });
  let printed = '';
  for await (const chunk of command.stdout) printed += String(chunk);
  const token = /#(?:[a-z]+=)?([\w-]{20,})/.exec(printed)?.[1] ?? /([\w-]{30,})\s*$/.exec(printed)?.[1] ?? '';
  await dashboard.signIn({ credential: token });
}

const accountId = 1n;
const nowMs = Date.now();
const span = (days: number) => ({ startMs: BigInt(nowMs - days * dayMs), endMs: BigInt(nowMs) });
const sums =
  (days: number, groupBy: AnalyticsGroup, more = {}) =>
  () =>
    admin.getAccountAnalytics({
      accountId,
      query: {
        ...span(days),
        granularity: days > 2 ? AnalyticsGranularity.DAY : AnalyticsGranularity.HOUR,
        groupBy,
        // As the page asks.
        groupsMax: 5,
        ...more,
      },
    });
const list = (query: object) => () => admin.listAccountActivity({ accountId, query: { limit: 100, ...query } });

const calls: Readonly<Record<string, () => Promise<unknown>>> = {
  'Now: first message': async () => {
    const abort = new AbortController();
    for await (const _ of dashboard.watchNow({}, { signal: abort.signal })) break;
    abort.abort();
  },
  'Activity: sums of 24 h by model': sums(1, AnalyticsGroup.MODEL),
  'Activity: sums of 30 days by model': sums(30, AnalyticsGroup.MODEL),
  'Activity: sums of 90 days by key': sums(90, AnalyticsGroup.API_KEY),
  'Activity: sums of 30 days by end user': sums(30, AnalyticsGroup.END_USER),
  'Activity: sums of 30 days by tag': sums(30, AnalyticsGroup.TAG, { tag: 'team' }),
  'Activity: sums of a key by model': sums(30, AnalyticsGroup.MODEL, { filter: { apiKeyId: 7n } }),
  'Activity: sums of a model by key': sums(30, AnalyticsGroup.API_KEY, { filter: { model: 'acme/model-3' } }),
  'Activity: sums of a model, key and tag': sums(30, AnalyticsGroup.UNSPECIFIED, {
    filter: { model: 'acme/model-7', apiKeyId: 7n, tag: 'team:team-3' },
  }),
  'Activity: sums of an end user and model': sums(30, AnalyticsGroup.UNSPECIFIED, {
    filter: { model: 'acme/model-8', endUser: 'user-7' },
  }),
  'Activity: sums of a tag by end user': sums(30, AnalyticsGroup.END_USER, { filter: { tag: 'team:team-3' } }),
  'Activity: 90 days of a provider by tag': sums(90, AnalyticsGroup.TAG, {
    tag: 'team',
    filter: { provider: 'provider-1' },
  }),
  'Activity: 90 days of a tag by key': sums(90, AnalyticsGroup.API_KEY, { filter: { tag: 'team:team-3' } }),
  'Activity: 24 h of a tag and provider by model': sums(1, AnalyticsGroup.MODEL, {
    filter: { tag: 'team:team-3', provider: 'provider-1' },
  }),
  'Activity: newest': list({}),
  'Activity: of a model, key and tag': list({ model: 'acme/model-7', apiKeyId: 7n, tag: 'team:team-3' }),
  'Activity: of an end user and a model': list({ endUser: 'user-7', model: 'acme/model-8' }),
  'Activity: of an end user and another model': list({ endUser: 'user-7', model: 'acme/model-2' }),
  'Activity: of a tag and a rare provider': list({ tag: 'team:team-3', provider: 'provider-4' }),
  'Activity: of 30 days, page 11': list({ ...span(30), offset: 1_000 }),
  'Activity: of a model': list({ model: 'acme/model-3' }),
  'Activity: of a key': list({ apiKeyId: 7n }),
  'Activity: of an end user': list({ endUser: 'user-7' }),
  'Activity: of a provider': list({ provider: 'provider-1' }),
  'Activity: of a rare provider': list({ provider: 'provider-4' }),
  'Activity: of a tag': list({ tag: 'team:team-3' }),
  'Activity: of a rare tag': list({ tag: 'team:team-12' }),
  'Activity: of a tag that nothing has': list({ tag: 'team:nobody' }),
  'Activity: of a group that nothing has': list({ groupId: 4n }),
  'Keys: keys': () => admin.listApiKeys({ accountId }),
  'Keys: limits': () => admin.listAccountLimits({ accountId }),
  'Keys: groups': () => admin.listAccountGroups({ accountId }),
  'Who pays next': () => admin.getKeyNextPayment({ apiKeyId: 1n, model: 'sim/large' }),
  'Accounts: accounts': () => admin.listAccounts({}),
  'Accounts: entries': () => admin.listAccountEntries({ accountId, query: { limit: 100 } }),
  'Accounts: entries and charges': () =>
    admin.listAccountEntries({ accountId, charges: true, query: { limit: 1_000, startMs: BigInt(nowMs - dayMs) } }),
  'Accounts: audit': () => admin.listAccountAudit({ accountId, query: { limit: 100 } }),
  'Models: models': () => catalog.listModels({}),
  'Models: routes': () => admin.listRoutes({}),
};

/** Returns the CPU time of the gateway so far, in ms. On a busy machine it means more than the elapsed time. Only on Linux. */
function readCpuMs(): number {
  const fields =
    readFileSync(`/proc/${String(gateway.pid)}/stat`, 'utf8')
      .split(') ', 2)[1]
      ?.split(' ') ?? [];
  const ticks = Number(fields[11]) + Number(fields[12]);
  return ticks * 10;
}

/** Waits until the gateway has made the column files of the rows, which it does once in the background. */
async function waitForColumns(): Promise<void> {
  const folder = join(dataDir, 'columns', String(accountId));
  const isDone = (): boolean =>
    existsSync(folder) && readdirSync(folder).some(name => Number(name.split('-')[1]) > (nowMs - dayMs) / hourMs);
  const began = Date.now();
  while (!isDone() && Date.now() - began < waitMs) await setTimeout(1000);
  process.stdout.write(`waited ${Math.round((Date.now() - began) / 1000)} s for column files\n`);
}

try {
  await signIn();
  await waitForColumns();
  const { records } = await admin.listAccountActivity({ accountId, query: { limit: 1 } });
  const requestId = records[0]?.requestId ?? '';
  const all = { ...calls, 'Request: its receipt': () => admin.getAccountActivity({ accountId, requestId }) };
  process.stdout.write(
    `load ${loadavg()
      .map(load => load.toFixed(1))
      .join(' ')}\n`,
  );
  for (const [name, call] of Object.entries(all).filter(([each]) => each.includes(only))) {
    const times: number[] = [];
    const cpuMs = readCpuMs();
    for (let round = 0; round < rounds; round++) {
      const began = performance.now();
      await call();
      times.push(performance.now() - began);
      if (round === 0 && times[0] !== undefined && times[0] > 5_000) break;
    }
    const [first = 0] = times;
    const cpu = (readCpuMs() - cpuMs) / times.length;
    times.sort((one, other) => one - other);
    const formatMs = (ms: number): string => `${ms.toFixed(0).padStart(7)} ms`;
    const [p50, p95] = [percentile(times, 0.5), percentile(times, 0.95)];
    process.stdout.write(
      `${name.padEnd(42)} p50 ${formatMs(p50)}  p95 ${formatMs(p95)}  first ${formatMs(first)}  cpu ${formatMs(cpu)}\n`,
    );
  }
} finally {
  gateway.kill('SIGTERM');
}
