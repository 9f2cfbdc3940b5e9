import { Code, ConnectError } from '@connectrpc/connect';
import type { Command } from 'commander';
import type { ActivityRecord } from '../gen/tollgate/v1/account_pb.ts';
import type { VoidedHold } from '../gen/tollgate/v1/admin_pb.ts';
import type { RequestBodies } from '../gen/tollgate/v1/bodies_pb.ts';
import { isoTime } from '../lib/clock.ts';
import { jsonDollars } from '../lib/dollars.ts';
import { arithmeticJson, recordJson } from '../rpc/account-json.ts';
import { bodiesJson } from '../rpc/bodies-json.ts';
import { countArgument, timeArgument } from './arguments.ts';
import { CommandFailure } from './failure.ts';
import type { GatewayClients } from './gateway.ts';
import type { Document } from './output.ts';
import { addRequestFilter, type RequestFilterOptions, toRequestFilter } from './request-filter.ts';
import { type RemotePorts, ResourceCommands } from './remote.ts';
import type { ResourceView } from './resources.ts';
import { accountArgument } from './names.ts';

const recordColumns = [
  'created_at',
  'request_id',
  'model',
  'api_key_id',
  'state',
  'input_tokens',
  'output_tokens',
  'cost',
];

const recordView: ResourceView<ActivityRecord> = {
  document: record => ({ ...recordJson(record), ...toCharge(record) }),
  columns: recordColumns,
};
const arithmeticView: ResourceView<ActivityRecord> = {
  document: record => ({ ...arithmeticJson(record), ...toCharge(record) }),
  columns: recordColumns,
};

const bodiesView: ResourceView<RequestBodies> = {
  document: bodies => ({ ...bodiesJson(bodies) }),
  columns: ['request_id', 'model', 'failed', 'kept_at', 'ends_at'],
};

/** Returns what the provider charged, and the margin; null if unknown. */
function toCharge({ costNanoUsd, providerCostNanoUsd: charged }: ActivityRecord): Document {
  const [provider_cost, margin] =
    charged === undefined ? [null, null] : [charged, costNanoUsd - charged].map(jsonDollars);
  return { provider_cost, margin };
}

const holdView: ResourceView<VoidedHold> = {
  document: hold => ({
    account_id: Number(hold.accountId),
    api_key_id: Number(hold.apiKeyId),
    model: hold.model,
    amount: jsonDollars(hold.amountNanoUsd),
    admitted_at: isoTime(hold.admittedAtMs),
    voided_at: isoTime(hold.voidedAtMs),
    reason: hold.reason,
  }),
  columns: ['voided_at', 'account_id', 'api_key_id', 'model', 'amount', 'admitted_at', 'reason'],
};

interface RequestFilter extends RequestFilterOptions {
  readonly account: bigint;
  readonly batch?: string;
  readonly start?: bigint;
  readonly end?: bigint;
  readonly limit?: number;
  readonly offset?: number;
}

/** Adds `requests list | show`. */
export function requestCommands(program: Command, ports: RemotePorts): void {
  const group = program.command('requests').description('settled requests and what they cost');
  const list = new ResourceCommands(group, ports, recordView)
    .list('list an account’s settled requests, newest first', async ({ admin }, filter: RequestFilter) => {
      const { account: accountId, batch: batchId = '', start: startMs, end: endMs, limit = 0, offset = 0 } = filter;
      const query = { ...toRequestFilter(filter), batchId, startMs, endMs, limit, offset };
      return (await admin.listAccountActivity({ accountId, query })).records;
    })
    .requiredOption('--account <account>', 'the account', accountArgument)
    .option('--batch <id>', 'only items of this batch')
    .option('--start <time>', 'admitted from this day or time on', timeArgument)
    .option('--end <time>', 'admitted before this day or time', timeArgument)
    .option('--limit <number>', 'how many, at most 1000 (default: 100)', countArgument)
    .option('--offset <number>', 'how many of the newest to skip', countArgument);
  addRequestFilter(list);
  new ResourceCommands(group, ports, arithmeticView)
    .one(
      'show',
      'show a settled request and how its cost was calculated',
      (clients, requestId: string, { account }: { account?: bigint }) => findRecord(clients, requestId, account),
    )
    .argument('<request_id>', 'the request: the x-request-id of its answer')
    .option('--account <account>', 'its account (default: all accounts are searched)', accountArgument);
  new ResourceCommands(group, ports, bodiesView)
    .one(
      'bodies',
      'show the bodies of a request, if they were stored',
      async ({ admin }, requestId: string, { account: accountId }: { account: bigint }) =>
        keptBodies((await admin.getAccountRequestBodies({ accountId, requestId })).bodies, requestId),
    )
    .argument('<request_id>', 'the request: the x-request-id of its answer')
    .requiredOption('--account <account>', 'its account', accountArgument);
}

/** Returns the record of a request, of the given account or of any. Throws the gateway's error if there is none. */
async function findRecord({ admin }: GatewayClients, requestId: string, account: bigint | undefined) {
  const ids =
    account === undefined ? (await admin.listAccounts({})).accounts.map(({ accountId }) => accountId) : [account];
  const last = ids.pop() ?? 1n;
  for (const accountId of ids) {
    try {
      return (await admin.getAccountActivity({ accountId, requestId })).record;
    } catch (thrown) {
      if (ConnectError.from(thrown).code !== Code.NotFound) throw thrown;
    }
  }
  return (await admin.getAccountActivity({ accountId: last, requestId })).record;
}

/** Adds `holds list`. */
export function holdCommands(program: Command, ports: RemotePorts): void {
  const group = program.command('holds').description('holds that were voided without a charge');
  new ResourceCommands(group, ports, holdView)
    .list(
      'list holds that were voided after a crash or because they expired, newest first',
      async ({ admin }, { limit }: { limit?: number }) => (await admin.listVoidedHolds({ limit: limit ?? 0 })).holds,
    )
    .option('--limit <number>', 'how many, at most 1000 (default: 100)', countArgument);
}

/** Returns the stored bodies. Throws if none were stored. */
function keptBodies(bodies: RequestBodies | undefined, requestId: string): RequestBodies {
  if (bodies === undefined) throw new CommandFailure(1, [`No bodies of request ${requestId} are kept.`]);
  return bodies;
}
