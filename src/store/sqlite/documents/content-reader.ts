import { overloaded } from '../../../errors/overloaded.ts';
import { sqliteError } from '../../../lib/sqlite/database.ts';
import { siblingModule } from '../../../lib/sibling-module.ts';
import type { Call } from '../../../lib/threads/call-queue.ts';
import { CallThread } from '../../../lib/threads/call-thread.ts';

/** A stored content: a body, or with `seq` a chunk. */
export interface ContentName {
  /** The document's row. */
  readonly row: number;
  readonly seq?: number;
  /** The document's id, for the log. */
  readonly owner: string;
}

/** The bytes, undefined if there are none; or why they can't be read. */
export type ContentReply =
  | { readonly content: Uint8Array<ArrayBuffer> | undefined }
  | { readonly message: string; readonly code: string | undefined };

/** Reads large contents on a thread, which starts with the first one: reading them and checking their sum would hold up the one that answers requests. */
export class ContentReader {
  readonly #path: string;
  readonly #thread = new CallThread<Call<ContentName>, ContentReply>(siblingModule(import.meta.url, 'content-worker'), {
    onReply: ({ resolve, reject }, reply) => {
      if ('content' in reply) resolve(reply.content);
      else reject(reply.code === undefined ? new Error(reply.message) : sqliteError(reply.message, reply.code));
    },
    onEnd: (lost, cause) => {
      for (const { reject } of lost) reject(overloaded('Content can’t be read now.', cause));
    },
  });

  /** `path`: the file of documents. */
  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Returns a content in memory of its own; undefined: it does not exist any more. Rejects with SQLite's error, an `Error` if the bytes are not
   * those that were stored, and `overloaded` if the thread ends.
   */
  read(name: ContentName): Promise<Uint8Array | undefined> {
    // If the start fails, the reads are refused with its cause.
    if (!this.#thread.isRunning) this.#thread.start(this.#path).catch(() => undefined);
    return new Promise((resolve, reject) => {
      const answered = (value: unknown): void => resolve(value as Uint8Array | undefined);
      this.#thread.post({ request: name, resolve: answered, reject });
    });
  }

  /** Ends the thread after what is being read. */
  close(): Promise<void> {
    return this.#thread.end();
  }
}
