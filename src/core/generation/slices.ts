import type { Admitted, Ledger } from '../../ledger/ledger.ts';
import { sliceTokens } from './funds.ts';

/** Called when a hold grows. */
export interface SliceEvents {
  /** Called when the funds have ended: they pay for this many output tokens. */
  readonly ended: (outputTokens: number) => void;
  /** Called when the hold has grown. */
  readonly raised: (heldNanoUsd: bigint) => void;
}

/**
 * Keeps a hold ahead of the output: requests the ledger's next slice while half of the current one is unused, so that
 * a stream waits for the ledger only if it outruns it.
 */
export class Slices {
  readonly #ledger: Ledger;
  readonly #id: number;
  #most: number;
  readonly #onEnd: (outputTokens: number) => void;
  readonly #onRaise: (heldNanoUsd: bigint) => void;
  /** The last slice: smaller than a full one because funds are short. */
  #slice: number;
  readonly #isFree: boolean;
  #held: number;
  #heldNanoUsd: bigint;
  #pending: Promise<void> | undefined;
  #ended: boolean;

  /**
   * `admitted.outputTokens` are held already; a request that costs nothing needs no slices. `most`: the output limit of all candidates together, or Infinity. More than this is never held, so that other requests can use the money.
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
   * Called when the output has reached at most `tokens`. Returns a promise to wait for before more may be taken; undefined: no wait.
   * Rejects if the ledger can't decide whether the rest is paid for.
   */
  reach(tokens: number): Promise<void> | undefined {
    if (this.#ended || tokens + this.#slice / 2 < this.#held) return undefined;
    if (tokens >= this.#held) return this.#cover(tokens);
    void this.#begin(tokens);
    return undefined;
  }

  /** Called when another call continues the answer: that many more output tokens may come. */
  goOn(most: number): void {
    // The output limit had stopped the slices, not the funds.
    if (this.#held >= this.#most) this.#ended = false;
    this.#most += most;
  }

  /** The total that the request holds now. It never shrinks. */
  get heldNanoUsd(): bigint {
    return this.#heldNanoUsd;
  }

  get isExtending(): boolean {
    return this.#pending !== undefined;
  }

  /**
   * Waits for an extension that is under way, so that no extension is requested for a hold that is about to be
   * settled. Never rejects.
   */
  async idle(): Promise<void> {
    await this.#pending?.catch(() => undefined);
  }

  /** Requests one extension at a time. An extension that fails before it is needed is requested again; only a caller that has to wait for it gets the error. */
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
      // A smaller slice than requested does not mean that the funds are used up: that is so only if nothing else is left.
      const areSpent = reply.outputTokens < wanted && reply.outputTokensAvailable <= 0;
      this.#ended = areSpent || this.#held >= this.#most;
      if (areSpent) this.#onEnd(this.#held);
    } finally {
      this.#pending = undefined;
    }
  }
}
