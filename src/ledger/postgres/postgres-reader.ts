import { GatewayError } from '../../errors/gateway-error.ts';
import { overloaded } from '../../errors/overloaded.ts';
import type { PostgresConnection } from '../../lib/postgres/connection.ts';
import { isDatabaseFailure } from '../../lib/postgres/errors.ts';
import type { PostgresPool } from '../../lib/postgres/pool.ts';
import type { LedgerReader } from '../command-ledger.ts';
import type { Plans } from '../plans.ts';
import { prepareReads, type Reads } from '../reader/reads.ts';
import { MissingResult, Results } from './replay.ts';

/** Reads are planned for their values: pages and sums read many rows, unlike the engine's statements. */
const begin = [
  { text: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY' },
  {
    text: "SELECT set_config(name, value, true) FROM (VALUES ('enable_hashjoin', 'on'), ('enable_seqscan', 'on'), ('plan_cache_mode', 'auto'), ('statement_timeout', '30000')) AS s(name, value)",
  },
];
const readMs = 30_000;

/** Runs reads of the SQLite reader on one snapshot of PostgreSQL. A read runs as often as it takes until all results that it asks for are there. */
export class PostgresReader implements LedgerReader {
  readonly #pool: PostgresPool;
  readonly #plans: Plans;
  readonly #sweep: (nowMs: number) => Promise<unknown>;

  /** `sweep` ends what is over. Without the plans there is no read of a subscription. */
  constructor(pool: PostgresPool, plans?: Plans, sweep: (nowMs: number) => Promise<unknown> = () => Promise.resolve()) {
    this.#pool = pool;
    this.#plans = plans ?? ({} as Plans);
    this.#sweep = sweep;
  }

  read<N extends keyof Reads>(name: N, ...args: Parameters<Reads[N]>): Promise<ReturnType<Reads[N]>> {
    return this.#run(reads => {
      const read = reads[name] as (...values: readonly unknown[]) => unknown;
      return read(...args) as ReturnType<Reads[N]>;
    });
  }

  async readSwept<N extends keyof Reads>(
    nowMs: number,
    name: N,
    ...args: Parameters<Reads[N]>
  ): Promise<ReturnType<Reads[N]>> {
    const unswept = Symbol('unswept');
    const first = await this.#run(reads => {
      if (reads.needsSweep(nowMs)) return unswept;
      const read = reads[name] as (...values: readonly unknown[]) => unknown;
      return read(...args) as ReturnType<Reads[N]>;
    });
    if (first !== unswept) return first;
    await this.#sweep(nowMs);
    return this.read(name, ...args);
  }

  /** Does a read that is not one of the reader's. */
  run<T>(read: (results: Results) => T): Promise<T> {
    return this.#pool.use(connection => readWith(connection, read));
  }

  async close(): Promise<void> {
    // Its connections are the pool's.
  }

  async #run<T>(read: (reads: Reads) => T): Promise<T> {
    try {
      // Prepared once, because the read runs again for each result that it lacked.
      let reads: Reads | undefined;
      return await this.run(results => read((reads ??= prepareReads(results.asConnection(), this.#plans))));
    } catch (error) {
      if (isDatabaseFailure(error)) throw overloaded('The ledger can’t be read.', error);
      throw new GatewayError('internal', 'The gateway failed.', { cause: error });
    }
  }
}

/** Runs code that reads at once until all its results are there. */
async function readWith<T>(connection: PostgresConnection, read: (results: Results) => T): Promise<T> {
  const results = new Results();
  await connection.run(begin);
  try {
    for (;;) {
      try {
        return read(results);
      } catch (error) {
        if (!(error instanceof MissingResult)) throw error;
        const [result] = await connection.run([error.step], readMs);
        if (result !== undefined) results.add(error, result);
      }
    }
  } finally {
    if (!connection.isLost) await connection.run([{ text: 'ROLLBACK' }]).catch(() => connection.destroy());
  }
}
