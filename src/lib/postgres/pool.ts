import { PostgresConnection, type PostgresOptions, type Step, type StepResult } from './connection.ts';
import { ConnectionLost } from './errors.ts';
import type { Sendable, Value } from './values.ts';

/** The most connections of one process, whatever its load. */
export const connectionsMax = 8;

/** A pool's database, how many connections it may have, and how long a caller waits for one. */
export interface PoolOptions extends PostgresOptions {
  readonly connections: number;
  /** How long a caller waits while no connection becomes free; absent: 3 s. */
  readonly waitMs?: number;
}

/** As long as connections keep becoming free, callers wait this many times as long. */
const movingFactor = 3;

interface Waiting {
  readonly take: (connection: PostgresConnection) => void;
  readonly refuse: (error: Error) => void;
  timer: NodeJS.Timeout;
}

/** A bounded number of connections. They are opened when they are needed; the next caller replaces one that is lost. */
export class PostgresPool {
  readonly #options: PoolOptions;
  /** The pool that this one borrows from; undefined: it opens its connections itself. */
  readonly #whole: PostgresPool | undefined;
  readonly #free: PostgresConnection[] = [];
  readonly #waiting: Waiting[] = [];
  #open = 0;
  /** When a working connection was last returned. */
  #freedAtMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(options: PoolOptions, whole?: PostgresPool) {
    this.#options = options;
    this.#whole = whole;
  }

  /** Returns a pool that uses at most `connections` of this one's connections at a time. It is for work that takes long, so that the others stay free for work that must not wait. */
  share(connections: number): PostgresPool {
    return new PostgresPool({ ...this.#options, connections }, this);
  }

  /** Lends a connection. Throws `ConnectionLost` if the database can't be reached or none is free in time. */
  async use<R>(work: (connection: PostgresConnection) => Promise<R>): Promise<R> {
    const connection = await this.#take();
    try {
      return await work(connection);
    } finally {
      this.#give(connection);
    }
  }

  /** Sends statements together and returns their results. */
  run(steps: readonly Step[], timeoutMs?: number): Promise<StepResult[]> {
    return this.use(connection => connection.run(steps, timeoutMs));
  }

  /** Sends one statement and returns its rows as objects. */
  query(text: string, values: readonly Sendable[] = [], timeoutMs?: number): Promise<Record<string, Value>[]> {
    return this.use(connection => connection.query(text, values, timeoutMs));
  }

  /** Runs `work` in a transaction. */
  transaction<R>(work: (connection: PostgresConnection) => Promise<R>): Promise<R> {
    return this.use(connection => connection.transaction(work));
  }

  /** Refuses new work, and ends the free connections; the others end when they are returned. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { refuse, timer } of this.#waiting.splice(0)) {
      clearTimeout(timer);
      refuse(new ConnectionLost('the pool was closed'));
    }
    await Promise.all(this.#free.splice(0).map(connection => connection.end()));
  }

  async #take(): Promise<PostgresConnection> {
    if (this.#isClosed) throw new ConnectionLost('the pool was closed');
    for (let free = this.#free.pop(); free !== undefined; free = this.#free.pop()) {
      if (!free.isLost) return free;
      this.#open -= 1;
    }
    if (this.#open < this.#options.connections) return this.#connect();
    const { waitMs = 3000 } = this.#options;
    const lastMs = performance.now() + movingFactor * waitMs;
    // If no connection has become free for this long, waiting longer is useless.
    const stillMs = waitMs / 3;
    return new Promise((take, refuse) => {
      const giveUp = (): void => {
        const nowMs = performance.now();
        if (nowMs < lastMs && nowMs - this.#freedAtMs < stillMs) {
          waiting.timer = setTimeout(giveUp, stillMs);
          return;
        }
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        refuse(new ConnectionLost(`no connection to PostgreSQL was free within ${waitMs} ms`));
      };
      const waiting: Waiting = { take, refuse, timer: setTimeout(giveUp, waitMs) };
      this.#waiting.push(waiting);
    });
  }

  async #connect(): Promise<PostgresConnection> {
    this.#open += 1;
    try {
      const whole = this.#whole;
      return await (whole === undefined ? PostgresConnection.open(this.#options) : whole.#take());
    } catch (error) {
      this.#open -= 1;
      // Waiting callers try to connect too, and get the same error.
      this.#passOn();
      throw error;
    }
  }

  #give(connection: PostgresConnection): void {
    if (this.#whole !== undefined) {
      this.#freedAtMs = performance.now();
      this.#open -= 1;
      this.#whole.#give(connection);
      this.#passOn();
      return;
    }
    if (this.#isClosed) {
      void connection.end();
      return;
    }
    if (connection.isLost) {
      this.#open -= 1;
      this.#passOn();
      return;
    }
    this.#freedAtMs = performance.now();
    const next = this.#waiting.shift();
    if (next === undefined) {
      this.#free.push(connection);
      return;
    }
    clearTimeout(next.timer);
    next.take(connection);
  }

  /** Opens a connection for the next waiting caller. */
  #passOn(): void {
    const next = this.#waiting.shift();
    if (next === undefined) return;
    clearTimeout(next.timer);
    this.#connect().then(next.take, next.refuse);
  }
}
