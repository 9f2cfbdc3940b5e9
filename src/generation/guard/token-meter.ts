import assert from 'node:assert/strict';
import { GrowingText } from '../../lib/growing-text.ts';
import { loadedTokenizer, type TokenPiece } from '../tokens.ts';

/** A text has at most as many tokens as UTF-8 bytes, and a UTF-16 code unit takes at most three bytes. */
const tokensPerUnitMax = 3;
/** Counted text longer than this is dropped, except for its last tokens. */
const keptLengthMax = 128;
/** How many of the last tokens (more exactly: pieces) the next addition may still change. */
const openPieces = 8;

/**
 * Measures output as it arrives, and returns where a limit cuts it. It counts only if the limit could be near, and only the new part of the
 * text: for a stream of small deltas it reads the text about once.
 */
export class TokenMeter {
  /** The number of tokens of the dropped text. */
  #counted = 0;
  #text = '';
  /** The text after `#text`, not counted yet because no limit was near. */
  #uncounted = new GrowingText();

  /**
   * Returns as much of the addition as the limit allows: all of it below the limit, '' above it. The
   * tokenizer must be loaded if the limit could be near.
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

  /** Drops text whose count is final: all but the last tokens, which the next addition may still change. */
  #dropFinal(pieces: readonly TokenPiece[]): void {
    if (this.#text.length < keptLengthMax) return;
    for (const piece of pieces.slice(0, -openPieces)) {
      this.#counted += piece.tokens;
      this.#text = this.#text.slice(piece.text.length);
    }
  }
}
