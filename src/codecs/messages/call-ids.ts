import { hashText } from '../../generation/call-id.ts';

/**
 * Makes call ids unique, and replaces characters that the protocol does not accept. A valid id keeps its value the first time it is used,
 * unless another call already has that value. The same conversation always gets the same ids. Source: translation cases TR-08, TR-10.
 */
export class CallIds {
  readonly #uses = new Map<string, number>();
  readonly #latest = new Map<string, string>();
  readonly #taken = new Set<string>();

  /** Returns the id to send for a call; later results with the same `callId` belong to it. */
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

  /** Returns the id to send for the call that a result belongs to: the latest with this `callId`. */
  ofResult(callId: string): string {
    return this.#latest.get(callId) ?? legalId(callId);
  }
}

function legalId(callId: string): string {
  if (/^[a-zA-Z0-9_-]+$/.test(callId)) return callId;
  return `${callId.replaceAll(/[^a-zA-Z0-9_-]/g, '_')}_${hashText(callId)}`;
}
