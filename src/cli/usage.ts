import { type Command, InvalidArgumentError } from 'commander';
import { AnalyticsGranularity, AnalyticsGroup, type AnalyticsPeriod } from '../gen/tollgate/v1/account_pb.ts';
import type { Account } from '../gen/tollgate/v1/admin_pb.ts';
import { isoTime, systemClock } from '../lib/clock.ts';
import { jsonDollars } from '../lib/dollars.ts';
import { timeArgument } from './arguments.ts';
import { askGateway, type GatewayClients, type GatewayOptions } from './gateway.ts';
import { csvText, type Document, jsonText, tableText } from './output.ts';
import { addGatewayOptions, type RemotePorts } from './remote.ts';
import { addRequestFilter, type RequestFilterOptions, toRequestFilter } from './request-filter.ts';
import { accountArgument, resolveNames } from './names.ts';

/** The ways to group usage: what the gateway groups by, and the columns that identify a row. */
const groupings = {
  account: { groupBy: AnalyticsGroup.UNSPECIFIED, names: ['account_id', 'account'] },
  key: { groupBy: AnalyticsGroup.API_KEY, names: ['account_id', 'account', 'api_key_id'] },
  model: { groupBy: AnalyticsGroup.MODEL, names: ['model'] },
  group: { groupBy: AnalyticsGroup.GROUP, names: ['account_id', 'account', 'group_id', 'group'] },
  tag: { groupBy: AnalyticsGroup.TAG, names: ['value'] },
  provider: { groupBy: AnalyticsGroup.PROVIDER, names: ['provider'] },
  endpoint: { groupBy: AnalyticsGroup.ENDPOINT, names: ['endpoint'] },
  end_user: { groupBy: AnalyticsGroup.END_USER, names: ['end_user'] },
  day: { groupBy: AnalyticsGroup.UNSPECIFIED, names: ['day'] },
} as const;

/** The requested grouping; `tag` is the name of the tag, '' for any other grouping. */
interface Grouping {
  readonly by: keyof typeof groupings;
  readonly tag: string;
}

interface UsageOptions extends GatewayOptions, RequestFilterOptions {
  readonly by?: Grouping;
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
  'provider_cost',
  'margin',
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

/** Adds `usage`. */
export function usageCommand(program: Command, { streams, environment }: RemotePorts): void {
  const command = program
    .command('usage')
    .description('show what settled requests used and cost (default: in this UTC month)')
    .option('--by <what>', `${groupingNames} (default: account)`, groupingArgument)
    .option('--account <account>', 'only of this account', accountArgument)
    .option('--start <time>', 'from this day or time on (2026-11-01, 2026-11-01T12:00:00Z)', timeArgument)
    .option('--end <time>', 'before this day or time', timeArgument)

    .option('--csv', 'print comma-separated values');
  addRequestFilter(command);
  addGatewayOptions(command).action(async (options: UsageOptions) => {
    const rows = await askGateway(options, environment(), async clients => {
      const [resolved] = await resolveNames(clients.admin, 'usage', [options, command] as const);
      return readUsage(clients, resolved);
    });
    const documents = rows.map(toDocument);
    const columns = [...groupings[(options.by ?? byAccount).by].names, ...sumNames];
    if (options.json === true) streams.out(jsonText({ data: documents }));
    else streams.out((options.csv === true ? csvText : tableText)(documents, columns));
  });
}

const byAccount: Grouping = { by: 'account', tag: '' };
const groupingNames = 'account, key, model, group, tag:NAME, provider, endpoint, end_user or day';

function groupingArgument(text: string): Grouping {
  const [name = '', ...rest] = text.split(':');
  const tag = rest.join(':');
  if (Object.hasOwn(groupings, name) && (name === 'tag') === (tag !== '')) {
    return { by: name as keyof typeof groupings, tag };
  }
  throw new InvalidArgumentError(`It must be ${groupingNames}.`);
}

async function readUsage({ admin }: GatewayClients, options: UsageOptions): Promise<UsageRow[]> {
  const { account: accountId, end: endMs, start: startMs = beginningOfMonth() } = options;
  const { by, tag } = options.by ?? byAccount;
  const accounts = accountId === undefined ? (await admin.listAccounts({})).accounts : [await one(admin, accountId)];
  const rows = new Map<string, UsageRow>();
  const filter = toRequestFilter(options);
  const query = { startMs, endMs, granularity: AnalyticsGranularity.DAY, groupBy: groupings[by].groupBy, tag, filter };
  for (let first = 0; first < accounts.length; first += atOnce) {
    const answers = accounts.slice(first, first + atOnce).map(async account => {
      const { accountId: id } = account;
      const [{ analytics }, names] = await Promise.all([
        admin.getAccountAnalytics({ accountId: id, query }),
        by === 'group' ? readGroupNames(admin, id) : noNames,
      ]);
      return { account, names, series: analytics?.series ?? [] };
    });
    for (const { account, names, series } of await Promise.all(answers)) {
      for (const period of series) add(rows, nameColumns(by, account, names, period), period);
    }
  }
  return by === 'day'
    ? [...rows.values()].sort((a, b) => (String(a.names['day']) < String(b.names['day']) ? -1 : 1))
    : [...rows.values()];
}

/** The number of accounts that are read concurrently. */
const atOnce = 16;
const noNames: ReadonlyMap<bigint, string> = new Map();

async function readGroupNames(admin: GatewayClients['admin'], accountId: bigint): Promise<ReadonlyMap<bigint, string>> {
  const { groups } = await admin.listAccountGroups({ accountId });
  return new Map(groups.map(({ groupId, name }) => [groupId, name]));
}

async function one(admin: GatewayClients['admin'], accountId: bigint): Promise<Account> {
  const { account } = await admin.getAccount({ accountId });
  // A gateway of this version always returns it.
  if (account === undefined) throw new Error('the gateway answered without the account');
  return account;
}

function beginningOfMonth(): bigint {
  const [year = '', month = ''] = isoTime(systemClock.now()).split('-');
  return BigInt(Date.UTC(Number(year), Number(month) - 1));
}

/** Returns the columns that identify a row; null for requests that have no value to group by. */
function nameColumns(
  by: Grouping['by'],
  { accountId, name }: Account,
  groupNames: ReadonlyMap<bigint, string>,
  { timestampMs, group }: AnalyticsPeriod,
): Document {
  if (by === 'day') return { day: isoTime(timestampMs).slice(0, 10) };
  const account = { account_id: Number(accountId), account: name };
  if (by === 'account') return account;
  const divided = typeof group.value === 'bigint' ? Number(group.value) : (group.value ?? null);
  if (by === 'key') return { ...account, api_key_id: divided };
  if (by === 'group') {
    const groupName = typeof group.value === 'bigint' ? groupNames.get(group.value) : undefined;
    return { ...account, group_id: divided, group: groupName ?? null };
  }
  return { [groupings[by].names[0]]: divided };
}

function add(rows: Map<string, UsageRow>, names: Document, { sums }: AnalyticsPeriod): void {
  const key = JSON.stringify(names);
  const row = rows.get(key) ?? { names, sums: zeroes() };
  rows.set(key, row);
  row.sums.requests += sums?.requests ?? 0n;
  row.sums.failed_requests += sums?.failedRequests ?? 0n;
  row.sums.cost += sums?.costNanoUsd ?? 0n;
  row.sums.provider_cost += sums?.providerCostNanoUsd ?? 0n;
  row.sums.margin += sums?.marginNanoUsd ?? 0n;
  row.sums.input_tokens += sums?.inputTokens ?? 0n;
  row.sums.output_tokens += sums?.outputTokens ?? 0n;
  row.sums.cache_creation_input_tokens += sums?.cacheWriteTokens ?? 0n;
  row.sums.cache_read_input_tokens += sums?.cacheReadTokens ?? 0n;
}

function zeroes(): Record<SumName, bigint> {
  return Object.fromEntries(sumNames.map(name => [name, 0n])) as Record<SumName, bigint>;
}

function toDocument({ names, sums: { cost, provider_cost, margin, ...counts } }: UsageRow): Document {
  const { requests, failed_requests, ...tokens } = Object.fromEntries(
    Object.entries(counts).map(([name, count]) => [name, Number(count)]),
  );
  const money = { cost: jsonDollars(cost), provider_cost: jsonDollars(provider_cost), margin: jsonDollars(margin) };
  return { ...names, requests, failed_requests, ...money, ...tokens };
}
