import type { PostgresConnection, Step, StepResult } from '../../lib/postgres/connection.ts';
import type { PostgresPool } from '../../lib/postgres/pool.ts';
import { toArray } from '../../lib/postgres/values.ts';
import type { Context } from '../rules/context.ts';
import { coversModel } from '../rules/limits.ts';
import { toDay, windowAt } from '../rules/calendar.ts';
import { mergeTags, pathFrom } from '../rules/groups.ts';
import { suspend } from '../rules/suspensions.ts';
import { type EndOne, sweep } from '../rules/sweep.ts';
import type { Suspension, Tags } from '../ledger.ts';
import type { Hold, Key } from '../rows.ts';
import type { SuspendedAccount } from '../sqlite/engine.ts';
import type { WireCommand, WireReply } from '../sqlite/wire.ts';
import { BatchRows, type Shared } from './batch-rows.ts';
import { findAccountId, execute, locksCounters, wantNames } from './commands.ts';
import { MissingRow, UnlockedAccount } from './missing-row.ts';

/** A command of a batch. `isRepeat`: it was sent before, and its outcome is unknown. */
export interface BatchCommand {
  readonly request: WireCommand;
  readonly isRepeat: boolean;
  /** The accounts to lock; absent or empty: those that the command names. */
  readonly accounts?: readonly number[];
}

/** The outcome of a committed batch. */
export interface BatchOutcome {
  readonly replies: readonly WireReply[];
  readonly suspended: readonly SuspendedAccount[];
  /** By the database's clock. */
  readonly nowMs: number;
  readonly roundTrips: number;
}

/** The dependencies of the engine. */
export interface EngineTools {
  readonly shared: Shared;
  readonly context: Omit<Context, 'rows' | 'onSuspended'>;
  /** Connections for work outside the batch's transaction. */
  readonly pool: PostgresPool;
  /** The clock that the rules use: the database's, or, in tests that control time, the time in each command. */
  readonly clock: 'database' | 'commands';
  /** The highest id of a request that was stored when the process started. */
  readonly lastId: number;
  readonly instanceNumber: () => number;
  /** The expected time of the database's clock, for rows that are loaded before the batch has read it. */
  readonly guessNow: () => number;
}

/** Thrown if the lease of this instance has ended. Others may have ended its holds, so its commands must not be executed any more. */
export class LeaseEnded extends Error {
  override readonly name = 'LeaseEnded';
}

const ownHoldsMax = 200_000;
/** The id of a request modulo this number is the number of its instance. */
const instancesMax = 64;
const clockText = `SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now, (SELECT lease_until_ms FROM instance WHERE boot = $1::bigint) AS lease,
  (SELECT value FROM meta WHERE name = 'operator_config') AS config`;

/**
 * Runs batches of commands. A batch is one transaction, normally with two round trips; new names, rows that turn out to be missing and restarts need more. The first locks the accounts, in the order of their ids, and then loads rows; these are separate statements,
 * so that they see everything that was committed before the locks. The last writes each changed row once and commits.
 */
export class Engine {
  readonly #tools: EngineTools;
  readonly #lockText: string;
  /** Holds of this instance, as last committed. Another instance may have ended one, but can't have changed it otherwise; an ended one is noticed when this instance removes it. */
  readonly #ownHolds = new Map<number, Hold>();
  readonly #keyOwners = new Map<number, number>();
  /** The tags that a key and its groups had when the key was last used: only for guesses at what to load. */
  readonly #keyTags = new Map<number, Tags>();
  /** The highest id among the requests that were stored when the engine started and those that it has sent since. */
  #highestId: number;
  /** The plan period of each account that had one when it was last used. */
  readonly #lastPeriods = new Map<number, number>();

  constructor(tools: EngineTools) {
    this.#tools = tools;
    this.#highestId = tools.lastId;
    const { account } = tools.shared.statements;
    this.#lockText = `SELECT ${account.codec.names.join(', ')}, config, due_at_ms FROM account WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE`;
  }

  /** The number of this instance's cached holds. The cache leaves out holds that expire, and is cleared when it is full. */
  get liveHolds(): number {
    return this.#ownHolds.size;
  }

  /** Clears the cache of holds, because other instances may have ended them. */
  forgetHolds(): void {
    this.#ownHolds.clear();
  }

  /** Runs a batch. Throws `LeaseEnded`, `UnlockedAccount` after too many restarts, or the database's error; then nothing was committed, or, if the connection was lost, the outcome is unknown. */
  async run(connection: PostgresConnection, batch: readonly BatchCommand[]): Promise<BatchOutcome> {
    const nameRoundTrips = await this.#addNames(connection, batch);
    const locked = new Set(batch.flatMap(command => this.#listAccounts(command)));
    for (let restarts = 0; ; restarts += 1) {
      try {
        const outcome = await this.#transact(connection, batch, locked);
        return nameRoundTrips === 0 ? outcome : { ...outcome, roundTrips: outcome.roundTrips + nameRoundTrips };
      } catch (error) {
        if (!connection.isLost) await connection.run([{ text: 'ROLLBACK' }]);
        if (!(error instanceof UnlockedAccount) || restarts > 1000) {
          // After an error the database may lack a sum that the cache lists as committed.
          this.#tools.shared.committedSums.clear();
          throw error;
        }
        locked.add(error.accountId);
      }
    }
  }

  /** Looks up the names (models, tags, end users and others) that a batch's commands contain, and adds the new ones to the database, in one transaction, before accounts are locked. Returns the number of round trips. */
  async #addNames(connection: PostgresConnection, batch: readonly BatchCommand[]): Promise<number> {
    const { dictionary } = this.#tools.shared;
    const findTags = (keyId: number): Tags | undefined => this.#keyTags.get(keyId);
    for (const { request } of batch) wantNames(dictionary, request, findTags);
    const need = dictionary.takeWanted();
    if (need === undefined) return 0;
    need.onResults(await connection.run(need.steps));
    return 1;
  }

  async #transact(
    connection: PostgresConnection,
    batch: readonly BatchCommand[],
    locked: ReadonlySet<number>,
  ): Promise<BatchOutcome> {
    const { shared, clock } = this.#tools;
    const rows = new BatchRows(shared, locked);
    const suspended: SuspendedAccount[] = [];
    const onSuspended = (accountId: number, reason: Suspension): void => {
      suspended.push({ accountId, reason });
    };
    const context: Context = { ...this.#tools.context, rows, onSuspended };
    const work = { connection, rows, context, suspended, roundTrips: 2 };
    const replies: WireReply[] = [];
    let nowMs: number;
    try {
      nowMs = await this.#load(connection, rows, batch, locked);
      for (const { request } of batch) {
        replies.push(await this.#execute(work, request, clock === 'database' ? nowMs : request[1]));
      }
      const steps = rows.writeSteps();
      const results = await connection.run([...steps, { text: 'COMMIT' }]);
      // COMMIT of a failed transaction does not throw, but has another tag.
      const tag = results.at(-1)?.tag;
      if (tag !== 'COMMIT') throw new Error(`COMMIT was answered by ${tag ?? 'nothing'}`);
    } catch (error) {
      rows.abandon();
      throw error;
    }
    rows.finish();
    this.#cacheHolds(rows);
    return { replies, suspended, nowMs, roundTrips: work.roundTrips };
  }

  /** Begins the transaction, locks the accounts and loads the rows that the commands will need. Returns the time. */
  async #load(
    connection: PostgresConnection,
    rows: BatchRows,
    batch: readonly BatchCommand[],
    locked: ReadonlySet<number>,
  ): Promise<number> {
    const { shared } = this.#tools;
    const ids = [...locked].sort((a, b) => a - b);
    const counters = batch.some(({ request }) => locksCounters(request));
    for (const command of batch) this.#want(rows, command);
    const { tables } = rows;
    const wanted = [
      tables.usage,
      tables.key,
      tables.keyDay,
      tables.group,
      tables.hold,
      tables.limitUse,
      tables.period,
      tables.planDay,
      rows.sumBounds,
    ];
    const loads = wanted.map(table => ({ table, steps: table.loadSteps() }));
    const steps: Step[] = [
      { text: 'BEGIN ISOLATION LEVEL READ COMMITTED' },
      { text: this.#lockText, values: [toArray(ids)] },
      ...(counters ? [{ text: 'SELECT name, value FROM meta ORDER BY name FOR UPDATE' }] : []),
      { text: clockText, values: [String(shared.boot)] },
      ...loads.flatMap(load => load.steps),
    ];
    const results = await connection.run(steps);
    let place = 1;
    const next = (): StepResult | undefined => {
      const result = results[place];
      place += 1;
      return result;
    };
    this.#addLoadedAccounts(rows, ids, next());
    if (counters)
      for (const [name, value] of next()?.rows ?? [])
        tables.counter.addLoaded({ name: name as never, value: Number(value) });
    const [nowMs = null, lease = null, config = null] = next()?.rows[0] ?? [];
    // `boot`, the number of this run in the table `instance`, is 0 only in tests that register none.
    if (shared.boot !== 0 && (lease === null || Number(lease) <= Number(nowMs)))
      throw new LeaseEnded('the lease has ended');
    rows.setOperatorConfigVersion(Number(config ?? 0n));
    for (const { table, steps: own } of loads)
      if (own.length > 0) table.takeLoaded(own.map(() => next() as StepResult));
    return Number(nowMs);
  }

  #addLoadedAccounts(rows: BatchRows, ids: readonly number[], result: StepResult | undefined): void {
    const { codec } = this.#tools.shared.statements.account;
    const columns = codec.names.length;
    for (const stored of result?.rows ?? []) {
      const due = stored[columns + 1] ?? null;
      const account = codec.read(stored);
      rows.addLoadedAccount(account, Number(stored[columns]), due === null ? null : Number(due));
      if (account.period !== null) this.#lastPeriods.set(account.id, account.period);
      else if (this.#lastPeriods.size > 0) this.#lastPeriods.delete(account.id);
    }
    for (const id of ids) if (!rows.tables.account.has(id)) rows.tables.account.markAbsent(id);
  }

  /** Returns the accounts that a command names. If it needs others, `UnlockedAccount` is thrown when it runs. */
  #listAccounts({ request, accounts = [] }: BatchCommand): readonly number[] {
    return accounts.length > 0 ? accounts : this.#namedBy(request);
  }

  #namedBy(request: WireCommand): readonly number[] {
    switch (request[0]) {
      case 'admit':
        return request[5] === undefined ? [] : [request[5]];
      case 'preview':
        return this.#namedBy(request[2]);
      case 'settle':
      case 'void':
        return [this.#ownHolds.get(request[2])?.accountId ?? []].flat();
      case 'extend':
        return [this.#ownHolds.get(request[2].id)?.accountId ?? []].flat();
      case 'windows':
      case 'refusal':
        return [this.#keyOwners.get(request[2]) ?? []].flat();
      case 'admin':
        return [findAccountId(request[2]) ?? []].flat();
      case 'uses':
        return typeof request[2] === 'number' ? [] : [request[2].accountId];
      default:
        return [];
    }
  }

  /** Notes the rows that a command will need, as far as they are known before it runs. */
  #want(rows: BatchRows, { request, isRepeat }: BatchCommand): void {
    const { tables } = rows;
    const nowMs = this.#tools.guessNow();
    if (request[0] === 'admit') {
      const [, , id, , keyId, accountId, model] = request;
      tables.key.want(keyId);
      tables.keyDay.want(keyId, toDay(nowMs));
      if (!isRepeat && request[9] === null && this.#isNew(id)) {
        tables.hold.markAbsent(id);
        tables.usage.markAbsent(id);
      } else {
        tables.hold.want(id);
        tables.usage.want(id);
      }
      if (accountId !== undefined) this.#wantLimits(rows, { accountId, keyId, model }, nowMs);
      return;
    }
    if (request[0] === 'admin') {
      if (!isRepeat) tables.applied.markAbsent(request[2].id);
      return;
    }
    const id =
      request[0] === 'extend' ? request[2].id : request[0] === 'settle' || request[0] === 'void' ? request[2] : 0;
    if (id === 0) return;
    const hold = isRepeat ? undefined : this.#ownHolds.get(id);
    if (hold === undefined) {
      tables.hold.want(id);
      return;
    }
    tables.hold.addLoaded(hold);
    tables.key.want(hold.keyId);
    tables.keyDay.want(hold.keyId, toDay(hold.admittedAtMs));
    if (hold.period !== null) tables.period.want(hold.accountId, hold.period);
    if (hold.payers === 'free_request') tables.planDay.want(hold.accountId, toDay(hold.admittedAtMs));
    for (const group of hold.groups) tables.group.want(group);
    if (request[0] === 'settle') this.#wantSums(rows, hold);
    const { accountId, keyId } = hold;
    this.#wantLimits(rows, { accountId, keyId, model: undefined, groups: hold.groups }, hold.admittedAtMs);
  }

  /** Notes the sums of the end user and of tags that a settle will change. */
  #wantSums({ sumBounds }: BatchRows, { accountId, endUserId, tagsId, admittedAtMs }: Hold): void {
    if (endUserId !== null) sumBounds.want({ accountId, grouped: 'end_user', valueId: endUserId }, admittedAtMs);
    if (tagsId === null) return;
    for (const valueId of this.#tools.shared.dictionary.findTags(tagsId) ?? [])
      sumBounds.want({ accountId, grouped: 'tag', valueId }, admittedAtMs);
  }

  /** Returns whether the database can't have an id yet: this instance made it, and has sent no id as high. If so, notes it as the highest id sent. */
  #isNew(id: number): boolean {
    if (id <= this.#highestId || id % instancesMax !== this.#tools.instanceNumber()) return false;
    this.#highestId = id;
    return true;
  }

  /** Marks rows for loading: the account's plan, and the uses of its limits, as far as they are known from earlier batches. */
  #wantLimits(rows: BatchRows, { accountId, keyId, model, groups = [] }: WantedLimits, atMs: number): void {
    const { tables } = rows;
    const period = this.#lastPeriods.get(accountId);
    if (period !== undefined) {
      tables.period.want(accountId, period);
      tables.planDay.want(accountId, toDay(atMs));
    }
    const config = this.#tools.shared.configs.guess(accountId);
    if (config === undefined || config.limits.size === 0) return;
    for (const scope of [`key ${keyId}`, `account ${accountId}`, ...groups.map(group => `group ${group}`)]) {
      for (const limit of config.limits.get(scope) ?? []) {
        if (model !== undefined && !coversModel(limit, model)) continue;
        if (model === undefined && limit.models !== null) continue;
        tables.limitUse.want(limit.id, windowAt(limit.per, limit.timeZone, atMs).number, 0);
      }
    }
  }

  /** Executes a command. First ends everything that is due, as a separate step, so that the command's reads see the result. */
  async #execute(work: Work, request: WireCommand, nowMs: number): Promise<WireReply> {
    const { rows, context } = work;
    // A command that voids a stopped gateway's hold runs without a sweep before it, because the plan that the sweep renews may need the hold's money.
    if (!isRecovery(request)) {
      const swept = await this.#attempt(work, nowMs, () => sweep(context, nowMs, this.#endOrSuspend(work)));
      if (swept[0] !== 'done') return swept;
    }
    return this.#attempt(work, nowMs, () => execute(context, rows, request, nowMs));
  }

  /** Applies a rule. If it reads a row that is not loaded, loads the row and applies the rule again. */
  async #attempt(work: Work, nowMs: number, apply: () => unknown): Promise<WireReply> {
    const { rows } = work;
    rows.begin(nowMs);
    for (;;) {
      const count = work.suspended.length;
      try {
        return ['done', apply()];
      } catch (error) {
        rows.undoTo(0);
        work.suspended.length = count;
        if (error instanceof UnlockedAccount) throw error;
        if (!(error instanceof MissingRow)) return ['failed', readMessage(error), undefined];
        await this.#supply(work, error);
      }
    }
  }

  async #supply(work: Work, { need }: MissingRow): Promise<void> {
    const { connection, rows } = work;
    work.roundTrips += 1;
    // `apart`: on another connection, outside this transaction.
    if (need.when === 'apart') {
      need.onResults(await this.#tools.pool.run(need.steps));
      return;
    }
    const writes = need.when === 'changes' && rows.hasChanges ? rows.writeSteps() : [];
    const results = await connection.run([...writes, ...need.steps]);
    if (writes.length > 0) rows.markWritten();
    need.onResults(results.slice(writes.length));
  }

  /** Ends one expired row. If that fails, suspends its account, so that everything else can continue. */
  #endOrSuspend({ rows, suspended }: Work): EndOne {
    return (accountId, end) => {
      const before = rows.undo.length;
      try {
        end();
      } catch (error) {
        if (error instanceof MissingRow || error instanceof UnlockedAccount) throw error;
        rows.undoTo(before);
        suspend(rows, accountId, 'damaged');
        suspended.push({ accountId, reason: 'damaged', cause: readMessage(error) });
      }
    };
  }

  /** Caches this instance's holds as a committed batch has left them. */
  #cacheHolds(rows: BatchRows): void {
    const { hold, key } = rows.tables;
    for (const [id] of hold.removedInBatch()) this.#ownHolds.delete(Number(id));
    for (const each of hold.changedInBatch()) {
      if (each.expiresAtMs === null) this.#ownHolds.set(each.id, each);
      // Another service may have admitted an id that this gateway had admitted and voided in the same batch.
      else this.#ownHolds.delete(each.id);
    }
    if (this.#ownHolds.size > ownHoldsMax) this.#ownHolds.clear();
    if (this.#keyOwners.size > ownHoldsMax) this.#keyOwners.clear();
    if (this.#keyTags.size > ownHoldsMax) this.#keyTags.clear();
    for (const row of key.rows()) {
      this.#keyOwners.set(row.id, row.accountId);
      this.#cacheTags(rows, row);
    }
  }

  #cacheTags(rows: BatchRows, key: Key): void {
    const { group } = rows.tables;
    // The batch has not loaded the key's group, so the cached tags stay.
    if (key.groupId !== null && !group.has(key.groupId)) return;
    try {
      this.#keyTags.set(key.id, mergeTags(rows, key, pathFrom(rows, key.groupId), undefined));
    } catch (error) {
      if (!(error instanceof MissingRow)) throw error;
    }
  }
}

/** Returns whether a command ends a hold that a stopped instance has left. */
function isRecovery(request: WireCommand): boolean {
  return request[0] === 'void' && request[3] === 'restarted';
}

interface WantedLimits {
  readonly accountId: number;
  readonly keyId: number;
  /** undefined: not known. */
  readonly model: string | undefined;
  readonly groups?: readonly number[];
}

/** A running transaction. */
interface Work {
  readonly connection: PostgresConnection;
  readonly rows: BatchRows;
  readonly context: Context;
  readonly suspended: SuspendedAccount[];
  roundTrips: number;
}

function readMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
