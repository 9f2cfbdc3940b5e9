import type { Credential, KeyState } from '../ledger.ts';
import type { Connection, Query } from '../../lib/sqlite/database.ts';

interface ApiKeyRecord {
  id: bigint;
  account_id: bigint;
  state: KeyState;
  allowed_models: string | null;
  has_window: bigint;
  expires_at_ms: bigint | null;
}

interface ManagementKeyRecord {
  id: bigint;
  account_id: bigint;
  state: KeyState;
  scopes: string;
}

/** Reads credentials by their hash on the calling thread: a point read of a few microseconds, once for each credential (`KnownCredentials`). */
export class Credentials {
  readonly #apiKey: Query<[Uint8Array], ApiKeyRecord>;
  readonly #apiKeyById: Query<[bigint], ApiKeyRecord>;
  readonly #managementKey: Query<[Uint8Array], ManagementKeyRecord>;

  constructor(db: Connection) {
    const apiKeys = `SELECT id, account_id, state, allowed_models, expires_at_ms, EXISTS (SELECT 1 FROM usage_limit l WHERE l.removed = 0 AND l.action = 'refuse'
         AND l.unit IN ('requests', 'tokens') AND coalesce(l.field, '') NOT IN ('free_minute', 'free_day')
         AND ((l.scope = 'key' AND l.scope_id = k.id) OR (l.scope = 'account' AND l.scope_id = k.account_id))) AS has_window
       FROM api_key k`;
    this.#apiKey = db.prepare(`${apiKeys} WHERE hash = ?`);
    this.#apiKeyById = db.prepare(`${apiKeys} WHERE id = ?`);
    this.#managementKey = db.prepare('SELECT id, account_id, state, scopes FROM management_key WHERE hash = ?');
  }

  /** Returns the credential as committed; undefined if no key has this hash or it was revoked. */
  find(hash: Uint8Array): Credential | undefined {
    const apiKey = this.#apiKey.get(hash);
    return this.#toCredential(apiKey, apiKey ?? this.#managementKey.get(hash));
  }

  /** Returns an API key as committed; undefined if there is none with this id or it was revoked. */
  findApiKey(keyId: number): Credential | undefined {
    if (!Number.isSafeInteger(keyId)) return undefined;
    const apiKey = this.#apiKeyById.get(BigInt(keyId));
    return this.#toCredential(apiKey, apiKey);
  }

  #toCredential(
    apiKey: ApiKeyRecord | undefined,
    record: ApiKeyRecord | ManagementKeyRecord | undefined,
  ): Credential | undefined {
    if (record === undefined || record.state === 'revoked') return undefined;
    return {
      kind: apiKey === undefined ? 'management_key' : 'api_key',
      keyId: Number(record.id),
      accountId: Number(record.account_id),
      disabled: record.state === 'disabled',
      scopes: 'scopes' in record ? (JSON.parse(record.scopes) as string[]) : [],
      allowedModels: apiKey === undefined ? null : modelList(apiKey.allowed_models),
      hasWindow: apiKey?.has_window === 1n,
      expiresAtMs: apiKey?.expires_at_ms == null ? undefined : Number(apiKey.expires_at_ms),
    };
  }
}

/** A stored list of model ids; null allows all. */
function modelList(stored: string | null): string[] | null {
  return stored === null ? null : (JSON.parse(stored) as string[]);
}
