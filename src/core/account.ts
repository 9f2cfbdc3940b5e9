import type { AccountService, ListActivityRequest } from '../gen/tollgate/v1/account_pb.ts';
import type { Clock } from '../lib/clock.ts';
import type { PushedService } from '../lib/pushed-service.ts';
import type { ActivityFilter, KeyRow, Ledger } from '../ledger/ledger.ts';
import { readAnalytics } from './account-analytics.ts';
import {
  apiKeyOf,
  idOf,
  insufficientBalance,
  invalidField,
  type ListedId,
  notFound,
  recordOf,
  settingsOf,
} from './account-fields.ts';
import { authenticate, type Caller, type CredentialPort, type Scope } from './credential.ts';
import { makeKey } from './keys.ts';

/** What the account service needs of the ledger. */
export type AccountPort = Pick<
  Ledger,
  | 'findCredential'
  | 'windows'
  | 'createKey'
  | 'listKeys'
  | 'findKey'
  | 'updateKey'
  | 'setKeyState'
  | 'findAccount'
  | 'listActivity'
  | 'findActivity'
  | 'analytics'
>;

/** What the account service works with. */
export interface AccountOptions {
  readonly ledger: AccountPort;
  /** Resolves entries of `allowed_models`. */
  readonly listedId: ListedId;
  readonly clock: Clock;
}

type Part<K extends keyof PushedService<typeof AccountService>> = Pick<PushedService<typeof AccountService>, K>;

/** AccountService: what a management key with the right scope may do with its own account. Other accounts' ids are `not_found`. */
export function accountService(options: AccountOptions): PushedService<typeof AccountService> {
  return { ...readKeys(options), ...changeKeys(options), ...readMoney(options), ...readSums(options) };
}

async function accountOf(caller: Caller, ledger: CredentialPort, scope: Scope): Promise<number> {
  const { accountId } = await authenticate(caller, ledger, { scope });
  return accountId;
}

function readKeys({ ledger }: AccountOptions): Part<'listKeys' | 'getKey'> {
  return {
    async listKeys(_request, context) {
      const keys = await ledger.listKeys(await accountOf(context, ledger, 'keys:read'));
      return { keys: keys.map(key => apiKeyOf(key)) };
    },
    async getKey(request, context) {
      const accountId = await accountOf(context, ledger, 'keys:read');
      const key = await ledger.findKey(idOf(request.apiKeyId, 'API key'), accountId);
      if (key === undefined) throw notFound('API key', request.apiKeyId);
      return { key: apiKeyOf(key) };
    },
  };
}

function changeKeys({ ledger, listedId }: AccountOptions): Part<'createKey' | 'updateKey' | 'deleteKey'> {
  return {
    async createKey(request, context) {
      const accountId = await accountOf(context, ledger, 'keys:create');
      const settings = settingsOf(request.settings, listedId);
      const { text, hash, masked } = makeKey('apiKey');
      const key = await ledger.createKey({ accountId, hash, masked, settings });
      return { key: apiKeyOf(changed(key, accountId), text) };
    },
    async updateKey(request, context) {
      const accountId = await accountOf(context, ledger, 'keys:update');
      const keyId = idOf(request.apiKeyId, 'API key');
      const settings = settingsOf(request.settings, listedId);
      const key = await ledger.updateKey({ keyId, accountId, settings });
      return { key: apiKeyOf(changed(key, keyId)) };
    },
    async deleteKey(request, context) {
      const accountId = await accountOf(context, ledger, 'keys:delete');
      const keyId = idOf(request.apiKeyId, 'API key');
      const key = await ledger.setKeyState({ keyId, accountId, state: 'revoked' });
      changed(key, keyId);
      return {};
    },
  };
}

function changed(key: KeyRow | 'not_found' | 'insufficient', id: number): KeyRow {
  if (key === 'not_found') throw notFound('API key', id);
  if (key === 'insufficient') throw insufficientBalance('the account or the key');
  return key;
}

function readMoney({ ledger }: AccountOptions): Part<'getBalance' | 'listActivity' | 'getActivity'> {
  return {
    async getBalance(_request, context) {
      const accountId = await accountOf(context, ledger, 'account:balance');
      const account = await ledger.findAccount(accountId);
      if (account === undefined) throw notFound('account', accountId);
      return { balanceNanoUsd: account.balance };
    },
    async listActivity(request, context) {
      const accountId = await accountOf(context, ledger, 'account:activity');
      const rows = await ledger.listActivity(filterOf(request, accountId));
      return { records: rows.map(row => recordOf(row)) };
    },
    async getActivity({ requestId }, context) {
      const accountId = await accountOf(context, ledger, 'account:activity');
      const found = await ledger.findActivity(accountId, requestId);
      if (found === undefined) throw notFound('activity record', requestId);
      return { record: recordOf(found.row, found.lines) };
    },
  };
}

function readSums({ ledger, clock }: AccountOptions): Part<'getAnalytics'> {
  return {
    async getAnalytics(request, context) {
      const accountId = await accountOf(context, ledger, 'account:read');
      return readAnalytics(ledger, accountId, { request, nowMs: clock.now() });
    },
  };
}

const activityLimit = { preset: 100, max: 1_000 };

function filterOf(request: ListActivityRequest, accountId: number): ActivityFilter {
  const { limit, offset, model, apiKeyId, startMs, endMs } = request;
  if (limit > activityLimit.max) throw invalidField('limit', `must be 1 to ${activityLimit.max}`, limit);
  return {
    accountId,
    limit: limit === 0 ? activityLimit.preset : limit,
    offset,
    ...(model === '' ? {} : { model }),
    ...(apiKeyId === 0n ? {} : { keyId: Number(apiKeyId) }),
    ...(startMs === undefined ? {} : { startMs: Number(startMs) }),
    ...(endMs === undefined ? {} : { endMs: Number(endMs) }),
  };
}
