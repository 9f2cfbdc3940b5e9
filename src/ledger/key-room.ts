/** How long a key's room is cached. It is short, because another process or thread may use the same room. */
const rememberedMs = 1000;
/** The most keys in the cache; beyond it the cache is cleared. */
const keysMax = 10_000;

interface Room {
  /** The key has room until this many requests have been sent in all. */
  sentMax: number;
  untilMs: number;
}

/**
 * Caches how many more requests the limits of each key allow, so that the ledger need not be queried for every request before its body is read. Each
 * request that is sent for admission counts against all keys, because keys can share limits. So the cached room is never too large, except for what
 * other threads and processes have used since. The admission decides in the end.
 */
export class KeyRoom {
  readonly #rooms = new Map<number, Room>();
  #sent = 0;

  /** The number of requests that were sent for admission so far. */
  get sent(): number {
    return this.#sent;
  }

  /** Counts requests that are sent for admission. */
  send(requests: number): void {
    this.#sent += requests;
  }

  /** Caches the ledger's reply: the key has room for `requests` (possibly Infinity) more. `sent`: the value of `sent` when the query was made. */
  remember(keyId: number, requests: number, { sent, nowMs }: { readonly sent: number; readonly nowMs: number }): void {
    const known = this.#rooms.get(keyId);
    const [sentMax, untilMs] = [sent + requests, nowMs + rememberedMs];
    if (known !== undefined) {
      known.sentMax = sentMax;
      known.untilMs = untilMs;
      return;
    }
    if (this.#rooms.size >= keysMax) this.#rooms.clear();
    this.#rooms.set(keyId, { sentMax, untilMs });
  }

  /** Returns true if one more request of the key is certainly within its limits; false if it may not be, or nothing is cached. */
  has(keyId: number, nowMs: number): boolean {
    const known = this.#rooms.get(keyId);
    if (known === undefined || this.#sent >= known.sentMax) return false;
    // A clock that was set back must not extend the lifetime of an entry.
    return nowMs < known.untilMs && nowMs >= known.untilMs - rememberedMs;
  }

  /** Called when a limit may have changed. */
  forget(): void {
    this.#rooms.clear();
  }
}
