import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import { FairQueue } from '../lib/fair-queue.ts';
import type { Runtime } from '../lib/runtime.ts';
import { SharedBudget } from '../lib/shared-budget.ts';

/** The limits of calls that begin; of all connections of a listener. */
export interface NewCallLimits {
  /** The most calls that begin in one turn of the event loop: about 2 ms of work. */
  readonly perTurn: number;
  /** The most calls from one address whose body has not arrived yet. */
  readonly bodilessPerAddress: number;
  /** The most calls with one credential whose body has not arrived yet. */
  readonly bodilessPerCredential: number;
}

/** Calls of one connection that wait to begin, as many as it may have streams; more can only come from a client that ignores that limit. */
const waitingMax = 1_024;

/**
 * Begins the calls of a listener in turns, connections in rotation, so that a client that sends thousands of calls at once delays only its own, and one that cancels them at once makes hardly any work.
 */
export class NewCalls {
  readonly #queue: FairQueue<object>;
  readonly #addresses: SharedBudget<string>;
  readonly #credentials: SharedBudget<string>;

  constructor(
    { perTurn, bodilessPerAddress, bodilessPerCredential }: NewCallLimits,
    runtime: Pick<Runtime, 'monotonicMs'>,
  ) {
    this.#queue = new FairQueue(
      () => ({ sliceMs: 2, waitingMax, jobsMax: perTurn }),
      () => runtime.monotonicMs(),
    );
    this.#addresses = new SharedBudget(() => ({ max: Infinity, ownerMax: bodilessPerAddress }));
    this.#credentials = new SharedBudget(() => ({ max: Infinity, ownerMax: bodilessPerCredential }));
  }

  /** Calls `begin` when it is the call's turn, unless the caller has gone by then. Calls `refuse` if too many calls wait to begin, or for their bodies. */
  add(request: IncomingMessage, response: ServerResponse, begin: () => void, refuse: () => void): void {
    const isQueued = this.#queue.run(findConnection(request), () => {
      // Calls that were cancelled leave the queue as fast as they come, so that they don't pile up.
      if (isOver(request)) return false;
      if (this.#countBodiless(request, response)) begin();
      else refuse();
      return true;
    });
    if (!isQueued) refuse();
  }

  /** Counts a call until its body has arrived. Returns false if its address or its credential already has too many of them. */
  #countBodiless(request: IncomingMessage, response: ServerResponse): boolean {
    if (request.complete) return true;
    const { authorization = '', 'x-api-key': apiKey = '' } = request.headers;
    const address = request.socket.remoteAddress ?? '';
    const credential = `${authorization} ${String(apiKey)}`;
    if (this.#addresses.take(address, 1) !== 'taken') return false;
    if (this.#credentials.take(credential, 1) !== 'taken') {
      this.#addresses.give(address, 1);
      return false;
    }
    let isCounted = true;
    const arrived = (): void => {
      if (!isCounted) return;
      isCounted = false;
      this.#addresses.give(address, 1);
      this.#credentials.give(credential, 1);
    };
    request.once('end', arrived).once('close', arrived);
    response.once('close', arrived);
    return true;
  }
}

function findConnection(request: IncomingMessage | Http2ServerRequest): object {
  if (!('stream' in request)) return request.socket;
  const { session } = request.stream;
  return session ?? request;
}

function isOver(request: IncomingMessage | Http2ServerRequest): boolean {
  return 'stream' in request ? request.stream.destroyed : request.socket.destroyed;
}
