import { Worker } from 'node:worker_threads';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { ReaderData, ReadReply, ReadRequest, Reads } from './reads.ts';

/** Reads that wait; above it, further ones are refused. */
const waitingMax = 2000;
const retryAfterMs = 1000;

interface Call extends ReadRequest {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** The thread died with it once. */
  readonly isRepeat: boolean;
}

const overloaded = (message: string, cause?: unknown): GatewayError =>
  new GatewayError('overloaded', message, { retryAfterMs, ...(cause === undefined ? {} : { cause }) });

/**
 * Reads the ledger's file on a thread of its own, which starts with the first read. If the thread dies, the next one repeats its reads, once.
 */
export class Reader {
  readonly #data: ReaderData;
  readonly #sweep: (nowMs: number) => Promise<unknown>;
  /** Unanswered, in the order in which the thread answers. */
  #calls: Call[] = [];
  #worker: Worker | undefined;
  #isClosed = false;

  /** `sweep` ends the holds and the plans' periods whose time is over. */
  constructor(data: ReaderData, sweep: (nowMs: number) => Promise<unknown>) {
    this.#data = data;
    this.#sweep = sweep;
  }

  /** Reads what is committed. Throws `overloaded` if the file can't be read now or too many reads wait. */
  read<N extends keyof Reads>(name: N, ...args: Parameters<Reads[N]>): Promise<ReturnType<Reads[N]>> {
    return this.#call({ name, args, sweptBy: undefined }) as Promise<ReturnType<Reads[N]>>;
  }

  /** As `read`, after everything whose time is over by `nowMs` has been swept. */
  readSwept<N extends keyof Reads>(
    nowMs: number,
    name: N,
    ...args: Parameters<Reads[N]>
  ): Promise<ReturnType<Reads[N]>> {
    return this.#call({ name, args, sweptBy: nowMs }) as Promise<ReturnType<Reads[N]>>;
  }

  /** Takes no more reads; resolves when all are answered and the thread has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const worker = this.#worker;
    if (worker === undefined) return;
    await new Promise(resolve => {
      worker.once('exit', resolve);
      worker.postMessage('close');
    });
  }

  #call(request: ReadRequest): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#post({ ...request, resolve, reject, isRepeat: false });
    });
  }

  #post(call: Call): void {
    if (this.#isClosed) return call.reject(overloaded('The gateway is stopping.'));
    if (this.#calls.length >= waitingMax) return call.reject(overloaded('Too many reads are waiting.'));
    this.#calls.push(call);
    this.#worker ??= this.#start();
    const { name, args, sweptBy } = call;
    this.#worker.postMessage({ name, args, sweptBy } satisfies ReadRequest);
  }

  #start(): Worker {
    const worker = new Worker(new URL('./reader-worker.ts', import.meta.url), { workerData: this.#data });
    let cause: unknown;
    worker.on('error', error => {
      cause = error;
    });
    worker.on('message', (reply: ReadReply) => this.#onReply(reply));
    worker.once('exit', () => this.#onExit(cause));
    return worker;
  }

  #onReply(reply: ReadReply): void {
    const call = this.#calls.shift();
    if (call === undefined) return;
    if (reply.outcome === 'done') return call.resolve(reply.value);
    if (reply.outcome === 'unswept') return this.#sweepFirst(call);
    const cause = new Error(`ledger: ${reply.message}`);
    if (reply.outcome === 'storage') call.reject(overloaded('The ledger can’t be read.', cause));
    else call.reject(new GatewayError('internal', 'The gateway failed.', { cause }));
  }

  #sweepFirst(call: Call): void {
    if (call.sweptBy === undefined) return;
    this.#sweep(call.sweptBy).then(() => this.#post({ ...call, sweptBy: undefined }), call.reject);
  }

  #onExit(cause: unknown): void {
    this.#worker = undefined;
    const lost = this.#calls;
    this.#calls = [];
    for (const call of lost) {
      if (call.isRepeat) call.reject(overloaded('The ledger can’t be read.', cause));
      else this.#post({ ...call, isRepeat: true });
    }
  }
}
