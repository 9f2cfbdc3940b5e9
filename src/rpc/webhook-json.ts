import type { Webhook, WebhookEvent } from '../gen/tollgate/v1/webhook_pb.ts';
import { isoTime } from '../lib/clock.ts';

/**
 * Converts webhooks and their events to the JSON that REST clients get and the command line prints. Source: docs/interfaces/account.md
 * "Webhooks".
 */

/** Returns the JSON of a webhook. It has `secret` only if the webhook was just created. */
export function webhookJson(webhook: Webhook) {
  return {
    webhook_id: Number(webhook.webhookId),
    url: webhook.url,
    events: webhook.events,
    ...(webhook.secret === '' ? {} : { secret: webhook.secret }),
    disabled: webhook.disabled,
    created_at: isoTime(webhook.createdAtMs),
  };
}

/** Returns the JSON of an event with the state of its delivery. `status`: the HTTP status of the last answer, null if there was none; `error`: why the last attempt failed, null if it did not. */
export function webhookEventJson(event: WebhookEvent) {
  const time = (ms: bigint | undefined): string | null => (ms === undefined ? null : isoTime(ms));
  return {
    event_id: event.eventId,
    type: event.type,
    data: JSON.parse(event.dataJson) as unknown,
    created_at: isoTime(event.createdAtMs),
    state: event.state,
    attempts: event.attempts,
    next_attempt_at: time(event.nextAtMs),
    status: event.status ?? null,
    error: event.error ?? null,
    ended_at: time(event.endedAtMs),
  };
}
