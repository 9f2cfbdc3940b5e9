import type { Command } from 'commander';
import { AnalyticsGranularity, AnalyticsGroup, type AnalyticsPeriod } from '../gen/tollgate/v1/account_pb.ts';
import type { Account } from '../gen/tollgate/v1/admin_pb.ts';
import { isoTime, systemClock } from '../lib/clock.ts';
import { jsonDollars } from '../lib/dollars.ts';
import { idArgument, nameArgument, timeArgument } from './arguments.ts';
import { askGateway, type GatewayClients, type GatewayOptions } from './gateway.ts';
import { csvText, type Document, jsonText, tableText } from './output.ts';
import { addGatewayOptions, type RemotePorts } from './remote.ts';

/** What usage is divided by: the group that is asked for, and the columns that name a row. */
const divisions = {
  account: { groupBy: AnalyticsGroup.UNSPECIFIED, names: ['account_id', 'account'] },
  key: { groupBy: AnalyticsGroup.API_KEY, names: ['account_id', 'account', 'api_key_id'] },
  model: { groupBy: AnalyticsGroup.MODEL, names: ['model'] },
  day: { groupBy: AnalyticsGroup.UNSPECIFIED, names: ['day'] },
} as const;

type Division = keyof typeof divisions;

interface UsageOptions extends GatewayOptions {
  readonly by: Division;
  readonly account?: bigint;
  readonly start?: bigint;
  readonly end?: bigint;
  readonly csv?: true;
  readonly json?: true;
}

const sumNames = [
  'requests',
  'failed_requests',
  'cost',
  'input_tokens',
  'output_tokens',
  'cache_creation_input_tokens',
  'cache_read_input_tokens',
] as const;

type SumName = (typeof sumNames)[number];

interface UsageRow {
  readonly names: Document;
  readonly sums: Record<SumName, bigint>;
}

/** `usage`. */
export function usageCommand(program: Command, { streams, environment }: RemotePorts): void {
  const command = program
    .command('usage')
    .description('what settled requests have used and cost, of this UTC month where no time is named')
    .option(
      '--by <what>',
      'account, key, model or day',
      nameArgument({ account: 'account', key: 'key', model: 'model', day: 'day' }),
      'account',
    )
    .option('--account <account_id>', 'of this account alone', idArgument)
    .option('--start <time>', 'from this day or time on (2026-11-01, 2026-11-01T12:00:00Z)', timeArgument)
    .option('--end <time>', 'before this day or time', timeArgument)
    .option('--csv', 'print comma-separated values');
  addGatewayOptions(command).action(async (options: UsageOptions) => {
    const rows = await askGateway(options, environment(), clients => readUsage(clients, options));
    const documents = rows.map(toDocument);
    const columns = [...divisions[options.by].names, ...sumNames];
    if (options.json === true) streams.out(jsonText({ data: documents }));
    else streams.out((options.csv === true ? csvText : tableText)(documents, columns));
  });
}

async function readUsage({ admin }: GatewayClients, options: UsageOptions): Promise<UsageRow[]> {
  const { by, account: accountId, end: endMs, start: startMs = beginningOfMonth() } = options;
  const accounts = accountId === undefined ? (await admin.listAccounts({})).accounts : [await one(admin, accountId)];
  const rows = new Map<string, UsageRow>();
  for (const account of accounts) {
    const query = { startMs, endMs, granularity: AnalyticsGranularity.DAY, groupBy: divisions[by].groupBy };
    const { analytics } = await admin.getAccountAnalytics({ accountId: account.accountId, query });
    for (const period of analytics?.series ?? []) add(rows, namesOf(by, account, period), period);
  }
  return by === 'day'
    ? [...rows.values()].sort((a, b) => (String(a.names['day']) < String(b.names['day']) ? -1 : 1))
    : [...rows.values()];
}

async function one(admin: GatewayClients['admin'], accountId: bigint): Promise<Account> {
  const { account } = await admin.getAccount({ accountId });
  // The contract promises it: its absence means another version of the gateway.
  if (account === undefined) throw new Error('the gateway answered without the account');
  return account;
}

function beginningOfMonth(): bigint {
  const [year = '', month = ''] = isoTime(systemClock.now()).split('-');
  return BigInt(Date.UTC(Number(year), Number(month) - 1));
}

function namesOf(by: Division, { accountId, name }: Account, { timestampMs, group }: AnalyticsPeriod): Document {
  if (by === 'day') return { day: isoTime(timestampMs).slice(0, 10) };
  if (by === 'model') return { model: group.value ?? '' };
  const account = { account_id: Number(accountId), account: name };
  return by === 'account' ? account : { ...account, api_key_id: Number(group.value ?? 0) };
}

function add(rows: Map<string, UsageRow>, names: Document, { sums }: AnalyticsPeriod): void {
  const key = JSON.stringify(names);
  const row = rows.get(key) ?? { names, sums: zeroes() };
  rows.set(key, row);
  row.sums.requests += sums?.requests ?? 0n;
  row.sums.failed_requests += sums?.failedRequests ?? 0n;
  row.sums.cost += sums?.costNanoUsd ?? 0n;
  row.sums.input_tokens += sums?.inputTokens ?? 0n;
  row.sums.output_tokens += sums?.outputTokens ?? 0n;
  row.sums.cache_creation_input_tokens += sums?.cacheWriteTokens ?? 0n;
  row.sums.cache_read_input_tokens += sums?.cacheReadTokens ?? 0n;
}

function zeroes(): Record<SumName, bigint> {
  return Object.fromEntries(sumNames.map(name => [name, 0n])) as Record<SumName, bigint>;
}

function toDocument({ names, sums: { cost, ...counts } }: UsageRow): Document {
  const { requests, failed_requests, ...tokens } = Object.fromEntries(
    Object.entries(counts).map(([name, count]) => [name, Number(count)]),
  );
  return { ...names, requests, failed_requests, cost: jsonDollars(cost), ...tokens };
}
