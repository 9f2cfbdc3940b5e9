import type { Admitted, Ledger } from '../../ledger/ledger.ts';
import { sliceTokens } from './funds.ts';

/** Callbacks of `Slices`. */
export interface SliceEvents {
  /** Called when the funds have ended. `outputTokens`: how many output tokens they pay for. */
  readonly ended: (outputTokens: number) => void;
  /** Called when the hold has grown. */
  readonly raised: (heldNanoUsd: bigint) => void;
}

/**
 * Keeps a hold ahead of the output. It requests the next slice from the ledger while half of the current slice is unused, so that a stream has to wait only if it is faster than the ledger.
 */
export class Slices {
  readonly #ledger: Ledger;
  readonly #id: number;
  #most: number;
  readonly #onEnd: (outputTokens: number) => void;
  readonly #onRaise: (heldNanoUsd: bigint) => void;
  /** The size of the last slice, in tokens; it is smaller than a full one if funds are short. */
  #slice: number;
  readonly #isFree: boolean;
  #held: number;
  #heldNanoUsd: bigint;
  #pending: Promise<void> | undefined;
  #ended: boolean;

  /**
   * `admitted.outputTokens` are already held; a request that costs nothing needs no slices. `most`: the output limit of all candidates together, or Infinity; never more than that is held, so that other requests can use the money.
   */
  constructor(ledger: Ledger, admitted: Admitted, most: number, events: SliceEvents) {
    this.#ledger = ledger;
    this.#id = admitted.id;
    this.#most = most;
    this.#held = admitted.outputTokens;
    this.#heldNanoUsd = admitted.heldNanoUsd;
    this.#slice = Math.min(admitted.outputTokens, sliceTokens);
    this.#onEnd = events.ended;
    this.#onRaise = events.raised;
    this.#isFree = admitted.outputTokensAvailable === Infinity;
    this.#ended = admitted.outputTokensAvailable === Infinity || this.#held >= most;
  }

  /** The held output tokens; Infinity if they cost nothing. */
  get held(): number {
    return this.#isFree ? Infinity : this.#held;
  }

  /**
   * Called with an upper bound of the output tokens so far. Returns a promise if the output must wait for the ledger; undefined if it need not wait. The promise rejects if the ledger can't decide whether the rest is paid for.
   */
  reach(tokens: number): Promise<void> | undefined {
    if (this.#ended || tokens + this.#slice / 2 < this.#held) return undefined;
    if (tokens >= this.#held) return this.#cover(tokens);
    void this.#begin(tokens);
    return undefined;
  }

  /** Called when another upstream call continues the answer, with up to `most` more output tokens. */
  addOutput(most: number): void {
    // It was the output limit that ended the slices, not the funds.
    if (this.#held >= this.#most) this.#ended = false;
    this.#most += most;
  }

  /** The amount that the request holds now, in nano-dollars. It never shrinks. */
  get heldNanoUsd(): bigint {
    return this.#heldNanoUsd;
  }

  get isExtending(): boolean {
    return this.#pending !== undefined;
  }

  /**
   * Resolves when no extension is being requested, so that the hold can be settled. Never rejects.
   */
  async idle(): Promise<void> {
    await this.#pending?.catch(() => undefined);
  }

  /** Requests an extension, unless one is already being requested. If an extension fails before it is needed, it is requested again later; only a caller that waits for it gets the error. */
  #begin(tokens: number): Promise<void> {
    if (this.#pending !== undefined) return this.#pending;
    const extension = this.#extend(tokens);
    extension.catch(() => undefined);
    this.#pending = extension;
    return extension;
  }

  async #cover(tokens: number): Promise<void> {
    while (!this.#ended && tokens >= this.#held) await this.#begin(tokens);
  }

  async #extend(tokens: number): Promise<void> {
    const wanted = Math.min(Math.max(sliceTokens, tokens + sliceTokens - this.#held), this.#most - this.#held);
    try {
      const reply = await this.#ledger.extend({ id: this.#id, outputTokens: wanted });
      this.#held += reply.outputTokens;
      if (reply.heldNanoUsd > this.#heldNanoUsd) {
        this.#heldNanoUsd = reply.heldNanoUsd;
        this.#onRaise(reply.heldNanoUsd);
      }
      this.#slice = Math.min(reply.outputTokens, sliceTokens);
      // A smaller slice than requested does not mean that the funds are used up, unless nothing is left beyond it.
      const areSpent = reply.outputTokens < wanted && reply.outputTokensAvailable <= 0;
      this.#ended = areSpent || this.#held >= this.#most;
      if (areSpent) this.#onEnd(this.#held);
    } finally {
      this.#pending = undefined;
    }
  }
}
