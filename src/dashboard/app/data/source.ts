import type { MessageInitShape } from '@bufbuild/protobuf';
import { type Client, createClient } from '@connectrpc/connect';
import {
  AccountService,
  type ActivityRecord,
  type ApiKey,
  type GetAnalyticsRequestSchema,
  type GetAnalyticsResponse,
  type Group,
  type GroupSettingsSchema,
  type KeySettingsSchema,
  type Limit,
  type NextPayment,
  type LimitSettingsSchema,
  type ListActivityRequestSchema,
  type NewLimitSchema,
} from '../../../gen/tollgate/v1/account_pb.ts';
import { AdminService, KeyState } from '../../../gen/tollgate/v1/admin_pb.ts';
import type { RequestBodies } from '../../../gen/tollgate/v1/bodies_pb.ts';
import { transport } from './rpc.ts';

/** Selects requests; `own` is set by the source. */
export type ActivityQuery = Omit<MessageInitShape<typeof ListActivityRequestSchema>, 'own' | '$typeName'>;
/** Selects sums; `own` is set by the source. */
export type AnalyticsQuery = Omit<MessageInitShape<typeof GetAnalyticsRequestSchema>, 'own' | '$typeName'>;
/** Settings of a key. */
export type KeySettings = MessageInitShape<typeof KeySettingsSchema>;
/** Settings of a limit. */
export type LimitSettings = MessageInitShape<typeof LimitSettingsSchema>;
/** A limit to create. */
export type NewLimit = MessageInitShape<typeof NewLimitSchema>;
/** Settings of a group. */
export type GroupSettings = MessageInitShape<typeof GroupSettingsSchema>;

/** An account's money; `heldNanoUsd` is absent if the credential may not see it. */
export interface Balance {
  readonly balanceNanoUsd: bigint;
  readonly heldNanoUsd?: bigint;
}

/** Reads settled requests; the same for each role. */
export interface RequestSource {
  /** The name of the source in cache keys, so that the data of different sources is not mixed. */
  readonly name: string;
  readonly listActivity: (query: ActivityQuery, signal?: AbortSignal) => Promise<readonly ActivityRecord[]>;
  readonly getActivity: (requestId: string, signal?: AbortSignal) => Promise<ActivityRecord | undefined>;
  readonly getAnalytics: (query: AnalyticsQuery, signal?: AbortSignal) => Promise<GetAnalyticsResponse>;
  /** `apiKeyId` is ignored for the holder of a key. */
  readonly getNextPayment: (question: NextQuestion, signal?: AbortSignal) => Promise<NextPayment | undefined>;
}

/** The request whose admission is previewed. */
export interface NextQuestion {
  readonly apiKeyId: bigint;
  /** The model; '' means the first one. */
  readonly model: string;
  /** The number of input tokens; 0 means the default. */
  readonly inputTokens: number;
}

/** The calls of a person who manages an account, through the service that the role may use. */
export interface AccountSource extends RequestSource {
  readonly getBodies: (requestId: string, signal?: AbortSignal) => Promise<RequestBodies | undefined>;
  readonly getBalance: (signal?: AbortSignal) => Promise<Balance>;
  readonly listKeys: (signal?: AbortSignal) => Promise<readonly ApiKey[]>;
  readonly createKey: (settings: KeySettings) => Promise<ApiKey | undefined>;
  readonly updateKey: (apiKeyId: bigint, settings: KeySettings) => Promise<unknown>;
  readonly rotateKey: (apiKeyId: bigint, overlapSeconds: number) => Promise<ApiKey | undefined>;
  readonly deleteKey: (apiKeyId: bigint) => Promise<unknown>;
  /** Absent if the role can't disable keys. */
  readonly setDisabled?: (apiKeyId: bigint, isDisabled: boolean) => Promise<unknown>;
  readonly listLimits: (signal?: AbortSignal) => Promise<readonly Limit[]>;
  readonly createLimit: (limit: NewLimit) => Promise<unknown>;
  readonly updateLimit: (limitId: bigint, settings: LimitSettings) => Promise<unknown>;
  readonly deleteLimit: (limitId: bigint) => Promise<unknown>;
  readonly listGroups: (signal?: AbortSignal) => Promise<readonly Group[]>;
  readonly createGroup: (settings: GroupSettings) => Promise<unknown>;
  readonly deleteGroup: (groupId: bigint) => Promise<unknown>;
}

const account: Client<typeof AccountService> = createClient(AccountService, transport);
const admin: Client<typeof AdminService> = createClient(AdminService, transport);

/** Returns the options of a call that a query can abort. */
function until(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}

function makeRequestSource(own: boolean): RequestSource {
  return {
    name: own ? 'own' : 'account',
    listActivity: async (query, signal) => (await account.listActivity({ ...query, own }, until(signal))).records,
    getActivity: async (requestId, signal) => (await account.getActivity({ requestId, own }, until(signal))).record,
    getAnalytics: (query, signal) => account.getAnalytics({ ...query, own }, until(signal)),
    getNextPayment: async (question, signal) =>
      (await account.getNextPayment({ ...question, own }, until(signal))).payment,
  };
}

/** The requests that the holder of an API key may read: those of the key. */
export const ownRequests: RequestSource = makeRequestSource(true);

/** The session's own account, through AccountService. */
export const ownAccount: AccountSource = {
  ...makeRequestSource(false),
  getBodies: async (requestId, signal) => (await account.getRequestBodies({ requestId }, until(signal))).bodies,
  getBalance: signal => account.getBalance({}, until(signal)),
  listKeys: async signal => (await account.listKeys({}, until(signal))).keys,
  createKey: async settings => (await account.createKey({ settings })).key,
  updateKey: (apiKeyId, settings) => account.updateKey({ apiKeyId, settings }),
  rotateKey: async (apiKeyId, overlapSeconds) => (await account.rotateKey({ apiKeyId, overlapSeconds })).key,
  deleteKey: apiKeyId => account.deleteKey({ apiKeyId }),
  listLimits: async signal => (await account.listLimits({}, until(signal))).limits,
  createLimit: limit => account.createLimit({ limit }),
  updateLimit: (limitId, settings) => account.updateLimit({ limitId, settings }),
  deleteLimit: limitId => account.deleteLimit({ limitId }),
  listGroups: async signal => (await account.listGroups({}, until(signal))).groups,
  createGroup: settings => account.createGroup({ settings }),
  deleteGroup: groupId => account.deleteGroup({ groupId }),
};

/** Returns the source of any account, through AdminService, for the operator. */
export function makeOperatorSource(accountId: bigint): AccountSource {
  return {
    name: `account ${accountId}`,
    listActivity: async (query, signal) =>
      (await admin.listAccountActivity({ accountId, query }, until(signal))).records,
    getActivity: async (requestId, signal) =>
      (await admin.getAccountActivity({ accountId, requestId }, until(signal))).record,
    getAnalytics: async (query, signal) => {
      const { analytics } = await admin.getAccountAnalytics({ accountId, query }, until(signal));
      if (analytics === undefined) throw new Error('The gateway answered without sums.');
      return analytics;
    },
    getNextPayment: async (question, signal) => (await admin.getKeyNextPayment(question, until(signal))).payment,
    getBodies: async (requestId, signal) =>
      (await admin.getAccountRequestBodies({ accountId, requestId }, until(signal))).bodies,
    getBalance: async signal => {
      const { account: found } = await admin.getAccount({ accountId }, until(signal));
      return { balanceNanoUsd: found?.balanceNanoUsd ?? 0n, heldNanoUsd: found?.heldNanoUsd ?? 0n };
    },
    listKeys: async signal => (await admin.listApiKeys({ accountId }, until(signal))).keys,
    createKey: async settings => (await admin.createApiKey({ accountId, settings })).key,
    updateKey: (apiKeyId, settings) => admin.updateApiKey({ apiKeyId, settings }),
    rotateKey: async (apiKeyId, overlapSeconds) => (await admin.rotateApiKey({ apiKeyId, overlapSeconds })).key,
    deleteKey: apiKeyId => admin.setApiKeyState({ apiKeyId, state: KeyState.REVOKED }),
    setDisabled: (apiKeyId, isDisabled) =>
      admin.setApiKeyState({ apiKeyId, state: isDisabled ? KeyState.DISABLED : KeyState.ENABLED }),
    listLimits: async signal => (await admin.listAccountLimits({ accountId }, until(signal))).limits,
    createLimit: limit => admin.createAccountLimit({ accountId, limit }),
    updateLimit: (limitId, settings) => admin.updateAccountLimit({ limitId, settings }),
    deleteLimit: limitId => admin.deleteAccountLimit({ limitId }),
    listGroups: async signal => (await admin.listAccountGroups({ accountId }, until(signal))).groups,
    createGroup: settings => admin.createAccountGroup({ accountId, settings }),
    deleteGroup: groupId => admin.deleteAccountGroup({ groupId }),
  };
}
