import type { Admitted, Ledger } from '../../store/ledger.ts';
import { sliceTokens } from './funds.ts';

/**
 * Keeps a hold ahead of the output: it asks the ledger for the next slice while half of the present one is still unused, so that a stream
 * waits for the ledger only when it outruns it. When the funds end, `onEnd` learns how many output tokens are paid for.
 */
export class Slices {
  readonly #ledger: Ledger;
  readonly #id: number;
  readonly #slice: number;
  readonly #onEnd: (outputTokens: number) => void;
  #held: number;
  #pending: Promise<void> | undefined;
  #ended: boolean;

  /** `held` output tokens of `admitted` are paid for; a request that costs nothing needs no slices. */
  constructor(
    ledger: Ledger,
    admitted: Admitted,
    options: { candidates: number; onEnd: (outputTokens: number) => void },
  ) {
    this.#ledger = ledger;
    this.#id = admitted.id;
    this.#held = admitted.outputTokens;
    this.#slice = sliceTokens * options.candidates;
    this.#onEnd = options.onEnd;
    this.#ended = admitted.outputTokensAvailable === Infinity;
  }

  /** The output has come to at most `tokens`. Answers what to wait for before more may be taken; undefined: nothing. */
  reach(tokens: number): Promise<void> | undefined {
    if (this.#ended || tokens + this.#slice / 2 < this.#held) return undefined;
    this.#pending ??= this.#extend(tokens);
    return tokens >= this.#held ? this.#pending : undefined;
  }

  /** Waits for an extension that is under way, so that nothing is asked for a hold that is about to be settled. */
  async idle(): Promise<void> {
    await this.#pending;
  }

  async #extend(tokens: number): Promise<void> {
    const wanted = Math.max(this.#slice, tokens + this.#slice - this.#held);
    const reply = await this.#ledger.extend({ id: this.#id, outputTokens: wanted });
    this.#held += reply.outputTokens;
    this.#pending = undefined;
    if (reply.outputTokens >= wanted) return;
    this.#ended = true;
    this.#onEnd(this.#held);
  }
}
