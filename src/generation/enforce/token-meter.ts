import type { TokenCounter } from '../tokens.ts';

/** No tokenizer makes more tokens of a text than it has UTF-8 bytes, and no UTF-16 unit has more than three of those. */
const tokensPerUnitMax = 3;
const pieceMax = 128;

/**
 * Measures output as it comes, and says where a limit cuts it. It counts only where the limit could be near, and only the new
 * part of the text: a stream of small deltas costs about one pass over its text.
 */
export class TokenMeter {
  readonly #counter: TokenCounter;
  /** Tokens of the text that is no longer kept. */
  #counted = 0;
  #text = '';

  constructor(counter: TokenCounter) {
    this.#counter = counter;
  }

  /** As much of the addition as the limit allows: all of it below, '' above. */
  take(addition: string, limit: number): string {
    const before = this.#text;
    this.#text += addition;
    if (this.#counted + this.#text.length * tokensPerUnitMax <= limit) return addition;
    const tokens = this.#counter.split(this.#text);
    const room = limit - this.#counted;
    if (tokens.length <= room) {
      this.#settle(tokens);
      return addition;
    }
    const kept = tokens.slice(0, Math.max(0, room)).join('').length - before.length;
    return addition.slice(0, Math.max(0, kept));
  }

  /** Lets go of what is counted for good: all but the last tokens, which the next addition may still change. */
  #settle(tokens: readonly string[]): void {
    if (this.#text.length < pieceMax) return;
    const settled = tokens.slice(0, -8);
    this.#counted += settled.length;
    this.#text = this.#text.slice(settled.join('').length);
  }
}
