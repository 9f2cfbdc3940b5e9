/** Returns whether a UTF-16 text ends in the first half of a character. */
function endsInHalf(text: string): boolean {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last <= 0xdbff;
}

/**
 * Pieces of one text as pieces of well-formed Unicode: a piece that ends in half a character waits for the other half, since a reader that decodes
 * piece by piece would see two broken ones. What never gets its other half becomes U+FFFD.
 */
export class SurrogateGate {
  #half = '';

  /** What can be sent now; '' if nothing can. */
  push(piece: string): string {
    let text = this.#half === '' ? piece : this.#half + piece;
    if (endsInHalf(text)) {
      this.#half = text.slice(-1);
      text = text.slice(0, -1);
    } else this.#half = '';
    return text.isWellFormed() ? text : text.toWellFormed();
  }

  /** The text has ended: what was held back. */
  end(): string {
    const text = this.#half.toWellFormed();
    this.#half = '';
    return text;
  }
}
