import { timingSafeEqual } from 'node:crypto';
import { GatewayError } from '../errors/gateway-error.ts';
import { hashKey } from './keys.ts';

/**
 * The scopes of a service token. `operator`: everything except `edge`. `admin:read`, `admin:write`: what AdminService shows and changes, except what `ownScopes` in `admin.ts` lists. `bodies:read`: kept bodies of requests. `metering`: AccountingService. `generate`: generations and images for any API key, which is named by its id. `edge`: to act as the public listener in another process.
 */
export const serviceScopes = [
  'operator',
  'admin:read',
  'admin:write',
  'bodies:read',
  'metering',
  'generate',
  'edge',
] as const;

/** A scope of a service token. */
export type ServiceScope = (typeof serviceScopes)[number];

/** A credential of the operator, or of one of the operator's services. */
export interface ServiceToken {
  /** The token's name in errors and in the log. */
  readonly name: string;
  readonly text: string;
  readonly scopes: readonly ServiceScope[];
}

/** A valid token that a caller presented. */
export interface PresentedToken {
  readonly name: string;
  readonly scopes: readonly ServiceScope[];
}

/** The valid service tokens. Only their hashes are kept. */
export class ServiceTokens {
  #tokens: readonly (PresentedToken & { readonly hash: Uint8Array })[] = [];

  constructor(tokens: readonly ServiceToken[]) {
    this.replace(tokens);
  }

  /** Replaces all valid tokens. */
  replace(tokens: readonly ServiceToken[]): void {
    this.#tokens = tokens.map(({ text, ...token }) => ({ ...token, hash: hashKey(text) }));
  }

  /** Returns the token with this text; undefined if there is none. Texts are compared in constant time. */
  find(text: string): PresentedToken | undefined {
    const hash = hashKey(text);
    let found: PresentedToken | undefined;
    for (const token of this.#tokens) if (timingSafeEqual(hash, token.hash)) found ??= token;
    return found;
  }
}

/** Returns whether a token has a scope; `operator` includes all scopes except `edge`. */
export function hasScope({ scopes }: PresentedToken, scope: ServiceScope): boolean {
  return scopes.includes(scope) || (scopes.includes('operator') && scope !== 'edge');
}

/** Throws `permission_denied` if a token lacks a scope. */
export function requireScope(token: PresentedToken, scope: ServiceScope): void {
  if (hasScope(token, scope)) return;
  throw new GatewayError('permission_denied', `The service token ${token.name} lacks the scope ${scope}.`, {
    tip: 'Add the scope to the token in `rpc.tokens` of the configuration and reload it.',
  });
}
