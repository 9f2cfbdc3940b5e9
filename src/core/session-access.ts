import { GatewayError } from '../errors/gateway-error.ts';
import type { Credential, Ledger, SessionRole } from '../ledger/ledger.ts';
import { accountIdHeader, apiKeyIdHeader } from '../lib/call-headers.ts';
import type { HeaderReader } from '../lib/push.ts';
import { allScopes, type Scope } from './scopes.ts';

/** Resolves what a session may do. A person who signed in without a key has the scopes of a role; a session of a management key has the key's scopes. */

const viewerScopes: readonly Scope[] = allScopes.filter(
  scope => scope.endsWith(':read') || scope === 'account:activity' || scope === 'account:balance',
);

/** The scopes of each role. The operator has all scopes, for the account that the call names. */
export const roleScopes: Readonly<Record<SessionRole, readonly Scope[]>> = {
  operator: allScopes,
  owner: allScopes,
  member: [...viewerScopes, 'keys:create', 'keys:update'],
  viewer: viewerScopes,
};

/**
 * Returns the credential as which a session acts in a call: a management key with the scopes of its role, or, if an API key is needed, the API key whose id the caller sends. Throws `invalid_api_key` if the session has ended, and `permission_denied` or `not_found` if the person can't act for that key or account.
 */
export function resolveSession(
  found: Credential,
  ledger: Pick<Ledger, 'findApiKey'>,
  wanted: 'api_key' | 'any_key' | { readonly scope: Scope },
  headers: HeaderReader,
): Credential | Promise<Credential> {
  if (found.expired === true) {
    throw new GatewayError('invalid_api_key', 'The session has ended.', { tip: 'Sign in again.' });
  }
  if (found.disabled || found.kind === 'api_key' || wanted === 'any_key') return found;
  const role = found.session?.role ?? 'viewer';
  const scopes = found.kind === 'session' ? roleScopes[role] : found.scopes;
  if (wanted !== 'api_key') {
    if (found.kind !== 'session') return found;
    const accountId = role === 'operator' ? readId(headers, accountIdHeader, 'an account') : found.accountId;
    return { ...found, kind: 'management_key', scopes, accountId };
  }
  const keyId = readId(headers, apiKeyIdHeader, 'an API key');
  const known = ledger.findApiKey(keyId);
  const check = (key: Credential | undefined): Credential => checkKey(key, { keyId, found, role, scopes });
  return known instanceof Promise ? known.then(check) : check(known);
}

function checkKey(
  key: Credential | undefined,
  { keyId, found, role, scopes }: { keyId: number; found: Credential; role: string; scopes: readonly string[] },
): Credential {
  if (key === undefined || (role !== 'operator' && key.accountId !== found.accountId)) {
    throw new GatewayError('not_found', `There is no API key ${keyId}.`);
  }
  // A role that may create keys may also spend with one.
  if (!scopes.includes('keys:create')) {
    throw new GatewayError('permission_denied', 'Only sessions that may create keys may generate with one.');
  }
  return key;
}

function readId(headers: HeaderReader, name: string, what: string): number {
  const text = headers.get(name);
  if (text !== null && /^[1-9]\d{0,15}$/.test(text)) return Number(text);
  throw new GatewayError('permission_denied', `A session must name ${what}: send its id in the header ${name}.`);
}
