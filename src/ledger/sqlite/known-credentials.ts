import type { Credential } from '../ledger.ts';

/** As many customers as may be active at once; beyond it all are read anew. */
const credentialsMax = 10_000;

/**
 * Credentials that were read, kept until any may have changed. It delays nothing: only the commands of this process change keys (the node lock keeps
 * others away), and whoever sends one calls `forget` before anybody is told that it is done.
 */
export class KnownCredentials {
  readonly #read: (hash: Uint8Array) => Credential | undefined;
  readonly #known = new Map<string, Credential>();

  /** `read` finds the present state; undefined: there is no such credential. */
  constructor(read: (hash: Uint8Array) => Credential | undefined) {
    this.#read = read;
  }

  /** The credential as it stands. What does not exist is not remembered: guesses must not fill the memory. */
  find(hash: Uint8Array): Credential | undefined {
    const name = Buffer.from(hash.buffer, hash.byteOffset, hash.byteLength).toString('latin1');
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const found = this.#read(hash);
    if (found === undefined) return undefined;
    if (this.#known.size >= credentialsMax) this.#known.clear();
    this.#known.set(name, found);
    return found;
  }

  /** Something has changed, or may have. */
  forget(): void {
    this.#known.clear();
  }
}
