import * as z from 'zod';
import { accountChangeSchema, webhookSettingsSchema } from '../../webhook-body.ts';
import { named } from '../json-schema.ts';
import { account } from './account.ts';
import { anyObject, count, dollars, id, time } from './fields.ts';

/** Webhooks, and an account's history. Source: docs/interfaces/account.md "Webhooks", "Entries and audit". */

/** The body that changes the account. */
export const accountSettings = named('AccountSettings', accountChangeSchema, {
  low_balance: 'The balance in dollars below which the event `balance.low` is sent; null: never.',
});
/** The body that makes or changes a webhook. */
export const webhookSettings = named('WebhookSettings', webhookSettingsSchema, {
  url: 'The https address that events are posted to.',
  events: 'The types of events that are sent.',
  disabled: 'Whether the webhook is disabled: nothing is sent.',
});

const webhook = z.object({
  webhook_id: id.describe('The number of the webhook.'),
  url: z.string(),
  events: z.array(z.string()),
  secret: z
    .string()
    .optional()
    .describe('The secret that events are signed with; only in the answer that creates the webhook.'),
  disabled: z.boolean(),
  created_at: time,
});
const event = z.object({
  event_id: z.string().describe('The id of the event, which is sent in the header `webhook-id`.'),
  type: z.string().describe('`limit.threshold`, `balance.low`, …'),
  data: anyObject,
  created_at: time,
  state: z.enum(['pending', 'delivered', 'failed']),
  attempts: count,
  next_attempt_at: time.nullable(),
  status: z.int().nullable().describe('The HTTP status of the receiver’s last answer; null: none came.'),
  error: z.string().nullable().describe('Why the last attempt failed.'),
  ended_at: time.nullable(),
});
const entry = z.object({
  entry_id: id.nullable().describe('The number of the entry; null for a charge.'),
  kind: z.string(),
  amount: dollars.describe('The change of the balance; negative if money was taken.'),
  balance_after: dollars.describe(
    'The balance after the change: that of the key or group if one is named, else that of the account.',
  ),
  note: z.string(),
  api_key_id: id.optional().describe('The key whose balance it is.'),
  group_id: id.optional().describe('The group whose balance it is.'),
  written_off: dollars.optional().describe('The amount that was written off; only in write-offs.'),
  request_id: z.string().optional().describe('The request; only in charges and write-offs.'),
  created_at: time,
});
const record = z.object({
  audit_id: id,
  actor: z
    .object({ type: z.string(), id: z.unknown() })
    .describe('Who did it. For a session, the id contains the person too: "7 (ann@example.test)".'),
  action: z.string().describe('What was done.'),
  resource: z.object({ type: z.string(), id: z.unknown() }).describe('What it was done to.'),
  before: z.unknown().describe('The state before; null: it did not exist.'),
  after: z.unknown().describe('The state after; null: it no longer exists.'),
  created_at: time,
  address: z.string().nullable().describe('The network address that the call came from.'),
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
