import type { HandlerContext, ServiceImpl } from '@connectrpc/connect';
import { GatewayError, type WindowState } from '../errors/gateway-error.ts';
import { CredentialKind, type CredentialService } from '../gen/tollgate/v1/credential_pb.ts';
import type { LimitState } from '../gen/tollgate/v1/event_pb.ts';
import type { Credential, Ledger } from '../ledger/ledger.ts';
import { hashKey, isKeyText, readCredential, secretsEqual } from './keys.ts';

/** Who is calling: every service of the core asks here. Source: decisions §2. */

/** The scopes that a management key can have (`service.md`, Authentication). */
export const allScopes = [
  'keys:create',
  'keys:read',
  'keys:update',
  'keys:delete',
  'account:read',
  'account:activity',
  'account:balance',
] as const;

/** A scope of a management key. */
export type Scope = (typeof allScopes)[number];

/** What a call needs: a customer's API key, a management key with a scope, or either of both. */
export type Wanted = 'api_key' | 'any_key' | { readonly scope: Scope };

/** The part of a call's context that names the caller. */
export type Caller = Pick<HandlerContext, 'requestHeader'>;

/** What the credential needs of the ledger. */
export type CredentialPort = Pick<Ledger, 'findCredential' | 'windows'>;

/**
 * The caller's key. Throws `invalid_api_key` where it is missing, malformed, unknown, revoked or deleted, `key_disabled`, and
 * `permission_denied` where it is of the wrong kind or lacks the scope.
 */
export async function authenticate(caller: Caller, ledger: CredentialPort, wanted: Wanted): Promise<Credential> {
  const credential = await findCaller(readCredential(caller.requestHeader), ledger);
  if (wanted === 'api_key' && credential.kind !== 'api_key') {
    throw new GatewayError('permission_denied', 'A management key can’t do this: use an API key (sk-tg-…).');
  }
  if (typeof wanted === 'object') {
    if (credential.kind !== 'management_key') {
      throw new GatewayError('permission_denied', 'An API key can’t do this: use a management key (mk-tg-…).');
    }
    if (!credential.scopes.includes(wanted.scope)) {
      throw new GatewayError('permission_denied', `The management key lacks the scope ${wanted.scope}.`);
    }
  }
  return credential;
}

async function findCaller(text: string, ledger: CredentialPort): Promise<Credential> {
  const credential = isKeyText(text) ? await ledger.findCredential(hashKey(text)) : undefined;
  if (credential === undefined) {
    throw new GatewayError('invalid_api_key', 'The API key is malformed, unknown, revoked or deleted.');
  }
  if (credential.disabled) {
    const hasWindows = credential.kind === 'api_key' && credential.hasWindow;
    throw new GatewayError('key_disabled', `Key ${credential.keyId} is disabled.`, {
      limits: hasWindows ? await ledger.windows(credential.keyId, false) : [],
      tip: `Ask the operator to enable the key: npx tollgate ${
        credential.kind === 'api_key' ? 'keys' : 'management-keys'
      } enable ${credential.keyId}.`,
    });
  }
  return credential;
}

/** Whether the caller sent the operator token. Throws `invalid_api_key` where no credential was sent at all. */
export function isOperator(caller: Caller, operatorToken: string): boolean {
  const text = readCredential(caller.requestHeader);
  // A key is none: two hashes less on every request.
  return !isKeyText(text) && secretsEqual(text, operatorToken);
}

/**
 * Passes the operator only. Any other credential is refused for what it is: a valid key with `permission_denied`, one that is not valid as
 * `authenticate` refuses it.
 */
export async function requireOperator(caller: Caller, ledger: CredentialPort, operatorToken: string): Promise<void> {
  if (isOperator(caller, operatorToken)) return;
  await authenticate(caller, ledger, 'any_key');
  throw new GatewayError('permission_denied', 'Only the operator can do this: use the operator token.', {
    tip: 'The operator token is in the file operator.token of the gateway’s data directory.',
  });
}

/** The models that the caller may list: null for all (management keys, the operator, keys without `allowed_models`). */
export async function visibleModels(
  caller: Caller,
  ledger: CredentialPort,
  operatorToken: string,
): Promise<readonly string[] | null> {
  if (isOperator(caller, operatorToken)) return null;
  const { allowedModels } = await authenticate(caller, ledger, 'any_key');
  return allowedModels;
}

/** The network listener's gate: whoever calls any service of the gateway has a valid credential. What it may do, the service decides. */
export async function requireCredential(caller: Caller, ledger: CredentialPort, operatorToken: string): Promise<void> {
  if (!isOperator(caller, operatorToken)) await authenticate(caller, ledger, 'any_key');
}

/** What the credential service works with. */
export interface CredentialOptions {
  readonly ledger: CredentialPort;
  readonly operatorToken: string;
}

/** CredentialService: says what the caller's credential is and may do. */
export function credentialService({ ledger, operatorToken }: CredentialOptions): ServiceImpl<typeof CredentialService> {
  return {
    async authenticate(request, context) {
      if (isOperator(context, operatorToken)) return { kind: CredentialKind.OPERATOR };
      const credential = await authenticate(context, ledger, 'any_key');
      const isApiKey = credential.kind === 'api_key';
      const windows = request.limits && isApiKey ? await ledger.windows(credential.keyId, false) : [];
      return {
        kind: isApiKey ? CredentialKind.API_KEY : CredentialKind.MANAGEMENT_KEY,
        accountId: BigInt(credential.accountId),
        keyId: BigInt(credential.keyId),
        scopes: [...credential.scopes],
        limits: windows.map(limitOf),
      };
    },
  };
}

/** A request window as the contract says it. */
export function limitOf(window: WindowState): Omit<LimitState, '$typeName'> {
  return {
    limit: window.limit,
    max: BigInt(window.max),
    remaining: BigInt(window.remaining),
    resetAtMs: BigInt(window.resetAtMs),
  };
}
