import { GatewayError, type WindowState } from '../errors/gateway-error.ts';
import { type AuthenticateResponse, CredentialKind, type CredentialService } from '../gen/tollgate/v1/credential_pb.ts';
import { actsForHeader, clientAddressHeader } from '../lib/call-headers.ts';
import { requestIdHeader } from '../lib/ids.ts';
import { isoTime } from '../lib/clock.ts';
import type { CallContext, PushedService, UnaryContext } from '../lib/pushed-service.ts';
import { actAs, hasActor } from '../ledger/actor.ts';
import type { Actor } from '../ledger/history.ts';
import type { Credential, Ledger } from '../ledger/ledger.ts';
import { limitsExhausted } from './generation/admission.ts';
import { hashKey, isKeyText, readCredential } from './keys.ts';
import { limitState } from './limit-state.ts';
import { roleScopes, resolveSession } from './session-access.ts';
import type { Scope } from './scopes.ts';
import { type PresentedToken, requireScope, type ServiceScope, type ServiceTokens } from './service-tokens.ts';

/** Authenticates callers for every service of the core. Source: docs/security.md "Credentials". */

export { allScopes, type Scope } from './scopes.ts';

/** The credential that a call needs: an API key, any key, or a management key (or session) with a scope. */
export type Wanted = 'api_key' | 'any_key' | { readonly scope: Scope };

/** The part of a call's context that identifies the caller. */
export type Caller = Pick<CallContext, 'requestHeader'>;

/** The part of the ledger that authentication needs. */
export interface CredentialPort extends Pick<Ledger, 'windows' | 'refusal'> {
  /** Returns a cached credential synchronously; undefined if there is none. */
  findCredential(hash: Uint8Array): Credential | undefined | Promise<Credential | undefined>;
  /** Returns an API key by its id; undefined if there is none or it was revoked. */
  findApiKey(keyId: number): Credential | undefined | Promise<Credential | undefined>;
}

/**
 * Returns the caller's credential, synchronously if it is cached. Throws or rejects with `invalid_api_key` if it is missing, malformed, unknown, revoked, deleted or expired, with `key_disabled` if it is disabled or paused, and with `permission_denied` if it is of the wrong kind or lacks the scope.
 */
export function authenticate(caller: Caller, ledger: CredentialPort, wanted: Wanted): Credential | Promise<Credential> {
  const actsFor = caller.requestHeader.get(actsForHeader);
  if (actsFor !== null) return checkFound(ledger.findApiKey(Number(actsFor)), ledger, wanted, caller);
  return authenticateKey(readCredential(caller.requestHeader), ledger, wanted, caller);
}

function authenticateKey(
  text: string,
  ledger: CredentialPort,
  wanted: Wanted,
  caller: Caller,
): Credential | Promise<Credential> {
  const found = isKeyText(text) ? ledger.findCredential(findHash(text)) : undefined;
  return checkFound(found, ledger, wanted, caller);
}

/** A cache of keys and their hashes, indexed by the keys' last two characters. Its size is a power of 2. */
const hashed: { readonly text: string; readonly hash: Uint8Array }[] = Array.from({ length: 256 }, () => ({
  text: '',
  hash: new Uint8Array(),
}));

/** Returns the hash of a key. Hashes are cached, because each request needs its key's hash twice (in the edge and in the core), and clients send many requests. */
function findHash(text: string): Uint8Array {
  const place = (text.charCodeAt(text.length - 1) + 31 * text.charCodeAt(text.length - 2)) & (hashed.length - 1);
  const known = hashed[place];
  if (known?.text === text) return known.hash;
  const hash = hashKey(text);
  hashed[place] = { text, hash };
  return hash;
}

function checkFound(
  found: Credential | undefined | Promise<Credential | undefined>,
  ledger: CredentialPort,
  wanted: Wanted,
  caller: Caller,
): Credential | Promise<Credential> {
  if (found instanceof Promise) return found.then(credential => checkFound(credential, ledger, wanted, caller));
  if (found === undefined) {
    throw new GatewayError('invalid_api_key', 'The API key is malformed, unknown, revoked or deleted.');
  }
  const credential = found.session === undefined ? found : resolveSession(found, ledger, wanted, caller.requestHeader);
  return credential instanceof Promise
    ? credential.then(resolved => checkAllowed(resolved, found, ledger, wanted))
    : checkAllowed(credential, found, ledger, wanted);
}

/** Returns `credential` if it may do what is wanted. `found` is what the caller presented; for a session, `credential` is what the session acts as. */
function checkAllowed(
  credential: Credential,
  found: Credential,
  ledger: CredentialPort,
  wanted: Wanted,
): Credential | Promise<never> {
  if (credential.expired) {
    throw new GatewayError('invalid_api_key', `The API key expired at ${isoTime(credential.expiresAtMs ?? 0)}.`, {
      tip: `Use another key, or set a later expires_at: PATCH /v1/account/keys/${credential.keyId} {"expires_at": "2030-01-01T00:00:00Z"}.`,
    });
  }
  if (credential.disabled) return refuseDisabled(credential, ledger);
  if (wanted === 'api_key' && credential.kind !== 'api_key') {
    throw new GatewayError('permission_denied', 'A management key can’t do this: use an API key (sk-tg-…).');
  }
  if (typeof wanted === 'object') {
    if (credential.kind !== 'management_key') {
      throw new GatewayError('permission_denied', 'An API key can’t do this: use a management key (mk-tg-…).');
    }
    if (!credential.scopes.includes(wanted.scope)) {
      const role = found.kind === 'session' ? found.session?.role : undefined;
      const who = role === undefined ? 'The management key' : `The role ${role}`;
      throw new GatewayError('permission_denied', `${who} lacks the scope ${wanted.scope}.`);
    }
  }
  return credential;
}

async function refuseDisabled(credential: Credential, ledger: CredentialPort): Promise<never> {
  const hasWindows = credential.kind === 'api_key' && credential.hasWindow;
  const limits = hasWindows ? await ledger.windows(credential.keyId, false) : [];
  if (credential.paused) {
    throw new GatewayError('key_disabled', `Key ${credential.keyId} is paused.`, {
      limits,
      tip: `Resume it: PATCH /v1/account/keys/${credential.keyId} {"paused": false}.`,
    });
  }
  throw new GatewayError('key_disabled', `Key ${credential.keyId} is disabled.`, {
    limits,
    tip: `Ask the operator to enable the key: npx tollgate ${
      credential.kind === 'api_key' ? 'keys' : 'management-keys'
    } enable ${credential.keyId}.`,
  });
}

/** Returns the service token that a credential is; undefined if it is none. */
function findToken(text: string, tokens: ServiceTokens): PresentedToken | undefined {
  // The text's form is checked before anything is hashed.
  return isKeyText(text) ? undefined : tokens.find(text);
}

/** Returns a person as the audit log names them: by session and name, because the rows of sessions are removed a day after they end. */
export function sessionActor({ sessionId, subject }: NonNullable<Credential['session']>): Pick<Actor, 'type' | 'id'> {
  return { type: 'session', id: `${sessionId} (${subject})` };
}

/**
 * Returns the identity of a caller with a service token that has the scope, or with a session of the operator. Throws for any other credential: `permission_denied` for a valid key, and the error of `authenticate` for an invalid one.
 */
export async function requireService(
  caller: Caller,
  { ledger, tokens }: CredentialOptions,
  scope: ServiceScope,
): Promise<Pick<Actor, 'type' | 'id'>> {
  const token = findToken(readCredential(caller.requestHeader), tokens);
  if (token !== undefined) {
    requireScope(token, scope);
    return { type: 'operator', id: token.scopes.includes('operator') ? null : token.name };
  }
  const { session } = await authenticate(caller, ledger, 'any_key');
  if (session?.role === 'operator') return sessionActor(session);
  throw new GatewayError('permission_denied', 'Only the operator can do this: use the operator token.', {
    tip: 'The operator token is in the file operator.token of the gateway’s data directory.',
  });
}

/**
 * Wraps the methods of a service so that only callers that `requireService` accepts for the method's scope can call them. The audit log records the caller of methods with the scope `admin:write` or `operator` as the one who made the change, unless an actor is already set.
 */
export function servicesOnly<Methods extends Record<string, (request: never, context: UnaryContext) => unknown>>(
  methods: Methods,
  options: CredentialOptions,
  scopeFor: (method: string) => ServiceScope,
): Methods {
  const guarded = Object.entries(methods).map(([name, method]) => [
    name,
    async (request: never, context: UnaryContext) => {
      const scope = scopeFor(name);
      const who = await requireService(context, options, scope);
      if ((scope !== 'admin:write' && scope !== 'operator') || hasActor()) return method(request, context);
      return actAs(toActor(context, who), () => method(request, context));
    },
  ]);
  // The cast holds: the names and types are those of `methods`, whose replies may be promises.
  return Object.fromEntries(guarded) as Methods;
}

/** Returns the actor of a call. */
export function toActor({ requestHeader }: Caller, who: Pick<Actor, 'type' | 'id'>): Actor {
  return { ...who, address: requestHeader.get(clientAddressHeader), requestId: requestHeader.get(requestIdHeader) };
}

/** Returns the listed ids that the caller may list; null: all (for management keys, service tokens, and keys without `allowed_models`). */
export async function visibleModels(
  caller: Caller,
  { ledger, tokens }: CredentialOptions,
): Promise<readonly string[] | null> {
  if (findToken(readCredential(caller.requestHeader), tokens) !== undefined) return null;
  const { allowedModels } = await authenticate(caller, ledger, 'any_key');
  return allowedModels;
}

/** Throws unless the caller has a valid credential. Called for every call on the network listener; the services decide what the credential may do. */
export async function requireCredential(caller: Caller, { ledger, tokens }: CredentialOptions): Promise<void> {
  if (findToken(readCredential(caller.requestHeader), tokens) === undefined)
    await authenticate(caller, ledger, 'any_key');
}

/** Where credentials are looked up. */
export interface CredentialOptions {
  readonly ledger: CredentialPort;
  readonly tokens: ServiceTokens;
}

/** CredentialService: describes the caller's credential, synchronously if it is cached and no windows are requested. */
export function credentialService({ ledger, tokens }: CredentialOptions): PushedService<typeof CredentialService> {
  return {
    authenticate(request, context) {
      const text = readCredential(context.requestHeader);
      const token = findToken(text, tokens);
      if (token !== undefined) {
        if (token.scopes.includes('operator')) return { kind: CredentialKind.OPERATOR };
        return { kind: CredentialKind.SERVICE, scopes: [...token.scopes] };
      }
      const credential = authenticateKey(text, ledger, 'any_key', context);
      const toReply = (found: Credential): AuthenticateResponse | Promise<AuthenticateResponse> => {
        const { kind, keyId, hasWindow } = found;
        if (kind !== 'api_key') return describe(found, []);
        if (request.limits) return ledger.windows(keyId, false).then(windows => describe(found, windows));
        if (!request.admission || !hasWindow) return describe(found, []);
        const refusal = ledger.refusal(keyId);
        if (refusal === undefined) return describe(found, []);
        return refusal.then(denied => {
          if (denied !== undefined) throw limitsExhausted(denied, keyId);
          return describe(found, []);
        });
      };
      return credential instanceof Promise ? credential.then(toReply) : toReply(credential);
    },
  };
}

function describe(credential: Credential, windows: readonly WindowState[]): AuthenticateResponse {
  const { kind, session, scopes } = credential;
  return {
    $typeName: 'tollgate.v1.AuthenticateResponse',
    kind: session?.role === 'operator' ? CredentialKind.OPERATOR : kinds[kind],
    accountId: BigInt(credential.accountId),
    keyId: BigInt(credential.keyId),
    scopes: kind === 'session' && session !== undefined ? [...roleScopes[session.role]] : [...scopes],
    limits: windows.map(limitState),
  };
}

const kinds: Readonly<Record<Credential['kind'], CredentialKind>> = {
  api_key: CredentialKind.API_KEY,
  management_key: CredentialKind.MANAGEMENT_KEY,
  session: CredentialKind.SESSION,
};
