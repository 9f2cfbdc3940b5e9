import { makeCallId } from './call-id.ts';

/** A call or result as clients write it: an id is optional in this protocol. */
interface Named {
  readonly id?: string | null | undefined;
  readonly name: string;
}

/**
 * Gives ids to calls and results that have none, as other protocols need them: a result belongs to the first open call of its name, else to the first open call.
 */
export class ClientCallIds {
  /** Calls without a result, in order. */
  readonly #open: { readonly callId: string; readonly name: string }[] = [];

  /** Returns the id of the call at `path`: the same in every turn of a conversation, because history only grows. */
  ofCall({ id, name }: Named, path: string): string {
    const callId = id == null || id === '' ? makeCallId('', `${path} ${name}`) : id;
    this.#open.push({ callId, name });
    return callId;
  }

  /** Returns the id of the call that a result belongs to; an id of its own if no call is open. */
  ofResult({ id, name }: Named, path: string): string {
    const byId = this.#open.findIndex(({ callId }) => callId === id);
    const byName = byId === -1 ? this.#open.findIndex(call => call.name === name) : byId;
    const [call] = this.#open.splice(byName === -1 ? 0 : byName, 1);
    if (call !== undefined) return call.callId;
    return id == null || id === '' ? makeCallId('', `${path} ${name}`) : id;
  }
}
