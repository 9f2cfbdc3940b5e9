/** Fewer pieces than this are not joined. */
const piecesMin = 32;

/**
 * A text that grows by many small pieces, and takes little more memory than its characters. With `+=`, V8 would keep each piece and a node for it until someone reads the
 * text: ten times the memory for an answer that comes token by token.
 */
export class GrowingText {
  /** The joined text, followed by the pieces that were added since. */
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
    // Joining only after the text has grown by a quarter copies each character at most a few times.
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
