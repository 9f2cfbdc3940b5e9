import { randomBytes } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import { GatewayError } from '../../errors/gateway-error.ts';
import { LedgerStartError } from '../../lib/sqlite/start-error.ts';
import type { WireCommand, WireReply } from './wire.ts';
import type { WriterData, WriterReady } from './worker.ts';

/** Commands that wait; above it, admits are refused. Settles and voids never are: what was begun must end. */
export const waitingMax = 20_000;
/** How often a command may be in the writer while it dies before it is taken for the cause. */
const deathsMax = 3;
const backoffMs = { min: 50, max: 2000 };
const retryAfterMs = 1000;

/** A command without its number. */
export type Encode = (seq: number) => WireCommand;

interface Pending {
  readonly command: WireCommand;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: GatewayError) => void;
  deaths: number;
  /** Waits here, to be sent with the next probe; false: in the writer. */
  parked: boolean;
}

/** A batch that became durable. */
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
 * The calling thread's end of the writer. A command is answered once, after its commit. When storage fails or the writer dies, what must
 * not be lost (settles, voids) waits and is tried again, what was under way in a writer that died is sent again (its numbers make that
 * harmless), and nothing new is admitted until a probe has been written.
 */
export class Writer {
  readonly #data: Unchanging;
  readonly #now: () => number;
  readonly #observe: WriterTools['observe'];
  #postedAtMs = 0;
  #worker: Worker | undefined;
  #seq = randomBytes(6).readUIntBE(0, 6);
  /** All that is unanswered, in the order in which it came. */
  readonly #pending = new Map<number, Pending>();
  /** To be posted at the end of this turn of the event loop, or when the writer has answered the message before. */
  #outbox: WireCommand[] = [];
  /** A message is in the writer. */
  #isBusy = false;
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

  /** Sends a command; resolves with the engine's answer. Throws `overloaded` where nothing was done, `internal` where it broke. */
  send(encode: Encode): Promise<unknown> {
    const seq = ++this.#seq;
    const command = encode(seq);
    if (this.#drained !== undefined) return Promise.reject(overloaded('The gateway is stopping.'));
    if (command[0] === 'admit') {
      if (this.#failing) return Promise.reject(overloaded('The ledger can’t be written.'));
      if (this.#pending.size >= waitingMax) return Promise.reject(overloaded('Too many requests are waiting.'));
    }
    return new Promise((resolve, reject) => {
      const parked = this.#worker === undefined;
      this.#pending.set(seq, { command, resolve, reject, deaths: 0, parked });
      if (!parked) this.#post(command);
    });
  }

  /** Takes no more commands; resolves when all that was sent is durable and answered. */
  async drain(): Promise<void> {
    await new Promise<void>(resolve => {
      this.#drained = resolve;
      if (this.#pending.size === 0) resolve();
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

  /** One message at a time carries all commands that have come since the last: a message costs as much as ten commands in it, and a sync of the disk more. */
  #post(command: WireCommand): void {
    if (this.#outbox.length === 0) setImmediate(() => this.#flush());
    this.#outbox.push(command);
  }

  #flush(): void {
    const batch = this.#outbox;
    if (batch.length === 0 || this.#isBusy || this.#worker === undefined) return;
    this.#outbox = [];
    this.#isBusy = true;
    this.#postedAtMs = performance.now();
    this.#worker.postMessage(batch);
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
        this.#isBusy = false;
        worker.on('message', (replies: WireReply[]) => this.#onReplies(replies));
      });
    });
  }

  #onReplies(replies: readonly WireReply[]): void {
    this.#isBusy = false;
    this.#observe?.({ commitMs: performance.now() - this.#postedAtMs, waiting: this.#pending.size });
    // First, so that the writer works while the answers are taken in.
    this.#flush();
    let failed = false;
    for (const [seq, outcome, value, code] of replies) {
      const pending = this.#pending.get(seq);
      if (pending === undefined) continue;
      if (outcome === 'done') this.#answer(seq, () => pending.resolve(value));
      else if (outcome === 'failed') {
        const cause = new Error(`ledger: ${pending.command[0]}: ${code ?? ''} ${String(value)}`);
        this.#answer(seq, () => pending.reject(new GatewayError('internal', 'The gateway failed.', { cause })));
      } else {
        failed = true;
        if (waits(pending.command)) pending.parked = true;
        else
          this.#answer(seq, () => pending.reject(overloaded('The ledger can’t be written.', new Error(String(value)))));
      }
    }
    if (failed) this.#fail();
  }

  /** A pending command has its answer. */
  #answer(seq: number, tell: () => void): void {
    this.#pending.delete(seq);
    tell();
    if (this.#pending.size === 0) this.#drained?.();
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
    const parked = [...this.#pending].filter(([, pending]) => pending.parked);
    for (const [seq, pending] of parked) {
      const { command } = pending;
      if (command[0] === 'probe') this.#pending.delete(seq);
      else this.#post(command);
      pending.parked = false;
    }
    const seq = ++this.#seq;
    const command: WireCommand = ['probe', seq, this.#now()];
    const resolve = (): void => {
      this.#failing = false;
      this.#backoffMs = backoffMs.min;
    };
    this.#pending.set(seq, { command, resolve, reject: () => undefined, deaths: 0, parked: false });
    this.#post(command);
  }

  /** The writer is gone; what it had may be done or not. */
  #onDeath(error: unknown): void {
    this.#worker = undefined;
    this.#outbox = [];
    for (const pending of this.#pending.values()) pending.parked = true;
    this.#countDeath(error);
    this.#fail();
  }

  /** Gives up what was in the writer each time it died; an admit that may have been stored is given back when that can be. */
  #countDeath(error?: unknown): void {
    for (const [seq, pending] of this.#pending) {
      const { command } = pending;
      if (waits(command) || ++pending.deaths < deathsMax) continue;
      this.#answer(seq, () => pending.reject(overloaded('The ledger can’t be written.', error)));
      if (command[0] === 'admit') this.#giveBack(command[3]);
    }
  }

  #giveBack(id: number): void {
    const seq = ++this.#seq;
    const command: WireCommand = ['void', seq, this.#now(), id, 'gateway_failure'];
    this.#pending.set(seq, { command, resolve: () => undefined, reject: () => undefined, deaths: 0, parked: true });
  }
}

/** Whether a command waits until storage works again, because what it ends was begun, or because nobody else tries it again. */
function waits(command: WireCommand): boolean {
  return command[0] === 'settle' || command[0] === 'void' || command[0] === 'probe';
}
