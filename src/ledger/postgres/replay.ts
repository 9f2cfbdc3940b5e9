import type { Step, StepResult } from '../../lib/postgres/connection.ts';
import { toParameter, type Value } from '../../lib/postgres/values.ts';
import type { Connection } from '../../lib/sqlite/database.ts';
import { translate } from './dialect.ts';

/** Thrown if a read needs the result of a query that has not been sent yet. */
export class MissingResult extends Error {
  override readonly name = 'MissingResult';
  readonly step: Step;
  readonly id: string;

  constructor(id: string, step: Step) {
    super('a result is not there yet');
    this.id = id;
    this.step = step;
  }
}

/**
 * Results of queries, for code that reads synchronously because it was written for SQLite. A query that was not sent yet is thrown as
 * `MissingResult`; once its result is there, the code runs again from its beginning. The code must therefore do nothing but read.
 */
export class Results {
  readonly #known = new Map<string, StepResult>();

  add(missing: MissingResult, result: StepResult): void {
    this.#known.set(missing.id, result);
  }

  clear(): void {
    this.#known.clear();
  }

  /** Returns the result of a statement in SQLite's dialect. */
  read(text: string, given: readonly unknown[]): StepResult {
    const { text: own, values } = translate(text, given);
    const parameters = values.map(toParameter);
    const id = `${own} ${parameters.join('\u0000')}`;
    const known = this.#known.get(id);
    if (known === undefined) throw new MissingResult(id, { text: own, values: parameters });
    return known;
  }

  /** Returns a read-only SQLite connection whose queries have these results. */
  asConnection(): Connection {
    const prepare = (text: string) => this.#prepare(text, false);
    const transaction = (work: () => unknown) => work;
    return { prepare, transaction } as unknown as Connection;
  }

  #prepare(text: string, isRaw: boolean): unknown {
    const all = (...given: unknown[]): unknown[] => {
      const { rows, columns } = this.read(text, given);
      const varying = columns.indexOf('request');
      return rows.map(row => {
        const values = varying < 0 ? row : row.with(varying, readPart(row[varying] ?? null));
        return isRaw ? values : Object.fromEntries(columns.map((name, index) => [name, values[index] ?? null]));
      });
    };
    return {
      all,
      get: (...given: unknown[]) => all(...given)[0],
      iterate: (...given: unknown[]) => all(...given)[Symbol.iterator](),
      raw: () => this.#prepare(text, true),
    };
  }
}

/** Reads the random part of a request's id from its column, which stores it as a number or, with a colon before it, as a text. */
export function readPart(stored: Value): Value {
  if (typeof stored !== 'string') return stored;
  return stored.startsWith(':') ? stored.slice(1) : BigInt(stored);
}

/** Returns the random part of a request's id as its column stores it. */
export function writePart(part: unknown): unknown {
  return typeof part === 'string' ? `:${part}` : part;
}
