import type { Runtime, Timer } from '../../lib/runtime.ts';
import type { AnswerCounts } from './answer-counts.ts';
import type { Slices } from './slices.ts';

/** How often the hold is compared with the estimate. */
const everyMs = 500;

/**
 * Extends the hold while an answer reasons unseen, as if the output were seen: by what was learned about its route. So an answer that its client leaves is charged what the provider bills. Where nothing was learned, it does nothing.
 */
export class HiddenReasoning {
  readonly #runtime: Pick<Runtime, 'after'>;
  readonly #counts: AnswerCounts;
  readonly #slices: Pick<Slices, 'reach'>;
  #next: Timer | undefined;

  constructor(runtime: Pick<Runtime, 'after'>, counts: AnswerCounts, slices: Pick<Slices, 'reach'>) {
    this.#runtime = runtime;
    this.#counts = counts;
    this.#slices = slices;
  }

  /** Called when an attempt has been sent. */
  watch(): void {
    this.stop();
    const tokens = this.#counts.unseenReasoning();
    if (tokens === undefined) return;
    void this.#hold(tokens);
    this.#next = this.#runtime.after(everyMs, () => this.watch());
  }

  /** Called when the gateway has stopped the attempt. */
  stopped(): void {
    this.#counts.stopped();
    this.stop();
  }

  /** Called when the attempt has ended. */
  stop(): void {
    this.#next?.cancel();
    this.#next = undefined;
  }

  /** Extends the hold to what was estimated when the answer was stopped. Never rejects. */
  async settle(): Promise<void> {
    const tokens = this.#counts.unseenReasoning();
    if (tokens !== undefined) await this.#hold(tokens);
  }

  /** Never rejects: what the ledger does not grant is not charged. */
  async #hold(tokens: number): Promise<void> {
    await this.#slices.reach(tokens)?.catch(() => undefined);
  }
}
