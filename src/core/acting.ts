import { actAs, hasActor } from '../ledger/actor.ts';
import type { UnaryContext } from '../lib/pushed-service.ts';
import { authenticate, type CredentialPort, sessionActor, toActor } from './credential.ts';

type Methods = Record<string, (request: never, context: UnaryContext) => unknown>;

/**
 * Wraps methods of AccountService: their changes are recorded as the calling credential's, unless a caller in this process has named
 * someone else.
 */
export function asCaller<All extends Methods>(methods: All, ledger: CredentialPort): All {
  const named = Object.entries(methods).map(([name, method]) => {
    if (/^(?:get|list)/.test(name)) return [name, method];
    const acting = async (request: never, context: UnaryContext): Promise<unknown> => {
      if (hasActor()) return method(request, context);
      const { kind, keyId, session } = await authenticate(context, ledger, 'any_key');
      const who = session === undefined ? { type: kind, id: String(keyId) } : sessionActor(session);
      return actAs(toActor(context, who), () => method(request, context));
    };
    return [name, acting];
  });
  // The cast holds: the names and types are those of `methods`, whose replies may be promises.
  return Object.fromEntries(named) as All;
}
