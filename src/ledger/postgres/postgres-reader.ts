import { GatewayError } from '../../errors/gateway-error.ts';
import { overloaded } from '../../errors/overloaded.ts';
import type { PostgresConnection } from '../../lib/postgres/connection.ts';
import { isCancelled, isDatabaseFailure } from '../../lib/postgres/errors.ts';
import type { PostgresPool } from '../../lib/postgres/pool.ts';
import type { LedgerReader } from '../command-ledger.ts';
import type { Plans } from '../plans.ts';
import { prepareReads, type Reads } from '../reader/reads.ts';
import { MissingResult, Results } from './replay.ts';

/** Begins a read. Its statements are planned for their actual values, because pages and sums read many rows, unlike the engine's statements. */
const begin = [
  { text: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY' },
  {
    text: "SELECT set_config(name, value, true) FROM (VALUES ('enable_hashjoin', 'on'), ('enable_seqscan', 'on'), ('plan_cache_mode', 'auto')) AS s(name, value)",
  },
];
const limitText = "SELECT set_config('statement_timeout', $1::text, true)";
/** How long all statements of a read may take together, or each statement of a check of the ledger. Long reads keep a snapshot open, which slows busy accounts. */
const readMsDefault = 30_000;
/** The client waits this much longer than the server, so that the server ends the statement and the connection stays usable. */
const marginMs = 3000;
/** How much longer than the remaining time a statement may take. */
const renewedMs = 500;

/** Thrown if a read takes too long. */
class ReadTooLong extends Error {
  override readonly name = 'ReadTooLong';
}

/** The dependencies and settings of a `PostgresReader`. */
export interface PostgresReaderTools {
  /** The connections for reads. */
  readonly pool: PostgresPool;
  /** Absent: subscriptions can't be read. */
  readonly plans?: Plans;
  /** Ends everything that is over at `nowMs`. */
  readonly sweep?: (nowMs: number) => Promise<unknown>;
  /** How long a read may take; absent: 30 s. */
  readonly readMs?: number | undefined;
}

/** Runs the read functions, which are written for SQLite, on PostgreSQL, each on one snapshot. A read is repeated until all results that it needs have been queried. */
export class PostgresReader implements LedgerReader {
  readonly #pool: PostgresPool;
  readonly #plans: Plans;
  readonly #sweep: (nowMs: number) => Promise<unknown>;
  readonly #readMs: number;

  constructor({
    pool,
    plans = {} as Plans,
    sweep = () => Promise.resolve(),
    readMs = readMsDefault,
  }: PostgresReaderTools) {
    this.#pool = pool;
    this.#plans = plans;
    this.#sweep = sweep;
    this.#readMs = readMs;
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

  /** Runs a read other than those of `Reads`. Each of its statements may take as long as a whole read. */
  run<T>(read: (results: Results) => T): Promise<T> {
    return this.#pool.use(connection => readWith(connection, () => this.#readMs, read));
  }

  async close(): Promise<void> {
    // The pool owns the connections.
  }

  async #run<T>(read: (reads: Reads) => T): Promise<T> {
    try {
      // Prepared once, because the read runs again for each result that it lacked.
      let reads: Reads | undefined;
      return await this.#pool.use(connection => {
        const untilMs = performance.now() + this.#readMs;
        const left = (): number => untilMs - performance.now();
        return readWith(connection, left, results =>
          read((reads ??= prepareReads(results.asConnection(), this.#plans))),
        );
      });
    } catch (error) {
      if (error instanceof ReadTooLong || isCancelled(error)) {
        const seconds = this.#readMs / 1000;
        throw overloaded(`The read took longer than ${seconds} s. Request a shorter time, or fewer filters.`, error);
      }
      if (isDatabaseFailure(error)) throw overloaded('The ledger can’t be read.', error);
      throw new GatewayError('internal', 'The gateway failed.', { cause: error });
    }
  }
}

/** Runs synchronous read code again and again until all its results have been queried. `left`: returns how long the next statement may take, in ms. */
async function readWith<T>(
  connection: PostgresConnection,
  left: () => number,
  read: (results: Results) => T,
): Promise<T> {
  const results = new Results();
  await connection.run(begin);
  let limitMs = 0;
  try {
    for (;;) {
      try {
        return read(results);
      } catch (error) {
        if (!(error instanceof MissingResult)) throw error;
        const leftMs = Math.floor(left());
        if (leftMs < 1) throw new ReadTooLong('the statements of a read took too long together');
        // The time limit is set again only if much time has passed: most reads end within milliseconds.
        const limit = limitMs - leftMs > renewedMs || limitMs === 0;
        if (limit) limitMs = leftMs;
        const steps = [...(limit ? [{ text: limitText, values: [String(leftMs)] }] : []), error.step];
        const result = (await connection.run(steps, limitMs + marginMs)).at(-1);
        if (result !== undefined) results.add(error, result);
      }
    }
  } finally {
    if (!connection.isLost) await connection.run([{ text: 'ROLLBACK' }]).catch(() => connection.destroy());
  }
}
