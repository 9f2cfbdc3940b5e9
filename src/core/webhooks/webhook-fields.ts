import type { MessageInitShape } from '@bufbuild/protobuf';
import type {
  WebhookEventSchema,
  WebhookSchema,
  WebhookSettings as SettingsMessage,
} from '../../gen/tollgate/v1/webhook_pb.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { defined } from '../../lib/defined.ts';
import type { SealedBox } from '../../lib/sealed-box.ts';
import {
  accountEvents,
  type DeliveryRow,
  type DeliveryState,
  type EventType,
  operatorEvents,
  type WebhookRow,
  type WebhookSettings,
} from '../../ledger/webhooks.ts';
import { findAddressFault } from '../../upstreams/webhook-sender.ts';
import { invalidField, notFound } from '../account-fields.ts';

/** Converts webhooks between the protobuf API and the ledger. */

const urlMax = 2_000;
const states: readonly DeliveryState[] = ['pending', 'delivered', 'failed'];
const eventPrefix = 'evt_';

/** Returns an event's id as clients know it. */
export function toEventId(id: number): string {
  return eventPrefix + String(id);
}

/** Returns the number of an event. Throws `not_found` if the text is not an event's id. */
export function readEventId(text: string): number {
  const id = Number(new RegExp(`^${eventPrefix}([1-9]\\d{0,15})$`).exec(text)?.[1]);
  if (!Number.isSafeInteger(id)) throw notFound('event', text);
  return id;
}

/** Encrypts a secret for the ledger. `accountId` 0: the webhook is the operator's. */
export function sealSecret(box: SealedBox, secret: string, accountId: number): string {
  return box.seal(Buffer.from(secret), sealingContext(accountId));
}

/** Decrypts the secret of a webhook. Throws if the server secret that encrypted it no longer exists. */
export function openSecret(
  box: SealedBox,
  { secret, accountId }: { readonly secret: string; readonly accountId: number },
): string {
  const opened = box.open(secret, sealingContext(accountId));
  if (opened === undefined) {
    throw new Error(
      'the webhook’s secret can’t be decrypted, because server.secret no longer has the line that encrypted it; create the webhook again',
    );
  }
  return Buffer.from(opened).toString();
}

function sealingContext(accountId: number): string {
  return `webhook secret of account ${accountId}`;
}

/** The webhook's owner, and whether its URL may be in the operator's own network. */
export interface SettingsContext {
  /** The account of the webhook; 0: it is the operator's. */
  readonly accountId: number;
  readonly allowPrivate: boolean;
}

/** Reads and checks the settings of a webhook. */
export function readWebhookSettings(
  message: SettingsMessage | undefined,
  context: SettingsContext,
): Partial<WebhookSettings> {
  if (message === undefined) return {};
  const { url, events, disabled } = message;
  return defined({
    url: url === undefined ? undefined : readUrl(url, context.allowPrivate),
    events: events === undefined ? undefined : readEvents(events.types, context.accountId),
    disabled,
  });
}

/** Returns the types of events that an owner's webhooks can receive. */
export function eventsFor(accountId: number): readonly EventType[] {
  return accountId === 0 ? [...accountEvents, ...operatorEvents] : accountEvents;
}

function readUrl(url: string, allowPrivate: boolean): string {
  if (url.length > urlMax) throw invalidField('url', `must have at most ${urlMax} characters`);
  const fault = findAddressFault(url, allowPrivate);
  if (fault === undefined) return url;
  const violations = [{ path: ['url'], message: fault, type: 'value_error', inputJson: JSON.stringify(url) }];
  throw new GatewayError('validation_error', `url: ${fault}`, {
    param: 'url',
    violations,
    ...(allowPrivate
      ? {}
      : {
          tip: 'Use an https URL on the public internet, or have the operator set webhooks: { allow_private: true }.',
        }),
  });
}

function readEvents(types: readonly string[], accountId: number): EventType[] {
  const known = eventsFor(accountId);
  if (types.length === 0) throw invalidField('events', `must have at least one of ${known.join(', ')}`, types);
  for (const [index, type] of types.entries()) {
    if (!known.some(each => each === type))
      throw invalidField(`events.${index}`, `must be one of ${known.join(', ')}`, type);
  }
  // Sorted as in the list of types, so that equal sets look equal.
  return known.filter(type => types.includes(type));
}

/** Reads the state by which deliveries are filtered; undefined: any. */
export function readState(text: string): DeliveryState | undefined {
  if (text === '') return undefined;
  const state = states.find(each => each === text);
  if (state === undefined) throw invalidField('state', `must be one of ${states.join(', ')}`, text);
  return state;
}

/** Converts a webhook to its protobuf message. `secret`: only in the response to its creation; '' otherwise. */
export function toWebhook(row: WebhookRow, secret = ''): MessageInitShape<typeof WebhookSchema> {
  const { url, disabled } = row;
  return {
    webhookId: BigInt(row.webhookId),
    accountId: BigInt(row.accountId),
    url,
    events: [...row.events],
    secret,
    disabled,
    createdAtMs: BigInt(row.createdAtMs),
  };
}

/** Converts the delivery of an event to its protobuf message. */
export function toWebhookEvent(row: DeliveryRow): MessageInitShape<typeof WebhookEventSchema> {
  const time = (ms: number | null): bigint | undefined => (ms === null ? undefined : BigInt(ms));
  return defined({
    eventId: toEventId(row.eventId),
    type: row.type,
    dataJson: row.data,
    createdAtMs: BigInt(row.createdAtMs),
    state: row.state,
    attempts: row.attempts,
    nextAtMs: time(row.nextAtMs),
    status: row.status ?? undefined,
    error: row.error ?? undefined,
    endedAtMs: time(row.endedAtMs),
  });
}
