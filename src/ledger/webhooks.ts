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

/** Events that concern no account. Only webhooks of the operator can receive them; these also receive the events of all accounts. */
export const operatorEvents = [
  'route.opened',
  'route.closed',
  'provider.key_refused',
  'provider.usage_doubtful',
  'disk.low',
] as const;

export type AccountEvent = (typeof accountEvents)[number];
export type OperatorEvent = (typeof operatorEvents)[number];
export type EventType = AccountEvent | OperatorEvent;

/** The changeable settings of a webhook. */
export interface WebhookSettings {
  readonly url: string;
  readonly events: readonly EventType[];
  readonly disabled: boolean;
}

/** A new webhook. `accountId` 0: it belongs to the operator. */
export interface NewWebhook extends WebhookSettings {
  readonly accountId: number;
  /** Encrypted: the ledger never has the secret itself. */
  readonly secret: string;
}

export interface WebhookRow extends WebhookSettings {
  readonly webhookId: number;
  readonly accountId: number;
  readonly createdAtMs: number;
}

export type DeliveryState = 'pending' | 'delivered' | 'failed';

/** The delivery of an event to a webhook. */
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
  /** Encrypted. */
  readonly secret: string;
  /** The account that owns the webhook; 0: the operator. */
  readonly accountId: number;
  readonly type: EventType;
  readonly data: string;
  readonly createdAtMs: number;
  /** How many attempts have failed. */
  readonly attempts: number;
  /** A failure at or after this time is final. */
  readonly untilMs: number;
}

/** The outcome of a delivery attempt. */
export interface DeliveryReport {
  readonly webhookId: number;
  readonly eventId: number;
  readonly state: DeliveryState;
  /** The number of attempts, with this one. */
  readonly attempts: number;
  /** When the delivery is tried again; used only if it is still `pending`. */
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

/** Names a webhook by its id. `accountId`: it must belong to this account (0: to the operator); undefined: anyone may own it. */
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

/** The outbox: an event is written in the transaction that causes it, together with a delivery for each webhook that subscribes to it. */
export interface Outbox {
  /** `not_found`: there is no such account; `too_many`: it has the maximum number of webhooks. */
  createWebhook(command: NewWebhook): Promise<WebhookRow | 'not_found' | 'too_many'>;
  /** Returns the webhooks of an account, by id. */
  listWebhooks(accountId: number): Promise<WebhookRow[]>;
  findWebhook(named: NamedWebhook): Promise<WebhookRow | undefined>;
  /** Changes only the given fields. */
  updateWebhook(command: NamedWebhook & { change: Partial<WebhookSettings> }): Promise<WebhookRow | 'not_found'>;
  /** Deletes a webhook and drops its pending deliveries. */
  deleteWebhook(command: NamedWebhook): Promise<'deleted' | 'not_found'>;
  listDeliveries(filter: DeliveryFilter): Promise<DeliveryRow[]>;
  /** Delivers an event again, whether its last delivery succeeded or failed. */
  replayDelivery(command: NamedWebhook & { eventId: number }): Promise<DeliveryRow | 'not_found'>;

  /** Returns whether there are webhooks. */
  hasWebhooks(): Promise<boolean>;
  /**
   * Returns the due deliveries: for each scope of a webhook the oldest undelivered event, if its time has come. The operator's come first, then one of each account after the other. `resting`: webhooks whose deliveries are left out; absent: none.
   */
  listDueDeliveries(limit: number, resting?: readonly number[]): Promise<DueDelivery[]>;
  reportDelivery(report: DeliveryReport): Promise<void>;
  /** Writes events from outside the ledger. */
  emitEvent(event: OutsideEvent): Promise<void>;
  /** Writes events of keys that expire soon. */
  remindOfExpiry(): Promise<void>;
}
