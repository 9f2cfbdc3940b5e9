import { Worker } from 'node:worker_threads';
import { GatewayError } from '../../../errors/gateway-error.ts';
import { LedgerStartError } from '../../../lib/sqlite/start-error.ts';
import type { DocumentCommand, DocumentReply, NumberedCommand } from './document-engine.ts';
import type { DocumentWriterData, DocumentWriterReady } from './document-worker.ts';

/** Commands that wait; above it, further ones are refused. */
const waitingMax = 20_000;
const backoffMs = { min: 50, max: 2000 };
const retryAfterMs = 1000;

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: GatewayError) => void;
}

const overloaded = (message: string, cause?: string): GatewayError =>
  new GatewayError('overloaded', message, {
    retryAfterMs,
    ...(cause === undefined ? {} : { cause: new Error(cause) }),
  });

/**
 * The calling thread's end of the writer of documents. A command is answered once, after its commit. When the writer dies, what was under way is refused
 * (nobody knows whether it was done), and another one is started.
 */
export class DocumentWriter {
  readonly #data: Omit<DocumentWriterData, 'nowMs'>;
  readonly #now: () => number;
  #worker: Worker | undefined;
  #seq = 0;
  readonly #pending = new Map<number, Pending>();
  /** To be posted at the end of this turn of the event loop, or when the writer has answered the message before. */
  #outbox: NumberedCommand[] = [];
  /** A message is in the writer. */
  #isBusy = false;
  #backoffMs = backoffMs.min;
  #respawn: NodeJS.Timeout | undefined;
  #closed: (() => void) | undefined;

  private constructor(data: Omit<DocumentWriterData, 'nowMs'>, now: () => number) {
    this.#data = data;
    this.#now = now;
  }

  /** Starts the writer; throws `LedgerStartError` where the file can't be used. */
  static async start(data: Omit<DocumentWriterData, 'nowMs'>, now: () => number): Promise<DocumentWriter> {
    const writer = new DocumentWriter(data, now);
    const ready = await writer.#spawn();
    if (ready.ready) return writer;
    const message = `The content file ${data.path} can’t be opened: ${ready.message}`;
    throw new LedgerStartError(ready.code ?? 'unreadable', message);
  }

  /** Sends a command; resolves with the engine's answer. Throws `overloaded` where storage fails or is full, `internal` where it broke. */
  send(command: DocumentCommand): Promise<unknown> {
    if (this.#closed !== undefined) return Promise.reject(overloaded('The gateway is stopping.'));
    if (this.#worker === undefined || this.#pending.size >= waitingMax) {
      return Promise.reject(overloaded('Content can’t be stored now.'));
    }
    const seq = ++this.#seq;
    return new Promise((resolve, reject) => {
      this.#pending.set(seq, { resolve, reject });
      if (this.#outbox.length === 0) setImmediate(() => this.#flush());
      this.#outbox.push({ seq, nowMs: this.#now(), command });
    });
  }

  /** Takes no more commands; resolves when all that was sent is answered and the writer has ended. */
  async close(): Promise<void> {
    await new Promise<void>(resolve => {
      this.#closed = resolve;
      if (this.#pending.size === 0) resolve();
    });
    clearTimeout(this.#respawn);
    const worker = this.#worker;
    if (worker === undefined) return;
    this.#worker = undefined;
    await new Promise<void>(resolve => {
      worker.once('exit', () => resolve());
      worker.postMessage('close');
    });
  }

  #flush(): void {
    const batch = this.#outbox;
    if (batch.length === 0 || this.#isBusy || this.#worker === undefined) return;
    this.#outbox = [];
    this.#isBusy = true;
    this.#worker.postMessage(batch);
  }

  #spawn(): Promise<DocumentWriterReady> {
    const workerData: DocumentWriterData = { ...this.#data, nowMs: this.#now() };
    const worker = new Worker(new URL('./document-worker.ts', import.meta.url), { workerData });
    return new Promise(resolve => {
      let died = 'The writer ended before it was ready.';
      worker.on('error', error => {
        died = error instanceof Error ? error.message : String(error);
      });
      worker.once('exit', () => {
        if (this.#worker === worker) this.#onDeath(died);
        resolve({ ready: false, code: undefined, message: died });
      });
      worker.once('message', (ready: DocumentWriterReady) => {
        resolve(ready);
        if (!ready.ready) return;
        // It was being started again when the documents were closed.
        if (this.#closed !== undefined) {
          worker.postMessage('close');
          return;
        }
        this.#worker = worker;
        this.#isBusy = false;
        this.#backoffMs = backoffMs.min;
        worker.on('message', (replies: DocumentReply[]) => this.#onReplies(replies));
      });
    });
  }

  #onReplies(replies: readonly DocumentReply[]): void {
    this.#isBusy = false;
    // First, so that the writer works while the answers are taken in.
    this.#flush();
    for (const reply of replies) {
      const pending = this.#pending.get(reply.seq);
      if (pending === undefined) continue;
      this.#pending.delete(reply.seq);
      if (reply.outcome === 'done') pending.resolve(reply.value);
      else pending.reject(refusal(reply.outcome, reply.message));
    }
    if (this.#pending.size === 0) this.#closed?.();
  }

  #onDeath(reason: string): void {
    this.#worker = undefined;
    this.#outbox = [];
    const lost = [...this.#pending.values()];
    this.#pending.clear();
    for (const { reject } of lost) reject(overloaded('Content can’t be stored now.', reason));
    this.#closed?.();
    this.#startLater();
  }

  #startLater(): void {
    if (this.#closed !== undefined) return;
    this.#respawn = setTimeout(() => {
      void this.#spawn().then(ready => {
        if (!ready.ready) this.#startLater();
      });
    }, this.#backoffMs);
    this.#backoffMs = Math.min(this.#backoffMs * 2, backoffMs.max);
  }
}

function refusal(outcome: 'failed' | 'storage' | 'full', message: string): GatewayError {
  if (outcome === 'full') return overloaded('There is no room to store content.', message);
  if (outcome === 'storage') return overloaded('Content can’t be stored now.', message);
  return new GatewayError('internal', 'The gateway failed.', { cause: new Error(`documents: ${message}`) });
}
