import { flushCompileCache } from 'node:module';
import { parentPort } from 'node:worker_threads';

/**
 * Replies that a thread posts, in the order of the calls. `now`: to the oldest calls without any reply; `undefined` announces a later reply. `later`: to the oldest of the calls that were announced. `notice`: a message for the owner of the thread.
 */
export type Replies<Reply> = ['now', (Reply | undefined)[]] | ['later', Reply[]] | ['notice', unknown];

/** The work that a thread does for its `CallThread`. */
export interface CallService<Request, Reply> {
  /** Replies to each request, with one call of `post` or several. Throws only to end the thread. */
  run(batch: Request[], post: (...replies: Replies<Reply>) => void): void;
  /** Returns the memory of a reply that moves to the caller instead of being copied; absent: all is copied. */
  movedMemory?(reply: Reply): readonly ArrayBuffer[];
  /** Releases the service's resources, after its last reply. */
  end(): void;
}

/** Serves calls on this thread until its owner ends it. The caller's `start` resolves with `ready`. */
export function serveCalls<Request, Reply>(service: CallService<Request, Reply>, ready?: unknown): void {
  const port = parentPort;
  if (port === null) throw new Error('this is no thread of its own');
  const post = (...replies: Replies<Reply>): void => {
    const [kind, list] = replies;
    const moved =
      kind === 'notice' || service.movedMemory === undefined
        ? []
        : list.flatMap(reply => (reply === undefined ? [] : (service.movedMemory?.(reply) ?? [])));
    port.postMessage(replies, moved);
  };
  port.on('message', (message: Request[] | 'end') => {
    if (message !== 'end') return service.run(message, post);
    service.end();
    port.close();
  });
  port.postMessage(ready);
  // Node.js itself writes the compile cache only when a thread ends, and never if the process is killed.
  flushCompileCache();
}
