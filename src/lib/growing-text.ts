/** Shorter remains are left as they are. */
const piecesMin = 32;

/**
 * A text that grows by many small pieces, in little more memory than its characters take. A plain `+=` keeps every piece and a node for each, ten times the text of an
 * answer that comes token by token, until someone reads it.
 */
export class GrowingText {
  /** The joined text, then the pieces since. */
  #pieces: string[] = [];
  #length = 0;
  #joinedLength = 0;

  get length(): number {
    return this.#length;
  }

  append(piece: string): void {
    if (piece === '') return;
    this.#pieces.push(piece);
    this.#length += piece.length;
    // Joining only what has grown by a quarter copies each character a few times at most.
    if (this.#pieces.length > piecesMin && this.#length > this.#joinedLength * 1.25) this.#join();
  }

  toString(): string {
    this.#join();
    return this.#pieces[0] ?? '';
  }

  #join(): void {
    if (this.#pieces.length > 1) this.#pieces = [this.#pieces.join('')];
    this.#joinedLength = this.#length;
  }
}
