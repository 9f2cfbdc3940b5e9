import { setTimeout as delay } from 'node:timers/promises';
import { GatewayError } from '../../errors/gateway-error.ts';
import { overloaded } from '../../errors/overloaded.ts';
import { PostgresConnection, type PostgresOptions } from '../../lib/postgres/connection.ts';
import { isConflict, isDatabaseFailure } from '../../lib/postgres/errors.ts';
import { FairBatches } from '../fair-batches.ts';
import type { CommandWriter } from '../command-ledger.ts';
import type { LedgerWatch } from '../sqlite/ledger-watch.ts';
import type { WireCommand, WireReply } from '../sqlite/wire.ts';
import type { CommitFacts } from '../sqlite/writer.ts';
import { type BatchOutcome, type Engine, LeaseEnded } from './engine.ts';

/** The most commands that may wait. If there are more, new admissions are refused; commands for admitted requests are always accepted. */
const waitingMax = 20_000;
/** The most commands in one batch. */
const batchMax = 500;
/** How long a command waits for the database before it is refused. Settles and voids wait longer: see `waits`. */
const patienceMs = { admit: 2500, others: 4000 };
/** As long as batches are being committed, commands may wait this much longer. */
const movingMs = 7500;
/** If no batch was committed for this long, the longer wait does not apply. */
const stillMs = 2500;
const impatienceMs = 200;
/** See `FairBatches`. A batch takes about ten milliseconds, in which many admissions of a busy account come. */
const admitsMin = 64;
const backoffMs = { min: 50, max: 1000 };

interface Pending {
  readonly request: WireCommand;
  readonly accounts: readonly number[];
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly untilMs: number;
  /** True if the command was sent before and its outcome is unknown. */
  isRepeat: boolean;
  isAnswered: boolean;
}

/** The dependencies and settings of a `BatchWriter`. */
export interface BatchWriterTools {
  readonly database: PostgresOptions;
  readonly engine: Engine;
  readonly observe: ((commit: CommitFacts) => void) | undefined;
  readonly watch: LedgerWatch;
  /** How long a bounded settle or void waits before it is refused. */
  readonly settleMs: number;
  /** Tests only: how long a command waits for the database before it is refused, in ms. */
  readonly patienceMs?: number | undefined;
  /** Called after each committed batch. */
  readonly onBatch: (outcome: BatchOutcome) => void;
  /** Called after the lease has ended; registers the instance again. */
  readonly onLeaseEnded: () => Promise<void>;
}

const unreachable = (cause?: unknown): GatewayError => overloaded('The ledger can’t be written.', cause);

/**
 * Sends commands in batches over one connection. A batch consists of the commands that arrived while the previous batch ran. Its commands get their replies
 * once it is committed. If the connection is lost, the commands are sent again with the same ids, and the engine looks up their outcome. Settles and voids
 * must not be lost, so they wait until the database is back.
 */
export class BatchWriter implements CommandWriter {
  readonly isUnsynced = false;
  readonly #tools: BatchWriterTools;
  readonly #impatience: NodeJS.Timeout;
  #connection: PostgresConnection | undefined;
  readonly #batches = new FairBatches<Pending>(admitsMin, () => performance.now());
  #queue: Pending[] = [];
  #batch: Pending[] = [];
  #isRunning = false;
  #isFailing = false;
  #backoffMs = backoffMs.min;
  #committedAtMs = Number.NEGATIVE_INFINITY;
  #drained: (() => void) | undefined;

  constructor(tools: BatchWriterTools) {
    this.#tools = tools;
    this.#impatience = setInterval(() => this.#giveUp(), impatienceMs).unref();
  }

  /** True if the database can't be written now. */
  get isFailing(): boolean {
    return this.#isFailing;
  }

  send<R>(request: WireCommand, decode: (value: unknown) => R, isBounded = false): Promise<R> {
    return this.sendFor([], request, isBounded).then(decode);
  }

  /** Sends a command that concerns these accounts. */
  sendFor(accounts: readonly number[], request: WireCommand, isBounded = false): Promise<unknown> {
    if (this.#drained !== undefined) return Promise.reject(overloaded('The gateway is stopping.'));
    if (request[0] === 'admit') {
      if (this.#isFailing) return Promise.reject(unreachable());
      if (this.#queue.length >= waitingMax) return Promise.reject(overloaded('Too many requests are waiting.'));
    }
    return new Promise((resolve, reject) => {
      const untilMs = performance.now() + this.#choosePatienceMs(request, isBounded);
      this.#queue.push({ request, accounts, resolve, reject, untilMs, isRepeat: false, isAnswered: false });
      this.#wake();
    });
  }

  /** Checks at once whether the database can be written; called after another operation on it has failed. */
  probe(): void {
    if (this.#isFailing || this.#drained !== undefined) return;
    this.#queue.push({ ...withoutReply, request: ['probe', 0] });
    this.#wake();
  }

  /** Refuses new commands; resolves when all sent commands are done. */
  async drain(): Promise<void> {
    await new Promise<void>(resolve => {
      this.#drained = resolve;
      this.#checkDrained();
    });
    clearInterval(this.#impatience);
    await this.#connection?.end();
  }

  #choosePatienceMs(request: WireCommand, isBounded: boolean): number {
    if (waits(request)) return isBounded ? this.#tools.settleMs : Number.POSITIVE_INFINITY;
    return this.#tools.patienceMs ?? (request[0] === 'admit' ? patienceMs.admit : patienceMs.others);
  }

  #wake(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    // Other commands of this turn of the event loop join the batch.
    setImmediate(() => void this.#run());
  }

  async #run(): Promise<void> {
    while (this.#queue.length > 0) {
      this.#batch = this.#batches.take(this.#queue, batchMax);
      await this.#do(this.#batch);
      this.#batch = [];
    }
    this.#isRunning = false;
    this.#checkDrained();
  }

  async #do(batch: readonly Pending[]): Promise<void> {
    const startedAtMs = performance.now();
    try {
      const connection = await this.#connect();
      const outcome = await this.#tools.engine.run(connection, batch);
      this.#recover();
      this.#committedAtMs = performance.now();
      this.#tools.onBatch(outcome);
      this.#tools.observe?.({ commitMs: performance.now() - startedAtMs, waiting: batch.length + this.#queue.length });
      for (const account of outcome.suspended) this.#tools.watch.suspended(account);
      for (const [index, command] of batch.entries()) answer(command, outcome.replies[index]);
    } catch (error) {
      await this.#onFailure(batch, error);
    }
  }

  async #onFailure(batch: readonly Pending[], error: unknown): Promise<void> {
    if (error instanceof LeaseEnded) return this.#onLeaseEnded(batch);
    if (isConflict(error)) {
      this.#queue.unshift(...batch);
      return;
    }
    const isFirstFailure = batch.some(command => !command.isRepeat);
    for (const command of batch) command.isRepeat = true;
    if (isDatabaseFailure(error)) {
      this.#queue.unshift(...batch.filter(command => !command.isAnswered));
      return this.#fail(error);
    }
    const [first] = batch;
    // A row unexpectedly exists or is missing. The repeat looks up each outcome; if it fails too, each command is sent alone, so that only the faulty one fails.
    if (isFirstFailure) await this.#do(batch);
    else if (batch.length > 1) for (const command of batch) await this.#do([command]);
    else if (first !== undefined) refuse(first, error);
  }

  /** Replies to a batch whose instance has lost its lease, and registers again. Other instances may have ended this one's holds, so none of them is settled. */
  async #onLeaseEnded(batch: readonly Pending[]): Promise<void> {
    this.#tools.engine.forgetHolds();
    for (const command of batch) {
      const reply = replyAfterLeaseEnded(command.request);
      if (reply !== undefined) answer(command, ['done', reply]);
      else if (command.request[0] === 'admit') command.reject(unreachable());
      else this.#queue.unshift(command);
    }
    try {
      await this.#tools.onLeaseEnded();
    } catch (error) {
      await this.#fail(error);
    }
  }

  async #connect(): Promise<PostgresConnection> {
    if (this.#connection?.isLost === false) return this.#connection;
    this.#connection = undefined;
    this.#connection = await PostgresConnection.open(this.#tools.database);
    return this.#connection;
  }

  async #fail(error: unknown): Promise<void> {
    if (!this.#isFailing) this.#tools.watch.failing(error instanceof Error ? error : new Error(String(error)));
    this.#isFailing = true;
    this.#connection?.destroy();
    this.#connection = undefined;
    this.#giveUp();
    await delay(this.#backoffMs);
    this.#backoffMs = Math.min(this.#backoffMs * 2, backoffMs.max);
    // If no command is waiting, a probe notices when the database is back.
    if (this.#queue.length === 0) this.#queue.push({ ...withoutReply, request: ['probe', 0] });
  }

  #recover(): void {
    if (!this.#isFailing) return;
    this.#isFailing = false;
    this.#backoffMs = backoffMs.min;
    this.#tools.watch.failing(undefined);
  }

  /** Refuses commands that have waited too long. A refused admission may have been stored: then its hold is voided later. */
  #giveUp(): void {
    const nowMs = performance.now();
    const overMs = nowMs - this.#committedAtMs < stillMs ? nowMs - movingMs : nowMs;
    for (const command of [...this.#batch, ...this.#queue]) {
      if (command.untilMs > overMs || command.isAnswered) continue;
      command.isAnswered = true;
      command.reject(unreachable());
      const isUnderWay = command.isRepeat || this.#batch.includes(command);
      if (command.request[0] === 'admit' && isUnderWay) {
        const [, sentAtMs, id, , , accountId] = command.request;
        // The void locks the account, so that it waits for the transaction whose connection was lost, which may still be committed.
        const accounts = accountId === undefined ? [] : [accountId];
        this.#queue.push({ ...withoutReply, accounts, request: ['void', sentAtMs, id, 'gateway_failure'] });
        this.#wake();
      }
    }
    this.#queue = this.#queue.filter(command => !command.isAnswered);
  }

  #checkDrained(): void {
    if (!this.#isRunning && this.#queue.length === 0) this.#drained?.();
  }
}

/** A command that the writer sends for itself: no one waits for its reply. */
const withoutReply: Omit<Pending, 'request'> = {
  accounts: [],
  resolve: () => undefined,
  reject: () => undefined,
  untilMs: Number.POSITIVE_INFINITY,
  isRepeat: true,
  isAnswered: false,
};

function answer(command: Pending, reply: WireReply | undefined): void {
  if (command.isAnswered) return;
  command.isAnswered = true;
  if (reply?.[0] === 'done') command.resolve(reply[1]);
  else refuse({ ...command, isAnswered: false }, new Error(reply?.[1] ?? 'no reply'));
}

function refuse(command: Pending, error: unknown): void {
  const reason = error instanceof Error ? error.message : String(error);
  const cause = new Error(`ledger: ${command.request[0]}: ${reason}`, { cause: error });
  command.reject(new GatewayError('internal', 'The gateway failed.', { cause }));
}

/** Returns whether a command waits until the database can be written, because it ends an admitted request. */
function waits(request: WireCommand): boolean {
  return request[0] === 'settle' || request[0] === 'void';
}

/** Returns the reply to a command whose instance has lost its lease; undefined if the command does not concern a hold. */
function replyAfterLeaseEnded(request: WireCommand): unknown {
  if (request[0] === 'settle') return ['not_held', 0n, 0n];
  if (request[0] === 'void') return 'not_held';
  if (request[0] !== 'extend') return undefined;
  return { kind: 'not_held', outputTokens: 0, heldNanoUsd: 0n, outputTokensAvailable: 0 };
}
