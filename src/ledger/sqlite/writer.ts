import type { MessagePort } from 'node:worker_threads';
import { siblingModule } from '../../lib/sibling-module.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { overloaded } from '../../errors/overloaded.ts';
import { LedgerStartError, startErrorCode } from '../../lib/sqlite/start-error.ts';
import type { Call } from '../../lib/threads/call-queue.ts';
import { CallThread } from '../../lib/threads/call-thread.ts';
import { admissionsMax, FairBatches } from '../fair-batches.ts';
import { waitsForSync, type WireCommand, type WireReply } from './wire.ts';
import { isStorageLost } from '../../lib/sqlite/storage-lost.ts';
import type { SuspendedAccount } from './engine.ts';
import type { LedgerWatch } from './ledger-watch.ts';
import type { WriterData, WriterReady } from './worker.ts';

/** If the writer has died this many times while it ran a command, the command counts as the cause and is refused. */
const deathsMax = 3;
const backoffMs = { min: 50, max: 2000 };
/** The interval at which commands that have waited too long are searched for. */
const impatienceMs = 500;
/** See `FairBatches`. A batch takes one or two milliseconds. */
export const admitsMin = 8;

/** Decodes a reply. */
type Decode<R> = (value: unknown) => R;

interface Pending extends Call<WireCommand> {
  readonly decode: Decode<unknown>;
  deaths: number;
  /** True for a settle that is refused if it has waited too long. */
  readonly isBounded: boolean;
  /** When the command was sent, by the monotonic clock. */
  readonly sentAtMs: number;
}

/** A command that the writer sends for itself: its reply is ignored. */
const withoutReply: Omit<Pending, 'request'> = {
  decode: value => value,
  resolve: () => undefined,
  reject: () => undefined,
  deaths: 0,
  isBounded: false,
  sentAtMs: 0,
};

/** A batch that was committed. */
export interface CommitFacts {
  /** The time from sending the batch until it was committed; if all its commands wait for a sync, until it was synced. */
  readonly commitMs: number;
  /** The number of commands without a reply, including those of the batch. */
  readonly waiting: number;
}

/** The dependencies and settings of a writer. */
export interface WriterTools {
  readonly now: () => number;
  /** Called for every committed batch, for metrics. */
  readonly observe: ((commit: CommitFacts) => void) | undefined;
  /** How long a bounded settle waits for storage. */
  readonly settleMs: number;
  readonly watch: LedgerWatch;
}

/** The part of the start data that is the same for every writer of a ledger. */
type Unchanging = Omit<WriterData, 'first' | 'nowMs' | 'checksFile' | 'fault'>;

/** Returns the error for a command that can't be stored. */
export const unwritable = (cause?: unknown): GatewayError => overloaded('The ledger can’t be written.', cause);

/**
 * Sends commands from the calling thread to the writer's thread. A command gets its reply after its commit, or after the sync that follows. If
 * storage fails or the thread dies, commands that must not be lost (settles, voids) wait and are sent again later; commands that the dead thread
 * was working on are sent again, too (the writer recognises those that were done); and nothing new is admitted until a probe has been written.
 */
export class Writer {
  readonly #data: Unchanging;
  readonly #tools: WriterTools;
  readonly #impatience: NodeJS.Timeout;
  readonly #batches = new FairBatches<Pending>(admitsMin, () => performance.now());
  readonly #thread = new CallThread<Pending, WireReply>(siblingModule(import.meta.url, 'worker'), {
    onReply: (call, reply) => this.#onReply(call, reply),
    takeBatch: (waiting, max) => this.#batches.take(waiting, max),
    repliesLater: ({ request }) => waitsForSync(request),
    onBatch: ({ tookMs, waiting }) => {
      if (tookMs !== undefined) this.#tools.observe?.({ commitMs: tookMs, waiting: waiting + this.#parked.length });
      this.#checkDrained();
    },
    onNotice: notice => {
      for (const account of notice as SuspendedAccount[]) this.#tools.watch.suspended(account);
    },
    onEnd: (lost, cause) => this.#onEnd(lost, cause),
  });
  /** The commands that wait until storage works again. */
  #parked: Pending[] = [];
  #failing = false;
  #backoffMs = backoffMs.min;
  #retry: NodeJS.Timeout | undefined;
  #spawning: Promise<unknown> | undefined;
  /** True if writes may be lost: then nothing more may be written. */
  #isLost = false;
  /** Set by `drain`; called once every command has its reply. */
  #drained: (() => void) | undefined;

  private constructor(data: Unchanging, tools: WriterTools) {
    this.#data = data;
    this.#tools = tools;
    this.#impatience = setInterval(() => this.#giveUp(), impatienceMs).unref();
  }

  /** Starts the writer's thread. Throws `LedgerStartError` if the file can't be used. */
  static async start(
    data: Omit<WriterData, 'first' | 'nowMs'>,
    tools: WriterTools,
  ): Promise<{ writer: Writer } & WriterReady> {
    const { fault, checksFile, ...rest } = data;
    const writer = new Writer(rest, tools);
    try {
      const ready = await writer.#thread.start({ ...rest, fault, checksFile, first: true, nowMs: tools.now() });
      return { writer, ...(ready as WriterReady) };
    } catch (error) {
      clearTimeout(writer.#retry);
      clearInterval(writer.#impatience);
      const reason = error instanceof Error ? error.message : String(error);
      const code = startErrorCode(error);
      throw new LedgerStartError(
        code,
        code === 'unreadable' ? `The ledger ${rest.path} can’t be opened: ${reason}.` : reason,
      );
    }
  }

  /** True if a committed change may not be on the disk yet. With workers it always is, because their commands are not known here. */
  get isUnsynced(): boolean {
    return this.#thread.underway > 0 || this.#thread.isShared || this.#failing;
  }

  /** Lets a worker send commands directly to the writer's thread, over the other end of `port`. Closes the port if that is not possible now. */
  connect(port: MessagePort): void {
    const isSound = !this.#failing && !this.#isLost && this.#drained === undefined;
    if (isSound && this.#thread.isRunning) this.#thread.share(port);
    else port.close();
  }

  /** Stops all writing, because writes may be lost. */
  lose(cause: Error): void {
    const isFirst = !this.#isLost;
    this.#isLost = true;
    clearTimeout(this.#retry);
    for (const { reject } of this.#parked.splice(0)) reject(unwritable(cause));
    if (isFirst) {
      this.#tools.watch.lost(cause);
      // Workers send it commands directly.
      void this.#thread.kill();
    }
    this.#checkDrained();
  }

  /**
   * Sends a command and resolves with the engine's reply. Throws `overloaded` if nothing was done, `internal` if the
   * command failed. `isBounded`: a settle is refused after `settleMs`.
   */
  send<R>(request: WireCommand, decode: Decode<R>, isBounded = false): Promise<R> {
    return new Promise<R>((resolve, reject) => {
      const sentAtMs = isBounded ? performance.now() : 0;
      this.#accept({ request, decode, resolve: resolve as Pending['resolve'], reject, deaths: 0, isBounded, sentAtMs });
    });
  }

  /** Like `send`, without a promise: calls `resolve` with the encoded reply, or `reject`. After `reject`, a bounded settle can still be done: `resolve` is then called, too. */
  relay(request: WireCommand, isBounded: boolean, { resolve, reject }: Pick<Pending, 'resolve' | 'reject'>): void {
    const sentAtMs = isBounded ? performance.now() : 0;
    this.#accept({ request, decode: value => value, resolve, reject, deaths: 0, isBounded, sentAtMs });
  }

  #accept(call: Pending): void {
    const refused = this.#findRefusal(call.request);
    if (refused === undefined) this.#take(call);
    else call.reject(refused);
  }

  /** Returns why a new command is refused; undefined: it is not. */
  #findRefusal([kind]: WireCommand): GatewayError | undefined {
    if (this.#drained !== undefined) return overloaded('The gateway is stopping.');
    if (this.#isLost) return unwritable();
    if (kind !== 'admit') return undefined;
    if (this.#failing) return unwritable();
    return this.#countUnanswered() >= admissionsMax ? overloaded('Too many requests are waiting.') : undefined;
  }

  /** Refuses new commands. Resolves when all sent commands are durable and have their replies. */
  async drain(): Promise<void> {
    await new Promise<void>(resolve => {
      this.#drained = resolve;
      this.#checkDrained();
    });
    clearTimeout(this.#retry);
    clearInterval(this.#impatience);
    await this.#spawning;
    // Lets callers that waited for the last replies run first.
    await new Promise(resolve => {
      setImmediate(resolve);
    });
  }

  /** Ends the writer's thread. `drain` must have resolved. */
  close(): Promise<void> {
    return this.#isLost ? this.#thread.kill() : this.#thread.end();
  }

  #countUnanswered(): number {
    return this.#thread.waiting + this.#parked.length;
  }

  #take(call: Pending): void {
    if (this.#thread.isRunning) this.#thread.post(call);
    else this.#parked.push(call);
  }

  #onReply(call: Pending, [outcome, value, code]: WireReply): void {
    if (outcome === 'done') return call.resolve(call.decode(value));
    if (outcome === 'failed') {
      const cause = new Error(`ledger: ${call.request[0]}: ${code ?? ''} ${String(value)}`);
      return call.reject(new GatewayError('internal', 'The gateway failed.', { cause }));
    }
    if (waitsForStorage(call.request)) this.#parked.push(call);
    // Nothing of the batch was committed, and everything before it is on the disk.
    else if (call.request[0] === 'sync') call.resolve(undefined);
    else call.reject(unwritable(new Error(String(value))));
    this.#fail(new Error(`${code ?? ''} ${String(value)}`));
  }

  #checkDrained(): void {
    if (this.#countUnanswered() === 0) this.#drained?.();
  }

  /** Called if storage has failed. Until a probe has been written nothing is admitted; waiting commands are sent again with the probe. */
  #fail(cause: Error): void {
    if (this.#isLost) return;
    if (!this.#failing) this.#tools.watch.failing(cause);
    this.#failing = true;
    if (this.#retry !== undefined) return;
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      this.#tryAgain();
    }, this.#backoffMs);
    this.#backoffMs = Math.min(this.#backoffMs * 2, backoffMs.max);
  }

  /**
   * Refuses bounded settles that have waited too long. One that still waits for storage is dropped. One that the writer is working on may be
   * done nevertheless; a repeat then gets its reply.
   */
  #giveUp(): void {
    const beforeMs = performance.now() - this.#tools.settleMs;
    const isOver = ({ isBounded, sentAtMs }: Pending): boolean => isBounded && sentAtMs < beforeMs;
    for (const call of [...this.#thread.unanswered(), ...this.#parked]) if (isOver(call)) call.reject(unwritable());
    this.#parked = this.#parked.filter(call => !isOver(call));
    this.#checkDrained();
  }

  /** Sends the waiting commands and then a probe. First restarts the writer's thread if it has died. */
  #tryAgain(): void {
    if (this.#thread.isRunning) return this.#unpark();
    const data = {
      ...this.#data,
      fault: undefined,
      checksFile: false,
      first: false,
      nowMs: this.#tools.now(),
    } satisfies WriterData;
    // If it fails, `#onEnd` tries again.
    this.#spawning = this.#thread.start(data).catch(() => undefined);
    this.#unpark();
  }

  #unpark(): void {
    for (const call of this.#parked.splice(0)) this.#thread.post(call);
    const resolve = (): void => {
      this.#failing = false;
      this.#backoffMs = backoffMs.min;
      this.#tools.watch.failing(undefined);
    };
    this.#thread.post({ ...withoutReply, request: ['probe', this.#tools.now()], resolve });
  }

  /** Called when the writer's thread has died. Its commands may be done or not. Refuses those that it was working on each of the last times it died. */
  #onEnd(lost: readonly Pending[], cause: Error): void {
    if (this.#isLost || isStorageLost(cause)) {
      this.#parked.push(...lost);
      return this.lose(cause);
    }
    for (const call of lost) {
      const { request } = call;
      if (request[0] === 'probe') continue;
      if (waitsForStorage(request) || ++call.deaths < deathsMax) this.#parked.push(call);
      else {
        call.reject(unwritable(cause));
        // The admission may have been stored: its hold is voided once storage works again.
        if (request[0] === 'admit')
          this.#parked.push({ ...withoutReply, request: ['void', this.#tools.now(), request[2], 'gateway_failure'] });
      }
    }
    if (this.#drained === undefined || this.#countUnanswered() > 0) this.#fail(cause);
    else this.#drained();
  }
}

/** Returns whether a command waits until storage works again, because it ends a request that has begun. */
function waitsForStorage(command: WireCommand): boolean {
  return command[0] === 'settle' || command[0] === 'void';
}
