import type * as columnTypesModule from '../../src/ledger/postgres/column-types.ts';
import type * as ledgerModule from '../../src/ledger/postgres/postgres-ledger.ts';
import type * as verifyModule from '../../src/ledger/postgres/verify.ts';
import type { Plans } from '../../src/ledger/plans.ts';
import type * as wireModule from '../../src/ledger/sqlite/wire.ts';
import type { WireCommand } from '../../src/ledger/sqlite/wire.ts';
import type { Step } from '../../src/lib/postgres/connection.ts';
import type * as poolModule from '../../src/lib/postgres/pool.ts';
import { decode, encode, type OpenSubject, type Subject, type TimedCommand } from '../ledger/subjects.ts';

/** The ledger in PostgreSQL, for traces: two gateways take turns, on a database that is empty at the start of each trace. */

/** What traces on the same database share. */
interface SharedByTraces {
  readonly url: string;
  readonly pool: poolModule.PostgresPool;
  readonly ledger: typeof ledgerModule;
  readonly verify: typeof verifyModule;
  readonly wire: typeof wireModule;
  readonly types: columnTypesModule.ColumnTypes;
  /** Statements that remove the rows of a trace. */
  readonly emptying: readonly Step[];
}

interface Settings {
  readonly plans: Plans;
  readonly dailyLimitUnit: 'dollars' | 'requests';
}

type Gateway = ledgerModule.Parts;

/** A lease that is longer than any trace. */
const lease = { leaseMs: 600_000, renewMs: 600_000 };
/** The model refuses nothing because of the machine: no command is refused because the database, on a busy machine, does not reply in time. */
const patienceMs = 600_000;

/** Opens the engine on a database that has the ledger's tables. `src` is the absolute path of the modules. `close` must be called after the last trace. */
export async function openPostgresSubject(
  src: string,
  url: string,
): Promise<{ readonly open: OpenSubject; close(): Promise<void> }> {
  const ledger = (await import(`${src}/ledger/postgres/postgres-ledger.ts`)) as typeof ledgerModule;
  const { readColumnTypes } = (await import(`${src}/ledger/postgres/column-types.ts`)) as typeof columnTypesModule;
  const verify = (await import(`${src}/ledger/postgres/verify.ts`)) as typeof verifyModule;
  const wire = (await import(`${src}/ledger/sqlite/wire.ts`)) as typeof wireModule;
  const { PostgresPool } = (await import(`${src}/lib/postgres/pool.ts`)) as typeof poolModule;
  const pool = new PostgresPool({ url, connections: 3 });
  const types = await pool.use(readColumnTypes);
  const shared = { url, pool, ledger, verify, wire, types, emptying: await listEmptying(pool) };
  return {
    open: (plans, dailyLimitUnit) => new PostgresSubject(shared, { plans, dailyLimitUnit }),
    close: () => pool.close(),
  };
}

/** Tables that are not emptied between traces, so that dictionaries keep their numbers, as in a database that was used before. */
const kept = new Set([
  'batch',
  'call_kind',
  'end_user',
  'endpoint',
  'model',
  'price',
  'provider',
  'schema_version',
  'tag',
  'tag_set',
]);

async function listEmptying(pool: poolModule.PostgresPool): Promise<Step[]> {
  const tables = await pool.query(
    "SELECT relname::text AS name FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition",
  );
  const meta = await pool.query('SELECT name, value FROM meta');
  const names = tables.map(({ name }) => String(name)).filter(name => !kept.has(name));
  return [
    ...names.map(name => ({ text: `DELETE FROM ${name}` })),
    ...meta.map(({ name, value }) => ({
      text: 'INSERT INTO meta (name, value) VALUES ($1::text, $2::bigint)',
      values: [String(name), String(value)],
    })),
  ];
}

class PostgresSubject implements Subject {
  readonly #shared: SharedByTraces;
  readonly #settings: Settings;
  #gateways: readonly Gateway[] = [];
  /** By request id: the gateway that admitted the request, if gateways made the id. */
  readonly #makers = new Map<number, number>();
  readonly #seen = new Set<number>();
  #turn = 0;
  #nowMs = 0;

  constructor(shared: SharedByTraces, settings: Settings) {
    this.#shared = shared;
    this.#settings = settings;
  }

  async run(batch: readonly TimedCommand[]): Promise<unknown[]> {
    if (this.#gateways.length === 0) {
      await this.#shared.pool.run(this.#shared.emptying);
      await this.#start();
    }
    this.#turn = 1 - this.#turn;
    const replies: unknown[] = [];
    for (const [nth, commands] of this.#share(batch)) replies.push(...(await this.#send(nth, commands)));
    return replies;
  }

  async restart(nowMs: number): Promise<number> {
    this.#nowMs = nowMs;
    await this.#stop();
    await this.#start();
    const [first] = this.#gateways;
    return first === undefined ? 0 : this.#shared.ledger.endLeft(first);
  }

  account(accountId: number) {
    return this.#reader.read('account', accountId);
  }

  subscription(accountId: number, nowMs: number): unknown {
    return this.#reader.read('subscription', accountId, nowMs);
  }

  key(keyId: number, nowMs: number) {
    return this.#reader.read('storedKey', keyId, nowMs);
  }

  group(groupId: number) {
    return this.#reader.read('group', groupId, undefined);
  }

  async limit(limitId: number, nowMs: number) {
    await this.#gateway(this.#turn).writer.sendFor([], ['uses', nowMs, limitId]);
    const row = await this.#reader.read('limit', limitId, undefined, nowMs);
    // A `concurrent` limit has running requests as its use.
    return row?.unit === 'concurrent' ? { used: 0n, held: row.used } : row;
  }

  async fields(keyId: number, nowMs: number) {
    const row = await this.#reader.read('storedKey', keyId, nowMs);
    return row && [row.minuteLimit, row.dailyLimit, row.monthlyLimit];
  }

  violations(): Promise<string[]> {
    return this.#shared.verify.verifyPostgres(this.#reader);
  }

  close(): Promise<void> {
    return this.#stop();
  }

  get #reader(): Gateway['reader'] {
    return this.#gateway(0).reader;
  }

  #gateway(nth: number): Gateway {
    const gateway = this.#gateways[nth];
    if (gateway === undefined) throw new Error('no gateway runs');
    return gateway;
  }

  async #start(): Promise<void> {
    const { url, pool, types, ledger } = this.#shared;
    const clock = { now: () => this.#nowMs };
    const options = { ...this.#settings, url, clock, lease, patienceMs, drivesTime: true } as const;
    const lastId = await pool.use(ledger.readLastId);
    this.#gateways = [0, 1].map(() => ledger.makeParts(options, pool, { types, lastId }));
    for (const gateway of this.#gateways) await gateway.register();
  }

  async #stop(): Promise<void> {
    for (const { writer, instances, shared } of this.#gateways) {
      await writer.drain();
      await instances.leave(shared.boot);
    }
    this.#makers.clear();
  }

  /** Splits a batch by the gateways that get its commands. */
  #share(batch: readonly TimedCommand[]): [number, TimedCommand[]][] {
    const shares: [number, TimedCommand[]][] = [];
    for (const each of batch) {
      const nth = this.#choose(each);
      const last = shares.at(-1);
      if (last?.[0] === nth) last[1].push(each);
      else shares.push([nth, [each]]);
    }
    return shares;
  }

  /** Returns the gateway for a command: the next in turn or, for a request whose id gateways made, the one that admitted it. */
  #choose(timed: TimedCommand): number {
    const id = timed.kind === 'void' ? timed.id : 'command' in timed ? timed.command.id : undefined;
    if (id === undefined) return this.#turn;
    if (timed.kind === 'admit') {
      const isOwn = timed.command.expiresAtMs === undefined;
      if (isOwn && !this.#makers.has(id))
        this.#makers.set(id, this.#seen.has(id) ? this.#chooseForeign(id) : this.#turn);
      this.#seen.add(id);
    }
    return this.#makers.get(id) ?? this.#turn;
  }

  /** Returns a gateway that can't have made an id, because a gateway assumes that no one else uses the ids that it makes. */
  #chooseForeign(id: number): number {
    return id % 64 === this.#gateway(this.#turn).number.value ? 1 - this.#turn : this.#turn;
  }

  /**
   * Sends commands in one turn of the event loop, so that they are one batch. The first command names the accounts of which something ends by then; otherwise a gateway would end it some seconds later
   * or with the account's next command, and not at once as the model does.
   */
  async #send(nth: number, commands: readonly TimedCommand[]): Promise<unknown[]> {
    const { writer, instances } = this.#gateway(nth);
    this.#nowMs = Math.max(...commands.map(({ nowMs }) => nowMs));
    const due = await instances.listDue(100, this.#nowMs);
    return Promise.all(
      commands.map((command, index) => this.#ask(command, each => writer.sendFor(index === 0 ? due : [], each))),
    );
  }

  async #ask(command: TimedCommand, send: (command: WireCommand) => Promise<unknown>): Promise<unknown> {
    const { wire } = this.#shared;
    try {
      return decode(wire, command.kind, await send(encode(wire, command)));
    } catch (error) {
      if ((error as { readonly code?: unknown }).code === 'internal') return 'failed';
      throw error;
    }
  }
}
