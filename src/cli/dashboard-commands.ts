import type { Command } from 'commander';
import { PersonRole, type Session } from '../gen/tollgate/v1/dashboard_pb.ts';
import { isoTime } from '../lib/clock.ts';
import { idArgument } from './arguments.ts';
import { askGateway, type GatewayOptions } from './gateway.ts';
import { jsonText } from './output.ts';
import type { CommandLinePorts } from './ports.ts';
import { addGatewayOptions, ResourceCommands } from './remote.ts';
import type { ResourceView } from './resources.ts';
import { accountArgument } from './names.ts';

const roles: Readonly<Partial<Record<PersonRole, string>>> = {
  [PersonRole.OPERATOR]: 'operator',
  [PersonRole.OWNER]: 'owner',
  [PersonRole.MEMBER]: 'member',
  [PersonRole.VIEWER]: 'viewer',
};

/** Shows a session; `account_id` is null for the operator's. */
const sessionView: ResourceView<Session> = {
  document: ({ sessionId, role, subject, accountId, createdAtMs, expiresAtMs }) => ({
    session_id: Number(sessionId),
    role: roles[role] ?? null,
    subject,
    account_id: accountId === 0n ? null : Number(accountId),
    created_at: isoTime(createdAtMs),
    expires_at: isoTime(expiresAtMs),
  }),
  columns: ['session_id', 'role', 'subject', 'account_id', 'created_at', 'expires_at'],
};

type DashboardPorts = Pick<CommandLinePorts, 'streams' | 'environment' | 'openBrowser'>;

/** Adds `dashboard`, and `sessions list | revoke`. */
export function dashboardCommands(program: Command, ports: DashboardPorts): void {
  const { streams, environment, openBrowser } = ports;
  const dashboard = program
    .command('dashboard')
    .description('print a link that signs the operator in to the dashboard once, and open it in the browser');
  addGatewayOptions(dashboard).action(async (options: GatewayOptions & { readonly json?: true }) => {
    const link = await askGateway(options, environment(), ({ admin }) => admin.createSignInLink({}));
    const document = { url: link.url, expires_at: isoTime(link.expiresAtMs) };
    streams.out(options.json === true ? jsonText(document) : `${link.url}\n`);
    openBrowser(link.url);
  });
  const group = program.command('sessions').description('who is signed in to the dashboard');
  const sessions = new ResourceCommands(group, ports, sessionView);
  sessions
    .list(
      'list the sessions that have not ended',
      async ({ admin }, { account: accountId = 0n }: { account?: bigint }) =>
        (await admin.listSessions({ accountId })).sessions,
    )
    .option('--account <account>', 'only of this account', accountArgument);
  sessions
    .one(
      'revoke',
      'end a session at once',
      async ({ admin }, sessionId: bigint) => (await admin.revokeSession({ sessionId })).session,
    )
    .argument('<session_id>', 'the session', idArgument);
}
