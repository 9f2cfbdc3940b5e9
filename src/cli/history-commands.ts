import type { Command } from 'commander';
import type { AuditRecord, Entry } from '../gen/tollgate/v1/history_pb.ts';
import { auditJson, entryJson } from '../rpc/history-json.ts';
import { countArgument, timeArgument } from './arguments.ts';
import { type RemotePorts, ResourceCommands } from './remote.ts';
import type { ResourceView } from './resources.ts';
import { accountArgument } from './names.ts';

/** The commands that show the history of accounts: entries and the audit. */

/** Shows an entry or a charge; a table has one column for the balance that it changed. */
export const entryView: ResourceView<Entry> = {
  document: entry => ({ account_id: Number(entry.accountId), ...entryJson(entry) }),
  columns: ['entry_id', 'created_at', 'kind', 'pocket', 'amount', 'balance_after', 'written_off', 'note', 'request_id'],
  row: entry => ({ ...entryJson(entry), pocket: nameBalance(entry) }),
};

function nameBalance({ apiKeyId, groupId }: Entry): string {
  if (apiKeyId !== undefined) return `key ${apiKeyId}`;
  return groupId === undefined ? 'account' : `group ${groupId}`;
}

const auditView: ResourceView<AuditRecord> = {
  document: record => ({ account_id: record.accountId === 0n ? null : Number(record.accountId), ...auditJson(record) }),
  columns: ['created_at', 'account_id', 'audit_id', 'actor', 'action', 'resource', 'address', 'request_id'],
  row: record => {
    const { actor, resource, ...others } = auditJson(record);
    const join = ({ type, id }: typeof actor): string => (id === null ? type : `${type} ${id}`);
    const account_id = record.accountId === 0n ? null : Number(record.accountId);
    return { ...others, account_id, actor: join(actor), resource: join(resource) };
  },
};

interface PageOptions {
  readonly start?: bigint;
  readonly end?: bigint;
  readonly limit?: number;
  readonly offset?: number;
}

/** Returns the page that the options request. */
export function toPage({ start: startMs, end: endMs, limit = 0, offset = 0 }: PageOptions) {
  return { startMs, endMs, limit, offset };
}

/** Adds the options that request a page of history. */
export function withPage(command: Command): Command {
  return command
    .option('--start <time>', 'from this day or time on', timeArgument)
    .option('--end <time>', 'before this day or time', timeArgument)
    .option('--limit <number>', 'how many, at most 1000 (default: 100)', countArgument)
    .option('--offset <number>', 'how many of the newest to skip', countArgument);
}

/** Adds `entries` and `audit`. */
export function historyCommands(program: Command, ports: RemotePorts): void {
  const entries = program.command('entries').description('movements of an account’s balances besides charges');
  withPage(
    new ResourceCommands(entries, ports, entryView)
      .list(
        'list credits, moves, plan prices and write-offs, newest first',
        async (
          { admin },
          { account: accountId, all = false, ...page }: PageOptions & { account: bigint; all?: boolean },
        ) => (await admin.listAccountEntries({ accountId, query: toPage(page), charges: all })).entries,
      )
      .requiredOption('--account <account>', 'the account', accountArgument)
      .option('--all', 'also list the charges of settled requests'),
  );
  const audit = program.command('audit').description('who changed what');
  withPage(
    new ResourceCommands(audit, ports, auditView)
      .list(
        'list the actions of the operator and of accounts, newest first',
        async (
          { admin },
          { account: accountId, operator, ...page }: PageOptions & { account?: bigint; operator?: true },
        ) => {
          const of = operator === true ? 0n : accountId;
          const { records } = await admin.listAccountAudit({
            query: toPage(page),
            ...(of === undefined ? {} : { accountId: of }),
          });
          return records;
        },
      )
      .option('--account <account>', 'only of this account', accountArgument)
      .option('--operator', 'only actions that concern no account'),
  );
}
