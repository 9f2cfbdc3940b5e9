/** A client in a process of its own. It gets orders (`OpenLoopOrder`) from its parent process, one after the other, and answers each with a `LoadResult`. */
import { openLoop, type Traffic } from '../load/load.ts';

/** A run that the parent process requests. The requests are in Latin-1, because a message between processes is JSON. */
export interface OpenLoopOrder {
  readonly port: number;
  readonly requests: readonly string[];
  /** Requests per second. */
  readonly rate: number;
  readonly seconds: number;
}

process.on('message', ({ port, requests, rate, seconds }: OpenLoopOrder) => {
  const traffic: Traffic = { port, requests: requests.map(request => Buffer.from(request, 'latin1')) };
  void openLoop(traffic, { rate, seconds }).then(({ failures, ...result }) => {
    process.send?.({ ...result, failures: [...failures] });
  });
});
