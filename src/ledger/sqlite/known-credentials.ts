import type { Credential } from '../ledger.ts';

/** As many customers as may be active at once; beyond it all are read anew. */
const credentialsMax = 10_000;

/**
 * Credentials that were read, cached until any may have changed. This delays nothing: only the commands of this
 * process change keys (the node lock keeps others away), and the sender of one calls `forget` before it reports that
 * it is done. Each thread has its own cache; a shared number says whether any of them has called `forget` since.
 */
export class KnownCredentials {
  readonly #read: (hash: Uint8Array) => Credential | undefined;
  readonly #known = new Map<string, Credential>();
  readonly #version: Int32Array;
  /** The version that what is known belongs to. */
  #knownVersion: number;

  /** `read` finds the present state; undefined: there is no such credential. `version`: the shared number, 4 bytes. */
  constructor(read: (hash: Uint8Array) => Credential | undefined, version = new SharedArrayBuffer(4)) {
    this.#read = read;
    this.#version = new Int32Array(version);
    this.#knownVersion = Atomics.load(this.#version, 0);
  }

  /** The credential as it stands. What does not exist is not remembered: guesses must not fill the memory. */
  find(hash: Uint8Array): Credential | undefined {
    // Before it is read: what is changed meanwhile has another version.
    const version = Atomics.load(this.#version, 0);
    if (version !== this.#knownVersion) {
      this.#known.clear();
      this.#knownVersion = version;
    }
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
    Atomics.add(this.#version, 0, 1);
  }
}
