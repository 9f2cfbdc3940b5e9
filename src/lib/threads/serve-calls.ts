import { flushCompileCache } from 'node:module';
import { MessagePort, parentPort, receiveMessageOnPort } from 'node:worker_threads';

/**
 * What a thread posts to its callers. `now`: replies to the oldest calls that have none, in order; `undefined` announces that the reply comes later. `later`: replies to the oldest calls whose reply comes later: it was announced, or `QueuePolicy.repliesLater` says so of all calls of their message. `notice`: another message, which only the owner gets.
 */
export type Replies<Reply> = ['now', (Reply | undefined)[]] | ['later', Reply[]] | ['notice', unknown];

/** Posts replies to the caller that sent the requests, or a notice to the owner. */
export type PostReplies<Reply> = (...replies: Replies<Reply>) => void;

/** The work that a thread does for the owner of its `CallThread`, and for others that the owner shares it with. */
export interface CallService<Request, Reply> {
  /** Replies to each request, by one or several calls of `post`, of which each caller has its own. Throws only to end the thread. */
  run(batch: Request[], post: PostReplies<Reply>, isOwner: boolean): void;
  /** Called before the first batch of a caller that is not the owner. */
  addCaller?(): void;
  /** Returns the memory of a reply that moves to the caller instead of being copied; absent: all is copied. */
  readonly movedMemory?: (reply: Reply) => readonly ArrayBuffer[];
  /** Releases the service's resources, after its last reply. */
  end(): void;
}

/** Serves calls on this thread until its owner ends it. The caller's `start` resolves with `ready`. */
export function serveCalls<Request, Reply>(service: CallService<Request, Reply>, ready?: unknown): void {
  const owner = parentPort;
  if (owner === null) throw new Error('serveCalls must run in a worker thread');
  const others: MessagePort[] = [];
  const postTo = (port: Pick<MessagePort, 'postMessage'>): PostReplies<Reply> => {
    return (...replies) => {
      const [kind, list] = replies;
      if (kind === 'notice') return owner.postMessage(replies);
      const { movedMemory } = service;
      const moved =
        movedMemory === undefined ? [] : list.flatMap(reply => (reply === undefined ? [] : movedMemory(reply)));
      port.postMessage(replies, moved);
    };
  };
  const addCaller = (port: MessagePort): void => {
    const post = postTo(port);
    others.push(port);
    port.on('close', () => others.splice(others.indexOf(port), 1));
    service.addCaller?.();
    // What has arrived already is taken before later messages of the owner.
    for (let sent = receiveMessageOnPort(port); sent !== undefined; sent = receiveMessageOnPort(port))
      service.run(sent.message as Request[], post, false);
    port.on('message', (requests: Request[]) => service.run(requests, post, false));
  };
  const post = postTo(owner);
  owner.on('message', (message: Request[] | MessagePort | 'end') => {
    if (message instanceof MessagePort) return addCaller(message);
    if (message !== 'end') return service.run(message, post, true);
    service.end();
    for (const port of [owner, ...others]) port.close();
  });
  owner.postMessage(ready);
  // Node.js writes the compile cache only when a thread ends, and not at all if the process is killed.
  flushCompileCache();
}
