import { actAs, hasActor } from '../ledger/actor.ts';
import type { UnaryContext } from '../lib/pushed-service.ts';
import { authenticate, type CredentialPort, sessionActor, toActor } from './credential.ts';

/** Records who made a change, for the audit log. */

type Methods = Record<string, (request: never, context: UnaryContext) => unknown>;

/**
 * Wraps methods of AccountService, so that the audit log records the calling credential as the one who made a change. If an actor is already set (`actAs`), it is recorded instead. Methods that only read are not wrapped.
 */
export function withActor<All extends Methods>(methods: All, ledger: CredentialPort): All {
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
