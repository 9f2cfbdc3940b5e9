import type { Credential, KeepBodies, KeyState, SessionRole } from '../ledger.ts';
import type { Connection, Query } from '../../lib/sqlite/database.ts';

interface ApiKeyRecord {
  id: bigint;
  account_id: bigint;
  state: KeyState;
  allowed_models: string | null;
  has_window: bigint;
  expires_at_ms: bigint | null;
  keep_bodies: KeepBodies | null;
  paused: bigint;
}

interface ManagementKeyRecord {
  id: bigint;
  account_id: bigint;
  state: KeyState;
  scopes: string;
}

interface SessionRecord {
  id: bigint;
  role: SessionRole;
  account_id: bigint | null;
  key_hash: Uint8Array | null;
  subject: string;
  ends_at_ms: bigint;
}

/** Reads credentials by their hash, on the calling thread: it takes a few microseconds, and `KnownCredentials` caches the result. */
export class Credentials {
  readonly #apiKey: Query<[Uint8Array], ApiKeyRecord>;
  readonly #apiKeyById: Query<[bigint], ApiKeyRecord>;
  readonly #oldSecret: Query<[Uint8Array], { ends_at_ms: bigint; hash: Uint8Array }>;
  readonly #managementKey: Query<[Uint8Array], ManagementKeyRecord>;
  readonly #session: Query<[Uint8Array], SessionRecord>;

  constructor(db: Connection) {
    const apiKeys = `SELECT id, account_id, state, allowed_models, expires_at_ms, keep_bodies, paused, EXISTS (SELECT 1 FROM usage_limit l WHERE l.removed = 0 AND l.action = 'refuse'
         AND l.unit IN ('requests', 'tokens', 'concurrent') AND coalesce(l.field, '') NOT IN ('free_minute', 'free_day')
         AND ((l.scope = 'key' AND l.scope_id = k.id) OR (l.scope = 'account' AND l.scope_id = k.account_id)
           OR (l.scope = 'group' AND l.scope_id IN (
             WITH RECURSIVE path (id) AS (SELECT k.group_id UNION SELECT g.parent_id FROM key_group g JOIN path ON g.id = path.id)
             SELECT id FROM path)))) AS has_window
       FROM api_key k`;
    this.#apiKey = db.prepare(`${apiKeys} WHERE hash = ?`);
    this.#apiKeyById = db.prepare(`${apiKeys} WHERE id = ?`);
    this.#oldSecret = db.prepare(
      'SELECT s.ends_at_ms, k.hash FROM old_secret s JOIN api_key k ON k.id = s.key_id WHERE s.hash = ?',
    );
    this.#managementKey = db.prepare('SELECT id, account_id, state, scopes FROM management_key WHERE hash = ?');
    this.#session = db.prepare(
      'SELECT id, role, account_id, key_hash, subject, ends_at_ms FROM session WHERE hash = ?',
    );
  }

  /** Returns the committed credential; undefined if no key has this hash or it was revoked. A rotated secret stays valid until the end of its overlap. */
  find(hash: Uint8Array): Credential | undefined {
    const apiKey = this.#apiKey.get(hash);
    if (apiKey !== undefined) return toCredential(apiKey, undefined);
    const old = this.#oldSecret.get(hash);
    if (old !== undefined) {
      const key = this.#apiKey.get(old.hash);
      return key && toCredential(key, Number(old.ends_at_ms));
    }
    const managementKey = this.#managementKey.get(hash);
    if (managementKey !== undefined) return toManager(managementKey);
    const session = this.#session.get(hash);
    return session && this.#toSession(session);
  }

  /** Returns the credential of a session, with the current permissions of the key that signed in, or those of its role; undefined if the key was revoked. */
  #toSession({ id, role, account_id, key_hash, subject, ends_at_ms }: SessionRecord): Credential | undefined {
    const session = { sessionId: Number(id), role, subject };
    const endsAtMs = Number(ends_at_ms);
    if (key_hash !== null) {
      const key = this.find(key_hash);
      return key && { ...key, expiresAtMs: Math.min(key.expiresAtMs ?? endsAtMs, endsAtMs), session };
    }
    const accountId = Number(account_id ?? 0n);
    const nothing = { scopes: [], allowedModels: null, hasWindow: false, disabled: false };
    return { kind: 'session', keyId: 0, accountId, ...nothing, expiresAtMs: endsAtMs, session };
  }

  /** Returns a committed API key; undefined if there is none with this id or it was revoked. */
  findApiKey(keyId: number): Credential | undefined {
    if (!Number.isSafeInteger(keyId)) return undefined;
    const apiKey = this.#apiKeyById.get(BigInt(keyId));
    return apiKey && toCredential(apiKey, undefined);
  }
}

function toCredential(record: ApiKeyRecord, endsAtMs: number | undefined): Credential | undefined {
  if (record.state === 'revoked') return undefined;
  const ends = [endsAtMs, record.expires_at_ms].flatMap(at => (at === null || at === undefined ? [] : Number(at)));
  return {
    kind: 'api_key',
    keyId: Number(record.id),
    accountId: Number(record.account_id),
    disabled: record.state === 'disabled' || record.paused === 1n,
    keepBodies: record.keep_bodies,
    ...(record.paused === 1n && { paused: true }),
    scopes: [],
    allowedModels: modelList(record.allowed_models),
    hasWindow: record.has_window === 1n,
    expiresAtMs: ends.length === 0 ? undefined : Math.min(...ends),
  };
}

/** Decodes a stored list of model ids; null allows all. */
function modelList(stored: string | null): string[] | null {
  return stored === null ? null : (JSON.parse(stored) as string[]);
}

function toManager({ id, account_id, state, scopes }: ManagementKeyRecord): Credential | undefined {
  if (state === 'revoked') return undefined;
  return {
    kind: 'management_key',
    keyId: Number(id),
    accountId: Number(account_id),
    disabled: state === 'disabled',
    scopes: JSON.parse(scopes) as string[],
    allowedModels: null,
    hasWindow: false,
    expiresAtMs: undefined,
  };
}
