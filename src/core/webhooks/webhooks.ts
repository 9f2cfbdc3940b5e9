import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { AccountService } from '../../gen/tollgate/v1/account_pb.ts';
import type { AdminService } from '../../gen/tollgate/v1/admin_pb.ts';
import {
  ListWebhookEventsRequestSchema,
  type ListWebhookEventsRequest,
  type WebhookEventSchema,
  type WebhookSchema,
  type WebhookSettings as SettingsMessage,
} from '../../gen/tollgate/v1/webhook_pb.ts';
import type { PushedService } from '../../lib/pushed-service.ts';
import type { SealedBox } from '../../lib/sealed-box.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { WebhookRow } from '../../ledger/webhooks.ts';
import { requireRow, readId, invalidField, notFound } from '../account-fields.ts';
import { readPage } from '../account-history.ts';
import { authenticate, type Caller, type Scope } from '../credential.ts';
import { makeWebhookSecret } from './signature.ts';
import {
  eventsFor,
  readEventId,
  readState,
  readWebhookSettings,
  sealSecret,
  toWebhook,
  toWebhookEvent,
} from './webhook-fields.ts';

/** The options of webhooks. */
export interface WebhookOptions {
  readonly box: SealedBox;
  /** Returns true if URLs may be in the operator's own network. */
  readonly allowPrivate: () => boolean;
  /** Called for each new webhook. */
  readonly made: () => void;
  /** Called when a webhook was changed, or an event of it is to be delivered again. */
  readonly changed: (webhookId: number) => void;
}

type WebhookMessage = MessageInitShape<typeof WebhookSchema>;
type EventMessage = MessageInitShape<typeof WebhookEventSchema>;
/** The owner of a webhook: the id of an account; 0: the operator; undefined: any owner. */
type Owner = number | undefined;

/** The methods for webhooks, which are the same for all owners. They throw the client's error. */
class Webhooks {
  readonly #ledger: Ledger;
  readonly #options: WebhookOptions;

  constructor(ledger: Ledger, options: WebhookOptions) {
    this.#ledger = ledger;
    this.#options = options;
  }

  async list(accountId: number): Promise<{ webhooks: WebhookMessage[] }> {
    return { webhooks: (await this.#ledger.listWebhooks(accountId)).map(row => toWebhook(row)) };
  }

  async create(accountId: number, message: SettingsMessage | undefined): Promise<{ webhook: WebhookMessage }> {
    const { box, allowPrivate, made } = this.#options;
    const settings = readWebhookSettings(message, { accountId, allowPrivate: allowPrivate() });
    const { url, events = eventsFor(accountId), disabled = false } = settings;
    if (url === undefined) throw invalidField('url', 'is required');
    const secret = makeWebhookSecret();
    const sealed = sealSecret(box, secret, accountId);
    const row = await this.#ledger.createWebhook({ accountId, url, events, disabled, secret: sealed });
    if (row === 'too_many') {
      throw new GatewayError('conflict', 'The maximum number of webhooks is reached.', {
        tip: 'Change or delete one of them first.',
      });
    }
    made();
    return { webhook: toWebhook(requireRow(row, 'account', accountId), secret) };
  }

  async get(id: bigint, accountId: Owner): Promise<{ webhook: WebhookMessage }> {
    return { webhook: toWebhook(await this.#find(id, accountId)) };
  }

  async update(
    id: bigint,
    accountId: Owner,
    message: SettingsMessage | undefined,
  ): Promise<{ webhook: WebhookMessage }> {
    const { webhookId, accountId: owner } = await this.#find(id, accountId);
    const context = { accountId: owner, allowPrivate: this.#options.allowPrivate() };
    const change = readWebhookSettings(message, context);
    const row = await this.#ledger.updateWebhook({ webhookId, accountId, change });
    const webhook = toWebhook(requireRow(row, 'webhook', webhookId));
    this.#options.changed(webhookId);
    return { webhook };
  }

  async delete(id: bigint, accountId: Owner): Promise<object> {
    const webhookId = readId(id, 'webhook');
    if ((await this.#ledger.deleteWebhook({ webhookId, accountId })) === 'not_found') throw notFound('webhook', id);
    return {};
  }

  async listEvents(request: ListWebhookEventsRequest, accountId: Owner): Promise<{ events: EventMessage[] }> {
    const { webhookId } = await this.#find(request.webhookId, accountId);
    const { limit, offset } = readPage(request);
    const state = readState(request.state);
    const filter = { webhookId, limit, offset, ...(state === undefined ? {} : { state }) };
    return { events: (await this.#ledger.listDeliveries(filter)).map(toWebhookEvent) };
  }

  async replay(id: bigint, accountId: Owner, event: string): Promise<{ event: EventMessage }> {
    const webhookId = readId(id, 'webhook');
    const row = await this.#ledger.replayDelivery({ webhookId, accountId, eventId: readEventId(event) });
    const replayed = toWebhookEvent(requireRow(row, 'event of this webhook', event));
    this.#options.changed(webhookId);
    return { event: replayed };
  }

  async #find(id: bigint, accountId: Owner): Promise<WebhookRow> {
    const webhookId = readId(id, 'webhook');
    return requireRow(await this.#ledger.findWebhook({ webhookId, accountId }), 'webhook', id);
  }
}

/** The methods for webhooks of the caller's account. */
export function accountWebhooks(
  ledger: Ledger,
  options: WebhookOptions,
): Pick<
  PushedService<typeof AccountService>,
  | 'listWebhooks'
  | 'createWebhook'
  | 'getWebhook'
  | 'updateWebhook'
  | 'deleteWebhook'
  | 'listWebhookEvents'
  | 'replayWebhookEvent'
> {
  const webhooks = new Webhooks(ledger, options);
  const authenticateOwner = async (caller: Caller, scope: Scope): Promise<number> =>
    (await authenticate(caller, ledger, { scope })).accountId;
  return {
    async listWebhooks(_request, context) {
      return webhooks.list(await authenticateOwner(context, 'webhooks:read'));
    },
    async createWebhook({ settings }, context) {
      return webhooks.create(await authenticateOwner(context, 'webhooks:write'), settings);
    },
    async getWebhook({ webhookId }, context) {
      return webhooks.get(webhookId, await authenticateOwner(context, 'webhooks:read'));
    },
    async updateWebhook({ webhookId, settings }, context) {
      return webhooks.update(webhookId, await authenticateOwner(context, 'webhooks:write'), settings);
    },
    async deleteWebhook({ webhookId }, context) {
      return webhooks.delete(webhookId, await authenticateOwner(context, 'webhooks:write'));
    },
    async listWebhookEvents(request, context) {
      return webhooks.listEvents(request, await authenticateOwner(context, 'webhooks:read'));
    },
    async replayWebhookEvent({ webhookId, eventId }, context) {
      return webhooks.replay(webhookId, await authenticateOwner(context, 'webhooks:write'), eventId);
    },
  };
}

/** The methods for webhooks of all accounts, and for the operator's webhooks. */
export function adminWebhooks(
  ledger: Ledger,
  options: WebhookOptions,
): Pick<
  PushedService<typeof AdminService>,
  | 'listAccountWebhooks'
  | 'createAccountWebhook'
  | 'updateAccountWebhook'
  | 'deleteAccountWebhook'
  | 'listAccountWebhookEvents'
  | 'replayAccountWebhookEvent'
> {
  const webhooks = new Webhooks(ledger, options);
  const readOwner = async (id: bigint): Promise<number> =>
    id === 0n ? 0 : requireRow(await ledger.findAccount(readId(id, 'account')), 'account', id).accountId;
  return {
    async listAccountWebhooks({ accountId }) {
      return webhooks.list(await readOwner(accountId));
    },
    async createAccountWebhook({ accountId, settings }) {
      return webhooks.create(await readOwner(accountId), settings);
    },
    updateAccountWebhook: ({ webhookId, settings }) => webhooks.update(webhookId, undefined, settings),
    deleteAccountWebhook: ({ webhookId }) => webhooks.delete(webhookId, undefined),
    listAccountWebhookEvents: ({ query }) =>
      webhooks.listEvents(query ?? create(ListWebhookEventsRequestSchema), undefined),
    replayAccountWebhookEvent: ({ webhookId, eventId }) => webhooks.replay(webhookId, undefined, eventId),
  };
}
