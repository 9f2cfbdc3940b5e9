import { siblingModule } from '../../lib/sibling-module.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { overloaded } from '../../errors/overloaded.ts';
import { LedgerStartError, startErrorCode } from '../../lib/sqlite/start-error.ts';
import { type Call, CallThread } from '../../lib/threads/call-thread.ts';
import type { WireCommand, WireReply } from './wire.ts';
import { isStorageLost } from '../../lib/sqlite/storage-lost.ts';
import type { SuspendedAccount } from './engine.ts';
import type { LedgerWatch } from './ledger-watch.ts';
import type { WriterData, WriterReady } from './worker.ts';

/** The most waiting commands; beyond it admits are refused. Settles and voids never are: a request that has begun must end. */
export const waitingMax = 20_000;
/** A command is considered the cause after this many deaths of the writer while it ran. */
const deathsMax = 3;
const backoffMs = { min: 50, max: 2000 };
/** Interval at which calls are checked for having waited too long. */
const impatienceMs = 500;

/** Converts a posted reply to the caller's. */
type Decode<R> = (value: unknown) => R;

interface Pending extends Call<WireCommand> {
  readonly decode: Decode<unknown>;
  deaths: number;
  /** A settle that is refused when it has waited too long. */
  readonly isBounded: boolean;
  /** The time of sending, by the monotonic clock. */
  readonly sentAtMs: number;
}

/** A command of the writer itself; its reply is ignored. */
const unheard: Omit<Pending, 'request'> = {
  decode: value => value,
  resolve: () => undefined,
  reject: () => undefined,
  deaths: 0,
  isBounded: false,
  sentAtMs: 0,
};

/** A batch that was committed. */
export interface CommitFacts {
  /** From the hand-over of the batch to its answer. */
  readonly commitMs: number;
  /** Unanswered commands, the batch's own included. */
  readonly waiting: number;
}

/** The tools that a writer needs besides its file. */
export interface WriterTools {
  readonly now: () => number;
  /** Called for every batch; for metrics. */
  readonly observe: ((commit: CommitFacts) => void) | undefined;
  /** How long a settle that may be refused waits for storage. */
  readonly settleMs: number;
  readonly watch: LedgerWatch;
}

/** The data that every writer of a ledger starts with. */
type Unchanging = Omit<WriterData, 'first' | 'nowMs' | 'checksFile' | 'fault'>;

const unwritable = (cause?: unknown): GatewayError => overloaded('The ledger can’t be written.', cause);

/**
 * The calling thread's end of the writer. A command is answered once: after its commit, or after the sync that follows it. If storage fails
 * or the writer dies, commands that must not be lost (settles, voids) wait and are retried, commands under way in a dead writer are sent
 * again (each is recognised if it was done), and nothing new is admitted until a probe has been written.
 */
export class Writer {
  readonly #data: Unchanging;
  readonly #tools: WriterTools;
  readonly #impatience: NodeJS.Timeout;
  readonly #thread = new CallThread<Pending, WireReply>(siblingModule(import.meta.url, 'worker'), {
    onReply: (call, reply) => this.#onReply(call, reply),
    onBatch: ({ kind, tookMs, waiting }) => {
      if (kind === 'now') this.#tools.observe?.({ commitMs: tookMs, waiting: waiting + this.#parked.length });
      this.#checkDrained();
    },
    onNotice: notice => {
      for (const account of notice as SuspendedAccount[]) this.#tools.watch.suspended(account);
    },
    onEnd: (lost, cause) => this.#onEnd(lost, cause),
  });
  /** Waits until storage works. */
  #parked: Pending[] = [];
  #failing = false;
  #backoffMs = backoffMs.min;
  #retry: NodeJS.Timeout | undefined;
  #spawning: Promise<unknown> | undefined;
  /** True if the disk has lost writes: nothing more may be written. */
  #isLost = false;
  /** Set by `drain`; called once nothing is unanswered. */
  #drained: (() => void) | undefined;

  private constructor(data: Unchanging, tools: WriterTools) {
    this.#data = data;
    this.#tools = tools;
    this.#impatience = setInterval(() => this.#giveUp(), impatienceMs).unref();
  }

  /** Starts the writer; throws `LedgerStartError` if the file can't be used. */
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

  /** Returns whether something may be committed that is not on the disk yet. */
  get isUnsynced(): boolean {
    return this.#thread.underway > 0;
  }

  /** Stops all writing, because the disk has lost writes. */
  lose(cause: Error): void {
    if (this.#isLost) return;
    this.#isLost = true;
    clearTimeout(this.#retry);
    for (const { reject } of this.#parked.splice(0)) reject(unwritable(cause));
    this.#tools.watch.lost(cause);
    this.#checkDrained();
  }

  /**
   * Sends a command; resolves with the engine's reply. Throws `overloaded` if nothing was done, `internal` if it
   * broke. `isBounded`: a settle that is given up after `settleMs`.
   */
  send<R>(request: WireCommand, decode: Decode<R>, isBounded = false): Promise<R> {
    if (this.#drained !== undefined) return Promise.reject(overloaded('The gateway is stopping.'));
    if (this.#isLost) return Promise.reject(unwritable());
    if (request[0] === 'admit') {
      if (this.#failing) return Promise.reject(unwritable());
      if (this.#countUnanswered() >= waitingMax) return Promise.reject(overloaded('Too many requests are waiting.'));
    }
    return new Promise<R>((resolve, reject) => {
      const sentAtMs = isBounded ? performance.now() : 0;
      this.#take({ request, decode, resolve: resolve as Pending['resolve'], reject, deaths: 0, isBounded, sentAtMs });
    });
  }

  /** Takes no more commands; resolves when all that was sent is durable and answered. */
  async drain(): Promise<void> {
    await new Promise<void>(resolve => {
      this.#drained = resolve;
      this.#checkDrained();
    });
    clearTimeout(this.#retry);
    clearInterval(this.#impatience);
    await this.#spawning;
    // Callers that waited for the last replies run before this.
    await new Promise(resolve => {
      setImmediate(resolve);
    });
  }

  /** Ends the writer, which was drained. */
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
    // Nothing of its batch was committed, and everything before it is on the disk.
    else if (call.request[0] === 'sync') call.resolve(undefined);
    else call.reject(unwritable(new Error(String(value))));
    this.#fail(new Error(`${code ?? ''} ${String(value)}`));
  }

  #checkDrained(): void {
    if (this.#countUnanswered() === 0) this.#drained?.();
  }

  /** Storage has failed: until a probe is written nothing is admitted, and waiting commands are retried with it. */
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
   * Refuses settles that have waited too long. One that still waits for storage is dropped; one that the writer is working on may be done
   * nevertheless, and then a repeat of it says so.
   */
  #giveUp(): void {
    const beforeMs = performance.now() - this.#tools.settleMs;
    const isOver = ({ isBounded, sentAtMs }: Pending): boolean => isBounded && sentAtMs < beforeMs;
    for (const call of [...this.#thread.unanswered(), ...this.#parked]) if (isOver(call)) call.reject(unwritable());
    this.#parked = this.#parked.filter(call => !isOver(call));
    this.#checkDrained();
  }

  /** Sends the parked commands, a probe last; first restarts the writer if it has died. */
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
    this.#thread.post({ ...unheard, request: ['probe', this.#tools.now()], resolve });
  }

  /** Called when the writer has died; its commands may be done or not. Refuses those that were in the writer each time it died. */
  #onEnd(lost: readonly Pending[], cause: Error): void {
    if (isStorageLost(cause)) {
      this.#parked.push(...lost);
      return this.lose(cause);
    }
    for (const call of lost) {
      const { request } = call;
      if (request[0] === 'probe') continue;
      if (waitsForStorage(request) || ++call.deaths < deathsMax) this.#parked.push(call);
      else {
        call.reject(unwritable(cause));
        // It may have been stored: it is voided when that can be.
        if (request[0] === 'admit')
          this.#parked.push({ ...unheard, request: ['void', this.#tools.now(), request[2], 'gateway_failure'] });
      }
    }
    if (this.#drained === undefined || this.#countUnanswered() > 0) this.#fail(cause);
    else this.#drained();
  }
}

/** Returns whether a command waits until storage works again, because it ends something that has begun. */
function waitsForStorage(command: WireCommand): boolean {
  return command[0] === 'settle' || command[0] === 'void';
}
