import { inspect } from 'node:util';

/**
 * A text that must not be shown. In strings, JSON, logs and inspections it is `***`; only `reveal` returns it.
 */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** Returns the text, for code that sends or hashes it. */
  reveal(): string {
    return this.#text;
  }

  toString(): string {
    return '***';
  }

  toJSON(): string {
    return '***';
  }

  [inspect.custom](): string {
    return '***';
  }
}
