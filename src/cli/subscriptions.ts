import { type Command, InvalidArgumentError } from 'commander';
import { Plan, PlanPeriod, type Subscription } from '../gen/tollgate/v1/admin_pb.ts';
import { idArgument } from './arguments.ts';
import type { Document } from './output.ts';
import { present, printResource, remote, type RemoteOptions, type RemotePorts } from './remote.ts';
import { subscriptionDocument } from './resources.ts';

interface StartOptions extends RemoteOptions {
  readonly plan: Plan;
  readonly period: PlanPeriod;
}

/** `subscriptions start | show | cancel`. */
export function subscriptionCommands(program: Command, ports: RemotePorts): void {
  const subscriptions = program.command('subscriptions').description('plans of accounts');
  remote(subscriptions.command('start'))
    .description('start a plan: its price is debited from the account now and at each renewal')
    .argument('<account_id>', 'the account', idArgument)
    .requiredOption('--plan <plan>', 'core or core_pro', planArgument)
    .requiredOption('--period <period>', 'biweekly or monthly', periodArgument)
    .action((accountId: bigint, options: StartOptions) =>
      printResource(ports, options, async ({ admin }) => {
        const { plan, period } = options;
        return shown((await admin.startSubscription({ accountId, plan, period })).subscription);
      }),
    );
  remote(subscriptions.command('show'))
    .description('show an account’s plan and what is left of it')
    .argument('<account_id>', 'the account', idArgument)
    .action((accountId: bigint, options: RemoteOptions) =>
      printResource(ports, options, async ({ admin }) =>
        shown((await admin.getSubscription({ accountId })).subscription),
      ),
    );
  remote(subscriptions.command('cancel'))
    .description('let an account’s plan end with its period')
    .argument('<account_id>', 'the account', idArgument)
    .action((accountId: bigint, options: RemoteOptions) =>
      printResource(ports, options, async ({ admin }) =>
        shown((await admin.cancelSubscription({ accountId })).subscription),
      ),
    );
}

function planArgument(text: string): Plan {
  if (text === 'core') return Plan.CORE;
  if (text === 'core_pro') return Plan.CORE_PRO;
  throw new InvalidArgumentError('It must be core or core_pro.');
}

function periodArgument(text: string): PlanPeriod {
  if (text === 'biweekly') return PlanPeriod.BIWEEKLY;
  if (text === 'monthly') return PlanPeriod.MONTHLY;
  throw new InvalidArgumentError('It must be biweekly or monthly.');
}

function shown(subscription: Subscription | undefined): Document {
  return subscriptionDocument(present(subscription));
}
