import { inspect } from 'node:util';

/**
 * A text that must not be shown: it prints as `***` in strings, JSON, logs and inspections; only `reveal` returns it.
 */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** The text itself, for the one place that sends or hashes it. */
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
