import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  AccountSuspension,
  type AccountSchema,
  type AdminService,
  type GetKeyNextPaymentRequest,
  KeyState as StateMessage,
  type ManagementKeySchema,
  type VoidedHoldSchema,
} from '../gen/tollgate/v1/admin_pb.ts';
import type { Model } from '../gen/tollgate/v1/catalog_pb.ts';
import type { PushedService, UnaryContext } from '../lib/pushed-service.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { defined } from '../lib/defined.ts';
import type { AccountRow, KeyState, Ledger, ManagementKeyRow, Suspension, VoidedHoldRow } from '../ledger/ledger.ts';
import type { Plans } from '../ledger/plans.ts';
import { accountActivity } from './account-activity.ts';
import {
  toApiKey,
  checkText,
  requireRow,
  readId,
  invalidField,
  type FindListedId,
  readLowBalance,
  readSettings,
} from './account-fields.ts';
import { adminHistory } from './account-history.ts';
import type { BodyStore } from './bodies/body-store.ts';
import { configurationAdmin, type ConfigurationAdminOptions } from './configuration-admin.ts';
import { allScopes, requireService, servicesOnly } from './credential.ts';
import { createGroup, deleteGroup, toGroup, updateGroup } from './account-groups.ts';
import { checkPatterns, made, unlocked } from './account-limits.ts';
import { makeKey } from './keys.ts';
import { usageByModel } from './key-usage.ts';
import { readLimitChange, readNewLimit, toLimit } from './limit-fields.ts';
import { readNextPayment } from './next-payment.ts';
import { providerAdmin, type ProviderAdminOptions } from './provider-admin.ts';
import { rotateKey } from './rotate-key.ts';
import type { ServiceScope, ServiceTokens } from './service-tokens.ts';
import { sessionAdmin, type SessionOptions } from './dashboard/sessions.ts';
import { subscriptions } from './subscriptions.ts';
import { adminWebhooks, type WebhookOptions } from './webhooks/webhooks.ts';

interface AdminOptions extends ProviderAdminOptions, ConfigurationAdminOptions {
  readonly ledger: Ledger;
  readonly tokens: ServiceTokens;
  readonly webhooks: WebhookOptions;
  readonly bodies: BodyStore;
  /** Returns the model that a name means. Throws `model_not_found`. */
  readonly findModel: (name: string) => Model;
  /** Returns the listed id of an entry of `allowed_models`. */
  readonly findListedId: FindListedId;
  /** Called for every API key that has been revoked. */
  readonly revoked: (keyId: number) => void;
  /** Reads the configuration again. Throws `invalid_request` with the reason if it is invalid; then the old one stays in use. */
  readonly reload: () => Promise<Reloaded>;
  /** Returns the URL under which clients reach the gateway, without a slash at its end. */
  readonly publicUrl: () => string;
  readonly people: SessionOptions;
  /** The plans of the configuration with which the gateway started. */
  readonly plans: Plans;
}

/** The result of a reload. */
export interface Reloaded {
  /** '' if there is no file. */
  readonly file: string;
  readonly providers: number;
  readonly models: number;
  /** Changed keys of the file that take effect only at the next start. */
  readonly needsRestart: readonly string[];
}

type Part<K extends keyof PushedService<typeof AdminService>> = Pick<PushedService<typeof AdminService>, K>;

const nameMax = 200;
const noteMax = 1_000;
const referenceMax = 200;
const listLimit = { default: 100, max: 1_000 };

/** The methods that need another scope than `admin:read` or `admin:write`, because they give more than they show: an operator's session, and what clients sent. */
const ownScopes: ReadonlyMap<string, ServiceScope> = new Map([
  ['createSignInLink', 'operator'],
  ['getAccountRequestBodies', 'bodies:read'],
] satisfies [keyof PushedService<typeof AdminService>, ServiceScope][]);

function scopeFor(method: string): ServiceScope {
  return ownScopes.get(method) ?? (/^(?:get|list)/.test(method) ? 'admin:read' : 'admin:write');
}

/** AdminService: the operator's calls, for all accounts. */
export function adminService(options: AdminOptions): PushedService<typeof AdminService> {
  const methods = {
    ...accounts(options),
    ...apiKeys(options),
    ...limits(options),
    ...groups(options.ledger),
    ...managementKeys(options),
    ...subscriptions(options.ledger, options.plans),
    ...gateway(options),
    ...sessionAdmin(options.people),
    ...accountActivity(options),
    getKeyNextPayment: async ({ apiKeyId, model, inputTokens }: GetKeyNextPaymentRequest) => ({
      payment: await readNextPayment(options, { accountId: undefined, apiKeyId, model, inputTokens }),
    }),
    ...adminHistory(options.ledger),
    ...adminWebhooks(options.ledger, options.webhooks),
    ...providerAdmin(options),
    ...configurationAdmin(options),
  };
  return servicesOnly(methods, options, scopeFor);
}

function accounts({
  ledger,
  revoked,
}: AdminOptions): Part<
  'createAccount' | 'listAccounts' | 'getAccount' | 'updateAccount' | 'closeAccount' | 'addCredit' | 'resumeAccount'
> {
  return {
    async createAccount({ name, balanceNanoUsd: balance }) {
      checkText('name', name, nameMax);
      if (balance < 0n) throw invalidField('balance', 'must be 0 or more');
      return { account: toAccount(await ledger.createAccount({ name, balance })) };
    },
    async listAccounts() {
      return { accounts: (await ledger.listAccounts()).map(toAccount) };
    },
    async getAccount({ accountId }) {
      return { account: toAccount(await existing(ledger, accountId)) };
    },
    async updateAccount({ accountId: id, name, lowBalanceNanoUsd, noLowBalance }) {
      const accountId = readId(id, 'account');
      const lowBalance = readLowBalance(lowBalanceNanoUsd, noLowBalance);
      const change = defined({ name: name === undefined ? undefined : checkText('name', name, nameMax), lowBalance });
      return {
        account: toAccount(requireRow(await ledger.updateAccount({ accountId, ...change }), 'account', accountId)),
      };
    },
    async closeAccount({ accountId: id }) {
      const accountId = readId(id, 'account');
      const keys = await ledger.listKeys(accountId);
      const row = requireRow(await ledger.closeAccount(accountId), 'account', accountId);
      for (const { keyId } of keys) revoked(keyId);
      return { account: toAccount(row) };
    },
    async addCredit({ accountId: id, amountNanoUsd: amount, note, reference: named }) {
      const accountId = readId(id, 'account');
      if (amount === 0n) throw invalidField('amount', 'must not be 0', 0);
      if (note.length > noteMax) throw invalidField('note', `must have at most ${noteMax} characters`);
      const reference = named === '' ? undefined : named;
      if (reference !== undefined) checkText('reference', reference, referenceMax);
      const row = await ledger.addCredit({ accountId, amount, note, ...defined({ reference }) });
      if (row === 'conflict') throw usedReference(named);
      return { account: toAccount(requireRow(row, 'account', accountId)) };
    },
    async resumeAccount({ accountId: id }) {
      const accountId = readId(id, 'account');
      return { account: toAccount(requireRow(await ledger.resumeAccount(accountId), 'account', accountId)) };
    },
  };
}

function usedReference(reference: string): GatewayError {
  const message = `reference: ${JSON.stringify(reference)} belongs to another credit.`;
  return new GatewayError('conflict', message, {
    param: 'reference',
    tip: 'Give a new credit a new reference. To repeat a credit, send the same account and amount.',
  });
}

async function existing(ledger: Ledger, id: bigint): Promise<AccountRow> {
  return requireRow(await ledger.findAccount(readId(id, 'account')), 'account', id);
}

function apiKeys({
  ledger,
  findListedId,
  revoked,
}: AdminOptions): Part<
  | 'createApiKey'
  | 'listApiKeys'
  | 'updateApiKey'
  | 'rotateApiKey'
  | 'setApiKeyState'
  | 'getApiKeyUsage'
  | 'setMonthlyLimit'
> {
  return {
    async getApiKeyUsage({ accountId, apiKeyId }) {
      const owner = { accountId: readId(accountId, 'account'), keyId: readId(apiKeyId, 'API key') };
      return { models: await usageByModel(ledger, owner) };
    },
    async createApiKey(request) {
      const accountId = readId(request.accountId, 'account');
      const settings = readSettings(request.settings, findListedId);
      const { text, hash, masked } = makeKey('apiKey');
      const row = await ledger.createKey({ accountId, hash, masked, settings });
      return { key: toApiKey(requireRow(row, 'account', accountId), text) };
    },
    async listApiKeys(request) {
      const { accountId } = await existing(ledger, request.accountId);
      const keys = await ledger.listKeys(accountId, { revoked: request.revoked });
      return { keys: keys.map(row => toApiKey(row)) };
    },
    async updateApiKey({ apiKeyId, settings }) {
      const keyId = readId(apiKeyId, 'API key');
      const { accountId } = requireRow(await ledger.findKey(keyId, undefined), 'API key', keyId);
      const row = await ledger.updateKey({ keyId, accountId, settings: readSettings(settings, findListedId) });
      return { key: toApiKey(requireRow(row, 'API key', keyId, 'the account or the key')) };
    },
    async rotateApiKey({ apiKeyId, overlapSeconds }) {
      return { key: await rotateKey(ledger, { apiKeyId, overlapSeconds, accountId: undefined }) };
    },
    async setApiKeyState({ apiKeyId, state }) {
      const keyId = readId(apiKeyId, 'API key');
      const row = await ledger.setKeyState({ keyId, accountId: undefined, state: toState(state) });
      const key = toApiKey(requireRow(row, 'API key', keyId));
      if (state === StateMessage.REVOKED) revoked(keyId);
      return { key };
    },
    async setMonthlyLimit({ apiKeyId, limitNanoUsd: limit }) {
      const keyId = readId(apiKeyId, 'API key');
      if (limit !== undefined && limit < 0n) throw invalidField('monthly_limit', 'must be 0 or more');
      return { key: toApiKey(requireRow(await ledger.setMonthlyLimit({ keyId, limit }), 'API key', keyId)) };
    },
  };
}

function limits({
  ledger,
  findListedId,
}: AdminOptions): Part<'createAccountLimit' | 'listAccountLimits' | 'updateAccountLimit' | 'deleteAccountLimit'> {
  return {
    async createAccountLimit({ accountId: id, limit, locked }) {
      const { accountId } = await existing(ledger, id);
      const wanted = readNewLimit(limit, { accountId, locked, findListedId });
      await checkPatterns(ledger, wanted);
      return { limit: toLimit(made(await ledger.createLimit(wanted))) };
    },
    async listAccountLimits(request) {
      const { accountId } = await existing(ledger, request.accountId);
      return { limits: (await ledger.listLimits({ accountId })).map(toLimit) };
    },
    async updateAccountLimit({ limitId: id, settings }) {
      const limitId = readId(id, 'limit');
      const row = requireRow(await ledger.findLimit(limitId, undefined), 'limit', limitId);
      const change = readLimitChange(settings, row.unit, findListedId);
      await checkPatterns(ledger, { ...row, models: change.models ?? null });
      return { limit: toLimit(unlocked(await ledger.updateLimit({ limitId, accountId: undefined, change }), limitId)) };
    },
    async deleteAccountLimit({ limitId: id }) {
      const limitId = readId(id, 'limit');
      unlocked(await ledger.deleteLimit({ limitId, accountId: undefined }), limitId);
      return {};
    },
  };
}

function groups(
  ledger: Ledger,
): Part<'createAccountGroup' | 'listAccountGroups' | 'updateAccountGroup' | 'deleteAccountGroup'> {
  return {
    async createAccountGroup({ accountId: id, settings }) {
      const { accountId } = await existing(ledger, id);
      return createGroup(ledger, accountId, settings);
    },
    async listAccountGroups(request) {
      const { accountId } = await existing(ledger, request.accountId);
      return { groups: (await ledger.listGroups(accountId)).map(toGroup) };
    },
    updateAccountGroup: ({ groupId, settings }) => updateGroup(ledger, { groupId, accountId: undefined, settings }),
    deleteAccountGroup: ({ groupId }) => deleteGroup(ledger, { groupId, accountId: undefined }),
  };
}

function managementKeys(
  options: AdminOptions,
): Part<'createManagementKey' | 'listManagementKeys' | 'setManagementKeyScopes' | 'setManagementKeyState'> {
  const { ledger } = options;
  /** A service must not get the bodies of clients through a key that it makes. */
  const checkScopes = async (scopes: readonly string[], context: UnaryContext): Promise<void> => {
    if (scopes.includes('account:bodies')) await requireService(context, options, 'bodies:read');
  };
  return {
    async createManagementKey(request, context) {
      const accountId = readId(request.accountId, 'account');
      const scopes = readScopes(request.scopes);
      await checkScopes(scopes, context);
      const { text, hash, masked } = makeKey('managementKey');
      const row = await ledger.createManagementKey({ accountId, hash, masked, scopes });
      return { key: toManagementKey(requireRow(row, 'account', accountId), text) };
    },
    async listManagementKeys(request) {
      const { accountId } = await existing(ledger, request.accountId);
      return { keys: (await ledger.listManagementKeys(accountId)).map(row => toManagementKey(row)) };
    },
    async setManagementKeyScopes(request, context) {
      const keyId = readId(request.managementKeyId, 'management key');
      const scopes = readScopes(request.scopes);
      await checkScopes(scopes, context);
      const row = await ledger.setManagementKeyScopes({ keyId, scopes });
      return { key: toManagementKey(requireRow(row, 'management key', keyId)) };
    },
    async setManagementKeyState(request) {
      const keyId = readId(request.managementKeyId, 'management key');
      const row = await ledger.setManagementKeyState({ keyId, state: toState(request.state) });
      return { key: toManagementKey(requireRow(row, 'management key', keyId)) };
    },
  };
}

function gateway({
  ledger,
  reload,
  publicUrl,
}: AdminOptions): Part<'listVoidedHolds' | 'reloadConfiguration' | 'describeGateway'> {
  return {
    describeGateway() {
      return { publicUrl: publicUrl() };
    },
    async listVoidedHolds({ limit }) {
      if (limit > listLimit.max) throw invalidField('limit', `must be 1 to ${listLimit.max}`, limit);
      const rows = await ledger.listVoidedHolds(limit === 0 ? listLimit.default : limit);
      return { holds: rows.map(toVoidedHold) };
    },
    async reloadConfiguration() {
      const { file, providers, models, needsRestart } = await reload();
      return { file, providers, models, needsRestart: [...needsRestart] };
    },
  };
}

function readScopes(scopes: readonly string[]): string[] {
  if (scopes.length === 1 && scopes[0] === 'all') return [...allScopes];
  if (scopes.length === 0) throw invalidField('scopes', `must have at least one of ${allScopes.join(', ')}`, []);
  for (const [index, scope] of scopes.entries()) {
    if (!allScopes.some(each => each === scope)) {
      throw invalidField(`scopes.${index}`, `"${scope}" is not a scope; the scopes are ${allScopes.join(', ')}`, scope);
    }
  }
  // Sorted as in `allScopes`, so that equal sets look equal.
  return allScopes.filter(scope => scopes.includes(scope));
}

const states: Partial<Record<StateMessage, KeyState>> = {
  [StateMessage.ENABLED]: 'enabled',
  [StateMessage.DISABLED]: 'disabled',
  [StateMessage.REVOKED]: 'revoked',
};

function toState(message: StateMessage): KeyState {
  const state = states[message];
  if (state === undefined) throw invalidField('state', 'must be enabled, disabled or revoked');
  return state;
}

function toAccount(row: AccountRow): MessageInitShape<typeof AccountSchema> {
  return {
    accountId: BigInt(row.accountId),
    name: row.name,
    balanceNanoUsd: row.balance,
    heldNanoUsd: row.held,
    createdAtMs: BigInt(row.createdAtMs),
    ...(row.lowBalance === null ? {} : { lowBalanceNanoUsd: row.lowBalance }),
    ...(row.closedAtMs === null ? {} : { closedAtMs: BigInt(row.closedAtMs) }),
    suspension: row.suspended === null ? AccountSuspension.UNSPECIFIED : suspensions[row.suspended],
  };
}

const suspensions: Readonly<Record<Suspension, AccountSuspension>> = {
  damaged: AccountSuspension.DAMAGED,
  write_offs: AccountSuspension.WRITE_OFFS,
};

function toManagementKey(row: ManagementKeyRow, text?: string): MessageInitShape<typeof ManagementKeySchema> {
  return {
    managementKeyId: BigInt(row.keyId),
    accountId: BigInt(row.accountId),
    key: text ?? row.masked,
    scopes: [...row.scopes],
    disabled: row.disabled,
    createdAtMs: BigInt(row.createdAtMs),
  };
}

function toVoidedHold(row: VoidedHoldRow): MessageInitShape<typeof VoidedHoldSchema> {
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
