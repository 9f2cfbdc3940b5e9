import { Worker } from 'node:worker_threads';
import { GatewayError } from '../../errors/gateway-error.ts';
import { LedgerStartError } from '../../lib/sqlite/start-error.ts';
import { waitsForSync, type WireCommand, type WireReply, type WriterMessage } from './wire.ts';
import type { WriterData, WriterReady } from './worker.ts';

/** Commands that wait; above it, admits are refused. Settles and voids never are: what was begun must end. */
export const waitingMax = 20_000;
/** How often a command may be in the writer while it dies before it is taken for the cause. */
const deathsMax = 3;
/** The most commands of a transaction. */
const batchMax = 4096;
const backoffMs = { min: 50, max: 2000 };
const retryAfterMs = 1000;

/** Makes the caller's answer of a posted one. */
type Decode<R> = (value: unknown) => R;

interface Pending {
  readonly command: WireCommand;
  readonly decode: Decode<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: GatewayError) => void;
  deaths: number;
}

/** What nobody waits for. */
const unheard: Omit<Pending, 'command'> = {
  decode: value => value,
  resolve: () => undefined,
  reject: () => undefined,
  deaths: 0,
};

/** A batch that was committed. */
export interface CommitFacts {
  /** From the hand-over of the batch to its answer. */
  readonly commitMs: number;
  /** Commands that were unanswered, the batch's own included. */
  readonly waiting: number;
}

/** What a writer works with beside its file. */
export interface WriterTools {
  readonly now: () => number;
  /** Told of every batch; for metrics. */
  readonly observe: ((commit: CommitFacts) => void) | undefined;
}

/** What every writer of a ledger is started with. */
type Unchanging = Omit<WriterData, 'first' | 'nowMs' | 'fault'>;

const overloaded = (message: string, cause?: unknown): GatewayError =>
  new GatewayError('overloaded', message, { retryAfterMs, ...(cause === undefined ? {} : { cause }) });

/**
 * The calling thread's end of the writer. A command is answered once: after its commit, or after the sync that follows it. When storage fails or the
 * writer dies, what must not be lost (settles, voids) waits and is tried again, what was under way in a writer that died is sent again (every command
 * recognises that it was done), and nothing new is admitted until a probe has been written.
 */
export class Writer {
  readonly #data: Unchanging;
  readonly #now: () => number;
  readonly #observe: WriterTools['observe'];
  #postedAtMs = 0;
  #worker: Worker | undefined;
  // All that is unanswered. Arrays, because V8 keeps promoting what passes through a Map.
  /** To be posted at the end of this turn of the event loop, or when the batch before is committed. */
  #outbox: Pending[] = [];
  /** The batch in the writer. */
  #committing: Pending[] = [];
  /** Committed, not synced yet. */
  #syncing: Pending[] = [];
  /** Waits until storage works. */
  #parked: Pending[] = [];
  #failing = false;
  #backoffMs = backoffMs.min;
  #retry: NodeJS.Timeout | undefined;
  #spawning: Promise<unknown> | undefined;
  /** Set by `close`; called once nothing is unanswered. */
  #drained: (() => void) | undefined;

  private constructor(data: Unchanging, { now, observe }: WriterTools) {
    this.#data = data;
    this.#now = now;
    this.#observe = observe;
  }

  /** Starts the writer; throws `LedgerStartError` where the file can't be used. */
  static async start(
    data: Omit<WriterData, 'first' | 'nowMs'>,
    tools: WriterTools,
  ): Promise<{ writer: Writer; voidedHolds: number; violations: string[] }> {
    const { fault, ...rest } = data;
    const writer = new Writer(rest, tools);
    const ready = await writer.#spawn({ ...rest, fault, first: true, nowMs: tools.now() });
    if (!ready.ready) {
      const message = `The ledger ${rest.path} can’t be opened: ${ready.message}.`;
      throw ready.code === undefined
        ? new LedgerStartError('unreadable', message)
        : new LedgerStartError(ready.code, ready.message);
    }
    return { writer, voidedHolds: ready.voidedHolds, violations: ready.violations };
  }

  /** Whether something may be committed that is not on the disk yet. */
  get isUnsynced(): boolean {
    return this.#committing.length + this.#syncing.length > 0;
  }

  /** Sends a command; resolves with the engine's answer. Throws `overloaded` where nothing was done, `internal` where it broke. */
  send<R>(command: WireCommand, decode: Decode<R>): Promise<R> {
    if (this.#drained !== undefined) return Promise.reject(overloaded('The gateway is stopping.'));
    if (command[0] === 'admit') {
      if (this.#failing) return Promise.reject(overloaded('The ledger can’t be written.'));
      if (this.#countUnanswered() >= waitingMax) return Promise.reject(overloaded('Too many requests are waiting.'));
    }
    return new Promise<R>((resolve, reject) => {
      this.#take({ command, decode, resolve: resolve as Pending['resolve'], reject, deaths: 0 });
    });
  }

  /** Takes no more commands; resolves when all that was sent is durable and answered. */
  async drain(): Promise<void> {
    await new Promise<void>(resolve => {
      this.#drained = resolve;
      if (this.#countUnanswered() === 0) resolve();
    });
    clearTimeout(this.#retry);
    await this.#spawning;
    // Whoever waited for the last answers goes on before this does.
    await new Promise(resolve => {
      setImmediate(resolve);
    });
  }

  /** Ends the writer, which was drained. */
  async close(): Promise<void> {
    const worker = this.#worker;
    if (worker === undefined) return;
    this.#worker = undefined;
    await new Promise<void>(resolve => {
      worker.once('exit', () => resolve());
      worker.postMessage('close');
    });
  }

  #countUnanswered(): number {
    return this.#outbox.length + this.#committing.length + this.#syncing.length + this.#parked.length;
  }

  #take(pending: Pending): void {
    if (this.#worker === undefined) this.#parked.push(pending);
    else if (this.#outbox.push(pending) === 1) setImmediate(() => this.#flush());
  }

  /** One message at a time carries all commands that have come since the last: a message costs as much as ten commands in it. */
  #flush(): void {
    if (this.#outbox.length === 0 || this.#committing.length > 0 || this.#worker === undefined) return;
    this.#committing = this.#outbox.length > batchMax ? this.#outbox.splice(0, batchMax) : this.#outbox;
    if (this.#committing === this.#outbox) this.#outbox = [];
    this.#postedAtMs = performance.now();
    this.#worker.postMessage(this.#committing.map(({ command }) => command));
  }

  #spawn(data: WriterData): Promise<WriterReady> {
    const worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData: data });
    return new Promise(resolve => {
      let died: unknown;
      worker.on('error', error => {
        died = error;
      });
      worker.once('exit', () => {
        if (this.#worker === worker) this.#onDeath(died);
        const message = died instanceof Error ? died.message : 'The writer ended before it was ready.';
        resolve({ ready: false, code: undefined, message });
      });
      worker.once('message', (ready: WriterReady) => {
        resolve(ready);
        if (!ready.ready) return;
        this.#worker = worker;
        worker.on('message', (message: WriterMessage) => this.#onMessage(message));
      });
    });
  }

  #onMessage([kind, replies]: WriterMessage): void {
    if (kind === 'synced') return this.#onReplies(this.#syncing.splice(0, replies.length), replies);
    const batch = this.#committing;
    this.#committing = [];
    this.#observe?.({
      commitMs: performance.now() - this.#postedAtMs,
      waiting: this.#countUnanswered() + batch.length,
    });
    // First, so that the writer works while the answers are taken in.
    this.#flush();
    const answered: Pending[] = [];
    for (const pending of batch) (waitsForSync(pending.command) ? this.#syncing : answered).push(pending);
    this.#onReplies(answered, replies);
  }

  #onReplies(answered: readonly Pending[], replies: readonly WireReply[]): void {
    let failed = false;
    for (const [index, pending] of answered.entries()) {
      const [outcome, value, code] = replies[index] ?? ['storage', 'no reply', undefined];
      if (outcome === 'done') pending.resolve(pending.decode(value));
      else if (outcome === 'failed') {
        const cause = new Error(`ledger: ${pending.command[0]}: ${code ?? ''} ${String(value)}`);
        pending.reject(new GatewayError('internal', 'The gateway failed.', { cause }));
      } else {
        failed = true;
        if (waitsForStorage(pending.command)) this.#parked.push(pending);
        else pending.reject(overloaded('The ledger can’t be written.', new Error(String(value))));
      }
    }
    if (failed) this.#fail();
    this.#checkDrained();
  }

  #checkDrained(): void {
    if (this.#countUnanswered() === 0) this.#drained?.();
  }

  /** Storage has failed: until a probe is written nothing is admitted, and what waits is tried again with it. */
  #fail(): void {
    this.#failing = true;
    if (this.#retry !== undefined) return;
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      this.#tryAgain();
    }, this.#backoffMs);
    this.#backoffMs = Math.min(this.#backoffMs * 2, backoffMs.max);
  }

  /** Sends what is parked, a probe last; a writer that has died is started again first. */
  #tryAgain(): void {
    if (this.#worker !== undefined) return this.#unpark();
    const data = { ...this.#data, fault: undefined, first: false, nowMs: this.#now() };
    this.#spawning = this.#spawn(data).then(ready => {
      this.#spawning = undefined;
      if (ready.ready) return this.#unpark();
      this.#countDeath(new Error(ready.message));
      return this.#fail();
    });
  }

  #unpark(): void {
    const parked = this.#parked;
    this.#parked = [];
    for (const pending of parked) if (pending.command[0] !== 'probe') this.#take(pending);
    const resolve = (): void => {
      this.#failing = false;
      this.#backoffMs = backoffMs.min;
    };
    this.#take({ ...unheard, command: ['probe', this.#now()], resolve });
  }

  /** The writer is gone; what it had may be done or not. */
  #onDeath(error: unknown): void {
    this.#worker = undefined;
    this.#parked.push(...this.#syncing, ...this.#committing, ...this.#outbox);
    [this.#syncing, this.#committing, this.#outbox] = [[], [], []];
    this.#countDeath(error);
    this.#fail();
  }

  /** Gives up what was in the writer each time it died; an admit that may have been stored is given back when that can be. */
  #countDeath(error?: unknown): void {
    const parked = this.#parked;
    this.#parked = [];
    for (const pending of parked) {
      const { command } = pending;
      if (waitsForStorage(command) || ++pending.deaths < deathsMax) this.#parked.push(pending);
      else {
        pending.reject(overloaded('The ledger can’t be written.', error));
        if (command[0] === 'admit')
          this.#parked.push({ ...unheard, command: ['void', this.#now(), command[2], 'gateway_failure'] });
      }
    }
    this.#checkDrained();
  }
}

/** Whether a command waits until storage works again, because what it ends was begun, or because nobody else tries it again. */
function waitsForStorage(command: WireCommand): boolean {
  return command[0] === 'settle' || command[0] === 'void' || command[0] === 'probe';
}
