import type { Connection, Query } from '../../lib/sqlite/database.ts';
import type { Faults } from './fault.ts';

/** Prepares statements. With `faults`, which tests pass, each call of a statement is a point at which a failure can be injected. */
export class Sql {
  readonly db: Connection;
  readonly #faults: Faults | undefined;

  constructor(db: Connection, faults?: Faults) {
    this.db = db;
    this.#faults = faults;
  }

  prepare<P extends unknown[], R = unknown>(text: string): Query<P, R> {
    return this.#watch(this.db.prepare<P, R>(text));
  }

  /** Prepares a statement whose rows are arrays. */
  prepareRaw<P extends unknown[], R extends unknown[]>(text: string): Query<P, R> {
    return this.#watch(this.db.prepare<P, R>(text).raw());
  }

  #watch<P extends unknown[], R>(statement: Query<P, R>): Query<P, R> {
    const faults = this.#faults;
    if (faults === undefined) return statement;
    const step = (): Query<P, R> => {
      faults.step('statement');
      return statement;
    };
    return {
      get: (...values) => step().get(...values),
      all: (...values) => step().all(...values),
      run: (...values) => step().run(...values),
    };
  }
}
