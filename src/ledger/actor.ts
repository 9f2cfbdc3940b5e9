import { AsyncLocalStorage } from 'node:async_hooks';

/** Who does something: the audit names them beside what they did. */
export interface Actor {
  /** `operator`, `management_key`, `session` (a person who signed in), or `gateway`: the program itself. */
  readonly type: string;
  /** Of the key or the person; the name of the operator's token; null: the type says it all. */
  readonly id: string | null;
  /** The network address that the call came from; null: none. */
  readonly address: string | null;
  /** Of the call; null: it has none. */
  readonly requestId: string | null;
}

const gateway: Actor = { type: 'gateway', id: null, address: null, requestId: null };
const actors = new AsyncLocalStorage<Actor>();

/** Runs `work`; the ledger's administrative commands in it are the actor's. Returns what it returns. */
export function actAs<T>(actor: Actor, work: () => T): T {
  return actors.run(actor, work);
}

/** Returns whether somebody was named. */
export function hasActor(): boolean {
  return actors.getStore() !== undefined;
}

/** Returns who acts now; the gateway itself where nobody was named. */
export function currentActor(): Actor {
  return actors.getStore() ?? gateway;
}
