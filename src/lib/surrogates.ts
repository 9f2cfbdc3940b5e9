/** Returns whether a UTF-16 text ends with a high surrogate: the first half of a character. */
function endsInHalf(text: string): boolean {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last <= 0xdbff;
}

/**
 * Makes each piece of a text well-formed Unicode. If a piece ends with half a character, that half waits for the other one, because a client that
 * decodes each piece separately would see two invalid ones. A half without its other half becomes U+FFFD.
 */
export class SurrogateGate {
  #half = '';

  /** Returns the text that can be sent now; may be ''. */
  push(piece: string): string {
    let text = this.#half === '' ? piece : this.#half + piece;
    if (endsInHalf(text)) {
      this.#half = text.slice(-1);
      text = text.slice(0, -1);
    } else this.#half = '';
    return text.isWellFormed() ? text : text.toWellFormed();
  }

  /** Ends the text and returns what was held back. */
  end(): string {
    const text = this.#half.toWellFormed();
    this.#half = '';
    return text;
  }
}
