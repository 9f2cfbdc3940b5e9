import { siblingModule } from '../../../lib/sibling-module.ts';
import { GatewayError } from '../../../errors/gateway-error.ts';
import { overloaded } from '../../../errors/overloaded.ts';
import { LedgerStartError, startErrorCode } from '../../../lib/sqlite/start-error.ts';
import { type Call, CallThread } from '../../../lib/threads/call-thread.ts';
import type { DocumentCommand, DocumentReply, TimedCommand } from './document-engine.ts';
import type { DocumentWriterData } from './document-worker.ts';

/** Commands that wait; above it, further ones are refused. */
const waitingMax = 20_000;

/**
 * The calling thread's end of the writer of documents. A command is answered once, after its commit. If the writer dies, the commands under way are
 * refused (nobody knows whether they were done), and the next command starts another one.
 */
export class DocumentWriter {
  readonly #data: Omit<DocumentWriterData, 'nowMs'>;
  readonly #now: () => number;
  readonly #thread = new CallThread<Call<TimedCommand>, DocumentReply>(
    siblingModule(import.meta.url, 'document-worker'),
    {
      onReply: answer,
      onEnd: (lost, cause) => {
        for (const { reject } of lost) reject(overloaded('Content can’t be stored now.', cause));
      },
    },
  );
  #isClosed = false;

  private constructor(data: Omit<DocumentWriterData, 'nowMs'>, now: () => number) {
    this.#data = data;
    this.#now = now;
  }

  /** Starts the writer; throws `LedgerStartError` if the file can't be used. */
  static async start(data: Omit<DocumentWriterData, 'nowMs'>, now: () => number): Promise<DocumentWriter> {
    const writer = new DocumentWriter(data, now);
    try {
      await writer.#start();
      return writer;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new LedgerStartError(startErrorCode(error), `The content file ${data.path} can’t be opened: ${reason}`);
    }
  }

  /** Sends a command; resolves with the engine's answer. Throws `overloaded` if storage fails or is full, `internal` if the command broke. */
  send<Reply>(command: DocumentCommand): Promise<Reply> {
    if (this.#isClosed) return Promise.reject(overloaded('The gateway is stopping.'));
    if (this.#thread.waiting >= waitingMax) return Promise.reject(overloaded('Content can’t be stored now.'));
    // If the start fails, the command is refused with it.
    if (!this.#thread.isRunning) this.#start().catch(() => undefined);
    return new Promise((resolve, reject) => {
      // The cast holds: each command has its own kind of reply.
      const answered = (value: unknown): void => resolve(value as Reply);
      this.#thread.post({ request: { nowMs: this.#now(), command }, resolve: answered, reject });
    });
  }

  /** Takes no more commands; resolves when all that was sent is answered and the writer has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#thread.end();
  }

  #start(): Promise<unknown> {
    return this.#thread.start({ ...this.#data, nowMs: this.#now() } satisfies DocumentWriterData);
  }
}

function answer({ resolve, reject }: Call<TimedCommand>, reply: DocumentReply): void {
  if (reply.outcome === 'done') return resolve(reply.value);
  const cause = new Error(`documents: ${reply.message}`);
  if (reply.outcome === 'full') reject(overloaded('There is no room to store content.', cause));
  else if (reply.outcome === 'storage') reject(overloaded('Content can’t be stored now.', cause));
  else reject(new GatewayError('internal', 'The gateway failed.', { cause }));
}
