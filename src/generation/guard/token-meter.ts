import assert from 'node:assert/strict';
import { GrowingText } from '../../lib/growing-text.ts';
import { loadedTokenizer, type TokenPiece } from '../tokens.ts';

/** No tokenizer makes more tokens of a text than it has UTF-8 bytes, and no UTF-16 unit has more than three of those. */
const tokensPerUnitMax = 3;
/** A longer counted text is let go of but for its last tokens. */
const keptLengthMax = 128;

/**
 * Measures output as it arrives, and returns where a limit cuts it. It counts only if the limit could be near, and only the new part of the
 * text: for a stream of small deltas it reads the text about once.
 */
export class TokenMeter {
  /** Tokens of the text that is no longer kept. */
  #counted = 0;
  #text = '';
  /** Text since then, which was far from any limit. */
  #far = new GrowingText();

  /**
   * Returns as much of the addition as the limit allows: all of it below, '' above. If the limit could be near, the
   * tokenizer must be loaded.
   */
  take(addition: string, limit: number): string {
    const lengthBefore = this.#text.length + this.#far.length;
    this.#far.append(addition);
    if (this.#counted + (lengthBefore + addition.length) * tokensPerUnitMax <= limit) return addition;
    const tokenizer = loadedTokenizer();
    assert(tokenizer !== undefined, 'a limit is near and the tokenizer is not loaded');
    this.#text += this.#far.toString();
    this.#far = new GrowingText();
    const room = limit - this.#counted;
    const pieces: TokenPiece[] = [];
    let tokens = 0;
    let length = 0;
    for (const piece of tokenizer.pieces(this.#text)) {
      if (tokens + piece.tokens > room) return addition.slice(0, Math.max(0, length - lengthBefore));
      tokens += piece.tokens;
      length += piece.text.length;
      pieces.push(piece);
    }
    this.#settle(pieces);
    return addition;
  }

  /** Drops text whose count is final: all but the last tokens, which the next addition may still change. */
  #settle(pieces: readonly TokenPiece[]): void {
    if (this.#text.length < keptLengthMax) return;
    for (const piece of pieces.slice(0, -8)) {
      this.#counted += piece.tokens;
      this.#text = this.#text.slice(piece.text.length);
    }
  }
}
