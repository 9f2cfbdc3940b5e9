import * as z from 'zod';
import { accountChangeSchema, webhookSettingsSchema } from '../../webhook-body.ts';
import { named } from '../json-schema.ts';
import { account } from './account.ts';
import { anyObject, count, dollars, id, time } from './fields.ts';

/** Webhooks, and an account's past. Source: docs/interfaces/account.md "Webhooks", "Entries and audit". */

/** The body that changes the account. */
export const accountSettings = named('AccountSettings', accountChangeSchema, {
  low_balance: 'Below so many dollars `balance.low` is sent; null: never.',
});
/** The body that makes or changes a webhook. */
export const webhookSettings = named('WebhookSettings', webhookSettingsSchema, {
  url: 'Where events are posted to: https.',
  events: 'The types of events that are sent.',
  disabled: 'Whether nothing is sent.',
});

const webhook = z.object({
  webhook_id: id.describe('The number of the webhook.'),
  url: z.string(),
  events: z.array(z.string()),
  secret: z.string().optional().describe('What events are signed with: in the answer that makes the webhook only.'),
  disabled: z.boolean(),
  created_at: time,
});
const event = z.object({
  event_id: z.string().describe('The `webhook-id` of its deliveries.'),
  type: z.string().describe('`limit.threshold`, `balance.low`, …'),
  data: anyObject,
  created_at: time,
  state: z.enum(['pending', 'delivered', 'failed']),
  attempts: count,
  next_attempt_at: time.nullable(),
  status: z.int().nullable().describe('What the receiver last answered; null: nothing.'),
  error: z.string().nullable().describe('Why the last attempt failed.'),
  ended_at: time.nullable(),
});
const entry = z.object({
  entry_id: id.nullable().describe('null: a charge.'),
  kind: z.string(),
  amount: dollars.describe('What was added; negative: taken.'),
  balance_after: dollars.describe('Of its pocket.'),
  note: z.string(),
  api_key_id: id.optional().describe('The key whose balance it is.'),
  group_id: id.optional().describe('The group whose balance it is.'),
  written_off: dollars.optional().describe('Of a write-off.'),
  request_id: z.string().optional().describe('Of a charge or a write-off.'),
  created_at: time,
});
const record = z.object({
  audit_id: id,
  actor: z
    .object({ type: z.string(), id: z.unknown() })
    .describe('Who it was. Of a session, the id names the person too: "7 (ann@example.test)".'),
  action: z.string().describe('What was done.'),
  resource: z.object({ type: z.string(), id: z.unknown() }).describe('What it was done to.'),
  before: z.unknown().describe('As it was; null: it was not there.'),
  after: z.unknown().describe('As it is since; null: it is gone.'),
  created_at: time,
  address: z.string().nullable().describe('From where.'),
  request_id: z.string().nullable(),
  previous_hash: z.string().nullable(),
  hash: z.string(),
});
const page = { limit: z.int().min(1), offset: count };

/** Answers. */
export const history = {
  account: named(
    'AccountAnswer',
    z.object({
      data: z.object({
        account_id: id,
        name: z.string(),
        balance: dollars,
        low_balance: dollars.nullable(),
        created_at: time,
      }),
    }),
  ),
  entries: named('EntryList', z.object({ data: z.array(entry), ...page })),
  audit: named('AuditList', z.object({ data: z.array(record), ...page })),
  webhook: named('WebhookAnswer', z.object({ data: webhook })),
  webhooks: named('WebhookList', z.object({ data: z.array(webhook) })),
  event: named('WebhookEventAnswer', z.object({ data: event })),
  events: named('WebhookEventList', z.object({ data: z.array(event), ...page })),
  message: account.message,
};
