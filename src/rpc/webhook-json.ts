import type { OwnAccount } from '../gen/tollgate/v1/account_pb.ts';
import type { Webhook, WebhookEvent } from '../gen/tollgate/v1/webhook_pb.ts';
import { isoTime } from '../lib/clock.ts';
import { jsonDollars } from '../lib/dollars.ts';

/**
 * Webhooks and their events as REST clients and the command line show them. Source: docs/interfaces/account.md
 * "Webhooks".
 */

/** The webhook resource; `secret` only if it was just made. */
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

/** An event that was or is to be delivered. */
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

/** The caller's account. */
export function ownAccountJson(account: OwnAccount) {
  const { lowBalanceNanoUsd: low } = account;
  return {
    account_id: Number(account.accountId),
    name: account.name,
    balance: jsonDollars(account.balanceNanoUsd),
    low_balance: low === undefined ? null : jsonDollars(low),
    created_at: isoTime(account.createdAtMs),
  };
}
