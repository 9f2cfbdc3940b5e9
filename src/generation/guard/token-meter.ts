import assert from 'node:assert/strict';
import { GrowingText } from '../../lib/growing-text.ts';
import { loadedTokenizer, type TokenPiece } from '../tokens.ts';

/** The most tokens of a UTF-16 code unit: a text has at most as many tokens as UTF-8 bytes, and a code unit takes at most three bytes. */
const tokensPerUnitMax = 3;
/** How much counted text is kept at least; text before it is dropped. */
const keptLengthMax = 128;
/** How many of the last pieces (tokens, nearly) the next addition may still change. */
const openPieces = 8;

/**
 * Counts output as it arrives, and cuts it at a limit. It counts only if the limit could be near, and only the new part of the text, so that in a stream of small deltas the text is read about once.
 */
export class TokenMeter {
  /** The number of tokens of the dropped text. */
  #counted = 0;
  #text = '';
  /** The text after `#text`, not counted yet because no limit was near. */
  #uncounted = new GrowingText();

  /**
   * Adds text. Returns the part of the addition that the limit allows; '' if the limit was reached before. The tokenizer must be loaded if the limit could be near.
   */
  take(addition: string, limit: number): string {
    const lengthBefore = this.#text.length + this.#uncounted.length;
    this.#uncounted.append(addition);
    if (this.#counted + (lengthBefore + addition.length) * tokensPerUnitMax <= limit) return addition;
    const tokenizer = loadedTokenizer();
    assert(tokenizer !== undefined, 'a limit is near and the tokenizer is not loaded');
    this.#text += this.#uncounted.toString();
    this.#uncounted = new GrowingText();
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
    this.#dropFinal(pieces);
    return addition;
  }

  /** Drops text whose count is final: all except the last pieces, which the next addition may still change. */
  #dropFinal(pieces: readonly TokenPiece[]): void {
    if (this.#text.length < keptLengthMax) return;
    for (const piece of pieces.slice(0, -openPieces)) {
      this.#counted += piece.tokens;
      this.#text = this.#text.slice(piece.text.length);
    }
  }
}
