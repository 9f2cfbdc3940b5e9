import { AsyncLocalStorage } from 'node:async_hooks';
import type { Actor } from './history.ts';

const gateway: Actor = { type: 'gateway', id: null, address: null, requestId: null };
const actors = new AsyncLocalStorage<Actor>();

/** Runs `work` and returns its result. The audit log names `actor` for the administrative commands that `work` sends. */
export function actAs<T>(actor: Actor, work: () => T): T {
  return actors.run(actor, work);
}

/** Returns whether `actAs` has set an actor. */
export function hasActor(): boolean {
  return actors.getStore() !== undefined;
}

/** Returns the current actor; the gateway itself if none was set. */
export function currentActor(): Actor {
  return actors.getStore() ?? gateway;
}
