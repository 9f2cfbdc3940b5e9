/** Reads a regular expression and spells a text that matches it, without ever running it: a client's pattern could run for hours. */

/** The most characters that a pattern spells. */
const spelledMax = 1_024;
const classes: Readonly<Record<string, string>> = {
  d: '7',
  D: 'x',
  w: 'a',
  W: '-',
  s: ' ',
  S: 'x',
  t: '\t',
  n: '\n',
  r: '\r',
  f: '\f',
  v: '\v',
};
/** Candidates for what a negated set allows. */
const candidates = 'aA0 -_.xyzXYZ123456789,;:!?@#$%&*+=/\\|~^"\'()[]{}<>é';

/** Reads one pattern from left to right, and spells as it reads. */
class Speller {
  readonly #pattern: string;
  /** How often an open-ended repetition is spelled beyond its least. */
  readonly #extra: number;
  #at = 0;
  /** The pattern uses more than is understood here: look-around, back references, Unicode properties. */
  #isUnknown = false;

  constructor(pattern: string, extra: number) {
    this.#pattern = pattern;
    this.#extra = extra;
  }

  /** Undefined where the pattern uses more than is understood here. */
  spell(): string | undefined {
    const text = this.#alternatives();
    return this.#isUnknown || this.#at < this.#pattern.length ? undefined : text;
  }

  /** Gives up: nothing more is read. */
  #unknown(): string {
    this.#isUnknown = true;
    this.#at = this.#pattern.length;
    return '';
  }

  #peek(): string {
    return this.#pattern.charAt(this.#at);
  }

  #take(): string {
    const character = this.#pattern.charAt(this.#at);
    this.#at += 1;
    return character;
  }

  /** The first alternative is spelled, the others are read only. */
  #alternatives(): string {
    const first = this.#sequence();
    while (this.#peek() === '|') {
      this.#at += 1;
      this.#sequence();
    }
    return first;
  }

  #sequence(): string {
    let text = '';
    while (this.#at < this.#pattern.length && this.#peek() !== '|' && this.#peek() !== ')') {
      const unit = this.#unit();
      text += unit.repeat(this.#repetitions(unit.length));
      if (text.length > spelledMax) return this.#unknown();
    }
    return text;
  }

  #unit(): string {
    const character = this.#take();
    if (character === '^' || character === '$') return '';
    if (character === '.') return 'x';
    if (character === '[') return this.#set();
    if (character === '\\') return this.#escape();
    return character === '(' ? this.#group() : character;
  }

  #group(): string {
    if (this.#peek() === '?') {
      this.#at += 1;
      const kind = this.#take();
      if (kind === '<' && !/[=!]/.test(this.#peek())) {
        while (this.#at < this.#pattern.length && this.#take() !== '>');
      } else if (kind !== ':') return this.#unknown();
    }
    const text = this.#alternatives();
    return this.#take() === ')' ? text : this.#unknown();
  }

  #escape(): string {
    const character = this.#take();
    if (character === 'b' || character === 'B') return '';
    if (character === 'u' || character === 'x') return this.#codeUnit(character === 'u' ? 4 : 2);
    if (character === '' || /[1-9kpPc]/.test(character)) return this.#unknown();
    return character === '0' ? '\0' : (classes[character] ?? character);
  }

  #codeUnit(digits: number): string {
    const code = this.#pattern.slice(this.#at, this.#at + digits);
    if (code.length !== digits || !/^[0-9a-f]+$/i.test(code)) return this.#unknown();
    this.#at += digits;
    return String.fromCharCode(Number.parseInt(code, 16));
  }

  #set(): string {
    const isNegated = this.#peek() === '^';
    if (isNegated) this.#at += 1;
    let first: string | undefined;
    const start = this.#at;
    while (this.#peek() !== ']') {
      if (this.#at >= this.#pattern.length) return this.#unknown();
      const character = this.#take();
      // Inside a set \b is a backspace.
      const spelled = character === '\\' ? (this.#peek() === 'b' ? this.#backspace() : this.#escape()) : character;
      first ??= spelled;
    }
    const set = this.#pattern.slice(start, this.#at);
    this.#at += 1;
    return (isNegated ? candidateOutside(set) : first) ?? this.#unknown();
  }

  #backspace(): string {
    this.#at += 1;
    return '\b';
  }

  #repetitions(unitLength: number): number {
    const bounds = this.#bounds();
    if (this.#peek() === '?') this.#at += 1;
    const [least, most] = bounds;
    const wanted =
      least === most ? least : Math.min(most, Math.max(least, most === Infinity ? 1 : least) + this.#extra);
    if (wanted * unitLength <= spelledMax) return wanted;
    this.#unknown();
    return 0;
  }

  #bounds(): readonly [least: number, most: number] {
    const mark = this.#peek();
    const simple = { '*': [0, Infinity], '+': [1, Infinity], '?': [0, 1] } as const;
    if (mark === '*' || mark === '+' || mark === '?') {
      this.#at += 1;
      return simple[mark];
    }
    const counted = /^\{(\d{1,6})(,?)(\d{0,6})\}/.exec(this.#pattern.slice(this.#at, this.#at + 17));
    if (counted === null) return [1, 1];
    const [whole, least = '', comma, most = ''] = counted;
    this.#at += whole.length;
    const open = most === '' ? Infinity : Number(most);
    return [Number(least), comma === '' ? Number(least) : open];
  }
}

/**
 * A text that matches the pattern, with a length between the two where its repetitions allow that; undefined where the pattern uses more than is
 * understood here.
 */
export function spellPattern(pattern: string, lengthMin = 0, lengthMax = spelledMax): string | undefined {
  let best: string | undefined;
  for (const extra of [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64]) {
    const text = new Speller(pattern, extra).spell();
    // More repetitions may be too long where fewer were not.
    if (text === undefined) break;
    const length = Array.from(text).length;
    if (best === undefined || length <= lengthMax) best = text;
    if (length >= lengthMin) break;
  }
  return best;
}

/** A character outside a set of characters; undefined where none is known. One character against one set: nothing that could run long. */
function candidateOutside(set: string): string | undefined {
  try {
    const allowed = new RegExp(`^[^${set}]$`, 'u');
    return Array.from(candidates).find(each => allowed.test(each));
  } catch {
    return undefined;
  }
}
