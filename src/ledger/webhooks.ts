/** Webhooks and their events in the ledger's commands and replies. */

/** Events that an account's webhooks can receive. */
export const accountEvents = [
  'limit.threshold',
  'balance.low',
  'key.created',
  'key.rotated',
  'key.expiring',
  'key.revoked',
  'subscription.renewed',
  'subscription.ended',
] as const;

/** Events that concern no account: the operator's webhooks can receive them, besides those of all accounts. */
export const operatorEvents = ['route.opened', 'route.closed', 'provider.key_refused', 'disk.low'] as const;

export type AccountEvent = (typeof accountEvents)[number];
export type OperatorEvent = (typeof operatorEvents)[number];
export type EventType = AccountEvent | OperatorEvent;

/** The changeable settings of a webhook. */
export interface WebhookSettings {
  readonly url: string;
  readonly events: readonly EventType[];
  readonly disabled: boolean;
}

/** `accountId` 0: the operator's. */
export interface NewWebhook extends WebhookSettings {
  readonly accountId: number;
  /** Sealed: the ledger never has the secret itself. */
  readonly secret: string;
}

export interface WebhookRow extends WebhookSettings {
  readonly webhookId: number;
  readonly accountId: number;
  readonly createdAtMs: number;
}

export type DeliveryState = 'pending' | 'delivered' | 'failed';

/** An event for a webhook. */
export interface DeliveryRow {
  readonly webhookId: number;
  readonly eventId: number;
  readonly type: EventType;
  /** JSON. */
  readonly data: string;
  readonly createdAtMs: number;
  readonly state: DeliveryState;
  readonly attempts: number;
  /** null: it is not tried again. */
  readonly nextAtMs: number | null;
  /** The HTTP status of the last attempt; null: there was no answer. */
  readonly status: number | null;
  /** The error of the last attempt; null: none. */
  readonly error: string | null;
  readonly endedAtMs: number | null;
}

/** A delivery that is due. */
export interface DueDelivery {
  readonly webhookId: number;
  readonly eventId: number;
  readonly url: string;
  /** Sealed. */
  readonly secret: string;
  /** The owner. */
  readonly accountId: number;
  readonly type: EventType;
  readonly data: string;
  readonly createdAtMs: number;
  /** Those that failed. */
  readonly attempts: number;
  /** When a further failure is the last one. */
  readonly untilMs: number;
}

/** The end of a delivery attempt. */
export interface DeliveryReport {
  readonly webhookId: number;
  readonly eventId: number;
  readonly state: DeliveryState;
  /** With this one. */
  readonly attempts: number;
  /** When it is tried again; only of `pending`. */
  readonly nextAtMs: number;
  readonly status: number | null;
  readonly error: string | null;
}

/** Something that happened outside the ledger. */
export interface OutsideEvent {
  readonly type: OperatorEvent;
  /** Events of one scope are delivered in their order. */
  readonly scope: string;
  readonly data: Readonly<Record<string, string | number | null>>;
}

/** A webhook by its id. `accountId`: only if it belongs to this account, 0: to the operator, undefined: whoever owns it. */
export interface NamedWebhook {
  readonly webhookId: number;
  readonly accountId: number | undefined;
}

/** Selects deliveries of a webhook, newest first. */
export interface DeliveryFilter {
  readonly webhookId: number;
  readonly state?: DeliveryState;
  readonly limit: number;
  readonly offset: number;
}

/** The outbox: events are written in the transaction that they report, with a delivery for each webhook that subscribes to them. */
export interface Outbox {
  /** `not_found`: there is no such account; `too_many`: it has as many as it can have. */
  createWebhook(command: NewWebhook): Promise<WebhookRow | 'not_found' | 'too_many'>;
  /** By id. */
  listWebhooks(accountId: number): Promise<WebhookRow[]>;
  findWebhook(named: NamedWebhook): Promise<WebhookRow | undefined>;
  /** Only the fields that are there change. */
  updateWebhook(command: NamedWebhook & { change: Partial<WebhookSettings> }): Promise<WebhookRow | 'not_found'>;
  /** Its undelivered events are dropped. */
  deleteWebhook(command: NamedWebhook): Promise<'deleted' | 'not_found'>;
  listDeliveries(filter: DeliveryFilter): Promise<DeliveryRow[]>;
  /** Delivers an event again, whether its delivery succeeded or failed. */
  replayDelivery(command: NamedWebhook & { eventId: number }): Promise<DeliveryRow | 'not_found'>;

  /** Returns whether there are webhooks. */
  hasWebhooks(): Promise<boolean>;
  /** Returns the due deliveries: for each scope of a webhook the oldest undelivered event, if its time has come. */
  listDueDeliveries(limit: number): Promise<DueDelivery[]>;
  reportDelivery(report: DeliveryReport): Promise<void>;
  /** Writes events from outside the ledger. */
  emitEvent(event: OutsideEvent): Promise<void>;
  /** Writes events of keys that expire soon. */
  remindOfExpiry(): Promise<void>;
}
