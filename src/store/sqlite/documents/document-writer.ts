import { siblingModule } from '../../../lib/sibling-module.ts';
import { GatewayError } from '../../../errors/gateway-error.ts';
import { overloaded } from '../../../errors/overloaded.ts';
import { LedgerStartError, startErrorCode } from '../../../lib/sqlite/start-error.ts';
import { isStorageLost } from '../../../lib/sqlite/storage-lost.ts';
import type { Call } from '../../../lib/threads/call-queue.ts';
import { CallThread } from '../../../lib/threads/call-thread.ts';
import { type DocumentCommand, type DocumentReply, handedOver, type TimedCommand } from './document-engine.ts';
import type { DocumentWriterData } from './document-worker.ts';

/** The most commands that may wait; further ones are refused. */
const waitingMax = 20_000;
/** The interval at which a store that can't be written is tried again. */
const probeMs = 1000;

/** Observes the store: its methods are called on events that no reply to a command reports. */
export interface DocumentWatch {
  /** Called with the cause when documents can't be written, and with undefined when they can be written again. */
  failing(cause: Error | undefined): void;
  /** Called if writes may be lost: nothing is written any more, and the process must end at once. */
  lost(cause: Error): void;
}

/**
 * Sends commands from the calling thread to the writer's thread. A command gets its reply after its commit. If the thread
 * dies, the commands that it was working on are refused (they may have been done), and the next command starts a new
 * thread.
 */
export class DocumentWriter {
  readonly #data: Omit<DocumentWriterData, 'nowMs' | 'checksFile'>;
  readonly #now: () => number;
  readonly #watch: DocumentWatch;
  readonly #thread = new CallThread<Call<TimedCommand>, DocumentReply>(
    siblingModule(import.meta.url, 'document-worker'),
    {
      onReply: (call, reply) => {
        this.#notice(reply);
        answer(call, reply);
      },
      movedMemory: ({ request }) => handedOver(request.command).map(({ buffer }) => buffer),
      onEnd: (lost, cause) => {
        if (isStorageLost(cause)) this.lose(cause);
        for (const { reject } of lost) reject(overloaded('Content can’t be stored now.', cause));
      },
    },
  );
  #isClosed = false;
  #probe: NodeJS.Timeout | undefined;

  private constructor(data: Omit<DocumentWriterData, 'nowMs' | 'checksFile'>, now: () => number, watch: DocumentWatch) {
    this.#data = data;
    this.#now = now;
    this.#watch = watch;
  }

  /** Starts the writer's thread. Throws `LedgerStartError` if the file can't be used. */
  static async start(
    { checksFile, ...data }: Omit<DocumentWriterData, 'nowMs'>,
    now: () => number,
    watch: DocumentWatch,
  ): Promise<DocumentWriter> {
    const writer = new DocumentWriter(data, now, watch);
    try {
      await writer.#start(checksFile);
      return writer;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new LedgerStartError(startErrorCode(error), `The content file ${data.path} can’t be opened: ${reason}`);
    }
  }

  /** Sends a command and resolves with the engine's reply. Throws `overloaded` if storage fails or is full, `internal` if the command failed. */
  send<Reply>(command: DocumentCommand): Promise<Reply> {
    if (this.#isClosed) return Promise.reject(overloaded('The gateway is stopping.'));
    if (this.#thread.waiting >= waitingMax) return Promise.reject(overloaded('Content can’t be stored now.'));
    // If the start fails, the waiting commands are refused with its error.
    if (!this.#thread.isRunning) this.#start().catch(() => undefined);
    return new Promise((resolve, reject) => {
      // The cast is safe: each command has its own kind of reply.
      const answered = (value: unknown): void => resolve(value as Reply);
      this.#thread.post({ request: { nowMs: this.#now(), command }, resolve: answered, reject });
    });
  }

  /** Refuses all further commands, because writes were lost or the file is damaged. */
  lose(cause: Error): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#watch.lost(cause);
  }

  /** Refuses new commands. Resolves when all sent commands have their replies and the thread has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#probe);
    await this.#thread.end();
  }

  #start(checksFile = false): Promise<unknown> {
    return this.#thread.start({ ...this.#data, checksFile, nowMs: this.#now() } satisfies DocumentWriterData);
  }

  /** Reports that the store can't be written, and tries again until it can. */
  #notice(reply: DocumentReply): void {
    if (reply.outcome === 'storage') {
      if (this.#probe !== undefined) return;
      this.#watch.failing(new Error(reply.message));
      this.#probe = setInterval(() => {
        this.send({ kind: 'probe' }).catch(() => undefined);
      }, probeMs).unref();
    } else if (this.#probe !== undefined) {
      clearInterval(this.#probe);
      this.#probe = undefined;
      this.#watch.failing(undefined);
    }
  }
}

function answer({ resolve, reject }: Call<TimedCommand>, reply: DocumentReply): void {
  if (reply.outcome === 'done') return resolve(reply.value);
  const cause = new Error(`documents: ${reply.message}`);
  if (reply.outcome === 'full') reject(overloaded('There is no room to store content.', cause));
  else if (reply.outcome === 'storage') reject(overloaded('Content can’t be stored now.', cause));
  else reject(new GatewayError('internal', 'The gateway failed.', { cause }));
}
