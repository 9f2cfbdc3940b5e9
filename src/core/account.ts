import type { AccountService, ListActivityRequest, ListKeysRequest } from '../gen/tollgate/v1/account_pb.ts';
import type { Model } from '../gen/tollgate/v1/catalog_pb.ts';
import type { Clock } from '../lib/clock.ts';
import { defined } from '../lib/defined.ts';
import type { PushedService } from '../lib/pushed-service.ts';
import type { ActivityFilter, KeyFilter, Ledger } from '../ledger/ledger.ts';
import { ownTurn } from '../lib/own-turn.ts';
import { readAnalytics } from './account-analytics.ts';
import {
  toApiKey,
  requireRow,
  readId,
  invalidField,
  type FindListedId,
  toRecord,
  readSettings,
} from './account-fields.ts';
import { readRequestFilter } from './request-filter.ts';
import type { BodyStore } from './bodies/body-store.ts';
import { authenticate, type Caller, type Scope } from './credential.ts';
import { accountHistory } from './account-history.ts';
import { withActor } from './acting.ts';
import { groups } from './account-groups.ts';
import { limits } from './account-limits.ts';
import { makeKey } from './keys.ts';
import { readNextPayment } from './next-payment.ts';
import { accountWebhooks, type WebhookOptions } from './webhooks/webhooks.ts';
import { ownAccount } from './own-account.ts';
import { readOwnKey } from './own-key.ts';
import { rotateKey } from './rotate-key.ts';

interface AccountOptions {
  readonly ledger: Ledger;
  /** Returns the listed id of an entry of `allowed_models`. */
  readonly findListedId: FindListedId;
  readonly clock: Clock;
  readonly webhooks: WebhookOptions;
  readonly bodies: BodyStore;
  /** Returns the model that a name means. Throws `model_not_found`. */
  readonly findModel: (name: string) => Model;
  /** Called with every API key that has been revoked. */
  readonly revoked: (keyId: number) => void;
}

type Part<K extends keyof PushedService<typeof AccountService>> = Pick<PushedService<typeof AccountService>, K>;

/** AccountService: what a management key may do with its own account, by its scopes. Ids of other accounts are `not_found`. */
export function accountService(options: AccountOptions): PushedService<typeof AccountService> {
  const { ledger, findListedId } = options;
  const methods = {
    ...keys(options),
    ...limits(ledger, findListedId),
    ...groups(ledger),
    ...money(options),
    ...accountHistory(ledger),
    ...accountWebhooks(ledger, options.webhooks),
    ...ownAccount(ledger),
  };
  return withActor(methods, ledger);
}

async function authenticateAccount(caller: Caller, ledger: Ledger, scope: Scope): Promise<number> {
  return (await authenticate(caller, ledger, { scope })).accountId;
}

/** The payer in the error message if a change of a key's balance needs more money than is available: the key's settings can move money from the account to the key, or back. */
const eitherPayer = 'the account or the key';

function keys({
  ledger,
  findListedId,
  findModel,
  clock,
  revoked,
}: AccountOptions): Part<
  'listKeys' | 'getKey' | 'createKey' | 'updateKey' | 'deleteKey' | 'rotateKey' | 'getOwnKey' | 'getNextPayment'
> {
  return {
    async listKeys(request, context) {
      const rows = await ledger.listKeys(
        await authenticateAccount(context, ledger, 'keys:read'),
        readKeyFilter(request),
      );
      return { keys: rows.map(row => toApiKey(row)) };
    },
    async getKey({ apiKeyId }, context) {
      const accountId = await authenticateAccount(context, ledger, 'keys:read');
      const row = await ledger.findKey(readId(apiKeyId, 'API key'), accountId);
      return { key: toApiKey(requireRow(row, 'API key', apiKeyId)) };
    },
    async createKey(request, context) {
      const accountId = await authenticateAccount(context, ledger, 'keys:create');
      const settings = readSettings(request.settings, findListedId);
      const { text, hash, masked } = makeKey('apiKey');
      const row = await ledger.createKey({ accountId, hash, masked, settings });
      return { key: toApiKey(requireRow(row, 'API key', accountId, eitherPayer), text) };
    },
    async updateKey(request, context) {
      const accountId = await authenticateAccount(context, ledger, 'keys:update');
      const keyId = readId(request.apiKeyId, 'API key');
      const settings = readSettings(request.settings, findListedId);
      const row = await ledger.updateKey({ keyId, accountId, settings });
      return { key: toApiKey(requireRow(row, 'API key', keyId, eitherPayer)) };
    },
    async rotateKey({ apiKeyId, overlapSeconds }, context) {
      const accountId = await authenticateAccount(context, ledger, 'keys:update');
      return { key: await rotateKey(ledger, { apiKeyId, overlapSeconds, accountId }) };
    },
    async getOwnKey(_request, context) {
      return readOwnKey(ledger, await authenticate(context, ledger, 'api_key'), clock);
    },
    async getNextPayment({ apiKeyId, model, inputTokens, own }, context) {
      const owner = await authenticateOwner(context, ledger, { own, scope: 'limits:read' });
      const next = {
        accountId: owner.accountId,
        apiKeyId: own ? BigInt(owner.keyId ?? 0) : apiKeyId,
        model,
        inputTokens,
      };
      return { payment: await readNextPayment({ ledger, findModel }, next) };
    },
    async deleteKey(request, context) {
      const accountId = await authenticateAccount(context, ledger, 'keys:delete');
      const keyId = readId(request.apiKeyId, 'API key');
      requireRow(await ledger.setKeyState({ keyId, accountId, state: 'revoked' }), 'API key', keyId);
      revoked(keyId);
      return {};
    },
  };
}

function money({
  ledger,
  clock,
  bodies,
}: AccountOptions): Part<'getBalance' | 'listActivity' | 'getActivity' | 'getAnalytics' | 'getRequestBodies'> {
  return {
    async getBalance(_request, context) {
      const accountId = await authenticateAccount(context, ledger, 'account:balance');
      return { balanceNanoUsd: requireRow(await ledger.findAccount(accountId), 'account', accountId).balance };
    },
    async listActivity(request, context) {
      const owner = await authenticateOwner(context, ledger, { own: request.own, scope: 'account:activity' });
      const rows = await ledger.listActivity({ ...readFilter(request, owner.accountId), ...owner });
      // A page takes milliseconds, and those of several callers can come together from the reader's thread.
      if (rows.length > manyRows) await ownTurn();
      return { records: rows.map(row => toRecord(row)) };
    },
    async getActivity({ requestId, own }, context) {
      const { accountId, keyId } = await authenticateOwner(context, ledger, { own, scope: 'account:activity' });
      const record = await ledger.findActivity(accountId, requestId);
      const belongsToAnotherKey = keyId !== undefined && record?.row.keyId !== keyId;
      const { row, lines } = requireRow(belongsToAnotherKey ? undefined : record, 'activity record', requestId);
      return { record: toRecord(row, lines) };
    },
    async getRequestBodies({ requestId }, context) {
      const accountId = await authenticateAccount(context, ledger, 'account:bodies');
      return defined({ bodies: await bodies.find(accountId, requestId) });
    },
    async getAnalytics(request, context) {
      const owner = await authenticateOwner(context, ledger, { own: request.own, scope: 'account:read' });
      return readAnalytics(ledger, owner, { request, nowMs: clock.now() });
    },
  };
}

/**
 * Authenticates the caller and returns whose records it may read. `own`: only those of the calling API key. Otherwise those of the whole account, for a management key with the scope.
 */
async function authenticateOwner(
  caller: Caller,
  ledger: Ledger,
  { own, scope }: { readonly own: boolean; readonly scope: Scope },
): Promise<{ accountId: number; keyId?: number }> {
  if (!own) return { accountId: await authenticateAccount(caller, ledger, scope) };
  const { accountId, keyId } = await authenticate(caller, ledger, 'api_key');
  return { accountId, keyId };
}

const keysMax = 1_000;

function readKeyFilter({ limit, offset, label, groupId }: ListKeysRequest): KeyFilter {
  if (limit > keysMax) throw invalidField('limit', `must be 1 to ${keysMax}`, limit);
  return {
    offset,
    ...(limit === 0 ? {} : { limit }),
    ...(label === '' ? {} : { label }),
    ...(groupId === 0n ? {} : { groupId: Number(groupId) }),
  };
}

const activityLimit = { default: 100, max: 1_000 };
/** From this many records on, an answer gets a turn of the event loop of its own. */
const manyRows = 50;

/** Returns the requested filter. Throws `validation_error` if its limit is too high. */
export function readFilter(request: ListActivityRequest, accountId: number): ActivityFilter {
  const { limit, offset, startMs, endMs } = request;
  if (limit > activityLimit.max) throw invalidField('limit', `must be 1 to ${activityLimit.max}`, limit);
  return {
    accountId,
    limit: limit === 0 ? activityLimit.default : limit,
    offset,
    ...readRequestFilter(request),
    ...(startMs === undefined ? {} : { startMs: Number(startMs) }),
    ...(endMs === undefined ? {} : { endMs: Number(endMs) }),
    ...(request.batchId === '' ? {} : { batchId: request.batchId }),
  };
}
