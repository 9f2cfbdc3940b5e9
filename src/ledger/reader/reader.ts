import { siblingModule } from '../../lib/sibling-module.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { overloaded } from '../../errors/overloaded.ts';
import type { Call } from '../../lib/threads/call-queue.ts';
import { CallThread } from '../../lib/threads/call-thread.ts';
import type { ReaderData, ReadReply, ReadRequest, Reads } from './reads.ts';

/** The most reads that may wait; further ones are refused. */
const waitingMax = 2000;

interface ReadCall extends Call<ReadRequest> {
  /** True if the thread has died once while it ran this read. */
  readonly isRepeat: boolean;
}

/** Reads the ledger's file on a separate thread, which starts with the first read. If the thread dies, the next one repeats its reads, once. */
export class Reader {
  readonly #data: ReaderData;
  readonly #sweep: (nowMs: number) => Promise<unknown>;
  readonly #thread = new CallThread<ReadCall, ReadReply>(siblingModule(import.meta.url, 'reader-worker'), {
    onReply: (call, reply) => this.#onReply(call, reply),
    onEnd: (lost, cause) => this.#onEnd(lost, cause),
  });
  #isClosed = false;

  /** `sweep` ends expired holds, balances of expired keys and plan periods. */
  constructor(data: ReaderData, sweep: (nowMs: number) => Promise<unknown>) {
    this.#data = data;
    this.#sweep = sweep;
  }

  /** Reads committed data. Throws `overloaded` if the file can't be read now or too many reads wait. */
  read<N extends keyof Reads>(name: N, ...args: Parameters<Reads[N]>): Promise<ReturnType<Reads[N]>> {
    return this.#call({ name, args, sweptBy: undefined }) as Promise<ReturnType<Reads[N]>>;
  }

  /** Like `read`, after ending everything that is over at `nowMs`. */
  readSwept<N extends keyof Reads>(
    nowMs: number,
    name: N,
    ...args: Parameters<Reads[N]>
  ): Promise<ReturnType<Reads[N]>> {
    return this.#call({ name, args, sweptBy: nowMs }) as Promise<ReturnType<Reads[N]>>;
  }

  /** Refuses further reads; resolves when all are answered and the thread has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#thread.end();
  }

  #call(request: ReadRequest): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#post({ request, resolve, reject, isRepeat: false });
    });
  }

  #post(call: ReadCall): void {
    if (this.#isClosed) return call.reject(overloaded('The gateway is stopping.'));
    if (this.#thread.waiting >= waitingMax) return call.reject(overloaded('Too many reads are waiting.'));
    // If the start fails, `#onEnd` rejects the calls.
    if (!this.#thread.isRunning) this.#thread.start(this.#data).catch(() => undefined);
    this.#thread.post(call);
  }

  #onReply(call: ReadCall, reply: ReadReply): void {
    if (reply.outcome === 'done') return call.resolve(reply.value);
    if (reply.outcome === 'unswept') return this.#sweepFirst(call);
    const cause = new Error(`ledger: ${reply.message}`);
    if (reply.outcome === 'storage') call.reject(overloaded('The ledger can’t be read.', cause));
    else call.reject(new GatewayError('internal', 'The gateway failed.', { cause }));
  }

  #sweepFirst(call: ReadCall): void {
    const { sweptBy } = call.request;
    if (sweptBy === undefined) return;
    const again = (): void => this.#post({ ...call, request: { ...call.request, sweptBy: undefined } });
    this.#sweep(sweptBy).then(again, call.reject);
  }

  #onEnd(lost: readonly ReadCall[], cause: unknown): void {
    for (const call of lost) {
      if (call.isRepeat) call.reject(overloaded('The ledger can’t be read.', cause));
      else this.#post({ ...call, isRepeat: true });
    }
  }
}
