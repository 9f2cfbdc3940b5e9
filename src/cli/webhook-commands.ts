import type { Command } from 'commander';
import type { Webhook, WebhookEvent } from '../gen/tollgate/v1/webhook_pb.ts';
import { webhookEventJson, webhookJson } from '../rpc/webhook-json.ts';
import { countArgument, idArgument, nameArgument, requireChange, wordsArgument } from './arguments.ts';
import { type RemotePorts, ResourceCommands } from './remote.ts';
import type { ResourceView } from './resources.ts';
import { accountArgument } from './names.ts';

/** The commands for webhooks. */

const webhookView: ResourceView<Webhook> = {
  document: webhook => {
    const { webhook_id, ...others } = webhookJson(webhook);
    return { webhook_id, account_id: webhook.accountId === 0n ? null : Number(webhook.accountId), ...others };
  },
  columns: ['webhook_id', 'account_id', 'url', 'events', 'disabled', 'created_at'],
};

const eventView: ResourceView<WebhookEvent> = {
  document: webhookEventJson,
  columns: ['event_id', 'type', 'created_at', 'state', 'attempts', 'status', 'error', 'next_attempt_at'],
};

const states = { pending: 'pending', delivered: 'delivered', failed: 'failed' } as const;

interface SettingsOptions {
  readonly url?: string;
  readonly events?: string[];
  readonly disable?: boolean;
  readonly enable?: boolean;
}

function toSettings({ url, events, disable, enable }: SettingsOptions) {
  const disabled = disable === true ? true : enable === true ? false : undefined;
  return { url, disabled, events: events && { types: events } };
}

interface EventsOptions {
  readonly state?: string;
  readonly limit?: number;
  readonly offset?: number;
}

/** Adds `webhooks create | list | update | delete | events | replay`. */
export function webhookCommands(program: Command, ports: RemotePorts): void {
  const group = program
    .command('webhooks')
    .description('addresses that receive events; without --account, those of the operator');
  const webhooks = new ResourceCommands(group, ports, webhookView);
  const events = new ResourceCommands(group, ports, eventView);
  webhooks
    .one(
      'create',
      'create a webhook; the secret that signs its events is shown only once',
      async ({ admin }, { account: accountId = 0n, ...given }: SettingsOptions & { account?: bigint }) =>
        (await admin.createAccountWebhook({ accountId, settings: toSettings(given) })).webhook,
    )
    .requiredOption('--url <address>', 'where events are posted')
    .option(
      '--account <account>',
      'the account whose events are sent; without it, events of the operator and of all accounts',
      accountArgument,
    )
    .option('--events <types>', 'event types, separated by commas (default: all)', wordsArgument);
  webhooks
    .list('list webhooks', async ({ admin }, { account: accountId = 0n }: { account?: bigint }) => {
      const answer = await admin.listAccountWebhooks({ accountId });
      return answer.webhooks;
    })
    .option('--account <account>', 'list the webhooks of this account', accountArgument);
  webhooks
    .one('update', 'change a webhook', async ({ admin }, webhookId: bigint, given: SettingsOptions) => {
      const settings = requireChange('webhooks update', toSettings(given));
      const { webhook } = await admin.updateAccountWebhook({ webhookId, settings });
      return webhook;
    })
    .argument('<webhook_id>', 'the webhook', idArgument)
    .option('--url <address>', 'where events are posted')
    .option('--events <types>', 'event types, separated by commas', wordsArgument)
    .option('--disable', 'stop sending events to it')
    .option('--enable', 'send events to it again');
  webhooks
    .done('delete', 'delete a webhook', async ({ admin }, webhookId: bigint) => {
      await admin.deleteAccountWebhook({ webhookId });
      return `webhook ${webhookId} deleted`;
    })
    .argument('<webhook_id>', 'the webhook', idArgument);
  events
    .list(
      'list the events of a webhook, sent and waiting, newest first',
      async ({ admin }, webhookId: bigint, { state = '', limit = 0, offset = 0 }: EventsOptions) =>
        (await admin.listAccountWebhookEvents({ query: { webhookId, state, limit, offset } })).events,
      'events',
    )
    .argument('<webhook_id>', 'the webhook', idArgument)
    .option('--state <pending|delivered|failed>', 'list only events in this state', nameArgument(states))
    .option('--limit <number>', 'how many events to list, at most 1000 (default: 100)', countArgument)
    .option('--offset <number>', 'how many of the newest events to skip', countArgument);
  events
    .one('replay', 'send an event again', async ({ admin }, webhookId: bigint, eventId: string) => {
      const { event } = await admin.replayAccountWebhookEvent({ webhookId, eventId });
      return event;
    })
    .argument('<webhook_id>', 'the webhook', idArgument)
    .argument('<event_id>', 'the event (evt_…)');
}
