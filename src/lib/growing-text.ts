/** Fewer pieces than this are not joined. */
const piecesMin = 32;

/**
 * A text that grows by many small pieces, and takes little more memory than its characters. With `+=`, V8 would keep each piece and a node for it until someone reads the
 * text: ten times the memory for an answer that comes token by token.
 */
export class GrowingText {
  #joined = '';
  /** The pieces that were added since; undefined: none. Many texts have only one piece, which needs no list. */
  #pieces: string[] | undefined;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  append(piece: string): void {
    if (piece === '') return;
    this.#length += piece.length;
    if (this.#joined === '') {
      this.#joined = piece;
      return;
    }
    this.#pieces ??= [];
    this.#pieces.push(piece);
    // Joining only after the text has grown by a quarter copies each character at most a few times.
    if (this.#pieces.length >= piecesMin && this.#length > this.#joined.length * 1.25) this.#join();
  }

  toString(): string {
    this.#join();
    return this.#joined;
  }

  #join(): void {
    if (this.#pieces === undefined) return;
    this.#pieces.unshift(this.#joined);
    this.#joined = this.#pieces.join('');
    this.#pieces = undefined;
  }
}
