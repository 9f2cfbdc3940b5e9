import { isoTime } from '../../lib/clock.ts';
import type { DeliveryReport, NamedWebhook, NewWebhook, OutsideEvent, WebhookSettings } from '../webhooks.ts';
import type { Rows, Webhook } from '../rows.ts';
import { nextNumber } from './context.ts';
import { emit, emitKeyEvent } from './events.ts';

/** Rules for webhooks and their deliveries, events from outside the ledger, and reminders of expiry. */

/** The most webhooks that an account can have. */
const webhooksMax = 20;
const dayMs = 86_400_000;
const deliveryMs = 3 * dayMs;
/** How many days before a key expires an event is written. */
const reminderDays = [1, 7] as const;

/** Creates a webhook. Returns its id. */
export function createWebhook(rows: Rows, command: NewWebhook, nowMs: number): number | 'not_found' | 'too_many' {
  const { accountId, url, events, secret, disabled } = command;
  if (accountId !== 0 && rows.accounts.get(accountId) === undefined) return 'not_found';
  if (rows.listAllWebhooks(accountId).length >= webhooksMax) return 'too_many';
  const id = nextNumber(rows, 'webhook');
  rows.webhooks.put({ id, accountId, url, events, secret, disabled, removed: false, createdAtMs: nowMs });
  return id;
}

/** Changes a webhook. */
export function updateWebhook(
  rows: Rows,
  { change, ...named }: NamedWebhook & { readonly change: Partial<WebhookSettings> },
): number | 'not_found' {
  const webhook = findWebhook(rows, named);
  if (webhook === undefined) return 'not_found';
  rows.webhooks.put({ ...webhook, ...change });
  return webhook.id;
}

/** Removes a webhook. */
export function deleteWebhook(rows: Rows, named: NamedWebhook): number | 'not_found' {
  const webhook = findWebhook(rows, named);
  if (webhook === undefined) return 'not_found';
  rows.webhooks.put({ ...webhook, removed: true });
  return webhook.id;
}

function findWebhook(rows: Rows, { webhookId, accountId }: NamedWebhook): Webhook | undefined {
  const webhook = rows.webhooks.get(webhookId);
  const isForeign = accountId !== undefined && webhook?.accountId !== accountId;
  return webhook === undefined || webhook.removed || isForeign ? undefined : webhook;
}

/** Queues an event to be delivered to a webhook again. */
export function replayDelivery(
  rows: Rows,
  { eventId, ...named }: NamedWebhook & { readonly eventId: number },
  nowMs: number,
): number | 'not_found' {
  const delivery = findWebhook(rows, named) && rows.deliveries.get(eventId, named.webhookId);
  if (delivery === undefined) return 'not_found';
  const restarted = {
    state: 'pending',
    attempts: 0,
    nextAtMs: nowMs,
    untilMs: nowMs + deliveryMs,
    endedAtMs: null,
  } as const;
  rows.deliveries.put({ ...delivery, ...restarted });
  return eventId;
}

/** Stores the outcome of a delivery attempt. Ignores a repeated report, and a report on a delivery that has ended. */
export function reportDelivery(rows: Rows, report: DeliveryReport, nowMs: number): void {
  const delivery = rows.deliveries.get(report.eventId, report.webhookId);
  if (delivery?.state !== 'pending' || report.attempts !== delivery.attempts + 1) return;
  const { state, attempts, status, error } = report;
  const times = state === 'pending' ? { nextAtMs: report.nextAtMs, endedAtMs: null } : { endedAtMs: nowMs };
  rows.deliveries.put({ ...delivery, state, attempts, status, error, ...times });
}

/** Writes an event that came from outside the ledger. */
export function emitOutside(rows: Rows, { type, scope, data }: OutsideEvent, nowMs: number): number {
  emit(rows, { accountId: 0, type, scope, data }, nowMs);
  return 0;
}

/** Writes an event for each key when it has a week left and when it has a day left, once per time of expiry. */
export function remindOfExpiry(rows: Rows, nowMs: number): void {
  for (const key of rows.expiringKeys(nowMs, nowMs + 7 * dayMs)) {
    const { expiresAtMs } = key;
    if (expiresAtMs === null || key.state === 'revoked') continue;
    const due = reminderDays.filter(days => expiresAtMs - nowMs <= days * dayMs);
    const marks = due.map(days => ({ days, name: `key ${key.id} ${days}` }));
    const isNew = marks.length > 0 && rows.eventMarks.get(marks[0]?.name ?? '')?.number !== expiresAtMs;
    // If a key has only a day left when it is first seen, one event is written for both marks.
    for (const { name } of marks) {
      if (isNew) rows.eventMarks.put({ name, number: expiresAtMs, atMs: nowMs });
    }
    if (isNew)
      emitKeyEvent(rows, key, 'key.expiring', { expires_at: isoTime(expiresAtMs), days: marks[0]?.days, nowMs });
  }
}
