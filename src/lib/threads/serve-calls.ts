import { flushCompileCache } from 'node:module';
import { parentPort } from 'node:worker_threads';

/**
 * What a thread posts to its owner. `now`: replies to the oldest calls that have none, in order; `undefined` announces that the reply comes later. `later`: replies to the oldest calls whose reply comes later: it was announced, or `CallPolicy.repliesLater` says so of all calls of their message. `notice`: another message.
 */
export type Replies<Reply> = ['now', (Reply | undefined)[]] | ['later', Reply[]] | ['notice', unknown];

/** The work that a thread does for its `CallThread`. */
export interface CallService<Request, Reply> {
  /** Replies to each request, by one or several calls of `post`. Throws only to end the thread. */
  run(batch: Request[], post: (...replies: Replies<Reply>) => void): void;
  /** Returns the memory of a reply that moves to the caller instead of being copied; absent: all is copied. */
  movedMemory?(reply: Reply): readonly ArrayBuffer[];
  /** Releases the service's resources, after its last reply. */
  end(): void;
}

/** Serves calls on this thread until its owner ends it. The caller's `start` resolves with `ready`. */
export function serveCalls<Request, Reply>(service: CallService<Request, Reply>, ready?: unknown): void {
  const port = parentPort;
  if (port === null) throw new Error('serveCalls must run in a worker thread');
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
  // Node.js writes the compile cache only when a thread ends, and not at all if the process is killed.
  flushCompileCache();
}
