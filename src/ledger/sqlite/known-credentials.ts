import type { Credential } from '../ledger.ts';

/** The most credentials in the cache; beyond it the cache is cleared. */
const credentialsMax = 10_000;

/**
 * Caches credentials until any of them may have changed. A change is seen at once: only commands of this process change keys (the lock of the
 * data directory keeps other processes out), and the sender of a command calls `forget` before it reports success. Each thread has its own
 * cache; a shared version counts the calls of `forget` by all threads.
 */
export class KnownCredentials {
  readonly #read: (hash: Uint8Array) => Credential | undefined;
  readonly #known = new Map<string, Credential>();
  /** One credential for each first byte of a hash. If a caller passes the same array again, its credential is found without making a string of the hash. */
  #quick: ({ readonly hash: Uint8Array; readonly credential: Credential } | undefined)[] = [];
  readonly #version: Int32Array;
  /** The version of the cached credentials. */
  #knownVersion: number;

  /** `read` returns the current state; undefined: there is no such credential. `version`: the shared number, 4 bytes. */
  constructor(read: (hash: Uint8Array) => Credential | undefined, version = new SharedArrayBuffer(4)) {
    this.#read = read;
    this.#version = new Int32Array(version);
    this.#knownVersion = Atomics.load(this.#version, 0);
  }

  /** Returns the current credential. Unknown keys are not cached: guesses must not fill the memory. */
  find(hash: Uint8Array): Credential | undefined {
    // The version is read first: if a credential changes in between, the next `find` sees another version and clears the cache.
    const version = Atomics.load(this.#version, 0);
    if (version !== this.#knownVersion) {
      this.#known.clear();
      this.#quick = [];
      this.#knownVersion = version;
    }
    const place = hash[0] ?? 0;
    const quick = this.#quick[place];
    if (quick?.hash === hash) return quick.credential;
    const credential = this.#findByText(hash);
    if (credential !== undefined) this.#quick[place] = { hash, credential };
    return credential;
  }

  #findByText(hash: Uint8Array): Credential | undefined {
    const name = Buffer.from(hash.buffer, hash.byteOffset, hash.byteLength).toString('latin1');
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const found = this.#read(hash);
    if (found === undefined) return undefined;
    if (this.#known.size >= credentialsMax) this.#known.clear();
    this.#known.set(name, found);
    return found;
  }

  /** Empties the caches of all threads. Called when a credential has changed, or may have. */
  forget(): void {
    Atomics.add(this.#version, 0, 1);
  }
}
