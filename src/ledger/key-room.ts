/** How long the room of a key is remembered: another process or thread may have used it meanwhile. */
const rememberedMs = 1000;
/** The most keys that are remembered; beyond it all are forgotten. */
const keysMax = 10_000;

interface Room {
  /** There is room as long as fewer requests were sent in all. */
  sentMax: number;
  untilMs: number;
}

/**
 * Remembers how many more requests the limits of each key let through, so that not every request has to ask the ledger before its body is read. Every
 * request that is sent to be admitted counts against every key: the room of a key may be shared with others. The remembered room is never too large, except that other threads and processes may have used some of it since. The admission has the final say.
 */
export class KeyRoom {
  readonly #rooms = new Map<number, Room>();
  #sent = 0;

  /** Requests sent so far. */
  get sent(): number {
    return this.#sent;
  }

  /** Counts requests that are sent to be admitted. */
  send(requests: number): void {
    this.#sent += requests;
  }

  /** Remembers the reply to a question that was sent after `sent` requests. `requests` may be Infinity. */
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

  /** Returns true if one more request of the key can't be over its limits of requests. */
  has(keyId: number, nowMs: number): boolean {
    const known = this.#rooms.get(keyId);
    if (known === undefined || this.#sent >= known.sentMax) return false;
    // A clock that was set back must not make it last longer.
    return nowMs < known.untilMs && nowMs >= known.untilMs - rememberedMs;
  }

  /** Called when a limit may have changed. */
  forget(): void {
    this.#rooms.clear();
  }
}
