import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type AccountSchema,
  type AdminService,
  KeyState as StateMessage,
  type ManagementKeySchema,
  type VoidedHoldSchema,
} from '../gen/tollgate/v1/admin_pb.ts';
import type { PushedService } from '../lib/pushed-service.ts';
import type { AccountRow, KeyState, Ledger, ManagementKeyRow, VoidedHoldRow } from '../ledger/ledger.ts';
import {
  apiKeyOf,
  checkText,
  idOf,
  insufficientBalance,
  invalidField,
  type ListedId,
  notFound,
  settingsOf,
} from './account-fields.ts';
import { allScopes, requireOperator } from './credential.ts';
import { makeKey } from './keys.ts';
import { type Guard, type SubscriptionPort, subscriptions } from './subscriptions.ts';

/** What the admin service needs of the ledger. */
export type AdminPort = Pick<
  Ledger,
  | 'findCredential'
  | 'windows'
  | 'createAccount'
  | 'listAccounts'
  | 'findAccount'
  | 'addCredit'
  | 'createKey'
  | 'listKeys'
  | 'setKeyState'
  | 'setMonthlyLimit'
  | 'createManagementKey'
  | 'listManagementKeys'
  | 'setManagementKeyScopes'
  | 'setManagementKeyState'
  | 'listVoidedHolds'
> &
  SubscriptionPort;

/** What the admin service works with. */
export interface AdminOptions {
  readonly ledger: AdminPort;
  readonly operatorToken: string;
  /** Resolves entries of `allowed_models`. */
  readonly listedId: ListedId;
  /** Reads the configuration again. Throws `invalid_request` with what is wrong; then nothing has changed. */
  readonly reload: () => Promise<Reloaded>;
}

/** What a reload has brought. */
export interface Reloaded {
  /** '' where there is no file. */
  readonly file: string;
  readonly providers: number;
  readonly models: number;
  /** Keys of the file that have changed and take effect only at the next start. */
  readonly needsRestart: readonly string[];
}

type Part<K extends keyof PushedService<typeof AdminService>> = Pick<PushedService<typeof AdminService>, K>;

const nameMax = 200;
const noteMax = 1_000;
const listLimit = { preset: 100, max: 1_000 };

/** AdminService: what the operator may do with all accounts. */
export function adminService(options: AdminOptions): PushedService<typeof AdminService> {
  const guard: Guard = caller => requireOperator(caller, options.ledger, options.operatorToken);
  return {
    ...accounts(options, guard),
    ...apiKeys(options, guard),
    ...managementKeys(options, guard),
    ...subscriptions(options.ledger, guard),
    ...holds(options, guard),
    ...configuration(options, guard),
  };
}

function accounts(
  { ledger }: AdminOptions,
  guard: Guard,
): Part<'createAccount' | 'listAccounts' | 'getAccount' | 'addCredit'> {
  return {
    async createAccount(request, context) {
      await guard(context);
      const name = checkText('name', request.name, nameMax);
      if (request.balanceNanoUsd < 0n) throw invalidField('balance', 'must be 0 or more');
      return { account: accountOf(await ledger.createAccount({ name, balance: request.balanceNanoUsd })) };
    },
    async listAccounts(_request, context) {
      await guard(context);
      const rows = await ledger.listAccounts();
      return { accounts: rows.map(accountOf) };
    },
    async getAccount(request, context) {
      await guard(context);
      return { account: accountOf(await existing(ledger, request.accountId)) };
    },
    async addCredit(request, context) {
      await guard(context);
      const accountId = idOf(request.accountId, 'account');
      const { amountNanoUsd: amount, note } = request;
      if (amount === 0n) throw invalidField('amount', 'must not be 0', 0);
      if (note.length > noteMax) throw invalidField('note', `must have at most ${noteMax} characters`);
      const row = await ledger.addCredit({ accountId, amount, note });
      if (row === 'not_found') throw notFound('account', accountId);
      if (row === 'insufficient') throw insufficientBalance('the account');
      return { account: accountOf(row) };
    },
  };
}

async function existing(ledger: AdminPort, id: bigint): Promise<AccountRow> {
  const row = await ledger.findAccount(idOf(id, 'account'));
  if (row === undefined) throw notFound('account', id);
  return row;
}

function apiKeys(
  { ledger, listedId }: AdminOptions,
  guard: Guard,
): Part<'createApiKey' | 'listApiKeys' | 'setApiKeyState' | 'setMonthlyLimit'> {
  return {
    async createApiKey(request, context) {
      await guard(context);
      const accountId = idOf(request.accountId, 'account');
      const settings = settingsOf(request.settings, listedId);
      const { text, hash, masked } = makeKey('apiKey');
      const row = await ledger.createKey({ accountId, hash, masked, settings });
      if (row === 'not_found') throw notFound('account', accountId);
      if (row === 'insufficient') throw insufficientBalance('the account');
      return { key: apiKeyOf(row, text) };
    },
    async listApiKeys(request, context) {
      await guard(context);
      const { accountId } = await existing(ledger, request.accountId);
      const rows = await ledger.listKeys(accountId);
      return { keys: rows.map(row => apiKeyOf(row)) };
    },
    async setApiKeyState(request, context) {
      await guard(context);
      const keyId = idOf(request.apiKeyId, 'API key');
      const row = await ledger.setKeyState({ keyId, accountId: undefined, state: stateOf(request.state) });
      if (row === 'not_found') throw notFound('API key', keyId);
      return { key: apiKeyOf(row) };
    },
    async setMonthlyLimit(request, context) {
      await guard(context);
      const keyId = idOf(request.apiKeyId, 'API key');
      const { limitNanoUsd: limit } = request;
      if (limit !== undefined && limit < 0n) throw invalidField('monthly_limit', 'must be 0 or more');
      const row = await ledger.setMonthlyLimit({ keyId, limit });
      if (row === 'not_found') throw notFound('API key', keyId);
      return { key: apiKeyOf(row) };
    },
  };
}

function managementKeys(
  { ledger }: AdminOptions,
  guard: Guard,
): Part<'createManagementKey' | 'listManagementKeys' | 'setManagementKeyScopes' | 'setManagementKeyState'> {
  return {
    async createManagementKey(request, context) {
      await guard(context);
      const accountId = idOf(request.accountId, 'account');
      const scopes = scopesOf(request.scopes);
      const { text, hash, masked } = makeKey('managementKey');
      const row = await ledger.createManagementKey({ accountId, hash, masked, scopes });
      if (row === 'not_found') throw notFound('account', accountId);
      return { key: managementKeyOf(row, text) };
    },
    async listManagementKeys(request, context) {
      await guard(context);
      const { accountId } = await existing(ledger, request.accountId);
      const rows = await ledger.listManagementKeys(accountId);
      return { keys: rows.map(row => managementKeyOf(row)) };
    },
    async setManagementKeyScopes(request, context) {
      await guard(context);
      const keyId = idOf(request.managementKeyId, 'management key');
      return { key: changed(await ledger.setManagementKeyScopes({ keyId, scopes: scopesOf(request.scopes) }), keyId) };
    },
    async setManagementKeyState(request, context) {
      await guard(context);
      const keyId = idOf(request.managementKeyId, 'management key');
      return { key: changed(await ledger.setManagementKeyState({ keyId, state: stateOf(request.state) }), keyId) };
    },
  };
}

function changed(row: ManagementKeyRow | 'not_found', id: number): MessageInitShape<typeof ManagementKeySchema> {
  if (row === 'not_found') throw notFound('management key', id);
  return managementKeyOf(row);
}

function holds({ ledger }: AdminOptions, guard: Guard): Part<'listVoidedHolds'> {
  return {
    async listVoidedHolds(request, context) {
      await guard(context);
      const { limit } = request;
      if (limit > listLimit.max) throw invalidField('limit', `must be 1 to ${listLimit.max}`, limit);
      const rows = await ledger.listVoidedHolds(limit === 0 ? listLimit.preset : limit);
      return { holds: rows.map(holdOf) };
    },
  };
}

function configuration({ reload }: AdminOptions, guard: Guard): Part<'reloadConfiguration'> {
  return {
    async reloadConfiguration(_request, context) {
      await guard(context);
      const { needsRestart, ...reloaded } = await reload();
      return { ...reloaded, needsRestart: [...needsRestart] };
    },
  };
}

function scopesOf(scopes: readonly string[]): string[] {
  if (scopes.length === 1 && scopes[0] === 'all') return [...allScopes];
  if (scopes.length === 0) throw invalidField('scopes', `name at least one of ${allScopes.join(', ')}`, []);
  for (const [index, scope] of scopes.entries()) {
    if (!allScopes.some(each => each === scope)) {
      throw invalidField(`scopes.${index}`, `"${scope}" is none of ${allScopes.join(', ')}`, scope);
    }
  }
  // In the order of the list, whatever was sent, so that equal sets are shown alike.
  return allScopes.filter(scope => scopes.includes(scope));
}

function stateOf(state: StateMessage): KeyState {
  switch (state) {
    case StateMessage.ENABLED:
      return 'enabled';
    case StateMessage.DISABLED:
      return 'disabled';
    case StateMessage.REVOKED:
      return 'revoked';
    default:
      throw invalidField('state', 'must be enabled, disabled or revoked');
  }
}

function accountOf(row: AccountRow): MessageInitShape<typeof AccountSchema> {
  return {
    accountId: BigInt(row.accountId),
    name: row.name,
    balanceNanoUsd: row.balance,
    heldNanoUsd: row.held,
    createdAtMs: BigInt(row.createdAtMs),
  };
}

function managementKeyOf(row: ManagementKeyRow, text?: string): MessageInitShape<typeof ManagementKeySchema> {
  return {
    managementKeyId: BigInt(row.keyId),
    accountId: BigInt(row.accountId),
    key: text ?? row.masked,
    scopes: [...row.scopes],
    disabled: row.disabled,
    createdAtMs: BigInt(row.createdAtMs),
  };
}

function holdOf(row: VoidedHoldRow): MessageInitShape<typeof VoidedHoldSchema> {
  return {
    id: BigInt(row.id),
    accountId: BigInt(row.accountId),
    apiKeyId: BigInt(row.keyId),
    model: row.model,
    amountNanoUsd: row.heldNanoUsd,
    admittedAtMs: BigInt(row.admittedAtMs),
    voidedAtMs: BigInt(row.voidedAtMs),
    reason: row.reason,
  };
}
