/**
 * The kind of a text, because tokenizers differ by it. `marks`: JSON, code and numbers, with many signs and digits. `wide`: the scripts of East Asia, and emoji. `letters`: alphabets other than Latin
 * (Greek, Cyrillic, Arabic …), and text with many accented letters. `words`: everything else, such as English text.
 */
export type TextKind = 'words' | 'marks' | 'wide' | 'letters';

/** About how many characters of a long text are sampled: at least this many and less than twice as many. */
const sampleSize = 256;

/** Determines the kind of texts from samples of their characters. */
export class TextSample {
  #all = 0;
  #marks = 0;
  #wide = 0;
  #letters = 0;

  /** Adds a text. Of a long text, only a sample of its characters counts. */
  add(text: string): void {
    const step = Math.max(1, Math.floor(text.length / sampleSize));
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
