import { hashOf } from '../../generation/call-id.ts';

/**
 * Ids of calls in the letters that the protocol takes, the same for the same conversation: what is legal and was not used before stays as it is.
 * Source: cases TR-08, TR-10.
 */
export class CallIds {
  readonly #uses = new Map<string, number>();
  readonly #latest = new Map<string, string>();
  readonly #taken = new Set<string>();

  /** The id of a call; results that follow are results of this one. */
  ofCall(callId: string): string {
    const uses = (this.#uses.get(callId) ?? 0) + 1;
    this.#uses.set(callId, uses);
    const legal = legalId(callId);
    let id = uses === 1 ? legal : `${legal}_${uses}`;
    while (this.#taken.has(id)) id = `${id}_`;
    this.#taken.add(id);
    this.#latest.set(callId, id);
    return id;
  }

  /** The id of the call that a result answers. */
  ofResult(callId: string): string {
    return this.#latest.get(callId) ?? legalId(callId);
  }
}

function legalId(callId: string): string {
  if (/^[a-zA-Z0-9_-]+$/.test(callId)) return callId;
  return `${callId.replaceAll(/[^a-zA-Z0-9_-]/g, '_')}_${hashOf(callId)}`;
}
