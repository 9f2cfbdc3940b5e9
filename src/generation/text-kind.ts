/**
 * The kind of a text, because tokenizers differ by it. `marks`: JSON, code and numbers. `wide`: the scripts of East Asia, and emoji. `letters`: alphabets other than Latin. `words`: everything else.
 */
export type TextKind = 'words' | 'marks' | 'wide' | 'letters';

/** How many characters of one text are sampled. */
const sampledMax = 256;

/** Determines the kind of texts from samples of their characters. */
export class TextSample {
  #all = 0;
  #marks = 0;
  #wide = 0;
  #letters = 0;

  /** Adds a text. Of a long text only as many characters count as are sampled. */
  add(text: string): void {
    const step = Math.max(1, Math.floor(text.length / sampledMax));
    for (let at = 0; at < text.length; at += step) this.#count(text.charCodeAt(at));
  }

  get kind(): TextKind {
    if (this.#wide * 5 > this.#all) return 'wide';
    if (this.#letters * 4 > this.#all) return 'letters';
    return this.#marks * 6 > this.#all ? 'marks' : 'words';
  }

  #count(code: number): void {
    this.#all += 1;
    if (code < 128) {
      const isLetter = (code >= 97 && code <= 122) || (code >= 65 && code <= 90);
      if (code > 32 && !isLetter) this.#marks += 1;
    } else if (code < 0xe80) this.#letters += 1;
    else this.#wide += 1;
  }
}
