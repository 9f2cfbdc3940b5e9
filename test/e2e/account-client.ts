/** A client of the account endpoints that returns status, headers and body unchanged. */
import type { Gateway } from '../gateway.ts';

/** The API key resource. */
export interface KeyJson {
  readonly api_key_id: number;
  readonly key: string;
  readonly created_at: string;
  readonly label: string;
  readonly daily_limit: number;
  readonly minute_limit: number;
  readonly monthly_limit: number | null;
  readonly expires_at: string | null;
  readonly balance: number | null;
  readonly usage_today: number;
  readonly usage_minute: number;
  readonly last_used_at: string | null;
  readonly use_subs_first: boolean;
  readonly fallback_to_payg: boolean;
  readonly allowed_models: readonly string[] | null;
  readonly disabled: boolean;
  readonly group_id: number | null;
  readonly tags: Readonly<Record<string, string>>;
  readonly metadata: object;
}

/** An activity record. */
export interface RecordJson {
  readonly request_id: string;
  readonly model: string;
  readonly api_key_id: number;
  readonly cost: number;
  readonly created_at: string;
  readonly state: string;
  readonly service_tier: string;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_creation_input_tokens: number;
  readonly cache_read_input_tokens: number;
  readonly end_user: string | null;
  readonly tags: Readonly<Record<string, string>>;
}

/** A record with the calculation of its cost. */
export interface RecordDetailJson extends RecordJson {
  readonly written_off: number;
  readonly usage_source: string;
  readonly latency_ms: number;
  readonly reasoning_tokens: number;
  readonly unpriced: readonly string[];
  readonly buckets: readonly {
    readonly kind: string;
    readonly tokens: number;
    readonly price: number;
    readonly multiplier: number;
    readonly discount: number;
    readonly cost: number;
    readonly paid_by: string;
  }[];
}

/** Sums of requests. */
export interface SumsJson {
  readonly requests: number;
  readonly failed_requests: number;
  readonly cost: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_creation_input_tokens: number;
  readonly cache_read_input_tokens: number;
  readonly average_latency_ms: number;
}

/** The analytics of an account. */
export interface AnalyticsJson {
  readonly metrics: SumsJson;
  readonly series: readonly (SumsJson & {
    readonly timestamp: string;
    readonly group: string | number | null;
    readonly rest?: true;
  })[];
}

/** A limit. */
export interface LimitJson {
  readonly limit_id: number;
  readonly scope: { readonly type: string; readonly id: number };
  readonly unit: string;
  readonly window: string | null;
  readonly time_zone: string;
  readonly max: number;
  readonly models: readonly string[] | null;
  readonly end_users: string;
  readonly action: string;
  readonly locked: boolean;
  readonly raised: { readonly max: number; readonly until: string } | null;
  readonly used: number;
  readonly held: number;
  readonly remaining: number;
  readonly resets_at: string | null;
  readonly created_at: string;
}

/** A group. */
export interface GroupJson {
  readonly group_id: number;
  readonly name: string;
  readonly parent_group_id: number | null;
  readonly tags: Readonly<Record<string, string>>;
  readonly balance: number | null;
  readonly created_at: string;
}

/** An entry of an error's `details`: a wrong field. */
export interface DetailJson {
  readonly loc: readonly string[];
  readonly msg: string;
  readonly type: string;
  readonly input: unknown;
  readonly ctx: object;
}

/** An answer of an account endpoint. */
export interface Reply<T> {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: T & {
    readonly error: { readonly code: string; readonly param: string | null; readonly tip: string | null };
    readonly detail: readonly DetailJson[];
  };
}

/** The options of a call. */
export interface CallOptions {
  /** A credential; absent: the first management key; null: none. */
  readonly key?: string | null;
  /** An object is sent as JSON, a string unchanged. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Calls an account endpoint. `path` is what follows `/v1/account`, or a whole path that begins with `/v1/key`. */
export async function call<T = object>(
  gateway: Gateway,
  method: string,
  path: string,
  { key = gateway.managementKey, body, headers = {} }: CallOptions = {},
): Promise<Reply<T>> {
  const whole = path.startsWith('/v1/') ? path : `/v1/account${path}`;
  const response = await fetch(gateway.url + whole, {
    method,
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) as Reply<T>['body'] };
}

/** Makes an API key in the management key's account. Throws if it is refused. */
export async function newKey(gateway: Gateway, settings: object = {}, key = gateway.managementKey): Promise<KeyJson> {
  const made = await call<{ data: KeyJson }>(gateway, 'POST', '/keys', { key, body: settings });
  if (made.status !== 200) throw new Error(made.text);
  return made.body.data;
}

/** Returns the balance of an account in dollars. */
export async function readDollars(gateway: Gateway, key = gateway.managementKey): Promise<number> {
  return (await call<{ balance: number }>(gateway, 'GET', '/balance', { key })).body.balance;
}

/** Makes an account, and a management key with the given scopes; by default with all. */
export async function newAccount(
  { admin }: Gateway,
  dollars: number,
  scopes: readonly string[] = ['all'],
): Promise<{ accountId: bigint; managementKey: string }> {
  const { account } = await admin.createAccount({ name: 'further', balanceNanoUsd: BigInt(dollars * 1e9) });
  const accountId = account?.accountId ?? 0n;
  return { accountId, managementKey: await newManagementKey({ admin }, accountId, scopes) };
}

/** Makes a management key of an account. */
export async function newManagementKey(
  { admin }: Pick<Gateway, 'admin'>,
  accountId: bigint,
  scopes: readonly string[],
): Promise<string> {
  const { key } = await admin.createManagementKey({ accountId, scopes: [...scopes] });
  return key?.key ?? '';
}
