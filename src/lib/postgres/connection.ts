import pg from 'pg';
import { ConnectionLost } from './errors.ts';
import { type Parameter, makeReader, type Sendable, toParameter, toStorable, type Value } from './values.ts';

/** A statement with its parameters `$1`, `$2`, … Each text is prepared once, so it must not contain values. */
export interface Step {
  readonly text: string;
  readonly values?: readonly Parameter[];
}

/** The result of a statement; `tag`: its command and count, such as "UPDATE 3" and "COMMIT". */
export interface StepResult {
  readonly rows: Value[][];
  readonly columns: readonly string[];
  readonly tag: string;
}

/** The database's address, and how long to wait for it. */
export interface PostgresOptions {
  /** `postgres://…` */
  readonly url: string;
  /** How long connecting, and each answer, may take; absent: 3 s. */
  readonly timeoutMs?: number;
}

/** The methods of `pg`'s connection that a pipeline uses. */
interface Wire {
  readonly stream: { cork(): void; uncork(): void; destroy(): void };
  close(message: { type: 'S'; name: string }): void;
  parse(message: { name: string; text: string; types: readonly number[] }): void;
  describe(message: { type: 'S'; name: string }): void;
  bind(message: {
    portal: string;
    statement: string;
    values: readonly Parameter[];
    binary: boolean;
    valueMapper: (value: Parameter) => Parameter;
  }): void;
  execute(message: { portal: string; rows: number }): void;
  sync(): void;
}

interface Columns {
  readonly names: readonly string[];
  readonly readers: readonly ((text: string) => Value)[];
}

const noColumns: Columns = { names: [], readers: [] };
const timeoutMsDefault = 3000;

/** The statements that a connection has prepared. A statement's columns are known once the server has sent them. */
interface Prepared {
  readonly names: Map<string, string>;
  readonly columns: Map<string, Columns>;
}

/**
 * Sends several statements with one Sync, so that they take one round trip; after an error the rest is skipped. It implements `pg`'s `Submittable`, because `pg` itself sends a Sync with each statement, which takes 2.5 times the CPU.
 */
class Pipeline {
  /** `pg` sets it. */
  callback: unknown = () => undefined;
  readonly #steps: readonly Step[];
  readonly #prepared: Prepared;
  readonly #resolve: (results: StepResult[]) => void;
  readonly #reject: (error: Error) => void;
  readonly #results: StepResult[] = [];
  #rows: Value[][] = [];
  #hasFailed = false;

  constructor(
    steps: readonly Step[],
    prepared: Prepared,
    resolve: (results: StepResult[]) => void,
    reject: (error: Error) => void,
  ) {
    this.#steps = steps;
    this.#prepared = prepared;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  submit(wire: Wire): void {
    const { names, columns } = this.#prepared;
    wire.stream.cork();
    for (const { text, values = [] } of this.#steps) {
      let name = names.get(text);
      if (name === undefined) {
        name = `s${names.size + 1}`;
        names.set(text, name);
      }
      if (!columns.has(name)) {
        // The name is closed first, because after an error it is unknown whether it exists.
        wire.close({ type: 'S', name });
        wire.parse({ name, text, types: [] });
        wire.describe({ type: 'S', name });
        columns.set(name, noColumns);
      }
      wire.bind({
        portal: '',
        statement: name,
        values,
        binary: false,
        valueMapper: value => (value === null ? null : toStorable(value)),
      });
      wire.execute({ portal: '', rows: 0 });
    }
    wire.sync();
    wire.stream.uncork();
  }

  handleRowDescription({ fields }: { fields: readonly { name: string; dataTypeID: number }[] }): void {
    const name = this.#findStatementName(this.#results.length);
    const columns = {
      names: fields.map(field => field.name),
      readers: fields.map(({ dataTypeID }) => makeReader(dataTypeID)),
    };
    this.#prepared.columns.set(name, columns);
  }

  handleDataRow({ fields }: { fields: readonly (string | null)[] }): void {
    const { readers } = this.#prepared.columns.get(this.#findStatementName(this.#results.length)) ?? noColumns;
    this.#rows.push(
      fields.map((text, index) => {
        const read = readers[index];
        return text === null || read === undefined ? text : read(text);
      }),
    );
  }

  handleCommandComplete({ text: tag }: { text: string }): void {
    const { names } = this.#prepared.columns.get(this.#findStatementName(this.#results.length)) ?? noColumns;
    this.#results.push({ rows: this.#rows, columns: names, tag });
    this.#rows = [];
  }

  handleEmptyQuery(): void {
    this.handleCommandComplete({ text: '' });
  }

  handlePortalSuspended(): void {
    this.handleCommandComplete({ text: '' });
  }

  /** Called for an error of the server, which skips everything after it. `pg` drops the active query here; the following ReadyForQuery only starts the next one. */
  handleError(error: Error): void {
    for (let index = this.#results.length; index < this.#steps.length; index += 1) {
      this.#prepared.columns.delete(this.#findStatementName(index));
    }
    this.#hasFailed = true;
    this.#reject(error);
  }

  handleReadyForQuery(): void {
    if (!this.#hasFailed) this.#resolve(this.#results);
  }

  #findStatementName(index: number): string {
    return this.#prepared.names.get(this.#steps[index]?.text ?? '') ?? '';
  }
}

/** A connection. Once it is lost, it can't be used again: open another one. */
export class PostgresConnection {
  readonly #client: pg.Client;
  readonly #timeoutMs: number;
  readonly #prepared: Prepared = { names: new Map(), columns: new Map() };
  #lost: Error | undefined;

  private constructor(client: pg.Client, timeoutMs: number) {
    this.#client = client;
    this.#timeoutMs = timeoutMs;
    const lose = (error?: Error): void => {
      this.#lost ??= error ?? new Error('the connection has ended');
    };
    client.on('error', lose);
    client.on('end', () => lose());
  }

  /** Connects. Throws `ConnectionLost` if the database can't be reached in time, or the database's error, for example for a wrong password. */
  static async open({ url, timeoutMs = timeoutMsDefault }: PostgresOptions): Promise<PostgresConnection> {
    const client = new pg.Client({
      connectionString: url,
      application_name: 'tollgate',
      connectionTimeoutMillis: timeoutMs,
      keepAlive: true,
    });
    const connection = new PostgresConnection(client, timeoutMs);
    try {
      await client.connect();
    } catch (error) {
      if (error instanceof pg.DatabaseError) throw error;
      throw new ConnectionLost(`PostgreSQL can’t be reached: ${errorMessage(error)}`, { cause: error });
    }
    return connection;
  }

  /** True if the connection is lost. */
  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  /**
   * Sends statements together and returns their results. Throws the error of the first one that fails, or `ConnectionLost` if the
   * answer does not arrive in time.
   */
  run(steps: readonly Step[], timeoutMs = this.#timeoutMs): Promise<StepResult[]> {
    return this.#within(timeoutMs, (resolve, reject) => {
      this.#client.query(new Pipeline(steps, this.#prepared, resolve, reject) as unknown as pg.Submittable);
    });
  }

  /** Sends one statement and returns its rows as objects. The statement must cast parameters of types other than text, for example `$1::bigint`. */
  async query(text: string, values: readonly Sendable[] = [], timeoutMs?: number): Promise<Record<string, Value>[]> {
    const [result] = await this.run([{ text, values: values.map(toParameter) }], timeoutMs);
    return result === undefined ? [] : toObjects(result);
  }

  /** Sends a script of several statements without parameters. */
  async script(text: string, timeoutMs = this.#timeoutMs): Promise<void> {
    await this.#within<unknown>(timeoutMs, (resolve, reject) => {
      this.#client.query(text).then(resolve, reject);
    });
  }

  /** Runs `work` in a transaction; if it throws, the transaction is rolled back. Throws `ConnectionLost` if it is unknown whether the transaction was committed. */
  async transaction<R>(work: (connection: PostgresConnection) => Promise<R>): Promise<R> {
    await this.run([{ text: 'BEGIN' }]);
    try {
      const result = await work(this);
      const [done] = await this.run([{ text: 'COMMIT' }]);
      // PostgreSQL reports a failed transaction this way, not as an error.
      if (done?.tag !== 'COMMIT') throw new Error(`COMMIT was answered by ${done?.tag ?? 'nothing'}`);
      return result;
    } catch (error) {
      if (!this.isLost) await this.run([{ text: 'ROLLBACK' }]).catch(() => this.destroy());
      throw error;
    }
  }

  /** Ends the connection at once, even if statements are running. */
  destroy(): void {
    this.#lost ??= new Error('the connection was closed');
    (this.#client as unknown as { connection: Wire }).connection.stream.destroy();
  }

  /** Ends the connection once the running statements have ended. */
  async end(): Promise<void> {
    if (!this.isLost) await this.#client.end().catch(() => undefined);
  }

  #within<R>(
    timeoutMs: number,
    start: (resolve: (result: R) => void, reject: (error: unknown) => void) => void,
  ): Promise<R> {
    return new Promise((resolve, reject) => {
      if (this.#lost !== undefined) {
        reject(new ConnectionLost(this.#lost.message, { cause: this.#lost }));
        return;
      }
      const timer = setTimeout(() => {
        this.destroy();
        reject(new ConnectionLost(`PostgreSQL did not answer within ${timeoutMs} ms`));
      }, timeoutMs);
      const done = (result: R): void => {
        clearTimeout(timer);
        resolve(result);
      };
      start(done, error => {
        clearTimeout(timer);
        if (error instanceof pg.DatabaseError) {
          // After such an error the server ends the connection.
          if (error.severity === 'FATAL' || error.severity === 'PANIC') this.destroy();
          reject(error);
          return;
        }
        this.#lost ??= error instanceof Error ? error : new Error(String(error));
        reject(new ConnectionLost(errorMessage(error), { cause: error }));
      });
    });
  }
}

/** Returns rows as objects by the names of their columns. */
export function toObjects({ rows, columns }: StepResult): Record<string, Value>[] {
  return rows.map(row => Object.fromEntries(columns.map((name, index) => [name, row[index] ?? null])));
}

function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
