import { Deliveries } from '../core/webhooks/deliveries.ts';
import type { WebhookOptions } from '../core/webhooks/webhooks.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { OutsideEvent } from '../ledger/webhooks.ts';
import { systemRuntime } from '../lib/runtime.ts';
import type { SealedBox } from '../lib/sealed-box.ts';
import type { Logger } from '../telemetry/logger.ts';
import { sendWebhook } from '../upstreams/webhook-sender.ts';
import type { LiveConfig } from './live-config.ts';
import type { StorageHealth } from './storage-health.ts';

/** Sends an event to the operator's webhooks, without waiting for its delivery. */
export type NotifyOperator = (event: OutsideEvent) => void;

/** Returns the webhook service, the delivery loop to start, and the sender of operator events. */
export function openWebhooks({
  ledger,
  live,
  logger,
  health,
  box,
  isShared,
}: {
  readonly ledger: Ledger;
  readonly live: LiveConfig;
  readonly logger: Logger;
  readonly health: Pick<StorageHealth, 'onLow'>;
  readonly box: SealedBox;
  /** See `DeliveryOptions`. */
  readonly isShared: boolean;
}): { webhooks: WebhookOptions; deliveries: Deliveries; tell: NotifyOperator } {
  const allowPrivate = (): boolean => live.current.webhooks.allowPrivate;
  const deliveries = new Deliveries({
    outbox: ledger,
    box,
    runtime: systemRuntime,
    isShared,
    send: (message, signal) => sendWebhook(message, allowPrivate(), signal),
    failed: error => logger.warn({ error }, 'events can’t be delivered now'),
  });
  // Read each time: a webhook may have been created by another gateway, and a worker has no delivery loop.
  const emit = async (event: OutsideEvent): Promise<void> => {
    if (await ledger.hasWebhooks()) await ledger.emitEvent(event);
  };
  const tell: NotifyOperator = event =>
    void emit(event).catch((error: unknown) => logger.warn({ error, type: event.type }, 'an event can’t be stored'));
  health.onLow(freeBytes => tell({ type: 'disk.low', scope: 'disk', data: { free_bytes: freeBytes } }));
  const made = (): void => deliveries.webhookCreated();
  const changed = (webhookId: number): void => deliveries.endRest(webhookId);
  return { tell, webhooks: { box, allowPrivate, made, changed }, deliveries };
}
