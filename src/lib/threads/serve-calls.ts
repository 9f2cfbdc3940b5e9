import { parentPort, receiveMessageOnPort } from 'node:worker_threads';

/** What a thread does for its `CallThread`. */
export interface CallService<Request, Reply> {
  /** The most requests of one `run`. */
  readonly batchMax: number;
  /** Returns a reply to each request, in their order. Throws only to end the thread. */
  run(batch: Request[]): Reply[];
  /** Called when nothing waits any more. */
  rest?(): void;
  /** Frees what the service has open, after its last reply. */
  end(): void;
}

/** Serves calls on this thread until it is told to end: as many as wait are one batch. `ready` is what the caller's `start` resolves with. */
export function serveCalls<Request, Reply>(service: CallService<Request, Reply>, ready: unknown): void {
  const port = parentPort;
  if (port === null) throw new Error('this is no thread of its own');
  const waiting: Request[] = [];
  let isEnding = false;
  const take = (message: Request[] | 'end'): void => {
    if (message === 'end') isEnding = true;
    else waiting.push(...message);
  };
  port.on('message', (first: Request[] | 'end') => {
    take(first);
    while (waiting.length > 0) {
      while (waiting.length < service.batchMax) {
        const more: { message: Request[] | 'end' } | undefined = receiveMessageOnPort(port);
        if (more === undefined) break;
        take(more.message);
      }
      port.postMessage(service.run(waiting.splice(0, service.batchMax)));
    }
    if (isEnding) {
      service.end();
      port.close();
    } else service.rest?.();
  });
  port.postMessage(ready);
}
